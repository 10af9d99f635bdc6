//! An SSTable on disk: its components, and everything that its Data.db holds, in order.

use super::Failure;
use bytes::Bytes;
use model::TableId;
use runtime::blocking::{self, BlockingFile};
use sstable::reader::{ComponentBytes, Reader};
use sstable::statistics::Metadata;
use sstable::walker::{FileItem, WalkStep, Walker};
use sstable::{BlockId, Component, Descriptor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory and the name of an SSTable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Location {
    pub(crate) directory: PathBuf,
    pub(crate) descriptor: Descriptor,
}

impl Location {
    /// Returns the SSTable that a file belongs to.
    pub(crate) fn of(file: &Path) -> Result<Location, Failure> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((descriptor, _)) = Descriptor::parse(&name) else {
            return Err(Failure(format!(
                "Invalid sstable file {name}: the name doesn't look like a supported sstable file name"
            )));
        };
        let full = blocking::canonical(file)?;
        Ok(Location { directory: full.parent().unwrap_or(Path::new("/")).to_path_buf(), descriptor })
    }

    pub(crate) fn path(&self, component: Component) -> PathBuf {
        self.directory.join(self.descriptor.file_name(component))
    }

    pub(crate) fn has(&self, component: Component) -> bool {
        blocking::exists(&self.path(component))
    }

    /// Returns the path that all files of the SSTable begin with.
    pub(crate) fn base(&self) -> String {
        self.directory.join(self.descriptor.to_string()).display().to_string()
    }

    /// Reads a component; `None` if there is no such file.
    pub(crate) fn read(&self, component: Component) -> Result<Option<Vec<u8>>, Failure> {
        let path = self.path(component);
        if !blocking::exists(&path) {
            return Ok(None);
        }
        let failure = |error: std::io::Error| Failure(format!("{}: {error}", path.display()));
        blocking::read(&path).map(Some).map_err(failure)
    }

    pub(crate) fn metadata(&self) -> Result<Option<Metadata>, Failure> {
        match self.read(Component::Statistics)? {
            Some(bytes) => Ok(Some(Metadata::open(&self.descriptor, &bytes)?)),
            None => Ok(None),
        }
    }

    /// Opens the SSTable under the schema that its own header describes.
    pub(crate) fn open(&self) -> Result<Opened, Failure> {
        let missing = |component: Component| Failure(format!("{} is missing", self.path(component).display()));
        let statistics = self.read(Component::Statistics)?.ok_or_else(|| missing(Component::Statistics))?;
        let metadata = Metadata::open(&self.descriptor, &statistics)?;
        let mut table =
            metadata.header.table().ok_or_else(|| Failure(format!("{}: a type that is not known", self.base())))?;
        table.id = TableId([0; 16]);
        let index = if self.descriptor.version.is_bti() { Component::Partitions } else { Component::Index };
        let mut files = BTreeMap::new();
        let mut lens = [0; 3];
        for (component, len) in [Component::Data, index, Component::Rows].into_iter().zip(&mut lens) {
            if self.has(component) {
                let file = BlockingFile::open(&self.path(component))?;
                *len = file.len()?;
                files.insert(component, file);
            } else if component != Component::Rows {
                return Err(missing(component));
            }
        }
        let partitions = if self.descriptor.version.is_bti() { self.read(Component::Partitions)? } else { None };
        let summary = if self.descriptor.version.is_bti() { None } else { self.read(Component::Summary)? };
        let (compression_info, crc) = (self.read(Component::CompressionInfo)?, self.read(Component::Crc)?);
        let filter = self.read(Component::Filter)?;
        let components = ComponentBytes {
            data_len: lens[0],
            statistics: &statistics,
            compression_info: compression_info.as_deref(),
            crc: crc.as_deref(),
            filter: filter.as_deref(),
            index_len: lens[1],
            rows_len: lens[2],
            partitions_tail: partitions.as_deref().unwrap_or_default(),
            summary: summary.as_deref(),
        };
        let reader = Arc::new(Reader::open(self.descriptor.clone(), Arc::new(table), components)?);
        Ok(Opened { reader, files })
    }
}

/// An open SSTable and its files.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) reader: Arc<Reader>,
    files: BTreeMap<Component, BlockingFile>,
}

impl Opened {
    /// Reads and decodes a block that a walker or cursor needs.
    pub(crate) fn block(&self, block: BlockId) -> Result<Bytes, Failure> {
        let (offset, len) = self.reader.block_range(block)?;
        let name = || self.reader.descriptor().file_name(block.component);
        let file = self.files.get(&block.component).ok_or_else(|| Failure(format!("{} is missing", name())))?;
        let raw = file.read_at(offset, len as usize).map_err(|error| Failure(format!("{}: {error}", name())))?;
        Ok(self.reader.decode_block(block, Bytes::from(raw))?)
    }

    /// Returns everything that Data.db holds, in order.
    pub(crate) fn items(&self) -> FileItems<'_> {
        FileItems { opened: self, walker: Walker::new(self.reader.clone()) }
    }
}

/// The items of a Data.db, which are read as they are asked for.
#[derive(Debug)]
pub(crate) struct FileItems<'o> {
    opened: &'o Opened,
    walker: Walker,
}

impl FileItems<'_> {
    /// Reads the next item; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<FileItem>, Failure> {
        loop {
            match self.walker.step()? {
                WalkStep::Item(item) => return Ok(Some(item)),
                WalkStep::Need(block) => self.walker.supply(block, self.opened.block(block)?),
                WalkStep::End => return Ok(None),
            }
        }
    }
}
