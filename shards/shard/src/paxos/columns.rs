//! The table `system.paxos` and its columns, which never change: looked up once per core.

use model::{ColumnId, Schema, Table};
use std::sync::Arc;

/// `system.paxos`, and the ids of its columns.
pub(crate) struct PaxosColumns {
    /// The table.
    pub(crate) table: Arc<Table>,
    pub(crate) in_progress_ballot: ColumnId,
    pub(crate) in_progress_read_ballot: ColumnId,
    pub(crate) most_recent_commit: ColumnId,
    pub(crate) most_recent_commit_at: ColumnId,
    pub(crate) most_recent_commit_version: ColumnId,
    pub(crate) proposal: ColumnId,
    pub(crate) proposal_ballot: ColumnId,
    pub(crate) proposal_version: ColumnId,
}

impl PaxosColumns {
    /// Those of a schema with the system tables.
    pub(crate) fn of(schema: &Schema) -> PaxosColumns {
        let table = schema.table("system", "paxos").unwrap_or_else(|| panic!("no table system.paxos")).clone();
        let id = |name: &str| {
            table.column(name).map_or_else(|| panic!("system.paxos has no column {name}"), |column| column.id)
        };
        PaxosColumns {
            in_progress_ballot: id("in_progress_ballot"),
            in_progress_read_ballot: id("in_progress_read_ballot"),
            most_recent_commit: id("most_recent_commit"),
            most_recent_commit_at: id("most_recent_commit_at"),
            most_recent_commit_version: id("most_recent_commit_version"),
            proposal: id("proposal"),
            proposal_ballot: id("proposal_ballot"),
            proposal_version: id("proposal_version"),
            table,
        }
    }
}
