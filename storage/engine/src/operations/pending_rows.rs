//! Rows that an incremental repair brings to a replica that lacks them.
//!
//! 1. [`PendingRows::add`] keeps them in memory, apart from the table's memtable.
//! 2. [`PendingRows::keep`] writes them as SSTables that are set apart for the session, as does an addition that finds
//!    more than [`BYTES_MAX`]. Only then are they durable and can be read.
//! 3. [`PendingRows::forget`] drops what is in memory: the session has failed, and the replicas that the rows came from
//!    still have them.
//!
//! Invariants: a session that ends well has kept its rows before; what a restart loses makes the session fail (the
//! caller sees to it). A table that is truncated or dropped meanwhile does not get rows from before.

use crate::commitlog::shard_log::ShardLog;
use crate::compaction::Compactor;
use crate::error::Error;
use crate::faults::Faults;
use crate::flush::Flusher;
use crate::indexing::Indexes;
use crate::memtable::{MemoryCounter, Memtable};
use crate::sstables::obsolete_sstables;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::sstable_id;
use crate::sstables::transaction::{Transaction, TransactionKind};
use crate::tables::Tables;
use model::{MemtableKind, Mutation, TableId};
use runtime::gate::Semaphore;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of rows of one table and session that are kept in memory.
pub(crate) const BYTES_MAX: usize = 8 << 20;

/// The id of a session.
type Session = [u8; 16];

/// The rows of a session and table, and how many bytes they are.
type Rows = (Rc<Memtable>, MemoryCounter);

/// The rows of all sessions that are not written yet.
pub(crate) struct PendingRows {
    tables: Rc<Tables>,
    files: Rc<SstableFiles>,
    log: Rc<ShardLog>,
    flusher: Rc<Flusher>,
    indexes: Rc<Indexes>,
    compactor: Rc<Compactor>,
    faults: Rc<Faults>,
    rows: RefCell<BTreeMap<(Session, TableId), Rows>>,
    /// Held while rows are written, so that [`PendingRows::keep`] waits for those that an addition writes.
    turn: Semaphore,
}

impl PendingRows {
    pub(crate) fn new(
        tables: Rc<Tables>,
        files: Rc<SstableFiles>,
        log: Rc<ShardLog>,
        flusher: Rc<Flusher>,
        indexes: Rc<Indexes>,
        compactor: Rc<Compactor>,
        faults: Rc<Faults>,
    ) -> PendingRows {
        let (rows, turn) = (RefCell::default(), Semaphore::new(1));
        PendingRows { tables, files, log, flusher, indexes, compactor, faults, rows, turn }
    }

    /// Adds rows to those of a session.
    ///
    /// # Errors
    /// The disk's, of rows that were added before: the session must fail.
    pub(crate) async fn add(&self, session: Session, mutation: &Mutation) -> Result<(), Error> {
        let mut full = Vec::new();
        for update in mutation.updates() {
            let table = self.tables.description(update.table)?;
            let mut rows = self.rows.borrow_mut();
            let (memtable, bytes) = rows.entry((session, update.table)).or_insert_with(|| {
                let bytes = MemoryCounter::default();
                let partitioner = self.tables.shard_map.partitioner;
                (Rc::new(Memtable::new(table, partitioner, MemtableKind::default(), bytes.clone())), bytes)
            });
            memtable.apply(mutation.token(), mutation.key(), &update);
            if bytes.get() > BYTES_MAX {
                full.push(update.table);
            }
        }
        for table in full {
            self.write(session, table).await?;
        }
        Ok(())
    }

    /// Makes all rows of a session durable and readable.
    ///
    /// # Errors
    /// The disk's: the session must fail.
    pub(crate) async fn keep(&self, session: Session) -> Result<(), Error> {
        let of_session = |(owner, _): &&(Session, TableId)| *owner == session;
        let tables: Vec<TableId> = self.rows.borrow().keys().filter(of_session).map(|(_, table)| *table).collect();
        for table in tables {
            self.write(session, table).await?;
        }
        // Rows that an addition took away to write them.
        drop(self.turn.acquire(1).await);
        Ok(())
    }

    /// The sessions that have rows which are not written.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = Session> {
        self.rows.borrow().keys().map(|(session, _)| *session).collect::<Vec<_>>().into_iter()
    }

    /// Forgets the rows of a session that are not written.
    pub(crate) fn forget(&self, session: Session) {
        self.rows.borrow_mut().retain(|(owner, _), _| *owner != session);
    }

    async fn write(&self, session: Session, table: TableId) -> Result<(), Error> {
        let _turn = self.turn.acquire(1).await;
        let Some((memtable, _)) = self.rows.borrow_mut().remove(&(session, table)) else { return Ok(()) };
        let truncations = |tables: &Tables| tables.borrow().get(&table).map(|state| state.truncations);
        let Some(before) = truncations(&self.tables) else { return Ok(()) };
        let description = self.tables.description(table)?;
        let place = self.log.place_marker().await?;
        let directory = self.files.make_directory(&description, self.files.shard).await?;
        let name = self.files.new_descriptor();
        let mut transaction = Transaction::new(&directory, TransactionKind::Flush, sstable_id::time_uuid());
        let made = async {
            transaction.add(&directory, &name).await?;
            let places = vec![(place, place)];
            let written =
                self.flusher.write_rows(&memtable, &description, &directory, &name, places, Some(session)).await?;
            let Some(components) = written else { return Ok(None) };
            let opened = Rc::new(self.files.open(&directory, &name, &components, &description).await?);
            // If the SSTable does not become the table's, these are entries without rows.
            self.indexes.add_opened(table, std::slice::from_ref(&opened)).await?;
            Ok(Some(opened))
        };
        let opened: Option<Rc<OpenSstable>> = match self.faults.noted(made.await) {
            Ok(opened) => opened,
            Err(error) => {
                if let Err(left) = transaction.abort().await {
                    tracing::warn!(error = %left, "an unfinished SSTable stays until the next start");
                }
                return Err(error);
            }
        };
        let Some(opened) = opened else { return transaction.abort().await };
        transaction.commit(runtime::wall_micros() as u64 / 1000).await?;
        transaction.finish().await?;
        if truncations(&self.tables) != Some(before) {
            return obsolete_sstables::remove(&directory, vec![opened]).await;
        }
        if let Some(state) = self.tables.borrow_mut().get_mut(&table) {
            let added = state.adapted(std::slice::from_ref(&opened))?;
            state.view = Rc::new(state.view.replaced(&[], &added));
        }
        self.compactor.want(table);
        Ok(())
    }
}
