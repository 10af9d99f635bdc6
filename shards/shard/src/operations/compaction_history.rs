//! `system.compaction_history`: what compactions of all cores have done, kept for a week on shard 0.
//!
//! Each core takes the records of its store and sends them to shard 0 as writes of the table.
//!
//! Invariants: compactions of the history itself are not recorded, as in Cassandra: each record would cause the next
//! compaction; a record that cannot be written is lost.

use crate::messages::Request;
use crate::schema::cells::{self, RowReader, RowWriter, StoredRow, frozen_text_map};
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use engine::compaction::{CompactionRecord, TaskKind};
use model::{Failure, MutationBuilder, Schema, Table};
use runtime::ShardId;
use std::collections::BTreeMap;

const KEYSPACE: &str = "system";
const TABLE: &str = "compaction_history";
/// How long a record is kept, seconds.
const TTL_SECONDS: i32 = 7 * 86_400;

/// Records this core's compactions for as long as its store is open.
pub(crate) async fn keep(shard: Shard) {
    loop {
        let records = shard.store().compacted().await;
        if records.is_empty() {
            return;
        }
        for record in
            records.iter().filter(|record| (record.keyspace.as_str(), record.table.as_str()) != (KEYSPACE, TABLE))
        {
            let mutation = mutation(&shard.schema(), record);
            let written = shard.call(ShardId(0), Request::Mutate { mutation, system: true }).await.done();
            if let Err(failure) = written {
                tracing::warn!(%failure, "a compaction is missing in {KEYSPACE}.{TABLE}");
            }
        }
    }
}

/// Cassandra's name for a kind of compaction.
pub fn name_of(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Compaction | TaskKind::Tombstones | TaskKind::Uplevel | TaskKind::Expired => "Compaction",
        TaskKind::Major => "Major compaction",
        TaskKind::Upgrade => "Upgrade sstables",
        TaskKind::Cleanup => "Cleanup",
        TaskKind::Relocate => "Relocate sstables to correct disk",
        TaskKind::AntiCompaction => "Anticompaction after repair",
    }
}

/// The kind of compaction that a row of the history names.
fn kind_named(name: Option<&String>) -> TaskKind {
    let named = |kind: &TaskKind| name.is_some_and(|name| name == name_of(*kind));
    [TaskKind::Major, TaskKind::Upgrade, TaskKind::Cleanup, TaskKind::AntiCompaction]
        .into_iter()
        .find(named)
        .unwrap_or(TaskKind::Compaction)
}

fn mutation(schema: &Schema, record: &CompactionRecord) -> model::Mutation {
    let table = system_table(schema, KEYSPACE, TABLE);
    let timestamp = runtime::wall_micros();
    let mut row = RowWriter::new(table, &[], timestamp);
    let properties = BTreeMap::from([("compaction_type".to_owned(), name_of(record.kind).to_owned())]);
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX).to_be_bytes();
    row.expire(TTL_SECONDS, timestamp.div_euclid(1_000_000))
        .set("bytes_in", count(record.bytes_in))
        .set("bytes_out", count(record.bytes_out))
        .set("columnfamily_name", record.table.as_str())
        .set("compacted_at", record.at_millis.to_be_bytes())
        .set("compaction_properties", frozen_text_map(&properties))
        .set("keyspace_name", record.keyspace.as_str());
    for (sources, partitions) in &record.merged {
        row.element("rows_merged", &sources.to_be_bytes(), &count(*partitions));
    }
    let mut mutation = MutationBuilder::new(schema.partitioner, record.id.as_bytes());
    row.finish(mutation.table(table.id));
    mutation.finish()
}

impl Shard {
    /// The compactions of the last week, latest first. To be called on shard 0.
    pub async fn compaction_history(&self) -> Result<Vec<CompactionRecord>, Failure> {
        let schema = self.schema();
        let table = system_table(&schema, KEYSPACE, TABLE);
        let failed = |error: crate::schema::Error| Failure::server(error.to_string());
        let rows = cells::read_all(self.store(), table).await.map_err(failed)?;
        let records = rows.iter().map(|row| record(table, row));
        let mut records = records.collect::<Result<Vec<CompactionRecord>, _>>().map_err(failed)?;
        records.sort_by_key(|record| (std::cmp::Reverse(record.at_millis), record.id));
        Ok(records)
    }
}

fn record(table: &Table, row: &StoredRow) -> Result<CompactionRecord, crate::schema::Error> {
    let row = RowReader::new(table, row);
    let bytes = |column| Ok::<u64, crate::schema::Error>(row.bigint(column)?.max(0) as u64);
    let merged = row.elements("rows_merged").map(|(path, value)| {
        let sources = path.try_into().map(u32::from_be_bytes).ok();
        let partitions = value.try_into().map(i64::from_be_bytes).ok();
        let merged = sources.zip(partitions).map(|(sources, partitions)| (sources, partitions.max(0) as u64));
        merged.ok_or_else(|| row.malformed("rows_merged"))
    });
    Ok(CompactionRecord {
        id: row.uuid("id")?,
        keyspace: row.text("keyspace_name")?,
        table: row.text("columnfamily_name")?,
        at_millis: row.bigint("compacted_at")?,
        bytes_in: bytes("bytes_in")?,
        bytes_out: bytes("bytes_out")?,
        merged: merged.collect::<Result<_, _>>()?,
        kind: kind_named(row.text_map("compaction_properties")?.get("compaction_type")),
    })
}
