//! Clients that send small requests at a steady pace, each through one node, and say how long each took.
//!
//! Rows have a client's own keys, so that conditional changes do not compete. Requests at ALL have clients and a table
//! of their own: how long a node waits before it asks further replicas follows from the latencies of the table, and is
//! long where most requests cannot do without a slow node.

use crate::judges::slowness::Latencies;
use model::Consistency;
use runtime::rng;
use server::client::{CallError, Client, QueryOptions, Value};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// CREATE statements; both tables have this `speculative_retry`.
pub(crate) fn create(speculative_retry: &str) -> [String; 3] {
    let table = |name| {
        format!("CREATE TABLE {name} (k int PRIMARY KEY, v blob) WITH speculative_retry = '{speculative_retry}'")
    };
    [
        "CREATE KEYSPACE steady WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}".to_owned(),
        table("steady.t"),
        table("steady.at_all"),
    ]
}

/// Keys of each client.
const KEYS: u64 = 20;
const VALUE_BYTES: usize = 200;
/// Longest rest of a client between two requests; it is half of that on average.
const REST_MICROS_MAX: u64 = 20_000;
/// One of so many clients sends requests at ALL.
const AT_ALL: u64 = 3;

/// What a request was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// A read at QUORUM.
    Read,
    /// A write at QUORUM.
    Write,
    /// A conditional change at SERIAL and QUORUM.
    Decision,
    /// A write at ALL.
    WriteAll,
    /// A read at ALL.
    ReadAll,
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) kind: Kind,
    /// When it was sent, virtual nanoseconds.
    pub(crate) began: u64,
    pub(crate) took: Duration,
    /// Why it failed.
    pub(crate) error: Option<String>,
}

/// What the clients of a run share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) ended: Vec<Ended>,
    /// Tells clients to leave.
    pub(crate) stop: bool,
    /// How many clients have left.
    pub(crate) left: usize,
}

impl Shared {
    /// The latencies of requests of a kind that began within a time.
    pub(crate) fn latencies(&self, kind: Kind, within: std::ops::Range<u64>) -> Latencies {
        let mut latencies = Latencies::default();
        let of = self.ended.iter().filter(|ended| ended.kind == kind && within.contains(&ended.began));
        of.for_each(|ended| latencies.add(ended.took));
        latencies
    }
}

/// Sends requests to `server` until it is told to stop.
pub(crate) async fn client(number: u64, server: SocketAddr, shared: Rc<RefCell<Shared>>) {
    let mut connection = None;
    while !shared.borrow().stop {
        runtime::sleep(Duration::from_micros(rng::below(REST_MICROS_MAX))).await;
        let mut client = match connection.take() {
            Some(client) => client,
            None => match Client::connect(server, None, 5).await {
                Ok(client) => client,
                Err(_) => continue,
            },
        };
        let key = (number * KEYS + rng::below(KEYS)) as i32;
        let kind = match rng::below(8) {
            which if number.is_multiple_of(AT_ALL) && which.is_multiple_of(2) => Kind::ReadAll,
            _ if number.is_multiple_of(AT_ALL) => Kind::WriteAll,
            0 => Kind::Decision,
            which if which % 2 == 0 => Kind::Read,
            _ => Kind::Write,
        };
        let began = runtime::now();
        let result = send(&mut client, kind, key).await;
        let error = match &result {
            Ok(()) => None,
            Err(CallError::Failure { text, .. }) => Some(text.clone()),
            Err(CallError::Broken(error)) => Some(error.to_string()),
        };
        if !matches!(result, Err(CallError::Broken(_))) {
            connection = Some(client);
        }
        let ended = Ended { kind, began: began.0, took: runtime::now().since(began), error };
        shared.borrow_mut().ended.push(ended);
    }
    shared.borrow_mut().left += 1;
}

async fn send(client: &mut Client, kind: Kind, key: i32) -> Result<(), CallError> {
    let consistency = match kind {
        Kind::WriteAll | Kind::ReadAll => Consistency::All,
        _ => Consistency::Quorum,
    };
    let key = Value::Bytes(key.to_be_bytes().to_vec());
    let value = Value::Bytes(vec![rng::below(256) as u8; VALUE_BYTES]);
    let (text, values) = match kind {
        Kind::Read => ("SELECT v FROM steady.t WHERE k = ?", vec![key]),
        Kind::ReadAll => ("SELECT v FROM steady.at_all WHERE k = ?", vec![key]),
        Kind::Write => ("INSERT INTO steady.t (k, v) VALUES (?, ?)", vec![key, value]),
        Kind::WriteAll => ("INSERT INTO steady.at_all (k, v) VALUES (?, ?)", vec![key, value]),
        Kind::Decision => ("UPDATE steady.t SET v = ? WHERE k = ? IF EXISTS", vec![value, key]),
    };
    let options = QueryOptions { consistency, values, ..QueryOptions::default() };
    client.query(text, &options).await.map(drop)
}
