//! A table of this shard: description, active memtable, and what the log says of its columns.

use crate::commitlog::Cut;
use crate::commitlog::logged_table::LoggedTable;
use crate::commitlog::position::LogPosition;
use crate::error::Error;
use crate::index::IndexState;
use crate::memtable::Memtable;
use crate::sstables::log_coverage::LogCoverage;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::view::View;
use model::{Home, Table, TableId};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// See the module.
pub(crate) struct TableState {
    pub(crate) table: Arc<Table>,
    pub(crate) home: Home,
    /// The table's entry in log segments.
    pub(crate) list: Rc<LoggedTable>,
    pub(crate) memtable: Rc<Memtable>,
    /// What lies beside the active memtable.
    pub(crate) view: Rc<View>,
    /// The memtables of `view`, oldest first, with where the log was when each took its last write.
    pub(crate) pending: VecDeque<PendingFlush>,
    /// Up to where the log was flushed in this run.
    pub(crate) flushed: Option<LogPosition>,
    /// Whether what replay brought is still in memory alone.
    pub(crate) holds_replayed: bool,
    /// Whether a start has looked for SSTables.
    pub(crate) loaded: bool,
    /// The records of the log that its SSTables hold already: replay leaves them out.
    pub(crate) covered: Vec<LogCoverage>,
    /// Of a table of batches: bytes in memory after the last shedding, and whether one is under way.
    pub(crate) shed_bytes: Cell<usize>,
    /// See `shed_bytes`.
    pub(crate) shedding: Cell<bool>,
    /// Its indexes.
    pub(crate) indexes: Rc<[Rc<IndexState>]>,
    /// Of an index: the table that it is of.
    pub(crate) index_of: Option<TableId>,
}

/// A memtable that takes no more writes and is not on disk.
pub(crate) struct PendingFlush {
    pub(crate) memtable: Rc<Memtable>,
    /// Where in the log it ends.
    pub(crate) cut: Cut,
}

impl TableState {
    /// A table with an empty memtable.
    pub(crate) fn new(table: Arc<Table>, home: Home, memtable: Rc<Memtable>) -> TableState {
        let list = Rc::new(LoggedTable::new(&table));
        let (shed_bytes, shedding) = (Cell::new(0), Cell::new(false));
        TableState {
            table,
            home,
            list,
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
            index_of: None,
        }
    }

    /// SSTables that were opened for the table as it was some time ago, for the table as it is now.
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
