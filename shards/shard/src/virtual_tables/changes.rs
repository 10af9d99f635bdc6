//! Changes of virtual tables: none takes any but for the deletion of what caches know of a role, and emptying those and
//! the log.
//!
//! Those caches and the log table are empty here, so that what is taken changes nothing.

use model::{Failure, Table};

/// Tables whose rows can be deleted one by one.
const CACHES: [&str; 5] = [
    "credentials_cache_keys",
    "jmx_permissions_cache_keys",
    "network_permissions_cache_keys",
    "permissions_cache_keys",
    "roles_cache_keys",
];
/// A table that can only be emptied.
const LOG: &str = "system_logs";

/// The kind of change that a statement asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VirtualChange {
    PartitionDeletion,
    RangeDeletion,
    RowDeletion,
    ColumnDeletion,
    ColumnUpdate,
}

/// Changes a virtual table, whose statement's keys and values are valid.
///
/// # Errors
/// Cassandra's texts.
pub(crate) fn change(table: &Table, change: VirtualChange) -> Result<(), Failure> {
    let is_cache = CACHES.contains(&table.name.as_str());
    if !is_cache && table.name != LOG {
        return refused("Modification", table);
    }
    match change {
        VirtualChange::PartitionDeletion if is_cache => Ok(()),
        VirtualChange::PartitionDeletion => refused("Partition deletion", table),
        VirtualChange::RangeDeletion => refused("Range deletion", table),
        VirtualChange::RowDeletion => refused("Row deletion", table),
        VirtualChange::ColumnDeletion => refused("Column deletion", table),
        VirtualChange::ColumnUpdate => refused("Column modification", table),
    }
}

/// Empties a virtual table.
///
/// # Errors
/// Cassandra's text.
pub(crate) fn truncate(table: &Table) -> Result<(), Failure> {
    match CACHES.contains(&table.name.as_str()) || table.name == LOG {
        true => Ok(()),
        false => refused("Truncation", table),
    }
}

fn refused(what: &str, table: &Table) -> Result<(), Failure> {
    Err(Failure::invalid(format!("{what} is not supported by table {}", table.full_name())))
}
