//! Everything that Data.db holds, as it is in the file, with offsets: for the tools that show or check files.
//!
//! 1. A [`Walker`] goes over Data.db from front to back: a step gives a [`FileItem`] or names the block that it needs.
//! 2. Columns are those of the header, in its order; cells of a complex column are in the order of the file.
//!
//! Invariants: a step that needs a block changes nothing; after an error every step gives the same error.

use crate::block::BlockId;
use crate::descriptor::Component;
use crate::error::{Error, Fault, Problem};
use crate::input::Input;
use crate::reader::{Reader, UNFILTERED_BYTES_MAX, Window};
use crate::row_codec::{
    BoundKind, Codec, END_OF_PARTITION, EXTENDED, EXTENDED_SHADOWABLE, EXTENDED_STATIC, HAS_ALL_COLUMNS,
    HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP, HAS_TTL, IS_MARKER, RawContent, body, read_subset, within,
};
use crate::statistics::read_values;
use bytes::Bytes;
use model::row::{Deletion, Liveness, NO_DELETION_TIME};
use std::sync::Arc;

/// A cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileCell {
    /// The timestamp, in microseconds.
    pub timestamp: i64,
    /// The time to live, in seconds; 0 without one.
    pub ttl: i32,
    /// When the cell expires or was deleted, in seconds; [`NO_DELETION_TIME`] for a live cell.
    pub local_deletion_time: i64,
    /// Which element it is, in a complex column.
    pub path: Option<Vec<u8>>,
    /// The value; empty for a tombstone.
    pub value: Vec<u8>,
}

impl FileCell {
    /// Returns whether the cell is a tombstone.
    pub fn is_tombstone(&self) -> bool {
        self.local_deletion_time != NO_DELETION_TIME && self.ttl == 0
    }
}

/// A row's cells of one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileColumn {
    /// The column's index among the header's static or regular columns.
    pub index: usize,
    /// The deletion of a complex column; live otherwise.
    pub deletion: Deletion,
    /// One cell, or any number of cells in a complex column.
    pub cells: Vec<FileCell>,
}

/// A row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRow {
    /// Clustering values; `None` is null. Empty for a static row.
    pub clustering: Vec<Option<Vec<u8>>>,
    /// The liveness of the primary key.
    pub liveness: Option<Liveness>,
    /// The deletion of the row.
    pub deletion: Deletion,
    /// Whether newer liveness cancels the deletion, as in materialized views.
    pub shadowable: bool,
    /// The columns that the row has.
    pub columns: Vec<FileColumn>,
}

impl FileRow {
    /// Returns whether the row holds nothing.
    pub fn is_empty(&self) -> bool {
        self.liveness.is_none() && self.deletion.is_live() && self.columns.is_empty()
    }
}

/// A range tombstone marker: a bound of one tombstone, or the boundary of two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileMarker {
    /// The kind of bound.
    pub kind: BoundKind,
    /// The clustering prefix of the bound; `None` is null.
    pub clustering: Vec<Option<Vec<u8>>>,
    /// The range tombstone that ends here; live if none does.
    pub ends: Deletion,
    /// The range tombstone that starts here; live if none does.
    pub starts: Deletion,
}

/// A piece of Data.db.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileItem {
    /// A partition's head.
    Partition {
        /// The serialised partition key.
        key: Vec<u8>,
        /// The deletion of the partition.
        deletion: Deletion,
        /// The static row, if there is one that is not empty.
        statics: Option<FileRow>,
        /// The offset of the partition in the uncompressed data.
        start: u64,
        /// The offset of its first row or marker.
        rows_at: u64,
    },
    /// A row and its offset.
    Row(FileRow, u64),
    /// A marker and its offset.
    Marker(FileMarker, u64),
    /// The partition's end, and the offset of the next partition.
    PartitionEnd(u64),
}

/// The outcome of [`Walker::step`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WalkStep {
    /// A piece of Data.db.
    Item(FileItem),
    /// This block has to be supplied ([`Walker::supply`]) before the walker can go on.
    Need(BlockId),
    /// The end of the file.
    End,
}

/// A walk over Data.db. It does no I/O: [`Walker::step`] names the blocks that it needs.
#[derive(Debug)]
pub struct Walker {
    reader: Arc<Reader>,
    window: Window,
    at: u64,
    inside_partition: bool,
    failed: Option<Error>,
}

impl Walker {
    /// Returns a walker at the beginning of Data.db.
    pub fn new(reader: Arc<Reader>) -> Walker {
        Walker { reader, window: Window::default(), at: 0, inside_partition: false, failed: None }
    }

    /// Returns the SSTable that is walked over.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Returns the offset of the next piece in the uncompressed data.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Goes to the offset of a partition.
    pub fn seek(&mut self, at: u64) {
        self.at = at;
        self.inside_partition = false;
    }

    /// Supplies a block that was needed, as [`Reader::decode_block`] made it.
    pub fn supply(&mut self, block: BlockId, bytes: Bytes) {
        self.window.supply(self.at, block.offset, bytes);
    }

    /// Goes on to the next piece, or names a block that is needed first.
    ///
    /// # Errors
    /// The bytes are malformed. Every further call returns the same error.
    pub fn step(&mut self) -> Result<WalkStep, Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let len = self.reader.data_len();
        self.window.forget(self.at);
        if !self.inside_partition && self.at >= len {
            return Ok(WalkStep::End);
        }
        let input = self.window.input(self.at);
        let result = match input {
            Some(mut input) if !input.is_empty() => {
                let read = if self.inside_partition {
                    read_unfiltered(self.reader.codec(), &mut input)
                } else {
                    read_head(self.reader.codec(), &mut input)
                };
                read.map(|item| (item, input.offset()))
            }
            _ => Err(Fault { offset: self.at, problem: Problem::Truncated }),
        };
        match result {
            Ok((item, end)) => {
                self.inside_partition = !matches!(item, FileItem::PartitionEnd(_));
                self.at = end;
                Ok(WalkStep::Item(item))
            }
            Err(fault) if fault.problem == Problem::Truncated && self.window.end_after(self.at) < len => {
                if self.window.len() > UNFILTERED_BYTES_MAX {
                    return self.fail(Fault { offset: self.at, problem: Problem::Limit("UNFILTERED_BYTES_MAX") });
                }
                let block_len = self.reader.block_len(Component::Data);
                let end = self.window.end_after(self.at);
                Ok(WalkStep::Need(BlockId { component: Component::Data, offset: end - end % block_len }))
            }
            Err(fault) => self.fail(fault),
        }
    }

    fn fail<T>(&mut self, fault: Fault) -> Result<T, Error> {
        let error = fault.in_file(self.reader.descriptor(), Component::Data);
        self.failed = Some(error.clone());
        Err(error)
    }
}

fn read_head(codec: &Codec, input: &mut Input<'_>) -> Result<FileItem, Fault> {
    let start = input.offset();
    let key = input.short_bytes()?.to_vec();
    let deletion = codec.read_partition_deletion(input)?;
    let mut statics = None;
    if !codec.statics.is_empty() {
        let flags = peek(input)?;
        if flags & EXTENDED != 0 && flags & (END_OF_PARTITION | IS_MARKER) == 0 {
            let mut ahead = *input;
            ahead.u8()?;
            if ahead.u8()? & EXTENDED_STATIC != 0 {
                *input = ahead;
                let row = read_row(codec, flags, EXTENDED_STATIC, input)?;
                statics = (!row.is_empty()).then_some(row);
            }
        }
    }
    Ok(FileItem::Partition { key, deletion, statics, start, rows_at: input.offset() })
}

fn peek(input: &Input<'_>) -> Result<u8, Fault> {
    let mut ahead = *input;
    ahead.u8()
}

fn read_unfiltered(codec: &Codec, input: &mut Input<'_>) -> Result<FileItem, Fault> {
    let start = *input;
    let flags = input.u8()?;
    if flags & END_OF_PARTITION != 0 {
        return Ok(FileItem::PartitionEnd(input.offset()));
    }
    if flags & IS_MARKER != 0 {
        return read_marker(codec, input).map(|marker| FileItem::Marker(marker, start.offset()));
    }
    let extended = if flags & EXTENDED != 0 { input.u8()? } else { 0 };
    if extended & !EXTENDED_SHADOWABLE != 0 || flags & (HAS_TIMESTAMP | HAS_TTL) == HAS_TTL {
        return start.invalid("flags of a row");
    }
    read_row(codec, flags, extended, input).map(|row| FileItem::Row(row, start.offset()))
}

fn read_clustering(codec: &Codec, input: &mut Input<'_>, count: usize) -> Result<Vec<Option<Vec<u8>>>, Fault> {
    let Some(fields) = codec.clustering.get(..count) else { return input.invalid("a count of clustering values") };
    let mut values = Vec::with_capacity(count);
    read_values(input, fields.iter().map(|field| field.fixed_len), |value| {
        values.push(value.map(<[u8]>::to_vec));
        Ok(())
    })?;
    Ok(values)
}

fn read_marker(codec: &Codec, input: &mut Input<'_>) -> Result<FileMarker, Fault> {
    let start = *input;
    let Some(kind) = BoundKind::from_number(input.u8()?) else { return start.invalid("the kind of a bound") };
    let count = input.u16()?;
    let clustering = read_clustering(codec, input, count.into())?;
    let len = input.len()?;
    let mut body = body(input, len)?;
    let mut read = || {
        body.vint()?;
        let first = codec.deletion(&mut body)?;
        let second = if kind.is_boundary() { codec.deletion(&mut body)? } else { Deletion::LIVE };
        let (ends, starts) = if kind.is_start() { (second, first) } else { (first, second) };
        Ok((ends, starts))
    };
    let (ends, starts) = read().map_err(within)?;
    Ok(FileMarker { kind, clustering, ends, starts })
}

fn read_row(codec: &Codec, flags: u8, extended: u8, input: &mut Input<'_>) -> Result<FileRow, Fault> {
    let is_static = extended & EXTENDED_STATIC != 0;
    let clustering = if is_static { Vec::new() } else { read_clustering(codec, input, codec.clustering.len())? };
    let len = input.len()?;
    let body = body(input, len)?;
    let mut row = FileRow {
        clustering,
        liveness: None,
        deletion: Deletion::LIVE,
        shadowable: extended & EXTENDED_SHADOWABLE != 0,
        columns: Vec::new(),
    };
    read_body(codec, flags, is_static, body, &mut row).map_err(within)?;
    Ok(row)
}

fn read_body(codec: &Codec, flags: u8, is_static: bool, mut input: Input<'_>, row: &mut FileRow) -> Result<(), Fault> {
    let bytes = input.rest();
    input.vint()?;
    if flags & HAS_TIMESTAMP != 0 {
        let timestamp = codec.timestamp(&mut input)?;
        let expiry = if flags & HAS_TTL != 0 {
            let ttl = codec.ttl(&mut input)?;
            Some((ttl, codec.local_deletion_time(&mut input)?))
        } else {
            None
        };
        row.liveness = Some(Liveness { timestamp, expiry });
    }
    if flags & HAS_DELETION != 0 {
        row.deletion = codec.deletion(&mut input)?;
    }
    let columns = if is_static { &codec.statics } else { &codec.regulars };
    let mut present: Vec<u16> = Vec::new();
    if flags & HAS_ALL_COLUMNS != 0 {
        present.extend(0..columns.len() as u16);
    } else {
        read_subset(&mut input, columns.len(), &mut present)?;
    }
    for index in present {
        let index = usize::from(index);
        let Some(layout) = columns.get(index) else { return input.invalid("a column of the header") };
        let mut column = FileColumn { index, deletion: Deletion::LIVE, cells: Vec::new() };
        let count = if layout.complex {
            if flags & HAS_COMPLEX_DELETION != 0 {
                column.deletion = codec.deletion(&mut input)?;
            }
            let count = input.vint()?;
            input.count(count, 2)?
        } else {
            1
        };
        for _ in 0..count {
            let cell = codec.read_cell(&mut input, bytes.len(), layout, row.liveness)?;
            let (ttl, local_deletion_time) = match cell.content {
                RawContent::Live | RawContent::Counter => (0, NO_DELETION_TIME),
                RawContent::Expiring { ttl, end } => (ttl, end),
                RawContent::Deleted { time } | RawContent::ColumnDeletion { time } => (0, time),
            };
            column.cells.push(FileCell {
                timestamp: cell.timestamp,
                ttl,
                local_deletion_time,
                path: cell.path.map(|path| bytes.get(path).unwrap_or_default().to_vec()),
                value: bytes.get(cell.value).unwrap_or_default().to_vec(),
            });
        }
        row.columns.push(column);
    }
    if input.is_empty() { Ok(()) } else { input.invalid("the end of a row") }
}
