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
use crate::sstables::directory::{Listed, entries, listed_all, name_of, read_sidecar, sstables_among, together};
use crate::sstables::log_coverage::LogCoverage;
use crate::sstables::obsolete_sstables::ObsoleteSstables;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::{purged_intervals, transaction, truncation_lists};
use crate::tables::Tables;
use model::{Home, Table, TableId};
use runtime::HashSet;
use runtime::sync::join_all;
use sstable::{Component, Descriptor};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Finishes or undoes interrupted transactions in the directories of all tables, including dropped ones. Runs on
/// shard 0 before any shard loads.
pub(crate) async fn clean(data: &DataDirectories) -> Result<(), Error> {
    // Tables and indexes by their place in a data directory, `KEYSPACE/TABLE` or `KEYSPACE/TABLE/.INDEX`: the
    // directories of that place, with what is in them.
    let mut places: BTreeMap<PathBuf, Vec<Listed>> = BTreeMap::new();
    for root in data.all().iter().map(|data| data.join("data")) {
        let mut found = |listed: Listed| {
            if let Ok(place) = listed.directory.strip_prefix(&root) {
                places.entry(place.to_owned()).or_default().push(listed);
            }
        };
        for keyspace in entries(&root).await? {
            for table in listed_all(entries(&keyspace).await?).await? {
                let indexes = table.paths.iter().filter(|path| name_of(path).starts_with('.'));
                listed_all(indexes.cloned().collect()).await?.into_iter().for_each(&mut found);
                found(table);
            }
        }
    }
    for directories in places.values() {
        transaction::clean_listed(directories).await?;
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

/// What is found of one table.
#[derive(Default)]
struct Found {
    opened: Vec<Rc<OpenSstable>>,
    /// The log records that the SSTables hold.
    covered: Vec<LogCoverage>,
    /// SSTables of an index that no shard can use, with their directories.
    unusable: Vec<(PathBuf, Descriptor)>,
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
        for some in fresh.chunks(together()) {
            let loads = some.iter().map(|(table, home, index_of)| {
                // A truncation of the base covers its indexes too.
                let truncated = index_of.unwrap_or(table.id);
                let truncation = truncations.iter().find(|(id, _)| *id == truncated).map(|(_, truncation)| truncation);
                self.load_table(table, *home, truncation, index_of.is_some())
            });
            for ((table, ..), found) in some.iter().zip(join_all(loads.collect()).await) {
                let found = found?;
                loaded.unusable.extend(found.unusable);
                if let Some(state) = self.tables.borrow_mut().get_mut(&table.id) {
                    state.loaded = true;
                    state.view = Rc::new(state.view.replaced(&[], &found.opened));
                    state.covered = found.covered;
                }
            }
        }
        loaded.bases = fresh.iter().filter(|(.., index_of)| index_of.is_none()).map(|(table, ..)| table.id).collect();
        Ok(loaded)
    }

    /// Opens the SSTables of one table in all data directories.
    async fn load_table(
        &self,
        table: &Arc<Table>,
        home: Home,
        truncation: Option<&Truncation>,
        is_index: bool,
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut names = HashSet::default();
        for directory in self.files.directories_of(table) {
            let listed = Listed { paths: entries(&directory).await?, directory };
            let sstables = sstables_among(&listed.paths);
            // Transactions and splits name SSTables without their directory.
            if let Some(name) = sstables.keys().find(|name| names.contains(*name)) {
                let path = listed.directory.join(name.file_name(Component::Data));
                let what = "an SSTable of the table in another data directory has the same name";
                return Err(Error::Corrupt { path, offset: 0, what });
            }
            names.extend(sstables.keys().cloned());
            self.load_directory(table, home, truncation, is_index, (&listed, sstables), &mut found).await?;
        }
        Ok(found)
    }

    /// The part of [`Loader::load_table`] in one directory, in which SSTables with these components were found.
    async fn load_directory(
        &self,
        table: &Arc<Table>,
        home: Home,
        truncation: Option<&Truncation>,
        is_index: bool,
        (listed, sstables): (&Listed, BTreeMap<Descriptor, HashSet<Component>>),
        found: &mut Found,
    ) -> Result<(), Error> {
        let (shard, map) = (self.files.shard, self.files.shard_map);
        let needed = |(_, upper): &(LogPosition, LogPosition)| self.log.old.borrow().is_anything_before(*upper);
        found.covered.extend(purged_intervals::load(&listed.paths, shard == 0, needed).await?);
        let taken = truncation_lists::load(listed, truncation, shard == 0).await?;
        let directory = &*listed.directory;
        for (descriptor, components) in sstables {
            let sidecar = match components.contains(&Component::Helenus) {
                true => Some(read_sidecar(directory, &descriptor).await?),
                false => None,
            };
            let owner = sidecar.filter(|sidecar| sidecar.map == map).map(|sidecar| sidecar.shard);
            let owner = if home == Home::Shard0 { Some(0) } else { owner };
            if owner.is_some_and(|owner| owner != shard) {
                continue;
            }
            if is_index && owner.is_none() {
                // It has no owner under this shard map. It is left out, and the index is built again.
                found.unusable.push((directory.to_owned(), descriptor));
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
            found.covered.extend(coverage);
            found.opened.push(Rc::new(sstable));
        }
        Ok(())
    }
}
