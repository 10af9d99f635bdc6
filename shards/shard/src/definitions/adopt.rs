//! What every core does when the schema changes.

use crate::planning::prepared;
use crate::ports::SchemaChange;
use crate::shard_state::Shard;
use model::{Failure, Schema, Table, TableId};
use std::sync::Arc;

/// Tells the store about the tables that `schema` alters, before statements are planned with them.
pub(crate) fn adopt_tables(shard: &Shard, schema: &Schema) {
    let known = shard.schema();
    for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual()) {
        for table in keyspace.tables.values() {
            if known.table_by_id(table.id).is_some_and(|old| **old != **table) {
                shard.store().add_table(table.clone(), keyspace.home_of(&table.name));
            }
        }
    }
}

/// Makes `schema` the one that this core serves.
pub(crate) async fn switch_schema(
    shard: &Shard,
    schema: Arc<Schema>,
    change: Option<SchemaChange>,
    dropped: &[TableId],
) -> Result<(), Failure> {
    let known = shard.schema();
    let mut stale = dropped.to_vec();
    for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual()) {
        for table in keyspace.tables.values() {
            match known.table_by_id(table.id) {
                None => shard.store().add_table(table.clone(), keyspace.home_of(&table.name)),
                Some(old) if Arc::ptr_eq(old, table) => {}
                Some(old) if changes_statements(old, table) => stale.push(table.id),
                Some(_) => {}
            }
            shard.store().set_durable_writes(table.id, keyspace.durable_writes);
        }
    }
    shard.set_schema(schema);
    for table in dropped {
        shard.store().drop_table(*table);
    }
    shard.metrics().forget(dropped);
    prepared::schema_changed(shard, &stale).await?;
    if let Some(change) = &change {
        shard.notifier().schema_changed(change);
    }
    Ok(())
}

/// Whether statements prepared on a table must be prepared again. As in Cassandra, a change of most options does not
/// require it.
fn changes_statements(before: &Table, after: &Table) -> bool {
    let of = |table: &Table| {
        (table.options.default_time_to_live, table.options.gc_grace_seconds, table.options.tombstone_gc)
    };
    before.columns != after.columns
        || before.layout != after.layout
        || before.indexes != after.indexes
        || before.masks != after.masks
        || of(before) != of(after)
}
