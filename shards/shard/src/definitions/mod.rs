//! Changes of the schema, on shard 0: DDL statements to proposals ([`define`]), what this node does once the cluster
//! has agreed on one ([`step`]), how every core then adopts the new schema ([`adopt`]); and TRUNCATE ([`truncate`]).

pub(crate) mod adopt;
pub(crate) mod define;
pub(crate) mod step;
pub(crate) mod truncate;

use crate::schema::cells::read_partition;
use crate::schema::local::{LOCAL_KEY, Stored};
use crate::schema::rows;
use crate::shard_state::Shard;
use model::{Failure, Mutation, Schema, TableId};
use std::sync::Arc;

/// What `system.local` holds now.
async fn stored(shard: &Shard) -> Result<Stored, Failure> {
    let schema = shard.schema();
    let table = rows::system_table(&schema, "system", "local");
    let local = read_partition(shard.store(), table, LOCAL_KEY.as_bytes()).await;
    let stored = local.and_then(|rows| Stored::load(&schema, &rows));
    stored.map_err(|error| Failure::server(error.to_string()))
}

/// The timestamp of the next change, microseconds: above that of every earlier change of this node and of the cluster,
/// and of every earlier write through this node.
fn next_timestamp(shard: &Shard, stored: &Stored) -> i64 {
    let last = stored.last_timestamp.max(shard.metadata().current().schema_timestamp);
    shard.clock().timestamp().max(last.saturating_add(1))
}

/// Durably changes the row of `system.local` by the mutation of a schema and a timestamp.
pub(crate) async fn change_local(
    shard: &Shard,
    mutation: impl FnOnce(&Schema, i64) -> Mutation,
) -> Result<(), Failure> {
    let timestamp = next_timestamp(shard, &stored(shard).await?);
    apply(shard, mutation(&shard.schema(), timestamp)).await?;
    sync(shard).await
}

async fn apply(shard: &Shard, mutation: Mutation) -> Result<(), Failure> {
    shard.store().apply(mutation, true).await.map_err(store_failure)
}

/// Makes durable what was applied, whatever the mode of the commit log.
async fn sync(shard: &Shard) -> Result<(), Failure> {
    shard.store().sync().await.map_err(|error| store_failure(error).unknown())
}

fn store_failure(error: engine::Error) -> Failure {
    let failure = Failure::server(error.to_string());
    if matches!(error, engine::Error::LogFailed(_)) { failure.unknown() } else { failure }
}

/// The tables of a keyspace to which a change adds a dropped column again.
fn with_columns_again(before: &Schema, after: &Schema, keyspace: &str) -> Vec<TableId> {
    let tables = before.keyspace(keyspace).into_iter().flat_map(|keyspace| keyspace.tables.values());
    let changed = tables.filter(|table| {
        let Some(after) = after.table_by_id(table.id).filter(|after| !Arc::ptr_eq(after, table)) else { return false };
        let is_again = |name: &str| table.column(name).is_none() && after.column(name).is_some();
        after.dropped.iter().any(|dropped| is_again(&dropped.name))
    });
    changed.map(|table| table.id).collect()
}
