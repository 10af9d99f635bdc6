//! Column names: lookup and errors.

use crate::literal::Scope;
use model::identifier::is_reserved;
use model::{Column, Failure, Table};
use std::borrow::Cow;

/// The column with this name, or Cassandra's error. Because statements may name thousands of columns, data columns,
/// which are sorted by name, are found by binary search.
pub(crate) fn column<'s>(scope: &'s Scope, name: &str) -> Result<&'s Column, Failure> {
    let table = &scope.table;
    find(table, name).filter(|column| !table.is_hidden(column)).ok_or_else(|| undefined(table, name))
}

fn find<'t>(table: &'t Table, name: &str) -> Option<&'t Column> {
    let keys = table.columns.get(..table.partition_key_len + table.clustering_len).unwrap_or_default();
    if let Some(column) = keys.iter().find(|column| column.name == name) {
        return Some(column);
    }
    if let Ok(at) = table.regular().binary_search_by(|column| column.name.as_str().cmp(name)) {
        return Some(&table.regular()[at]);
    }
    table.column(name)
}

/// The failure for a column that the table does not have or does not show.
pub(crate) fn undefined(table: &Table, name: &str) -> Failure {
    let (keyspace, table) = (shown(&table.keyspace), shown(&table.name));
    Failure::invalid(format!("Undefined column name {} in table {keyspace}.{table}", shown(name)))
}

/// A name as Cassandra's errors show it: quoted if CQL needs quotes.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !is_reserved(name);
    if plain { Cow::Borrowed(name) } else { Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))) }
}
