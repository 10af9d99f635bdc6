//! Removing all data of tables: TRUNCATE, and what DROP and CREATE WITH ID need of it.
//!
//! TRUNCATE: with `auto_snapshot` take a snapshot; truncate on every shard, record the truncation durably, release the
//! log segments that nothing else needs.
//!
//! Invariants: timestamps of truncations and of changes of the schema strictly increase, even across restarts; a table
//! made WITH ID never shows rows of an earlier table of that id.

use super::{apply, next_timestamp, stored, sync};
use crate::messages::{Reply, Request};
use crate::operations::snapshots::{self, Taken};
use crate::schema::local;
use crate::shard_state::Shard;
use engine::store::{LogPosition, Truncation};
use model::schema::SYSTEM_KEYSPACES;
use model::{ErrorCode, Failure, Schema, TableId};
use std::sync::Arc;

/// Removes all data of a table on every shard of this node and records the truncation.
pub(crate) async fn truncate(shard: &Shard, table: TableId) -> Result<(), Failure> {
    let shard = shard.clone();
    runtime::spawn(async move {
        let _turn = shard.definitions().begin().await;
        let schema = shard.schema();
        let description = schema.table_by_id(table);
        let description = description.ok_or_else(|| Failure::invalid("table does not exist"))?;
        refuse_system(&description.keyspace, || format!("Cannot MODIFY <table {}>", description.full_name()))?;
        let timestamp = next_timestamp(&shard, &stored(&shard).await?);
        let cut = Cut::new(&shard, schema.clone(), timestamp);
        keep(&shard, &schema, snapshots::TRUNCATED, &[table]).await?;
        cut.cut(&[table]).await.map_err(Failure::unknown)?;
        cut.release(&[table]).await;
        Ok(())
    })
    .await
}

/// Takes a snapshot of each of these tables, unless snapshots are disabled for the node or the table.
pub(super) async fn keep(
    shard: &Shard,
    schema: &Schema,
    prefix: &str,
    tables: &[TableId],
) -> Result<Vec<Taken>, Failure> {
    let mut kept = Vec::new();
    for table in tables.iter().filter_map(|table| schema.table_by_id(*table)) {
        let allowed = shard.config().auto_snapshot && table.options.allow_auto_snapshot.unwrap_or(true);
        if allowed {
            kept.push(snapshots::take_automatically(shard, schema, table, prefix).await?);
        }
    }
    Ok(kept)
}

/// The end of all data that tables have so far.
pub(super) struct Cut<'s> {
    shard: &'s Shard,
    schema: Arc<Schema>,
    /// The timestamp of the records, microseconds.
    timestamp: i64,
    /// When the request for it began, milliseconds since 1970.
    began_at: i64,
}

impl<'s> Cut<'s> {
    /// A cut that is recorded with `timestamp`.
    pub(super) fn new(shard: &'s Shard, schema: Arc<Schema>, timestamp: i64) -> Cut<'s> {
        Cut { shard, schema, timestamp, began_at: runtime::wall_micros().div_euclid(1_000) }
    }

    /// Truncates tables on every shard and records the log positions from which their records count again.
    pub(super) async fn cut(&self, tables: &[TableId]) -> Result<(), Failure> {
        let (shard, mut records) = (self.shard, Vec::new());
        for &table in tables {
            let replies = shard.call_all(|| Request::TruncateShard(table)).await;
            let positions: Result<Vec<LogPosition>, Failure> = replies.into_iter().map(Reply::truncated).collect();
            let truncation = Truncation {
                counter_floor: shard.store().counter_floor(),
                positions: positions?,
                at_millis: self.began_at,
            };
            let noted = shard.store().note_truncation(table, truncation.at_millis).await;
            noted.map_err(|error| Failure::server(error.to_string()))?;
            records.push((table, truncation));
        }
        apply(shard, local::truncated(&self.schema, &records, self.timestamp)).await?;
        sync(shard).await
    }

    /// Called before a table is created WITH ID: makes the log ignore records of that id from before this process.
    /// Those of this process were cut off when the table was dropped.
    pub(super) async fn forget_earlier(&self, table: TableId) -> Result<(), Failure> {
        let shard = self.shard;
        let counter_floor = shard.store().counter_floor();
        let cut = |(id, truncation): &(TableId, Truncation)| *id == table && truncation.counter_floor >= counter_floor;
        if stored(shard).await?.truncations.iter().any(cut) {
            return Ok(());
        }
        let truncation = Truncation { counter_floor, positions: Vec::new(), at_millis: self.began_at };
        apply(shard, local::truncated(&self.schema, &[(table, truncation)], self.timestamp)).await
    }

    /// Releases the log segments that only these tables needed.
    pub(super) async fn release(&self, tables: &[TableId]) {
        for &table in tables {
            for reply in self.shard.call_all(|| Request::ReleaseLog(table)).await {
                if let Err(failure) = reply.done() {
                    tracing::warn!(%failure, %table, "log segments stay");
                }
            }
        }
    }
}

/// Refuses changes of system keyspaces, with Cassandra's failure for each.
fn refuse_system(keyspace: &str, no_permission: impl FnOnce() -> String) -> Result<(), Failure> {
    match keyspace {
        "system" | "system_schema" => {
            let text = format!("{keyspace} keyspace is not user-modifiable.");
            Err(Failure::new(ErrorCode::Unauthorized, text))
        }
        other if SYSTEM_KEYSPACES.contains(&other) => Err(Failure::new(ErrorCode::Unauthorized, no_permission())),
        _ => Ok(()),
    }
}
