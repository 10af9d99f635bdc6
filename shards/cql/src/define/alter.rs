//! ALTER TABLE: finds the table and applies the change.

use super::capacity_options;
use super::ineffective_options;
use super::masks;
use super::{Applied, ChangeKind, ChangeTarget, DefinitionContext, Result, changed, columns, compact, refuse_system};
use super::{table_options, tablets, write_sharding};
use crate::ast::{AlterTable, TableChange};
use model::{Failure, Keyspace, Schema, Table};
use std::sync::Arc;

pub(super) fn alter(
    alter: &AlterTable,
    keyspace: &str,
    schema: &Schema,
    site: &DefinitionContext<'_>,
) -> Result<Applied> {
    let name = &alter.table.name;
    refuse_system(keyspace, "ALTER", || format!("table {keyspace}.{name}"))?;
    if let TableChange::Options(properties) = &alter.change {
        // Cassandra checks the options before it looks for the table.
        table_options::parse(properties, None, site)?;
    }
    let found = schema.keyspace(keyspace).and_then(|keyspace| Some((keyspace, keyspace.tables.get(name)?)));
    let Some((before, table)) = found else {
        if alter.if_exists {
            return Ok(Applied::nothing());
        }
        return Err(Failure::invalid(format!("Table '{keyspace}.{name}' doesn't exist")));
    };
    let mut altered = Table::clone(table);
    let mut warnings = Vec::new();
    match &alter.change {
        TableChange::Add { if_not_exists, columns: added } => {
            columns::add(&mut altered, *if_not_exists, added, before, schema, site)?;
        }
        TableChange::Drop { if_exists, names, timestamp } => {
            columns::drop(&mut altered, *if_exists, names, *timestamp, site)?;
        }
        TableChange::Rename(names) => columns::rename(&mut altered, names)?,
        TableChange::Options(properties) => {
            // As in Cassandra, options that do not suit the defaults are refused, whatever the table's other options
            // are.
            table_options::parse(properties, None, site)?.finish()?;
            let options = table_options::parse(properties, Some(&table.options), site)?;
            let sharding = options.sharding.clone();
            if let Some(id) = &options.id {
                id.clone()?;
                return Err(Failure::config("Cannot alter table id."));
            }
            altered.options = options.finish()?;
            if let Some(written) = sharding {
                altered.options.write_sharding = Some(Arc::new(written.grown(&altered, site)?));
            }
            write_sharding::check_kept(&altered)?;
            capacity_options::check_effect(altered.options.capacity.as_deref())?;
            tablets::check_table(altered.options.tablets, before)?;
            if altered.is_counter() && altered.options.default_time_to_live > 0 {
                return Err(super::table::no_time_to_live());
            }
            warnings.extend(ineffective_options::warning(properties, &altered.options));
        }
        TableChange::Type => return Err(Failure::invalid("Altering column types is no longer supported")),
        TableChange::Mask { if_exists, column, mask } => {
            if altered.column(column).is_none() && !*if_exists {
                return Err(no_column(column, name));
            }
            masks::set(&mut altered, column, mask, before, schema.partitioner, site)?;
        }
        TableChange::Unmask { if_exists, column } => match altered.column(column).map(|column| column.id) {
            Some(id) => drop(altered.masks.remove(&id)),
            None if *if_exists => {}
            None => return Err(no_column(column, name)),
        },
        TableChange::DropCompactStorage => {
            compact::drop(&mut altered, site.drop_compact_storage)?;
        }
    }
    if altered == **table {
        return Ok(Applied { warnings, ..Applied::nothing() });
    }
    let mut after = Keyspace::clone(before);
    after.tables.insert(name.clone(), Arc::new(altered));
    Ok(Applied { warnings, ..changed(ChangeKind::Updated, ChangeTarget::Table, name, after) })
}

fn no_column(column: &str, table: &str) -> Failure {
    Failure::invalid(format!("Column with name '{column}' doesn't exist on table '{table}'"))
}
