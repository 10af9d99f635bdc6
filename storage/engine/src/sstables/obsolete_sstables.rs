//! Obsolete SSTables: no view has them any more, and their files are removed once that is durable and nothing reads
//! them.
//!
//! SSTables of dropped and truncated tables are kept until the drop or truncation is durable, then removed in one
//! transaction. SSTables that a compaction or a split replaced are removed at once.

use super::open_sstable::OpenSstable;
use super::transaction::{self, Transaction, TransactionKind};
use super::unopened_sstable::UnopenedSstable;
use super::view::View;
use super::{sstable_id, truncation_lists};
use crate::error::Error;
use crate::index;
use model::TableId;
use runtime::{Class, HashMap};
use sstable::Descriptor;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Pause between two checks whether files are still being read.
pub(crate) const RETIRE_WAIT: Duration = Duration::from_millis(100);

/// The SSTables of tables whose drop or truncation is not durable yet.
pub(crate) struct ObsoleteSstables {
    shard: u16,
    by_table: RefCell<HashMap<TableId, Vec<Rc<OpenSstable>>>>,
    unopened: RefCell<HashMap<TableId, Vec<Rc<UnopenedSstable>>>>,
}

impl ObsoleteSstables {
    pub(crate) fn new(shard: u16) -> ObsoleteSstables {
        ObsoleteSstables { shard, by_table: RefCell::default(), unopened: RefCell::default() }
    }

    /// Keeps all SSTables of a table that is being dropped or truncated until [`ObsoleteSstables::remove`].
    pub(crate) fn keep_all(&self, table: TableId, view: &View) {
        if !view.sstables.is_empty() {
            self.by_table.borrow_mut().entry(table).or_default().extend(view.sstables.iter().cloned());
        }
        view.unopened.iter().for_each(|sstable| self.keep_unopened(table, sstable.clone()));
    }

    /// Keeps one SSTable that could not be opened until [`ObsoleteSstables::remove`].
    pub(crate) fn keep_unopened(&self, table: TableId, sstable: Rc<UnopenedSstable>) {
        self.unopened.borrow_mut().entry(table).or_default().push(sstable);
    }

    /// Keeps one SSTable until [`ObsoleteSstables::remove`].
    pub(crate) fn keep(&self, table: TableId, sstable: Rc<OpenSstable>) {
        self.by_table.borrow_mut().entry(table).or_default().push(sstable);
    }

    /// The tables and indexes that have obsolete SSTables.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        let all: BTreeSet<TableId> =
            self.by_table.borrow().keys().chain(self.unopened.borrow().keys()).copied().collect();
        all.into_iter().collect()
    }

    /// The indexes of a table that have obsolete SSTables.
    pub(crate) fn indexes_of(&self, table: TableId) -> Vec<TableId> {
        let by_table = self.by_table.borrow();
        let of_table = |sstables: &[Rc<OpenSstable>]| {
            sstables.first().is_some_and(|first| index::base_of(first.reader.table()) == Some(table))
        };
        by_table.iter().filter(|(_, sstables)| of_table(sstables)).map(|(id, _)| *id).collect()
    }

    /// The obsolete SSTables of a table.
    pub(crate) fn of(&self, table: TableId) -> Vec<Rc<OpenSstable>> {
        self.by_table.borrow().get(&table).cloned().unwrap_or_default()
    }

    /// Removes the files of a table's obsolete SSTables. The drop or truncation must be durable.
    pub(crate) async fn remove(&self, table: TableId) -> Result<(), Error> {
        let unopened = self.unopened.borrow_mut().remove(&table).unwrap_or_default();
        for sstable in unopened.iter().filter(|sstable| !sstable.foreign || self.shard == 0) {
            remove_unopened(sstable).await?;
        }
        let gone = self.by_table.borrow_mut().remove(&table).unwrap_or_default();
        // Foreign SSTables, which all shards serve, are removed by shard 0.
        let gone: Vec<_> = gone.into_iter().filter(|sstable| !sstable.foreign || self.shard == 0).collect();
        let Some(first) = gone.first() else { return Ok(()) };
        let transaction = commit_removal(&first.directory, &gone).await?;
        let of_foreign = gone.iter().filter(|sstable| sstable.foreign).map(|sstable| &sstable.directory);
        for directory in of_foreign.collect::<BTreeSet<&PathBuf>>() {
            truncation_lists::forget(directory).await?;
        }
        retire(gone, transaction);
        Ok(())
    }
}

/// Removes SSTables that no view has, in one transaction with its log in `directory`.
pub(crate) async fn remove(directory: &Path, sstables: Vec<Rc<OpenSstable>>) -> Result<(), Error> {
    let transaction = commit_removal(directory, &sstables).await?;
    retire(sstables, transaction);
    Ok(())
}

/// Removes an SSTable that could not be opened and that no view has, in one transaction.
pub(crate) async fn remove_unopened(sstable: &UnopenedSstable) -> Result<(), Error> {
    let mut transaction = Transaction::new(&sstable.directory, TransactionKind::Truncate, sstable_id::time_uuid());
    let millis = runtime::wall_micros() as u64 / 1000;
    transaction.remove(&sstable.directory, &sstable.name, millis, sstable.files);
    transaction.commit(millis).await?;
    let places = [(sstable.directory.clone(), sstable.name.clone())];
    transaction::delete_all(&places).await.map_err(Error::Io)?;
    transaction.finish().await
}

/// Durably records that SSTables will be removed.
async fn commit_removal(directory: &Path, sstables: &[Rc<OpenSstable>]) -> Result<Transaction, Error> {
    let mut transaction = Transaction::new(directory, TransactionKind::Truncate, sstable_id::time_uuid());
    let millis = runtime::wall_micros() as u64 / 1000;
    for sstable in sstables {
        transaction.remove(&sstable.directory, sstable.reader.descriptor(), millis, sstable.files);
    }
    transaction.commit(millis).await?;
    Ok(transaction)
}

/// Removes the files of SSTables that a committed transaction has replaced once nothing reads them, and then the
/// transaction's log. If the node stops before that, the next start does the rest.
pub(crate) fn retire(gone: Vec<Rc<OpenSstable>>, transaction: Transaction) {
    runtime::spawn_in(Class::Background, async move {
        while gone.iter().any(|sstable| sstable.is_read()) {
            runtime::sleep(RETIRE_WAIT).await;
        }
        let place = |sstable: &Rc<OpenSstable>| (sstable.directory.clone(), sstable.reader.descriptor().clone());
        let places: Vec<(PathBuf, Descriptor)> = gone.iter().map(place).collect();
        drop(gone);
        let removed = async {
            transaction::delete_all(&places).await.map_err(Error::Io)?;
            transaction.finish().await
        };
        if let Err(error) = removed.await {
            tracing::warn!(%error, "files of replaced SSTables stay until the next start");
        }
    });
}
