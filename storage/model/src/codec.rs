//! The encoding of mutations, versioned: the same bytes in the commit log, in hints and in messages between nodes.
//!
//! ```text
//! version u8 = 1
//! key length u16, key
//! tables, until the end:
//!   table id 16 bytes
//!   body length u32
//!   body:
//!     partition deletion flag u8 [timestamp i64, local deletion time i64]
//!     operations, until the end of the body:
//!       kind u8   1 row:            clustering length u32, clustering, blob length u32, blob
//!                 2 range deletion: timestamp i64, local deletion time i64,
//!                                   start inclusive u8, start length u32, start prefix, the same for the end
//!                 3 static row:     blob length u32, blob (without liveness and deletion)
//! ```
//! All integers little-endian.

use crate::clustering::{Clustering, ClusteringBound};
use crate::row::{Deletion, RowView};
use crate::schema::TableId;

/// The version that is written, and the only one that is read.
pub const VERSION: u8 = 1;

/// Largest encoded mutation in bytes: half of a commit log segment (32 MiB), as in Cassandra. Whoever builds a mutation
/// checks [`crate::MutationBuilder::len`] before using it, because a larger one cannot be decoded again.
pub const MUTATION_BYTES_MAX: usize = 16 << 20;

/// The error for bytes that are not a mutation: which part is malformed, and at which offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// The part that was being read.
    pub what: &'static str,
    /// Its offset in bytes from the start of the mutation.
    pub offset: usize,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed mutation: {} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// One change within a partition.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// New data for the row with this clustering.
    Row {
        /// All clustering values; empty for a table without clustering.
        clustering: Clustering<'a>,
        /// The data.
        row: RowView<'a>,
    },
    /// New data for the static row, which only a partition deletion can delete.
    StaticRow {
        /// The data, which consists of cells alone.
        row: RowView<'a>,
    },
    /// A deletion of all rows between two bounds.
    RangeDeletion {
        /// Where it starts.
        start: ClusteringBound<'a>,
        /// Where it ends.
        end: ClusteringBound<'a>,
        /// The time of the deletion.
        deletion: Deletion,
    },
}

/// Tag of a row among the operations.
pub(crate) const KIND_ROW: u8 = 1;
/// Tag of a range deletion among the operations.
pub(crate) const KIND_RANGE_DELETION: u8 = 2;
/// Tag of a static row among the operations.
pub(crate) const KIND_STATIC_ROW: u8 = 3;

/// Reads forward through bytes. Every method gives `None`, without moving, when too few bytes are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a> {
    /// The bytes not yet read.
    pub(crate) rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(crate) fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.chunk().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    /// The bytes after a u16 length.
    pub(crate) fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let len = u16::from_le_bytes(ahead.chunk()?);
        let bytes = ahead.take(len.into())?;
        *self = ahead;
        Some(bytes)
    }

    /// The bytes after a u32 length.
    pub(crate) fn long_bytes(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let len = u32::from_le_bytes(ahead.chunk()?);
        let bytes = ahead.take(len as usize)?;
        *self = ahead;
        Some(bytes)
    }

    pub(crate) fn deletion(&mut self) -> Option<Deletion> {
        let timestamp = i64::from_le_bytes(self.chunk()?);
        Some(Deletion { timestamp, local_deletion_time: i64::from_le_bytes(self.chunk()?) })
    }
}

/// Splits an encoded mutation into its key and the tables after it.
pub(crate) fn split_key(bytes: &[u8]) -> Option<(&[u8], ByteReader<'_>)> {
    let mut reader = ByteReader { rest: bytes };
    reader.u8()?;
    let key = reader.short_bytes()?;
    Some((key, reader))
}

/// The next table's id and the body of its changes.
pub(crate) fn next_table<'a>(reader: &mut ByteReader<'a>) -> Option<(TableId, &'a [u8])> {
    let table = TableId(reader.chunk()?);
    Some((table, reader.long_bytes()?))
}

/// The partition deletion at the start of a body.
pub(crate) fn partition_deletion(body: &mut ByteReader<'_>) -> Option<Deletion> {
    match body.u8()? {
        0 => Some(Deletion::LIVE),
        1 => body.deletion(),
        _ => None,
    }
}

/// The next operation of a body. Its row blob is not checked.
pub(crate) fn next_operation<'a>(body: &mut ByteReader<'a>) -> Option<Operation<'a>> {
    match body.u8()? {
        KIND_ROW => {
            let clustering = Clustering(body.long_bytes()?);
            Some(Operation::Row { clustering, row: RowView::trusted(body.long_bytes()?) })
        }
        KIND_RANGE_DELETION => {
            let deletion = body.deletion()?;
            let start = next_bound(body)?;
            Some(Operation::RangeDeletion { start, end: next_bound(body)?, deletion })
        }
        KIND_STATIC_ROW => Some(Operation::StaticRow { row: RowView::trusted(body.long_bytes()?) }),
        _ => None,
    }
}

fn next_bound<'a>(body: &mut ByteReader<'a>) -> Option<ClusteringBound<'a>> {
    let inclusive = match body.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some(ClusteringBound { prefix: Clustering(body.long_bytes()?), inclusive })
}

/// Checks an encoded mutation to its end, row blobs included, and returns its key.
pub(crate) fn check(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let offset = |reader: &ByteReader<'_>| bytes.len() - reader.rest.len();
    if bytes.len() > MUTATION_BYTES_MAX {
        return Err(DecodeError { what: "length", offset: MUTATION_BYTES_MAX });
    }
    if bytes.first() != Some(&VERSION) {
        return Err(DecodeError { what: "version", offset: 0 });
    }
    let (key, mut tables) = split_key(bytes).ok_or(DecodeError { what: "key", offset: 1 })?;
    while !tables.rest.is_empty() {
        let table_offset = offset(&tables);
        let (_, body) = next_table(&mut tables).ok_or(DecodeError { what: "table", offset: table_offset })?;
        let body_offset = table_offset + 16 + 4;
        check_body(body).map_err(|(what, at)| DecodeError { what, offset: body_offset + at })?;
    }
    Ok(key)
}

fn check_body(bytes: &[u8]) -> Result<(), (&'static str, usize)> {
    let mut body = ByteReader { rest: bytes };
    match partition_deletion(&mut body) {
        Some(deletion) if bytes[0] == 0 || !deletion.is_live() => {}
        _ => return Err(("partition deletion", 0)),
    }
    while !body.rest.is_empty() {
        let offset = bytes.len() - body.rest.len();
        match next_operation(&mut body).ok_or(("operation", offset))? {
            Operation::Row { clustering, row } => {
                if !clustering.is_well_formed() {
                    return Err(("clustering", offset));
                }
                RowView::parse(row.blob()).map_err(|_| ("row", offset))?;
            }
            Operation::StaticRow { row } => {
                let row = RowView::parse(row.blob()).map_err(|_| ("static row", offset))?;
                if row.liveness().is_some() || !row.deletion().is_live() {
                    return Err(("static row", offset));
                }
            }
            Operation::RangeDeletion { start, end, deletion } => {
                if deletion.is_live() || !start.prefix.is_well_formed() || !end.prefix.is_well_formed() {
                    return Err(("range deletion", offset));
                }
            }
        }
    }
    Ok(())
}
