//! An open SSTable of this shard: its files, and the reader over them.
//!
//! The reader interprets the files by the table's schema at the time of opening; [`OpenSstable::with_table`] makes a
//! reader with a newer schema over the same files. A block is read with one direct read of the pages in which it
//! lies. Each page is checked if there is a `Helenus.db`; the format's own checksums are checked always.
//!
//! Invariants: bytes are checked before they are used; a fault is an error of the read that met it, which names file
//! and offset.

use super::block_cache::BlockCache;
use super::read_buffers::{BUFFER_BYTES_MAX, ReadBuffers};
use crate::commitlog::position::LogPosition;
use crate::error::Error;
use bytes::Bytes;
use model::query::Slice;
use model::{Table, Token};
use runtime::buffer::{ALIGNMENT, AlignedBuf};
use runtime::file::{OpenOptions, read_small};
use runtime::{File, HashSet};
use sstable::reader::{ComponentBytes, Reader};
use sstable::sidecar::Sidecar;
use sstable::statistics::ClusteringBounds;
use sstable::trie::TAIL_BYTES_MAX;
use sstable::{BlockId, Component, Descriptor, Problem};
use std::cell::{Cell, OnceCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The longest component that may be read into memory as a whole, bytes.
pub(super) const HELD_BYTES_MAX: usize = 1 << 30;

/// An open SSTable.
pub(crate) struct OpenSstable {
    pub(crate) reader: Arc<Reader>,
    /// Identifies the SSTable in this shard as long as the process runs; never reused.
    pub(crate) number: u64,
    pub(crate) directory: PathBuf,
    /// Bytes of Data.db on disk.
    pub(crate) data_bytes: u64,
    /// Bytes of all its files on disk.
    pub(crate) disk_bytes: u64,
    /// How many files it has.
    pub(crate) files: usize,
    /// Whether another program, or a node with another shard map, wrote it. Each shard serves its own tokens of a
    /// foreign one.
    pub(crate) foreign: bool,
    tokens: (Token, Token),
    /// Whether a read has found damaged bytes in it.
    pub(crate) suspect: Rc<Cell<bool>>,
    /// A slice that contains all its rows and range deletions, if one is known.
    covered: Option<Slice>,
    shared: Rc<SharedFiles>,
}

/// What does not depend on the table's schema.
struct SharedFiles {
    number: u64,
    sidecar: Option<Sidecar>,
    data: File,
    index: File,
    rows: Option<File>,
    /// The cache that holds blocks of this SSTable, once one does.
    cache: OnceCell<Rc<BlockCache>>,
}

impl Drop for SharedFiles {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.get() {
            cache.forget(self.number);
        }
    }
}

impl OpenSstable {
    /// Opens an SSTable in a table's directory; `components` lists its files. `refuses_negative_times` as in
    /// [`Reader::refusing_negative_times`].
    pub(crate) async fn open(
        directory: &Path,
        descriptor: &Descriptor,
        components: &HashSet<Component>,
        table: Arc<Table>,
        number: u64,
        refuses_negative_times: bool,
    ) -> Result<OpenSstable, Error> {
        let opening = OpeningFiles { directory, descriptor, components };
        let statistics = opening.required(Component::Statistics).await?;
        let sidecar = match opening.optional(Component::Helenus).await? {
            Some(bytes) => Some(Sidecar::open(descriptor, &bytes).map_err(|error| opening.bad(error))?),
            None => None,
        };
        let compression_info = opening.optional(Component::CompressionInfo).await?;
        let crc = opening.optional(Component::Crc).await?;
        let filter = opening.optional(Component::Filter).await?;
        let summary = opening.optional(Component::Summary).await?;
        let (data, data_len) = opening.file(Component::Data).await?;
        let index = if descriptor.version.is_bti() { Component::Partitions } else { Component::Index };
        let (index_file, index_len) = opening.file(index).await?;
        let (rows, rows_len) = match components.contains(&Component::Rows) {
            true => opening.file(Component::Rows).await.map(|(file, len)| (Some(file), len))?,
            false => (None, 0),
        };
        let tail_from = index_len.saturating_sub(TAIL_BYTES_MAX as u64) / ALIGNMENT as u64 * ALIGNMENT as u64;
        let tail = match descriptor.version.is_bti() {
            true => Bytes::from_owner(read_range(&index_file, None, tail_from, index_len).await.map_err(Error::Io)?),
            false => Bytes::new(),
        };
        if let Some(sidecar) = &sidecar {
            let listed = sidecar.components.iter().map(|pages| pages.component);
            if let Some(missing) = listed.into_iter().find(|component| {
                !matches!(component, Component::Filter | Component::Summary | Component::Digest | Component::Toc)
                    && !components.contains(component)
            }) {
                return Err(opening.failed(missing, io::ErrorKind::NotFound.into()));
            }
            let held = [
                (Component::Statistics, Some(&statistics)),
                (Component::CompressionInfo, compression_info.as_ref()),
                (Component::Crc, crc.as_ref()),
                (Component::Filter, filter.as_ref()),
                (Component::Summary, summary.as_ref()),
            ];
            for (component, bytes) in held.into_iter().filter_map(|(component, bytes)| Some((component, bytes?))) {
                let whole = BlockId { component, offset: 0 };
                sidecar.check(descriptor, whole, bytes).map_err(|error| opening.bad(error))?;
            }
            if descriptor.version.is_bti() {
                let end = BlockId { component: index, offset: tail_from };
                sidecar.check(descriptor, end, &tail).map_err(|error| opening.bad(error))?;
            }
        }
        let parts = ComponentBytes {
            data_len,
            statistics: &statistics,
            compression_info: compression_info.as_deref(),
            crc: crc.as_deref(),
            filter: filter.as_deref(),
            index_len,
            rows_len,
            partitions_tail: &tail,
            summary: summary.as_deref(),
        };
        let reader = Reader::open(descriptor.clone(), table, parts).map_err(|error| opening.bad(error))?;
        let reader = reader.refusing_negative_times(refuses_negative_times);
        let tokens = match reader.key_bounds() {
            Some((first, last)) => (reader.partitioner().token(first), reader.partitioner().token(last)),
            None => (Token::MIN, Token::MAX),
        };
        let held = [Some(&statistics), compression_info.as_ref(), crc.as_ref(), filter.as_ref(), summary.as_ref()];
        let held_bytes: u64 = held.into_iter().flatten().map(|bytes| bytes.len() as u64).sum();
        let covered = reader.clustering_slice();
        Ok(OpenSstable {
            reader: Arc::new(reader),
            number,
            directory: directory.to_owned(),
            data_bytes: data_len,
            disk_bytes: data_len + index_len + rows_len + held_bytes,
            files: components.len(),
            foreign: false,
            tokens,
            suspect: Rc::default(),
            covered,
            shared: Rc::new(SharedFiles { number, sidecar, data, index: index_file, rows, cache: OnceCell::new() }),
        })
    }

    /// The same files with another schema of the table.
    ///
    /// # Errors
    /// The files do not fit the schema.
    pub(crate) fn with_table(&self, table: Arc<Table>) -> Result<OpenSstable, Error> {
        let reader = self.reader.with_table(table).map_err(|error| self.bad(error))?;
        Ok(OpenSstable {
            reader: Arc::new(reader),
            number: self.number,
            directory: self.directory.clone(),
            data_bytes: self.data_bytes,
            disk_bytes: self.disk_bytes,
            files: self.files,
            foreign: self.foreign,
            tokens: self.tokens,
            suspect: self.suspect.clone(),
            covered: self.covered.clone(),
            shared: self.shared.clone(),
        })
    }

    /// Whether anything except the caller's reference keeps the files open.
    pub(crate) fn is_read(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) > 1 || Rc::strong_count(&self.shared) > 1
    }

    /// The tokens of the first and the last partition.
    pub(crate) fn tokens(&self) -> (Token, Token) {
        self.tokens
    }

    /// The largest timestamp in it, microseconds.
    pub(crate) fn max_timestamp(&self) -> i64 {
        self.reader.metadata().statistics.max_timestamp
    }

    /// The parts of the commit log whose rows it holds, each from the first position up to the second (excluded).
    pub(crate) fn log_intervals(&self) -> impl Iterator<Item = (LogPosition, LogPosition)> {
        let intervals = &self.reader.metadata().statistics.log_intervals;
        intervals.iter().map(|(lower, upper)| (LogPosition::from(*lower), LogPosition::from(*upper)))
    }

    /// Whether it may have rows or range deletions in some of these slices.
    pub(crate) fn covers_any(&self, slices: &[Slice]) -> bool {
        self.covered.as_ref().is_none_or(|covered| {
            slices
                .iter()
                .any(|slice| slice.start <= covered.end && (slice.end.is_empty() || covered.start <= slice.end))
        })
    }

    /// Whether it may have deletions of whole partitions.
    pub(crate) fn deletes_partitions(&self) -> bool {
        let statistics = &self.reader.metadata().statistics;
        // Old formats do not distinguish deletions of partitions from other tombstones.
        let unknown = matches!(statistics.clustering_bounds, ClusteringBounds::Legacy { .. })
            && !statistics.tombstones.is_empty();
        statistics.partition_deletions || unknown
    }

    /// Whether it may have static cells.
    pub(crate) fn has_statics(&self) -> bool {
        !self.reader.metadata().header.statics.is_empty()
    }

    /// Notes the cache that keeps its blocks, so that they are dropped when the files are closed.
    pub(crate) fn cached_in(&self, cache: &Rc<BlockCache>) {
        let _ = self.shared.cache.set(cache.clone());
    }

    /// An estimate of how many partitions it has.
    pub(crate) fn partitions(&self) -> u64 {
        self.reader.metadata().statistics.partition_sizes.buckets.iter().map(|count| (*count).max(0) as u64).sum()
    }

    /// Its `Helenus.db`; `None` if another program wrote the SSTable.
    pub(crate) fn sidecar(&self) -> Option<&Sidecar> {
        self.shared.sidecar.as_ref()
    }

    /// Reads a block with one read from disk, checks and decodes it.
    pub(crate) async fn load(&self, block: BlockId) -> Result<Bytes, Error> {
        let loaded = self.load_unmarked(block).await;
        self.mark(loaded)
    }

    /// Like [`OpenSstable::load`], but reads into a pooled buffer if the decoded block does not keep the bytes that
    /// were read.
    pub(crate) async fn load_in(&self, buffers: &ReadBuffers, block: BlockId) -> Result<Bytes, Error> {
        if block.component != Component::Data || self.reader.compression().is_none() {
            return self.load(block).await;
        }
        let mut loaded = Bytes::new();
        self.load_run(buffers, &[block], |_, bytes| loaded = bytes).await?;
        Ok(loaded)
    }

    /// Reads ascending blocks of Data.db with one read from disk, checks and decodes them, and gives each to `take`;
    /// stops at the first faulty one. Several blocks must be a run ([`OpenSstable::is_run`]).
    pub(crate) async fn load_run(
        &self,
        buffers: &ReadBuffers,
        blocks: &[BlockId],
        take: impl FnMut(BlockId, Bytes),
    ) -> Result<(), Error> {
        let loaded = self.load_run_unmarked(buffers, blocks, take).await;
        self.mark(loaded)
    }

    /// Whether the blocks of Data.db from `first` to `last` span at most [`BUFFER_BYTES_MAX`] in the file. In a
    /// damaged file a chunk between them may have any length; reading that chunk reports the damage.
    pub(crate) fn is_run(&self, first: BlockId, last: BlockId) -> bool {
        let range = |block| self.reader.block_range(block).ok();
        let (Some((start, _)), Some((last, len))) = (range(first), range(last)) else { return false };
        last.saturating_add(len).saturating_sub(start) <= BUFFER_BYTES_MAX as u64
    }

    /// Marks the SSTable as suspect if `loaded` is a fault in its bytes.
    fn mark<T>(&self, loaded: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::BadSstable { .. }) = loaded {
            self.suspect.set(true);
        }
        loaded
    }

    async fn load_unmarked(&self, block: BlockId) -> Result<Bytes, Error> {
        let (offset, len) = self.reader.block_range(block).map_err(|error| self.bad(error))?;
        let (from, pages) = self.pages(block.component, offset, len).await?;
        self.decode(block, from, &pages)
    }

    async fn load_run_unmarked(
        &self,
        buffers: &ReadBuffers,
        blocks: &[BlockId],
        mut take: impl FnMut(BlockId, Bytes),
    ) -> Result<(), Error> {
        let range = |block: &BlockId| self.reader.block_range(*block).map_err(|error| self.bad(error));
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return Ok(()) };
        let ((start, _), (last, last_len)) = (range(first)?, range(last)?);
        let len = (last + last_len).saturating_sub(start);
        let (from, pages) = self.pages_into(buffers.take(), Component::Data, start, len).await?;
        let mut decode = |block: &BlockId| -> Result<(), Error> {
            let (offset, len) = range(block)?;
            let at = (offset.saturating_sub(from) as usize).min(pages.len());
            let raw = &pages[at..(at + len as usize).min(pages.len())];
            // Copied even if it is not compressed, so that a cached block does not keep the memory of the whole read.
            take(*block, self.reader.decode_data_block(*block, raw).map_err(|error| self.bad(error))?);
            Ok(())
        };
        decode(first)?;
        for block in blocks.iter().skip(1) {
            runtime::yield_if_needed().await;
            decode(block)?;
        }
        buffers.give(pages);
        Ok(())
    }

    /// Reads and, if there is a `Helenus.db`, checks the pages that contain `len` bytes of a component from `offset`
    /// on. Returns the offset of the first page, and the pages.
    pub(crate) async fn pages(&self, component: Component, offset: u64, len: u64) -> Result<(u64, Bytes), Error> {
        let (from, pages) = self.pages_into(None, component, offset, len).await?;
        Ok((from, Bytes::from_owner(pages)))
    }

    /// Like [`OpenSstable::pages`], but reads into `buffer` if that is long enough.
    pub(crate) async fn pages_into(
        &self,
        buffer: Option<AlignedBuf>,
        component: Component,
        offset: u64,
        len: u64,
    ) -> Result<(u64, AlignedBuf), Error> {
        let file = match component {
            Component::Data => &self.shared.data,
            Component::Rows => self.shared.rows.as_ref().unwrap_or(&self.shared.index),
            _ => &self.shared.index,
        };
        let from = offset / ALIGNMENT as u64 * ALIGNMENT as u64;
        let end = match self.sidecar() {
            // Checksums cover whole pages.
            Some(sidecar) => {
                let file_len = sidecar.len(component).unwrap_or(offset + len);
                (offset + len).next_multiple_of(ALIGNMENT as u64).min(file_len)
            }
            None => offset + len,
        };
        let pages = read_range(file, buffer, from, end).await.map_err(Error::Io)?;
        if let Some(sidecar) = self.sidecar() {
            let place = BlockId { component, offset: from };
            sidecar.check(self.reader.descriptor(), place, &pages).map_err(|error| self.bad(error))?;
        }
        Ok((from, pages))
    }

    /// Decodes a block from pages that begin at offset `from` of its file.
    pub(crate) fn decode(&self, block: BlockId, from: u64, pages: &Bytes) -> Result<Bytes, Error> {
        let (offset, len) = self.reader.block_range(block).map_err(|error| self.bad(error))?;
        let start = (offset.saturating_sub(from) as usize).min(pages.len());
        let raw = pages.slice(start..(start + len as usize).min(pages.len()));
        self.reader.decode_block(block, raw).map_err(|error| self.bad(error))
    }

    /// An error that names this SSTable.
    pub(crate) fn bad(&self, error: sstable::Error) -> Error {
        Error::BadSstable { directory: self.directory.clone(), error }
    }
}

/// The bytes `from..to` of a file, fewer if it ends before, in `buffer` if there is room; `from` is a multiple of a
/// page.
pub(super) async fn read_range(
    file: &File,
    buffer: Option<AlignedBuf>,
    from: u64,
    to: u64,
) -> std::io::Result<AlignedBuf> {
    let wanted = to.saturating_sub(from) as usize;
    let padded = wanted.max(1).next_multiple_of(ALIGNMENT);
    let large = buffer.filter(|buffer| padded <= buffer.capacity());
    let mut buffer = large.unwrap_or_else(|| AlignedBuf::zeroed(padded));
    buffer.set_len(padded);
    let (read, mut buffer) = file.read_at(buffer, from).await;
    buffer.set_len(read?.min(wanted));
    Ok(buffer)
}

/// The files of an SSTable that is being opened.
struct OpeningFiles<'a> {
    directory: &'a Path,
    descriptor: &'a Descriptor,
    components: &'a HashSet<Component>,
}

impl OpeningFiles<'_> {
    fn path(&self, component: Component) -> PathBuf {
        self.directory.join(self.descriptor.file_name(component))
    }

    fn bad(&self, error: sstable::Error) -> Error {
        Error::BadSstable { directory: self.directory.to_owned(), error }
    }

    async fn required(&self, component: Component) -> Result<Vec<u8>, Error> {
        read_small(&self.path(component), HELD_BYTES_MAX).await.map_err(|error| self.failed(component, error))
    }

    /// The error of a call on a component: that it is missing is damage.
    fn failed(&self, component: Component, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => {
                self.bad(sstable::Error::new(self.descriptor, component, 0, Problem::Invalid("there")))
            }
            _ => Error::Io(error),
        }
    }

    async fn optional(&self, component: Component) -> Result<Option<Vec<u8>>, Error> {
        match self.components.contains(&component) {
            true => self.required(component).await.map(Some),
            false => Ok(None),
        }
    }

    async fn file(&self, component: Component) -> Result<(File, u64), Error> {
        let opened = File::open(&self.path(component), OpenOptions::default()).await;
        let file = opened.map_err(|error| self.failed(component, error))?;
        let len = file.len().await.map_err(Error::Io)?;
        Ok((file, len))
    }
}
