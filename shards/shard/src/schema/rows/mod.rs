//! Keyspaces, tables and user types as rows of `system_schema`, written and read, with Cassandra's column values.
//!
//! All rows of a keyspace have its name as their partition key, so every change of a keyspace is one mutation and
//! applied atomically. Writing is here, reading in `load`.
//!
//! Invariants: [`load`] of what [`keyspace_created`] or [`keyspace_changed`] wrote gives an equal keyspace.

mod after;
pub(crate) mod column_ids;
mod drop_times;
mod layout;
mod load;
mod masks;
pub(crate) mod quotas;
pub(crate) mod tablets;
mod tombstone_gc;

pub(crate) use after::keyspace_after;
pub(crate) use load::{SchemaRows, StoredSchema, load};

use super::cells::{RowWriter, frozen_map, frozen_text_map};
use super::system_tables::{INDEXES, is_hidden};
use model::capacity;
use model::mutation::{Clustering, ClusteringBound, push_clustering};
use model::quota::Quota;
use model::row::{Deletion, RowBuilder};
use model::schema::DroppedColumn;
use model::types::UserType;
use model::value::push_element;
use model::write_sharding;
use model::{Column, ColumnId, ColumnKind, ColumnMask, Index, Keyspace, Mutation, MutationBuilder, Schema, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The key of a replication map that names the strategy.
const CLASS: &str = "class";
/// Times of drops are stored in milliseconds.
const MICROS_PER_MILLI: i64 = 1_000;

/// A system table by name. Panics if there is none, which is a programmer's error.
pub(crate) fn system_table<'s>(schema: &'s Schema, keyspace: &str, name: &str) -> &'s Arc<Table> {
    schema.table(keyspace, name).unwrap_or_else(|| panic!("no table {keyspace}.{name}"))
}

/// The rows of a keyspace and of all its tables. `schema` is any schema with the system tables; `timestamp` is in
/// microseconds.
pub(crate) fn keyspace_created(schema: &Schema, keyspace: &Keyspace, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, keyspace.name.as_bytes());
    add_keyspace(schema, keyspace, timestamp, &mut mutation);
    mutation.finish()
}

/// The rows of a keyspace, after a deletion of all rows that it had before.
pub(crate) fn keyspace_replaced(schema: &Schema, keyspace: &Keyspace, timestamp: i64, now_in_seconds: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, keyspace.name.as_bytes());
    delete_keyspace(schema, &keyspace.name, timestamp - 1, now_in_seconds, &mut mutation);
    add_keyspace(schema, keyspace, timestamp, &mut mutation);
    mutation.finish()
}

/// Deletes the rows of a keyspace of `schema` and everything in it. `now_in_seconds` starts the grace period of the
/// tombstones.
pub(crate) fn keyspace_dropped(schema: &Schema, keyspace: &str, timestamp: i64, now_in_seconds: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, keyspace.as_bytes());
    delete_keyspace(schema, keyspace, timestamp, now_in_seconds, &mut mutation);
    mutation.finish()
}

/// The ids of a table's columns.
pub(crate) fn column_ids_stored(schema: &Schema, table: &Table, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, table.keyspace.as_bytes());
    Changes { schema, timestamp, now_in_seconds: 0, mutation: &mut mutation }.column_ids(table, None);
    mutation.finish()
}

/// The changes of a keyspace's rows when it becomes `after`. `now_in_seconds` starts the grace period of the
/// tombstones.
pub(crate) fn keyspace_changed(
    schema: &Schema,
    before: &Keyspace,
    after: &Keyspace,
    timestamp: i64,
    now_in_seconds: i64,
) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, after.name.as_bytes());
    let mut changes = Changes { schema, timestamp, now_in_seconds, mutation: &mut mutation };
    if (&before.replication, before.durable_writes) != (&after.replication, after.durable_writes) {
        changes.keyspace(after);
    }
    match after.tablets {
        Some(tablets) if before.tablets != after.tablets => {
            tablets::write(schema, tablets, timestamp, changes.mutation)
        }
        None if before.tablets.is_some() => changes.delete(tablets::TABLE, &[]),
        _ => {}
    }
    quotas::write(before.quota, after, &mut changes);
    for name in before.types.keys().filter(|name| !after.types.contains_key(*name)) {
        changes.delete("types", &[name]);
    }
    for (name, definition) in &after.types {
        // A type that holds an altered one keeps its row: the row names types without their fields.
        if before.types.get(name).is_none_or(|old| type_row(old) != type_row(definition)) {
            changes.user_type(definition);
        }
    }
    for table in before.tables.values().filter(|table| !after.tables.contains_key(&table.name)) {
        changes.drop_table(table);
    }
    for table in after.tables.values() {
        match before.tables.get(&table.name) {
            None => changes.table(table),
            Some(old) if Arc::ptr_eq(old, table) => {}
            Some(old) => changes.alter_table(old, table),
        }
    }
    mutation.finish()
}

fn delete_keyspace(
    schema: &Schema,
    keyspace: &str,
    timestamp: i64,
    now_in_seconds: i64,
    mutation: &mut MutationBuilder,
) {
    let has_tablets = schema.keyspace(keyspace).is_some_and(|keyspace| keyspace.tablets.is_some());
    let has_quota = schema.keyspace(keyspace).is_some_and(|keyspace| !keyspace.quota.is_empty());
    let tables = schema.keyspace("system_schema").into_iter().flat_map(|keyspace| keyspace.tables.values());
    let has_rows = |table: &&Arc<Table>| match table.name.as_str() {
        column_ids::TABLE => true,
        tablets::TABLE => has_tablets,
        quotas::TABLE => has_quota,
        _ => !is_hidden(table),
    };
    for table in tables.filter(has_rows) {
        mutation.table(table.id).delete_partition(Deletion { timestamp, local_deletion_time: now_in_seconds });
    }
}

fn add_keyspace(schema: &Schema, keyspace: &Keyspace, timestamp: i64, mutation: &mut MutationBuilder) {
    let mut changes = Changes { schema, timestamp, now_in_seconds: 0, mutation };
    changes.keyspace(keyspace);
    if let Some(tablets) = keyspace.tablets {
        tablets::write(schema, tablets, timestamp, changes.mutation);
    }
    quotas::write(Quota::default(), keyspace, &mut changes);
    keyspace.types.values().for_each(|definition| changes.user_type(definition));
    for table in keyspace.tables.values().filter(|table| !is_hidden(table)) {
        changes.table(table);
    }
    let indexes = system_table(schema, "system_schema", "indexes");
    for index in INDEXES.iter().filter(|index| index.keyspace == keyspace.name) {
        let options = [("class_name", index.class.as_bytes()), ("target", b"".as_slice())];
        RowWriter::new(indexes, &[index.table.as_bytes(), index.name.as_bytes()], timestamp)
            .set("kind", "CUSTOM")
            .set("options", frozen_map(options.into_iter()))
            .finish(mutation.table(indexes.id));
    }
}

/// Rows of one keyspace that are being written and deleted.
struct Changes<'c> {
    schema: &'c Schema,
    timestamp: i64,
    now_in_seconds: i64,
    mutation: &'c mut MutationBuilder,
}

impl Changes<'_> {
    fn table_of(&self, name: &str) -> &Arc<Table> {
        system_table(self.schema, "system_schema", name)
    }

    fn deletion(&self) -> Deletion {
        Deletion { timestamp: self.timestamp, local_deletion_time: self.now_in_seconds }
    }

    /// Deletes one row of a table of `system_schema`.
    fn delete(&mut self, table: &str, names: &[&str]) {
        let (id, deletion) = (self.table_of(table).id, self.deletion());
        let mut clustering = Vec::new();
        names.iter().for_each(|name| push_clustering(&mut clustering, name.as_bytes()));
        self.mutation.table(id).row(Clustering(&clustering), |out| {
            RowBuilder::new(out, None, deletion);
        });
    }

    fn keyspace(&mut self, keyspace: &Keyspace) {
        let keyspaces = system_table(self.schema, "system_schema", "keyspaces");
        let mut replication = keyspace.replication.options.clone();
        replication.insert(CLASS.to_string(), keyspace.replication.class.clone());
        RowWriter::new(keyspaces, &[], self.timestamp)
            .set("durable_writes", [keyspace.durable_writes.into()])
            .set("replication", frozen_text_map(&replication))
            .finish(self.mutation.table(keyspaces.id));
    }

    fn user_type(&mut self, definition: &UserType) {
        let types = system_table(self.schema, "system_schema", "types");
        let (names, cql_types) = type_row(definition);
        RowWriter::new(types, &[definition.name.as_bytes()], self.timestamp)
            .set("field_names", frozen_list(&names))
            .set("field_types", frozen_list(&cql_types))
            .finish(self.mutation.table(types.id));
    }

    fn drop_table(&mut self, table: &Table) {
        self.delete("tables", &[&table.name]);
        let deletion = self.deletion();
        let mut clustering = Vec::new();
        push_clustering(&mut clustering, table.name.as_bytes());
        let whole = ClusteringBound { prefix: Clustering(&clustering), inclusive: true };
        for rows_of_tables in ["columns", "dropped_columns", masks::TABLE, "indexes", "triggers", column_ids::TABLE] {
            let id = self.table_of(rows_of_tables).id;
            self.mutation.table(id).delete_range(whole, whole, deletion);
        }
    }

    fn table(&mut self, table: &Table) {
        self.options(table, None);
        table.columns.iter().for_each(|column| self.column(table, column));
        table.dropped.iter().for_each(|dropped| self.dropped_column(table, dropped));
        table.indexes.iter().for_each(|index| self.index(table, index));
        self.masks(table, None);
        if column_ids::are_stored(table) {
            self.column_ids(table, None);
        }
    }

    /// Writes what differs between two versions of a table of one name.
    fn alter_table(&mut self, before: &Table, after: &Table) {
        let times = |table: &Table| drop_times::encode(&table.dropped);
        if (&before.options, before.layout, times(before)) != (&after.options, after.layout, times(after)) {
            self.options(after, Some(before));
        }
        for column in before.columns.iter().filter(|column| after.column(&column.name).is_none()) {
            self.delete("columns", &[&after.name, &column.name]);
        }
        for column in &after.columns {
            // A column keeps its row when only the fields of its user types change.
            if before.column(&column.name).is_none_or(|old| column_row(old) != column_row(column)) {
                self.column(after, column);
            }
        }
        for index in before.indexes.iter().filter(|index| !after.indexes.contains(index)) {
            self.delete("indexes", &[&after.name, &index.name]);
        }
        for index in after.indexes.iter().filter(|index| !before.indexes.contains(index)) {
            self.index(after, index);
        }
        for dropped in &after.dropped {
            let row = |dropped: &DroppedColumn| DroppedColumn { id: ColumnId(0), ..dropped.clone() };
            if !before.dropped.iter().any(|old| row(old) == row(dropped)) {
                self.dropped_column(after, dropped);
            }
        }
        self.masks(after, Some(before));
        self.column_ids(after, Some(before));
    }

    /// Writes the masks of a table's columns, except those that `before` had too.
    fn masks(&mut self, table: &Table, before: Option<&Table>) {
        fn by_name(table: &Table) -> BTreeMap<&str, &ColumnMask> {
            let masks = table.masks.iter();
            masks.filter_map(|(id, mask)| Some((table.column_by_id(*id)?.name.as_str(), &**mask))).collect()
        }
        let (old, new) = (before.map(by_name).unwrap_or_default(), by_name(table));
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            self.delete(masks::TABLE, &[&table.name, name]);
        }
        for (name, mask) in new.iter().filter(|(name, mask)| old.get(*name) != Some(mask)) {
            masks::write(self.schema, [&table.name, name], mask, self.timestamp, self.mutation);
        }
    }

    /// Writes the ids of a table's columns, except those that `before` had too.
    fn column_ids(&mut self, table: &Table, before: Option<&Table>) {
        let stored = before.map(column_ids::of).unwrap_or_default();
        let ids = column_ids::of(table);
        for name in stored.keys().filter(|name| !ids.contains_key(*name)) {
            self.delete(column_ids::TABLE, &[&table.name, name]);
        }
        let description = system_table(self.schema, "system_schema", column_ids::TABLE);
        for (name, id) in ids.iter().filter(|(name, id)| stored.get(*name) != Some(id)) {
            RowWriter::new(description, &[table.name.as_bytes(), name.as_bytes()], self.timestamp)
                .set("id", i32::from(id.0).to_be_bytes())
                .finish(self.mutation.table(description.id));
        }
    }

    /// Writes the row of `tables`; deletes those cells that `before` had and the table does not need.
    fn options(&mut self, table: &Table, before: Option<&Table>) {
        let tables = system_table(self.schema, "system_schema", "tables");
        let options = &table.options;
        let flags = frozen_list(&layout::flags(table));
        let times = drop_times::encode(&table.dropped);
        let mut extensions: BTreeMap<&str, &[u8]> =
            options.extensions.iter().map(|(key, value)| (key.as_str(), value.as_slice())).collect();
        extensions.extend(times.as_deref().map(|times| (drop_times::EXTENSION, times)));
        let gc = tombstone_gc::encode(options.tombstone_gc);
        extensions.extend(gc.as_deref().map(|gc| (tombstone_gc::EXTENSION, gc)));
        let tablets = tablets::encode(options.tablets);
        extensions.extend(tablets.as_deref().map(|tablets| (tablets::EXTENSION, tablets)));
        let capacity = options.capacity.as_ref().and_then(|capacity| capacity.encode());
        extensions.extend(capacity.as_deref().map(|capacity| (capacity::EXTENSION, capacity)));
        let sharding = options.write_sharding.as_ref().map(|sharding| sharding.encode());
        extensions.extend(sharding.as_deref().map(|sharding| (write_sharding::EXTENSION, sharding)));
        let boolean = |value: Option<bool>| value.map(|value| [u8::from(value)]);
        let mut row = RowWriter::new(tables, &[table.name.as_bytes()], self.timestamp);
        row.set("additional_write_policy", options.additional_write_policy.as_str())
            .set_some("allow_auto_snapshot", boolean(options.allow_auto_snapshot))
            .set("bloom_filter_fp_chance", options.bloom_filter_fp_chance.to_be_bytes())
            .set("caching", frozen_text_map(&options.caching))
            .set_some("cdc", boolean(options.cdc))
            .set("comment", options.comment.as_str())
            .set("compaction", frozen_text_map(&options.compaction))
            .set("compression", frozen_text_map(&options.compression))
            .set("crc_check_chance", options.crc_check_chance.to_be_bytes())
            .set("dclocal_read_repair_chance", 0f64.to_be_bytes())
            .set("default_time_to_live", options.default_time_to_live.to_be_bytes())
            .set("extensions", frozen_map(extensions.into_iter()))
            .set("flags", flags)
            .set("gc_grace_seconds", options.gc_grace_seconds.to_be_bytes())
            .set("id", table.id.0)
            .set_some("incremental_backups", boolean(options.incremental_backups))
            .set("max_index_interval", options.max_index_interval.to_be_bytes())
            .set_some("memtable", options.memtable.as_deref())
            .set("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms.to_be_bytes())
            .set("min_index_interval", options.min_index_interval.to_be_bytes())
            .set("read_repair", options.read_repair.as_str())
            .set("read_repair_chance", 0f64.to_be_bytes())
            .set("speculative_retry", options.speculative_retry.as_str());
        if let Some(before) = before.map(|table| &table.options) {
            let gone = [
                ("allow_auto_snapshot", before.allow_auto_snapshot.is_some() && options.allow_auto_snapshot.is_none()),
                ("cdc", before.cdc.is_some() && options.cdc.is_none()),
                ("incremental_backups", before.incremental_backups.is_some() && options.incremental_backups.is_none()),
                ("memtable", before.memtable.is_some() && options.memtable.is_none()),
            ];
            for (column, _) in gone.into_iter().filter(|(_, gone)| *gone) {
                row.remove(column, self.now_in_seconds);
            }
        }
        row.finish(self.mutation.table(tables.id));
    }

    fn column(&mut self, table: &Table, column: &Column) {
        let columns = system_table(self.schema, "system_schema", "columns");
        let (kind, position, order, cql_type) = column_row(column);
        RowWriter::new(columns, &[table.name.as_bytes(), column.name.as_bytes()], self.timestamp)
            .set("clustering_order", order)
            .set("column_name_bytes", column.name.as_bytes())
            .set("kind", kind)
            .set("position", position.to_be_bytes())
            .set("type", cql_type)
            .finish(self.mutation.table(columns.id));
    }

    fn index(&mut self, table: &Table, index: &Index) {
        let indexes = system_table(self.schema, "system_schema", "indexes");
        let target = index.target();
        RowWriter::new(indexes, &[table.name.as_bytes(), index.name.as_bytes()], self.timestamp)
            .set("kind", "COMPOSITES")
            .set("options", frozen_map([("target", target.as_bytes())].into_iter()))
            .finish(self.mutation.table(indexes.id));
    }

    fn dropped_column(&mut self, table: &Table, dropped: &DroppedColumn) {
        let columns = system_table(self.schema, "system_schema", "dropped_columns");
        let kind = if dropped.kind == ColumnKind::Static { "static" } else { "regular" };
        RowWriter::new(columns, &[table.name.as_bytes(), dropped.name.as_bytes()], self.timestamp)
            .set("dropped_time", dropped.dropped_at.div_euclid(MICROS_PER_MILLI).to_be_bytes())
            .set("kind", kind)
            .set("type", dropped.cql_type.to_string())
            .finish(self.mutation.table(columns.id));
    }
}

/// Names and types of the fields, as the row of a user type has them.
fn type_row(definition: &UserType) -> (Vec<String>, Vec<String>) {
    definition.fields.iter().map(|(name, cql_type)| (name.clone(), cql_type.to_string())).unzip()
}

/// Kind, position, clustering order and type, as the row of a column has them.
fn column_row(column: &Column) -> (&'static str, i32, &'static str, String) {
    let (kind, position, order) = match column.kind {
        ColumnKind::PartitionKey => ("partition_key", i32::from(column.position), "none"),
        ColumnKind::Clustering => {
            ("clustering", i32::from(column.position), if column.descending { "desc" } else { "asc" })
        }
        ColumnKind::Static => ("static", -1, "none"),
        ColumnKind::Regular => ("regular", -1, "none"),
    };
    (kind, position, order, column.cql_type.to_string())
}

/// The bytes of a frozen list of texts.
fn frozen_list(texts: &[String]) -> Vec<u8> {
    let mut out = (texts.len() as i32).to_be_bytes().to_vec();
    texts.iter().for_each(|text| push_element(&mut out, Some(text.as_bytes())));
    out
}
