//! A table's view: the memtables being flushed and the SSTables, which reads merge with the active memtable. It is
//! replaced as a whole.
//!
//! A reader keeps the view with which it began, so memtables and SSTables that have left the table exist until the
//! last such reader is done.

use super::open_sstable::OpenSstable;
use super::unopened_sstable::UnopenedSstable;
use crate::error::Error;
use crate::memtable::Memtable;
use model::Table;
use model::query::Partitions;
use std::rc::Rc;
use std::sync::Arc;

/// An immutable set of memtables and SSTables.
#[derive(Clone, Default)]
pub(crate) struct View {
    /// Memtables that are being flushed, newest first.
    pub(crate) flushing: Vec<Rc<Memtable>>,
    /// The SSTables, those with the largest timestamps first.
    pub(crate) sstables: Vec<Rc<OpenSstable>>,
    /// SSTables that could not be opened: what they may have cannot be read.
    pub(crate) unopened: Vec<Rc<UnopenedSstable>>,
}

impl View {
    /// Whether there is nothing besides the active memtable.
    pub(crate) fn is_empty(&self) -> bool {
        self.flushing.is_empty() && self.sstables.is_empty()
    }

    /// Refuses to read what an SSTable that could not be opened may have.
    ///
    /// # Errors
    /// [`Error::BadSstable`], the one that opening it gave.
    #[inline]
    pub(crate) fn check_opened(&self, partitions: &Partitions) -> Result<(), Error> {
        match self.unopened.iter().find(|sstable| sstable.may_have(partitions)) {
            Some(sstable) => Err(sstable.error()),
            None => Ok(()),
        }
    }

    /// A view with SSTables that could not be opened.
    pub(crate) fn with_unopened(&self, unopened: Vec<Rc<UnopenedSstable>>) -> View {
        let mut view = self.clone();
        view.unopened.extend(unopened);
        view
    }

    /// A view without an SSTable that could not be opened.
    pub(crate) fn without_unopened(&self, gone: &Rc<UnopenedSstable>) -> View {
        let mut view = self.clone();
        view.unopened.retain(|sstable| !Rc::ptr_eq(sstable, gone));
        view
    }

    /// A view with one more memtable that waits to be flushed.
    pub(crate) fn with_flushing(&self, memtable: Rc<Memtable>) -> View {
        let mut view = self.clone();
        view.flushing.insert(0, memtable);
        view
    }

    /// A view without a memtable that was flushed.
    pub(crate) fn without_flushing(&self, memtable: &Rc<Memtable>) -> View {
        let mut view = self.clone();
        view.flushing.retain(|flushing| !Rc::ptr_eq(flushing, memtable));
        view
    }

    /// A view in which all SSTables have a new schema of the table.
    ///
    /// # Errors
    /// An SSTable does not fit the schema.
    pub(crate) fn with_table(&self, table: &Arc<Table>) -> Result<View, Error> {
        let adapted = self.sstables.iter().map(|sstable| sstable.with_table(table.clone()).map(Rc::new));
        let sstables = adapted.collect::<Result<_, Error>>()?;
        Ok(View { flushing: self.flushing.clone(), sstables, unopened: self.unopened.clone() })
    }

    /// A view with the SSTables `added` instead of those in `gone`, which are identified by their numbers.
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
