//! The metrics of a shard as a whole: put together when they are asked for, on the shard that they are about.

use super::operations::{Latency, Operation};
use crate::ports::{Activity, Served};
use engine::CacheMetrics;
use runtime::metrics::{ClassMetrics, DiskMetrics};
use std::time::Duration;

/// The metrics of one shard as a whole.
#[derive(Clone, Debug)]
pub struct ShardMetrics {
    /// How long operations take, by class.
    pub latencies: Vec<(Operation, Latency)>,
    /// What each class of tasks did and waits for.
    pub classes: Vec<ClassMetrics>,
    /// Operations on files.
    pub disk: Vec<DiskMetrics>,
    /// CPU time of the shard's thread, and the time it waited for a CPU; `None` where the system does not say.
    pub cpu: Option<(Duration, Duration)>,
    /// The cache of blocks of SSTables.
    pub cache: CacheMetrics,
    /// Bytes in memtables of user tables, and the budget.
    pub memtables: (u64, u64),
    /// What clients asked.
    pub served: Served,
    /// Compactions.
    pub compactions: Activity,
    /// Flushes.
    pub flushes: Activity,
    /// Changes of the schema; those of all shards are shard 0's.
    pub definitions: Activity,
    /// Messages that each other core has not taken yet.
    pub messages_waiting: Vec<u64>,
    /// Calls that wait for another core's answer.
    pub calls_waiting: u64,
    /// Calls of other cores since the start.
    pub calls: u64,
    /// Prepared statements that were run, and other statements.
    pub statements: (u64, u64),
}
