//! Opens the SSTables that a start finds, and collects which records of the log they make redundant.
//!
//! 1. Before any shard loads, shard 0 finishes or undoes the transactions that a crash interrupted ([`clean`]).
//! 2. Each shard opens the SSTables whose `Helenus.db` names it, and every *foreign* SSTable: one that another
//!    program wrote, or a node with another shard map. All shards serve a foreign SSTable, each its own tokens, until
//!    it is split ([`crate::operations::split`]).
//! 3. Replay leaves out the records that an SSTable already holds.
//!
//! Invariants: only files that a transaction or a truncation made obsolete are removed
//! ([`crate::sstables::truncation_lists`] tells which foreign SSTables a truncation covers).

use crate::commitlog::position::{LogPosition, Truncation};
use crate::commitlog::shard_log::ShardLog;
use crate::data_directories::DataDirectories;
use crate::error::Error;
use crate::sstables::directory::{entries, list, read_sidecar};
use crate::sstables::log_coverage::LogCoverage;
use crate::sstables::obsolete_sstables::ObsoleteSstables;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::{purged_intervals, transaction, truncation_lists};
use crate::tables::Tables;
use model::{Home, Table, TableId};
use runtime::HashSet;
use sstable::{Component, Descriptor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Finishes or undoes interrupted transactions in the directories of all tables, including dropped ones. Runs on
/// shard 0 before any shard loads.
pub(crate) async fn clean(data: &DataDirectories) -> Result<(), Error> {
    // Tables and indexes by their place in a data directory: `KEYSPACE/TABLE` or `KEYSPACE/TABLE/.INDEX`.
    let mut places: BTreeSet<PathBuf> = BTreeSet::new();
    let roots: Vec<PathBuf> = data.all().iter().map(|data| data.join("data")).collect();
    for root in &roots {
        let place = |path: &Path| path.strip_prefix(root).map(Path::to_owned).ok();
        for keyspace in entries(root).await? {
            for table in entries(&keyspace).await? {
                for index in entries(&table).await? {
                    if index.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.')) {
                        places.extend(place(&index));
                    }
                }
                places.extend(place(&table));
            }
        }
    }
    for place in places {
        let directories: Vec<PathBuf> = roots.iter().map(|root| root.join(&place)).collect();
        transaction::clean(&directories).await?;
    }
    Ok(())
}

/// Opens the SSTables of a shard's tables.
pub(crate) struct Loader<'s> {
    pub(crate) tables: &'s Tables,
    pub(crate) files: &'s SstableFiles,
    pub(crate) log: &'s ShardLog,
    pub(crate) obsolete: &'s ObsoleteSstables,
}

/// What [`Loader::load`] reports.
#[derive(Default)]
pub(crate) struct Loaded {
    /// The tables that were loaded, without indexes.
    pub(crate) bases: Vec<TableId>,
    /// SSTables of indexes that no shard can use, with their directories.
    pub(crate) unusable: Vec<(PathBuf, Descriptor)>,
}

impl Loader<'_> {
    /// Opens the SSTables of tables that were not loaded before, except those that `truncations` cover.
    pub(crate) async fn load(&self, truncations: &[(TableId, Truncation)]) -> Result<Loaded, Error> {
        let fresh: Vec<(Arc<Table>, Home, Option<TableId>)> = {
            let tables = self.tables.borrow();
            let fresh = tables.values().filter(|state| !state.loaded);
            fresh.map(|state| (state.table.clone(), state.home, state.index_of)).collect()
        };
        let mut loaded = Loaded::default();
        for (table, home, index_of) in &fresh {
            // A truncation of the base covers its indexes too.
            let truncated = index_of.unwrap_or(table.id);
            let truncation = truncations.iter().find(|(id, _)| *id == truncated).map(|(_, truncation)| truncation);
            let unusable = index_of.is_some().then_some(&mut loaded.unusable);
            let (opened, covered) = self.load_table(table, *home, truncation, unusable).await?;
            if let Some(state) = self.tables.borrow_mut().get_mut(&table.id) {
                state.loaded = true;
                state.view = Rc::new(state.view.replaced(&[], &opened));
                state.covered = covered;
            }
        }
        loaded.bases = fresh.iter().filter(|(.., index_of)| index_of.is_none()).map(|(table, ..)| table.id).collect();
        Ok(loaded)
    }

    /// Opens the SSTables of one table in all data directories and returns them with the log records that they hold.
    /// For an index, SSTables that no shard can use are added to `unusable`.
    async fn load_table(
        &self,
        table: &Arc<Table>,
        home: Home,
        truncation: Option<&Truncation>,
        mut unusable: Option<&mut Vec<(PathBuf, Descriptor)>>,
    ) -> Result<(Vec<Rc<OpenSstable>>, Vec<LogCoverage>), Error> {
        let mut loaded = (Vec::new(), Vec::new());
        let mut names = HashSet::default();
        for directory in self.files.directories_of(table) {
            let found = list(&directory).await?;
            // Transactions and splits name SSTables without their directory.
            if let Some(name) = found.keys().find(|name| names.contains(*name)) {
                let path = directory.join(name.file_name(Component::Data));
                let what = "an SSTable of the table in another data directory has the same name";
                return Err(Error::Corrupt { path, offset: 0, what });
            }
            names.extend(found.keys().cloned());
            self.load_directory(table, home, truncation, &mut unusable, (&directory, found), &mut loaded).await?;
        }
        Ok(loaded)
    }

    /// The part of [`Loader::load_table`] in one directory, in which SSTables with these components were found.
    async fn load_directory(
        &self,
        table: &Arc<Table>,
        home: Home,
        truncation: Option<&Truncation>,
        unusable: &mut Option<&mut Vec<(PathBuf, Descriptor)>>,
        (directory, found): (&Path, BTreeMap<Descriptor, HashSet<Component>>),
        (opened, covered): &mut (Vec<Rc<OpenSstable>>, Vec<LogCoverage>),
    ) -> Result<(), Error> {
        let (shard, map) = (self.files.shard, self.files.shard_map);
        let needed = |(_, upper): &(LogPosition, LogPosition)| self.log.old.borrow().is_anything_before(*upper);
        covered.extend(purged_intervals::load(directory, shard == 0, needed).await?);
        let taken = truncation_lists::load(directory, truncation, shard == 0).await?;
        for (descriptor, components) in found {
            let sidecar = match components.contains(&Component::Helenus) {
                true => Some(read_sidecar(directory, &descriptor).await?),
                false => None,
            };
            let owner = sidecar.filter(|sidecar| sidecar.map == map).map(|sidecar| sidecar.shard);
            let owner = if home == Home::Shard0 { Some(0) } else { owner };
            if owner.is_some_and(|owner| owner != shard) {
                continue;
            }
            if owner.is_none()
                && let Some(unusable) = unusable
            {
                // It has no owner under this shard map. It is left out, and the index is built again.
                unusable.push((directory.to_owned(), descriptor));
                continue;
            }
            let mut sstable = self.files.open(directory, &descriptor, &components, table).await?;
            sstable.foreign = owner.is_none();
            let coverage = LogCoverage::of(&sstable);
            let truncated = coverage.as_ref().zip(truncation).is_some_and(|(coverage, cut)| coverage.is_truncated(cut));
            if truncated || (sstable.foreign && taken.contains(&descriptor)) {
                // Its files are removed later, because other shards may still be listing this directory.
                self.obsolete.keep(table.id, Rc::new(sstable));
                continue;
            }
            covered.extend(coverage);
            opened.push(Rc::new(sstable));
        }
        Ok(())
    }
}
