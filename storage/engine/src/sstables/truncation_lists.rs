//! Lists of the foreign SSTables that a truncation removes, for the next start.
//!
//! An SSTable that this node wrote names the part of the log that it holds, so a start can tell whether a truncation
//! covers it. A foreign SSTable does not. So a truncation first lists the table's foreign SSTables in a file beside
//! them, `helenus-truncated-MILLIS`: the name has the time of the truncation, and each line the name of one Data.db.
//! 1. A start that finds that truncation recorded, or a later one, treats the listed SSTables as obsolete.
//! 2. A start that does not removes the list, because the truncation did not happen. It also removes a list whose
//!    files are all gone.
//! 3. Once the listed SSTables are removed, so is the list.
//!
//! Invariants: whenever the node crashes, a truncation removes everything that the table had, or nothing.

use super::directory::{Listed, entries, name_of};
use super::open_sstable::OpenSstable;
use crate::commitlog::position::Truncation;
use crate::error::Error;
use runtime::HashSet;
use runtime::file::{read_small, remove, replace_small, sync_dir};
use sstable::{Component, Descriptor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Longest list in bytes; far more than the names of all files that a directory can hold in practice.
const LIST_BYTES_MAX: usize = 16 << 20;

const PREFIX: &str = "helenus-truncated-";

/// Durably lists the foreign SSTables among `obsolete` for the truncation at `at_millis`, in each directory those that
/// lie in it.
pub(crate) async fn write(obsolete: &[Rc<OpenSstable>], at_millis: i64) -> Result<(), Error> {
    let mut texts: BTreeMap<&Path, String> = BTreeMap::new();
    for sstable in obsolete.iter().filter(|sstable| sstable.foreign) {
        let text = texts.entry(&sstable.directory).or_default();
        text.push_str(&sstable.reader.descriptor().file_name(Component::Data));
        text.push('\n');
    }
    for (directory, text) in texts {
        let path = directory.join(format!("{PREFIX}{at_millis}"));
        replace_small(&path, text.as_bytes()).await.map_err(Error::Io)?;
    }
    Ok(())
}

/// The lists among the paths of a directory, with the times of their truncations.
fn lists_among(paths: &[PathBuf]) -> impl Iterator<Item = (i64, &Path)> {
    paths.iter().filter_map(|path| {
        let millis = name_of(path).strip_prefix(PREFIX)?.parse().ok()?;
        Some((millis, path.as_path()))
    })
}

/// The foreign SSTables in a table's directory that truncations removed. With `settles`, lists that are no longer
/// needed are deleted.
pub(crate) async fn load(
    listed: &Listed,
    truncation: Option<&Truncation>,
    settles: bool,
) -> Result<HashSet<Descriptor>, Error> {
    let directory = &*listed.directory;
    let mut taken = HashSet::default();
    for (millis, path) in lists_among(&listed.paths) {
        let mut needed = truncation.is_some_and(|truncation| millis <= truncation.at_millis);
        if needed {
            let text = match read_small(path, LIST_BYTES_MAX).await {
                // Shard 0 has finished with this list and removed it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                text => text.map_err(Error::Io)?,
            };
            let text = String::from_utf8_lossy(&text).into_owned();
            let there = |line: &&str| listed.paths.contains(&directory.join(line));
            let named: Vec<&str> = text.lines().filter(there).collect();
            needed = !named.is_empty();
            taken
                .extend(named.into_iter().filter_map(|line| Descriptor::parse(line).map(|(descriptor, _)| descriptor)));
        }
        if settles && !needed {
            remove(path).await.map_err(Error::Io)?;
            sync_dir(directory).await.map_err(Error::Io)?;
        }
    }
    Ok(taken)
}

/// Deletes the lists in a directory; the SSTables that they name are gone.
pub(crate) async fn forget(directory: &Path) -> Result<(), Error> {
    for (_, path) in lists_among(&entries(directory).await?) {
        remove(path).await.map_err(Error::Io)?;
    }
    Ok(())
}
