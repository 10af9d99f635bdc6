//! An SSTable on its way to disk: pieces of its components, as they come, to files.
//!
//! Files are written in whole pages past the system's cache; the padding of the last page is cut off at the end. They are
//! durable, names included, when [`Output::finish`] returns.

use crate::Error;
use runtime::file::{OpenOptions, sync_dir};
use runtime::{AlignedBuf, File, HashSet};
use sstable::writer::Builder;
use sstable::{Component, Descriptor};
use std::path::{Path, PathBuf};

/// Bytes of one write.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes that a builder may hold before they are taken from it.
pub(crate) const WAITING_BYTES_MAX: usize = 256 << 10;

/// See the module.
pub(crate) struct Output {
    directory: PathBuf,
    descriptor: Descriptor,
    files: Vec<(Component, ComponentFile)>,
}

/// A file that grows.
struct ComponentFile {
    file: File,
    buffer: AlignedBuf,
    filled: usize,
    /// Where the buffer goes.
    offset: u64,
}

impl Output {
    /// Of an SSTable of which no file is there yet.
    pub(crate) fn new(directory: &Path, descriptor: &Descriptor) -> Output {
        Output { directory: directory.to_owned(), descriptor: descriptor.clone(), files: Vec::new() }
    }

    /// Writes what a builder has ready.
    pub(crate) async fn take(&mut self, builder: &mut Builder) -> Result<(), Error> {
        let mut pieces: Vec<(Component, Vec<u8>)> = Vec::new();
        builder.drain(|component, bytes| pieces.push((component, bytes.to_vec())));
        for (component, bytes) in pieces {
            self.append(component, &bytes).await?;
        }
        Ok(())
    }

    /// Adds bytes to a component.
    pub(crate) async fn append(&mut self, component: Component, bytes: &[u8]) -> Result<(), Error> {
        let at = match self.files.iter().position(|(known, _)| *known == component) {
            Some(at) => at,
            None => {
                let path = self.directory.join(self.descriptor.file_name(component));
                let options = OpenOptions { write: true, create: true, exclusive: true };
                let file = File::open(&path, options).await.map_err(Error::Io)?;
                let file = ComponentFile { file, buffer: AlignedBuf::zeroed(WRITE_BYTES), filled: 0, offset: 0 };
                self.files.push((component, file));
                self.files.len() - 1
            }
        };
        self.files[at].1.append(bytes).await.map_err(Error::Io)
    }

    /// Ends all files and makes them durable; which components there are.
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

impl ComponentFile {
    async fn append(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let taken = bytes.len().min(WRITE_BYTES - self.filled);
            self.buffer[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == WRITE_BYTES {
                self.write(WRITE_BYTES).await?;
                self.offset += WRITE_BYTES as u64;
                self.filled = 0;
            }
        }
        Ok(())
    }

    async fn write(&mut self, len: usize) -> std::io::Result<()> {
        let mut buffer = std::mem::replace(&mut self.buffer, AlignedBuf::zeroed(1));
        buffer.set_len(len);
        let (written, buffer) = self.file.write_at(buffer, self.offset).await;
        self.buffer = buffer;
        self.buffer.set_len(WRITE_BYTES);
        written
    }

    async fn finish(mut self) -> std::io::Result<()> {
        let filled = self.filled;
        if filled > 0 {
            let padded = filled.next_multiple_of(runtime::buffer::ALIGNMENT);
            self.buffer[filled..padded].fill(0);
            self.write(padded).await?;
            if padded > filled {
                self.file.trim(self.offset + filled as u64).await?;
            }
        }
        self.file.sync().await
    }
}
