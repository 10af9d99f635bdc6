//! Errors of the store as the failures that clients get.

use model::failure::{Detail, FailureReason};
use model::{ErrorCode, Failure, Schema, TableId};

/// The failure that a client gets for an error of the store; `table` is the one that the request is about.
pub(crate) fn failure(schema: &Schema, table: Option<TableId>, error: engine::Error) -> Failure {
    let name = |id: TableId| match schema.table_by_id(id) {
        Some(table) => table.full_name(),
        None => id.to_string(),
    };
    match error {
        engine::Error::MemtableFull => {
            Failure::overloaded("The memtables of this core are full; nothing was written. Reads go on.")
        }
        engine::Error::MutationTooLarge { bytes } => {
            let (keyspace, table) = match table.and_then(|id| schema.table_by_id(id)) {
                Some(table) => (table.keyspace.as_str(), table.name.as_str()),
                None => ("", ""),
            };
            oversized(bytes, keyspace, table)
        }
        engine::Error::UnknownTable(id) => Failure::invalid(format!("unconfigured table {}", name(id))),
        engine::Error::LockQueueFull => {
            Failure::overloaded("Too many requests wait for this partition; nothing was written")
        }
        engine::Error::Closing => Failure::new(ErrorCode::Overloaded, "The node is stopping"),
        // The store logs this once; a line per refused write would fill the disk.
        engine::Error::LogFull(_) => {
            Failure::overloaded("There is no room for the commit log; nothing was written. Reads go on.")
        }
        engine::Error::LogFailed(error) => {
            tracing::error!(%error, "the commit log cannot be written");
            Failure::server("The commit log could not be written").unknown()
        }
        error @ engine::Error::IndexNotBuilt { .. } => {
            read_failure(FailureReason::IndexNotAvailable, error.to_string())
        }
        error @ engine::Error::BadSstable { .. } => {
            tracing::error!(%error, "a read met an SSTable that cannot be used");
            read_failure(FailureReason::Unknown, error.to_string())
        }
        error => {
            tracing::error!(%error, "the store failed");
            Failure::server("The store failed").unknown()
        }
    }
}

/// The failure of this replica's part in a read. The coordinator, which counts the replicas, makes of it what the
/// client gets.
pub(crate) fn read_failure(reason: FailureReason, text: String) -> Failure {
    Failure::new(ErrorCode::ReadFailure, text).with(Detail::Replica { reason })
}

/// The failure of a mutation with too many bytes.
pub(crate) fn oversized(bytes: usize, keyspace: &str, table: &str) -> Failure {
    let max = model::mutation::MUTATION_BYTES_MAX;
    Failure::invalid(format!(
        "Encountered an oversized mutation ({bytes}/{max}) for keyspace: {keyspace}. Top keys are: {table}"
    ))
}
