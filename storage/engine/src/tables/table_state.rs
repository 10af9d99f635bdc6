//! What a shard knows of one table: its description, its memtables and SSTables, and how far the log was flushed.

use crate::commitlog::Cut;
use crate::commitlog::position::LogPosition;
use crate::error::Error;
use crate::index::IndexState;
use crate::memtable::Memtable;
use crate::sstables::log_coverage::LogCoverage;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::view::View;
use model::tombstone_gc::{GcBefore, RepairedRanges};
use model::{Home, Table, TableId};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// One table of this shard, or the hidden table of an index.
pub(crate) struct TableState {
    pub(crate) table: Arc<Table>,
    pub(crate) home: Home,
    /// Whether writes go to the log: the `durable_writes` of the keyspace.
    pub(crate) durable_writes: bool,
    /// Whether other nodes have its rows too.
    pub(crate) replicated: bool,
    pub(crate) memtable: Rc<Memtable>,
    /// What lies beside the active memtable.
    pub(crate) view: Rc<View>,
    /// The memtables of `view` that wait to be flushed, oldest first.
    pub(crate) pending: VecDeque<PendingFlush>,
    /// The position up to which this run has flushed the table's log records.
    pub(crate) flushed: Option<LogPosition>,
    /// Whether rows that replay brought are still in memory alone.
    pub(crate) holds_replayed: bool,
    /// Whether a start has looked for SSTables.
    pub(crate) loaded: bool,
    /// The records of the log that its SSTables hold already: replay leaves them out.
    pub(crate) covered: Vec<LogCoverage>,
    /// For `system.batches`: bytes in memory after removed batches were last freed.
    pub(crate) shed_bytes: Cell<usize>,
    /// For `system.batches`: whether removed batches are being freed.
    pub(crate) shedding: Cell<bool>,
    /// The table's indexes.
    pub(crate) indexes: Rc<[Rc<IndexState>]>,
    /// How often it was truncated in this run.
    pub(crate) truncations: u64,
    /// For an index's table: the table that it indexes.
    pub(crate) index_of: Option<TableId>,
    /// What is known to be repaired on all replicas.
    pub(crate) repaired: Option<Arc<RepairedRanges>>,
}

/// A memtable that takes no more writes and is not on disk.
pub(crate) struct PendingFlush {
    pub(crate) memtable: Rc<Memtable>,
    /// Where in the log it ends.
    pub(crate) cut: Cut,
}

impl TableState {
    /// Before which second deletions may be forgotten.
    pub(crate) fn gc_before(&self, now_in_seconds: i64) -> GcBefore {
        self.table.options.gc_before(self.repaired.as_ref(), now_in_seconds)
    }

    /// A table with an empty memtable.
    pub(crate) fn new(table: Arc<Table>, home: Home, memtable: Rc<Memtable>) -> TableState {
        let (shed_bytes, shedding) = (Cell::new(0), Cell::new(false));
        TableState {
            table,
            home,
            durable_writes: true,
            replicated: false,
            memtable,
            view: Rc::default(),
            pending: VecDeque::new(),
            flushed: None,
            holds_replayed: false,
            loaded: false,
            covered: Vec::new(),
            shed_bytes,
            shedding,
            indexes: Rc::from([]),
            truncations: 0,
            index_of: None,
            repaired: None,
        }
    }

    /// Adapts SSTables to the current description of the table, if they were opened for an older one.
    ///
    /// # Errors
    /// One does not suit the table.
    pub(crate) fn adapted(&self, sstables: &[Rc<OpenSstable>]) -> Result<Vec<Rc<OpenSstable>>, Error> {
        let adapt = |sstable: &Rc<OpenSstable>| match Arc::ptr_eq(sstable.reader.table(), &self.table) {
            true => Ok(sstable.clone()),
            false => sstable.with_table(self.table.clone()).map(Rc::new),
        };
        sstables.iter().map(adapt).collect()
    }
}
