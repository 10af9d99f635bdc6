//! SSTables of dropped and truncated tables: they are kept until that is durable, then removed in one transaction.

use crate::Error;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_id;
use crate::sstables::transaction::{Kind, Transaction};
use crate::sstables::view::{self, View};
use crate::store::Inner;
use model::TableId;
use std::rc::Rc;

impl Inner {
    /// Keeps the SSTables of a table that is dropped or truncated until [`Inner::remove_given_up`].
    pub(crate) fn give_up(&self, table: TableId, view: &View) {
        if !view.sstables.is_empty() {
            self.given_up.borrow_mut().entry(table).or_default().extend(view.sstables.iter().cloned());
        }
    }

    /// The indexes of a table of which [`Inner::give_up`] keeps SSTables.
    pub(crate) fn given_up_indexes_of(&self, table: TableId) -> Vec<TableId> {
        let given_up = self.given_up.borrow();
        let of_table = |sstables: &[Rc<OpenSstable>]| {
            sstables.first().is_some_and(|first| crate::index::base_of(first.reader.table()) == Some(table))
        };
        given_up.iter().filter(|(_, sstables)| of_table(sstables)).map(|(id, _)| *id).collect()
    }

    /// The SSTables of a table that [`Inner::give_up`] keeps.
    pub(crate) fn given_up_of(&self, table: TableId) -> Vec<Rc<OpenSstable>> {
        self.given_up.borrow().get(&table).cloned().unwrap_or_default()
    }

    /// The drop or truncation is durable: the files go.
    pub(crate) async fn remove_given_up(&self, table: TableId) -> Result<(), Error> {
        let gone = self.given_up.borrow_mut().remove(&table).unwrap_or_default();
        // What all shards serve, shard 0 removes.
        let gone: Vec<_> = gone.into_iter().filter(|sstable| !sstable.foreign || self.shard == 0).collect();
        let Some(first) = gone.first() else { return Ok(()) };
        let mut transaction = Transaction::new(&first.directory, Kind::Truncate, sstable_id::time_uuid());
        let millis = runtime::wall_micros() as u64 / 1000;
        gone.iter().for_each(|sstable| transaction.remove(sstable.reader.descriptor(), millis, sstable.files));
        transaction.commit(millis).await?;
        if gone.iter().any(|sstable| sstable.foreign) {
            crate::sstables::truncation_lists::forget(&first.directory).await?;
        }
        view::retire(gone, transaction);
        Ok(())
    }
}
