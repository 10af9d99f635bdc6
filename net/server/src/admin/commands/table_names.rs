//! Looks up the keyspaces and tables that a command names, with Cassandra's checks and errors.

use crate::admin::error::{CommandError, usage};
use crate::node_state::NodeState;
use model::{Keyspace, Schema, Table};
use std::sync::Arc;

/// All keyspaces but the virtual ones, in the order of their names.
pub(crate) fn keyspaces(schema: &Schema) -> impl Iterator<Item = &Arc<Keyspace>> {
    schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual())
}

/// The table with this name in a keyspace, if Cassandra has such a table too or a client made it.
pub(crate) fn listed_table<'s>(keyspace: &'s Keyspace, name: &str) -> Option<&'s Arc<Table>> {
    keyspace.tables.get(name).filter(|table| !shard::is_hidden(table))
}

/// All tables that clients know of, by keyspace.
pub(crate) fn listed_tables(schema: &Schema) -> impl Iterator<Item = &Arc<Table>> {
    let tables = keyspaces(schema).flat_map(|keyspace| keyspace.tables.values());
    tables.filter(|table| !shard::is_hidden(table))
}

/// The keyspace with this name, for commands whose error is `Keyspace [x] does not exist.`
pub(crate) fn keyspace<'s>(schema: &'s Schema, name: &str) -> Result<&'s Keyspace, CommandError> {
    match keyspaces(schema).find(|keyspace| keyspace.name == name) {
        Some(keyspace) => Ok(keyspace),
        None => usage(format!("Keyspace [{name}] does not exist.")),
    }
}

/// The tables that the arguments `[keyspace [tables...]]` select: those named, all of the keyspace, or all there are.
pub(crate) fn tables(node: &NodeState, arguments: &[String]) -> Result<Vec<Arc<Table>>, CommandError> {
    let schema = node.shard.schema();
    let Some((name, named)) = arguments.split_first() else {
        return Ok(keyspaces(&schema).flat_map(|keyspace| keyspace.tables.values().cloned()).collect());
    };
    let keyspace = keyspace(&schema, name)?;
    if named.is_empty() {
        return Ok(keyspace.tables.values().cloned().collect());
    }
    named.iter().map(|table| find(keyspace, table)).collect()
}

/// The table with this name in a keyspace.
pub(crate) fn find(keyspace: &Keyspace, table: &str) -> Result<Arc<Table>, CommandError> {
    let unknown = || CommandError::Failed(format!("Unknown keyspace/cf pair ({}.{table})", keyspace.name));
    keyspace.tables.get(table).cloned().ok_or_else(unknown)
}
