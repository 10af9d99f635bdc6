//! Columns of tables: their types, and ALTER TABLE ADD, DROP and RENAME.
//!
//! Invariants: a column that is added again must be able to read what was written before it was dropped, so its type
//! must be compatible with the old one and its kind the same; it gets a new id. The ids of other columns never change.

use super::{DefinitionContext, Result, masks, quoted_full_name, write_sharding};
use crate::ast::{ColumnDefinition, TypeName};
use crate::errors::unsupported;
use crate::limits::COLUMNS_MAX;
use crate::literal::Scope;
use crate::types;
use model::schema::DroppedColumn;
use model::types::Component;
use model::{Column, ColumnKind, CqlType, Failure, Keyspace, Schema, Table};
use std::sync::Arc;

/// Resolves the type of a column and checks its size.
pub(super) fn column_type(written: &TypeName, keyspace: &str, schema: &Schema) -> Result<CqlType> {
    let cql_type = types::resolve(written, keyspace, schema)?;
    types::check_size(&cql_type)?;
    Ok(cql_type)
}

/// Fails if a table would have too many columns.
pub(super) fn check_count(columns: usize) -> Result<()> {
    if columns > COLUMNS_MAX {
        return Err(Failure::invalid(format!("A table takes at most {COLUMNS_MAX} columns")));
    }
    Ok(())
}

/// Refuses a user type that is not frozen and contains collections that are not frozen. `added` is the column's name in
/// an ALTER TABLE.
pub(super) fn refuse_nested_collections(cql_type: &CqlType, added: Option<&str>) -> Result<()> {
    match cql_type {
        CqlType::User { definition, frozen: false } if definition.field_types().any(CqlType::is_multicell) => {
            let text = "Non-frozen UDTs with nested non-frozen collections are not supported";
            Err(Failure::invalid(match added {
                Some(column) => format!("{text} for column {column}"),
                None => text.to_owned(),
            }))
        }
        _ => Ok(()),
    }
}

/// ALTER TABLE ADD.
pub(super) fn add(
    table: &mut Table,
    if_not_exists: bool,
    definitions: &[ColumnDefinition],
    keyspace: &Arc<Keyspace>,
    schema: &Schema,
    site: &DefinitionContext<'_>,
) -> Result<()> {
    let counts = table.is_counter();
    for definition in definitions {
        let exists = table.column(&definition.name).is_some();
        add_column(table, if_not_exists, definition, schema)?;
        let Some(mask) = &definition.mask else { continue };
        match exists {
            false => masks::set(table, &definition.name, mask, keyspace, schema.partitioner, site)?,
            // The mask of a column that is not added is checked all the same.
            true => {
                let cql_type = column_type(&definition.type_name, &table.keyspace, schema)?;
                let scope = Scope::new(schema.partitioner, Arc::new(table.clone()), Some(keyspace.clone()));
                masks::resolve(mask, &definition.name, &cql_type, &scope, site)?;
            }
        }
    }
    check_count(table.columns.len())?;
    let stranger = |column: &&Column| (column.cql_type == CqlType::Counter) != counts;
    if let Some(column) = table.data_columns().iter().find(stranger) {
        let (has, is) = if counts { ("non counter", "counter") } else { ("counter", "non counter") };
        return Err(Failure::config(format!(
            "{}.{}: Cannot have a {has} column (\"{}\") in a {is} table",
            table.keyspace, table.name, column.name
        )));
    }
    Ok(())
}

fn add_column(table: &mut Table, if_not_exists: bool, definition: &ColumnDefinition, schema: &Schema) -> Result<()> {
    let ColumnDefinition { name, type_name, is_static, .. } = definition;
    let cql_type = column_type(type_name, &table.keyspace, schema)?;
    if table.column(name).is_some() {
        if if_not_exists {
            return Ok(());
        }
        return Err(Failure::invalid(format!("Column with name '{name}' already exists")));
    }
    if table.is_compact() {
        return Err(Failure::invalid("Cannot add new column to a COMPACT STORAGE table"));
    }
    if *is_static && table.clustering_len == 0 {
        return Err(Failure::invalid(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        ));
    }
    if *is_static && table.write_sharding().is_some() {
        return Err(write_sharding::no_statics(name));
    }
    refuse_nested_collections(&cql_type, Some(name))?;
    let kind = if *is_static { ColumnKind::Static } else { ColumnKind::Regular };
    if let Some(dropped) = table.dropped.iter().find(|dropped| dropped.name == *name) {
        if !reads_cells_of(&cql_type, &dropped.cql_type) {
            return Err(Failure::invalid(format!(
                "Cannot add a column '{name}' of type {cql_type}, incompatible with previously dropped column '{name}' \
                 of type {}",
                dropped.cql_type
            )));
        }
        if dropped.kind != kind {
            return Err(Failure::invalid(format!(
                "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
                kind_name(kind),
                kind_name(dropped.kind)
            )));
        }
        if table.is_counter() {
            return Err(Failure::invalid(format!("Cannot re-add previously dropped counter column {name}")));
        }
    }
    let id = table.next_column_id();
    let id = id.ok_or_else(|| Failure::invalid("The table has had too many columns to add another"))?;
    if let Some(dropped) = table.dropped.iter_mut().find(|dropped| dropped.name == *name) {
        dropped.id = id;
    }
    let column = Column { id, name: name.clone(), kind, position: 0, cql_type, descending: false };
    let (first, others) = match kind {
        ColumnKind::Static => (table.primary_key_len(), table.statics()),
        _ => (table.primary_key_len() + table.static_len, table.regular()),
    };
    let at = first + others.partition_point(|other| other.name < *name);
    table.columns.insert(at, column);
    table.static_len += usize::from(*is_static);
    Ok(())
}

fn kind_name(kind: ColumnKind) -> &'static str {
    if kind == ColumnKind::Static { "STATIC" } else { "REGULAR" }
}

/// ALTER TABLE DROP. `timestamp` is that of USING TIMESTAMP.
pub(super) fn drop(
    table: &mut Table,
    if_exists: bool,
    names: &[String],
    timestamp: Option<i64>,
    site: &DefinitionContext<'_>,
) -> Result<()> {
    let full_name = quoted_full_name(&table.keyspace, &table.name);
    let mut names: Vec<&String> = names.iter().collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let Some(at) = table.columns.iter().position(|column| column.name == *name) else {
            if if_exists {
                continue;
            }
            return Err(Failure::invalid(format!("Column {name} was not found in table '{full_name}'")));
        };
        let column = &table.columns[at];
        if column.kind.is_key() {
            return Err(Failure::invalid(format!("Cannot drop PRIMARY KEY column {name}")));
        }
        if table.is_compact() && column.kind == ColumnKind::Regular {
            // Cassandra fails here with an internal exception.
            return Err(Failure::invalid(format!("Cannot drop column {name} of a COMPACT STORAGE table")));
        }
        if column.cql_type.is_user_type() && column.cql_type.is_multicell() {
            let cql_type = &column.cql_type;
            return Err(Failure::invalid(format!("Cannot drop non-frozen column {name} of user type {cql_type}")));
        }
        let indexes: Vec<&str> = table.indexes_of(name).map(|index| index.name.as_str()).collect();
        if !indexes.is_empty() {
            return Err(Failure::invalid(format!(
                "Cannot drop column {name} because it has dependent secondary indexes ({})",
                indexes.join(", ")
            )));
        }
        let column = table.columns.remove(at);
        table.masks.remove(&column.id);
        table.static_len -= usize::from(column.kind == ColumnKind::Static);
        // Hidden data stays hidden.
        let before =
            table.dropped.iter().find(|dropped| dropped.name == *name).map_or(i64::MIN, |dropped| dropped.dropped_at);
        table.dropped.retain(|dropped| dropped.name != *name);
        table.dropped.push(DroppedColumn {
            id: column.id,
            cql_type: with_tuples(&column.cql_type),
            name: column.name,
            kind: column.kind,
            dropped_at: timestamp.unwrap_or(site.now_micros).max(before),
        });
    }
    table.dropped.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(())
}

/// ALTER TABLE RENAME. All names are looked up in the table before the change.
pub(super) fn rename(table: &mut Table, names: &[(String, String)]) -> Result<()> {
    let full_name = quoted_full_name(&table.keyspace, &table.name);
    let mut renamed: Vec<(usize, &String)> = Vec::new();
    for (old, new) in names {
        let found = table.columns.iter().position(|column| column.name == *old);
        let Some(at) = found.filter(|at| !table.is_hidden(&table.columns[*at])) else {
            return Err(Failure::invalid(format!("Undefined column name {old} in table {full_name}")));
        };
        if !table.columns[at].kind.is_key() {
            return Err(Failure::invalid(format!("Cannot rename non PRIMARY KEY column {old}")));
        }
        let taken = table.column(new).is_some() || renamed.iter().any(|(other, name)| *other != at && *name == new);
        if taken {
            return Err(Failure::invalid(format!(
                "Cannot rename column {old} to {new} in table '{full_name}'; another column with that name already \
                 exists"
            )));
        }
        let indexes: Vec<&str> = table.indexes_of(old).map(|index| index.name.as_str()).collect();
        if !indexes.is_empty() {
            return Err(Failure::invalid(format!(
                "Can't rename column {old} because it has dependent secondary indexes ({})",
                indexes.join(", ")
            )));
        }
        // Of two new names for a column the last counts.
        renamed.retain(|(other, _)| *other != at);
        renamed.push((at, new));
    }
    for (at, new) in renamed {
        // Cells of a dropped column with this name would become visible.
        if table.dropped.iter().any(|dropped| dropped.name == *new) {
            return Err(unsupported("renaming a column to the name of a dropped one"));
        }
        table.columns[at].name.clone_from(new);
    }
    Ok(())
}

/// The type with tuples in place of user types, which may have been dropped when it is read.
fn with_tuples(cql_type: &CqlType) -> CqlType {
    match cql_type {
        CqlType::User { definition, .. } => {
            CqlType::Tuple(definition.field_types().map(|field| with_tuples(&field.frozen())).collect())
        }
        other => other.map_parts(&with_tuples),
    }
}

/// Whether a column of type `new` can read the cells of a column of type `old`: Cassandra's serialization
/// compatibility. If one of them has cells of a fixed length, the other must have the same.
fn reads_cells_of(new: &CqlType, old: &CqlType) -> bool {
    let parts = match (new, old) {
        (CqlType::List { element: new, .. }, CqlType::List { element: old, .. }) => reads_cells_of(new, old),
        (CqlType::Map { value: new, .. }, CqlType::Map { value: old, .. }) => reads_cells_of(new, old),
        _ => true,
    };
    new.is_multicell() == old.is_multicell() && reads_values_of(new, old) && cell_len(new) == cell_len(old) && parts
}

/// Whether every value of type `old` is a value of type `new`.
fn reads_values_of(new: &CqlType, old: &CqlType) -> bool {
    use CqlType::*;
    match (new, old) {
        (Blob, Counter | List { .. } | Set { .. } | Map { .. }) => false,
        (Blob, _)
        | (Text, Ascii)
        | (Bigint, Timestamp)
        | (Timestamp, Bigint)
        | (Varint, Int | Bigint)
        | (Uuid, Timeuuid) => true,
        (List { element: new, .. }, List { element: old, .. }) => reads_values_of(new, old),
        (Set { element: new, .. }, Set { element: old, .. }) => sorts_like(new, old),
        (Map { key, value, .. }, Map { key: old_key, value: old_value, .. }) => {
            sorts_like(key, old_key) && reads_values_of(value, old_value)
        }
        (Tuple(new), Tuple(old)) => {
            new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| reads_values_of(new, old))
        }
        (Composite(new), Composite(old)) => {
            let reads = |(new, old): (&Component, &Component)| reads_values_of(&new.cql_type, &old.cql_type);
            new.len() >= old.len() && new.iter().zip(old).all(reads)
        }
        (DynamicComposite(new), DynamicComposite(old)) => old.iter().all(|alias| new.contains(alias)),
        _ => new == old,
    }
}

/// Whether values of type `old` are values of type `new` in the same order.
fn sorts_like(new: &CqlType, old: &CqlType) -> bool {
    use CqlType::*;
    match (new, old) {
        (Blob, Ascii | Text) | (Text, Ascii) => true,
        (List { element: new, .. }, List { element: old, .. })
        | (Set { element: new, .. }, Set { element: old, .. }) => sorts_like(new, old),
        (Map { key, value, .. }, Map { key: old_key, value: old_value, .. }) => {
            sorts_like(key, old_key) && sorts_like(value, old_value)
        }
        (Tuple(new), Tuple(old)) => {
            new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| sorts_like(new, old))
        }
        // Dropped columns keep user types as tuples.
        (User { definition, .. }, Tuple(old)) => {
            let fields = definition.field_types();
            definition.fields.len() >= old.len() && fields.zip(old).all(|(new, old)| sorts_like(new, old))
        }
        (Composite(new), Composite(old)) => {
            let sorts = |(new, old): (&Component, &Component)| {
                new.reversed == old.reversed && sorts_like(&new.cql_type, &old.cql_type)
            };
            new.len() >= old.len() && new.iter().zip(old).all(sorts)
        }
        _ => new == old,
    }
}

/// The length of every cell's value in Cassandra's files, if it is fixed. Short integers, dates and times have no fixed
/// length there.
fn cell_len(cql_type: &CqlType) -> Option<usize> {
    use CqlType::*;
    match cql_type {
        Boolean => Some(1),
        Int | Float => Some(4),
        Bigint | Counter | Double | Timestamp => Some(8),
        LexicalUuid | Uuid | Timeuuid => Some(16),
        Vector { element, dimension } => Some(cell_len(element)?.saturating_mul(*dimension as usize)),
        _ => None,
    }
}
