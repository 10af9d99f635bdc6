//! An open SSTable: the components that are kept in memory, and cursors over the others.
//!
//! 1. [`Reader::open`] takes the bytes of the small components.
//! 2. [`Reader::scan`] and [`Reader::partition`] make a [`Cursor`], a state machine that asks for blocks.
//! 3. [`Reader::block_range`] tells which bytes of which file a block is made of, and [`Reader::decode_block`] checks
//!    and decompresses them.
//!
//! Invariants: nothing here waits or reads files; a block is checked against its checksum, if its file has one, before
//! anything is read from it.
//!
//! Cursors leave out what the table does not show; [`crate::walker`] goes over everything that Data.db holds.

mod backward;
mod cursor;
mod forward;
mod lookup;
mod reverse_block;
mod window;

pub use crate::block::LOOKUP_BLOCKS_MAX;
pub use cursor::{Cursor, CursorStep, UNFILTERED_BYTES_MAX};
pub use reverse_block::BACKWARD_BYTES_MAX;
pub(crate) use window::Window;

use crate::block::{BlockId, PAGE_BYTES};
use crate::compression::{ChunkChecksums, CompressionInfo};
use crate::descriptor::{Component, Descriptor};
use crate::error::{Error, Fault, Problem};
use crate::filter::{Filter, KeyHash};
use crate::index::Summary;
use crate::row_codec::{BoundKind, Codec};
use crate::statistics::{ClusteringBound, ClusteringBounds, Metadata};
use crate::trie::PartitionIndex;
use bytes::Bytes;
use model::comparable;
use model::query::Slice;
use model::schema::Table;
use model::token::TokenRange;
use model::{DecoratedKey, Partitioner};
use std::sync::Arc;

/// Bytes of a block of a Data.db that is neither compressed nor has a CRC.db, and of the blocks that CRC.db sums in
/// files written here.
pub const PLAIN_BLOCK_BYTES: usize = 64 << 10;

/// What [`Reader::open`] needs: the bytes of the small components and the lengths of the others.
#[derive(Clone, Copy, Default, Debug)]
pub struct ComponentBytes<'a> {
    /// Length of Data.db, in bytes.
    pub data_len: u64,
    /// The bytes of Statistics.db.
    pub statistics: &'a [u8],
    /// The bytes of CompressionInfo.db, if the SSTable is compressed.
    pub compression_info: Option<&'a [u8]>,
    /// The bytes of CRC.db, if there is one; uncompressed SSTables have it.
    pub crc: Option<&'a [u8]>,
    /// The bytes of Filter.db, if there is one.
    pub filter: Option<&'a [u8]>,
    /// Length of Partitions.db (`bti`) or Index.db (`big`), in bytes.
    pub index_len: u64,
    /// Length of Rows.db, in bytes.
    pub rows_len: u64,
    /// The last bytes of Partitions.db: all of it, or at least [`crate::trie::TAIL_BYTES_MAX`].
    pub partitions_tail: &'a [u8],
    /// The bytes of Summary.db (`big`); without it lookups read Index.db from its start.
    pub summary: Option<&'a [u8]>,
}

/// The part of the partition index that is kept in memory.
#[derive(Clone, Debug)]
pub(crate) enum Index {
    Bti(PartitionIndex),
    Big(Summary),
}

/// An open SSTable.
#[derive(Debug)]
pub struct Reader {
    descriptor: Descriptor,
    table: Arc<Table>,
    metadata: Metadata,
    /// The partitioner that Statistics.db names; Murmur3 if it names none that a node can have.
    partitioner: Partitioner,
    codec: Codec,
    compression: Option<CompressionInfo>,
    checksums: Option<ChunkChecksums>,
    filter: Option<Filter>,
    index: Index,
    /// Lengths of files, in bytes.
    data_file_len: u64,
    index_len: u64,
    rows_len: u64,
    /// Uncompressed bytes of Data.db.
    data_len: u64,
}

impl Reader {
    /// Opens an SSTable of a table. Rows are read without columns that the table does not have, and without cells that
    /// are older than the last drop of their column.
    ///
    /// # Errors
    /// A component is malformed or does not match its checksum, or its clustering is not the table's.
    pub fn open(descriptor: Descriptor, table: Arc<Table>, components: ComponentBytes<'_>) -> Result<Reader, Error> {
        let at = |component| {
            let descriptor = descriptor.clone();
            move |fault: Fault| fault.in_file(&descriptor, component)
        };
        let version = descriptor.version;
        let metadata = Metadata::parse(components.statistics, version).map_err(at(Component::Statistics))?;
        check_clustering(&metadata, &table).map_err(at(Component::Statistics))?;
        // Cassandra keeps batches and Paxos states in an order of their own, by the type of their keys.
        let partitioner = Partitioner::named(&metadata.partitioner).unwrap_or_default();
        let compression = components
            .compression_info
            .map(|bytes| CompressionInfo::parse(bytes, version).map_err(at(Component::CompressionInfo)))
            .transpose()?;
        let checksums =
            components.crc.map(|bytes| ChunkChecksums::parse(bytes).map_err(at(Component::Crc))).transpose()?;
        let filter =
            components.filter.map(|bytes| Filter::parse(bytes, version).map_err(at(Component::Filter))).transpose()?;
        let index = if version.is_bti() {
            let tail = PartitionIndex::parse(components.partitions_tail, components.index_len);
            Index::Bti(tail.map_err(at(Component::Partitions))?)
        } else {
            let summary = components.summary.map(|bytes| Summary::parse(bytes, partitioner));
            let summary = summary.transpose().map_err(at(Component::Summary))?;
            Index::Big(summary.unwrap_or_default())
        };
        let codec = Codec::new(version, &metadata.header, &table);
        let data_len = compression.as_ref().map_or(components.data_len, |compression| compression.data_len);
        let ComponentBytes { data_len: data_file_len, index_len, rows_len, .. } = components;
        Ok(Reader {
            descriptor,
            table,
            metadata,
            partitioner,
            codec,
            compression,
            checksums,
            filter,
            index,
            data_file_len,
            index_len,
            rows_len,
            data_len,
        })
    }

    /// Takes negative local deletion times, which versions before `oa` can hold and nobody writes on purpose, for
    /// damage (`corrupted_tombstone_strategy: exception`). Without this they are long past. A time to live that is not
    /// positive is damage in any case.
    pub fn refusing_negative_times(mut self, refuses: bool) -> Reader {
        self.codec.refuses_negative_times = refuses;
        self
    }

    /// Returns a reader of the same SSTable for a changed schema of its table. It shares the filter, the index and the
    /// chunk offsets with this one.
    ///
    /// # Errors
    /// The file's clustering is not the table's.
    pub fn with_table(&self, table: Arc<Table>) -> Result<Reader, Error> {
        let fault = |fault: Fault| fault.in_file(&self.descriptor, Component::Statistics);
        check_clustering(&self.metadata, &table).map_err(fault)?;
        Ok(Reader {
            descriptor: self.descriptor.clone(),
            metadata: self.metadata.clone(),
            partitioner: self.partitioner,
            codec: Codec {
                refuses_negative_times: self.codec.refuses_negative_times,
                ..Codec::new(self.descriptor.version, &self.metadata.header, &table)
            },
            table,
            compression: self.compression.clone(),
            checksums: self.checksums.clone(),
            filter: self.filter.clone(),
            index: self.index.clone(),
            data_file_len: self.data_file_len,
            index_len: self.index_len,
            rows_len: self.rows_len,
            data_len: self.data_len,
        })
    }

    /// Returns the SSTable's name.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the table that the SSTable was opened for.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the contents of Statistics.db.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the partitioner whose order the partitions are in.
    pub fn partitioner(&self) -> Partitioner {
        self.partitioner
    }

    /// Returns the contents of CompressionInfo.db, if Data.db is compressed.
    pub fn compression(&self) -> Option<&CompressionInfo> {
        self.compression.as_ref()
    }

    pub(crate) fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Returns the length of the uncompressed data of Data.db, in bytes.
    pub fn data_len(&self) -> u64 {
        self.data_len
    }

    /// Returns the first and the last partition key, if the index names them.
    pub fn key_bounds(&self) -> Option<(&[u8], &[u8])> {
        match &self.index {
            Index::Bti(index) => Some((&index.first, &index.last)),
            Index::Big(summary) => summary.key_bounds(),
        }
    }

    /// Returns the number of partitions, if the index has it: `bti` does, `big` does not.
    pub fn partition_count(&self) -> Option<u64> {
        match &self.index {
            Index::Bti(index) => Some(index.count),
            Index::Big(_) => None,
        }
    }

    /// Returns how many entries of Index.db lie from one entry of Summary.db to the next, if there is a Summary.db.
    pub fn index_interval(&self) -> Option<u32> {
        match &self.index {
            Index::Big(summary) if summary.min_interval > 0 => Some(summary.min_interval),
            _ => None,
        }
    }

    /// Returns the memory that the bloom filter takes, in bytes; 0 without a filter.
    pub fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::bits_bytes)
    }

    /// Returns whether the SSTable may hold the partition of a key, judged by the bloom filter alone.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(KeyHash::of(key))
    }

    /// Returns whether the SSTable may hold the partition of a key with this hash. For callers that ask many SSTables
    /// and hash the key once.
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// Returns the slice of clusterings, in comparable form, that holds all rows and range tombstones; `None` if the
    /// file does not have it, or not in a form that can be compared.
    pub fn clustering_slice(&self) -> Option<Slice> {
        let ClusteringBounds::Slice { start, end, .. } = &self.metadata.statistics.clustering_bounds else {
            return None;
        };
        let form = |bound: &ClusteringBound| {
            let values: Option<Vec<&[u8]>> = bound.values.iter().map(Option::as_deref).collect();
            let values = values.filter(|values| values.len() <= self.table.clustering_len)?;
            let mut out = Vec::new();
            comparable::bound(&self.table, values.into_iter(), BoundKind::from_number(bound.kind)?.side(), &mut out);
            Some(out.into_boxed_slice())
        };
        Some(Slice { start: form(start)?, end: form(end)? })
    }

    /// Returns a cursor over all partitions of a range of tokens.
    pub fn scan(self: &Arc<Self>, range: TokenRange) -> Cursor {
        self.scan_from(range, None, [Slice::all()].into())
    }

    /// Returns a cursor over the partitions of a range of tokens that come after the key `after`, which lies in the
    /// range, restricted to the rows in `slices`. The slices are in clustering order and do not overlap.
    pub fn scan_from(self: &Arc<Self>, range: TokenRange, after: Option<DecoratedKey>, slices: Arc<[Slice]>) -> Cursor {
        Cursor::scan(self.clone(), range, after, slices)
    }

    /// Returns a cursor over one partition, restricted to the rows in `slices`, last row first if `reversed`. The
    /// slices are in clustering order and do not overlap. The cursor is empty if the SSTable does not have the
    /// partition; it does not ask the bloom filter.
    pub fn partition(self: &Arc<Self>, key: DecoratedKey, slices: Arc<[Slice]>, reversed: bool) -> Cursor {
        Cursor::partition(self.clone(), key, slices, reversed)
    }

    /// Returns the length of a component's blocks, in bytes; the last block may be shorter.
    pub fn block_len(&self, component: Component) -> u64 {
        if component != Component::Data {
            return PAGE_BYTES as u64;
        }
        let chunk_len = match (&self.compression, &self.checksums) {
            (Some(compression), _) => compression.chunk_len,
            (None, Some(checksums)) => checksums.chunk_len,
            (None, None) => PLAIN_BLOCK_BYTES,
        };
        chunk_len as u64
    }

    /// Returns offset and length of the bytes that a block is made of, in its file: for a compressed Data.db those of
    /// the chunk with its checksum.
    ///
    /// # Errors
    /// The file does not have the block.
    pub fn block_range(&self, block: BlockId) -> Result<(u64, u64), Error> {
        let fault = |fault: Fault| fault.in_file(&self.descriptor, block.component);
        let len = self.file_len(block.component);
        if let (Component::Data, Some(compression)) = (block.component, &self.compression) {
            return compression.chunk(block.offset, len).map_err(fault);
        }
        match len.checked_sub(block.offset) {
            Some(left) if left > 0 => Ok((block.offset, left.min(self.block_len(block.component)))),
            _ => Err(fault(Fault { offset: block.offset, problem: Problem::Truncated })),
        }
    }

    /// Makes a block from the bytes of its range: checks them, and decompresses those of a compressed Data.db.
    ///
    /// # Errors
    /// The bytes do not match their checksum, or a chunk does not decompress to its length.
    pub fn decode_block(&self, block: BlockId, raw: Bytes) -> Result<Bytes, Error> {
        match (block.component, &self.compression) {
            (Component::Data, Some(_)) => self.decode_data_block(block, &raw),
            _ => self.check_block(block, &raw).map(|_| raw),
        }
    }

    /// Makes a block of Data.db from borrowed bytes of its range, as [`Reader::decode_block`] does from shared ones.
    ///
    /// # Errors
    /// The bytes do not match their checksum, or a chunk does not decompress to its length.
    pub fn decode_data_block(&self, block: BlockId, raw: &[u8]) -> Result<Bytes, Error> {
        let mut out = vec![0; self.decoded_len(block, raw.len())?];
        self.decode_data(block, raw, &mut out)?;
        Ok(out.into())
    }

    /// Returns the length of a decoded block of Data.db whose range in the file has `raw_len` bytes.
    ///
    /// # Errors
    /// The codec cannot decompress so few bytes to that length.
    fn decoded_len(&self, block: BlockId, raw_len: usize) -> Result<usize, Error> {
        let Some(compression) = &self.compression else { return Ok(raw_len) };
        compression.len_at(block.offset, raw_len).map_err(|fault| fault.in_file(&self.descriptor, block.component))
    }

    /// Fills `out`, which has the block's decoded length, with a block of Data.db made from the bytes of its range.
    fn decode_data(&self, block: BlockId, raw: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let offset = self.check_block(block, raw)?;
        match &self.compression {
            None => out.copy_from_slice(raw),
            Some(compression) => compression
                .decode(offset, raw, out)
                .map_err(|fault| fault.in_file(&self.descriptor, block.component))?,
        }
        Ok(())
    }

    /// Checks the bytes of a block's range, except for the checksum of a compressed chunk. Returns their offset in the
    /// file.
    fn check_block(&self, block: BlockId, raw: &[u8]) -> Result<u64, Error> {
        let fault = |fault: Fault| fault.in_file(&self.descriptor, block.component);
        let (offset, len) = self.block_range(block)?;
        if raw.len() as u64 != len {
            return Err(fault(Fault { offset, problem: Problem::Truncated }));
        }
        if let (Component::Data, None, Some(checksums)) = (block.component, &self.compression, &self.checksums) {
            checksums.check(block.offset, raw).map_err(fault)?;
        }
        Ok(offset)
    }

    fn file_len(&self, component: Component) -> u64 {
        match component {
            Component::Data => self.data_file_len,
            Component::Partitions | Component::Index => self.index_len,
            Component::Rows => self.rows_len,
            _ => 0,
        }
    }
}

/// Checks that the file has as many clustering columns as the table, each in the same order.
fn check_clustering(metadata: &Metadata, table: &Table) -> Result<(), Fault> {
    let fields = &metadata.header.clustering;
    let suits = fields.iter().zip(table.clustering()).all(|(field, column)| field.descending == column.descending);
    match suits && fields.len() == table.clustering_len {
        true => Ok(()),
        false => Err(Fault::invalid(0, "of the table's clustering")),
    }
}
