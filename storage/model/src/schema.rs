//! Keyspaces, tables and columns. A [`Schema`] is immutable and shared between cores as `Arc<Schema>`.

use crate::capacity::Capacity;
use crate::id_map::IdMap;
use crate::index::Index;
use crate::key::{Home, components};
use crate::mask::ColumnMask;
use crate::partitioner::Partitioner;
use crate::quota::Quota;
use crate::tablets::TableTablets;
use crate::text::to_plain;
use crate::tombstone_gc::{GcBefore, GcMode, RepairedRanges, TombstoneGc};
use crate::types::{CqlType, UserType};
use crate::write_sharding::WriteSharding;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// A table's id: random or given by WITH ID for user tables, deterministic for system tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub [u8; 16]);

impl TableId {
    /// The id as a uuid.
    pub fn uuid(self) -> Uuid {
        Uuid::from_bytes(self.0)
    }
}

impl fmt::Debug for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uuid().fmt(f)
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uuid().fmt(f)
    }
}

/// A column's number within its table, by which row blobs and read commands name the column. It is given when the
/// column is added, stored with the schema, and the same on every node; no other column of the table ever gets it, not
/// even a column that is added again under the name of a dropped one. Renaming keeps it. The columns of a new table
/// are numbered in `SELECT *` order; those of system and virtual tables by their order in the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ColumnId(pub u16);

/// The role of a column in its table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "Cassandra's words")]
pub enum ColumnKind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

impl ColumnKind {
    /// Whether columns of this kind are part of the primary key.
    pub fn is_key(self) -> bool {
        matches!(self, ColumnKind::PartitionKey | ColumnKind::Clustering)
    }
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its id. Key columns have one too, which row blobs do not use.
    pub id: ColumnId,
    /// Its name in the case that is stored.
    pub name: String,
    /// Its role.
    pub kind: ColumnKind,
    /// Its position within the partition key or the clustering, from 0; 0 for static and regular columns.
    pub position: u16,
    /// Its type; for a descending clustering column the type without the reversal.
    pub cql_type: CqlType,
    /// Whether a clustering column was declared with `CLUSTERING ORDER BY (c DESC)`.
    pub descending: bool,
}

/// A column that ALTER TABLE dropped. Cells written before that must not reappear when the column is added again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedColumn {
    /// The id it had; that of the column which exists if it was added again.
    pub id: ColumnId,
    /// Its name.
    pub name: String,
    /// Static or regular.
    pub kind: ColumnKind,
    /// Its type, with tuples in place of user types, because those may have been dropped; as in Cassandra.
    pub cql_type: CqlType,
    /// Cells with a timestamp (microseconds) at or before this one are dropped.
    pub dropped_at: i64,
}

/// How a table's rows are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// Rows with liveness and any number of columns, as in CQL.
    #[default]
    Plain,
    /// WITH COMPACT STORAGE and no clustering. The columns are stored as static ones, beside a clustering column and a
    /// value column; clients see neither those two nor their rows.
    StaticCompact,
    /// WITH COMPACT STORAGE and a clustering, whose last values a row may lack. A row exists only by its one value
    /// column, which is hidden and of type [`CqlType::Empty`] if the table was created without one.
    DenseCompact,
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its id.
    pub id: TableId,
    /// Its keyspace's name.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// All columns in `SELECT *` order: partition key, clustering, static by name, regular by name.
    pub columns: Vec<Column>,
    /// Number of partition key columns; at least 1.
    pub partition_key_len: usize,
    /// Number of clustering columns.
    pub clustering_len: usize,
    /// Number of static columns.
    pub static_len: usize,
    /// Columns that were dropped, including those that have been added again.
    pub dropped: Vec<DroppedColumn>,
    /// How its rows are stored.
    pub layout: Layout,
    /// Its secondary indexes, by name.
    pub indexes: Vec<Index>,
    /// The masks of its columns.
    pub masks: BTreeMap<ColumnId, Arc<ColumnMask>>,
    /// The table's options, each with a value.
    pub options: TableOptions,
}

impl Table {
    /// Whether the table has no storage: its rows are made when they are read.
    pub fn is_virtual(&self) -> bool {
        VIRTUAL_KEYSPACES.contains(&self.keyspace.as_str())
    }

    /// Whether the table is in one of [`SYSTEM_KEYSPACES`].
    pub fn is_system(&self) -> bool {
        SYSTEM_KEYSPACES.contains(&self.keyspace.as_str())
    }

    /// The partition key columns.
    pub fn partition_key(&self) -> &[Column] {
        &self.columns[..self.partition_key_len]
    }

    /// The clustering columns.
    pub fn clustering(&self) -> &[Column] {
        &self.columns[self.partition_key_len..self.partition_key_len + self.clustering_len]
    }

    /// Number of primary key columns.
    pub fn primary_key_len(&self) -> usize {
        self.partition_key_len + self.clustering_len
    }

    /// The static columns, by name.
    pub fn statics(&self) -> &[Column] {
        &self.columns[self.primary_key_len()..self.primary_key_len() + self.static_len]
    }

    /// The regular columns, by name.
    pub fn regular(&self) -> &[Column] {
        &self.columns[self.primary_key_len() + self.static_len..]
    }

    /// The static, then the regular columns.
    pub fn data_columns(&self) -> &[Column] {
        &self.columns[self.primary_key_len()..]
    }

    /// Whether this is a counter table: all columns outside its primary key are counters, or, if it has none, were
    /// before they were dropped.
    pub fn is_counter(&self) -> bool {
        match self.data_columns().last() {
            Some(column) => column.cql_type == CqlType::Counter,
            None => self.dropped.iter().any(|dropped| dropped.cql_type == CqlType::Counter),
        }
    }

    /// Whether it was created WITH COMPACT STORAGE.
    pub fn is_compact(&self) -> bool {
        self.layout != Layout::Plain
    }

    /// Whether clients can neither name nor see a column, which exists only in storage.
    pub fn is_hidden(&self, column: &Column) -> bool {
        match self.layout {
            Layout::Plain => false,
            Layout::StaticCompact => matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular),
            Layout::DenseCompact => column.kind == ColumnKind::Regular && column.cql_type == CqlType::Empty,
        }
    }

    /// The columns that clients see, in `SELECT *` order.
    pub fn visible_columns(&self) -> impl Iterator<Item = &Column> + Clone {
        self.columns.iter().filter(|column| !self.is_hidden(column))
    }

    /// The clustering columns that clients see.
    pub fn visible_clustering(&self) -> &[Column] {
        if self.layout == Layout::StaticCompact { &[] } else { self.clustering() }
    }

    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The column with this id.
    #[inline]
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        match self.columns.get(usize::from(id.0)) {
            Some(column) if column.id == id => Some(column),
            _ => self.moved_index_of(id).and_then(|at| self.columns.get(at)),
        }
    }

    /// The index in `columns` of the column with this id. In a table that was never altered that is the id itself.
    #[inline]
    pub fn index_of(&self, id: ColumnId) -> Option<usize> {
        match self.columns.get(id.0 as usize) {
            Some(column) if column.id == id => Some(id.0 as usize),
            _ => self.moved_index_of(id),
        }
    }

    /// [`Table::index_of`] in an altered table. Columns that were added or dropped move the others by a few places, so
    /// the search goes outwards from where the column would be without them.
    #[cold]
    fn moved_index_of(&self, id: ColumnId) -> Option<usize> {
        let last = self.columns.len().checked_sub(1)?;
        let start = usize::from(id.0).min(last);
        let at_distance = |distance: usize| [start.checked_sub(distance), Some(start + distance)];
        let mut places = (0..=last).flat_map(at_distance).flatten();
        places.find(|at| self.columns.get(*at).is_some_and(|column| column.id == id))
    }

    /// Whether a cell written at `timestamp` (microseconds) is of a column that does not exist, or that was dropped
    /// since and added again. Cells of the id that a column had before it was dropped and added again are gone whatever
    /// their timestamp: those that are to come back are in SSTables, which name columns.
    #[inline]
    pub fn is_dropped(&self, column: ColumnId, timestamp: i64) -> bool {
        if self.dropped.is_empty() {
            return false;
        }
        let hides = |dropped: &DroppedColumn| dropped.id == column && timestamp <= dropped.dropped_at;
        self.dropped.iter().any(hides) || self.index_of(column).is_none()
    }

    /// The id for a column that is added: one above every id that a column of the table has had. `None` once all ids
    /// are used.
    pub fn next_column_id(&self) -> Option<ColumnId> {
        // A dropped column stays in `dropped` with its id; if it is added again, it has a higher one.
        let ids = self.columns.iter().map(|column| column.id).chain(self.dropped.iter().map(|dropped| dropped.id));
        match ids.max() {
            None => Some(ColumnId(0)),
            Some(last) => last.0.checked_add(1).map(ColumnId),
        }
    }

    /// Numbers the columns of a new table by their positions.
    pub fn number_columns(&mut self) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            column.id = ColumnId(at as u16);
        }
    }

    /// The indexes on a column, by name.
    pub fn indexes_of<'t>(&'t self, column: &'t str) -> impl Iterator<Item = &'t Index> {
        self.indexes.iter().filter(move |index| index.column == column)
    }

    /// A stored partition key as Cassandra's tools show it: `7`, `0:he\\:y`. With write sharding the number of the
    /// sub-partition comes last.
    pub fn key_text(&self, key: &[u8]) -> String {
        if let ([column], None) = (self.partition_key(), self.write_sharding()) {
            return to_plain(&column.cql_type, key);
        }
        let parts = self.stored_key_types().zip(components(key, self.stored_key_len()));
        let texts = parts.map(|(cql_type, part)| {
            let text = to_plain(cql_type, part).replace(':', "\\:");
            // As in Cassandra, so that the end of a part is not taken for an escape.
            let end = if text.ends_with(['\\', '!']) { "!" } else { "" };
            format!("{text}{end}")
        });
        texts.collect::<Vec<String>>().join(":")
    }

    /// `keyspace.name`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }
}

/// Table options with Cassandra's names and defaults. Options that storage does not use are stored and shown.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "Cassandra's names; see its CREATE TABLE documentation")]
pub struct TableOptions {
    pub additional_write_policy: String,
    pub allow_auto_snapshot: Option<bool>,
    pub bloom_filter_fp_chance: f64,
    pub caching: BTreeMap<String, String>,
    /// The throughput that the table may use; `None`: it is not limited.
    pub capacity: Option<Arc<Capacity>>,
    pub cdc: Option<bool>,
    pub comment: String,
    pub compaction: BTreeMap<String, String>,
    pub compression: BTreeMap<String, String>,
    pub crc_check_chance: f64,
    pub default_time_to_live: i32,
    pub extensions: BTreeMap<String, Vec<u8>>,
    pub gc_grace_seconds: i32,
    pub incremental_backups: Option<bool>,
    pub max_index_interval: i32,
    pub memtable: Option<String>,
    pub memtable_flush_period_in_ms: i32,
    pub min_index_interval: i32,
    pub read_repair: String,
    pub speculative_retry: String,
    /// How many tablets the table should have.
    pub tablets: TableTablets,
    pub tombstone_gc: TombstoneGc,
    /// How the rows of one partition key are spread over several partitions; `None`: they are not.
    pub write_sharding: Option<Arc<WriteSharding>>,
}

impl Default for TableOptions {
    /// Cassandra 5.0's defaults for a new user table.
    fn default() -> TableOptions {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        TableOptions {
            additional_write_policy: "99p".into(),
            allow_auto_snapshot: None,
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            capacity: None,
            cdc: None,
            comment: String::new(),
            compaction: map(&[
                ("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
            compression: map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864000,
            incremental_backups: None,
            max_index_interval: 2048,
            memtable: None,
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".into(),
            speculative_retry: "99p".into(),
            tablets: TableTablets::default(),
            tombstone_gc: TombstoneGc::default(),
            write_sharding: None,
        }
    }
}

impl TableOptions {
    /// Before which second deletions may be forgotten, of a table of which `ranges` are known to be repaired.
    pub fn gc_before(&self, ranges: Option<&Arc<RepairedRanges>>, now_in_seconds: i64) -> GcBefore {
        GcBefore::of(self.tombstone_gc, self.gc_grace_seconds, ranges, now_in_seconds)
    }

    /// How long after a deletion a replica that has missed it may still have what it deletes, seconds: older mutations
    /// that were missed are not brought any more.
    pub fn grace_seconds(&self) -> u32 {
        match self.tombstone_gc.mode {
            GcMode::Immediate => 0,
            GcMode::Timeout | GcMode::Repair | GcMode::Disabled => u32::try_from(self.gc_grace_seconds).unwrap_or(0),
        }
    }

    /// Whether a replica may have been away for any time: what it has missed is deleted nowhere for good before it has
    /// heard of it.
    pub fn keeps_deletions(&self) -> bool {
        matches!(self.tombstone_gc.mode, GcMode::Repair | GcMode::Disabled)
    }
}

/// A keyspace's replication strategy and its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replication {
    /// The strategy's full class name.
    pub class: String,
    /// Everything but the class.
    pub options: BTreeMap<String, String>,
}

/// How the tables of a keyspace are cut into tablets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyspaceTablets {
    /// The number of tablets that a new table has at least, up to [`crate::tablets::TABLETS_MAX`]; 0: as many as the
    /// cluster chooses.
    pub initial: u32,
    /// Whether the keyspace is one of ManagedStrategy, ours: its replicas look after themselves.
    pub is_managed: bool,
}

/// A keyspace.
#[derive(Clone, PartialEq, Debug)]
pub struct Keyspace {
    /// Its name.
    pub name: String,
    /// Its replication strategy.
    pub replication: Replication,
    /// Whether writes go to the commit log.
    pub durable_writes: bool,
    /// That its tables are cut into tablets, and how; `None` if they follow the ring of tokens.
    pub tablets: Option<KeyspaceTablets>,
    /// How much its tables may be used, all together.
    pub quota: Quota,
    /// Tables by name.
    pub tables: BTreeMap<String, Arc<Table>>,
    /// User types by name.
    pub types: BTreeMap<String, Arc<UserType>>,
}

impl Keyspace {
    /// Whether its replicas look after themselves (ManagedStrategy).
    pub fn is_managed(&self) -> bool {
        self.tablets.is_some_and(|tablets| tablets.is_managed)
    }

    /// Whether its tables are virtual: they have no storage, and their rows are computed when they are read.
    pub fn is_virtual(&self) -> bool {
        VIRTUAL_KEYSPACES.contains(&self.name.as_str())
    }

    /// The user types by name, except that each comes after the types that it contains.
    pub fn types_by_dependency(&self) -> Vec<&Arc<UserType>> {
        let mut found = Vec::with_capacity(self.types.len());
        let mut seen = BTreeSet::new();
        self.types.values().for_each(|definition| self.visit(definition, &mut seen, &mut found));
        found
    }

    fn visit<'k>(&'k self, definition: &UserType, seen: &mut BTreeSet<&'k str>, found: &mut Vec<&'k Arc<UserType>>) {
        let Some((name, own)) = self.types.get_key_value(&definition.name) else { return };
        if seen.insert(name) {
            own.field_types().for_each(|cql_type| self.visit_contained(cql_type, seen, found));
            found.push(own);
        }
    }

    fn visit_contained<'k>(
        &'k self,
        cql_type: &CqlType,
        seen: &mut BTreeSet<&'k str>,
        found: &mut Vec<&'k Arc<UserType>>,
    ) {
        match cql_type {
            CqlType::User { definition, .. } => self.visit(definition, seen, found),
            other => other.parts().into_iter().for_each(|part| self.visit_contained(part, seen, found)),
        }
    }

    /// Whether data of this keyspace is not replicated: `LocalStrategy`.
    pub fn is_local(&self) -> bool {
        self.replication.class.ends_with("LocalStrategy")
    }

    /// Where a table of this keyspace is stored. Tables of unreplicated keyspaces are stored on shard 0, except
    /// `system.batches`, whose rows are stored on the shards that coordinate the batches, and `system.paxos`, whose
    /// rows are stored on the shards of their partitions.
    pub fn home_of(&self, table: &str) -> Home {
        match self.is_local() && !(self.name == "system" && matches!(table, "batches" | "paxos")) {
            true => Home::Shard0,
            false => Home::ByToken,
        }
    }
}

/// The keyspaces that clients may not change.
pub const SYSTEM_KEYSPACES: [&str; 5] =
    ["system", "system_schema", "system_auth", "system_distributed", "system_traces"];

/// The system keyspaces whose tables are virtual.
pub const VIRTUAL_KEYSPACES: [&str; 2] = ["system_views", "system_virtual_schema"];

/// Whether a keyspace is one of the system's, stored or virtual.
pub fn is_system_keyspace(name: &str) -> bool {
    SYSTEM_KEYSPACES.contains(&name) || VIRTUAL_KEYSPACES.contains(&name)
}

/// All keyspaces and tables, at one version.
#[derive(Clone, PartialEq, Debug)]
pub struct Schema {
    /// The partitioner of the node, under which the partitions of all tables lie on the ring.
    pub partitioner: Partitioner,
    /// A new one after every schema change that has an effect.
    pub version: Uuid,
    /// Keyspaces by name.
    pub keyspaces: BTreeMap<String, Arc<Keyspace>>,
    /// Tables by id.
    pub tables: IdMap<TableId, Arc<Table>>,
}

impl Schema {
    /// An empty schema.
    pub fn empty(partitioner: Partitioner) -> Schema {
        Schema { partitioner, version: Uuid::nil(), keyspaces: BTreeMap::new(), tables: IdMap::default() }
    }

    /// The keyspace with this name.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<Keyspace>> {
        self.keyspaces.get(name)
    }

    /// The table with this name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<Table>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }

    /// The table with this id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }

    /// Adds or replaces a keyspace with all its tables.
    pub fn put_keyspace(&mut self, keyspace: Arc<Keyspace>) {
        self.drop_keyspace(&keyspace.name);
        for table in keyspace.tables.values() {
            self.tables.insert(table.id, table.clone());
        }
        self.keyspaces.insert(keyspace.name.clone(), keyspace);
    }

    /// Removes a keyspace and its tables.
    pub fn drop_keyspace(&mut self, name: &str) {
        if let Some(old) = self.keyspaces.remove(name) {
            for table in old.tables.values() {
                self.tables.remove(&table.id);
            }
        }
    }
}
