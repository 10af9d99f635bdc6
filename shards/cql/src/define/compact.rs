//! COMPACT STORAGE: restrictions on such a table, its hidden columns, and DROP COMPACT STORAGE.
//!
//! * Without clustering columns: the columns become static, beside a text clustering column and a value column, both
//!   hidden and named `column1` and `value`, or with the next free number.
//! * With clustering columns: at most one value column; without one there is a hidden column `value` of the empty type.
//!
//! Invariants: DROP COMPACT STORAGE changes neither data nor columns, and makes all columns visible.

use super::Result;
use crate::ast::CreateTable;
use model::schema::Layout;
use model::{Column, ColumnId, ColumnKind, CqlType, Failure, Table};
use std::collections::BTreeMap;

/// Refuses what a table WITH COMPACT STORAGE cannot have. `others` are the columns outside the primary key.
pub(super) fn check(create: &CreateTable, clustering: &[String], others: &BTreeMap<&str, CqlType>) -> Result<()> {
    if others.values().any(CqlType::is_multicell) {
        return Err(Failure::invalid("Non-frozen collections and UDTs are not supported with COMPACT STORAGE"));
    }
    if create.columns.iter().any(|column| column.is_static) {
        return Err(Failure::invalid("Static columns are not supported in COMPACT STORAGE tables"));
    }
    if clustering.is_empty() && others.is_empty() {
        return Err(Failure::invalid("No definition found that is not part of the PRIMARY KEY"));
    }
    if !clustering.is_empty() && others.len() > 1 {
        let names: Vec<&str> = others.keys().copied().collect();
        return Err(Failure::invalid(format!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY \
             (got: {})",
            names.join(", ")
        )));
    }
    Ok(())
}

/// Turns a table with keys and regular columns into one WITH COMPACT STORAGE.
pub(super) fn make(table: &mut Table) {
    if table.clustering_len > 0 {
        table.layout = Layout::DenseCompact;
        if table.regular().is_empty() {
            let name = free_name(table, "value", 0);
            push(table, table.columns.len(), &name, ColumnKind::Regular, CqlType::Empty);
        }
    } else {
        table.layout = Layout::StaticCompact;
        let value_type = if table.is_counter() { CqlType::Counter } else { CqlType::Blob };
        table.static_len = table.regular().len();
        let first = table.partition_key_len;
        table.columns[first..].iter_mut().for_each(|column| column.kind = ColumnKind::Static);
        let name = free_name(table, "column", 1);
        push(table, first, &name, ColumnKind::Clustering, CqlType::Text);
        table.clustering_len = 1;
        let name = free_name(table, "value", 0);
        push(table, table.columns.len(), &name, ColumnKind::Regular, value_type);
    }
    table.number_columns();
}

fn push(table: &mut Table, at: usize, name: &str, kind: ColumnKind, cql_type: CqlType) {
    let name = name.to_owned();
    table.columns.insert(at, Column { id: ColumnId(0), name, kind, position: 0, cql_type, descending: false });
}

/// The first free column name consisting of a word and a number from `first` on; 0 is not written.
fn free_name(table: &Table, word: &str, first: usize) -> String {
    let name = |number: usize| if number == 0 { word.to_owned() } else { format!("{word}{number}") };
    // One of that many names must be free.
    let mut names = (first..=first + table.columns.len()).map(name);
    names.find(|name| table.column(name).is_none()).unwrap_or_else(|| word.to_owned())
}

/// ALTER TABLE DROP COMPACT STORAGE.
pub(super) fn drop(table: &mut Table, enabled: bool) -> Result<()> {
    if !enabled {
        return Err(Failure::invalid("DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use."));
    }
    if !table.is_compact() {
        return Err(Failure::invalid("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"));
    }
    table.layout = Layout::Plain;
    Ok(())
}
