//! Reads, writes and partition locks.
//!
//! A write: append to the log; take a pass on the table's active memtable; await durability (`group`, `batch`); apply
//! in one poll without an await; return. In `periodic` mode it is applied at once. So an acknowledged write is durable
//! in the default mode, and nothing is read before it is. Writes of a keyspace without `durable_writes` are only
//! applied: a crash before the next flush loses them.

use super::Store;
use crate::commitlog::Log;
use crate::error::Error;
use crate::index::IndexLookup;
use crate::indexing::lookup;
use crate::memtable::partitions::PrefetchStage;
use crate::partition_locks::PartitionLockGuard;
use crate::write::{Undecided, Write, targets};
use model::fragment::FragmentSink;
use model::query::{ReadCommand, ReadEnd, RowSink};
use model::{DecoratedKey, Mutation, TableId, Token};

impl Store {
    /// Writes a mutation of this shard: visible when it returns, and durable (by mode) unless the keyspace has no
    /// `durable_writes`. `system` writes may exceed the memtable budget. An error other than [`Error::LogFailed`] is
    /// definite. If the future is dropped the write may still happen, whole.
    pub async fn apply(&self, mutation: Mutation, system: bool) -> Result<(), Error> {
        self.parts.faults.noted(self.write(mutation, system, false).await)
    }

    /// [`Store::apply`] that returns only when the write is durable, in `periodic` mode and in a keyspace without
    /// `durable_writes` too. In that mode a write that
    /// the log has no room for is kept and may be written later, so that the error is [`Error::LogFailed`]: unknown.
    pub async fn apply_durably(&self, mutation: Mutation, system: bool) -> Result<(), Error> {
        self.parts.faults.noted(self.write(mutation, system, true).await)
    }

    async fn write(&self, mutation: Mutation, system: bool, durably: bool) -> Result<(), Error> {
        let parts = &self.parts;
        let pass = parts.gate.enter().ok_or(Error::Closing)?;
        let log = parts.log.started();
        let bytes = mutation.bytes().len();
        let reserved = match parts.memory.reserve(bytes) {
            _ if system => None,
            Some(reserved) => Some(reserved),
            None => Some(parts.memory.wait_for_room(bytes).await?),
        };
        let permit = log.admit(bytes).await?;
        // From here to the append nothing is awaited: a truncation sees the write as before it or as after it.
        let Some(targets) = targets(&parts.tables, &mutation)? else { return Ok(()) };
        if !durably && !targets.are_logged() {
            Write { mutation, targets, _reserved: reserved, _pass: pass }.apply();
            return Ok(());
        }
        if log.acknowledges_early() {
            targets
                .as_slice()
                .iter()
                .for_each(|target| target.memtable.prefetch(mutation.token(), PrefetchStage::Partition));
        }
        let tables = targets.as_slice().iter().map(|target| target.table);
        let group = log.append(mutation.bytes(), tables, permit)?;
        let write = Write { mutation, targets, _reserved: reserved, _pass: pass };
        if log.acknowledges_early() {
            write.apply();
            if durably {
                log.hurry(group).await.map_err(unknown)?;
            }
            return Ok(());
        }
        let undecided = Undecided::new(write, group.clone());
        let outcome = group.ended().await;
        let write = undecided.decided();
        Log::result(outcome)?;
        if let Some(write) = write {
            write.apply();
        }
        Ok(())
    }

    /// Gives the live rows that `command` asks for to `sink`, in order. Waits for blocks from disk and yields in long
    /// scans. A partition is seen as it was when the read reached it, or in any later state, but never with half of a
    /// mutation.
    pub async fn read(&self, command: &ReadCommand, sink: &mut dyn RowSink) -> Result<ReadEnd, Error> {
        let (memtable, view) = self.parts.tables.readable(command.table)?;
        self.parts.faults.noted(self.parts.reader.read(&memtable, &view, command, sink, ()).await)
    }

    /// [`Store::read`] without waiting: `None`, having given the sink nothing, if the read would have to wait or yield.
    /// This is the fast path of single-partition reads whose data is in memory.
    pub fn read_now(&self, command: &ReadCommand, sink: &mut dyn RowSink) -> Option<Result<ReadEnd, Error>> {
        match self.parts.tables.readable(command.table) {
            Ok((memtable, view)) => self.parts.reader.read_now(&memtable, &view, command, sink, ()),
            Err(error) => Some(Err(error)),
        }
    }

    /// [`Store::read`] that also gives the fragments that it visits to `fragments`: for a digest of what it saw, or for
    /// merging it with what other replicas have. The read also ends once `fragments` is full.
    pub async fn read_fragments(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        fragments: &mut dyn FragmentSink,
    ) -> Result<ReadEnd, Error> {
        let (memtable, view) = self.parts.tables.readable(command.table)?;
        self.parts.faults.noted(self.parts.reader.read(&memtable, &view, command, sink, fragments).await)
    }

    /// [`Store::read_fragments`] without waiting, as [`Store::read_now`].
    pub fn read_fragments_now(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        fragments: &mut dyn FragmentSink,
    ) -> Option<Result<ReadEnd, Error>> {
        match self.parts.tables.readable(command.table) {
            Ok((memtable, view)) => self.parts.reader.read_now(&memtable, &view, command, sink, fragments),
            Err(error) => Some(Err(error)),
        }
    }

    /// Reads the rows of `command` that an index has under a value, and perhaps others: the sink's filter must ask for
    /// the value. Ends as [`Store::read`] does.
    ///
    /// # Errors
    /// [`Error::IndexNotBuilt`]: rows may have no entry yet.
    pub async fn read_index(
        &self,
        command: &ReadCommand,
        lookup: &IndexLookup,
        sink: &mut dyn RowSink,
    ) -> Result<ReadEnd, Error> {
        let read = lookup::read(&self.parts.tables, &self.parts.reader, command, lookup, sink);
        self.parts.faults.noted(read.await)
    }

    /// Prefetches what a read or write of a partition will look at, while the caller does something else.
    pub fn prefetch(&self, table: TableId, token: Token, step: PrefetchStage) {
        if let Some(state) = self.parts.tables.borrow().get(&table) {
            state.memtable.prefetch(token, step);
        }
    }

    /// Waits, first come first served, for the lock of a partition. A change that depends on what it has read holds the
    /// lock from the read until the change is visible; writes that do not read take no lock. [`Error::LockQueueFull`]
    /// once [`crate::partition_locks::WAITERS_MAX`] callers wait.
    pub async fn lock(&self, table: TableId, key: &DecoratedKey) -> Result<PartitionLockGuard, Error> {
        self.parts.locks.lock(table, key.token).await
    }

    /// The locks of several partitions, in an order in which no two callers wait for each other. A caller that holds a
    /// lock must not ask for more.
    pub async fn lock_all<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Result<Vec<PartitionLockGuard>, Error> {
        self.parts.locks.lock_all(partitions).await
    }
}

/// The error of a write that was applied but is not durable: the log may write it later.
fn unknown(error: Error) -> Error {
    match error {
        Error::LogFull(error) => Error::LogFailed(error),
        error => error,
    }
}
