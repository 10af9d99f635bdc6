//! CREATE, ALTER and DROP TYPE.
//!
//! Invariants: a user type never contains itself, however deep; everything that contains an altered type (other types,
//! tables) gets the new definition.

use super::{
    Applied, ChangeKind, ChangeTarget, Result, USER_TYPES_MAX, changed, no_keyspace, quoted_full_name, refuse_system,
};
use crate::ast::{AlterType, CreateType, DropType, TypeChange, TypeKind, TypeName};
use crate::types;
use model::types::{FIELDS_MAX, UserType};
use model::{CqlType, Failure, Keyspace, Schema, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) fn create(create: &CreateType, keyspace: &str, schema: &Schema) -> Result<Applied> {
    refuse_system(keyspace, "CREATE", || format!("all tables in {keyspace}"))?;
    let name = &create.name.name;
    let before = schema.keyspace(keyspace).ok_or_else(|| no_keyspace(keyspace))?;
    if before.types.contains_key(name) {
        if create.if_not_exists {
            return Ok(Applied::nothing());
        }
        return Err(Failure::invalid(format!("A user type with name '{name}' already exists")));
    }
    if CqlType::native(name).is_some_and(|_| name.bytes().all(|byte| !byte.is_ascii_uppercase())) {
        // Stored without quotes, the name would mean the native type. Cassandra accepts such names.
        return Err(Failure::invalid(format!("'{name}' is the name of a native type")));
    }
    check_fields(create.fields.len())?;
    let mut names: BTreeSet<&str> = BTreeSet::new();
    if let Some((twice, _)) = create.fields.iter().find(|(field, _)| !names.insert(field)) {
        return Err(Failure::invalid(format!("Duplicate field name '{twice}' in type '{name}'")));
    }
    create.fields.iter().try_for_each(|(_, written)| check_field_type(written))?;
    let mut fields = Vec::with_capacity(create.fields.len());
    for (field, written) in &create.fields {
        fields.push((field.clone(), types::resolve(written, keyspace, schema)?));
    }
    let definition = UserType { keyspace: keyspace.to_owned(), name: name.clone(), fields };
    let definition = Arc::new(definition);
    types::check_size(&CqlType::User { definition: definition.clone(), frozen: true })?;
    if schema.keyspaces.values().map(|keyspace| keyspace.types.len()).sum::<usize>() >= USER_TYPES_MAX {
        return Err(Failure::invalid(format!("Cannot have more than {USER_TYPES_MAX} user types")));
    }
    let mut after = Keyspace::clone(before);
    after.types.insert(name.clone(), definition);
    Ok(changed(ChangeKind::Created, ChangeTarget::Type, name, after))
}

fn check_fields(count: usize) -> Result<()> {
    if count > FIELDS_MAX {
        return Err(Failure::invalid(format!("A user type takes at most {FIELDS_MAX} fields")));
    }
    Ok(())
}

/// Checks that a field can have a type, as written.
fn check_field_type(written: &TypeName) -> Result<()> {
    match &written.kind {
        TypeKind::Native(CqlType::Counter) => Err(Failure::invalid("A user type cannot contain counters")),
        TypeKind::User { .. } => Err(Failure::invalid("A user type cannot contain non-frozen UDTs")),
        _ => Ok(()),
    }
}

pub(super) fn alter(alter: &AlterType, keyspace: &str, schema: &Schema) -> Result<Applied> {
    refuse_system(keyspace, "ALTER", || format!("all tables in {keyspace}"))?;
    let name = &alter.name.name;
    let found = schema.keyspace(keyspace).and_then(|keyspace| Some((keyspace, keyspace.types.get(name)?)));
    let Some((before, definition)) = found else {
        if alter.if_exists {
            return Ok(Applied::nothing());
        }
        return Err(Failure::invalid(format!("Type {keyspace}.{name} doesn't exist")));
    };
    let mut altered = UserType::clone(definition);
    match &alter.change {
        TypeChange::Add { if_not_exists, field, type_name } => {
            add_field(&mut altered, before, *if_not_exists, field, type_name, schema)?;
        }
        TypeChange::Rename { if_exists, names } => rename_fields(&mut altered, *if_exists, names)?,
        TypeChange::Type => return Err(Failure::invalid("Altering field types is no longer supported")),
    }
    if altered == **definition {
        return Ok(Applied::nothing());
    }
    let after = with_type(before, Arc::new(altered));
    for definition in after.types.values() {
        types::check_size(&CqlType::User { definition: definition.clone(), frozen: true })?;
    }
    for column in after.tables.values().flat_map(|table| &table.columns) {
        types::check_size(&column.cql_type)?;
    }
    Ok(changed(ChangeKind::Updated, ChangeTarget::Type, name, after))
}

fn add_field(
    altered: &mut UserType,
    keyspace: &Keyspace,
    if_not_exists: bool,
    field: &str,
    written: &TypeName,
    schema: &Schema,
) -> Result<()> {
    check_field_type(written)?;
    let shown = quoted_full_name(&altered.keyspace, &altered.name);
    if altered.field_index(field).is_some() {
        if if_not_exists {
            return Ok(());
        }
        return Err(Failure::invalid(format!(
            "Cannot add field {field} to type {shown}: a field with name {field} already exists"
        )));
    }
    let cql_type = types::resolve(written, &keyspace.name, schema)?;
    types::check_size(&cql_type)?;
    let refused = |reason: String| {
        let written = in_keyspace(written, &keyspace.name);
        Err(Failure::invalid(format!("Cannot add new field {field} of type {written} to user type {shown} {reason}")))
    };
    if cql_type.contains_user_type(&altered.keyspace, &altered.name) {
        return refused("as it would create a circular reference".to_owned());
    }
    let in_partition_key = |table: &&Arc<Table>| {
        let holds = |cql_type: &CqlType| cql_type.contains_user_type(&altered.keyspace, &altered.name);
        table.partition_key().iter().any(|column| holds(&column.cql_type))
    };
    let tables = keyspace.tables.values().filter(in_partition_key);
    let tables: Vec<String> = tables.map(|table| quoted_full_name(&table.keyspace, &table.name)).collect();
    if !tables.is_empty() {
        let tables = tables.join(", ");
        return refused(format!("as the type is being used in partition key by the following tables: {tables}"));
    }
    check_fields(altered.fields.len() + 1)?;
    altered.fields.push((field.to_owned(), cql_type));
    Ok(())
}

/// A type as written, with the keyspace before its user types.
fn in_keyspace(written: &TypeName, keyspace: &str) -> String {
    let inner = |part: &TypeName| in_keyspace(part, keyspace);
    match &written.kind {
        TypeKind::List(element) => format!("list<{}>", inner(element)),
        TypeKind::Set(element) => format!("set<{}>", inner(element)),
        TypeKind::Map(key, value) => format!("map<{}, {}>", inner(key), inner(value)),
        TypeKind::Tuple(elements) => {
            let elements: Vec<String> = elements.iter().map(inner).collect();
            format!("tuple<{}>", elements.join(", "))
        }
        TypeKind::Vector(element, dimension) => format!("vector<{}, {dimension}>", inner(element)),
        TypeKind::Frozen(part) => format!("frozen<{}>", inner(part)),
        TypeKind::User { keyspace: None, name } => format!("{keyspace}.{name}"),
        TypeKind::User { .. } | TypeKind::Native(_) | TypeKind::Custom => written.text.clone(),
    }
}

fn rename_fields(altered: &mut UserType, if_exists: bool, names: &[(String, String)]) -> Result<()> {
    let shown = quoted_full_name(&altered.keyspace, &altered.name);
    // Old names are those before the statement; of two new names for a field the last counts.
    let mut renamed: BTreeMap<usize, &String> = BTreeMap::new();
    for (old, new) in names {
        match altered.field_index(old) {
            Some(at) => {
                renamed.insert(at, new);
            }
            None if if_exists => {}
            None => return Err(Failure::invalid(format!("Unkown field {old} in user type {shown}"))),
        }
    }
    for (at, new) in renamed {
        altered.fields[at].0.clone_from(new);
    }
    let mut sorted: Vec<&String> = altered.fields.iter().map(|(name, _)| name).collect();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        // Cassandra's text shows the keyspace in place of the type's name.
        return Err(Failure::invalid(format!("Duplicate field name {} in type {}", twice[0], altered.keyspace)));
    }
    Ok(())
}

/// The keyspace with `definition` added or replaced, also in everything that contains it.
fn with_type(before: &Keyspace, definition: Arc<UserType>) -> Keyspace {
    let mut after = before.clone();
    after.types.insert(definition.name.clone(), definition);
    // Types come after the types that they contain.
    for name in before.types_by_dependency().into_iter().map(|definition| &definition.name) {
        let Some(old) = after.types.get(name) else { continue };
        let fields = old.fields.iter().map(|(field, cql_type)| (field.clone(), renewed(cql_type, &after.types)));
        let fields: Vec<(String, CqlType)> = fields.collect();
        if fields != old.fields {
            let renewed = UserType { keyspace: old.keyspace.clone(), name: old.name.clone(), fields };
            after.types.insert(name.clone(), Arc::new(renewed));
        }
    }
    let types = &after.types;
    for table in after.tables.values_mut() {
        let holds_user_types = |cql_type: &CqlType| !cql_type.references().is_empty();
        if table.columns.iter().any(|column| holds_user_types(&column.cql_type)) {
            let mut altered = Table::clone(table);
            for column in &mut altered.columns {
                column.cql_type = renewed(&column.cql_type, types);
            }
            if altered != **table {
                *table = Arc::new(altered);
            }
        }
    }
    after
}

/// The type with its user types replaced by those in `types`.
fn renewed(cql_type: &CqlType, types: &BTreeMap<String, Arc<UserType>>) -> CqlType {
    match cql_type {
        CqlType::User { definition, frozen } => {
            CqlType::User { definition: types.get(&definition.name).unwrap_or(definition).clone(), frozen: *frozen }
        }
        other => other.map_parts(&|part| renewed(part, types)),
    }
}

pub(super) fn drop(drop: &DropType, keyspace: &str, schema: &Schema) -> Result<Applied> {
    refuse_system(keyspace, "DROP", || format!("all tables in {keyspace}"))?;
    let name = &drop.name.name;
    let Some(before) = schema.keyspace(keyspace).filter(|keyspace| keyspace.types.contains_key(name)) else {
        if drop.if_exists {
            return Ok(Applied::nothing());
        }
        return Err(Failure::invalid(format!("Type '{keyspace}.{name}' doesn't exist")));
    };
    let holds = |cql_type: &CqlType| cql_type.contains_user_type(keyspace, name);
    let in_use = |what: &str, users: Vec<&str>| {
        Failure::invalid(format!(
            "Cannot drop user type '{keyspace}.{name}' as it is still used by {what} {}",
            users.join(", ")
        ))
    };
    let types: Vec<&str> = before
        .types
        .values()
        .filter(|definition| definition.field_types().any(holds))
        .map(|definition| definition.name.as_str())
        .collect();
    if !types.is_empty() {
        return Err(in_use("user types", types));
    }
    let tables: Vec<&str> = before
        .tables
        .values()
        .filter(|table| table.columns.iter().any(|column| holds(&column.cql_type)))
        .map(|table| table.name.as_str())
        .collect();
    if !tables.is_empty() {
        return Err(in_use("tables", tables));
    }
    let mut after = Keyspace::clone(before);
    after.types.remove(name);
    Ok(changed(ChangeKind::Dropped, ChangeTarget::Type, name, after))
}
