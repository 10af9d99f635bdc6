//! Two hidden tables of `system` that hold the log of the metadata, and single values.
//!
//! | table | partition | rows |
//! |---|---|---|
//! | `helenus_metadata` | a [`Slot`]'s name | one: its bytes |
//! | `helenus_metadata_log` | `log` | one per record: its index and its bytes |
//! | `helenus_metadata_log` | `snapshot 0`, `snapshot 1` | one per part of a snapshot: its number and its bytes |
//!
//! A snapshot may be longer than a mutation. It is written in parts to the partition that is not in use, and is the
//! snapshot once the slot names that partition. The slot of the metadata is part of what [`super::stored_metadata`]
//! writes.

use crate::schema::Error;
use crate::schema::cells::{RowReader, RowWriter, read_partition};
use crate::schema::rows::system_table;
use crate::schema::system_tables::{METADATA, METADATA_LOG};
use engine::Store;
use model::mutation::{Clustering, ClusteringBound, push_clustering};
use model::row::Deletion;
use model::{Mutation, MutationBuilder, Schema};

/// The partition of the log.
pub(super) const LOG: &[u8] = b"log";
/// The partitions of snapshots, of which the slot [`Slot::Snapshot`] names one.
pub(super) const SNAPSHOTS: [&[u8]; 2] = [b"snapshot 0", b"snapshot 1"];

/// A value that is replaced as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// The metadata that this node has applied.
    Metadata,
    /// For whom the member votes.
    Vote,
    /// Up to where the member knows records to be decided.
    Committed,
    /// Up to where records were removed.
    Purged,
    /// In which of [`SNAPSHOTS`] the last snapshot is.
    Snapshot,
}

impl Slot {
    pub(super) fn key(self) -> &'static [u8] {
        match self {
            Slot::Metadata => b"metadata",
            Slot::Vote => b"vote",
            Slot::Committed => b"committed",
            Slot::Purged => b"purged",
            Slot::Snapshot => b"snapshot",
        }
    }
}

/// The bytes of a slot, if it was ever written.
pub(super) async fn read_slot(store: &Store, schema: &Schema, slot: Slot) -> Result<Option<Vec<u8>>, Error> {
    let table = system_table(schema, "system", METADATA);
    let rows = read_partition(store, table, slot.key()).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(RowReader::new(table, row).bytes("value")?.map(<[u8]>::to_vec))
}

/// The change that replaces a slot.
pub(super) fn slot_written(schema: &Schema, slot: Slot, value: Vec<u8>, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, slot.key());
    slot_row(schema, value, timestamp, &mut mutation);
    mutation.finish()
}

/// Adds the row that replaces a slot to a change of the slot's partition.
pub(super) fn slot_row(schema: &Schema, value: Vec<u8>, timestamp: i64, mutation: &mut MutationBuilder) {
    let table = system_table(schema, "system", METADATA);
    RowWriter::new(table, &[], timestamp).set("value", value).finish(mutation.table(table.id));
}

/// The records of a partition in order, each with its index.
pub(super) async fn read_records(
    store: &Store,
    schema: &Schema,
    partition: &[u8],
) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let table = system_table(schema, "system", METADATA_LOG);
    let mut records = Vec::new();
    for row in read_partition(store, table, partition).await? {
        let row = RowReader::new(table, &row);
        let index = u64::try_from(row.bigint("index")?).map_err(|_| row.malformed("index"))?;
        let record = row.bytes("record")?.ok_or_else(|| row.malformed("record"))?;
        records.push((index, record.to_vec()));
    }
    Ok(records)
}

/// The change that adds records to a partition.
pub(super) fn records_added<'r>(
    schema: &Schema,
    partition: &[u8],
    records: impl Iterator<Item = (u64, &'r [u8])>,
    timestamp: i64,
) -> Mutation {
    let table = system_table(schema, "system", METADATA_LOG);
    let mut mutation = MutationBuilder::new(schema.partitioner, partition);
    mutation.table(table.id);
    for (index, record) in records {
        RowWriter::new(table, &[&clustering(index)], timestamp).set("record", record).finish(&mut mutation);
    }
    mutation.finish()
}

/// The change that removes the records from index `first` to `last` of a partition.
pub(super) fn records_removed(
    schema: &Schema,
    partition: &[u8],
    (first, last): (u64, u64),
    timestamp: i64,
    now_in_seconds: i64,
) -> Mutation {
    let table = system_table(schema, "system", METADATA_LOG);
    let mut mutation = MutationBuilder::new(schema.partitioner, partition);
    let deletion = Deletion { timestamp, local_deletion_time: now_in_seconds };
    let bounds = [first, last].map(|index| {
        let mut prefix = Vec::new();
        push_clustering(&mut prefix, &clustering(index));
        prefix
    });
    let bound = |prefix| ClusteringBound { prefix: Clustering(prefix), inclusive: true };
    mutation.table(table.id).delete_range(bound(&bounds[0]), bound(&bounds[1]), deletion);
    mutation.finish()
}

/// The serialised form of an index. It is stored as a bigint, so the highest indexes are those that never come.
fn clustering(index: u64) -> [u8; 8] {
    i64::try_from(index).unwrap_or(i64::MAX).to_be_bytes()
}
