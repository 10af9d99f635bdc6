//! The directories of tables' SSTables, and the SSTables in them.

use crate::data_directories::DataDirectories;
use crate::error::Error;
use crate::index;
use model::Table;
use runtime::HashSet;
use runtime::file::{list_dir, read_small};
use runtime::sync::join_all;
use sstable::sidecar::Sidecar;
use sstable::{Component, Descriptor};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The longest `Helenus.db` that is read, bytes: enough for an SSTable of several TiB.
const SIDECAR_BYTES_MAX: usize = 1 << 30;

/// How many directories all shards of a node list at once: few beside the jobs that may wait for its helper threads.
const LISTED_TOGETHER_OF_NODE: usize = 64;

/// How many directories a shard lists, or tables it opens, at once. It is worth more than one, because most of that
/// is waiting for helper threads.
pub(crate) fn together() -> usize {
    (LISTED_TOGETHER_OF_NODE / runtime::shard_count().max(1)).clamp(1, 16)
}

/// The directory of a table's SSTables under one of the node's data directories, as Cassandra names it.
pub fn directory_of(data: &Path, table: &Table) -> PathBuf {
    if let Some(directory) = index::directory_of(data, table) {
        return directory;
    }
    data.join("data").join(&table.keyspace).join(format!("{}-{}", table.name, table.id.uuid().simple()))
}

/// The directories of a table's SSTables, one under each of the node's data directories.
pub fn directories_of(data: &DataDirectories, table: &Table) -> Vec<PathBuf> {
    data.all().iter().map(|data| directory_of(data, table)).collect()
}

/// A directory and the paths that were in it when it was listed.
pub(crate) struct Listed {
    pub(crate) directory: PathBuf,
    pub(crate) paths: Vec<PathBuf>,
}

/// The file name of a path; empty if it is not UTF-8, as no name of ours.
pub(crate) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The paths in a directory; empty if the directory does not exist.
pub(crate) async fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    match list_dir(directory).await {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        listed => listed.map_err(Error::Io),
    }
}

/// Lists directories; what is none, or does not exist, has no paths.
pub(crate) async fn listed_all(directories: Vec<PathBuf>) -> Result<Vec<Listed>, Error> {
    let mut all = Vec::with_capacity(directories.len());
    for some in directories.chunks(together()) {
        let found = join_all(some.iter().map(|directory| entries(directory)).collect::<Vec<_>>()).await;
        for (directory, paths) in some.iter().zip(found) {
            all.push(Listed { directory: directory.clone(), paths: paths? });
        }
    }
    Ok(all)
}

/// The SSTables in a table's directory, each with its components; empty if the directory does not exist.
pub(crate) async fn list(directory: &Path) -> Result<BTreeMap<Descriptor, HashSet<Component>>, Error> {
    match list_dir(directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        listed => Ok(sstables_among(&listed.map_err(Error::Io)?)),
    }
}

/// The SSTables among the paths of a directory, each with its components.
pub(crate) fn sstables_among(paths: &[PathBuf]) -> BTreeMap<Descriptor, HashSet<Component>> {
    let mut found: BTreeMap<Descriptor, HashSet<Component>> = BTreeMap::new();
    for path in paths {
        if let Some((descriptor, component)) = Descriptor::parse(name_of(path)) {
            found.entry(descriptor).or_default().extend(component);
        }
    }
    // An SSTable without Data.db was never complete.
    found.retain(|_, components| components.contains(&Component::Data));
    found
}

/// The components of one SSTable in a table's directory; empty if it is not there.
pub(crate) async fn components(directory: &Path, name: &Descriptor) -> Result<HashSet<Component>, Error> {
    Ok(list(directory).await?.remove(name).unwrap_or_default())
}

/// Reads an SSTable's `Helenus.db`.
pub(crate) async fn read_sidecar(directory: &Path, descriptor: &Descriptor) -> Result<Sidecar, Error> {
    let path = directory.join(descriptor.file_name(Component::Helenus));
    let bytes = read_small(&path, SIDECAR_BYTES_MAX).await.map_err(Error::Io)?;
    Sidecar::open(descriptor, &bytes).map_err(|error| Error::BadSstable { directory: directory.to_owned(), error })
}
