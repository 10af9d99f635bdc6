//! What incremental repairs ask of a store: setting data apart, comparing it, adding what is lacking, and ending.

use super::Store;
use crate::error::Error;
use crate::memtable::{MemoryCounter, Memtable};
use crate::sstables::repair_set::RepairSet;
use crate::sstables::view::View;
use model::fragment::FragmentSink;
use model::query::{ReadCommand, ReadEnd, RowSink};
use model::{MemtableKind, Mutation, TableId, TokenRange};
use runtime::Class;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

impl Store {
    /// Sets the data of a table in some ranges apart that no incremental repair has compared, for the session with this
    /// id. What is written from now on is not part of it.
    ///
    /// # Errors
    /// [`Error::SetApart`]: another session has some of it. The disk's. What was set apart by then stays so until
    /// [`Store::settle_repair`].
    pub async fn set_apart(&self, table: TableId, ranges: Arc<[TokenRange]>, session: [u8; 16]) -> Result<(), Error> {
        let pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.flush(table).await?;
        let compactor = self.parts.compactor.clone();
        let work = async move {
            let _pass = pass;
            compactor.set_apart(table, ranges, session).await
        };
        runtime::spawn_in(Class::Background, work).await
    }

    /// [`Store::read_fragments`] of one set of the SSTables alone; the unrepaired one has the memtables too.
    pub async fn read_fragments_of(
        &self,
        set: RepairSet,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        fragments: &mut dyn FragmentSink,
    ) -> Result<ReadEnd, Error> {
        let parts = &self.parts;
        let (mut memtable, view) = parts.tables.readable(command.table)?;
        let of_set = view.sstables.iter().filter(|sstable| RepairSet::of(sstable) == set);
        // The set of one that could not be opened is not known.
        let unopened = view.unopened.clone();
        let mut chosen = View { flushing: Vec::new(), sstables: of_set.cloned().collect(), unopened };
        match set {
            RepairSet::Unrepaired => chosen.flushing = view.flushing.clone(),
            _ => {
                let table = parts.tables.description(command.table)?;
                let partitioner = parts.tables.shard_map.partitioner;
                let empty = Memtable::new(table, partitioner, MemtableKind::default(), MemoryCounter::default());
                memtable = Rc::new(empty);
            }
        }
        let read = parts.reader.read(&memtable, &Rc::new(chosen), command, sink, fragments).await;
        parts.faults.noted(read)
    }

    /// Adds rows that a replica lacks to those that are set apart for a session. They are durable and can be read after
    /// [`Store::keep_pending`].
    ///
    /// # Errors
    /// The disk's, of rows that were added before: the session must fail.
    pub async fn add_pending(&self, session: [u8; 16], mutation: &Mutation) -> Result<(), Error> {
        let _pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        self.parts.pending_rows.add(session, mutation).await
    }

    /// Makes what [`Store::add_pending`] has added durable and readable.
    ///
    /// # Errors
    /// The disk's: the session must fail.
    pub async fn keep_pending(&self, session: [u8; 16]) -> Result<(), Error> {
        let pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        let parts = self.parts.clone();
        let work = async move {
            let _pass = pass;
            parts.pending_rows.keep(session).await
        };
        runtime::spawn_in(Class::Background, work).await
    }

    /// Ends a session on this shard: what is set apart for it counts as repaired at `repaired_at`, milliseconds since
    /// 1970, or is unrepaired again if that is 0. May be repeated.
    ///
    /// # Errors
    /// The disk's: some of it may still be set apart.
    pub async fn settle_repair(&self, session: [u8; 16], repaired_at: i64) -> Result<(), Error> {
        let pass = self.parts.gate.enter().ok_or(Error::Closing)?;
        let parts = self.parts.clone();
        let work = async move {
            let _pass = pass;
            parts.pending_rows.forget(session);
            parts.compactor.settle(session, repaired_at).await
        };
        runtime::spawn_in(Class::Background, work).await
    }

    /// The sessions for which data of this shard is set apart, or was added.
    pub fn pending_repairs(&self) -> BTreeSet<[u8; 16]> {
        let mut sessions = self.parts.compactor.sessions();
        sessions.extend(self.parts.pending_rows.sessions());
        sessions
    }
}
