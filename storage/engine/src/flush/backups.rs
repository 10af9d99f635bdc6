//! Incremental backups: hard links to the SSTables that flushes write, for an operator to take away and delete.
//!
//! The links are in `TABLE/backups/`, where Cassandra puts them; those of an index are in `TABLE/backups/.INDEX/`.
//! Compactions make no links, as their data is in SSTables of flushes already.
//!
//! Invariants: backups are never read at a start or deleted here; an SSTable is linked with all its components after
//! it is committed, and the links are durable before the flush ends.

use runtime::HashSet;
use runtime::file::{create_dir_all, link, sync_dir};
use sstable::{Component, Descriptor};
use std::io;
use std::path::{Path, PathBuf};

const DIRECTORY: &str = "backups";

/// Durably links the components of an SSTable into the backups. `directory` is that of its table or index.
pub(crate) async fn link_sstable(
    directory: &Path,
    descriptor: &Descriptor,
    components: &HashSet<Component>,
) -> io::Result<()> {
    let target = directory_of(directory);
    create_dir_all(&target).await?;
    for component in components {
        let name = descriptor.file_name(*component);
        match link(&directory.join(&name), &target.join(&name)).await {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
    }
    sync_dir(&target).await
}

/// The backup directory of the table or index whose SSTables are in `directory`.
fn directory_of(directory: &Path) -> PathBuf {
    match (directory.parent(), directory.file_name()) {
        (Some(table), Some(index)) if index.as_encoded_bytes().starts_with(b".") => table.join(DIRECTORY).join(index),
        _ => directory.join(DIRECTORY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_of_an_index_are_in_those_of_its_table() {
        assert_eq!(directory_of(Path::new("/d/ks/t-1")), Path::new("/d/ks/t-1/backups"));
        assert_eq!(directory_of(Path::new("/d/ks/t-1/.idx")), Path::new("/d/ks/t-1/backups/.idx"));
    }
}
