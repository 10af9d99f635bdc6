//! Files and directories. Direct I/O: buffers, offsets and lengths are multiples of [`crate::buffer::ALIGNMENT`].
//!
//! A call takes an owned buffer and gives it back with the result. A write that is *durable* (`write_durable`) or is
//! followed by a successful `sync` survives a crash; any other write may be lost, kept or torn at 512 bytes. The name
//! of a new file is durable after `sync_dir` of its directory. A failed sync poisons the file: every later call fails.

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

/// Calls a function of the current backend's `disk` and awaits it.
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

/// The same where all backends on a real machine do it alike.
macro_rules! on_names {
    ($name:ident($($argument:expr),*)) => {
        match backend() {
            Backend::Sim => sim::disk::$name($($argument),*).await,
            _ => system::names::$name($($argument),*).await,
        }
    };
}

impl File {
    /// Opens `path`.
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

    /// Sees to it that there is room for the first `len` bytes, a multiple of [`crate::buffer::ALIGNMENT`]: the file is
    /// at least as long then, and what was never written reads as zeros. Durable after [`File::sync`]. `Unsupported`
    /// where the file system cannot tell.
    pub async fn allocate(&self, len: u64) -> io::Result<()> {
        match &self.0 {
            FileInner::Uring(f) => f.allocate(len).await,
            #[cfg(feature = "glommio")]
            FileInner::Glommio(f) => f.allocate(len).await,
            FileInner::Sim(f) => f.allocate(len).await,
        }
    }

    /// Cuts off what filled up the last page: `len` lies less than [`crate::buffer::ALIGNMENT`] below the length.
    /// Durable after [`File::sync`].
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
    on_names!(canonical(path))
}

/// Gives a file a second name, of which there is none yet; durable after [`sync_dir`] of the new one's directory.
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

/// The paths of a directory's entries, sorted.
pub async fn list_dir(path: &Path) -> io::Result<Vec<PathBuf>> {
    on_names!(list_dir(path))
}

/// How much a directory and what is below it takes; what vanishes meanwhile is left out. `NotFound` if there is none.
pub async fn space(path: &Path) -> io::Result<Space> {
    on_names!(space(path))
}

/// The whole of a small file (at most `limit` bytes, else `InvalidData`); `NotFound` if there is none.
pub async fn read_small(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    on_names!(read_small(path, limit))
}

/// Replaces a small file durably and atomically: writes `path` with `.tmp` added, syncs, renames, syncs the directory.
pub async fn replace_small(path: &Path, contents: &[u8]) -> io::Result<()> {
    on_names!(replace_small(path, contents))
}

/// Takes the exclusive lock (`flock`) of a file, created if missing; `WouldBlock` when another process (in simulation
/// another live node) holds it.
pub async fn lock(path: &Path) -> io::Result<Lock> {
    Ok(Lock {
        _held: match backend() {
            Backend::Sim => LockInner::Sim(sim::disk::lock(path).await?),
            _ => LockInner::Real(system::names::lock(path).await?),
        },
    })
}

/// A held [`lock`]; released on drop.
pub struct Lock {
    _held: LockInner,
}

enum LockInner {
    Real(#[expect(dead_code, reason = "held for its Drop")] system::names::Lock),
    Sim(#[expect(dead_code, reason = "held for its Drop")] sim::disk::Lock),
}
