//! CREATE INDEX and DROP INDEX.
//!
//! Invariants: index names are unique within a keyspace; a table's indexes are sorted by name, and no two index the
//! same part of the same column.

use super::{
    Applied, ChangeKind, ChangeTarget, Result, changed, is_plain, no_keyspace, quoted_full_name, refuse_system,
};
use crate::ast::{CreateIndex, DropIndex};
use crate::errors::unsupported;
use crate::restrictions::has_duration;
use model::identifier::quoted;
use model::schema::Layout;
use model::{Column, ColumnKind, CqlType, Failure, Index, IndexedPart, Keyspace, Schema, Table};
use std::sync::Arc;

/// The index class name of this kind of index, the only one there is.
const LOCAL: &str = "legacy_local_table";

/// Most indexes of a table.
pub const INDEXES_MAX: usize = 1_000;

pub(super) fn create(create: &CreateIndex, keyspace_name: &str, schema: &Schema) -> Result<Applied> {
    let name = &create.table.name;
    refuse_system(keyspace_name, "ALTER", || format!("table {keyspace_name}.{name}"))?;
    let class = create.class.as_deref().filter(|class| create.custom || *class != LOCAL);
    let is_custom = create.custom || class.is_some();
    if !is_custom && !create.properties.is_empty() {
        return Err(Failure::invalid("Cannot specify options for a non-CUSTOM index"));
    }
    if class.is_some_and(|class| class.rsplit('.').next() == Some("SASIIndex")) {
        return Err(Failure::invalid("SASI indexes are disabled. Enable in cassandra.yaml to use."));
    }
    let before = schema.keyspace(keyspace_name).ok_or_else(|| no_keyspace(keyspace_name))?;
    let Some(table) = before.tables.get(name) else {
        return Err(Failure::invalid(format!("Table '{name}' doesn't exist")));
    };
    if let Some(index) = &create.name
        && find(before, index).is_some()
    {
        if create.if_not_exists {
            return Ok(Applied::nothing());
        }
        return Err(Failure::invalid(format!("Index '{index}' already exists")));
    }
    if table.is_counter() {
        return Err(Failure::invalid("Secondary indexes on counter tables aren't supported"));
    }
    let targets = create.targets.iter().map(|(column, part)| target(table, column, *part));
    let targets = targets.collect::<Result<Vec<_>>>()?;
    if !is_custom {
        match targets.len() {
            0 => return Err(Failure::invalid("Only CUSTOM indexes can be created without specifying a target column")),
            1 => {}
            _ => return Err(Failure::invalid("Only CUSTOM indexes support multiple columns")),
        }
    }
    for (at, (column, _)) in targets.iter().enumerate() {
        if targets[..at].iter().any(|(other, _)| other.id == column.id) {
            let column = &column.name;
            return Err(Failure::invalid(format!("Duplicate column '{column}' in index target list")));
        }
    }
    targets.iter().try_for_each(|(column, part)| check_target(table, column, *part))?;
    let name = match (&create.name, targets.as_slice()) {
        (Some(name), _) => name.clone(),
        (None, [(column, _)]) => available_name(before, &format!("{}_{}", table.name, column.name)),
        (None, _) => available_name(before, &table.name),
    };
    if is_custom {
        return Err(custom(class));
    }
    let Some((column, part)) = targets.first() else { return Ok(Applied::nothing()) };
    let same = |index: &&Index| index.column == column.name && index.part == *part;
    if let Some(equal) = table.indexes.iter().find(same) {
        if create.if_not_exists {
            return Ok(Applied::nothing());
        }
        let equal = &equal.name;
        return Err(Failure::invalid(format!("Index {name} is a duplicate of existing index {equal}")));
    }
    if !is_plain(&name) {
        return Err(Failure::config(format!("Illegal index name {name}")));
    }
    if table.indexes.len() >= INDEXES_MAX {
        return Err(Failure::invalid(format!("A table takes at most {INDEXES_MAX} indexes")));
    }
    let mut indexed = Table::clone(table);
    let at = indexed.indexes.partition_point(|index| index.name < name);
    indexed.indexes.insert(at, Index { name, column: column.name.clone(), part: *part });
    Ok(updated(before, indexed))
}

pub(super) fn drop(drop: &DropIndex, keyspace_name: &str, schema: &Schema) -> Result<Applied> {
    let name = &drop.name.name;
    let found = schema.keyspace(keyspace_name).and_then(|keyspace| Some((keyspace, find(keyspace, name)?)));
    let Some((before, table)) = found else {
        if drop.if_exists {
            return Ok(Applied::nothing());
        }
        // The stray quote at the end is Cassandra's.
        return Err(Failure::invalid(format!("Index '{keyspace_name}.{name}' doesn't exist'")));
    };
    refuse_system(keyspace_name, "ALTER", || format!("table {}", table.full_name()))?;
    let mut without = Table::clone(table);
    without.indexes.retain(|index| index.name != *name);
    Ok(updated(before, without))
}

fn updated(before: &Keyspace, table: Table) -> Applied {
    let mut after = before.clone();
    let name = table.name.clone();
    after.tables.insert(name.clone(), Arc::new(table));
    changed(ChangeKind::Updated, ChangeTarget::Table, &name, after)
}

/// The table that has the index with this name.
fn find<'k>(keyspace: &'k Keyspace, name: &str) -> Option<&'k Arc<Table>> {
    keyspace.tables.values().find(|table| table.indexes.iter().any(|index| index.name == name))
}

/// A free name for an index: `base` without invalid characters and with `_idx`, or the first free one of `base_idx_1`,
/// ...
fn available_name(keyspace: &Keyspace, base: &str) -> String {
    let plain: String = base.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let name = format!("{plain}_idx");
    if find(keyspace, &name).is_none() {
        return name;
    }
    let numbered = (1..).map(|number| format!("{name}_{number}"));
    numbered.into_iter().find(|name| find(keyspace, name).is_none()).unwrap_or(name)
}

fn target<'t>(table: &'t Table, name: &str, part: IndexedPart) -> Result<(&'t Column, IndexedPart)> {
    let Some(column) = table.column(name).filter(|column| !table.is_hidden(column)) else {
        let (name, full_name) = (quoted(name), quoted_full_name(&table.keyspace, &table.name));
        return Err(Failure::invalid(format!("Undefined column name {name} in table {full_name}")));
    };
    let is_whole = part == IndexedPart::Simple && column.cql_type.is_collection() && !column.descending;
    Ok((column, if is_whole { IndexedPart::Values } else { part }))
}

/// Checks Cassandra's conditions on the indexed column.
fn check_target(table: &Table, column: &Column, part: IndexedPart) -> Result<()> {
    let Column { name, cql_type, kind, .. } = column;
    if has_duration(cql_type) {
        return Err(Failure::invalid(match cql_type {
            CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => {
                "Secondary indexes are not supported on collections containing durations"
            }
            CqlType::Tuple(_) => "Secondary indexes are not supported on tuples containing durations",
            CqlType::User { .. } => "Secondary indexes are not supported on UDTs containing durations",
            _ => "Secondary indexes are not supported on duration columns",
        }));
    }
    if table.is_compact() && kind.is_key() {
        return Err(Failure::invalid(
            "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables",
        ));
    }
    if table.layout == Layout::DenseCompact {
        return Err(Failure::invalid(
            "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables",
        ));
    }
    if *kind == ColumnKind::PartitionKey && table.partition_key_len == 1 {
        return Err(Failure::invalid(format!("Cannot create secondary index on the only partition key column {name}")));
    }
    let frozen = cql_type.is_collection() && !cql_type.is_multicell();
    let word = part.word();
    if frozen && part != IndexedPart::Full {
        let quoted = quoted(name);
        // Cassandra does not recognise the type of a descending column as a collection, whose values would be indexed.
        let word = if part == IndexedPart::Simple { "" } else { word };
        return Err(Failure::invalid(format!(
            "Cannot create {word}() index on frozen column {name}. Frozen collections are immutable and must be fully \
             indexed by using the 'full({quoted})' modifier"
        )));
    }
    if !frozen && part == IndexedPart::Full {
        return Err(Failure::invalid("full() indexes can only be created on frozen collections"));
    }
    if !cql_type.is_collection() && part != IndexedPart::Simple {
        return Err(Failure::invalid(format!(
            "Cannot create {word}() index on {name}. Non-collection columns only support simple indexes"
        )));
    }
    let is_map = matches!(cql_type, CqlType::Map { frozen: false, .. });
    if !is_map && matches!(part, IndexedPart::Keys | IndexedPart::Entries) {
        return Err(Failure::invalid(format!("Cannot create index on {word} of column {name} with non-map type")));
    }
    if cql_type.is_user_type() && cql_type.is_multicell() {
        return Err(Failure::invalid(format!("Cannot create index on non-frozen UDT column {name}")));
    }
    Ok(())
}

/// The failure for an index with a custom class.
fn custom(class: Option<&str>) -> Failure {
    let class = class.unwrap_or(LOCAL);
    match class.rsplit('.').next().map(str::to_ascii_lowercase).as_deref() {
        Some("sai" | "storageattachedindex") => unsupported("storage-attached indexes (USING 'sai')"),
        _ => Failure::config(format!("Unable to find custom indexer class '{class}'")),
    }
}
