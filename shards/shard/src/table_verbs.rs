//! What an operator asks of a table's storage, on every core at the same time.

use crate::Shard;
use crate::disk_usage::DiskUsage;
use crate::verbs::{Reply, Request};
use engine::compaction::{Chosen, CompactionStatistics};
use engine::store::LogPosition;
use engine::verify::{Check, Invalid};
use engine::{Descriptor, Store, TableStatistics};
use model::{DecoratedKey, Failure, Table, TableId};
use std::path::PathBuf;
use std::sync::Arc;

/// A request about one table, or all.
#[derive(Clone, Debug)]
pub enum TableVerb {
    /// What the table holds.
    Statistics(TableId),
    /// Write what the table has in memory to an SSTable.
    Flush(TableId),
    /// The same of all tables.
    FlushAll,
    /// Merge SSTables of a table.
    Compact {
        /// The table.
        table: TableId,
        /// Which ones.
        chosen: Chosen,
    },
    /// Give the files of a table second names in a snapshot.
    Snapshot {
        /// The table.
        table: TableId,
        /// The snapshot's name.
        tag: Arc<str>,
        /// Whether what is in memory is written first.
        flush: bool,
    },
    /// Tell which SSTables of a table are known, once nothing is being written.
    Served(TableId),
    /// Give a place in the log for what is imported.
    LogPlace,
    /// Open what was placed in a table's directory.
    OpenImported {
        /// The table.
        table: TableId,
        /// Which SSTables.
        placed: Vec<Descriptor>,
    },
    /// Show what [`TableVerb::OpenImported`] opened, or forget it.
    EndImport {
        /// The table.
        table: TableId,
        /// Whether the import took place.
        committed: bool,
    },
    /// Check the SSTables of a table.
    Verify {
        /// The table.
        table: TableId,
        /// How.
        check: Check,
    },
    /// Find the SSTables that have a partition.
    SstablesWith {
        /// The table.
        table: TableId,
        /// The partition.
        key: DecoratedKey,
    },
    /// Set how many bytes per second compactions of the node may read; 0: as many as they can.
    SetThroughput(u64),
    /// Let the strategy of a table start compactions by itself, or not.
    SetAutoCompaction {
        /// The table.
        table: TableId,
        /// Whether it shall.
        on: bool,
    },
    /// Take note of how full the disk is.
    SetDiskUsage(DiskUsage),
    /// Tell how much memtables take.
    Memory,
    /// Tell what compactions do and did.
    Compactions,
    /// Tell how many flushes run and ran.
    Flushes,
    /// Build an index of a table.
    BuildIndex {
        /// The table.
        table: TableId,
        /// The index.
        index: Arc<str>,
    },
    /// Remove what is left of an index that was dropped.
    RemoveIndex {
        /// The table.
        table: Arc<Table>,
        /// The index.
        index: Arc<str>,
    },
}

/// What one core answers to a [`TableVerb`].
#[derive(Clone, Debug)]
pub enum TableAnswer {
    /// Done.
    Done,
    /// Of [`TableVerb::Statistics`].
    Statistics(Box<TableStatistics>),
    /// Of [`TableVerb::Snapshot`]: names of the Data.db files.
    Linked(Vec<String>),
    /// Of [`TableVerb::Served`].
    Served(Vec<Descriptor>),
    /// Of [`TableVerb::LogPlace`].
    Place(LogPosition),
    /// Of [`TableVerb::Verify`]: the first fault.
    Verified(Option<Invalid>),
    /// Of [`TableVerb::SstablesWith`]: Data.db and level.
    Files(Vec<(PathBuf, u32)>),
    /// Of [`TableVerb::Memory`]: bytes.
    Memory(u64),
    /// Of [`TableVerb::Compactions`].
    Compactions(Box<CompactionStatistics>),
    /// Of [`TableVerb::Flushes`].
    Flushes {
        /// Under way.
        running: u64,
        /// Memtables written since the start.
        completed: u64,
    },
}

impl Shard {
    /// Runs a verb on every core; the answers in the order of the cores, or the first failure.
    pub async fn on_every_shard(&self, verb: TableVerb) -> Result<Vec<TableAnswer>, Failure> {
        let replies = self.call_all(|| Request::Table(Box::new(verb.clone()))).await;
        replies.into_iter().map(Reply::table).collect()
    }

    /// What a table holds, all cores together.
    pub async fn statistics(&self, table: TableId) -> Result<TableStatistics, Failure> {
        let mut sum = TableStatistics::default();
        for answer in self.on_every_shard(TableVerb::Statistics(table)).await? {
            if let TableAnswer::Statistics(statistics) = answer {
                sum.add(&statistics);
            }
        }
        Ok(sum)
    }
}

/// Runs a verb on this core.
pub(crate) async fn run(shard: &Shard, verb: TableVerb) -> Result<TableAnswer, Failure> {
    let store = shard.store();
    match verb {
        TableVerb::Statistics(table) => {
            let now = runtime::wall_micros().div_euclid(1_000_000);
            // A table of another core's alone holds nothing here.
            let statistics = store.statistics(table, now).unwrap_or_default();
            Ok(TableAnswer::Statistics(Box::new(statistics)))
        }
        TableVerb::Flush(table) => match store.flush(table).await {
            // A table of another core's alone is not known here.
            Ok(()) | Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Done),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::Compact { table, chosen } => match store.compact(table, chosen).await {
            Ok(()) | Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Done),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::Snapshot { table, tag, flush } => match snapshot(store, table, &tag, flush).await {
            Ok(files) => Ok(TableAnswer::Linked(files)),
            Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Linked(Vec::new())),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::Served(table) => known(store.served(table).await).map(TableAnswer::Served),
        TableVerb::LogPlace => match store.log_place().await {
            Ok(place) => Ok(TableAnswer::Place(place)),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::OpenImported { table, placed } => {
            known(store.open_imported(table, &placed).await).map(|()| TableAnswer::Done)
        }
        TableVerb::EndImport { table, committed } => {
            store.end_import(table, committed);
            Ok(TableAnswer::Done)
        }
        TableVerb::Verify { table, check } => known(store.verify(table, check).await).map(TableAnswer::Verified),
        TableVerb::SstablesWith { table, key } => known(store.sstables_with(table, &key).await).map(TableAnswer::Files),
        TableVerb::SetThroughput(bytes_per_second) => {
            store.set_compaction_throughput(part_of(bytes_per_second));
            Ok(TableAnswer::Done)
        }
        TableVerb::SetAutoCompaction { table, on } => {
            store.set_auto_compaction(table, on);
            Ok(TableAnswer::Done)
        }
        TableVerb::SetDiskUsage(usage) => {
            shard.set_disk_usage(usage);
            Ok(TableAnswer::Done)
        }
        TableVerb::Memory => Ok(TableAnswer::Memory(store.memory().0 as u64)),
        TableVerb::Compactions => Ok(TableAnswer::Compactions(Box::new(store.compaction_statistics()))),
        TableVerb::Flushes => {
            let (running, completed) = store.flush_activity();
            Ok(TableAnswer::Flushes { running, completed })
        }
        TableVerb::BuildIndex { table, index } => {
            known(store.build_index(table, &index).await).map(|()| TableAnswer::Done)
        }
        TableVerb::RemoveIndex { table, index } => {
            known(store.remove_index(&table, &index).await).map(|()| TableAnswer::Done)
        }
        TableVerb::FlushAll => match store.flush_all().await {
            Ok(()) => Ok(TableAnswer::Done),
            Err(error) => Err(Failure::server(error.to_string())),
        },
    }
}

async fn snapshot(store: &Store, table: TableId, tag: &str, flush: bool) -> Result<Vec<String>, engine::Error> {
    if flush {
        store.flush(table).await?;
    }
    store.link_snapshot(table, tag).await
}

/// A core that does not know a table, which is another core's alone, has nothing of it.
fn known<T: Default>(result: Result<T, engine::Error>) -> Result<T, Failure> {
    match result {
        Err(engine::Error::UnknownTable(_)) => Ok(T::default()),
        result => result.map_err(|error| Failure::server(error.to_string())),
    }
}

/// One core's part of a rate of the node; 0 stays 0.
pub(crate) fn part_of(bytes_per_second: u64) -> u64 {
    bytes_per_second.div_ceil(runtime::shard_count() as u64)
}
