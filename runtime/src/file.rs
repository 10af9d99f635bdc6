//! Files and directories. Direct I/O: buffers, offsets and lengths are multiples of [`crate::buffer::ALIGNMENT`].
//!
//! A call takes an owned buffer and returns it with the result. What survives a crash:
//!
//! * A write that is durable (`write_durable`) or followed by a successful `sync`. Any other write may be lost, kept,
//!   or torn between sectors of 512 bytes.
//! * The name of a new file, once `sync_dir` of its directory has succeeded.
//!
//! Invariants: a failed sync poisons the file, so that every later call on it fails.

use crate::buffer::AlignedBuf;
use crate::context::{Backend, backend};
pub use crate::file_types::{OpenOptions, Space};
#[cfg(feature = "glommio")]
use crate::glommio;
use crate::metrics::{DiskKind, DiskOperation};
use crate::{sim, system, uring};
use std::io;
use std::path::{Path, PathBuf};

/// An open file; closed on drop.
pub struct File(FileInner);

enum FileInner {
    Uring(uring::disk::File),
    #[cfg(feature = "glommio")]
    Glommio(glommio::disk::File),
    Sim(sim::disk::File),
}

/// Awaits a function of the current backend's module `disk`.
macro_rules! on_disk {
    ($name:ident($($argument:expr),*)) => {
        match backend() {
            Backend::Uring => uring::disk::$name($($argument),*).await,
            #[cfg(feature = "glommio")]
            Backend::Glommio => glommio::disk::$name($($argument),*).await,
            Backend::Sim => sim::disk::$name($($argument),*).await,
        }
    };
}

/// Awaits a function that all backends on a real machine share, or the simulator's.
macro_rules! on_blocking_files {
    ($name:ident($($argument:expr),*)) => {
        match backend() {
            Backend::Sim => sim::disk::$name($($argument),*).await,
            _ => system::blocking_files::$name($($argument),*).await,
        }
    };
}

impl File {
    /// Opens the file `path`; `NotFound` if it does not exist and is not to be created.
    pub async fn open(path: &Path, options: OpenOptions) -> io::Result<File> {
        Ok(File(match backend() {
            Backend::Uring => FileInner::Uring(uring::disk::File::open(path, options).await?),
            #[cfg(feature = "glommio")]
            Backend::Glommio => FileInner::Glommio(glommio::disk::File::open(path, options).await?),
            Backend::Sim => FileInner::Sim(sim::disk::File::open(path, options).await?),
        }))
    }

    /// Reads into `buffer` (its whole length) from `offset`; returns the bytes read, fewer only at the end of file.
    pub async fn read_at(&self, buffer: AlignedBuf, offset: u64) -> (io::Result<usize>, AlignedBuf) {
        let operation = DiskOperation::begin();
        let done = match &self.0 {
            FileInner::Uring(f) => f.read_at(buffer, offset).await,
            #[cfg(feature = "glommio")]
            FileInner::Glommio(f) => f.read_at(buffer, offset).await,
            FileInner::Sim(f) => f.read_at(buffer, offset).await,
        };
        operation.completed(DiskKind::Read, *done.0.as_ref().unwrap_or(&0));
        done
    }

    /// Writes the whole of `buffer` at `offset`.
    pub async fn write_at(&self, buffer: AlignedBuf, offset: u64) -> (io::Result<()>, AlignedBuf) {
        self.write(buffer, offset, false).await
    }

    /// Writes the whole of `buffer` at `offset`, durably (`RWF_DSYNC`).
    pub async fn write_durable(&self, buffer: AlignedBuf, offset: u64) -> (io::Result<()>, AlignedBuf) {
        self.write(buffer, offset, true).await
    }

    async fn write(&self, buffer: AlignedBuf, offset: u64, durable: bool) -> (io::Result<()>, AlignedBuf) {
        let operation = DiskOperation::begin();
        let done = match &self.0 {
            FileInner::Uring(f) => f.write_at(buffer, offset, durable).await,
            #[cfg(feature = "glommio")]
            FileInner::Glommio(f) => f.write_at(buffer, offset, durable).await,
            FileInner::Sim(f) => f.write_at(buffer, offset, durable).await,
        };
        operation.completed(DiskKind::Write, if done.0.is_ok() { done.1.len() } else { 0 });
        done
    }

    /// Makes every completed write durable (`fdatasync`).
    pub async fn sync(&self) -> io::Result<()> {
        let operation = DiskOperation::begin();
        let done = match &self.0 {
            FileInner::Uring(f) => f.sync().await,
            #[cfg(feature = "glommio")]
            FileInner::Glommio(f) => f.sync().await,
            FileInner::Sim(f) => f.sync().await,
        };
        operation.completed(DiskKind::Sync, 0);
        done
    }

    /// Reserves disk space for the first `len` bytes, a multiple of [`crate::buffer::ALIGNMENT`]. The file becomes at
    /// least that long, and bytes that were never written read as zeros. Durable after [`File::sync`]. `Unsupported` if
    /// the file system cannot reserve space.
    pub async fn allocate(&self, len: u64) -> io::Result<()> {
        match &self.0 {
            FileInner::Uring(f) => f.allocate(len).await,
            #[cfg(feature = "glommio")]
            FileInner::Glommio(f) => f.allocate(len).await,
            FileInner::Sim(f) => f.allocate(len).await,
        }
    }

    /// Shortens the file to `len` bytes, which cuts the padding of its last page: `len` is less than
    /// [`crate::buffer::ALIGNMENT`] below the length. Durable after [`File::sync`].
    pub async fn trim(&self, len: u64) -> io::Result<()> {
        match &self.0 {
            FileInner::Uring(f) => f.trim(len).await,
            #[cfg(feature = "glommio")]
            FileInner::Glommio(f) => f.trim(len).await,
            FileInner::Sim(f) => f.trim(len).await,
        }
    }

    /// The file's length in bytes.
    pub async fn len(&self) -> io::Result<u64> {
        match &self.0 {
            FileInner::Uring(f) => f.len().await,
            #[cfg(feature = "glommio")]
            FileInner::Glommio(f) => f.len().await,
            FileInner::Sim(f) => f.len().await,
        }
    }
}

/// Renames a file; durable after [`sync_dir`].
pub async fn rename(from: &Path, to: &Path) -> io::Result<()> {
    on_disk!(rename(from, to))
}

/// The absolute path without `.`, `..` and symbolic links; `NotFound` if nothing is there.
pub async fn canonical(path: &Path) -> io::Result<PathBuf> {
    on_blocking_files!(canonical(path))
}

/// Makes `to` a hard link to the file `from`; `AlreadyExists` if there is a file `to`. Durable after [`sync_dir`] of
/// the new name's directory.
pub async fn link(from: &Path, to: &Path) -> io::Result<()> {
    on_disk!(link(from, to))
}

/// Removes an empty directory; durable after [`sync_dir`] of its parent.
pub async fn remove_dir(path: &Path) -> io::Result<()> {
    on_disk!(remove_dir(path))
}

/// Removes a file; durable after [`sync_dir`].
pub async fn remove(path: &Path) -> io::Result<()> {
    on_disk!(remove(path))
}

/// Creates a directory and its missing parents; what it creates is durable when it returns.
pub async fn create_dir_all(path: &Path) -> io::Result<()> {
    on_disk!(create_dir_all(path))
}

/// Makes creations, renames and removals in a directory durable.
pub async fn sync_dir(path: &Path) -> io::Result<()> {
    on_disk!(sync_dir(path))
}

/// Lists the paths of a directory's entries, sorted.
pub async fn list_dir(path: &Path) -> io::Result<Vec<PathBuf>> {
    on_blocking_files!(list_dir(path))
}

/// Measures a directory with everything below it; entries that vanish meanwhile are left out. `NotFound` if the
/// directory does not exist.
pub async fn space(path: &Path) -> io::Result<Space> {
    on_blocking_files!(space(path))
}

/// Reads a small file; `InvalidData` if it is longer than `limit` bytes, `NotFound` if it does not exist.
pub async fn read_small(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    on_blocking_files!(read_small(path, limit))
}

/// Replaces a small file durably and atomically: writes `path.tmp`, syncs it, renames it, and syncs the directory.
pub async fn replace_small(path: &Path, contents: &[u8]) -> io::Result<()> {
    on_blocking_files!(replace_small(path, contents))
}

/// Takes the exclusive lock (`flock`) of a file, which is created if missing; `WouldBlock` if another process (in
/// simulation another live node) holds it.
pub async fn lock(path: &Path) -> io::Result<Lock> {
    Ok(Lock {
        _held: match backend() {
            Backend::Sim => LockInner::Sim(sim::disk::lock(path).await?),
            _ => LockInner::Real(system::blocking_files::lock(path).await?),
        },
    })
}

/// The lock that [`lock`] took, released on drop.
pub struct Lock {
    _held: LockInner,
}

enum LockInner {
    Real(#[expect(dead_code, reason = "held for its Drop")] system::blocking_files::Lock),
    Sim(#[expect(dead_code, reason = "held for its Drop")] sim::disk::Lock),
}
