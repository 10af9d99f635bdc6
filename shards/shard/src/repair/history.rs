//! What repairs leave in `system_distributed`: `parent_repair_history`, a row of each command, and `repair_history`, a
//! row of each session and table. Previews leave nothing. A row that cannot be written is told in the log and is
//! missing.

use crate::coordinator::write::{Routed, write};
use crate::request::AckTerms;
use crate::schema::cells::RowWriter;
use crate::schema::local::inet;
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use model::key::push_composite;
use model::{Consistency, MutationBuilder, Table};
use std::net::SocketAddr;
use std::sync::Arc;
use uuid::Uuid;

/// The keyspace of both tables.
const KEYSPACE: &str = "system_distributed";

/// How long rows live: the default of both tables.
const TTL_SECONDS: i32 = 30 * 86_400;

/// Writes the history of one command.
pub struct RepairHistory<'a> {
    /// The core that leads the repair.
    pub shard: &'a Shard,
    /// The id of the command.
    pub parent: Uuid,
    /// The keyspace that is repaired.
    pub keyspace: &'a str,
}

/// The time, as a timestamp of CQL.
fn now() -> [u8; 8] {
    runtime::wall_micros().div_euclid(1000).to_be_bytes()
}

/// Adds texts to a set.
fn elements(row: &mut RowWriter<'_>, column: &str, texts: &[String]) {
    for text in texts {
        row.element(column, text.as_bytes(), &[]);
    }
}

impl RepairHistory<'_> {
    /// Writes a row of a table of the history.
    async fn write(&self, table: &str, key: &[u8], clustering: &[&[u8]], fill: impl FnOnce(&mut RowWriter<'_>)) {
        let table: Arc<Table> = system_table(&self.shard.schema(), KEYSPACE, table).clone();
        let mut mutation = MutationBuilder::new(self.shard.partitioner(), key);
        mutation.table(table.id);
        let mut row = RowWriter::new(&table, clustering, self.shard.clock().timestamp());
        row.expire(TTL_SECONDS, runtime::wall_micros().div_euclid(1_000_000));
        fill(&mut row);
        row.finish(&mut mutation);
        let routed = Routed { mutation: mutation.finish(), table: table.clone(), counts: false };
        let terms = AckTerms { consistency: Consistency::One, timeout: self.shard.timeouts().write };
        if let Err(failure) = write(self.shard, vec![routed], &terms).await {
            tracing::warn!(%failure, "a row of the repair history is not written");
        }
    }

    async fn command(&self, fill: impl FnOnce(&mut RowWriter<'_>)) {
        self.write("parent_repair_history", self.parent.as_bytes(), &[], fill).await;
    }

    async fn job(&self, id: Uuid, table: &str, fill: impl FnOnce(&mut RowWriter<'_>)) {
        let mut key = Vec::new();
        push_composite([self.keyspace.as_bytes(), table.as_bytes()].into_iter(), &mut key);
        self.write("repair_history", &key, &[id.as_bytes()], fill).await;
    }

    /// A command begins.
    pub async fn begin(&self, tables: &[String], ranges: &[String], options: &[(&str, String)]) {
        self.command(|row| {
            row.set("keyspace_name", self.keyspace).set("started_at", now());
            elements(row, "columnfamily_names", tables);
            elements(row, "requested_ranges", ranges);
            for (name, value) in options {
                row.element("options", name.as_bytes(), value.as_bytes());
            }
        })
        .await;
    }

    /// A command has ended well.
    pub async fn succeed(&self, ranges: &[String]) {
        self.command(|row| {
            row.set("finished_at", now());
            elements(row, "successful_ranges", ranges);
        })
        .await;
    }

    /// A command has failed.
    pub async fn fail(&self, error: &str) {
        self.command(|row| {
            row.set("finished_at", now()).set("exception_message", error).set("exception_stacktrace", error);
        })
        .await;
    }

    /// A session of some tables begins. Of its ranges, whose ends are given as texts, the last one is kept, as
    /// Cassandra does by writing all of them to the same row.
    pub async fn begin_session(&self, id: Uuid, tables: &[String], range: (&str, &str), others: &[SocketAddr]) {
        let topology = self.shard.topology();
        let coordinator = topology.node(topology.here()).address;
        for table in tables {
            self.job(id, table, |row| {
                row.set("parent_id", *self.parent.as_bytes())
                    .set("range_begin", range.0)
                    .set("range_end", range.1)
                    .set("coordinator", inet(coordinator.ip()))
                    .set("coordinator_port", i32::from(coordinator.port()).to_be_bytes())
                    .set("status", "STARTED")
                    .set("started_at", now());
                for other in others {
                    row.element("participants", &inet(other.ip()), &[]);
                    row.element("participants_v2", other.to_string().as_bytes(), &[]);
                }
            })
            .await;
        }
    }

    /// A table of a session is done, or has failed with an error.
    pub async fn end_job(&self, id: Uuid, table: &str, done: Result<(), &str>) {
        self.job(id, table, |row| {
            row.set("finished_at", now());
            match done {
                Ok(()) => row.set("status", "SUCCESS"),
                Err(error) => {
                    row.set("status", "FAILED").set("exception_message", error).set("exception_stacktrace", error)
                }
            };
        })
        .await;
    }
}
