//! Measures streaming between two processes of one core each over loopback: MB of files per CPU-second of both
//! together. Rows have 1 KiB, half of which is random hexadecimal digits.
//!
//! `cargo bench -p micro --bench stream_nodes`; `ROWS` sets the number of rows, `ROUNDS` how often, `DIRECTORY` a place
//! on a real disk, `FIRST` and `SECOND` the addresses. The program starts itself twice: one process has the rows, the
//! other one fetches them and reads the CPU time of both.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement")]

use cluster::topology::{Node, features};
use internode::{Handler, Identity, Lane, Links, Options, PeerIdentity, Refusal, Replier, Versions};
use model::{Consistency, QueryParameters, RingToken, TokenRange};
use runtime::{Instant, Listener, Mesh, uring};
use shard::{
    Config, Notifier, PeerCall, PeerFailure, PeerLane, Peers, SchemaChange, Session, Shard, StreamOperation,
    StreamPart, StreamPlan, TableVerb, Verb,
};
use std::cell::OnceCell;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

const VALUE_BYTES: usize = 1 << 10;
const PARTS: u64 = 4;
const PORT: u16 = 7000;

fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

fn number(name: &str, default: u64) -> u64 {
    variable(name, "").parse().unwrap_or(default)
}

/// Which process this is: the one that has the rows, or the one that fetches them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Source,
    Receiver,
}

impl Role {
    fn name(self) -> &'static str {
        if self == Role::Source { "source" } else { "receiver" }
    }

    fn address(self) -> IpAddr {
        let text = match self {
            Role::Source => variable("FIRST", "127.0.0.11"),
            Role::Receiver => variable("SECOND", "127.0.0.12"),
        };
        text.parse().expect("an address")
    }

    fn other(self) -> Role {
        if self == Role::Source { Role::Receiver } else { Role::Source }
    }
}

/// Seconds of CPU time that a process has used.
fn cpu_seconds(process: u32) -> f64 {
    let nanoseconds = std::fs::read_dir(format!("/proc/{process}/task")).expect("threads").filter_map(|thread| {
        let times = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e9
}

/// A value of which half is random hexadecimal digits and half one byte repeated, as a literal.
fn literal(row: u64) -> String {
    let mut state = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mut text = String::from("0x");
    while text.len() < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}").bytes().for_each(|digit| {
            let _ = write!(text, "{digit:02x}");
        });
    }
    while text.len() < 2 + 2 * VALUE_BYTES {
        let _ = write!(text, "{:02x}", row as u8);
    }
    text
}

struct Silent;

impl Notifier for Silent {
    fn schema_changed(&self, _: &SchemaChange) {}
}

/// The links of the process, once they are open.
#[derive(Clone, Default)]
struct Loopback(Rc<OnceCell<Links>>);

impl Peers for Loopback {
    fn call(&self, to: &Node, _: PeerLane, verb: Verb, body: &[u8], deadline: Instant) -> PeerCall {
        let Some(links) = self.0.get() else { return Box::pin(std::future::ready(Err(PeerFailure::NotSent))) };
        let call = links.call(to.address, Lane::Bulk, verb as u8, body, deadline);
        Box::pin(async move { call.await.map_err(|_| PeerFailure::NoAnswer) })
    }

    fn post(&self, _: &Node, _: PeerLane, _: Verb, _: Vec<u8>) {}
}

struct Requests(Shard);

impl Handler for Requests {
    fn encrypts_to(&self, _: std::net::SocketAddr) -> bool {
        false
    }

    fn accept_peer(&self, _: &PeerIdentity) -> Result<(), Refusal> {
        Ok(())
    }

    fn serve(&self, from: &Rc<PeerIdentity>, _: Lane, verb: u8, body: &[u8], reply: Replier) {
        let (shard, from, body) = (self.0.clone(), from.identity.host_id, body.to_vec());
        runtime::spawn(async move {
            match shard.serve_peer(from, verb, body).await {
                Ok(answer) => reply.send(&answer),
                Err(shard::Unreadable) => reply.refuse(),
            }
        });
    }
}

async fn run(shard: &Shard, text: &str) {
    let parameters = QueryParameters::new(Consistency::One);
    shard.query(&Session::default(), text, &parameters).await.unwrap_or_else(|failure| panic!("{text:.80}: {failure}"));
}

/// Waits for a file that the other process writes.
async fn awaited(path: &Path) -> String {
    loop {
        if let Ok(text) = std::fs::read_to_string(path)
            && text.ends_with('\n')
        {
            return text.trim().to_owned();
        }
        runtime::sleep(Duration::from_millis(20)).await;
    }
}

/// Starts the node of a role. It knows the other one, and the source owns everything.
async fn start(role: Role, directory: &Path) -> Shard {
    let mut config = Config {
        directories: directory.join(role.name()).as_path().into(),
        listen_address: role.address(),
        num_tokens: 1,
        memory_bytes: 1 << 30,
        auto_snapshot: false,
        ..Config::default()
    };
    config.hints.enabled = false;
    let streams = &mut config.streams;
    (streams.throughput, streams.whole_throughput) = (0, 0);
    std::fs::create_dir_all(config.directories.first()).expect("a directory");
    let (mesh, peers) = (Mesh::new(1, shard::MAILBOX_MESSAGES_MAX), Loopback::default());
    let shard = Shard::start(config, mesh, Rc::new(Silent), Rc::new(peers.clone())).await.expect("a shard that starts");
    let topology = shard.topology();
    let own = topology.node(topology.here()).clone();
    let address = SocketAddr::new(role.address(), PORT);
    let identity = Identity {
        cluster_name: "bench".into(),
        cluster_id: None,
        host_id: own.host_id,
        address,
        data_center: own.data_center.clone(),
        rack: own.rack.clone(),
        shard: runtime::current_shard(),
        shards: 1,
        ignore_msb: 12,
        versions: Versions { min: 1, max: 1 },
        features: features::ALL,
    };
    let options = Options { source: Some(role.address()), ..Options::default() };
    let links = Links::new(options, identity, Rc::new(Requests(shard.clone())));
    let listener = Listener::bind(address).await.expect("a free port");
    let _ = peers.0.set(links.clone());
    runtime::spawn(async move {
        while let Ok(accepted) = listener.accept().await {
            links.attach(accepted, internode::Encryption::Off);
        }
    });
    let told = directory.join(format!("{}.id", role.name()));
    std::fs::write(told, format!("{} {}\n", own.host_id, std::process::id())).expect("written");
    let other = other_id(role, directory).await.0;
    let member = |of: Role, host_id: Uuid| Node {
        host_id,
        address: SocketAddr::new(of.address(), PORT),
        tokens: if of == Role::Source { vec![RingToken::Murmur3(0)] } else { Vec::new() },
        ..own.clone()
    };
    let mut members = vec![member(role, own.host_id), member(role.other(), other)];
    members.sort_by_key(|member| member.host_id);
    shard.switch_topology(members, 1 << 40).await.expect("both are members");
    run(&shard, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
    run(
        &shard,
        "CREATE TABLE k.t (k bigint PRIMARY KEY, v blob) WITH id = 00000001-0000-1000-8000-000000000000 \
         AND compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}",
    )
    .await;
    shard
}

/// The host id and the process of the other node.
async fn other_id(role: Role, directory: &Path) -> (Uuid, u32) {
    let text = awaited(&directory.join(format!("{}.id", role.other().name()))).await;
    let (host_id, process) = text.split_once(' ').expect("two words");
    (host_id.parse().expect("a host id"), process.parse().expect("a number"))
}

/// Has the rows until the other process has fetched them.
async fn source(directory: PathBuf, rows: u64) {
    let shard = start(Role::Source, &directory).await;
    for part in 0..PARTS {
        for row in part * rows / PARTS..(part + 1) * rows / PARTS {
            run(&shard, &format!("INSERT INTO k.t (k, v) VALUES ({row}, {})", literal(row))).await;
        }
        shard.on_every_shard(TableVerb::FlushAll).await.expect("flushed");
    }
    std::fs::write(directory.join("filled"), "yes\n").expect("written");
    awaited(&directory.join("done")).await;
}

async fn receiver(directory: PathBuf, rounds: u64) {
    let shard = start(Role::Receiver, &directory).await;
    let (source, process) = other_id(Role::Receiver, &directory).await;
    awaited(&directory.join("filled")).await;
    let half = TokenRange::between(RingToken::Murmur3(i64::MIN), RingToken::Murmur3(0));
    for round in 0..rounds {
        for (name, range) in [("whole files", TokenRange::FULL), ("half of the ring", half.clone())] {
            let part = StreamPart { source, keyspace: "k".into(), tables: None, ranges: vec![range.clone()] };
            let id = Uuid::from_u128(u128::from(round) * 2 + u128::from(range == TokenRange::FULL));
            let plan = StreamPlan { id, operation: StreamOperation::Rebuild, parts: vec![part] };
            let before = (cpu_seconds(process), cpu_seconds(std::process::id()), std::time::Instant::now());
            let summary = shard.fetch(plan).await.unwrap_or_else(|error| panic!("{error}"));
            let took = before.2.elapsed().as_secs_f64();
            let (sending, receiving) = (cpu_seconds(process) - before.0, cpu_seconds(std::process::id()) - before.1);
            let megabytes = summary.bytes as f64 / 1e6;
            println!(
                "{name}: {megabytes:.1} MB in {took:.2} s; CPU-seconds {sending:.3} sending, {receiving:.3} receiving: \
                 {:.0} MB per CPU-second of both",
                megabytes / (sending + receiving)
            );
        }
    }
    std::fs::write(directory.join("done"), "yes\n").expect("written");
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick" || argument == "--test");
    let rows = number("ROWS", if quick { 2_000 } else { 400_000 });
    let rounds = number("ROUNDS", if quick { 1 } else { 3 });
    if let Some(role) = std::env::var_os("STREAM_ROLE") {
        let directory = PathBuf::from(variable("STREAM_DIRECTORY", ""));
        let role = if role == "source" { Role::Source } else { Role::Receiver };
        let ran = uring::run(uring::Options::default(), move |_| {
            let directory = directory.clone();
            async move {
                match role {
                    Role::Source => source(directory, rows).await,
                    Role::Receiver => receiver(directory, rounds).await,
                }
            }
        });
        ran.expect("the node ran");
        return;
    }
    let directory = tempfile::tempdir_in(variable("DIRECTORY", "/tmp")).expect("a directory");
    let program = std::env::current_exe().expect("this program");
    let begin = |role: Role| {
        let mut command = Command::new(&program);
        command.env("STREAM_ROLE", role.name()).env("STREAM_DIRECTORY", directory.path());
        command.env("ROWS", rows.to_string()).env("ROUNDS", rounds.to_string());
        command.spawn().expect("started")
    };
    let (mut source, mut receiver) = (begin(Role::Source), begin(Role::Receiver));
    let fetched = receiver.wait().expect("an end");
    if !fetched.success() {
        let _ = source.kill();
    }
    let _ = source.wait();
    assert!(fetched.success(), "the receiver failed");
}
