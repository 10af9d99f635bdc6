//! The table that a `schema.cql` describes.

use super::archive::Files;
use super::sstables::Sstable;
use model::schema::{Column, ColumnId, ColumnKind, DroppedColumn, TableId, TableOptions};
use model::{CqlType, Table, UserType};
use std::collections::BTreeMap;
use std::sync::Arc;

fn unquote(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_owned(),
    }
}

/// Splits a text into a name, quoted or not, and the rest.
fn name(text: &str) -> (String, &str) {
    let text = text.trim_start();
    let end = match text.strip_prefix('"') {
        Some(inner) => inner.find('"').expect("a quote") + 2,
        None => text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len()),
    };
    (unquote(&text[..end]), &text[end..])
}

fn names(list: &str) -> Vec<String> {
    let mut rest = list;
    let mut found = Vec::new();
    while !rest.trim().is_empty() {
        let (found_name, after) = name(rest);
        found.push(found_name);
        rest = after.trim_start().trim_start_matches(',');
    }
    found
}

/// Returns the table of a schema; for a compact table, the one that the header of an SSTable describes.
pub(crate) fn table(files: &Files, sstables: &[Sstable<'_>]) -> Table {
    let text = std::str::from_utf8(&files["schema.cql"]).expect("text");
    if text.contains("COMPACT STORAGE") {
        let bytes = sstables[0].part("Statistics.db").expect("there");
        let metadata = sstable::statistics::Metadata::open(&sstables[0].descriptor, bytes).expect("opens");
        return metadata.header.table().expect("known types");
    }
    let mut types: BTreeMap<String, Arc<UserType>> = BTreeMap::new();
    let mut columns: Vec<Column> = Vec::new();
    let mut dropped = Vec::new();
    let (mut partition_key, mut clustering, mut descending) = (Vec::new(), Vec::new(), Vec::new());
    let parse = |types: &BTreeMap<String, Arc<UserType>>, text: &str| {
        CqlType::parse_in(text, &|name| types.get(&unquote(name)).cloned()).unwrap_or_else(|| panic!("{text}"))
    };
    for line in text.lines() {
        let trimmed = line.trim_end_matches([',', ';']);
        if let Some(rest) = trimmed.strip_prefix("CREATE TYPE golden.") {
            let (type_name, fields) = name(rest);
            let fields = fields.trim().strip_prefix('(').and_then(|f| f.strip_suffix(')')).expect("fields");
            let mut depth = 0;
            let split = |c: char| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                c == ',' && depth == 0
            };
            let fields = fields.split(split).map(|field| {
                let (field, cql_type) = name(field);
                (field, parse(&types, cql_type.trim()))
            });
            let definition = UserType { keyspace: "golden".into(), name: type_name.clone(), fields: fields.collect() };
            types.insert(type_name, definition.into());
        } else if let Some(rest) = trimmed.strip_prefix("    PRIMARY KEY (") {
            let rest = rest.strip_suffix(')').expect("a key");
            match rest.strip_prefix('(') {
                Some(rest) => {
                    let (key, rest) = rest.split_once(')').expect("a key");
                    (partition_key, clustering) = (names(key), names(rest.trim_start_matches(',')));
                }
                None => {
                    let mut all = names(rest);
                    clustering = all.split_off(1);
                    partition_key = all;
                }
            }
        } else if let Some(rest) = trimmed.trim_start().strip_prefix("AND CLUSTERING ORDER BY (") {
            for part in rest.trim_end_matches(')').split(", ") {
                if let Some(column) = part.strip_suffix(" DESC") {
                    descending.push(unquote(column));
                }
            }
        } else if let Some(rest) = trimmed.strip_prefix("ALTER TABLE golden.dropped DROP ") {
            let (column, at) = rest.split_once(" USING TIMESTAMP ").expect("a timestamp");
            dropped.push((unquote(column), at.parse::<i64>().expect("a timestamp")));
        } else if line.starts_with("    ") && !line.trim_start().starts_with("AND ") {
            let (column, cql_type) = name(line);
            let cql_type = cql_type.trim().trim_end_matches(',');
            let inline_key = cql_type.strip_suffix(" PRIMARY KEY");
            if inline_key.is_some() {
                partition_key.push(column.clone());
            }
            let cql_type = inline_key.unwrap_or(cql_type);
            let (cql_type, kind) = match cql_type.strip_suffix(" static") {
                Some(cql_type) => (cql_type, ColumnKind::Static),
                None => (cql_type, ColumnKind::Regular),
            };
            let cql_type = parse(&types, cql_type);
            columns.push(Column { id: ColumnId(0), name: column, kind, position: 0, cql_type, descending: false });
        }
    }
    for (keys, kind) in [(&partition_key, ColumnKind::PartitionKey), (&clustering, ColumnKind::Clustering)] {
        for (position, key) in keys.iter().enumerate() {
            let column = columns.iter_mut().find(|column| column.name == *key).expect("a key column");
            column.kind = kind;
            column.position = position as u16;
            column.descending = descending.contains(key);
        }
    }
    let dropped: Vec<DroppedColumn> = dropped
        .into_iter()
        .map(|(name, dropped_at)| {
            let column = columns.iter().find(|column| column.name == name).expect("a dropped column");
            let (id, kind, cql_type) = (column.id, column.kind, column.cql_type.clone());
            DroppedColumn { id, name, kind, cql_type, dropped_at }
        })
        .collect();
    let added: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("ALTER TABLE golden.dropped ADD "))
        .map(|rest| name(rest).0)
        .collect();
    columns.retain(|column| added.contains(&column.name) || !dropped.iter().any(|dropped| dropped.name == column.name));
    columns.sort_by(|a, b| (a.kind, a.position, a.name.as_bytes()).cmp(&(b.kind, b.position, b.name.as_bytes())));
    let mut table = Table {
        id: TableId([0; 16]),
        keyspace: "golden".into(),
        name: "table".into(),
        partition_key_len: partition_key.len(),
        clustering_len: clustering.len(),
        static_len: columns.iter().filter(|column| column.kind == ColumnKind::Static).count(),
        layout: model::schema::Layout::Plain,
        columns,
        dropped,
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    };
    table.number_columns();
    for at in 0..table.dropped.len() {
        let again = table.column(&table.dropped[at].name).map(|column| column.id);
        table.dropped[at].id = again.or_else(|| table.next_column_id()).expect("an id");
    }
    table
}
