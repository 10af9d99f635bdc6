//! Requests of one kind against a whole node in the simulator, for tools that count instructions and allocations.
//!
//! 1. One simulated node with one shard serves a table of five blobs; one client fills it.
//! 2. The client sends `COUNT` requests of `KIND`, one after the other.
//!
//! Two runs with different counts differ by nothing but those requests: `bench/micro/count` divides the difference.
#![allow(clippy::print_stdout, reason = "a command line tool")]

mod counting;

use clap::{Parser, ValueEnum};
use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, ShardId};
use server::client::{Client, PreparedStatement, QueryOptions, Value};
use server::{Config, Node};
use std::cell::Cell;
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
const PORT: u16 = 9042;
const KEYS: u64 = 1000;
const BLOB_BYTES: usize = 34;
/// Longest a run may take, virtual time.
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

/// Sends requests to a simulated node.
#[derive(Parser)]
struct Arguments {
    /// What to send.
    kind: Kind,
    /// How many.
    count: u64,
}

const INSERT: &str = "INSERT INTO b.t (k, c0, c1, c2, c3, c4) VALUES (?, ?, ?, ?, ?, ?)";
const SELECT: &str = "SELECT k, c0, c1, c2, c3, c4 FROM b.t WHERE k = ?";

fn key(number: u64) -> Value {
    Value::Bytes(format!("{:010}", number % KEYS).into_bytes())
}

fn row(number: u64) -> QueryOptions {
    let blobs = (0..5).map(|column| Value::Bytes(vec![number as u8 ^ column; BLOB_BYTES]));
    QueryOptions { values: std::iter::once(key(number)).chain(blobs).collect(), ..QueryOptions::default() }
}

fn by_key(number: u64) -> QueryOptions {
    QueryOptions { values: vec![key(number)], skip_metadata: true, ..QueryOptions::default() }
}

async fn work(address: SocketAddr, arguments: &Arguments) -> Result<(), String> {
    let told = |error| format!("{error:?}");
    let mut client = Client::connect(address, None, 4).await.map_err(|error| error.to_string())?;
    for text in [
        "CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE b.t (k blob PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)",
    ] {
        client.query(text, &QueryOptions::default()).await.map_err(told)?;
    }
    let insert: PreparedStatement = client.prepare(INSERT).await.map_err(told)?;
    let select: PreparedStatement = client.prepare(SELECT).await.map_err(told)?;
    for number in 0..KEYS {
        client.execute(&insert, &row(number)).await.map_err(told)?;
    }
    for number in 0..arguments.count {
        let outcome = match arguments.kind {
            Kind::Write => client.execute(&insert, &row(number)).await,
            Kind::Read => client.execute(&select, &by_key(number)).await,
            Kind::Query => client.query(SELECT, &by_key(number)).await,
        };
        let outcome = outcome.map_err(told)?;
        if outcome.rows.len() != usize::from(arguments.kind != Kind::Write) {
            return Err(format!("{:?} gave {outcome:?}", arguments.kind));
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Rc::new(Arguments::parse());
    let mut sim = Sim::new(1, Options::default());
    let address = Sim::address_of(SERVER);
    let options =
        [format!("listen_address={address}"), format!("rpc_address={address}"), "commitlog_sync=periodic".to_owned()];
    let mut config = match Config::read("", &options) {
        Ok(config) => config,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    config.directory = "/data".into();
    let ready: Arc<AtomicBool> = Arc::default();
    let serving = ready.clone();
    let node = Node::simulated(config, 1, move |_| serving.store(true, Ordering::Relaxed));
    sim.start_node(SERVER, 1, move |shard: ShardId| {
        let node = node.clone();
        async move {
            node.run(shard).await;
        }
    });
    if sim.run_until(PATIENCE, || ready.load(Ordering::Relaxed)) != Stop::Condition {
        println!("the node did not start");
        return ExitCode::FAILURE;
    }
    let done: Rc<Cell<Option<Result<(), String>>>> = Rc::default();
    let told = done.clone();
    sim.start_node(CLIENT, 1, move |_| {
        let (told, arguments) = (told.clone(), arguments.clone());
        async move { told.set(Some(work(SocketAddr::new(address, PORT), &arguments).await)) }
    });
    while sim.is_running(CLIENT) {
        if !sim.step() {
            break;
        }
    }
    match done.take() {
        Some(Ok(())) => ExitCode::SUCCESS,
        other => {
            println!("{other:?}");
            ExitCode::FAILURE
        }
    }
}
