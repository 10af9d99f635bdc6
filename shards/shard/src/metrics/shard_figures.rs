//! All that a shard tells of itself to whoever watches the node.
//!
//! Nothing of it is kept up to date: it is put together when it is asked for, on the shard that it is about.

use super::operations::{Latency, Operation};
use crate::Shard;
use crate::ports::{Activity, Served};
use crate::verbs::{Reply, Request, unexpected};
use engine::CacheFigures;
use model::Failure;
use runtime::ShardId;
use runtime::metrics::{ClassFigures, DiskFigures};
use std::time::Duration;

/// See the module.
#[derive(Clone, Debug)]
pub struct ShardFigures {
    /// How long operations take, by class.
    pub latencies: Vec<(Operation, Latency)>,
    /// What the classes of tasks did and wait for.
    pub classes: Vec<ClassFigures>,
    /// Operations on files.
    pub disk: Vec<DiskFigures>,
    /// CPU time of the shard's thread, and the time it waited for a CPU; `None` where nobody tells.
    pub cpu: Option<(Duration, Duration)>,
    /// The cache of blocks of SSTables.
    pub cache: CacheFigures,
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
    /// Statements that were run prepared, and others.
    pub statements: (u64, u64),
}

impl Shard {
    /// What every shard tells of itself, in the order of the shards.
    pub async fn all_figures(&self) -> Result<Vec<ShardFigures>, Failure> {
        let replies = self.call_all(|| Request::Figures).await.into_iter();
        let figures = replies.map(|reply| match reply {
            Reply::Figures(figures) => Ok(*figures),
            _ => Err(unexpected()),
        });
        figures.collect()
    }

    /// What this shard tells of itself.
    pub(crate) fn own_figures(&self) -> ShardFigures {
        let now = runtime::now();
        let (figures, store, mailbox) = (self.figures(), self.store(), self.mailbox());
        let (memtable_bytes, memtable_bytes_max) = store.memory();
        ShardFigures {
            latencies: Operation::ALL.map(|operation| (operation, figures.latencies.latency(operation, now))).into(),
            classes: runtime::metrics::classes().into(),
            disk: runtime::metrics::disk().into(),
            cpu: runtime::metrics::thread_cpu(),
            cache: store.cache_figures(),
            memtables: (memtable_bytes as u64, memtable_bytes_max as u64),
            served: self.notifier().served(),
            compactions: self.compactions_activity(),
            flushes: self.flushes_activity(),
            definitions: self.definitions_activity(),
            messages_waiting: (0..runtime::shard_count() as u16).map(|to| mailbox.queued(ShardId(to)) as u64).collect(),
            calls_waiting: mailbox.waiting() as u64,
            calls: mailbox.sent(),
            statements: (figures.prepared_runs.get(), figures.regular_runs.get()),
        }
    }

    /// How busy merging SSTables is on this core.
    pub(crate) fn compactions_activity(&self) -> Activity {
        let statistics = self.store().compaction_statistics();
        Activity {
            active: statistics.running.len() as u64,
            active_max: 1,
            pending: statistics.pending.values().sum::<usize>() as u64,
            completed: statistics.completed,
            ..Activity::default()
        }
    }

    /// How busy writing memtables is on this core.
    pub(crate) fn flushes_activity(&self) -> Activity {
        let (active, completed) = self.store().flush_activity();
        Activity { active, active_max: 1, completed, ..Activity::default() }
    }
}
