//! Imports: SSTables in some directory become a table's, by `nodetool import` and `refresh`.
//!
//! One shard leads, all shards open:
//! 1. [`list`] finds the SSTables of a directory. In the table's own directories those that are served or named by a
//!    transaction do not count ([`crate::Store::served`], [`retain_new`]). Each is checked.
//! 2. [`Import::place`] gives each a new id in a directory of the table, under one transaction: files are linked, or
//!    copied if that is asked for or they are on another disk, and made durable. Statistics.db is written anew without
//!    intervals of a commit log, which is another log's. An SSTable that a shard owns gets a position in that shard's
//!    log instead, by which a start tells later truncations from earlier ones. Level and repair status are cleared
//!    unless they are to stay.
//! 3. Every shard opens those that it owns, and all foreign ones ([`crate::Store::open_imported`]).
//! 4. [`Import::commit`]; then every shard shows them to its readers ([`crate::Store::end_import`]).
//! 5. [`Import::finish`] removes the source files, unless they were copied.
//!
//! Invariants: a crash before the commit leaves the sources as they were and nothing in the table; one after it leaves
//! all of them in the table. A start never takes an imported SSTable for truncated, nor for one that holds records of
//! this node's log.

use super::verify::{self, Depth};
use crate::commitlog::position::LogPosition;
use crate::error::Error;
use crate::indexing::Indexes;
use crate::sstables::directory::{self, read_sidecar};
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::sstable_id;
use crate::sstables::transaction::{self, Transaction, TransactionKind};
use crate::tables::Tables;
use model::{Home, Table, TableId};
use runtime::file::{OpenOptions, create_dir_all, link, list_dir, read_small, replace_small, sync_dir};
use runtime::{AlignedBuf, File, HashMap, HashSet};
use sstable::sidecar::{PageChecksums, Sidecar};
use sstable::statistics::{self, Metadata};
use sstable::{Component, Descriptor};
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Most SSTables of one import. Their names are in one log of a transaction, whose length is limited
/// ([`transaction::LOG_BYTES_MAX`]): each may have a path of 1,000 bytes. What one operation streams of a table is one
/// import, so this must be more than all sources of a table ever have.
pub const SSTABLES_MAX: usize = 1 << 16;
/// Longest Statistics.db that is written anew, in bytes.
const STATISTICS_BYTES_MAX: usize = 1 << 30;
/// Bytes of one read of a copy.
const COPY_BYTES: usize = 1 << 20;

/// How SSTables are imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportOptions {
    /// How they are checked before.
    pub depth: Depth,
    /// Whether their level of leveled compaction stays.
    pub keep_level: bool,
    /// Whether what they say of repairs stays.
    pub keep_repaired: bool,
    /// Whether the files stay where they came from.
    pub copy: bool,
}

/// An SSTable in some directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    directory: PathBuf,
    descriptor: Descriptor,
    components: HashSet<Component>,
}

/// The SSTables of some directories, by name within each.
///
/// # Errors
/// One of the directories is missing; the disk's.
pub async fn list(directories: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    for directory in directories {
        // Here a missing directory is an error; for a start it is not.
        list_dir(directory).await.map_err(Error::Io)?;
        let found = directory::list(directory).await?.into_iter();
        let source = |(descriptor, components)| Source { directory: directory.clone(), descriptor, components };
        sources.extend(found.map(source));
    }
    Ok(sources)
}

/// Removes from what [`list`] found all SSTables that are gone meanwhile, or that transactions have not settled whose
/// logs are in `directories`: those that were listed, or all of the table if they are its `own`.
///
/// For the table's own directories it is called twice, before the table is asked what it serves and after; then
/// SSTables that a transaction names and those that are `served` are removed. An SSTable that was entering or leaving
/// the table at the first call is either served at the second, or its transaction is still there as long as its files
/// are.
pub async fn retain_new(
    directories: &[PathBuf],
    sources: &mut Vec<Source>,
    served: &HashSet<Descriptor>,
    own: bool,
) -> Result<(), Error> {
    let mut named = HashSet::default();
    let mut found = HashSet::default();
    for directory in directories {
        named.extend(transaction::named(directory, own).await?);
        let names = directory::list(directory).await?.into_keys();
        found.extend(names.map(|name| (directory.clone(), name)));
    }
    sources.retain(|source| {
        let (name, place) = (&source.descriptor, (source.directory.clone(), source.descriptor.clone()));
        !served.contains(name) && !named.contains(name) && found.contains(&place)
    });
    Ok(())
}

impl Source {
    /// Its Data.db.
    pub fn file(&self) -> PathBuf {
        self.directory.join(self.descriptor.file_name(Component::Data))
    }

    async fn sidecar(&self) -> Result<Option<Sidecar>, Error> {
        match self.components.contains(&Component::Helenus) {
            true => read_sidecar(&self.directory, &self.descriptor).await.map(Some),
            false => Ok(None),
        }
    }

    /// Checks it as one of `table`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn check(&self, table: &Arc<Table>, depth: Depth) -> Result<(), Error> {
        verify::check(&self.directory, &self.descriptor, &self.components, table, depth).await
    }
}

/// An import that one shard leads.
#[derive(Debug)]
pub struct Import {
    transaction: Transaction,
    sources: Vec<Source>,
    copy: bool,
    /// The names of the SSTables in the table's directories.
    pub placed: Vec<Descriptor>,
}

impl Import {
    /// Puts `sources` into the directories of a table ([`crate::directories_of`]), durably, under new ids. Those that
    /// already lie in one stay in it; others come to where their shard writes, or take turns with the directories if
    /// they belong to no shard. Nothing is the table's before [`Import::commit`]. `places` are what the shards answered
    /// to [`crate::Store::log_place`].
    ///
    /// # Errors
    /// The disk's, or more than [`SSTABLES_MAX`]; everything is as it was.
    ///
    /// Panics if there are no directories.
    pub async fn place(
        directories: &[PathBuf],
        sources: Vec<Source>,
        options: &ImportOptions,
        places: &[LogPosition],
    ) -> Result<Import, Error> {
        if sources.len() > SSTABLES_MAX {
            let text = format!("{} SSTables are too many for one import, at most {SSTABLES_MAX}", sources.len());
            return Err(Error::Io(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        for directory in directories {
            create_dir_all(directory).await.map_err(Error::Io)?;
        }
        let transaction = Transaction::new(&directories[0], TransactionKind::Import, sstable_id::time_uuid());
        let mut import = Import { transaction, sources, copy: options.copy, placed: Vec::new() };
        match import.place_all(directories, options, places).await {
            Ok(()) => Ok(import),
            Err(error) => {
                import.abort().await;
                Err(error)
            }
        }
    }

    async fn place_all(
        &mut self,
        directories: &[PathBuf],
        options: &ImportOptions,
        places: &[LogPosition],
    ) -> Result<(), Error> {
        let renamed = |source: &Source| Descriptor { version: source.descriptor.version, id: sstable_id::sstable_id() };
        self.placed = self.sources.iter().map(renamed).collect();
        let mut targets: Vec<&Path> = Vec::new();
        for (at, source) in self.sources.iter().enumerate() {
            let owned = source.sidecar().await?.filter(|sidecar| usize::from(sidecar.map.shards) == places.len());
            let turn = owned.map_or(at, |sidecar| usize::from(sidecar.shard));
            targets.push(if directories.contains(&source.directory) {
                &source.directory
            } else {
                &directories[turn % directories.len()]
            });
        }
        self.transaction.add_all(targets.iter().copied().zip(&self.placed)).await?;
        for ((source, descriptor), target) in self.sources.iter().zip(&self.placed).zip(&targets) {
            place(source, target, descriptor, options, places).await?;
        }
        for directory in directories {
            sync_dir(directory).await.map_err(Error::Io)?;
        }
        Ok(())
    }

    /// Makes the SSTables the table's, durably.
    ///
    /// # Errors
    /// The disk's: the next start finds whether the commit took place.
    pub async fn commit(&mut self) -> Result<(), Error> {
        self.transaction.commit(runtime::wall_micros() as u64 / 1000).await
    }

    /// After the commit: removes the source files, unless they were copied.
    ///
    /// # Errors
    /// The disk's: some source files may still be there.
    pub async fn finish(self) -> Result<(), Error> {
        if !self.copy {
            for source in &self.sources {
                transaction::delete(&source.directory, |name| *name == source.descriptor).await.map_err(Error::Io)?;
            }
        }
        self.transaction.finish().await
    }

    /// Undoes an import before its commit.
    pub async fn abort(self) {
        if let Err(error) = self.transaction.abort().await {
            tracing::warn!(%error, "files of an import that failed stay until the next start");
        }
    }
}

/// Puts the files of one SSTable into a directory of its table.
async fn place(
    source: &Source,
    target: &Path,
    descriptor: &Descriptor,
    options: &ImportOptions,
    places: &[LogPosition],
) -> Result<(), Error> {
    let own = format!("{}-", source.descriptor);
    for path in list_dir(&source.directory).await.map_err(Error::Io)? {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(component) = name.and_then(|name| name.strip_prefix(&own)) else { continue };
        if matches!(Component::parse(component), Some(Component::Statistics | Component::Helenus)) {
            continue;
        }
        put(&path, &target.join(format!("{descriptor}-{component}")), options.copy).await.map_err(Error::Io)?;
    }
    let path = source.directory.join(source.descriptor.file_name(Component::Statistics));
    let bytes = read_small(&path, STATISTICS_BYTES_MAX).await.map_err(Error::Io)?;
    let bad = |error| Error::BadSstable { directory: source.directory.clone(), error };
    let mut metadata = Metadata::open(&source.descriptor, &bytes).map_err(bad)?;
    let sidecar = source.sidecar().await?;
    let owner = sidecar.as_ref().filter(|sidecar| usize::from(sidecar.map.shards) == places.len());
    let place = owner.and_then(|sidecar| places.get(usize::from(sidecar.shard))).map(|place| (*place).into());
    let statistics = &mut metadata.statistics;
    statistics.log_intervals = place.map(|place| (place, place)).into_iter().collect();
    let place = place.unwrap_or(statistics::LogPosition::NONE);
    (statistics.log_lower, statistics.log_upper) = (place, place);
    if !options.keep_level {
        statistics.level = 0;
    }
    if !options.keep_repaired {
        (statistics.repaired_at, statistics.pending_repair) = (0, None);
    }
    let bytes = metadata.write(descriptor.version);
    let path = target.join(descriptor.file_name(Component::Statistics));
    replace_small(&path, &bytes).await.map_err(Error::Io)?;
    if let Some(mut sidecar) = sidecar {
        sidecar.components.retain(|pages| pages.component != Component::Statistics);
        sidecar.components.push(PageChecksums::of(Component::Statistics, &bytes));
        let path = target.join(descriptor.file_name(Component::Helenus));
        replace_small(&path, &sidecar.write()).await.map_err(Error::Io)?;
    }
    Ok(())
}

/// Gives a file a second name, or copies it; its bytes are durable then.
async fn put(from: &Path, to: &Path, is_copied: bool) -> io::Result<()> {
    if !is_copied {
        match link(from, to).await {
            Ok(()) => return File::open(to, OpenOptions::default()).await?.sync().await,
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            Err(error) => return Err(error),
        }
    }
    let source = File::open(from, OpenOptions::default()).await?;
    let target = File::open(to, OpenOptions { write: true, create: true, exclusive: true }).await?;
    let len = source.len().await?;
    let mut offset = 0;
    while offset < len {
        let wanted = COPY_BYTES.min((len - offset) as usize);
        let (read, mut buffer) = source.read_at(AlignedBuf::zeroed(wanted), offset).await;
        let read = read?.min(wanted);
        if read < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer[read..].fill(0);
        let (written, _) = target.write_at(buffer, offset).await;
        written?;
        offset += read as u64;
    }
    if len.next_multiple_of(runtime::buffer::ALIGNMENT as u64) > len {
        target.trim(len).await?;
    }
    target.sync().await
}

/// The imports of a shard that are under way.
pub(crate) struct Imports {
    tables: Rc<Tables>,
    files: Rc<SstableFiles>,
    indexes: Rc<Indexes>,
    /// SSTables that are open and not yet their table's.
    opened: RefCell<HashMap<TableId, Vec<Rc<OpenSstable>>>>,
}

impl Imports {
    pub(crate) fn new(tables: Rc<Tables>, files: Rc<SstableFiles>, indexes: Rc<Indexes>) -> Imports {
        Imports { tables, files, indexes, opened: RefCell::default() }
    }

    /// Opens what was placed in a table's directories, as far as this shard serves it, for [`Imports::end`].
    ///
    /// # Errors
    /// The disk's, and SSTables that cannot be used; nothing is open then.
    pub(crate) async fn open(&self, table: TableId, placed: &[Descriptor]) -> Result<(), Error> {
        let (description, home) = {
            let tables = self.tables.borrow();
            let state = tables.get(&table).ok_or(Error::UnknownTable(table))?;
            (state.table.clone(), state.home)
        };
        let opened = self.open_owned(&description, home, placed).await?;
        // If the import does not take place, these are entries without rows.
        self.indexes.add_opened(table, &opened).await?;
        self.opened.borrow_mut().insert(table, opened);
        Ok(())
    }

    /// Shows a table's readers what [`Imports::open`] opened, or forgets it if the import was not committed. Whether
    /// there is anything new.
    pub(crate) fn end(&self, table: TableId, committed: bool) -> bool {
        let opened = self.opened.borrow_mut().remove(&table).unwrap_or_default();
        if !committed || opened.is_empty() {
            return false;
        }
        if let Some(state) = self.tables.borrow_mut().get_mut(&table) {
            match state.adapted(&opened) {
                Ok(opened) => state.view = Rc::new(state.view.replaced(&[], &opened)),
                // No definition runs meanwhile.
                Err(error) => tracing::error!(%error, "imported SSTables do not suit their table any more"),
            }
        }
        true
    }

    async fn open_owned(
        &self,
        table: &Arc<Table>,
        home: Home,
        placed: &[Descriptor],
    ) -> Result<Vec<Rc<OpenSstable>>, Error> {
        let mut found = HashMap::default();
        for directory in self.files.directories_of(table) {
            let sstables = directory::list(&directory).await?.into_iter();
            found.extend(sstables.map(|(name, components)| (name, (directory.clone(), components))));
        }
        let mut opened = Vec::new();
        for descriptor in placed {
            let Some((directory, components)) = found.get(descriptor) else {
                return Err(Error::Io(io::Error::new(io::ErrorKind::NotFound, format!("{descriptor} is gone"))));
            };
            let owner = match components.contains(&Component::Helenus) {
                _ if home == Home::Shard0 => Some(0),
                true => {
                    let sidecar = read_sidecar(directory, descriptor).await?;
                    Some(sidecar).filter(|sidecar| sidecar.map == self.files.shard_map).map(|sidecar| sidecar.shard)
                }
                false => None,
            };
            if owner.is_some_and(|owner| owner != self.files.shard) {
                continue;
            }
            let mut sstable = self.files.open(directory, descriptor, components, table).await?;
            sstable.foreign = owner.is_none();
            opened.push(Rc::new(sstable));
        }
        Ok(opened)
    }
}
