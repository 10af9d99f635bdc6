//! An open SSTable: what is kept in memory of it, and the cursors over it.
//!
//! 1. [`Reader::open`] takes the bytes of the small components.
//! 2. [`Reader::scan`] and [`Reader::partition`] make cursors, state machines over blocks ([`Cursor`]).
//! 3. [`Reader::block_range`] says which bytes of which file a block is, [`Reader::decode_block`] makes the block of them.
//!
//! Invariants: nothing here waits or reads files; a block is checked against its checksum, if its file has one, before
//! anything is read from it.

mod backward;
mod cursor;
mod forward;
mod lookup;
mod window;

pub use backward::BACKWARD_BYTES_MAX;
pub use cursor::{Cursor, CursorStep, UNFILTERED_BYTES_MAX};
pub(crate) use window::Window;

use crate::compression::{Checksums, CompressionInfo};
use crate::descriptor::{Component, Descriptor};
use crate::filter::{Filter, KeyHash};
use crate::index::Summary;
use crate::input::{Fault, Problem};
use crate::row_codec::{BoundKind, Codec};
use crate::statistics::{ClusteringBound, ClusteringBounds, Metadata};
use crate::trie::{PAGE_BYTES, PartitionIndex};
use crate::{BlockId, Error};
use bytes::Bytes;
use model::comparable;
use model::key::TokenRange;
use model::query::Slice;
use model::schema::Table;
use model::{DecoratedKey, Token};
use std::sync::Arc;

/// Bytes of a block of Data.db that is neither compressed nor has a CRC.db, and most of those of one that has.
pub const PLAIN_BLOCK_BYTES: usize = 64 << 10;
/// Most blocks that one lookup in an index may need.
pub const LOOKUP_BLOCKS_MAX: usize = 1 << 10;

/// What opening needs: the bytes of the small components and the lengths of the others.
#[derive(Clone, Copy, Default, Debug)]
pub struct ComponentBytes<'a> {
    /// Bytes of Data.db.
    pub data_len: u64,
    /// Statistics.db.
    pub statistics: &'a [u8],
    /// CompressionInfo.db of a compressed SSTable.
    pub compression_info: Option<&'a [u8]>,
    /// CRC.db of one that is not compressed.
    pub crc: Option<&'a [u8]>,
    /// Filter.db, if there is one.
    pub filter: Option<&'a [u8]>,
    /// Bytes of Partitions.db or Index.db.
    pub index_len: u64,
    /// Bytes of Rows.db.
    pub rows_len: u64,
    /// The end of Partitions.db: all of it or at least [`crate::trie::TAIL_BYTES_MAX`].
    pub partitions_tail: &'a [u8],
    /// Summary.db of a big SSTable; without it lookups read Index.db from its start.
    pub summary: Option<&'a [u8]>,
}

/// The index of the partitions.
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
    codec: Codec,
    compression: Option<CompressionInfo>,
    checksums: Option<Checksums>,
    filter: Option<Filter>,
    index: Index,
    /// Bytes of Data.db, its index and Rows.db.
    lens: [u64; 3],
    /// Uncompressed bytes.
    data_len: u64,
}

impl Reader {
    /// Opens an SSTable of a table. Columns of the file that the table does not have are left out of its rows, and so are
    /// cells from before a column was dropped and added again.
    ///
    /// # Errors
    /// A component that is malformed, or of which the checksum is wrong; types that do not suit the table's clustering.
    pub fn open(descriptor: Descriptor, table: Arc<Table>, parts: ComponentBytes<'_>) -> Result<Reader, Error> {
        let at = |component| {
            let descriptor = descriptor.clone();
            move |fault: Fault| fault.in_file(&descriptor, component)
        };
        let version = descriptor.version;
        let metadata = Metadata::parse(parts.statistics, version).map_err(at(Component::Statistics))?;
        check_clustering(&metadata, &table).map_err(at(Component::Statistics))?;
        let compression = parts
            .compression_info
            .map(|bytes| CompressionInfo::parse(bytes).map_err(at(Component::CompressionInfo)))
            .transpose()?;
        let checksums = parts.crc.map(|bytes| Checksums::parse(bytes).map_err(at(Component::Crc))).transpose()?;
        let filter = parts.filter.map(|bytes| Filter::parse(bytes).map_err(at(Component::Filter))).transpose()?;
        let index = if version.is_bti() {
            let tail = PartitionIndex::parse(parts.partitions_tail, parts.index_len);
            Index::Bti(tail.map_err(at(Component::Partitions))?)
        } else {
            let summary = parts.summary.map(Summary::parse).transpose().map_err(at(Component::Summary))?;
            Index::Big(summary.unwrap_or_default())
        };
        let codec = Codec::new(version, &metadata.header, &table);
        let data_len = compression.as_ref().map_or(parts.data_len, |compression| compression.data_len);
        let lens = [parts.data_len, parts.index_len, parts.rows_len];
        Ok(Reader { descriptor, table, metadata, codec, compression, checksums, filter, index, lens, data_len })
    }

    /// The same SSTable for its table as it is now: what [`Reader::open`] says of columns holds for these. Shares what is
    /// large with this one.
    ///
    /// # Errors
    /// Types that do not suit the table's clustering.
    pub fn with_table(&self, table: Arc<Table>) -> Result<Reader, Error> {
        let fault = |fault: Fault| fault.in_file(&self.descriptor, Component::Statistics);
        check_clustering(&self.metadata, &table).map_err(fault)?;
        Ok(Reader {
            descriptor: self.descriptor.clone(),
            metadata: self.metadata.clone(),
            codec: Codec::new(self.descriptor.version, &self.metadata.header, &table),
            table,
            compression: self.compression.clone(),
            checksums: self.checksums.clone(),
            filter: self.filter.clone(),
            index: self.index.clone(),
            lens: self.lens,
            data_len: self.data_len,
        })
    }

    /// Its name.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The table that it was opened for.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Its Statistics.db.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Its CompressionInfo.db, if it is compressed.
    pub fn compression(&self) -> Option<&CompressionInfo> {
        self.compression.as_ref()
    }

    pub(crate) fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Uncompressed bytes of Data.db.
    pub fn data_len(&self) -> u64 {
        self.data_len
    }

    /// First and last partition key, if the file says so.
    pub fn key_bounds(&self) -> Option<(&[u8], &[u8])> {
        match &self.index {
            Index::Bti(index) => Some((&index.first, &index.last)),
            Index::Big(summary) => summary.key_bounds(),
        }
    }

    /// Partitions, if the index counts them: that of bti does.
    pub fn partition_count(&self) -> Option<u64> {
        match &self.index {
            Index::Bti(index) => Some(index.count),
            Index::Big(_) => None,
        }
    }

    /// Entries of Index.db between two of Summary.db, if there is one.
    pub fn index_interval(&self) -> Option<u32> {
        match &self.index {
            Index::Big(summary) if summary.min_interval > 0 => Some(summary.min_interval),
            _ => None,
        }
    }

    /// Bytes of the filter in memory; 0 without one.
    pub fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::bits_bytes)
    }

    /// Whether the partition of a key may be in it, by the filter alone.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(KeyHash::of(key))
    }

    /// [`Reader::may_contain`] by the hash of the key, for who asks many SSTables.
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// The clusterings that its rows and range deletions lie between, by their comparable forms; `None` if the file does
    /// not say or says it in a way that cannot be compared.
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

    /// A cursor over all rows of the partitions of a range of tokens.
    pub fn scan(self: &Arc<Self>, range: TokenRange) -> Cursor {
        self.scan_from(range, None, [Slice::all()].into())
    }

    /// [`Reader::scan`] of the partitions behind `after`, which lies in the range, if it is given, and of the rows in
    /// `slices` (in clustering order, not overlapping) alone.
    pub fn scan_from(self: &Arc<Self>, range: TokenRange, after: Option<DecoratedKey>, slices: Arc<[Slice]>) -> Cursor {
        Cursor::scan(self.clone(), range, after, slices)
    }

    /// A cursor over the rows of one partition that lie in `slices` (in clustering order, not overlapping), in reverse if
    /// `reversed`. Without the partition it gives nothing. It does not ask the filter.
    pub fn partition(self: &Arc<Self>, key: DecoratedKey, slices: Arc<[Slice]>, reversed: bool) -> Cursor {
        Cursor::partition(self.clone(), key, slices, reversed)
    }

    /// Bytes of the blocks of a component, but for its last one.
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

    /// Where the bytes of a block are in its file: offset and length. A compressed block's are its chunk's.
    ///
    /// # Errors
    /// A block that the file does not have.
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

    /// The block of the bytes of its range: checked, and decompressed if it is of a compressed Data.db.
    ///
    /// # Errors
    /// A checksum that is wrong; a chunk that does not decompress to its length.
    pub fn decode_block(&self, block: BlockId, raw: Bytes) -> Result<Bytes, Error> {
        match (block.component, &self.compression) {
            (Component::Data, Some(_)) => self.decode_data_block(block, &raw),
            _ => self.check_block(block, &raw).map(|_| raw),
        }
    }

    /// A block of Data.db of the bytes of its range, which it does not keep: checked and decompressed.
    ///
    /// # Errors
    /// As of [`Reader::decode_block`].
    pub fn decode_data_block(&self, block: BlockId, raw: &[u8]) -> Result<Bytes, Error> {
        let mut out = vec![0; self.decoded_len(block, raw.len())];
        self.decode_data(block, raw, &mut out)?;
        Ok(out.into())
    }

    /// Bytes of a block of Data.db, whose range in the file has `raw_len` bytes.
    fn decoded_len(&self, block: BlockId, raw_len: usize) -> usize {
        self.compression.as_ref().map_or(raw_len, |compression| compression.len_at(block.offset))
    }

    /// Fills `out` with a block of Data.db, of the bytes of its range.
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

    /// Checks the bytes of a block's range, the checksum of a compressed chunk excepted; where they are in the file.
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
            Component::Data => self.lens[0],
            Component::Partitions | Component::Index => self.lens[1],
            Component::Rows => self.lens[2],
            _ => 0,
        }
    }
}

/// Whether clusterings of the file are those of the table.
fn check_clustering(metadata: &Metadata, table: &Table) -> Result<(), Fault> {
    let fields = &metadata.header.clustering;
    let suits = fields.iter().zip(table.clustering()).all(|(field, column)| field.descending == column.descending);
    match suits && fields.len() == table.clustering_len {
        true => Ok(()),
        false => Err(Fault::invalid(0, "of the table's clustering")),
    }
}

/// Why a step of a lookup or a cursor ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// A block is not there.
    Need(BlockId),
    /// The bytes of a component cannot be used.
    Fault(Component, Fault),
    /// The same, the component being that of the lookup's index.
    IndexFault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::IndexFault(fault)
    }
}

/// Blocks of indexes that were brought for a lookup, which starts over whenever one more is there.
#[derive(Default, Debug)]
pub(crate) struct Blocks {
    held: Vec<(BlockId, Bytes)>,
}

impl Blocks {
    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    pub(crate) fn supply(&mut self, block: BlockId, bytes: Bytes) {
        if !self.held.iter().any(|(held, _)| *held == block) {
            self.held.push((block, bytes));
        }
    }

    /// Forgets the blocks of a component that lie before an offset.
    pub(crate) fn forget_before(&mut self, component: Component, offset: u64) {
        self.held.retain(|(block, bytes)| block.component != component || block.offset + bytes.len() as u64 > offset);
    }

    /// The bytes from an offset to the end of its block.
    pub(crate) fn rest_of_block(&self, component: Component, at: u64) -> Result<&[u8], Stop> {
        let block = BlockId { component, offset: at - at % PAGE_BYTES as u64 };
        match self.held.iter().find(|(held, _)| *held == block) {
            Some((_, bytes)) => Ok(bytes.get((at - block.offset) as usize..).unwrap_or_default()),
            None if self.held.len() >= LOOKUP_BLOCKS_MAX => {
                Err(Stop::Fault(component, Fault { offset: at, problem: Problem::Limit("LOOKUP_BLOCKS_MAX") }))
            }
            None => Err(Stop::Need(block)),
        }
    }

    /// What `read` makes of the bytes from an offset on, of as many blocks as it needs. The file has `len` bytes.
    pub(crate) fn read<T>(
        &self,
        component: Component,
        at: u64,
        len: u64,
        read: impl Fn(&mut crate::input::Input<'_>) -> Result<T, Fault>,
    ) -> Result<(T, u64), Stop> {
        if at >= len {
            return Err(Stop::Fault(component, Fault { offset: at, problem: Problem::Truncated }));
        }
        let first = self.rest_of_block(component, at)?;
        let mut joined: Vec<u8> = Vec::new();
        loop {
            let bytes = if joined.is_empty() { first } else { &joined };
            let mut input = crate::input::Input::new(bytes, at);
            match read(&mut input) {
                Ok(found) => return Ok((found, input.offset())),
                Err(fault) if fault.problem == Problem::Truncated && at + (bytes.len() as u64) < len => {
                    let next = self.rest_of_block(component, at + bytes.len() as u64)?;
                    if next.is_empty() {
                        return Err(Stop::Fault(component, fault));
                    }
                    joined = [bytes, next].concat();
                }
                Err(fault) => return Err(Stop::Fault(component, fault)),
            }
        }
    }
}

/// A token just above `token`; `None` above the last.
pub(crate) fn next_token(token: Token) -> Option<Token> {
    token.0.checked_add(1).map(Token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_brings_no_more_blocks_than_it_may() {
        let mut blocks = Blocks::default();
        let block = |index: usize| BlockId { component: Component::Rows, offset: (index * PAGE_BYTES) as u64 };
        (1..LOOKUP_BLOCKS_MAX).for_each(|index| blocks.supply(block(index), Bytes::new()));
        assert_eq!(blocks.rest_of_block(Component::Rows, 0), Err(Stop::Need(block(0))));
        blocks.supply(block(LOOKUP_BLOCKS_MAX), Bytes::new());
        let fault = Fault { offset: 0, problem: Problem::Limit("LOOKUP_BLOCKS_MAX") };
        assert_eq!(blocks.rest_of_block(Component::Rows, 0), Err(Stop::Fault(Component::Rows, fault)));
    }
}
