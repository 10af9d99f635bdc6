//! Keyspaces and tables as rows of `system_schema`, both ways, with Cassandra's column values.
//!
//! All rows of a keyspace have its name as their partition key, so creating or dropping one thing is one mutation, whole
//! or not at all.
//!
//! Invariants: [`load`] of what [`keyspace_created`] wrote gives an equal keyspace; a table whose keyspace is not there,
//! or a table without columns, is damage.

use super::Error;
use super::cells::{RowReader, RowWriter, StoredRow, frozen_map, frozen_text_map};
use super::system_tables::{INDEXES, is_hidden};
use model::mutation::{Clustering, ClusteringBound, push_clustering};
use model::row::{Deletion, RowBuilder};
use model::schema::{Replication, TableOptions};
use model::value::push_element;
use model::{Column, ColumnId, ColumnKind, CqlType, Keyspace, Mutation, MutationBuilder, Schema, Table, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The key of a replication map that names the strategy.
const CLASS: &str = "class";

/// A system table by name; it exists in every schema.
pub(crate) fn system_table<'s>(schema: &'s Schema, keyspace: &str, name: &str) -> &'s Arc<Table> {
    schema.table(keyspace, name).unwrap_or_else(|| panic!("no table {keyspace}.{name}"))
}

/// The rows of a keyspace and of all its tables. `schema` is any that has the system tables; `timestamp` is in
/// microseconds.
pub(crate) fn keyspace_created(schema: &Schema, keyspace: &Keyspace, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(keyspace.name.as_bytes());
    add_keyspace(schema, keyspace, timestamp, &mut mutation);
    mutation.finish()
}

/// The same after everything that was there before is deleted.
pub(crate) fn keyspace_replaced(schema: &Schema, keyspace: &Keyspace, timestamp: i64, now_in_seconds: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(keyspace.name.as_bytes());
    delete_keyspace(schema, timestamp - 1, now_in_seconds, &mut mutation);
    add_keyspace(schema, keyspace, timestamp, &mut mutation);
    mutation.finish()
}

/// Deletes the rows of a keyspace and of all that is in it. `now_in_seconds` starts their grace period.
pub(crate) fn keyspace_dropped(schema: &Schema, keyspace: &str, timestamp: i64, now_in_seconds: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(keyspace.as_bytes());
    delete_keyspace(schema, timestamp, now_in_seconds, &mut mutation);
    mutation.finish()
}

/// The rows of a table.
pub(crate) fn table_created(schema: &Schema, table: &Table, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(table.keyspace.as_bytes());
    add_table(schema, table, timestamp, &mut mutation);
    mutation.finish()
}

/// Deletes the rows of a table.
pub(crate) fn table_dropped(schema: &Schema, table: &Table, timestamp: i64, now_in_seconds: i64) -> Mutation {
    let deletion = Deletion { timestamp, local_deletion_time: now_in_seconds };
    let mut clustering = Vec::new();
    push_clustering(&mut clustering, table.name.as_bytes());
    let mut mutation = MutationBuilder::new(table.keyspace.as_bytes());
    mutation.table(system_table(schema, "system_schema", "tables").id);
    mutation.row(Clustering(&clustering), |out| {
        RowBuilder::new(out, None, deletion);
    });
    let whole = ClusteringBound { prefix: Clustering(&clustering), inclusive: true };
    for rows_of_tables in ["columns", "dropped_columns", "column_masks", "indexes", "triggers"] {
        mutation.table(system_table(schema, "system_schema", rows_of_tables).id).delete_range(whole, whole, deletion);
    }
    mutation.finish()
}

fn delete_keyspace(schema: &Schema, timestamp: i64, now_in_seconds: i64, mutation: &mut MutationBuilder) {
    let tables = schema.keyspace("system_schema").into_iter().flat_map(|keyspace| keyspace.tables.values());
    for table in tables.filter(|table| !is_hidden(table)) {
        mutation.table(table.id).delete_partition(Deletion { timestamp, local_deletion_time: now_in_seconds });
    }
}

fn add_keyspace(schema: &Schema, keyspace: &Keyspace, timestamp: i64, mutation: &mut MutationBuilder) {
    let keyspaces = system_table(schema, "system_schema", "keyspaces");
    let mut replication = keyspace.replication.options.clone();
    replication.insert(CLASS.to_string(), keyspace.replication.class.clone());
    RowWriter::new(keyspaces, &[], timestamp)
        .set("durable_writes", [keyspace.durable_writes.into()])
        .set("replication", frozen_text_map(&replication))
        .finish(mutation.table(keyspaces.id));
    for table in keyspace.tables.values().filter(|table| !is_hidden(table)) {
        add_table(schema, table, timestamp, mutation);
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

fn add_table(schema: &Schema, table: &Table, timestamp: i64, mutation: &mut MutationBuilder) {
    let tables = system_table(schema, "system_schema", "tables");
    let options = &table.options;
    // Every table that CQL makes is of this one kind.
    let mut flags = 1i32.to_be_bytes().to_vec();
    push_element(&mut flags, Some(b"compound"));
    let extensions = options.extensions.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
    let boolean = |value: Option<bool>| value.map(|value| [u8::from(value)]);
    RowWriter::new(tables, &[table.name.as_bytes()], timestamp)
        .set("additional_write_policy", options.additional_write_policy.as_str())
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
        .set("extensions", frozen_map(extensions))
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
        .set("speculative_retry", options.speculative_retry.as_str())
        .finish(mutation.table(tables.id));

    let columns = system_table(schema, "system_schema", "columns");
    mutation.table(columns.id);
    for column in &table.columns {
        let (kind, position, order) = match column.kind {
            ColumnKind::PartitionKey => ("partition_key", i32::from(column.position), "none"),
            ColumnKind::Clustering => {
                ("clustering", i32::from(column.position), if column.descending { "desc" } else { "asc" })
            }
            ColumnKind::Static => ("static", -1, "none"),
            ColumnKind::Regular => ("regular", -1, "none"),
        };
        RowWriter::new(columns, &[table.name.as_bytes(), column.name.as_bytes()], timestamp)
            .set("clustering_order", order)
            .set("column_name_bytes", column.name.as_bytes())
            .set("kind", kind)
            .set("position", position.to_be_bytes())
            .set("type", column.cql_type.to_string())
            .finish(mutation);
    }
}

/// The keyspaces that rows of `system_schema.keyspaces`, `tables` and `columns` describe, by name. `schema` is any that
/// has the system tables.
pub(crate) fn load(
    schema: &Schema,
    keyspaces: &[StoredRow],
    tables: &[StoredRow],
    columns: &[StoredRow],
) -> Result<BTreeMap<String, Keyspace>, Error> {
    let mut found = BTreeMap::new();
    let description = system_table(schema, "system_schema", "keyspaces");
    for row in keyspaces {
        let keyspace = load_keyspace(RowReader::new(description, row))?;
        found.insert(keyspace.name.clone(), keyspace);
    }

    let description = system_table(schema, "system_schema", "columns");
    let mut columns_of: BTreeMap<(String, String), Vec<Column>> = BTreeMap::new();
    for row in columns {
        let row = RowReader::new(description, row);
        let owner = (row.text("keyspace_name")?, row.text("table_name")?);
        columns_of.entry(owner).or_default().push(load_column(row)?);
    }

    let description = system_table(schema, "system_schema", "tables");
    for row in tables {
        let row = RowReader::new(description, row);
        let owner = (row.text("keyspace_name")?, row.text("table_name")?);
        let columns = columns_of.remove(&owner).unwrap_or_default();
        let table = load_table(row, columns)?;
        let keyspace = found.get_mut(&table.keyspace).ok_or_else(|| row.malformed("keyspace_name"))?;
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
    Ok(found)
}

fn load_keyspace(row: RowReader<'_>) -> Result<Keyspace, Error> {
    let mut options = row.text_map("replication")?;
    let class = options.remove(CLASS).ok_or_else(|| row.malformed("replication"))?;
    Ok(Keyspace {
        name: row.text("keyspace_name")?,
        replication: Replication { class, options },
        durable_writes: row.boolean("durable_writes")?,
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
    })
}

fn load_column(row: RowReader<'_>) -> Result<Column, Error> {
    let kind = match row.text("kind")?.as_str() {
        "partition_key" => ColumnKind::PartitionKey,
        "clustering" => ColumnKind::Clustering,
        "static" => ColumnKind::Static,
        "regular" => ColumnKind::Regular,
        _ => return Err(row.malformed("kind")),
    };
    let position = match (kind, row.int("position")?) {
        (ColumnKind::Static | ColumnKind::Regular, _) => 0,
        (_, position) => u16::try_from(position).map_err(|_| row.malformed("position"))?,
    };
    let cql_type = CqlType::parse(&row.text("type")?).ok_or_else(|| row.malformed("type"))?;
    let descending = row.text("clustering_order")? == "desc";
    Ok(Column { id: ColumnId(0), name: row.text("column_name")?, kind, position, cql_type, descending })
}

fn load_table(row: RowReader<'_>, mut columns: Vec<Column>) -> Result<Table, Error> {
    let rank = |kind| match kind {
        ColumnKind::PartitionKey => 0,
        ColumnKind::Clustering => 1,
        ColumnKind::Static => 2,
        ColumnKind::Regular => 3,
    };
    columns.sort_by(|a, b| (rank(a.kind), a.position, &a.name).cmp(&(rank(b.kind), b.position, &b.name)));
    if columns.len() > usize::from(u16::MAX) {
        return Err(row.malformed("table_name"));
    }
    let count = |kind| columns.iter().filter(|column| column.kind == kind).count();
    let static_len = count(ColumnKind::Static);
    let (partition_key_len, clustering_len) = (count(ColumnKind::PartitionKey), count(ColumnKind::Clustering));
    let keys = [&columns[..partition_key_len], &columns[partition_key_len..partition_key_len + clustering_len]];
    let in_place = |key: &[Column]| key.iter().enumerate().all(|(i, column)| column.position as usize == i);
    if partition_key_len == 0 || !keys.into_iter().all(in_place) {
        return Err(row.malformed("table_name"));
    }
    let options = TableOptions {
        additional_write_policy: row.text("additional_write_policy")?,
        allow_auto_snapshot: row.optional_boolean("allow_auto_snapshot")?,
        bloom_filter_fp_chance: row.double("bloom_filter_fp_chance")?,
        caching: row.text_map("caching")?,
        cdc: row.optional_boolean("cdc")?,
        comment: row.text("comment")?,
        compaction: row.text_map("compaction")?,
        compression: row.text_map("compression")?,
        crc_check_chance: row.double("crc_check_chance")?,
        default_time_to_live: row.int("default_time_to_live")?,
        extensions: row.map("extensions")?,
        gc_grace_seconds: row.int("gc_grace_seconds")?,
        incremental_backups: row.optional_boolean("incremental_backups")?,
        max_index_interval: row.int("max_index_interval")?,
        memtable: row.optional_text("memtable")?,
        memtable_flush_period_in_ms: row.int("memtable_flush_period_in_ms")?,
        min_index_interval: row.int("min_index_interval")?,
        read_repair: row.text("read_repair")?,
        speculative_retry: row.text("speculative_retry")?,
    };
    let mut table = Table {
        id: TableId(row.uuid("id")?.into_bytes()),
        keyspace: row.text("keyspace_name")?,
        name: row.text("table_name")?,
        columns,
        partition_key_len,
        clustering_len,
        static_len,
        dropped: Vec::new(),
        options,
    };
    table.number_columns();
    Ok(table)
}
