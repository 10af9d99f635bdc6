//! Names and directories: by glommio's thread for blocking calls where glommio has the call, else by the node's
//! helpers.

use super::core;
use super::error;
use crate::system::blocking_files::c_path;
use crate::system::helper_pool;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Permission bits of new directories, before the umask.
const DIRECTORY_MODE: u32 = 0o755;

pub(crate) async fn rename(from: &Path, to: &Path) -> io::Result<()> {
    c_path(from)?;
    c_path(to)?;
    let (from, to) = (from.to_path_buf(), to.to_path_buf());
    core::current().start(async move { ::glommio::io::rename(from, to).await.map_err(error) }).await
}

pub(crate) async fn remove(path: &Path) -> io::Result<()> {
    c_path(path)?;
    let path = path.to_path_buf();
    core::current().start(async move { ::glommio::io::remove(path).await.map_err(error) }).await
}

pub(crate) async fn link(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (from.to_path_buf(), to.to_path_buf());
    helper_pool::run(move || std::fs::hard_link(from, to)).await
}

pub(crate) async fn remove_dir(path: &Path) -> io::Result<()> {
    let path = path.to_path_buf();
    helper_pool::run(move || std::fs::remove_dir(path)).await
}

pub(crate) async fn create_dir_all(path: &Path) -> io::Result<()> {
    let path = path.to_path_buf();
    helper_pool::run(move || create(&path)).await
}

/// Syncs a directory with `fsync`; glommio would use `fdatasync`, which need not cover the names in it.
pub(crate) async fn sync_dir(path: &Path) -> io::Result<()> {
    let path = path.to_path_buf();
    helper_pool::run(move || sync(&path)).await
}

/// Creates a directory and its missing parents durably; succeeds if it exists.
fn create(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut made = std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path);
    if let (Err(e), Some(parent)) = (&made, parent)
        && e.kind() == io::ErrorKind::NotFound
    {
        create(parent)?;
        made = std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path);
    }
    match made {
        Ok(()) => sync(parent.unwrap_or(Path::new("."))),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) => Err(e),
    }
}

fn sync(path: &Path) -> io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}
