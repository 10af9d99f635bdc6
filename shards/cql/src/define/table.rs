//! CREATE TABLE and DROP TABLE.

use super::capacity_options;
use super::columns::{check_count, column_type, refuse_nested_collections};
use super::compact;
use super::ineffective_options;
use super::masks;
use super::{
    Applied, ChangeKind, ChangeTarget, DefinitionContext, Result, TABLES_MAX, already_exists, changed, is_plain,
    no_keyspace, refuse_system,
};
use super::{table_options, tablets};
use crate::ast::{ColumnDefinition, CreateTable, DropTable, TableName, TypeKind};
use model::{Column, ColumnId, ColumnKind, CqlType, Failure, Keyspace, Schema, Table, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Longest name of a table in characters: the name of its directory also has a dash and an id.
pub(super) const TABLE_NAME_MAX: usize = 222;

/// A table's name as written, for errors that show it so.
fn shown(table: &TableName) -> String {
    match &table.keyspace {
        Some(keyspace) => format!("{keyspace}.{}", table.name),
        None => table.name.clone(),
    }
}

/// Checks that columns have different names, that there is one primary key, and that CLUSTERING ORDER BY names
/// clustering columns.
pub(super) fn check_names(create: &CreateTable) -> Result<()> {
    let table = shown(&create.table);
    check_count(create.columns.len())?;
    let mut names: BTreeSet<&str> = BTreeSet::new();
    if let Some(twice) = create.columns.iter().find(|column| !names.insert(&column.name)) {
        let name = &twice.name;
        return Err(Failure::invalid(format!("Duplicate column '{name}' declaration for table '{table}'")));
    }
    let clustering = match create.primary_keys.as_slice() {
        [(_, clustering)] => clustering,
        [] => {
            let text = format!("No PRIMARY KEY specifed for table '{table}' (exactly one required)");
            return Err(Failure::invalid(text));
        }
        _ => {
            let text = format!("Multiple PRIMARY KEY specified for table '{table}' (exactly one required)");
            return Err(Failure::invalid(text));
        }
    };
    let order = &create.clustering_order;
    for (at, (name, _)) in order.iter().enumerate().take(clustering.len() + 1) {
        if order[..at].iter().any(|(other, _)| other == name) {
            return Err(Failure::invalid(format!(
                "Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{table}'"
            )));
        }
        if !clustering.contains(name) {
            return Err(Failure::invalid(format!(
                "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{name}] are not clustering \
                 columns"
            )));
        }
    }
    Ok(())
}

pub(super) fn create(
    create: &CreateTable,
    keyspace: &str,
    schema: &Schema,
    site: &DefinitionContext<'_>,
) -> Result<Applied> {
    let name = &create.table.name;
    refuse_system(keyspace, "CREATE", || format!("all tables in {keyspace}"))?;
    let options = table_options::parse(&create.properties, None, site)?;
    let before = schema.keyspace(keyspace).ok_or_else(|| no_keyspace(keyspace))?;
    if before.tables.contains_key(name) {
        if create.if_not_exists {
            return Ok(Applied::nothing());
        }
        let text = format!("Cannot add already existing table \"{name}\" to keyspace \"{keyspace}\"");
        return Err(already_exists(text, keyspace, name));
    }
    let given_id = options.id.clone();
    let sharding = options.sharding.clone();
    let options = options.finish()?;
    capacity_options::check_effect(options.capacity.as_deref())?;
    tablets::check_table(options.tablets, before)?;
    let mut table = Table {
        id: site.new_id,
        keyspace: keyspace.to_owned(),
        name: name.clone(),
        columns: Vec::with_capacity(create.columns.len()),
        partition_key_len: 0,
        clustering_len: 0,
        static_len: 0,
        layout: model::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options,
    };
    add_columns(&mut table, create, schema)?;
    if let Some(written) = sharding {
        let sharding = written.of_table(&table, schema.partitioner, site)?;
        table.options.write_sharding = Some(Arc::new(sharding));
    }
    for definition in &create.columns {
        if let Some(mask) = &definition.mask {
            masks::set(&mut table, &definition.name, mask, before, schema.partitioner, site)?;
        }
    }
    let given_id = given_id.transpose()?;
    check_name(keyspace, name)?;
    if schema.tables.len() >= TABLES_MAX {
        return Err(Failure::invalid(format!("Cannot have more than {TABLES_MAX} tables")));
    }
    table.id = given_id.unwrap_or(site.new_id);
    if let Some(other) = schema.table_by_id(table.id) {
        return Err(Failure::invalid(format!("Table id {} is in use by {}", table.id, other.full_name())));
    }
    let warnings = ineffective_options::warning(&create.properties, &table.options).into_iter().collect();
    let mut after = Keyspace::clone(before);
    after.tables.insert(name.clone(), Arc::new(table));
    let mut applied = Applied { warnings, ..changed(ChangeKind::Created, ChangeTarget::Table, name, after) };
    if let Some(change) = &mut applied.change {
        change.given_id = given_id;
    }
    Ok(applied)
}

fn check_name(keyspace: &str, name: &str) -> Result<()> {
    if !is_plain(name) {
        return Err(Failure::config(format!(
            "{keyspace}.{name}: Table name must not be empty or not contain non-alphanumeric-underscore characters \
             (got \"{name}\")"
        )));
    }
    if name.len() > TABLE_NAME_MAX {
        return Err(Failure::config(format!(
            "{keyspace}.{name}: Table name must not be more than {TABLE_NAME_MAX} characters long (got {} characters \
             for \"{name}\")",
            name.len()
        )));
    }
    Ok(())
}

pub(super) fn drop(drop: &DropTable, keyspace: &str, schema: &Schema) -> Result<Applied> {
    let name = &drop.table.name;
    refuse_system(keyspace, "DROP", || format!("table {keyspace}.{name}"))?;
    let Some(before) = schema.keyspace(keyspace).filter(|keyspace| keyspace.tables.contains_key(name)) else {
        if drop.if_exists {
            return Ok(Applied::nothing());
        }
        return Err(Failure::invalid(format!("Table '{keyspace}.{name}' doesn't exist")));
    };
    let mut after = Keyspace::clone(before);
    after.tables.remove(name);
    Ok(changed(ChangeKind::Dropped, ChangeTarget::Table, name, after))
}

/// Adds the columns to `table`, in `SELECT *` order.
fn add_columns(table: &mut Table, create: &CreateTable, schema: &Schema) -> Result<()> {
    let keyspace = table.keyspace.clone();
    let name = &create.table.name;
    let Some((partition, clustering)) = create.primary_keys.first() else {
        return Err(Failure::invalid(format!("No PRIMARY KEY specifed for table '{name}' (exactly one required)")));
    };
    // As in Cassandra, unknown types are reported before errors about keys, in the order of the columns' names.
    let definitions: BTreeMap<&str, &ColumnDefinition> =
        create.columns.iter().map(|definition| (definition.name.as_str(), definition)).collect();
    let mut types: BTreeMap<&str, CqlType> = BTreeMap::new();
    for (name, definition) in &definitions {
        types.insert(name, column_type(&definition.type_name, &keyspace, schema)?);
    }
    types.values().try_for_each(|cql_type| refuse_nested_collections(cql_type, None))?;
    let is_static = |name: &str| definitions.get(name).is_some_and(|definition| definition.is_static);

    let mut keys: Vec<(&str, ColumnKind, u16, CqlType)> = Vec::new();
    let places = partition.iter().map(|name| (name, ColumnKind::PartitionKey));
    for (at, (key, kind)) in places.chain(clustering.iter().map(|name| (name, ColumnKind::Clustering))).enumerate() {
        if !definitions.contains_key(key.as_str()) {
            return Err(Failure::invalid(format!(
                "Unknown column '{key}' referenced in PRIMARY KEY for table '{name}'"
            )));
        }
        let Some(cql_type) = types.remove(key.as_str()) else {
            return Err(Failure::invalid(format!("Duplicate column '{key}' in PRIMARY KEY clause for table '{name}'")));
        };
        check_key_type(&cql_type, key)?;
        if is_static(key) {
            return Err(Failure::invalid(format!("Static column '{key}' cannot be part of the PRIMARY KEY")));
        }
        let position = if kind == ColumnKind::PartitionKey { at } else { at - partition.len() };
        keys.push((key, kind, position as u16, cql_type));
    }
    check_clustering_order(create, clustering)?;
    if create.compact {
        compact::check(create, clustering, &types)?;
    }
    if clustering.is_empty() && create.columns.iter().any(|definition| definition.is_static) {
        return Err(Failure::invalid(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        ));
    }
    let is_class =
        |name: &str| definitions.get(name).is_some_and(|definition| definition.type_name.kind == TypeKind::Custom);
    check_counters(table, types.iter().map(|(name, cql_type)| (*name, cql_type, is_class(name))))?;

    let descends = |name: &str| create.clustering_order.iter().any(|(other, descends)| other == name && *descends);
    let mut add = |name: &str, kind, position, cql_type| {
        let id = ColumnId(table.columns.len() as u16);
        let descending = kind == ColumnKind::Clustering && descends(name);
        table.columns.push(Column { id, name: name.to_owned(), kind, position, cql_type, descending });
    };
    keys.into_iter().for_each(|(name, kind, position, cql_type)| add(name, kind, position, cql_type));
    let (statics, regular): (Vec<_>, Vec<_>) = types.into_iter().partition(|(name, _)| is_static(name));
    let static_len = statics.len();
    statics.into_iter().for_each(|(name, cql_type)| add(name, ColumnKind::Static, 0, cql_type));
    regular.into_iter().for_each(|(name, cql_type)| add(name, ColumnKind::Regular, 0, cql_type));
    (table.partition_key_len, table.clustering_len, table.static_len) = (partition.len(), clustering.len(), static_len);
    if create.compact {
        compact::make(table);
    }
    Ok(())
}

fn check_key_type(cql_type: &CqlType, column: &str) -> Result<()> {
    if let CqlType::User { definition, frozen: false } = cql_type {
        return Err(Failure::invalid(format!(
            "Invalid non-frozen user-defined type {} for PRIMARY KEY column '{column}'",
            // Cassandra quotes the qualified name as one.
            model::identifier::quoted(&definition.full_name())
        )));
    }
    if cql_type.is_multicell() {
        return Err(Failure::invalid(format!(
            "Invalid non-frozen collection type {cql_type} for PRIMARY KEY column '{column}'"
        )));
    }
    if *cql_type == CqlType::Counter {
        return Err(Failure::invalid(format!("counter type is not supported for PRIMARY KEY column '{column}'")));
    }
    if has_duration(cql_type) {
        return Err(Failure::invalid(format!("duration type is not supported for PRIMARY KEY column '{column}'")));
    }
    Ok(())
}

/// Whether a type contains a duration. As in Cassandra, vectors are not searched.
fn has_duration(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::Duration => true,
        CqlType::List { element, .. } | CqlType::Set { element, .. } => has_duration(element),
        CqlType::Map { key, value, .. } => has_duration(key) || has_duration(value),
        CqlType::Tuple(elements) => elements.iter().any(has_duration),
        CqlType::User { definition, .. } => definition.field_types().any(has_duration),
        _ => false,
    }
}

fn check_clustering_order(create: &CreateTable, clustering: &[String]) -> Result<()> {
    let order = &create.clustering_order;
    for ((name, _), expected) in order.iter().zip(clustering) {
        if name == expected {
            continue;
        }
        if order.iter().any(|(other, _)| other == expected) {
            return Err(Failure::invalid(format!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
                 ({expected} must appear before {name})"
            )));
        }
        return Err(Failure::invalid(format!("Missing CLUSTERING ORDER for column {expected}")));
    }
    Ok(())
}

/// Checks that the columns outside the primary key (name, type, and whether the type was given as a class) are all
/// counters or none. A counter given as a class does not make a counter table, as in Cassandra.
fn check_counters<'t>(
    table: &Table,
    columns: impl ExactSizeIterator<Item = (&'t str, &'t CqlType, bool)> + Clone,
) -> Result<()> {
    let is_counter = |column: &(&str, &CqlType, bool)| *column.1 == CqlType::Counter;
    let counters = columns.clone().filter(|column| is_counter(column) && !column.2).count();
    if counters > 0 && counters < columns.len() {
        return Err(Failure::invalid("Cannot mix counter and non counter columns in the same table"));
    }
    if counters > 0 && table.options.default_time_to_live > 0 {
        return Err(no_time_to_live());
    }
    match columns.clone().find(is_counter) {
        Some((name, ..)) if counters == 0 => Err(Failure::config(format!(
            "{}.{}: Cannot have a counter column (\"{name}\") in a non counter table",
            table.keyspace, table.name
        ))),
        _ => Ok(()),
    }
}

/// The failure for `default_time_to_live` on a counter table.
pub(super) fn no_time_to_live() -> Failure {
    Failure::invalid("Cannot set default_time_to_live on a table with counters")
}

/// Parses the id of `WITH ID`: a uuid, quoted or not.
pub(crate) fn table_id(text: &str) -> Result<TableId> {
    let bytes = model::text::from_bare(&CqlType::Uuid, text).ok();
    let bytes = bytes.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    bytes.map(TableId).ok_or_else(|| Failure::config("Invalid table id"))
}
