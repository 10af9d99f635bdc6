//! The system keyspaces and their tables, as Cassandra 5.0.9 defines them: columns, options and ids.
//!
//! The definitions are data, `system_tables.txt` and `virtual_tables.txt` beside this file. A table's id is the
//! name-based uuid (MD5) of the keyspace's and the table's bytes, as in Cassandra, so files and tools agree on it.
//!
//! Invariants: these definitions win over what `system_schema` says about the same keyspaces; columns have the ids of
//! their order here, for good; the hidden tables are readable and appear neither in `system_schema` nor in DESCRIBE.

use super::rows::{column_ids, quotas, tablets};
use cql::ast;
use md5::{Digest, Md5};
use model::quota::Quota;
use model::schema::{Replication, TableOptions};
use model::{Column, ColumnId, ColumnKind, CqlType, Failure, Keyspace, Partitioner, Schema, Table, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

const DEFINITIONS: [&str; 2] = [include_str!("system_tables.txt"), include_str!("virtual_tables.txt")];

/// The table of `system` that holds what the cluster agrees on, and this node's part in agreeing.
pub(crate) const METADATA: &str = "helenus_metadata";
/// The table of `system` that holds the members of the cluster, as this node knows them.
pub(crate) const METADATA_MEMBERS: &str = "helenus_metadata_members";
/// The table of `system` that holds the tablets of tables, as this node knows them.
pub(crate) const METADATA_TABLETS: &str = "helenus_metadata_tablets";
/// The table of `system` that holds the log of what the cluster agrees on.
pub(crate) const METADATA_LOG: &str = "helenus_metadata_log";
/// The table of `system` that holds what is proven to be repaired on all replicas, by tables.
pub(crate) const REPAIRED: &str = "helenus_repaired";

/// The table of `system_auth` that holds the quotas of roles.
pub(crate) const ROLE_QUOTAS: &str = "helenus_role_quotas";

/// A table of ScyllaDB that some drivers ask for once they see sharding keys in SUPPORTED; it has no rows.
const EXTENSIONS: (&str, &str) = ("system_schema", "scylla_tables");

/// The system tables that Cassandra does not have, with their keyspaces: that of drivers, the ids of columns, keyspaces
/// with tablets, quotas of keyspaces and roles, the cluster's metadata, and what is repaired. Virtual tables of our own
/// are shown: cqlsh reads only what is listed.
const HIDDEN_TABLES: [(&str, &str); 10] = [
    EXTENSIONS,
    ("system_schema", column_ids::TABLE),
    ("system_schema", tablets::TABLE),
    ("system_schema", quotas::TABLE),
    ("system_auth", ROLE_QUOTAS),
    ("system", METADATA),
    ("system", METADATA_MEMBERS),
    ("system", METADATA_TABLETS),
    ("system", METADATA_LOG),
    ("system", REPAIRED),
];

/// A custom index without a target column, as one of Cassandra's system tables has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CustomIndex {
    pub(crate) keyspace: &'static str,
    pub(crate) table: &'static str,
    pub(crate) name: &'static str,
    /// The class that implements it.
    pub(crate) class: &'static str,
}

/// The indexes of system tables.
pub(crate) const INDEXES: [CustomIndex; 1] = [CustomIndex {
    keyspace: "system",
    table: "paxos",
    name: "PaxosUncommittedIndex",
    class: "org.apache.cassandra.service.paxos.uncommitted.PaxosUncommittedIndex",
}];

/// The id of a system table.
pub(crate) fn table_id(keyspace: &str, name: &str) -> TableId {
    let mut hash = Md5::new();
    hash.update(keyspace.as_bytes());
    hash.update(name.as_bytes());
    let uuid = uuid::Builder::from_md5_bytes(hash.finalize().into()).into_uuid();
    TableId(uuid.into_bytes())
}

/// Whether a table is this program's own and left out of `system_schema`, DESCRIBE and what tools list.
pub fn is_hidden(table: &Table) -> bool {
    HIDDEN_TABLES.contains(&(table.keyspace.as_str(), table.name.as_str()))
}

/// Refuses a SELECT of named columns from the table of extensions, as if there were none. A driver that names columns
/// (the Rust driver does) takes that for a node without extensions; one that selects all of them (as ScyllaDB's fork of
/// gocql) fails if the table is missing.
///
/// # Errors
/// Invalid, with Cassandra's text for a table that it does not have.
pub(crate) fn refuse_named_extensions(statement: &ast::Statement, keyspace: Option<&str>) -> Result<(), Failure> {
    let ast::Body::Select(select) = &statement.body else { return Ok(()) };
    let table = (select.table.keyspace.as_deref().or(keyspace).unwrap_or_default(), select.table.name.as_str());
    match table == EXTENSIONS && select.items.is_some() {
        true => Err(Failure::invalid(format!("table {} does not exist", EXTENSIONS.1))),
        false => Ok(()),
    }
}

/// A schema of only the system keyspaces, with the nil version.
pub(crate) fn schema(partitioner: Partitioner) -> Schema {
    let mut schema = Schema::empty(partitioner);
    for keyspace in keyspaces() {
        schema.put_keyspace(Arc::new(keyspace));
    }
    schema
}

/// The system keyspaces with all their tables.
pub(crate) fn keyspaces() -> Vec<Keyspace> {
    let mut keyspaces: Vec<Keyspace> = Vec::new();
    let mut table: Option<Table> = None;
    let lines = DEFINITIONS.iter().flat_map(|definitions| definitions.lines());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
        let opens = matches!(word, "keyspace" | "table");
        if opens {
            finish(&mut keyspaces, table.take());
        }
        match (word, &mut table) {
            ("keyspace", _) => keyspaces.push(keyspace(rest)),
            ("table", _) => {
                let keyspace = keyspaces.last().expect("a keyspace before its tables");
                table = Some(empty_table(&keyspace.name, rest.split(' ').next().unwrap_or_default()));
            }
            (fact, Some(table)) => add_fact(table, fact, rest),
            (fact, None) => panic!("{fact} belongs to no table"),
        }
    }
    finish(&mut keyspaces, table);
    keyspaces
}

fn keyspace(words: &str) -> Keyspace {
    let mut words = words.split(' ');
    let name = words.next().unwrap_or_default().to_string();
    let class = format!("org.apache.cassandra.locator.{}", words.next().unwrap_or_default());
    let options = words.next().map(|factor| ("replication_factor".to_string(), factor.to_string()));
    let replication = Replication { class, options: options.into_iter().collect() };
    Keyspace {
        name,
        replication,
        durable_writes: true,
        tablets: None,
        quota: Quota::default(),
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
    }
}

fn empty_table(keyspace: &str, name: &str) -> Table {
    Table {
        id: table_id(keyspace, name),
        keyspace: keyspace.to_string(),
        name: name.to_string(),
        columns: Vec::new(),
        partition_key_len: 0,
        clustering_len: 0,
        static_len: 0,
        layout: model::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    }
}

/// Applies one line of a definition to `table`. Columns come in the order of `SELECT *`.
fn add_fact(table: &mut Table, fact: &str, rest: &str) {
    let number = || rest.parse().unwrap_or_else(|_| panic!("{fact} {rest}"));
    let kind = match fact {
        "comment" => return table.options.comment = rest.to_string(),
        "gc_grace_seconds" => return table.options.gc_grace_seconds = number(),
        "memtable_flush_period_in_ms" => return table.options.memtable_flush_period_in_ms = number(),
        "default_time_to_live" => return table.options.default_time_to_live = number(),
        "compaction" => {
            for (key, value) in rest.split(' ').filter_map(|pair| pair.split_once('=')) {
                let package = if key == "class" { "org.apache.cassandra.db.compaction." } else { "" };
                table.options.compaction.insert(key.to_string(), format!("{package}{value}"));
            }
            return;
        }
        "partition" => ColumnKind::PartitionKey,
        "clustering" => ColumnKind::Clustering,
        "static" => ColumnKind::Static,
        "regular" => ColumnKind::Regular,
        other => panic!("{other} is not a fact of a table"),
    };
    let (rest, descending) = match rest.strip_suffix(" desc") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let (name, cql_type) = rest.split_once(' ').unwrap_or((rest, ""));
    let cql_type = CqlType::parse(cql_type).unwrap_or_else(|| panic!("{rest} has no type"));
    let position = match kind {
        ColumnKind::Static | ColumnKind::Regular => 0,
        _ => table.columns.iter().filter(|column| column.kind == kind).count() as u16,
    };
    match kind {
        ColumnKind::PartitionKey => table.partition_key_len += 1,
        ColumnKind::Clustering => table.clustering_len += 1,
        ColumnKind::Static => table.static_len += 1,
        ColumnKind::Regular => {}
    }
    let id = ColumnId(table.columns.len() as u16);
    table.columns.push(Column { id, name: name.to_string(), kind, position, cql_type, descending });
}

fn finish(keyspaces: &mut [Keyspace], table: Option<Table>) {
    if let (Some(keyspace), Some(table)) = (keyspaces.last_mut(), table) {
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::schema::VIRTUAL_KEYSPACES;

    #[test]
    fn ids_are_cassandras() {
        let expected = [
            ("system", "local", "7ad54392-bcdd-35a6-8417-4e047860b377"),
            ("system_schema", "tables", "afddfb9d-bc1e-3068-8056-eed6c302ba09"),
            ("system_auth", "roles", "5bc52802-de25-35ed-aeab-188eecebb090"),
            ("system_auth", "cidr_groups", "9c48af00-13f6-3059-bb0e-8fcabba6eecb"),
        ];
        for (keyspace, table, id) in expected {
            assert_eq!(table_id(keyspace, table).to_string(), id);
        }
    }

    #[test]
    fn every_table_of_cassandra_is_there() {
        let schema = schema(Partitioner::Murmur3);
        let names: Vec<&str> = schema.keyspaces.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "system",
                "system_auth",
                "system_distributed",
                "system_schema",
                "system_traces",
                "system_views",
                "system_virtual_schema"
            ]
        );
        let stored: Vec<&Arc<Table>> =
            schema.tables.values().filter(|table| !VIRTUAL_KEYSPACES.contains(&table.keyspace.as_str())).collect();
        let columns: usize = stored.iter().filter(|table| !is_hidden(table)).map(|t| t.columns.len()).sum();
        assert_eq!((stored.len(), columns), (58, 313));
        assert!(schema.keyspaces["system"].is_local() && schema.keyspaces["system_schema"].is_local());
        assert!(!schema.keyspaces["system_auth"].is_local());
        for (keyspace, hidden) in HIDDEN_TABLES {
            assert!(schema.table(keyspace, hidden).is_some_and(|table| is_hidden(table)));
        }
    }

    /// The log and messages name these columns by their ids. A new table changes the sum; in a table that exists a
    /// column that a later version adds must come after the others.
    #[test]
    fn ids_of_columns_never_change() {
        let mut lines: Vec<String> = Vec::new();
        for table in schema(Partitioner::Murmur3).tables.values().filter(|table| !table.is_virtual()) {
            let line = |column: &Column| format!("{}.{}={}", table.full_name(), column.name, column.id.0);
            lines.extend(table.columns.iter().map(line));
        }
        lines.sort();
        let sum: [u8; 16] = Md5::digest(lines.join("\n")).into();
        assert_eq!(format!("{:032x}", u128::from_be_bytes(sum)), "c6e8e4cac069370339f2620cef75feed");
    }

    #[test]
    fn tables_are_well_formed() {
        for table in schema(Partitioner::Murmur3).tables.values() {
            assert!(table.partition_key_len > 0, "{}", table.name);
            assert!(table.columns.iter().enumerate().all(|(i, column)| column.id.0 as usize == i));
            assert!(table.regular().is_sorted_by(|a, b| a.name < b.name), "{}", table.name);
            assert!(table.partition_key().iter().all(|column| column.kind == ColumnKind::PartitionKey));
            assert!(table.clustering().iter().all(|column| column.kind == ColumnKind::Clustering));
            assert!(table.regular().iter().all(|column| column.kind == ColumnKind::Regular));
        }
    }
}
