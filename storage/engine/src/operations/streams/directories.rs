//! Where the files of streams lie until they are a table's:
//!
//! ```text
//! DATA/streams/out/SESSION/NUMBER/      what was extracted to be sent
//! DATA/streams/in/PLAN/TABLE/SOURCE/ORIGIN/   what was received of one SSTable
//! ```
//! `DATA` is a data directory. What lies in `out` is of no use after a crash, what lies in `in` may be.

use crate::data_directories::DataDirectories;
use crate::error::Error;
use runtime::file::{list_dir, remove, remove_dir, sync_dir};
use std::io;
use std::path::{Path, PathBuf};

/// The directory within each data directory.
pub const DIRECTORY: &str = "streams";

/// Where a shard puts what it extracts for one session.
pub fn outgoing(data: &DataDirectories, shard: u16, session: &str) -> PathBuf {
    data.of_shard(shard).join(DIRECTORY).join("out").join(session)
}

/// Where what comes for a shard by a plan is kept.
pub fn incoming(data: &DataDirectories, shard: u16, plan: &str) -> PathBuf {
    data.of_shard(shard).join(DIRECTORY).join("in").join(plan)
}

/// Removes what was extracted before a crash. Called on shard 0 at the start.
///
/// # Errors
/// The disk's.
pub async fn clean_outgoing(data: &DataDirectories) -> Result<(), Error> {
    for directory in data.all() {
        remove_all(&directory.join(DIRECTORY).join("out")).await?;
    }
    Ok(())
}

/// Removes what has come by plans that `is_kept` does not name.
///
/// # Errors
/// The disk's.
pub async fn clean_incoming(data: &DataDirectories, is_kept: impl Fn(&str) -> bool) -> Result<(), Error> {
    for directory in data.all() {
        for plan in entries(&directory.join(DIRECTORY).join("in")).await? {
            let is_kept = plan.file_name().and_then(|name| name.to_str()).is_some_and(&is_kept);
            if !is_kept {
                remove_all(&plan).await?;
            }
        }
    }
    Ok(())
}

/// The entries of a directory; none if it does not exist.
///
/// # Errors
/// The disk's.
pub async fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    crate::sstables::directory::entries(directory).await
}

/// Removes a directory with all that is in it, if it exists.
///
/// # Errors
/// The disk's.
pub async fn remove_all(directory: &Path) -> Result<(), Error> {
    remove_tree(directory).await.map_err(Error::Io)?;
    match directory.parent() {
        Some(parent) => missing_is_fine(sync_dir(parent).await).map_err(Error::Io),
        None => Ok(()),
    }
}

async fn remove_tree(path: &Path) -> io::Result<()> {
    let children = match list_dir(path).await {
        // A file, or nothing at all.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return missing_is_fine(remove(path).await);
        }
        children => children?,
    };
    for child in children {
        Box::pin(remove_tree(&child)).await?;
    }
    missing_is_fine(remove_dir(path).await)
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
