//! What repairs leave in `system_distributed`: `parent_repair_history`, a row of each command, and `repair_history`, a
//! row of each session and table. Previews leave nothing. A row that cannot be written is told in the log and is
//! missing.

use super::plan::RingPart;
use model::{Consistency, QueryParameters};
use shard::{Session, Shard};
use std::net::SocketAddr;
use uuid::Uuid;

/// Writes the history of one command.
pub(super) struct History<'a> {
    pub(super) shard: &'a Shard,
    pub(super) parent: Uuid,
    pub(super) keyspace: &'a str,
    /// The address of this node.
    pub(super) coordinator: SocketAddr,
}

/// A text as CQL writes it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Texts as a set.
fn set(texts: impl Iterator<Item = String>) -> String {
    let quoted: Vec<String> = texts.map(|text| quoted(&text)).collect();
    format!("{{{}}}", quoted.join(", "))
}

impl History<'_> {
    async fn write(&self, text: String) {
        let parameters = QueryParameters::new(Consistency::One);
        if let Err(failure) = self.shard.query(&Session::default(), &text, &parameters).await {
            tracing::warn!(%failure, "a row of the repair history is not written");
        }
    }

    /// A command begins.
    pub(super) async fn begin(&self, tables: &[String], ranges: &[RingPart], options: &[(&str, String)]) {
        let options: Vec<String> =
            options.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value))).collect();
        self.write(format!(
            "INSERT INTO system_distributed.parent_repair_history (parent_id, keyspace_name, columnfamily_names, \
             requested_ranges, started_at, options) VALUES ({}, {}, {}, {}, toTimestamp(now()), {{{}}})",
            self.parent,
            quoted(self.keyspace),
            set(tables.iter().cloned()),
            set(ranges.iter().map(RingPart::to_string)),
            options.join(", ")
        ))
        .await;
    }

    /// A command has ended well.
    pub(super) async fn succeed(&self, ranges: &[RingPart]) {
        self.write(format!(
            "UPDATE system_distributed.parent_repair_history SET finished_at = toTimestamp(now()), \
             successful_ranges = {} WHERE parent_id = {}",
            set(ranges.iter().map(RingPart::to_string)),
            self.parent
        ))
        .await;
    }

    /// A command has failed.
    pub(super) async fn fail(&self, error: &str) {
        self.write(format!(
            "UPDATE system_distributed.parent_repair_history SET finished_at = toTimestamp(now()), exception_message \
             = {0}, exception_stacktrace = {0} WHERE parent_id = {1}",
            quoted(error),
            self.parent
        ))
        .await;
    }

    /// A session of some tables begins.
    pub(super) async fn begin_session(&self, id: Uuid, tables: &[String], ranges: &[RingPart], others: &[SocketAddr]) {
        let Some(range) = ranges.last() else { return };
        for table in tables {
            self.write(format!(
                "INSERT INTO system_distributed.repair_history (keyspace_name, columnfamily_name, id, parent_id, \
                 range_begin, range_end, coordinator, coordinator_port, participants, participants_v2, status, \
                 started_at) VALUES ({}, {}, {id}, {}, {}, {}, '{}', {}, {}, {}, 'STARTED', toTimestamp(now()))",
                quoted(self.keyspace),
                quoted(table),
                self.parent,
                quoted(&range.after.to_string()),
                quoted(&range.until.to_string()),
                self.coordinator.ip(),
                self.coordinator.port(),
                set(others.iter().map(|other| other.ip().to_string())),
                set(others.iter().map(SocketAddr::to_string)),
            ))
            .await;
        }
    }

    /// A table of a session is done, or has failed with an error.
    pub(super) async fn end_job(&self, id: Uuid, table: &str, done: Result<(), &str>) {
        let changed = match done {
            Ok(()) => "status = 'SUCCESS'".to_owned(),
            Err(error) => {
                format!("status = 'FAILED', exception_message = {0}, exception_stacktrace = {0}", quoted(error))
            }
        };
        self.write(format!(
            "UPDATE system_distributed.repair_history SET {changed}, finished_at = toTimestamp(now()) WHERE \
             keyspace_name = {} AND columnfamily_name = {} AND id = {id}",
            quoted(self.keyspace),
            quoted(table)
        ))
        .await;
    }
}
