//! The CREATE statements of keyspaces, user types, tables and indexes, byte for byte as Cassandra writes them.
//!
//! Invariants: among the static columns, and among the regular ones, non-frozen collections and user types come last.
//! WITH INTERNALS a table has its id, and its dropped columns are created, dropped and, if they exist again, added
//! again.

use crate::schema::system_tables::CustomIndex;
use cql::java_order::{bucket, bytes_hash, in_hash_order};
use model::identifier::quoted;
use model::quota::QUOTA;
use model::schema::{DroppedColumn, KeyspaceTablets};
use model::types::UserType;
use model::{Column, ColumnKind, CqlType, Index, Keyspace, Table};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The CREATE KEYSPACE statement.
pub(super) fn keyspace(keyspace: &Keyspace) -> String {
    if keyspace.is_virtual() {
        let name = quoted(&keyspace.name);
        return virtual_thing("Keyspace", &name, &format!("VIRTUAL KEYSPACE {name};"));
    }
    let class = &keyspace.replication.class;
    let class = match keyspace.is_managed() {
        true => "ManagedStrategy",
        false => class.strip_prefix("org.apache.cassandra.locator.").unwrap_or(class),
    };
    let mut out = format!("CREATE KEYSPACE {} WITH replication = {{'class': {}", quoted(&keyspace.name), text(class));
    for (name, value) in &keyspace.replication.options {
        write!(out, ", {}: {}", text(name), text(value)).unwrap_or_default();
    }
    // Cassandra writes two spaces here.
    write!(out, "}}  AND durable_writes = {}", keyspace.durable_writes).unwrap_or_default();
    // Cassandra has no tablets; this is how ScyllaDB shows them.
    match keyspace.tablets {
        None => {}
        Some(KeyspaceTablets { initial: 0, .. }) => out.push_str(" AND tablets = {'enabled': true}"),
        Some(KeyspaceTablets { initial, .. }) => {
            write!(out, " AND tablets = {{'enabled': true, 'initial': {initial}}}").unwrap_or_default();
        }
    }
    if !keyspace.quota.is_empty() {
        write!(out, " AND {QUOTA} = {}", map(&keyspace.quota.to_map())).unwrap_or_default();
    }
    out + ";"
}

/// A virtual keyspace or table, which no statement can make: Cassandra shows its structure as a comment.
fn virtual_thing(kind: &str, name: &str, structure: &str) -> String {
    let lower = kind.to_lowercase();
    format!(
        "/*\nWarning: {kind} {name} is a virtual {lower} and cannot be recreated with CQL.\nStructure, for \
         reference:\n{structure}\n*/"
    )
}

/// A table WITH COMPACT STORAGE, which Cassandra regards as one that no statement can make.
fn legacy(name: &str, structure: &str) -> String {
    format!(
        "/*\nWarning: Table {name} omitted because it has constructs not compatible with CQL (was created via legacy \
         API).\nApproximate structure, for reference:\n(this should not be used to reproduce this schema)\n\n\
         {structure}\n*/"
    )
}

/// The CREATE TYPE statement.
pub(super) fn user_type(definition: &UserType) -> String {
    let field = |(name, cql_type): &(String, CqlType)| format!("    {} {cql_type}", quoted(name));
    let fields: Vec<String> = definition.fields.iter().map(field).collect();
    let (keyspace, name) = (quoted(&definition.keyspace), quoted(&definition.name));
    format!("CREATE TYPE {keyspace}.{name} (\n{}\n);", fields.join(",\n"))
}

/// The CREATE INDEX statement.
pub(super) fn index(table: &Table, index: &Index) -> String {
    format!(
        "CREATE INDEX {} ON {}.{} ({});",
        quoted(&index.name),
        quoted(&table.keyspace),
        quoted(&table.name),
        index.target()
    )
}

/// The CREATE CUSTOM INDEX statement.
pub(super) fn custom_index(index: &CustomIndex) -> String {
    format!(
        "CREATE CUSTOM INDEX {} ON {}.{} () USING {};",
        quoted(index.name),
        quoted(index.keyspace),
        quoted(index.table),
        text(index.class)
    )
}

/// The CREATE TABLE statement; `internals`: with the id and the dropped columns.
pub(super) fn table(table: &Table, internals: bool) -> String {
    let full_name = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
    let dropped = if internals { in_second_order(&table.dropped) } else { Vec::new() };
    let mut lines = column_lines(table, &dropped);
    let inline_key = table.partition_key_len == 1 && table.clustering_len == 0 && !table.is_compact();
    if inline_key {
        lines[0].push_str(" PRIMARY KEY");
    } else {
        lines.push(format!("    PRIMARY KEY ({})", primary_key(table)));
    }
    let structure = |verb: &str| {
        let options = options(table, internals).join("\n    AND ");
        format!("{verb} TABLE {full_name} (\n{}\n) WITH {options};", lines.join(",\n"))
    };
    if table.is_virtual() {
        return virtual_thing("Table", &full_name, &structure("VIRTUAL"));
    }
    if table.is_compact() {
        return legacy(&full_name, &structure("CREATE"));
    }
    let mut out = structure("CREATE");
    for dropped in dropped {
        let (name, at) = (quoted(&dropped.name), dropped.dropped_at);
        write!(out, "\nALTER TABLE {full_name} DROP {name} USING TIMESTAMP {at};").unwrap_or_default();
        if let Some(again) = table.column(&dropped.name) {
            let column = column_text(&again.name, &again.cql_type, again.kind) + &mask_text(table, again);
            write!(out, "\nALTER TABLE {full_name} ADD {column};").unwrap_or_default();
        }
    }
    out
}

/// The columns, one line each; dropped columns come last, with the type that they had.
fn column_lines(table: &Table, dropped: &[&DroppedColumn]) -> Vec<String> {
    let shown = |column: &&Column| !dropped.iter().any(|dropped| dropped.name == column.name);
    let simple_first = |columns: &'_ [Column]| {
        let (multi, simple): (Vec<Column>, Vec<Column>) =
            columns.iter().cloned().partition(|column| column.cql_type.is_multicell());
        simple.into_iter().chain(multi)
    };
    let keys = table.columns[..table.primary_key_len()].iter().cloned();
    let columns = keys.chain(simple_first(table.statics())).chain(simple_first(table.regular()));
    let columns: Vec<Column> = columns.filter(|column| shown(&column) && !table.is_hidden(column)).collect();
    // A compact table may store columns as static, but its clients see them as regular ones.
    let kind = |kind| if table.is_compact() { ColumnKind::Regular } else { kind };
    let lines = columns
        .iter()
        .map(|column| column_text(&column.name, &column.cql_type, kind(column.kind)) + &mask_text(table, column));
    let gone = dropped.iter().map(|dropped| column_text(&dropped.name, &dropped.cql_type, kind(dropped.kind)));
    lines.chain(gone).map(|line| format!("    {line}")).collect()
}

fn column_text(name: &str, cql_type: &CqlType, kind: ColumnKind) -> String {
    format!("{} {cql_type}{}", quoted(name), if kind == ColumnKind::Static { " static" } else { "" })
}

fn mask_text(table: &Table, column: &Column) -> String {
    table.masks.get(&column.id).map(|mask| format!(" MASKED WITH {mask}")).unwrap_or_default()
}

fn primary_key(table: &Table) -> String {
    let names = |columns: &[Column]| {
        columns.iter().map(|column| quoted(&column.name).into_owned()).collect::<Vec<String>>().join(", ")
    };
    let mut key = names(table.partition_key());
    if table.partition_key_len > 1 {
        key = format!("({key})");
    }
    if !table.visible_clustering().is_empty() {
        key = format!("{key}, {}", names(table.visible_clustering()));
    }
    key
}

/// Dropped columns in Cassandra's order. It keeps them in a hash map filled by name, copies that into a second map just
/// large enough, and shows the second map's order: by the low bits of the names' hashes, and among equal ones in the
/// first map's order.
fn in_second_order(dropped: &[DroppedColumn]) -> Vec<&DroppedColumn> {
    let mut columns: Vec<&DroppedColumn> = dropped.iter().collect();
    columns.sort_by(|a, b| a.name.cmp(&b.name));
    let hash = |column: &&DroppedColumn| bytes_hash(column.name.as_bytes());
    let mut columns = in_hash_order(columns, hash);
    let buckets = (columns.len() as u32 * 4 / 3 + 1).next_power_of_two();
    columns.sort_by_key(|column| bucket(hash(column), buckets));
    columns
}

/// The options in Cassandra's order; those that were never set have their defaults.
fn options(table: &Table, internals: bool) -> Vec<String> {
    let options = &table.options;
    let mut out = Vec::new();
    if table.is_compact() {
        out.push("COMPACT STORAGE".to_owned());
    }
    if internals {
        out.push(format!("ID = {}", table.id));
    }
    if table.clustering_len > 0 {
        let order = |column: &Column| if column.descending { "DESC" } else { "ASC" };
        let order: Vec<String> =
            table.clustering().iter().map(|column| format!("{} {}", quoted(&column.name), order(column))).collect();
        out.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
    }
    if table.is_virtual() {
        out.push(format!("comment = {}", text(&options.comment)));
        return out;
    }
    let extensions = options.extensions.iter().map(|(name, bytes)| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}: 0x{hex}", text(name))
    });
    let extensions: Vec<String> = extensions.collect();
    let named = [
        ("additional_write_policy", text(&options.additional_write_policy)),
        ("allow_auto_snapshot", options.allow_auto_snapshot.unwrap_or(true).to_string()),
        ("bloom_filter_fp_chance", double(options.bloom_filter_fp_chance)),
        ("caching", map(&options.caching)),
        ("cdc", options.cdc.unwrap_or(false).to_string()),
        ("comment", text(&options.comment)),
        ("compaction", map(&options.compaction)),
        ("compression", map(&options.compression)),
        ("memtable", text(options.memtable.as_deref().unwrap_or("default"))),
        ("crc_check_chance", double(options.crc_check_chance)),
        ("default_time_to_live", options.default_time_to_live.to_string()),
        ("extensions", format!("{{{}}}", extensions.join(", "))),
        ("gc_grace_seconds", options.gc_grace_seconds.to_string()),
        ("incremental_backups", options.incremental_backups.unwrap_or(true).to_string()),
        ("max_index_interval", options.max_index_interval.to_string()),
        ("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms.to_string()),
        ("min_index_interval", options.min_index_interval.to_string()),
        ("read_repair", text(&options.read_repair)),
        ("speculative_retry", text(&options.speculative_retry)),
    ];
    out.extend(named.into_iter().map(|(name, value)| format!("{name} = {value}")));
    // Cassandra has no such options.
    if options.tablets != Default::default() {
        out.push(format!("tablets = {}", map(&options.tablets.to_map())));
    }
    if options.tombstone_gc != Default::default() {
        out.push(format!("tombstone_gc = {}", map(&options.tombstone_gc.to_map())));
    }
    // These are not Cassandra's, and only tables that have them show them.
    let of_capacity = options.capacity.iter().flat_map(|capacity| capacity.options());
    out.extend(of_capacity.map(|(name, value)| format!("{name} = {value}")));
    let names: Vec<&str> = table.clustering().iter().map(|column| column.name.as_str()).collect();
    let of_sharding = table.write_sharding().map(|sharding| sharding.to_cql(&names));
    out.extend(of_sharding.map(|sharding| format!("write_sharding = {sharding}")));
    out
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn map(entries: &BTreeMap<String, String>) -> String {
    let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{}: {}", text(key), text(value))).collect();
    format!("{{{}}}", entries.join(", "))
}

/// A double as Java writes it: `1.0`, `0.01`, `1.0E-4`.
fn double(value: f64) -> String {
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let scientific = format!("{value:e}");
    match scientific.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => format!("{mantissa}E{exponent}"),
        Some((mantissa, exponent)) => format!("{mantissa}.0E{exponent}"),
        None => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ColumnId;

    #[test]
    fn dropped_columns_come_in_the_order_of_a_java_map() {
        let order = |names: &[&str]| {
            let dropped: Vec<DroppedColumn> = names
                .iter()
                .map(|name| DroppedColumn {
                    id: ColumnId(0),
                    name: name.to_string(),
                    kind: ColumnKind::Regular,
                    cql_type: CqlType::Int,
                    dropped_at: 0,
                })
                .collect();
            in_second_order(&dropped).iter().map(|column| column.name.clone()).collect::<Vec<String>>()
        };
        // The orders that DESCRIBE TABLE ... WITH INTERNALS of Cassandra 5.0.9 shows.
        assert_eq!(order(&["a", "b", "s"]), ["a", "b", "s"]);
        assert_eq!(order(&["a", "b", "s", "z"]), ["a", "b", "z", "s"]);
        assert_eq!(order(&["W", "v"]), ["v", "W"]);
    }

    #[test]
    fn doubles_are_written_as_java_does() {
        let cases =
            [(1.0, "1.0"), (0.01, "0.01"), (0.001, "0.001"), (0.0001, "1.0E-4"), (0.00012, "1.2E-4"), (0.0, "0.0")];
        for (value, text) in cases {
            assert_eq!(double(value), text);
        }
        assert_eq!(double(12_345_678.0), "1.2345678E7");
    }
}
