//! Sends requests of one kind to whole nodes in the simulator, for tools that count instructions, allocations, messages
//! between cores and bytes between nodes.
//!
//! 1. `--nodes` simulated nodes of `--shards` shards serve a table of five blobs, of which each node has a replica. One
//!    client, with a connection to each shard of the first node through the shard-aware port, fills it with the same
//!    number of rows for each shard.
//! 2. The client sends `COUNT` requests of `KIND` to that node, one after another, each to the shard that owns its key,
//!    or with `--misrouted` to the next shard. With several nodes they are at LOCAL_QUORUM.
//! 3. The program prints how many messages the shards of the first node sent each other for these requests, and how
//!    many bytes it sent to the other nodes and got from them.
//!
//! What the first node does is done within [`coordinate`], what the others do within [`replicate`]. Two runs with
//! different counts differ only by their requests, so `bench/micro/count` and `bench/micro/count_nodes` divide the
//! difference of their costs by the difference of their counts.
#![allow(clippy::print_stdout, reason = "a command line tool")]

mod counting;

use clap::{Parser, ValueEnum};
use model::{Consistency, Partitioner, ShardMap};
use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, ShardId};
use server::client::{Client, PreparedStatement, QueryOptions, Value};
use server::{Config, Node};
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(u16::MAX as u32);
const SHARD_AWARE_PORT: u16 = 19042;
/// The client's source ports begin at the first multiple of the number of shards that is not below this.
const FIRST_SOURCE_PORT: u16 = 20_000;
const KEYS_PER_SHARD: u64 = 1000;
const BLOB_BYTES: usize = 34;
/// How long a run may take, virtual time.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long several nodes wait until gossip has told each of them of the others.
const SETTLING: Duration = Duration::from_secs(30);
/// Latencies of disks and network if there are several nodes: so short that what nodes do every second hardly counts.
const LATENCY: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(40));

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Kind {
    /// EXECUTE of an INSERT of a whole row.
    Write,
    /// EXECUTE of a SELECT of a whole row by its key.
    Read,
    /// QUERY of the same SELECT with its key as a value.
    Query,
    /// EXECUTE of an UPDATE of one column with IF EXISTS.
    Lwt,
}

/// Sends requests to simulated nodes and prints what was sent between cores and between nodes for them.
#[derive(Parser)]
struct Arguments {
    /// What to send.
    kind: Kind,
    /// How many.
    count: u64,
    /// Nodes, each of which has a replica of every row.
    #[arg(long, env = "NODES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Shards of each node.
    #[arg(long, env = "SHARDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: u16,
    /// Sends each request to the shard after the one that owns its key.
    #[arg(long)]
    misrouted: bool,
    /// Cuts the table into so many tablets.
    #[arg(long, env = "TABLETS", value_parser = clap::value_parser!(u16).range(1..))]
    tablets: Option<u16>,
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
const UPDATE: &str = "UPDATE b.t SET c0 = ? WHERE k = ? IF EXISTS";

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

/// Builds the options of requests.
#[derive(Clone, Copy)]
struct Asking {
    consistency: Consistency,
}

impl Asking {
    fn of(nodes: u16) -> Asking {
        Asking { consistency: if nodes == 1 { Consistency::One } else { Consistency::LocalQuorum } }
    }

    fn with(self, values: Vec<Value>) -> QueryOptions {
        QueryOptions { consistency: self.consistency, values, ..QueryOptions::default() }
    }

    fn row(self, number: u64, key: &[u8]) -> QueryOptions {
        let blobs = (0..5).map(|column| Value::Bytes(vec![number as u8 ^ column; BLOB_BYTES]));
        self.with(std::iter::once(Value::Bytes(key.to_vec())).chain(blobs).collect())
    }

    fn by_key(self, key: &[u8]) -> QueryOptions {
        QueryOptions { skip_metadata: true, ..self.with(vec![Value::Bytes(key.to_vec())]) }
    }

    fn update(self, number: u64, key: &[u8]) -> QueryOptions {
        self.with(vec![Value::Bytes(vec![number as u8; BLOB_BYTES]), Value::Bytes(key.to_vec())])
    }
}

async fn work(run: &Run) -> Result<(), String> {
    let told = |error| format!("{error:?}");
    let Arguments { kind, count, nodes, shards, misrouted, tablets } = run.arguments;
    let asking = Asking::of(nodes);
    let mut connections = Connections::open(shards).await?;
    let client = &mut connections.clients[0];
    let tablets = tablets.map_or_else(String::new, |count| format!(" AND tablets = {{'initial': {count}}}"));
    for text in [
        &format!(
            "CREATE KEYSPACE b WITH replication = {{'class': 'NetworkTopologyStrategy', 'replication_factor': {nodes}}}{tablets}"
        ),
        "CREATE TABLE b.t (k blob PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)",
    ] {
        client.query(text, &QueryOptions::default()).await.map_err(told)?;
    }
    let insert: PreparedStatement = client.prepare(INSERT).await.map_err(told)?;
    let select: PreparedStatement = client.prepare(SELECT).await.map_err(told)?;
    let update: PreparedStatement = client.prepare(UPDATE).await.map_err(told)?;
    let keys = KEYS_PER_SHARD * u64::from(shards);
    let key_of = |number: u64| format!("{:010}", number % keys).into_bytes();
    for number in 0..keys {
        let key = key_of(number);
        connections.to(&key, 0).execute(&insert, &asking.row(number, &key)).await.map_err(told)?;
    }
    run.stage.set(Stage::Asking);
    for number in 0..count {
        let key = key_of(number);
        let client = connections.to(&key, usize::from(misrouted));
        let outcome = match kind {
            Kind::Write => client.execute(&insert, &asking.row(number, &key)).await,
            Kind::Read => client.execute(&select, &asking.by_key(&key)).await,
            Kind::Query => client.query(SELECT, &asking.by_key(&key)).await,
            Kind::Lwt => client.execute(&update, &asking.update(number, &key)).await,
        };
        let outcome = outcome.map_err(told)?;
        if outcome.rows.len() != usize::from(kind != Kind::Write) {
            return Err(format!("{kind:?} gave {outcome:?}"));
        }
    }
    run.stage.set(Stage::Done);
    Ok(())
}

/// Runs one poll of the first node's tasks.
#[inline(never)]
fn coordinate(poll: &mut dyn FnMut()) {
    // Keeps the compiler from merging this function with another one of the same instructions.
    black_box("coordinate");
    poll();
}

/// Runs one poll of another node's tasks.
#[inline(never)]
fn replicate(poll: &mut dyn FnMut()) {
    black_box("replicate");
    poll();
}

/// Starts a simulator and waits until its nodes serve.
fn serving(nodes: u16, shards: u16) -> Result<Sim, String> {
    let options = match nodes {
        1 => Options::default(),
        _ => Options {
            disk_latency: LATENCY,
            network_latency: LATENCY,
            clock_skew: Duration::ZERO,
            buggify: false,
            ..Options::default()
        },
    };
    let mut sim = Sim::new(1, options);
    for number in 0..nodes {
        start(&mut sim, NodeId(u32::from(number)), shards)?;
    }
    if nodes > 1 {
        sim.run_until(SETTLING, || false);
    }
    Ok(sim)
}

/// Starts a node and waits until it serves.
fn start(sim: &mut Sim, id: NodeId, shards: u16) -> Result<(), String> {
    let (address, seed) = (Sim::address_of(id), Sim::address_of(SERVER));
    let options = [
        format!("listen_address={address}"),
        format!("rpc_address={address}"),
        "commitlog_sync=periodic".to_owned(),
        "endpoint_snitch=GossipingPropertyFileSnitch".to_owned(),
    ];
    let yaml =
        format!("seed_provider:\n  - class_name: SimpleSeedProvider\n    parameters:\n      - seeds: \"{seed}\"\n");
    let mut config = Config::read(&yaml, &options).map_err(|error| error.to_string())?;
    let place = |_: &str| Ok(Some("dc=dc1\nrack=rack1".to_owned()));
    config.discover(&place, &|_| None, &|_, _| Err("no cloud".into())).map_err(|error| error.to_string())?;
    config.node.directories = "/data".into();
    let ready: Arc<AtomicBool> = Arc::default();
    let set = ready.clone();
    let node = Node::simulated(config, usize::from(shards), move |_| set.store(true, Ordering::Relaxed));
    sim.start_node(id, usize::from(shards), move |shard: ShardId| {
        let node = node.clone();
        async move {
            node.run(shard).await;
        }
    });
    sim.poll_through(id, if id == SERVER { coordinate } else { replicate });
    match sim.run_until(PATIENCE, || ready.load(Ordering::Relaxed)) {
        Stop::Condition => Ok(()),
        stop => Err(format!("node {} did not start: {stop:?}", id.0)),
    }
}

/// What was sent for the requests.
struct Traffic {
    /// Messages between the shards of the first node.
    messages: u64,
    /// Bytes that the first node sent to the others.
    to_replicas: u64,
    /// Bytes that the others sent to the first node.
    from_replicas: u64,
}

impl Traffic {
    /// Since the start of the nodes.
    fn so_far(sim: &Sim, nodes: u16) -> Traffic {
        let others = || (1..nodes).map(|number| NodeId(u32::from(number)));
        Traffic {
            messages: sim.messages(SERVER),
            to_replicas: others().map(|node| sim.bytes(SERVER, node)).sum(),
            from_replicas: others().map(|node| sim.bytes(node, SERVER)).sum(),
        }
    }
}

/// Runs the requests.
fn traffic(arguments: Arguments) -> Result<Traffic, String> {
    let nodes = arguments.nodes;
    let mut sim = serving(nodes, arguments.shards)?;
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
        Traffic::so_far(&sim, nodes)
    };
    let (before, after) = (at(Stage::Asking), at(Stage::Done));
    match run.failure.take() {
        Some(failure) => Err(failure),
        None if run.stage.get() < Stage::Done => Err("the client did not end".into()),
        None => Ok(Traffic {
            messages: after.messages - before.messages,
            to_replicas: after.to_replicas - before.to_replicas,
            from_replicas: after.from_replicas - before.from_replicas,
        }),
    }
}

fn main() -> ExitCode {
    match traffic(Arguments::parse()) {
        Ok(Traffic { messages, to_replicas, from_replicas }) => {
            println!("{messages} messages between cores");
            println!("{to_replicas} bytes to other nodes, {from_replicas} from them");
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}
