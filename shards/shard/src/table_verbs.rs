//! What an operator asks of a table's storage, on every core at the same time.

use crate::Shard;
use crate::verbs::{Reply, Request};
use engine::{Store, TableStatistics};
use model::{Failure, TableId};
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
    /// Flush a table and merge its SSTables into one.
    Compact(TableId),
    /// Give the files of a table second names in a snapshot.
    Snapshot {
        /// The table.
        table: TableId,
        /// The snapshot's name.
        tag: Arc<str>,
        /// Whether what is in memory is written first.
        flush: bool,
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
        TableVerb::Compact(table) => match store.compact(table).await {
            Ok(()) | Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Done),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::Snapshot { table, tag, flush } => match snapshot(store, table, &tag, flush).await {
            Ok(files) => Ok(TableAnswer::Linked(files)),
            Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Linked(Vec::new())),
            Err(error) => Err(Failure::server(error.to_string())),
        },
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
