//! The files of an SSTable that is being written.
//!
//! They are written in whole pages with direct I/O; the padding of the last page is cut off at the end. The files and
//! their names are durable when [`ComponentFiles::finish`] returns.

use crate::error::Error;
use runtime::buffer::ALIGNMENT;
use runtime::file::{OpenOptions, sync_dir};
use runtime::{AlignedBuf, File, HashSet};
use sstable::writer::Builder;
use sstable::{Component, Descriptor};
use std::path::{Path, PathBuf};

/// A component's buffer is written to disk once it holds this many bytes.
const WRITE_BYTES: usize = 1 << 20;
/// A builder's bytes are taken to the files before they exceed this length.
pub(crate) const WAITING_BYTES_MAX: usize = 256 << 10;

/// The files of one SSTable. A file is created when the first bytes of its component come.
pub(crate) struct ComponentFiles {
    directory: PathBuf,
    descriptor: Descriptor,
    files: Vec<(Component, GrowingFile)>,
}

/// A file to which bytes are appended.
struct GrowingFile {
    file: File,
    /// Bytes that are not written yet; `None` before the first ones.
    buffer: Option<AlignedBuf>,
    filled: usize,
    /// The offset in the file at which the buffer's first byte goes.
    offset: u64,
}

impl ComponentFiles {
    /// Files for a new SSTable; none exists yet.
    pub(crate) fn new(directory: &Path, descriptor: &Descriptor) -> ComponentFiles {
        ComponentFiles { directory: directory.to_owned(), descriptor: descriptor.clone(), files: Vec::new() }
    }

    /// Takes the bytes that a builder has finished and appends them to the components.
    pub(crate) async fn take(&mut self, builder: &mut Builder) -> Result<(), Error> {
        for component in builder.pending_components() {
            self.file(component).await?;
        }
        builder.drain(|component, bytes| {
            if let Some((_, file)) = self.files.iter_mut().find(|(known, _)| *known == component) {
                file.fill(bytes);
            }
        });
        for (_, file) in &mut self.files {
            file.write_pages().await.map_err(Error::Io)?;
        }
        Ok(())
    }

    /// Appends bytes to a component.
    pub(crate) async fn append(&mut self, component: Component, bytes: &[u8]) -> Result<(), Error> {
        let file = self.file(component).await?;
        file.fill(bytes);
        file.write_pages().await.map_err(Error::Io)
    }

    async fn file(&mut self, component: Component) -> Result<&mut GrowingFile, Error> {
        let at = match self.files.iter().position(|(known, _)| *known == component) {
            Some(at) => at,
            None => {
                let path = self.directory.join(self.descriptor.file_name(component));
                let options = OpenOptions { write: true, create: true, exclusive: true };
                let file = File::open(&path, options).await.map_err(Error::Io)?;
                self.files.push((component, GrowingFile { file, buffer: None, filled: 0, offset: 0 }));
                self.files.len() - 1
            }
        };
        Ok(&mut self.files[at].1)
    }

    /// Writes what is left, makes all files and their names durable, and returns which components there are.
    pub(crate) async fn finish(self) -> Result<HashSet<Component>, Error> {
        let mut components = HashSet::default();
        for (component, file) in self.files {
            file.finish().await.map_err(Error::Io)?;
            components.insert(component);
        }
        sync_dir(&self.directory).await.map_err(Error::Io)?;
        Ok(components)
    }
}

impl GrowingFile {
    fn fill(&mut self, bytes: &[u8]) {
        let needed = self.filled + bytes.len();
        let buffer = match self.buffer.take() {
            Some(buffer) if needed <= buffer.len() => self.buffer.insert(buffer),
            smaller => {
                let capacity = smaller.as_ref().map_or(0, |smaller| 2 * smaller.len());
                let larger = self.buffer.insert(AlignedBuf::zeroed(needed.max(capacity)));
                if let Some(smaller) = smaller {
                    larger[..self.filled].copy_from_slice(&smaller[..self.filled]);
                }
                larger
            }
        };
        buffer[self.filled..needed].copy_from_slice(bytes);
        self.filled = needed;
    }

    /// Writes the full pages of the buffer, if they have enough bytes for a write.
    async fn write_pages(&mut self) -> std::io::Result<()> {
        if self.filled < WRITE_BYTES {
            return Ok(());
        }
        let whole = self.filled / ALIGNMENT * ALIGNMENT;
        self.write(whole).await?;
        if let Some(buffer) = &mut self.buffer {
            buffer.copy_within(whole..self.filled, 0);
        }
        self.filled -= whole;
        self.offset += whole as u64;
        Ok(())
    }

    async fn write(&mut self, len: usize) -> std::io::Result<()> {
        let Some(mut buffer) = self.buffer.take() else { return Ok(()) };
        buffer.set_len(len);
        let (written, mut buffer) = self.file.write_at(buffer, self.offset).await;
        buffer.set_len(buffer.capacity());
        self.buffer = Some(buffer);
        written
    }

    async fn finish(mut self) -> std::io::Result<()> {
        let filled = self.filled;
        if let Some(buffer) = self.buffer.as_mut().filter(|_| filled > 0) {
            let padded = filled.next_multiple_of(ALIGNMENT);
            buffer[filled..padded].fill(0);
            self.write(padded).await?;
            if padded > filled {
                self.file.trim(self.offset + filled as u64).await?;
            }
        }
        self.file.sync().await
    }
}
