//! The deterministic simulator: many nodes and shards on one thread, virtual time, one seed.
//!
//! A run is a queue of events ordered by virtual time; ties and ready tasks are picked by the seeded generator. Every
//! event and every completed operation is folded into a trace hash: equal seeds give equal hashes.

pub mod disk;
pub mod mesh;
pub mod network;

use crate::mesh::{NodeId, ShardId};
use crate::time::Instant;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// What may go wrong in a run. Probabilities are per operation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Latency of a disk operation, uniform between the two.
    pub disk_latency: (Duration, Duration),
    /// Latency of the network, one way, uniform between the two.
    pub network_latency: (Duration, Duration),
    /// Latency of a message between shards of a node.
    pub mesh_latency: (Duration, Duration),
    /// Chance that a read, write or sync fails with EIO.
    pub disk_error: f64,
    /// Bytes of disk per node; a write beyond fails with ENOSPC.
    pub disk_bytes: u64,
    /// Chance that a connection is reset at a segment.
    pub network_reset: f64,
    /// Whether `buggify` sites may fire.
    pub buggify: bool,
    /// Most a node's wall clock is off true time, either way.
    pub clock_skew: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            disk_latency: (Duration::from_micros(20), Duration::from_millis(2)),
            network_latency: (Duration::from_micros(20), Duration::from_millis(2)),
            mesh_latency: (Duration::ZERO, Duration::from_micros(50)),
            disk_error: 0.0,
            disk_bytes: 1 << 30,
            network_reset: 0.0,
            buggify: true,
            clock_skew: Duration::from_secs(1),
        }
    }
}

/// How [`Sim::run_until`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The condition became true.
    Condition,
    /// Virtual time reached the limit.
    Deadline,
    /// Nothing is left to happen.
    Idle,
}

/// One simulated world. Not `Send`: a run lives on the thread that made it.
pub struct Sim {}

impl Sim {
    /// A world of `seed`.
    pub fn new(seed: u64, options: Options) -> Sim {
        let _ = (seed, options);
        todo!()
    }

    /// Starts node `id` with `shards` shards, each running `main`. The node's disk outlives the node; a second start
    /// after a crash or a stop finds what was durable. `address_of(id)` is the node's only IP address.
    pub fn start_node<F, Fut>(&mut self, id: NodeId, shards: usize, main: F)
    where
        F: Fn(ShardId) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let _ = (id, shards, main);
        todo!()
    }

    /// The IPv4 address of a node's sockets: 127.1.x.y of its id.
    pub fn address_of(id: NodeId) -> std::net::IpAddr {
        let _ = id;
        todo!()
    }

    /// Kills a node at once: unsynced writes are lost, torn or kept by the seed, connections break at the peers.
    pub fn crash(&mut self, id: NodeId) {
        let _ = id;
        todo!()
    }

    /// Asks a node to stop in order (`signal::terminated` completes there).
    pub fn terminate(&mut self, id: NodeId) {
        let _ = id;
        todo!()
    }

    /// Whether any shard of the node still runs its `main`.
    pub fn is_running(&self, id: NodeId) -> bool {
        let _ = id;
        todo!()
    }

    /// Runs until `done` is true (asked after every event), virtual time has advanced by `limit`, or nothing is left.
    pub fn run_until(&mut self, limit: Duration, done: impl FnMut() -> bool) -> Stop {
        let _ = (limit, done);
        todo!()
    }

    /// Runs exactly one event (a task poll, a completion, a delivery, a timer); false when nothing is left. For
    /// crashing between any two steps.
    pub fn step(&mut self) -> bool {
        todo!()
    }

    /// Events so far.
    pub fn steps(&self) -> u64 {
        todo!()
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        todo!()
    }

    /// The hash of everything that happened so far.
    pub fn trace_hash(&self) -> u64 {
        todo!()
    }

    /// Cuts (true) or heals (false) the network between two nodes, both ways.
    pub fn partition(&mut self, a: NodeId, b: NodeId, cut: bool) {
        let _ = (a, b, cut);
        todo!()
    }

    /// Changes what may go wrong from here on.
    pub fn set_options(&mut self, options: Options) {
        let _ = options;
        todo!()
    }

    /// Wipes a node's disk (the node must not run).
    pub fn wipe(&mut self, id: NodeId) {
        let _ = id;
        todo!()
    }
}

pub(crate) struct Shard {}

impl Shard {
    pub(crate) fn monotonic(&self) -> Instant {
        todo!()
    }
    pub(crate) fn wall_micros(&self) -> i64 {
        todo!()
    }
    pub(crate) fn random(&self) -> u64 {
        todo!()
    }
    pub(crate) fn terminated(&self) -> Terminated {
        todo!()
    }
    pub(crate) fn buggify(&self, _site: &'static str) -> bool {
        todo!()
    }
    pub(crate) fn reached(&self, _site: &'static str) {
        todo!()
    }
}

pub(crate) struct Terminated {}
impl Future for Terminated {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        todo!()
    }
}
