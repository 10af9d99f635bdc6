//! The production backend: one thread and one io_uring per shard.
//!
//! Loop: reap completions, run tasks, flush dirty connections, publish cross-core queues, submit and wait; before
//! sleeping spin on memory (completion queue, `SQ_TASKRUN`, queue tails, inbox).

pub mod disk;
pub mod mesh;
pub mod signal;
pub mod socket;

use crate::mesh::ShardId;
use crate::time::Instant;
use std::future::Future;
use std::io;
use std::time::Duration;

/// How the shards of a process run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shards, at least 1.
    pub shards: usize,
    /// The CPU of each shard; empty: not pinned.
    pub cpus: Vec<usize>,
    /// How long an idle shard watches memory before it sleeps.
    pub spin: Duration,
    /// Threads of the bounded pool for blocking calls of the whole node.
    pub helpers: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { shards: 1, cpus: Vec::new(), spin: Duration::from_micros(50), helpers: 2 }
    }
}

/// Runs `main` on every shard and returns when all of them have returned; tasks they leave behind are dropped.
/// An error if a ring or a thread cannot be made. A panic on any shard aborts the process after naming shard and task.
pub fn run<F, Fut, T>(options: Options, main: F) -> io::Result<Vec<T>>
where
    F: Fn(ShardId) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let _ = (options, main);
    todo!()
}

pub(crate) struct Reactor {}

impl Reactor {
    pub(crate) fn monotonic(&self) -> Instant {
        todo!()
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        todo!()
    }

    pub(crate) fn random(&self) -> u64 {
        todo!()
    }

    pub(crate) fn terminated(&self) -> signal::Terminated {
        todo!()
    }
}
