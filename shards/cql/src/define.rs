//! CREATE and DROP of keyspaces and tables, checked.

use crate::ast::{self, PropertyValue};
use crate::lexer::syntax;
use crate::parser::unsupported;
use crate::plan::Define;
use crate::prepare::{Resolver, not_modifiable};
use crate::{COLUMNS_MAX, replication, table_options, types};
use model::failure::Detail;
use model::schema::SYSTEM_KEYSPACES;
use model::{Column, ColumnId, ColumnKind, CqlType, ErrorCode, Failure, HashMap, Keyspace, Table, TableId};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, Failure>;

/// Longest name of a keyspace, characters.
pub(crate) const KEYSPACE_NAME_MAX: usize = 48;
/// Longest name of a table, characters: a directory's name holds it, a dash and an id.
pub(crate) const TABLE_NAME_MAX: usize = 222;

/// Keyspaces that no statement may change. The other system keyspaces can be altered, but not given or robbed of tables.
const LOCAL_KEYSPACES: [&str; 4] = ["system", "system_schema", "system_views", "system_virtual_schema"];

/// Refuses `verb` on a system keyspace: a local one as such, the others by what is asked.
fn refuse_system(keyspace: &str, verb: &str, resource: impl FnOnce() -> String) -> Result<()> {
    if LOCAL_KEYSPACES.contains(&keyspace) {
        return Err(not_modifiable(keyspace));
    }
    if SYSTEM_KEYSPACES.contains(&keyspace) {
        return Err(Failure::new(ErrorCode::Unauthorized, format!("Cannot {verb} <{}>", resource())));
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

pub(crate) fn create_keyspace(create: &ast::CreateKeyspace, resolver: &Resolver<'_>) -> Result<Define> {
    let name = &create.name;
    if LOCAL_KEYSPACES.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(Failure::invalid(format!("System keyspace '{name}' is not user-modifiable")));
    }
    let mut replication = None;
    let mut durable_writes = true;
    for (at, property) in create.properties.iter().enumerate() {
        if create.properties[..at].iter().any(|other| other.name == property.name) {
            return Err(syntax(format!("Multiple definitions for property '{}'", property.name)));
        }
        match property.name.as_str() {
            "replication" => replication = Some(table_options::map_of(property)?),
            "durable_writes" => durable_writes = table_options::boolean_of(property)?,
            other => return Err(syntax(format!("Unknown property '{other}'"))),
        }
    }
    let Some(options) = replication else {
        return Err(Failure::invalid("Missing mandatory option 'replication'"));
    };
    if let Some(existing) = resolver.schema.keyspace(name) {
        if create.if_not_exists {
            // Nothing will change, whatever the rest says.
            let keyspace = Keyspace { tables: BTreeMap::new(), ..(**existing).clone() };
            return Ok(Define::CreateKeyspace { keyspace, if_not_exists: true });
        }
        let detail = Detail::AlreadyExists { keyspace: name.clone(), table: String::new() };
        let text = format!("Cannot add existing keyspace \"{name}\"");
        return Err(Failure::new(ErrorCode::AlreadyExists, text).with(detail));
    }
    if !is_plain(name) {
        return Err(Failure::invalid(format!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \
             \"{name}\")"
        )));
    }
    if name.len() > KEYSPACE_NAME_MAX {
        return Err(Failure::invalid(format!(
            "Keyspace name must not be more than {KEYSPACE_NAME_MAX} characters long (got {} characters for \"{name}\")",
            name.len()
        )));
    }
    let replication = replication::check(name, options)?;
    let keyspace =
        Keyspace { name: name.clone(), replication, durable_writes, tables: BTreeMap::new(), types: BTreeMap::new() };
    Ok(Define::CreateKeyspace { keyspace, if_not_exists: create.if_not_exists })
}

pub(crate) fn drop_keyspace(name: &str, if_exists: bool, resolver: &Resolver<'_>) -> Result<Define> {
    refuse_system(name, "DROP", || format!("keyspace {name}"))?;
    if resolver.schema.keyspace(name).is_none() && !if_exists {
        return Err(Failure::invalid(format!("Keyspace '{name}' doesn't exist")));
    }
    Ok(Define::DropKeyspace { name: name.to_owned(), if_exists })
}

pub(crate) fn drop_table(table: &ast::TableName, if_exists: bool, resolver: &Resolver<'_>) -> Result<Define> {
    let keyspace = resolver.keyspace_name(table)?;
    let name = &table.name;
    refuse_system(keyspace, "DROP", || format!("table {keyspace}.{name}"))?;
    if resolver.schema.table(keyspace, name).is_none() && !if_exists {
        return Err(Failure::invalid(format!("Table '{keyspace}.{name}' doesn't exist")));
    }
    Ok(Define::DropTable { keyspace: keyspace.to_owned(), name: name.clone(), if_exists })
}

pub(crate) fn create_table(create: &ast::CreateTable, resolver: &Resolver<'_>) -> Result<Define> {
    let keyspace = resolver.keyspace_name(&create.table)?;
    let name = &create.table.name;
    refuse_system(keyspace, "CREATE", || format!("all tables in {keyspace}"))?;
    let if_not_exists = create.if_not_exists;
    let keys = primary_key(create)?;
    let (options, id) = table_options::check(&create.properties)?;
    if resolver.schema.keyspace(keyspace).is_none() {
        return Err(Failure::invalid(format!("Keyspace '{keyspace}' doesn't exist")));
    }
    if let Some(existing) = resolver.schema.table(keyspace, name) {
        if if_not_exists {
            return Ok(Define::CreateTable { table: (**existing).clone(), id, if_not_exists });
        }
        let detail = Detail::AlreadyExists { keyspace: keyspace.to_owned(), table: name.clone() };
        let text = format!("Cannot add already existing table \"{name}\" to keyspace \"{keyspace}\"");
        return Err(Failure::new(ErrorCode::AlreadyExists, text).with(detail));
    }
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
    let (columns, partition_key_len, clustering_len) = columns(create, keys, keyspace, resolver)?;
    if create.compact {
        return Err(unsupported("COMPACT STORAGE"));
    }
    let table = Table {
        id: id.unwrap_or(TableId([0; 16])),
        keyspace: keyspace.to_owned(),
        name: name.clone(),
        columns,
        partition_key_len,
        clustering_len,
        static_len: 0,
        dropped: Vec::new(),
        options,
    };
    Ok(Define::CreateTable { table, id, if_not_exists })
}

/// The columns by name and the one primary key.
type Keys<'c> = (HashMap<&'c str, &'c ast::ColumnDefinition>, &'c (Vec<String>, Vec<String>));

/// Checks that columns are named once and that there is one primary key.
fn primary_key(create: &ast::CreateTable) -> Result<Keys<'_>> {
    // These errors show the name as it was written.
    let shown = match &create.table.keyspace {
        Some(keyspace) => format!("{keyspace}.{}", create.table.name),
        None => create.table.name.clone(),
    };
    if create.columns.len() > COLUMNS_MAX {
        return Err(Failure::invalid(format!("A table takes at most {COLUMNS_MAX} columns")));
    }
    let mut by_name: HashMap<&str, &ast::ColumnDefinition> = HashMap::default();
    for definition in &create.columns {
        if by_name.insert(&definition.name, definition).is_some() {
            return Err(Failure::invalid(format!(
                "Duplicate column '{}' declaration for table '{shown}'",
                definition.name
            )));
        }
    }
    match create.primary_keys.as_slice() {
        [key] => Ok((by_name, key)),
        [] => Err(Failure::invalid(format!("No PRIMARY KEY specifed for table '{shown}' (exactly one required)"))),
        _ => {
            Err(Failure::invalid(format!("Multiple PRIMARY KEY specified for table '{shown}' (exactly one required)")))
        }
    }
}

/// The columns in `SELECT *` order, and how many are the partition key and the clustering.
fn columns(
    create: &ast::CreateTable,
    keys: Keys<'_>,
    keyspace: &str,
    resolver: &Resolver<'_>,
) -> Result<(Vec<Column>, usize, usize)> {
    let name = &create.table.name;
    let (by_name, (partition, clustering)) = keys;
    // Types that do not exist come before everything about keys, as in Cassandra.
    let mut types: HashMap<&str, CqlType> = HashMap::default();
    for definition in &create.columns {
        types.insert(&definition.name, column_type(definition, keyspace, resolver)?);
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    let keys = partition.iter().map(|name| (name, ColumnKind::PartitionKey));
    for (at, (key, kind)) in keys.chain(clustering.iter().map(|name| (name, ColumnKind::Clustering))).enumerate() {
        let Some(definition) = by_name.get(key.as_str()) else {
            return Err(Failure::invalid(format!(
                "Unknown column '{key}' referenced in PRIMARY KEY for table '{name}'"
            )));
        };
        let Some(cql_type) = types.remove(key.as_str()) else {
            return Err(Failure::invalid(format!("Duplicate column '{key}' in PRIMARY KEY clause for table '{name}'")));
        };
        if definition.is_static {
            return Err(Failure::invalid(format!("Static column '{key}' cannot be part of the PRIMARY KEY")));
        }
        if matches!(cql_type, CqlType::Counter | CqlType::Duration) {
            return Err(Failure::invalid(format!("{cql_type} type is not supported for PRIMARY KEY column '{key}'")));
        }
        let position = if kind == ColumnKind::PartitionKey { at } else { at - partition.len() };
        columns.push((key, kind, position as u16, cql_type));
    }
    check_clustering_order(create, clustering, keyspace)?;
    let mut regular: Vec<_> = types.into_iter().collect();
    regular.sort_unstable_by_key(|(name, _)| *name);
    let mut counters = 0;
    for (name, cql_type) in &regular {
        if by_name.get(name).is_some_and(|definition| definition.is_static) {
            if clustering.is_empty() {
                return Err(Failure::invalid(
                    "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
                ));
            }
            return Err(unsupported("static columns"));
        }
        counters += (*cql_type == CqlType::Counter) as usize;
    }
    if counters > 0 && counters < regular.len() {
        return Err(Failure::invalid("Cannot mix counter and non counter columns in the same table"));
    }
    if counters > 0 {
        return Err(unsupported("counter columns"));
    }
    let column = |id: usize, name: &str, kind, position, cql_type| Column {
        id: ColumnId(id as u16),
        name: name.to_owned(),
        kind,
        position,
        cql_type,
        descending: false,
    };
    let mut all: Vec<Column> = Vec::with_capacity(create.columns.len());
    for (name, kind, position, cql_type) in columns {
        all.push(column(all.len(), name, kind, position, cql_type));
    }
    for (name, cql_type) in regular {
        all.push(column(all.len(), name, ColumnKind::Regular, 0, cql_type));
    }
    Ok((all, partition.len(), clustering.len()))
}

/// The type of a column. Types that storage does not take yet are refused.
fn column_type(definition: &ast::ColumnDefinition, keyspace: &str, resolver: &Resolver<'_>) -> Result<CqlType> {
    let cql_type = types::resolve(&definition.type_name, keyspace, resolver.schema)?;
    match cql_type {
        _ if cql_type.is_collection() => Err(unsupported("collection columns")),
        CqlType::Tuple(_) => Err(unsupported("tuple columns")),
        CqlType::Vector { .. } => Err(unsupported("vector columns")),
        CqlType::User { .. } => Err(unsupported("user type columns")),
        native => Ok(native),
    }
}

fn check_clustering_order(create: &ast::CreateTable, clustering: &[String], keyspace: &str) -> Result<()> {
    let order = &create.clustering_order;
    for (at, (name, _)) in order.iter().enumerate().take(clustering.len() + 1) {
        if order[..at].iter().any(|(other, _)| other == name) {
            return Err(Failure::invalid(format!(
                "Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{keyspace}.{}'",
                create.table.name
            )));
        }
        if !clustering.contains(name) {
            return Err(Failure::invalid(format!(
                "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{name}] are not clustering \
                 columns"
            )));
        }
    }
    for ((name, _), expected) in order.iter().zip(clustering) {
        if name != expected {
            return Err(Failure::invalid(format!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
                 ({expected} must appear before {name})"
            )));
        }
    }
    if order.iter().any(|(_, descending)| *descending) {
        return Err(unsupported("CLUSTERING ORDER BY ... DESC"));
    }
    Ok(())
}

/// The id of `WITH ID`: a uuid, quoted or not.
pub(crate) fn table_id(value: &PropertyValue) -> Result<TableId> {
    let PropertyValue::Text(text) = value else {
        return Err(syntax("Invalid value for property 'id'. It should be a string".to_owned()));
    };
    match model::text::from_bare(&CqlType::Uuid, text) {
        Ok(bytes) => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => Ok(TableId(bytes)),
            Err(_) => Err(Failure::config("Invalid table id")),
        },
        _ => Err(Failure::config("Invalid table id")),
    }
}
