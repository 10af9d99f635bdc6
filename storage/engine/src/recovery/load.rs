//! Opens the SSTables that a start finds, and collects which records of the log they make redundant.
//!
//! 1. Before any shard loads, shard 0 finishes or undoes the transactions that a crash interrupted ([`clean`]).
//! 2. Each shard opens the SSTables whose `Helenus.db` names it, and every *foreign* SSTable: one that another
//!    program wrote, or a node with another shard map. All shards serve a foreign SSTable, each its own tokens, until
//!    it is split ([`crate::operations::split`]).
//! 3. One that cannot be opened keeps the node from starting if no other node has its rows. Else the table's view names
//!    it, so that reads of what it may have fail until its rows have come from there
//!    ([`crate::operations::damaged`]). One of an index is removed, and the index built again.
//! 4. Replay leaves out the records that an SSTable already holds.
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
use crate::sstables::unopened_sstable::UnopenedSstable;
use crate::sstables::{purged_intervals, transaction, truncation_lists};
use crate::tables::Tables;
use model::{Home, Table, TableId};
use runtime::HashSet;
use runtime::sync::join_all;
use sstable::{Component, Descriptor, Problem};
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
    /// SSTables of indexes that cannot be used.
    pub(crate) unusable: Vec<UnusableSstable>,
    /// Why SSTables could not be opened.
    pub(crate) unopened: Vec<Error>,
}

/// An SSTable of an index that is left out.
#[derive(Debug)]
pub(crate) struct UnusableSstable {
    pub(crate) directory: PathBuf,
    pub(crate) name: Descriptor,
    /// Whether this shard alone would have it; else no shard can use it.
    pub(crate) is_own: bool,
}

/// A table to load.
struct Wanted {
    table: Arc<Table>,
    home: Home,
    index_of: Option<TableId>,
    /// Whether the start may go on without an SSTable.
    can_miss: bool,
}

/// What is found of one table.
#[derive(Default)]
struct Found {
    opened: Vec<Rc<OpenSstable>>,
    /// What could not be opened, but other nodes have.
    unopened: Vec<Rc<UnopenedSstable>>,
    /// The log records that the SSTables hold.
    covered: Vec<LogCoverage>,
    /// SSTables of an index that cannot be used.
    unusable: Vec<UnusableSstable>,
    /// Why SSTables could not be opened.
    errors: Vec<Error>,
}

impl Loader<'_> {
    /// Opens the SSTables of tables that were not loaded before, except those that `truncations` cover.
    pub(crate) async fn load(&self, truncations: &[(TableId, Truncation)]) -> Result<Loaded, Error> {
        let without = self.files.opens_without_damaged();
        let fresh: Vec<Wanted> = {
            let tables = self.tables.borrow();
            let fresh = tables.values().filter(|state| !state.loaded);
            let wanted = fresh.map(|state| Wanted {
                table: state.table.clone(),
                home: state.home,
                index_of: state.index_of,
                can_miss: without && (state.replicated || state.index_of.is_some()),
            });
            wanted.collect()
        };
        let mut loaded = Loaded::default();
        for some in fresh.chunks(together()) {
            let loads = some.iter().map(|wanted| {
                // A truncation of the base covers its indexes too.
                let truncated = wanted.index_of.unwrap_or(wanted.table.id);
                let truncation = truncations.iter().find(|(id, _)| *id == truncated).map(|(_, truncation)| truncation);
                self.load_table(wanted, truncation)
            });
            for (Wanted { table, .. }, found) in some.iter().zip(join_all(loads.collect()).await) {
                let found = found?;
                loaded.unusable.extend(found.unusable);
                loaded.unopened.extend(found.errors);
                if let Some(state) = self.tables.borrow_mut().get_mut(&table.id) {
                    state.loaded = true;
                    state.view = Rc::new(state.view.replaced(&[], &found.opened).with_unopened(found.unopened));
                    state.covered = found.covered;
                }
            }
        }
        loaded.bases = fresh.iter().filter(|one| one.index_of.is_none()).map(|one| one.table.id).collect();
        Ok(loaded)
    }

    /// Opens the SSTables of one table in all data directories.
    async fn load_table(&self, wanted: &Wanted, truncation: Option<&Truncation>) -> Result<Found, Error> {
        let table = &wanted.table;
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
            self.load_directory(wanted, truncation, (&listed, sstables), &mut found).await?;
        }
        Ok(found)
    }

    /// The part of [`Loader::load_table`] in one directory, in which SSTables with these components were found.
    async fn load_directory(
        &self,
        wanted: &Wanted,
        truncation: Option<&Truncation>,
        (listed, sstables): (&Listed, BTreeMap<Descriptor, HashSet<Component>>),
        found: &mut Found,
    ) -> Result<(), Error> {
        let (shard, map) = (self.files.shard, self.files.shard_map);
        let needed = |(_, upper): &(LogPosition, LogPosition)| self.log.old.borrow().is_anything_before(*upper);
        found.covered.extend(purged_intervals::load(&listed.paths, shard == 0, needed).await?);
        let taken = truncation_lists::load(listed, truncation, shard == 0).await?;
        let directory = &*listed.directory;
        for (descriptor, components) in sstables {
            let read = match components.contains(&Component::Helenus) {
                true => read_sidecar(directory, &descriptor).await.map(Some),
                false => Ok(None),
            };
            let (sidecar, mut failed) = match read {
                Ok(sidecar) => (sidecar, None),
                Err(error) => (None, Some(damage(error)?)),
            };
            let owner = sidecar.filter(|sidecar| sidecar.map == map).map(|sidecar| sidecar.shard);
            let owner = if wanted.home == Home::Shard0 { Some(0) } else { owner };
            if owner.is_some_and(|owner| owner != shard) {
                continue;
            }
            let is_index = wanted.index_of.is_some();
            if is_index && owner.is_none() {
                // It has no owner under this shard map. It is left out, and the index is built again.
                found.unusable.push(UnusableSstable {
                    directory: directory.to_owned(),
                    name: descriptor,
                    is_own: false,
                });
                continue;
            }
            let mut opened = None;
            if failed.is_none() {
                match self.files.open(directory, &descriptor, &components, &wanted.table).await {
                    Ok(sstable) => opened = Some(sstable),
                    Err(error) => failed = Some(damage(error)?),
                }
            }
            if let Some(error) = failed {
                let told = Error::BadSstable { directory: directory.to_owned(), error: error.clone() };
                if !wanted.can_miss {
                    return Err(told);
                }
                found.errors.push(told);
                if is_index {
                    let directory = directory.to_owned();
                    found.unusable.push(UnusableSstable { directory, name: descriptor, is_own: true });
                    continue;
                }
                let mut unopened =
                    UnopenedSstable::salvage(directory, &descriptor, &components, map.partitioner, error).await;
                unopened.foreign = owner.is_none();
                let coverage = unopened.coverage.clone();
                let cut = coverage.as_ref().zip(truncation);
                if cut.is_some_and(|(coverage, cut)| coverage.is_truncated(cut)) {
                    self.obsolete.keep_unopened(wanted.table.id, Rc::new(unopened));
                    continue;
                }
                found.covered.extend(coverage);
                found.unopened.push(Rc::new(unopened));
                continue;
            }
            let Some(mut sstable) = opened else { continue };
            sstable.foreign = owner.is_none();
            let coverage = LogCoverage::of(&sstable);
            let truncated = coverage.as_ref().zip(truncation).is_some_and(|(coverage, cut)| coverage.is_truncated(cut));
            if truncated || (sstable.foreign && taken.contains(&descriptor)) {
                // Its files are removed later, because other shards may still be listing this directory.
                self.obsolete.keep(wanted.table.id, Rc::new(sstable));
                continue;
            }
            found.covered.extend(coverage);
            found.opened.push(Rc::new(sstable));
        }
        Ok(())
    }
}

/// The damage that keeps an SSTable from being opened.
///
/// # Errors
/// Any other reason, as it is: the disk's, and what this program does not support.
fn damage(error: Error) -> Result<sstable::Error, Error> {
    match error {
        Error::BadSstable { error, .. } if !matches!(error.problem, Problem::Unsupported(_)) => Ok(error),
        other => Err(other),
    }
}
