//! Reading keyspaces from the rows of `system_schema`.
//!
//! Invariants: rows that this program cannot have written are damage ([`Error::Malformed`]): a table, a type or tablets
//! without their keyspace, a table without columns, types that hold each other, two columns with one id.

use super::{CLASS, MICROS_PER_MILLI, column_ids, drop_times, quotas, system_table, tablets, tombstone_gc};
use crate::schema::Error;
use crate::schema::cells::{RowReader, StoredRow};
use model::capacity::{self, Capacity};
use model::quota::Quota;
use model::schema::{DroppedColumn, Replication, TableOptions};
use model::tablets::TableTablets;
use model::tombstone_gc::TombstoneGc;
use model::types::UserType;
use model::write_sharding::{self, WriteSharding};
use model::{Column, ColumnId, ColumnKind, ColumnMask, CqlType, Index, Keyspace, Schema, Table, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of tables of `system_schema`, by the tables' names.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchemaRows {
    pub(crate) keyspaces: Vec<StoredRow>,
    pub(crate) types: Vec<StoredRow>,
    pub(crate) tables: Vec<StoredRow>,
    pub(crate) columns: Vec<StoredRow>,
    pub(crate) dropped_columns: Vec<StoredRow>,
    pub(crate) indexes: Vec<StoredRow>,
    pub(crate) column_ids: Vec<StoredRow>,
    pub(crate) masks: Vec<StoredRow>,
    pub(crate) tablets: Vec<StoredRow>,
    pub(crate) quotas: Vec<StoredRow>,
}

/// What the rows of `system_schema` describe.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StoredSchema {
    /// The keyspaces, by name.
    pub(crate) keyspaces: BTreeMap<String, Keyspace>,
    /// User tables with columns whose ids are not stored: they got theirs from [`load`].
    pub(crate) without_ids: Vec<TableId>,
}

/// The keyspaces that the rows describe. `schema` is any schema with the system tables.
pub(crate) fn load(schema: &Schema, rows: &SchemaRows) -> Result<StoredSchema, Error> {
    let SchemaRows { keyspaces, types, tables, columns, dropped_columns, indexes, column_ids: ids, masks, .. } = rows;
    let mut found = BTreeMap::new();
    let description = system_table(schema, "system_schema", "keyspaces");
    for row in keyspaces {
        let keyspace = load_keyspace(RowReader::new(description, row))?;
        found.insert(keyspace.name.clone(), keyspace);
    }

    let description = system_table(schema, "system_schema", tablets::TABLE);
    for row in &rows.tablets {
        let row = RowReader::new(description, row);
        let keyspace = found.get_mut(&row.text("keyspace_name")?);
        keyspace.ok_or_else(|| row.malformed("keyspace_name"))?.tablets = Some(tablets::load(row)?);
    }

    let description = system_table(schema, "system_schema", quotas::TABLE);
    for row in &rows.quotas {
        let row = RowReader::new(description, row);
        let keyspace = found.get_mut(&row.text("keyspace_name")?);
        keyspace.ok_or_else(|| row.malformed("keyspace_name"))?.quota = quotas::load(row)?;
    }

    load_types(&mut found, system_table(schema, "system_schema", "types"), types)?;

    let description = system_table(schema, "system_schema", "columns");
    let mut columns_of: BTreeMap<(String, String), Vec<Column>> = BTreeMap::new();
    for row in columns {
        let row = RowReader::new(description, row);
        let owner = (row.text("keyspace_name")?, row.text("table_name")?);
        let column = load_column(row, found.get(&owner.0))?;
        columns_of.entry(owner).or_default().push(column);
    }

    let description = system_table(schema, "system_schema", "dropped_columns");
    let mut dropped_of: BTreeMap<(String, String), Vec<DroppedColumn>> = BTreeMap::new();
    for row in dropped_columns {
        let row = RowReader::new(description, row);
        let owner = (row.text("keyspace_name")?, row.text("table_name")?);
        dropped_of.entry(owner).or_default().push(load_dropped(row)?);
    }

    let description = system_table(schema, "system_schema", "indexes");
    let mut indexes_of: BTreeMap<(String, String), Vec<Index>> = BTreeMap::new();
    for row in indexes {
        let row = RowReader::new(description, row);
        let owner = (row.text("keyspace_name")?, row.text("table_name")?);
        if let Some(index) = load_index(row)? {
            indexes_of.entry(owner).or_default().push(index);
        }
    }

    let description = system_table(schema, "system_schema", column_ids::TABLE);
    let mut ids_of: BTreeMap<(String, String), column_ids::Ids> = BTreeMap::new();
    for row in ids {
        let row = RowReader::new(description, row);
        let owner = (row.text("keyspace_name")?, row.text("table_name")?);
        let id = u16::try_from(row.int("id")?).map_err(|_| row.malformed("id"))?;
        ids_of.entry(owner).or_default().insert(row.text("column_name")?, ColumnId(id));
    }

    let mut masks_of: BTreeMap<(String, String), Vec<(String, ColumnMask)>> = BTreeMap::new();
    for row in masks {
        let loaded = super::masks::load(schema, row, |name| found.get(name))?;
        if let Some(([keyspace, table, column], mask)) = loaded {
            masks_of.entry((keyspace, table)).or_default().push((column, mask));
        }
    }

    let description = system_table(schema, "system_schema", "tables");
    let mut without_ids = Vec::new();
    for row in tables {
        let row = RowReader::new(description, row);
        let owner = (row.text("keyspace_name")?, row.text("table_name")?);
        let columns = columns_of.remove(&owner).unwrap_or_default();
        let dropped = dropped_of.remove(&owner).unwrap_or_default();
        let mut table = load_table(row, columns, dropped)?;
        let ids = ids_of.remove(&owner).unwrap_or_default();
        let complete = column_ids::assign(&ids, &mut table).ok_or_else(|| row.malformed("table_name"))?;
        if !complete && column_ids::are_stored(&table) {
            without_ids.push(table.id);
        }
        table.indexes = indexes_of.remove(&owner).unwrap_or_default();
        table.indexes.sort_by(|a, b| a.name.cmp(&b.name));
        if table.indexes.iter().any(|index| table.column(&index.column).is_none()) {
            return Err(row.malformed("table_name"));
        }
        for (column, mask) in masks_of.remove(&owner).unwrap_or_default() {
            if let Some(id) = table.column(&column).map(|column| column.id) {
                table.masks.insert(id, Arc::new(mask));
            }
        }
        let keyspace = found.get_mut(&table.keyspace).ok_or_else(|| row.malformed("keyspace_name"))?;
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
    Ok(StoredSchema { keyspaces: found, without_ids })
}

fn load_keyspace(row: RowReader<'_>) -> Result<Keyspace, Error> {
    let mut options = row.text_map("replication")?;
    let class = options.remove(CLASS).ok_or_else(|| row.malformed("replication"))?;
    Ok(Keyspace {
        name: row.text("keyspace_name")?,
        replication: Replication { class, options },
        durable_writes: row.boolean("durable_writes")?,
        tablets: None,
        quota: Quota::default(),
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
    })
}

/// Puts the user types into their keyspaces, each after the types that it holds.
fn load_types(
    keyspaces: &mut BTreeMap<String, Keyspace>,
    description: &Table,
    rows: &[StoredRow],
) -> Result<(), Error> {
    let mut waiting: Vec<RowReader<'_>> = rows.iter().map(|row| RowReader::new(description, row)).collect();
    while !waiting.is_empty() {
        let mut left = Vec::new();
        for &row in &waiting {
            let keyspace = keyspaces.get_mut(&row.text("keyspace_name")?);
            let keyspace = keyspace.ok_or_else(|| row.malformed("keyspace_name"))?;
            match load_type(row, keyspace)? {
                Some(definition) => {
                    keyspace.types.insert(definition.name.clone(), Arc::new(definition));
                }
                None => left.push(row),
            }
        }
        // No progress: types that hold each other, or a field whose type does not exist.
        if left.len() == waiting.len() {
            return Err(left[0].malformed("field_types"));
        }
        waiting = left;
    }
    Ok(())
}

/// The user type of a row; `None` if it holds a type that is not in `keyspace` yet.
fn load_type(row: RowReader<'_>, keyspace: &Keyspace) -> Result<Option<UserType>, Error> {
    let (names, cql_types) = (row.text_list("field_names")?, row.text_list("field_types")?);
    if names.len() != cql_types.len() {
        return Err(row.malformed("field_types"));
    }
    let mut fields = Vec::with_capacity(names.len());
    for (name, cql_type) in names.into_iter().zip(cql_types) {
        let Some(cql_type) = type_in(keyspace, &cql_type) else { return Ok(None) };
        fields.push((name, cql_type));
    }
    Ok(Some(UserType { keyspace: keyspace.name.clone(), name: row.text("type_name")?, fields }))
}

/// A type by its CQL name, with the user types of the keyspace.
pub(super) fn type_in(keyspace: &Keyspace, name: &str) -> Option<CqlType> {
    CqlType::parse_in(name, &|name| keyspace.types.get(name).cloned())
}

fn load_dropped(row: RowReader<'_>) -> Result<DroppedColumn, Error> {
    let kind = match row.text("kind")?.as_str() {
        "static" => ColumnKind::Static,
        "regular" => ColumnKind::Regular,
        _ => return Err(row.malformed("kind")),
    };
    // The row has tuples in place of user types, so no user types need to be looked up.
    let cql_type = CqlType::parse(&row.text("type")?).ok_or_else(|| row.malformed("type"))?;
    let dropped_at = row.bigint("dropped_time")?.saturating_mul(MICROS_PER_MILLI);
    Ok(DroppedColumn { id: ColumnId(0), name: row.text("column_name")?, kind, cql_type, dropped_at })
}

/// The index of a row; `None` for a system table's custom index, which is not part of the table's definition.
fn load_index(row: RowReader<'_>) -> Result<Option<Index>, Error> {
    if row.text("kind")? == "CUSTOM" {
        return Ok(None);
    }
    let target = row.text_map("options")?.remove("target").ok_or_else(|| row.malformed("options"))?;
    Index::parse(&row.text("index_name")?, &target).map(Some).ok_or_else(|| row.malformed("options"))
}

fn load_column(row: RowReader<'_>, keyspace: Option<&Keyspace>) -> Result<Column, Error> {
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
    let name = row.text("type")?;
    let cql_type = keyspace.and_then(|keyspace| type_in(keyspace, &name)).ok_or_else(|| row.malformed("type"))?;
    let descending = row.text("clustering_order")? == "desc";
    Ok(Column { id: ColumnId(0), name: row.text("column_name")?, kind, position, cql_type, descending })
}

fn load_table(row: RowReader<'_>, mut columns: Vec<Column>, mut dropped: Vec<DroppedColumn>) -> Result<Table, Error> {
    let rank = |kind| match kind {
        ColumnKind::PartitionKey => 0,
        ColumnKind::Clustering => 1,
        ColumnKind::Static => 2,
        ColumnKind::Regular => 3,
    };
    columns.sort_by(|a, b| (rank(a.kind), a.position, &a.name).cmp(&(rank(b.kind), b.position, &b.name)));
    let count = |kind| columns.iter().filter(|column| column.kind == kind).count();
    let static_len = count(ColumnKind::Static);
    let (partition_key_len, clustering_len) = (count(ColumnKind::PartitionKey), count(ColumnKind::Clustering));
    let keys = [&columns[..partition_key_len], &columns[partition_key_len..partition_key_len + clustering_len]];
    let in_place = |key: &[Column]| key.iter().enumerate().all(|(i, column)| column.position as usize == i);
    if partition_key_len == 0 || !keys.into_iter().all(in_place) {
        return Err(row.malformed("table_name"));
    }
    dropped.sort_by(|a, b| a.name.cmp(&b.name));
    let mut extensions = row.map("extensions")?;
    if let Some(times) = extensions.remove(drop_times::EXTENSION) {
        drop_times::apply(&times, &mut dropped);
    }
    let gc = match extensions.remove(tombstone_gc::EXTENSION) {
        None => TombstoneGc::default(),
        Some(bytes) => tombstone_gc::decode(&bytes).ok_or_else(|| row.malformed("extensions"))?,
    };
    let tablets = match extensions.remove(tablets::EXTENSION) {
        None => TableTablets::default(),
        Some(bytes) => tablets::decode(&bytes).ok_or_else(|| row.malformed("extensions"))?,
    };
    let capacity = extensions.remove(capacity::EXTENSION).map(|bytes| Capacity::decode(&bytes));
    let write_sharding = match extensions.remove(write_sharding::EXTENSION) {
        None => None,
        // Without it stored keys could not be read.
        Some(bytes) => {
            let sharding = WriteSharding::decode(&bytes, clustering_len);
            Some(Arc::new(sharding.ok_or_else(|| row.malformed("extensions"))?))
        }
    };
    let layout = super::layout::of(row, clustering_len)?;
    let options = TableOptions {
        additional_write_policy: row.text("additional_write_policy")?,
        allow_auto_snapshot: row.optional_boolean("allow_auto_snapshot")?,
        bloom_filter_fp_chance: row.double("bloom_filter_fp_chance")?,
        caching: row.text_map("caching")?,
        capacity: capacity.filter(|capacity| *capacity != Capacity::default()).map(Arc::new),
        cdc: row.optional_boolean("cdc")?,
        comment: row.text("comment")?,
        compaction: row.text_map("compaction")?,
        compression: row.text_map("compression")?,
        crc_check_chance: row.double("crc_check_chance")?,
        default_time_to_live: row.int("default_time_to_live")?,
        extensions,
        gc_grace_seconds: row.int("gc_grace_seconds")?,
        incremental_backups: row.optional_boolean("incremental_backups")?,
        max_index_interval: row.int("max_index_interval")?,
        memtable: row.optional_text("memtable")?,
        memtable_flush_period_in_ms: row.int("memtable_flush_period_in_ms")?,
        min_index_interval: row.int("min_index_interval")?,
        read_repair: row.text("read_repair")?,
        speculative_retry: row.text("speculative_retry")?,
        tablets,
        tombstone_gc: gc,
        write_sharding,
    };
    Ok(Table {
        id: TableId(row.uuid("id")?.into_bytes()),
        keyspace: row.text("keyspace_name")?,
        name: row.text("table_name")?,
        columns,
        partition_key_len,
        clustering_len,
        static_len,
        layout,
        dropped,
        indexes: Vec::new(),
        masks: Default::default(),
        options,
    })
}
