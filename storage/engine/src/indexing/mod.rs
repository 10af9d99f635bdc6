//! Building, reading and removing secondary indexes. [`crate::index`] explains what an index and its entries are.

mod build;
pub(crate) mod lookup;

use crate::flush::Flusher;
use crate::memory::MemoryBudget;
use crate::read::Reader;
use crate::recovery::load::UnusableSstable;
use crate::sstables::obsolete_sstables::ObsoleteSstables;
use crate::sstables::sstable_files::SstableFiles;
use crate::tables::Tables;
use model::TableId;
use runtime::gate::Gate;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Pause between two checks whether an index is still being built.
const BUILDING_WAIT: Duration = Duration::from_millis(1);

/// The indexes of a shard's tables.
pub(crate) struct Indexes {
    tables: Rc<Tables>,
    files: Rc<SstableFiles>,
    reader: Rc<Reader>,
    memory: Rc<MemoryBudget>,
    flusher: Rc<Flusher>,
    obsolete: Rc<ObsoleteSstables>,
    gate: Gate,
    /// The indexes that are being built.
    building: RefCell<BTreeSet<TableId>>,
    /// SSTables of indexes that cannot be used, until they are removed at the start.
    unusable: RefCell<Vec<UnusableSstable>>,
}

/// What work on indexes needs from the store.
pub(crate) struct IndexesParts {
    pub(crate) tables: Rc<Tables>,
    pub(crate) files: Rc<SstableFiles>,
    pub(crate) reader: Rc<Reader>,
    pub(crate) memory: Rc<MemoryBudget>,
    pub(crate) flusher: Rc<Flusher>,
    pub(crate) obsolete: Rc<ObsoleteSstables>,
    pub(crate) gate: Gate,
}

impl Indexes {
    pub(crate) fn new(parts: IndexesParts) -> Indexes {
        let IndexesParts { tables, files, reader, memory, flusher, obsolete, gate } = parts;
        let (building, unusable) = (RefCell::default(), RefCell::default());
        Indexes { tables, files, reader, memory, flusher, obsolete, gate, building, unusable }
    }

    /// Adds SSTables of indexes that cannot be used.
    pub(crate) fn add_unusable(&self, unusable: Vec<UnusableSstable>) {
        self.unusable.borrow_mut().extend(unusable);
    }
}
