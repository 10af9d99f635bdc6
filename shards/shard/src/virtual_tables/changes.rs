//! Changes of virtual tables. All are refused, except deletions from Cassandra's authentication caches, and truncation
//! of those caches and of the log table.
//!
//! These tables are always empty here, so that a change that is accepted has no effect.

use model::{Failure, Table};

/// Tables from which rows can be deleted one by one.
const CACHES: [&str; 5] = [
    "credentials_cache_keys",
    "jmx_permissions_cache_keys",
    "network_permissions_cache_keys",
    "permissions_cache_keys",
    "roles_cache_keys",
];
/// A table that can only be truncated.
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

/// Applies a change to a virtual table. The statement's keys and values must have been checked.
///
/// # Errors
/// The change is not one that the table takes; texts are Cassandra's.
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

/// Truncates a virtual table.
///
/// # Errors
/// The table cannot be truncated; the text is Cassandra's.
pub(crate) fn truncate(table: &Table) -> Result<(), Failure> {
    match CACHES.contains(&table.name.as_str()) || table.name == LOG {
        true => Ok(()),
        false => refused("Truncation", table),
    }
}

fn refused(what: &str, table: &Table) -> Result<(), Failure> {
    Err(Failure::invalid(format!("{what} is not supported by table {}", table.full_name())))
}
