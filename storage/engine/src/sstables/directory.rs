//! The directories of tables' SSTables, and the SSTables in them.

use crate::data_directories::DataDirectories;
use crate::error::Error;
use crate::index;
use model::Table;
use runtime::HashSet;
use runtime::file::{list_dir, read_small};
use sstable::sidecar::Sidecar;
use sstable::{Component, Descriptor};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The longest `Helenus.db` that is read, bytes: enough for an SSTable of several TiB.
const SIDECAR_BYTES_MAX: usize = 1 << 30;

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

/// The paths in a directory; empty if the directory does not exist.
pub(crate) async fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    match list_dir(directory).await {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        listed => listed.map_err(Error::Io),
    }
}

/// The SSTables in a table's directory, each with its components; empty if the directory does not exist.
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
    // An SSTable without Data.db was never complete.
    found.retain(|_, components| components.contains(&Component::Data));
    Ok(found)
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
