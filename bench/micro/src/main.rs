//! Sends requests of one kind to a whole node in the simulator, for tools that count instructions, allocations and
//! messages between cores.
//!
//! 1. One simulated node of `--shards` shards serves a table of five blobs. One client, with a connection to each shard
//!    through the shard-aware port, fills it with the same number of rows for each shard.
//! 2. The client sends `COUNT` requests of `KIND`, one after another, each to the shard that owns its key, or with
//!    `--misrouted` to the next shard.
//! 3. The program prints how many messages the shards sent each other for these requests.
//!
//! Two runs with different counts differ only by their requests, so `bench/micro/count` divides the difference of their
//! costs by the difference of their counts.
#![allow(clippy::print_stdout, reason = "a command line tool")]

mod counting;

use clap::{Parser, ValueEnum};
use model::Partitioner;
use model::ShardMap;
use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, ShardId};
use server::client::{Client, PreparedStatement, QueryOptions, Value};
use server::{Config, Node};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);
const SHARD_AWARE_PORT: u16 = 19042;
/// The client's source ports begin at the first multiple of the number of shards that is not below this.
const FIRST_SOURCE_PORT: u16 = 20_000;
const KEYS_PER_SHARD: u64 = 1000;
const BLOB_BYTES: usize = 34;
/// How long a run may take, virtual time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Kind {
    /// EXECUTE of an INSERT of a whole row.
    Write,
    /// EXECUTE of a SELECT of a whole row by its key.
    Read,
    /// QUERY of the same SELECT with its key as a value.
    Query,
}

/// Sends requests to a simulated node and prints how many messages its shards sent each other for them.
#[derive(Parser)]
struct Arguments {
    /// What to send.
    kind: Kind,
    /// How many.
    count: u64,
    /// Shards of the node.
    #[arg(long, env = "SHARDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: u16,
    /// Sends each request to the shard after the one that owns its key.
    #[arg(long)]
    misrouted: bool,
}

/// How far the client is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Stage {
    Filling,
    Asking,
    Done,
}

/// State that the client and the loop of the simulator share.
struct Run {
    arguments: Arguments,
    stage: Cell<Stage>,
    failure: RefCell<Option<String>>,
}

const INSERT: &str = "INSERT INTO b.t (k, c0, c1, c2, c3, c4) VALUES (?, ?, ?, ?, ?, ?)";
const SELECT: &str = "SELECT k, c0, c1, c2, c3, c4 FROM b.t WHERE k = ?";

/// A connection to each shard, and the map of keys to shards.
struct Connections {
    clients: Vec<Client>,
    map: ShardMap,
}

impl Connections {
    async fn open(shards: u16) -> Result<Connections, String> {
        let first = FIRST_SOURCE_PORT.next_multiple_of(shards);
        let mut clients = Vec::new();
        for shard in 0..shards {
            let address = SocketAddr::new(Sim::address_of(SERVER), SHARD_AWARE_PORT);
            let source = SocketAddr::new(Sim::address_of(CLIENT), first + shard);
            let client = Client::connect(address, Some(source), 4).await.map_err(|error| error.to_string())?;
            let reached = ("SCYLLA_SHARD".to_owned(), vec![shard.to_string()]);
            if !client.supported.contains(&reached) {
                return Err(format!("not shard {shard}: {:?}", client.supported));
            }
            clients.push(client);
        }
        Ok(Connections { clients, map: ShardMap::new(Partitioner::Murmur3, shards) })
    }

    /// The connection to the shard that comes `further` shards after the one that owns a key.
    fn to(&mut self, key: &[u8], further: usize) -> &mut Client {
        let owner = usize::from(self.map.owner(Partitioner::Murmur3.token(key)));
        let shard = (owner + further) % self.clients.len();
        &mut self.clients[shard]
    }
}

fn row(number: u64, key: &[u8]) -> QueryOptions {
    let blobs = (0..5).map(|column| Value::Bytes(vec![number as u8 ^ column; BLOB_BYTES]));
    let values = std::iter::once(Value::Bytes(key.to_vec())).chain(blobs).collect();
    QueryOptions { values, ..QueryOptions::default() }
}

fn by_key(key: &[u8]) -> QueryOptions {
    QueryOptions { values: vec![Value::Bytes(key.to_vec())], skip_metadata: true, ..QueryOptions::default() }
}

async fn work(run: &Run) -> Result<(), String> {
    let told = |error| format!("{error:?}");
    let Arguments { kind, count, shards, misrouted } = run.arguments;
    let mut connections = Connections::open(shards).await?;
    let client = &mut connections.clients[0];
    for text in [
        "CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE b.t (k blob PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)",
    ] {
        client.query(text, &QueryOptions::default()).await.map_err(told)?;
    }
    let insert: PreparedStatement = client.prepare(INSERT).await.map_err(told)?;
    let select: PreparedStatement = client.prepare(SELECT).await.map_err(told)?;
    let keys = KEYS_PER_SHARD * u64::from(shards);
    let key_of = |number: u64| format!("{:010}", number % keys).into_bytes();
    for number in 0..keys {
        let key = key_of(number);
        connections.to(&key, 0).execute(&insert, &row(number, &key)).await.map_err(told)?;
    }
    run.stage.set(Stage::Asking);
    for number in 0..count {
        let key = key_of(number);
        let client = connections.to(&key, usize::from(misrouted));
        let outcome = match kind {
            Kind::Write => client.execute(&insert, &row(number, &key)).await,
            Kind::Read => client.execute(&select, &by_key(&key)).await,
            Kind::Query => client.query(SELECT, &by_key(&key)).await,
        };
        let outcome = outcome.map_err(told)?;
        if outcome.rows.len() != usize::from(kind != Kind::Write) {
            return Err(format!("{kind:?} gave {outcome:?}"));
        }
    }
    run.stage.set(Stage::Done);
    Ok(())
}

/// Starts a simulator and waits until its node serves.
fn serving(shards: u16) -> Result<Sim, String> {
    let mut sim = Sim::new(1, Options::default());
    let address = Sim::address_of(SERVER);
    let options =
        [format!("listen_address={address}"), format!("rpc_address={address}"), "commitlog_sync=periodic".to_owned()];
    let mut config = Config::read("", &options).map_err(|error| error.to_string())?;
    config.node.directories = "/data".into();
    let ready: Arc<AtomicBool> = Arc::default();
    let set = ready.clone();
    let node = Node::simulated(config, usize::from(shards), move |_| set.store(true, Ordering::Relaxed));
    sim.start_node(SERVER, usize::from(shards), move |shard: ShardId| {
        let node = node.clone();
        async move {
            node.run(shard).await;
        }
    });
    match sim.run_until(PATIENCE, || ready.load(Ordering::Relaxed)) {
        Stop::Condition => Ok(sim),
        stop => Err(format!("the node did not start: {stop:?}")),
    }
}

/// Runs the requests. Returns how many messages the shards sent each other for them.
fn messages(arguments: Arguments) -> Result<u64, String> {
    let mut sim = serving(arguments.shards)?;
    let run = Rc::new(Run { arguments, stage: Cell::new(Stage::Filling), failure: RefCell::default() });
    let shared = run.clone();
    sim.start_node(CLIENT, 1, move |_| {
        let run = shared.clone();
        async move {
            if let Err(failure) = work(&run).await {
                *run.failure.borrow_mut() = Some(failure);
            }
        }
    });
    let mut at = |stage| {
        while sim.is_running(CLIENT) && run.stage.get() < stage && sim.step() {}
        sim.messages(SERVER)
    };
    let (before, after) = (at(Stage::Asking), at(Stage::Done));
    match run.failure.take() {
        Some(failure) => Err(failure),
        None if run.stage.get() < Stage::Done => Err("the client did not end".into()),
        None => Ok(after - before),
    }
}

fn main() -> ExitCode {
    match messages(Arguments::parse()) {
        Ok(messages) => {
            println!("{messages} messages between cores");
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}
