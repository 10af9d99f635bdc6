//! Guardrails of schema changes.
//!
//! 1. Before a change is applied: checks what the statement asks for and how many objects of its kind there are.
//!    Removes ignored table properties from the statement.
//! 2. After it is applied: checks the resulting object.
//!
//! Invariants: a guardrail is checked against what a statement adds, never against what already exists.

use super::{Applied, DefinitionContext, Result};
use crate::ast::{Definition, Property, PropertyValue, TableChange};
use crate::guardrails::{Guardrails, Threshold, ensure, text, violated};
use model::schema::is_system_keyspace;
use model::{CqlType, Keyspace, Schema, Table};
use std::borrow::Cow;

/// The warning about tables whose compaction is made for expiring rows but whose rows do not expire.
const ZERO_TTL: &str = "It is suspicious to use default_time_to_live set to 0 with such compaction strategy. Please keep in \
    mind that data will not start to automatically expire after they are older than a respective compaction window unit of \
    a certain size. Please set TTL for your INSERT or UPDATE statements if you expect data to be expired as table settings \
    will not do it. ";

/// The warnings about a statement, and the statement without ignored properties.
pub(super) fn before<'d>(
    guardrails: &Guardrails,
    definition: &'d Definition,
    schema: &Schema,
) -> Result<(Vec<String>, Cow<'d, Definition>)> {
    let mut told = Vec::new();
    let mut kept = Cow::Borrowed(definition);
    match definition {
        Definition::CreateKeyspace(create) => {
            check_strategy(guardrails, &create.properties)?;
            let (name, count) = (&create.name, user_keyspaces(schema).count() as u64 + 1);
            told.extend(guardrails.keyspaces.check(
                "keyspaces",
                count,
                |limit| {
                    format!(
                        "Creating keyspace {name}, current number of keyspaces {count} exceeds warning threshold of \
                         {limit}."
                    )
                },
                |limit| format!("Cannot have more than {limit} keyspaces, aborting the creation of keyspace {name}"),
            )?);
        }
        Definition::AlterKeyspace(alter) => check_strategy(guardrails, &alter.properties)?,
        Definition::DropKeyspace(_) => {
            ensure(guardrails.drop_keyspace, "drop_keyspace_enabled", "DROP KEYSPACE functionality")?;
        }
        Definition::DropTable(_) => drop_or_truncate(guardrails)?,
        Definition::CreateTable(create) => {
            told.extend(properties(guardrails, &create.properties)?);
            let name = &create.table.name;
            let count = user_keyspaces(schema).map(|keyspace| keyspace.tables.len() as u64).sum::<u64>() + 1;
            told.extend(guardrails.tables.check(
                "tables",
                count,
                |limit| {
                    format!(
                        "Creating table {name}, current number of tables {count} exceeds warning threshold of {limit}."
                    )
                },
                |limit| format!("Cannot have more than {limit} tables, aborting the creation of table {name}"),
            )?);
            if create.compact {
                ensure(guardrails.compact_tables, "compact_tables", "Creation of new COMPACT STORAGE tables")?;
            }
            if let Definition::CreateTable(create) = kept.to_mut() {
                create.properties.retain(|property| !is_ignored(guardrails, property));
            }
        }
        Definition::AlterTable(alter) => {
            if let TableChange::Options(options) = &alter.change {
                told.extend(properties(guardrails, options)?);
                if let Definition::AlterTable(alter) = kept.to_mut()
                    && let TableChange::Options(options) = &mut alter.change
                {
                    options.retain(|property| !is_ignored(guardrails, property));
                }
            } else {
                ensure(guardrails.alter_table, "alter_table", "ALTER TABLE changing columns")?;
            }
        }
        Definition::CreateIndex(_) => {
            ensure(guardrails.secondary_indexes, "secondary_indexes", "Creating secondary indexes")?;
        }
        Definition::CreateType(_) | Definition::AlterType(_) | Definition::DropType(_) | Definition::DropIndex(_) => {}
    }
    Ok((told, kept))
}

/// Checks whether DROP TABLE and TRUNCATE are allowed.
///
/// # Errors
/// They are disabled.
pub(crate) fn drop_or_truncate(guardrails: &Guardrails) -> Result<()> {
    ensure(guardrails.drop_truncate_table, "drop_truncate_table_enabled", "DROP and TRUNCATE TABLE functionality")
}

fn user_keyspaces(schema: &Schema) -> impl Iterator<Item = &Keyspace> {
    schema.keyspaces.values().map(|keyspace| &**keyspace).filter(|keyspace| !is_system_keyspace(&keyspace.name))
}

fn check_strategy(guardrails: &Guardrails, properties: &[Property]) -> Result<()> {
    let simple = properties.iter().any(|property| match &property.value {
        PropertyValue::Map(pairs) if property.name == "replication" => {
            pairs.iter().any(|(key, value)| key == "class" && value.ends_with("SimpleStrategy"))
        }
        _ => false,
    });
    match simple {
        true => ensure(guardrails.simplestrategy, "simplestrategy", "SimpleStrategy"),
        false => Ok(()),
    }
}

fn properties(guardrails: &Guardrails, properties: &[Property]) -> Result<Vec<String>> {
    let sets = &guardrails.table_properties;
    let known = sets.warned.iter().chain(&sets.ignored).chain(&sets.disallowed);
    let given: Vec<&'static str> =
        known.filter(|name| properties.iter().any(|property| property.name == **name)).copied().collect();
    sets.check("table_properties", "Table Properties", &given, |name| name.to_string())
}

fn is_ignored(guardrails: &Guardrails, property: &Property) -> bool {
    guardrails.table_properties.ignored.contains(property.name.as_str())
}

/// The warnings about the object that a statement creates or changes.
pub(super) fn after(
    guardrails: &Guardrails,
    definition: &Definition,
    applied: &Applied,
    schema: &Schema,
    site: &DefinitionContext<'_>,
) -> Result<Vec<String>> {
    let Some((change, after)) = applied.change.as_ref().and_then(|change| Some((change, change.after.as_ref()?)))
    else {
        return Ok(Vec::new());
    };
    let before = schema.keyspace(&change.keyspace);
    match definition {
        Definition::CreateKeyspace(_) | Definition::AlterKeyspace(_) => {
            replication(guardrails, after, site.data_center)
        }
        Definition::CreateTable(_) | Definition::AlterTable(_) => {
            let Some(table) = after.tables.get(&change.name) else { return Ok(Vec::new()) };
            let old = before.and_then(|before| before.tables.get(&change.name));
            let given: &[Property] = match definition {
                Definition::CreateTable(create) => &create.properties,
                Definition::AlterTable(alter) => match &alter.change {
                    TableChange::Options(options) => options,
                    _ => &[],
                },
                _ => &[],
            };
            table_made(guardrails, table, old.map(|old| &**old), given)
        }
        Definition::CreateType(_) | Definition::AlterType(_) => {
            let Some(definition) = after.types.get(&change.name) else { return Ok(Vec::new()) };
            let old = before.and_then(|before| before.types.get(&change.name));
            let (name, count) = (&definition.name, definition.fields.len() as u64);
            for (field, cql_type) in &definition.fields {
                let is_new = old.is_none_or(|old| old.field_index(field).is_none());
                if is_new && matches!(cql_type, CqlType::Vector { .. }) {
                    ensure(guardrails.vector_type, "vector_type_enabled", &format!("Field {field}"))?;
                }
            }
            let told = guardrails.fields_per_udt.check(
                "fields_per_udt",
                count,
                |limit| {
                    format!("The user type {name} has {count} columns, this exceeds the warning threshold of {limit}.")
                },
                |limit| {
                    format!(
                        "User types cannot have more than {limit} columns, but {count} provided for user type {name}."
                    )
                },
            )?;
            Ok(told.into_iter().collect())
        }
        Definition::CreateIndex(_) => {
            let Some(table) = after.tables.get(&change.name) else { return Ok(Vec::new()) };
            let old = before.and_then(|before| before.tables.get(&change.name));
            let is_new = |name: &str| old.is_none_or(|old| old.indexes.iter().all(|index| index.name != name));
            let Some(index) = table.indexes.iter().find(|index| is_new(&index.name)) else { return Ok(Vec::new()) };
            let told = guardrails.check_index(&index.name, &table.name, table.indexes.len() as u64)?;
            Ok(told.into_iter().collect())
        }
        Definition::DropKeyspace(_) | Definition::DropTable(_) | Definition::DropType(_) | Definition::DropIndex(_) => {
            Ok(Vec::new())
        }
    }
}

fn replication(guardrails: &Guardrails, keyspace: &Keyspace, data_center: &str) -> Result<Vec<String>> {
    let options = &keyspace.replication.options;
    let factor = options.get(data_center).or(options.get("replication_factor"));
    let Some(factor) = factor.and_then(|text| text.split('/').next()?.trim().parse::<u64>().ok()) else {
        return Ok(Vec::new());
    };
    let name = &keyspace.name;
    let shown = |side: &str, kind: &str, limit: u64| {
        format!("The keyspace {name} has a replication factor of {factor}, {side} the {kind} threshold of {limit}.")
    };
    let mut told: Vec<String> = Vec::new();
    let Threshold { warn, fail } = guardrails.minimum_replication_factor;
    if let Some(limit) = fail.filter(|limit| factor < *limit) {
        return Err(violated("minimum_replication_factor", shown("below", "failure", limit)));
    }
    if let Some(limit) = warn.filter(|limit| factor < *limit) {
        told.push(text("minimum_replication_factor", shown("below", "warning", limit)));
    }
    told.extend(guardrails.maximum_replication_factor.check(
        "maximum_replication_factor",
        factor,
        |limit| shown("above", "warning", limit),
        |limit| shown("above", "failure", limit),
    )?);
    Ok(told)
}

fn table_made(guardrails: &Guardrails, table: &Table, old: Option<&Table>, given: &[Property]) -> Result<Vec<String>> {
    let mut told = Vec::new();
    let (name, count) = (&table.name, table.visible_columns().count() as u64);
    let is_new = |column: &str| old.is_none_or(|old| old.column(column).is_none());
    if table.columns.iter().any(|column| is_new(&column.name)) {
        told.extend(guardrails.columns_per_table.check(
            "columns_per_table",
            count,
            |limit| format!("The table {name} has {count} columns, this exceeds the warning threshold of {limit}."),
            |limit| format!("Tables cannot have more than {limit} columns, but {count} provided for table {name}"),
        )?);
    }
    let is_given = |name: &str| given.iter().any(|property| property.name == name);
    let options = &table.options;
    if is_given("compression") && options.compression.get("enabled").is_some_and(|enabled| enabled == "false") {
        ensure(guardrails.uncompressed_tables, "uncompressed_tables_enabled", "Uncompressed table")?;
    }
    for column in table.columns.iter().filter(|column| is_new(&column.name)) {
        let CqlType::Vector { dimension, .. } = &column.cql_type else { continue };
        let name = &column.name;
        ensure(guardrails.vector_type, "vector_type_enabled", &format!("Column {name}"))?;
        let what = format!("Column {name} has a vector of {dimension} dimensions");
        told.extend(guardrails.vector_dimensions.check_size("vector_dimensions", u64::from(*dimension), what)?);
    }
    let windows = options.compaction.get("class").is_some_and(|class| class.ends_with("TimeWindowCompactionStrategy"));
    if is_given("compaction") && windows && options.default_time_to_live == 0 {
        let what = "0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy";
        if !guardrails.zero_ttl_on_twcs {
            return Err(violated("zero_ttl_on_twcs", format!("{what} is not allowed. {ZERO_TTL}")));
        }
        if guardrails.zero_ttl_on_twcs_warned {
            told.push(text("zero_ttl_on_twcs", format!("{what} is not recommended. {ZERO_TTL}")));
        }
    }
    Ok(told)
}
