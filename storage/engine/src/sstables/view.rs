//! What a table's reads merge beside its active memtable, as one view that is swapped whole.
//!
//! A reader keeps the view it began with; memtables and SSTables that left it live until the last such reader is done.

use super::open_sstable::OpenSstable;
use crate::error::Error;
use crate::memtable::Memtable;
use model::Table;
use std::rc::Rc;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct View {
    /// Memtables that are being flushed, newest first.
    pub(crate) flushing: Vec<Rc<Memtable>>,
    /// Largest maximal timestamp first.
    pub(crate) sstables: Vec<Rc<OpenSstable>>,
}

impl View {
    /// Whether the active memtable is all there is.
    pub(crate) fn is_empty(&self) -> bool {
        self.flushing.is_empty() && self.sstables.is_empty()
    }

    /// With a memtable that takes no more writes.
    pub(crate) fn with_flushing(&self, memtable: Rc<Memtable>) -> View {
        let mut view = self.clone();
        view.flushing.insert(0, memtable);
        view
    }

    /// Without a memtable that was flushed.
    pub(crate) fn without_flushing(&self, memtable: &Rc<Memtable>) -> View {
        let mut view = self.clone();
        view.flushing.retain(|flushing| !Rc::ptr_eq(flushing, memtable));
        view
    }

    /// With all SSTables as the table is now.
    ///
    /// # Errors
    /// One does not suit the table.
    pub(crate) fn with_table(&self, table: &Arc<Table>) -> Result<View, Error> {
        let adapted = self.sstables.iter().map(|sstable| sstable.with_table(table.clone()).map(Rc::new));
        Ok(View { flushing: self.flushing.clone(), sstables: adapted.collect::<Result<_, Error>>()? })
    }

    /// With some SSTables, known by their numbers, in place of others.
    pub(crate) fn replaced(&self, gone: &[Rc<OpenSstable>], added: &[Rc<OpenSstable>]) -> View {
        let mut view = self.clone();
        view.sstables.retain(|sstable| !gone.iter().any(|gone| gone.number == sstable.number));
        view.sstables.extend(added.iter().cloned());
        view.sstables.sort_by_key(|sstable| {
            (std::cmp::Reverse(sstable.reader.metadata().statistics.max_timestamp), std::cmp::Reverse(sstable.number))
        });
        view
    }
}
