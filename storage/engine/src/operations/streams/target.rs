//! The receiving side: writes the files of one SSTable as they come, and checks them.
//!
//! 1. `Helenus.db` comes first and is kept in memory. It says how long each component is, and the checksum of each of
//!    its pages; it has a checksum of its own.
//! 2. Pieces of the other components come in any order. Each is checked before it is written, with direct I/O.
//! 3. [`StagedSstable::finish`] makes the files durable and then writes `Helenus.db`: an SSTable whose `Helenus.db` is
//!    there is complete.
//!
//! Invariants: what is on disk at the end is what the sender's `Helenus.db` says, byte for byte; no name, length or
//! checksum of the sender panics, or leads out of the directory.

use crate::error::Error;
use crate::sstables::directory::{components, list};
use runtime::buffer::ALIGNMENT;
use runtime::file::{OpenOptions, create_dir_all, replace_small, sync_dir};
use runtime::{AlignedBuf, File};
use sstable::sidecar::{PAGE_BYTES, Sidecar};
use sstable::{BlockId, Component, Descriptor};
use std::io;
use std::path::{Path, PathBuf};

/// An SSTable that is being received.
pub struct StagedSstable {
    directory: PathBuf,
    descriptor: Descriptor,
    sidecar: Sidecar,
    sidecar_bytes: Vec<u8>,
    files: Vec<IncomingFile>,
}

struct IncomingFile {
    component: Component,
    file: File,
    len: u64,
    /// Bytes written; pieces do not overlap.
    written: std::cell::Cell<u64>,
}

/// The name of the SSTable in a directory of [`StagedSstable::begin`], if it is complete.
///
/// # Errors
/// The disk's.
pub async fn complete(directory: &Path) -> Result<Option<Descriptor>, Error> {
    let found = list(directory).await?.into_iter();
    Ok(found.filter(|(_, components)| components.contains(&Component::Helenus)).map(|(name, _)| name).next())
}

/// Bytes of the files of a complete SSTable, and how many there are.
///
/// # Errors
/// The disk's.
pub async fn size(directory: &Path, descriptor: &Descriptor) -> Result<(u64, u64), Error> {
    let names = components(directory, descriptor).await?;
    let mut bytes = 0;
    for component in &names {
        let path = directory.join(descriptor.file_name(*component));
        let file = File::open(&path, OpenOptions::default()).await.map_err(Error::Io)?;
        bytes += file.len().await.map_err(Error::Io)?;
    }
    Ok((names.len() as u64, bytes))
}

impl StagedSstable {
    /// Makes the files of an SSTable with these components, lengths in bytes, in an empty directory, which is made.
    ///
    /// # Errors
    /// `Helenus.db` is damaged or says otherwise; the disk's.
    pub async fn begin(
        directory: &Path,
        descriptor: Descriptor,
        sidecar_bytes: Vec<u8>,
        components: &[(Component, u64)],
    ) -> Result<StagedSstable, Error> {
        let bad = |error| Error::BadSstable { directory: directory.to_owned(), error };
        let sidecar = Sidecar::open(&descriptor, &sidecar_bytes).map_err(bad)?;
        let others = components.iter().filter(|(component, _)| *component != Component::Helenus);
        let mut announced: Vec<(Component, u64)> = others.copied().collect();
        let mut listed: Vec<_> = sidecar.components.iter().map(|pages| (pages.component, pages.len)).collect();
        announced.sort_unstable();
        listed.sort_unstable();
        if announced != listed {
            let what = "Helenus.db does not say what comes";
            return Err(Error::Corrupt { path: directory.to_owned(), offset: 0, what });
        }
        create_dir_all(directory).await.map_err(Error::Io)?;
        let mut files = Vec::new();
        for pages in &sidecar.components {
            let path = directory.join(descriptor.file_name(pages.component));
            let options = OpenOptions { write: true, create: true, exclusive: true };
            let file = File::open(&path, options).await.map_err(Error::Io)?;
            files.push(IncomingFile { component: pages.component, file, len: pages.len, written: 0.into() });
        }
        Ok(StagedSstable { directory: directory.to_owned(), descriptor, sidecar, sidecar_bytes, files })
    }

    /// Writes a piece of a component that begins at `offset`, a multiple of a page. It ends with a page or with the
    /// component. Each piece comes once.
    ///
    /// # Errors
    /// It is damaged, or nothing that was announced; the disk's.
    pub async fn write(&self, component: Component, offset: u64, piece: &[u8]) -> Result<(), Error> {
        let wrong = |what| Error::Corrupt { path: self.directory.join(component.name()), offset, what };
        let file = self.files.iter().find(|file| file.component == component).ok_or_else(|| wrong("not announced"))?;
        let end = offset.saturating_add(piece.len() as u64);
        let is_whole = piece.len().is_multiple_of(PAGE_BYTES) || end == file.len;
        if piece.is_empty() || !offset.is_multiple_of(ALIGNMENT as u64) || end > file.len || !is_whole {
            return Err(wrong("a piece that does not fit"));
        }
        let checked = self.sidecar.check(&self.descriptor, BlockId { component, offset }, piece);
        checked.map_err(|error| Error::BadSstable { directory: self.directory.clone(), error })?;
        let mut buffer = AlignedBuf::zeroed(piece.len());
        buffer[..piece.len()].copy_from_slice(piece);
        file.file.write_at(buffer, offset).await.0.map_err(Error::Io)?;
        file.written.set(file.written.get() + piece.len() as u64);
        Ok(())
    }

    /// Completes the SSTable, durably.
    ///
    /// # Errors
    /// Not everything has come; the disk's.
    pub async fn finish(self) -> Result<Descriptor, Error> {
        for file in &self.files {
            if file.written.get() != file.len {
                let path = self.directory.join(file.component.name());
                return Err(Error::Corrupt { path, offset: file.written.get(), what: "not all of it has come" });
            }
            if !file.len.is_multiple_of(ALIGNMENT as u64) {
                file.file.trim(file.len).await.map_err(Error::Io)?;
            }
            file.file.sync().await.map_err(Error::Io)?;
        }
        sync_dir(&self.directory).await.map_err(Error::Io)?;
        let path = self.directory.join(self.descriptor.file_name(Component::Helenus));
        replace_small(&path, &self.sidecar_bytes).await.map_err(Error::Io)?;
        Ok(self.descriptor)
    }
}

/// Whether an error says that the bytes that came are not those of the sender's `Helenus.db`.
pub fn is_damage(error: &Error) -> bool {
    matches!(error, Error::BadSstable { .. } | Error::Corrupt { .. })
}

/// Whether an error says that the disk is full.
pub fn is_full(error: &Error) -> bool {
    let is_room = |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    matches!(error, Error::Io(error) if is_room(error))
}
