//! Foreign SSTables that a truncation takes: how a start knows them.
//!
//! An SSTable of this node's has a place in its log, before or behind a truncation; a foreign one has none. So a truncation
//! names those that the table has, before its own record is durable, in a file beside them: `helenus-truncated-MILLIS`,
//! with the time of the truncation, a name of a Data.db per line.
//! 1. A start that finds the record of that truncation, or of a later one, gives up what the file names.
//! 2. One that does not find it removes the file: the truncation did not happen. So does one that finds nothing of what
//!    it names.
//! 3. When the SSTables are gone, the file goes.
//!
//! Invariants: a truncation takes all that the table had or nothing, whenever the node crashes.

use crate::Error;
use crate::commitlog::position::Truncation;
use crate::sstables::transaction::entries;
use crate::store::Store;
use model::TableId;
use runtime::HashSet;
use runtime::file::{read_small, remove, replace_small, sync_dir};
use sstable::{Component, Descriptor};
use std::path::{Path, PathBuf};

/// Longest list, in bytes: a name for every file that a directory may have is far less.
const LIST_BYTES_MAX: usize = 16 << 20;

const PREFIX: &str = "helenus-truncated-";

impl Store {
    /// On shard 0, after every shard's [`Store::truncate`] and before the truncation is recorded: names the foreign SSTables
    /// that it takes, durably. `at_millis` is [`Truncation::at_millis`].
    ///
    /// # Errors
    /// The disk's: the truncation must not be recorded.
    pub async fn note_truncation(&self, table: TableId, at_millis: i64) -> Result<(), Error> {
        let given_up = self.inner().given_up_of(table);
        let foreign: Vec<_> = given_up.iter().filter(|sstable| sstable.foreign).collect();
        let Some(first) = foreign.first() else { return Ok(()) };
        let mut text = String::new();
        for sstable in &foreign {
            text.push_str(&sstable.reader.descriptor().file_name(Component::Data));
            text.push('\n');
        }
        let path = first.directory.join(format!("{PREFIX}{at_millis}"));
        replace_small(&path, text.as_bytes()).await.map_err(Error::Io)
    }
}

/// The lists in a directory with their times.
async fn lists(directory: &Path) -> Result<Vec<(i64, PathBuf)>, Error> {
    let found = entries(directory).await?.into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        let millis = name.strip_prefix(PREFIX)?.parse().ok()?;
        Some((millis, path))
    });
    Ok(found.collect())
}

/// What the truncations of a table took of what may be in its directory; `settles`: lists of truncations that did not
/// happen are removed.
pub(crate) async fn load(
    directory: &Path,
    truncation: Option<&Truncation>,
    settles: bool,
) -> Result<HashSet<Descriptor>, Error> {
    let mut taken = HashSet::default();
    for (millis, path) in lists(directory).await? {
        let mut needed = truncation.is_some_and(|truncation| millis <= truncation.at_millis);
        if needed {
            let text = match read_small(&path, LIST_BYTES_MAX).await {
                // Shard 0 is done with it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                text => text.map_err(Error::Io)?,
            };
            let text = String::from_utf8_lossy(&text).into_owned();
            let there = entries(directory).await?;
            let named: Vec<&str> = text.lines().filter(|line| there.contains(&directory.join(line))).collect();
            needed = !named.is_empty();
            taken
                .extend(named.into_iter().filter_map(|line| Descriptor::parse(line).map(|(descriptor, _)| descriptor)));
        }
        if settles && !needed {
            remove(&path).await.map_err(Error::Io)?;
            sync_dir(directory).await.map_err(Error::Io)?;
        }
    }
    Ok(taken)
}

/// Removes the lists of a directory: what they name is gone.
pub(crate) async fn forget(directory: &Path) -> Result<(), Error> {
    for (_, path) in lists(directory).await? {
        remove(&path).await.map_err(Error::Io)?;
    }
    Ok(())
}
