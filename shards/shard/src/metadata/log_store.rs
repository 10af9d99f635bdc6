//! The log of the metadata in tables of `system`, as the group wants it: [`consensus::LogStore`].
//!
//! Everything but the mark of decided records is durable before a call returns, whatever the mode of the commit log.
//! Timestamps ascend from call to call, and from start to start, so that a record which takes the place of one that was
//! removed is not hidden by the removal.

use super::rows::{LOG, SNAPSHOTS, Slot, read_records, read_slot, records_added, records_removed, slot_written};
use crate::shard_state::Shard;
use consensus::{LogStore, Record, StoreError, Stored};
use model::{Mutation, Schema};
use std::cell::Cell;
use std::rc::Rc;

/// How many bytes of a snapshot a row has: far below the longest mutation of the smallest commit log segments.
const SNAPSHOT_PART_BYTES: usize = 256 << 10;
/// How many bytes of records a mutation has, if it has several records.
const RECORDS_BYTES_MAX: usize = SNAPSHOT_PART_BYTES;

/// The durable storage of this node's part in the group.
pub(super) struct TableLog {
    shard: Shard,
    /// The timestamp of the last change, microseconds.
    timestamp: Rc<Cell<i64>>,
}

impl TableLog {
    pub(super) fn new(shard: Shard) -> TableLog {
        TableLog { shard, timestamp: Rc::default() }
    }

    fn next_timestamp(&self) -> i64 {
        // The clock of the shard never goes back, not even from one start to the next.
        let next = self.shard.clock().timestamp().max(self.timestamp.get() + 1);
        self.timestamp.set(next);
        next
    }

    async fn write(&self, mutation: Mutation) -> Result<(), StoreError> {
        self.shard.store().apply(mutation, true).await.map_err(failed)?;
        self.shard.store().sync().await.map_err(failed)
    }

    async fn write_slot(&self, slot: Slot, value: Vec<u8>) -> Result<(), StoreError> {
        self.write(slot_written(&self.schema(), slot, value, self.next_timestamp())).await
    }

    fn removal(&self, partition: &[u8], first: u64, last: u64) -> Mutation {
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let timestamp = self.next_timestamp();
        records_removed(&self.schema(), partition, (first, last), timestamp, now_in_seconds)
    }

    /// The partition that holds the last snapshot.
    async fn snapshot_partition(&self) -> Result<Option<&'static [u8]>, StoreError> {
        let named = read_slot(self.shard.store(), &self.schema(), Slot::Snapshot).await.map_err(failed)?;
        let Some(named) = named else { return Ok(None) };
        let partition = SNAPSHOTS.into_iter().find(|partition| *partition == named);
        partition.map(Some).ok_or_else(|| StoreError("the place of the metadata's snapshot cannot be read".into()))
    }

    fn schema(&self) -> std::sync::Arc<Schema> {
        self.shard.schema()
    }
}

impl LogStore for TableLog {
    async fn load(&self) -> Result<Stored, StoreError> {
        let (store, schema) = (self.shard.store(), self.schema());
        let slot = |slot| read_slot(store, &schema, slot);
        let records = read_records(store, &schema, LOG).await.map_err(failed)?;
        let snapshot = match self.snapshot_partition().await? {
            Some(partition) => {
                let parts = read_records(store, &schema, partition).await.map_err(failed)?;
                Some(parts.into_iter().flat_map(|(_, part)| part).collect())
            }
            None => None,
        };
        Ok(Stored {
            vote: slot(Slot::Vote).await.map_err(failed)?,
            committed: slot(Slot::Committed).await.map_err(failed)?,
            purged: slot(Slot::Purged).await.map_err(failed)?,
            snapshot,
            records: records.into_iter().map(|(index, bytes)| Record { index, bytes }).collect(),
        })
    }

    async fn save_vote(&self, vote: Vec<u8>) -> Result<(), StoreError> {
        self.write_slot(Slot::Vote, vote).await
    }

    async fn save_committed(&self, mark: Vec<u8>) -> Result<(), StoreError> {
        let mark = slot_written(&self.schema(), Slot::Committed, mark, self.next_timestamp());
        self.shard.store().apply(mark, true).await.map_err(failed)
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        let mut rest = &records[..];
        // A crash leaves the first of them: a log without the end that was being written.
        while !rest.is_empty() {
            let (first, others) = rest.split_at(first_part(rest));
            let added = first.iter().map(|record| (record.index, &record.bytes[..]));
            let added = records_added(&self.schema(), LOG, added, self.next_timestamp());
            self.shard.store().apply(added, true).await.map_err(failed)?;
            rest = others;
        }
        self.shard.store().sync().await.map_err(failed)
    }

    async fn truncate(&self, from: u64) -> Result<(), StoreError> {
        self.write(self.removal(LOG, from, u64::MAX)).await
    }

    async fn purge(&self, up_to: u64, mark: Vec<u8>) -> Result<(), StoreError> {
        // The mark first: records before it are of no account at a start.
        self.write_slot(Slot::Purged, mark).await?;
        self.write(self.removal(LOG, 0, up_to)).await
    }

    async fn save_snapshot(&self, snapshot: Vec<u8>) -> Result<(), StoreError> {
        let used = self.snapshot_partition().await?;
        let free = SNAPSHOTS.into_iter().find(|partition| Some(*partition) != used).unwrap_or(SNAPSHOTS[0]);
        let store = self.shard.store();
        // What a crash left of an earlier attempt.
        store.apply(self.removal(free, 0, u64::MAX), true).await.map_err(failed)?;
        for (number, part) in snapshot.chunks(SNAPSHOT_PART_BYTES).enumerate() {
            let row = std::iter::once((number as u64, part));
            let added = records_added(&self.schema(), free, row, self.next_timestamp());
            store.apply(added, true).await.map_err(failed)?;
        }
        store.sync().await.map_err(failed)?;
        self.write_slot(Slot::Snapshot, free.to_vec()).await?;
        match used {
            Some(used) => store.apply(self.removal(used, 0, u64::MAX), true).await.map_err(failed),
            None => Ok(()),
        }
    }
}

/// How many of these records go into one mutation: at least one.
fn first_part(records: &[Record]) -> usize {
    let mut bytes = 0;
    let fit = records.iter().take_while(|record| {
        bytes += record.bytes.len();
        bytes <= RECORDS_BYTES_MAX
    });
    fit.count().max(1)
}

fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError(error.to_string())
}

#[cfg(test)]
mod tests;
