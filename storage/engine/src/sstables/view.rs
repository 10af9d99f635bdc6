//! What a table's reads merge beside its active memtable, as one view that is swapped whole.
//!
//! A reader keeps the view it began with; memtables and SSTables that left it live until the last such reader is done.

use crate::Error;
use crate::memtable::Memtable;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::transaction::Transaction;
use model::Table;
use runtime::file::list_dir;
use runtime::{Class, HashSet};
use sstable::{Component, Descriptor};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long files wait between two looks whether somebody still reads them.
pub(crate) const RETIRE_WAIT: Duration = Duration::from_millis(100);

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

/// The components of one SSTable in a table's directory.
pub(crate) async fn components(directory: &Path, name: &Descriptor) -> Result<HashSet<Component>, Error> {
    Ok(list(directory).await?.remove(name).unwrap_or_default())
}

/// The SSTables in a table's directory with the components that each has; none if there is no directory.
pub(crate) async fn list(directory: &Path) -> Result<BTreeMap<Descriptor, HashSet<Component>>, Error> {
    let mut found: BTreeMap<Descriptor, HashSet<Component>> = BTreeMap::new();
    let paths = match list_dir(directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        listed => listed.map_err(Error::Io)?,
    };
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(Descriptor::parse);
        if let Some((descriptor, component)) = name {
            found.entry(descriptor).or_default().extend(component);
        }
    }
    // One without data was never whole.
    found.retain(|_, components| components.contains(&Component::Data));
    Ok(found)
}

/// Removes the files of SSTables that a committed transaction took out of the view, once nobody reads them, and then its
/// log. What this does not come to a start finishes.
pub(crate) fn retire(gone: Vec<Rc<OpenSstable>>, transaction: Transaction) {
    runtime::spawn_in(Class::Background, async move {
        while gone.iter().any(|sstable| sstable.is_read()) {
            runtime::sleep(RETIRE_WAIT).await;
        }
        let directory = gone.first().map(|sstable| sstable.directory.clone());
        let names: HashSet<Descriptor> = gone.iter().map(|sstable| sstable.reader.descriptor().clone()).collect();
        drop(gone);
        let removed = async {
            if let Some(directory) = directory {
                crate::sstables::transaction::delete(&directory, |name| names.contains(name))
                    .await
                    .map_err(Error::Io)?;
            }
            transaction.finish().await
        };
        if let Err(error) = removed.await {
            tracing::warn!(%error, "files of replaced SSTables stay until the next start");
        }
    });
}
