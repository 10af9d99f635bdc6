//! Rows as bytes. One encoding serves mutations, memtables, fragments between cursors and row blocks, so that a row is
//! copied between them and never encoded again.
//!
//! Row blob, little-endian:
//! ```text
//! flags u8            1 has liveness, 2 liveness expires, 4 has deletion
//! [liveness]          timestamp i64 [ttl i32, local expiration i64]
//! [deletion]          timestamp i64, local deletion time i64
//! cells               until the end of the blob, sorted by (column, path), a column's deletion before its cells:
//!   column u16
//!   flags u8          1 deleted, 2 expiring, 4 has path, 8 column deletion (no value), 16 a counter (alone)
//!   timestamp i64
//!   [deleted, expiring or column deletion]  local deletion time i64 (seconds)
//!   [expiring]        ttl i32
//!   [has path]        length u32, path
//!   [neither deleted nor column deletion]   length u32, value; of a counter its context
//! ```
//! Paths sort by memcmp whatever the type of the element. Whoever shows a collection sorts it by
//! [`crate::value::compare`].
//!
//! Invariants: a blob that [`RowView::parse`] accepted is well-formed to its end, counter contexts included; iterating
//! over it never panics.

use crate::counter::CounterContext;
use crate::schema::ColumnId;

/// The timestamp of something that was never written.
pub const NO_TIMESTAMP: i64 = i64::MIN;
/// The local deletion time of something that is not deleted.
pub const NO_DELETION_TIME: i64 = i64::MAX;

/// A deletion: everything written at or before `timestamp` is deleted. `local_deletion_time` is when gc_grace starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deletion {
    /// Write timestamp of the deletion, microseconds.
    pub timestamp: i64,
    /// Time of the deletion, seconds since 1970.
    pub local_deletion_time: i64,
}

impl Deletion {
    /// No deletion.
    pub const LIVE: Deletion = Deletion { timestamp: NO_TIMESTAMP, local_deletion_time: NO_DELETION_TIME };

    /// Whether this is no deletion.
    pub fn is_live(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Whether this deletes what was written at `timestamp`.
    pub fn deletes(&self, timestamp: i64) -> bool {
        !self.is_live() && timestamp <= self.timestamp
    }

    /// The later of two deletions; of equal timestamps the larger local deletion time.
    pub fn max(self, other: Deletion) -> Deletion {
        if (other.timestamp, other.local_deletion_time) > (self.timestamp, self.local_deletion_time) && !other.is_live()
            || self.is_live()
        {
            other
        } else {
            self
        }
    }
}

/// The record that a row exists even if all of its columns are null. INSERT writes one, UPDATE does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Liveness {
    /// Write timestamp, microseconds.
    pub timestamp: i64,
    /// The time to live in seconds, and the second since 1970 at which it ends; `None` if it does not expire.
    pub expiry: Option<(i32, i64)>,
}

/// A cell, borrowed from a row blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell<'a> {
    /// Its column.
    pub column: ColumnId,
    /// Write timestamp, microseconds.
    pub timestamp: i64,
    /// Its content.
    pub content: CellContent<'a>,
    /// The element's path in a multi-cell collection or user type.
    pub path: Option<&'a [u8]>,
}

/// The content of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellContent<'a> {
    /// A value.
    Live(&'a [u8]),
    /// The context of a counter ([`crate::counter`]).
    Counter(&'a [u8]),
    /// A value that expires.
    Expiring {
        /// The value.
        value: &'a [u8],
        /// The time to live it was written with, seconds.
        ttl: i32,
        /// Seconds since 1970.
        local_deletion_time: i64,
    },
    /// A deleted cell.
    Deleted {
        /// Seconds since 1970.
        local_deletion_time: i64,
    },
    /// A deletion of all older cells of this multi-cell column.
    ColumnDeletion {
        /// Seconds since 1970.
        local_deletion_time: i64,
    },
}

impl<'a> Cell<'a> {
    /// The value if the cell is live at `now` (seconds since 1970); for a counter its context.
    pub fn value_at(&self, now: i64) -> Option<&'a [u8]> {
        match self.content {
            CellContent::Live(value) | CellContent::Counter(value) => Some(value),
            CellContent::Expiring { value, local_deletion_time, .. } if now < local_deletion_time => Some(value),
            _ => None,
        }
    }

    /// The sort key of a cell within its row: by column, a column deletion first, then by path (memcmp).
    pub fn sort_key(&self) -> (ColumnId, bool, Option<&'a [u8]>) {
        (self.column, !matches!(self.content, CellContent::ColumnDeletion { .. }), self.path)
    }
}

/// The error for bytes that are not a row blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

const ROW_LIVENESS: u8 = 1;
const ROW_EXPIRES: u8 = 2;
const ROW_DELETION: u8 = 4;

const CELL_DELETED: u8 = 1;
const CELL_EXPIRING: u8 = 2;
const CELL_PATH: u8 = 4;
const CELL_COLUMN_DELETION: u8 = 8;
const CELL_COUNTER: u8 = 16;

/// Bytes of what every cell begins with: column, flags, timestamp.
const CELL_HEAD_BYTES: usize = 11;

/// A well-formed row blob.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    blob: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Checks a blob to its end, the order of its cells included.
    pub fn parse(blob: &'a [u8]) -> Result<RowView<'a>, Malformed> {
        let (&flags, _) = blob.split_first().ok_or(Malformed)?;
        if flags & !(ROW_LIVENESS | ROW_EXPIRES | ROW_DELETION) != 0
            || flags & (ROW_LIVENESS | ROW_EXPIRES) == ROW_EXPIRES
            || blob.len() < head_len(flags)
        {
            return Err(Malformed);
        }
        let row = RowView { blob };
        if flags & ROW_DELETION != 0 && row.deletion().is_live() {
            return Err(Malformed);
        }
        let mut cells = row.cells();
        let mut previous: Option<Cell<'_>> = None;
        for cell in cells.by_ref() {
            if previous.is_some_and(|previous| previous.sort_key() >= cell.sort_key())
                || matches!(cell.content, CellContent::ColumnDeletion { .. }) && cell.timestamp == NO_TIMESTAMP
                || matches!(cell.content, CellContent::Counter(context) if CounterContext::parse(context).is_err())
            {
                return Err(Malformed);
            }
            previous = Some(cell);
        }
        if cells.rest.is_empty() { Ok(row) } else { Err(Malformed) }
    }

    /// Reads a blob that came out of [`RowView::parse`], [`RowBuilder`] or [`crate::merge`] before. It is not checked.
    pub fn trusted(blob: &'a [u8]) -> RowView<'a> {
        RowView { blob }
    }

    /// The bytes.
    pub fn blob(&self) -> &'a [u8] {
        self.blob
    }

    fn flags(&self) -> u8 {
        self.blob.first().copied().unwrap_or(0)
    }

    /// Whether the row holds nothing: no liveness, no deletion, no cell.
    pub fn is_empty(&self) -> bool {
        self.flags() & (ROW_LIVENESS | ROW_DELETION) == 0 && self.blob.len() <= 1
    }

    /// The liveness of the primary key.
    pub fn liveness(&self) -> Option<Liveness> {
        let flags = self.flags();
        if flags & ROW_LIVENESS == 0 {
            return None;
        }
        let mut rest = self.blob.get(1..)?;
        let timestamp = take_i64(&mut rest)?;
        let expiry = if flags & ROW_EXPIRES != 0 { Some((take_i32(&mut rest)?, take_i64(&mut rest)?)) } else { None };
        Some(Liveness { timestamp, expiry })
    }

    /// The deletion of the row.
    pub fn deletion(&self) -> Deletion {
        let flags = self.flags();
        if flags & ROW_DELETION == 0 {
            return Deletion::LIVE;
        }
        self.blob
            .get(head_len(flags & !ROW_DELETION)..)
            .and_then(|mut rest| {
                let timestamp = take_i64(&mut rest)?;
                Some(Deletion { timestamp, local_deletion_time: take_i64(&mut rest)? })
            })
            .unwrap_or(Deletion::LIVE)
    }

    /// The cells in their order.
    pub fn cells(&self) -> Cells<'a> {
        Cells { rest: self.blob.get(head_len(self.flags())..).unwrap_or_default() }
    }
}

/// Number of bytes before the first cell.
fn head_len(flags: u8) -> usize {
    let liveness = if flags & ROW_LIVENESS != 0 { 8 } else { 0 };
    let expiry = if flags & ROW_EXPIRES != 0 { 12 } else { 0 };
    let deletion = if flags & ROW_DELETION != 0 { 16 } else { 0 };
    1 + liveness + expiry + deletion
}

fn take_i64(rest: &mut &[u8]) -> Option<i64> {
    let (bytes, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(i64::from_le_bytes(*bytes))
}

fn take_i32(rest: &mut &[u8]) -> Option<i32> {
    let (bytes, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(i32::from_le_bytes(*bytes))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, tail) = rest.split_first_chunk()?;
    let (bytes, tail) = tail.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *rest = tail;
    Some(bytes)
}

/// Bytes of a cell with a value and without a path before its value: column, flags, timestamp, length.
const PLAIN_HEAD_BYTES: usize = 2 + 1 + 8 + 4;

/// A cell that has a value, does not expire and has no path, without its value.
#[derive(Clone, Copy)]
pub(crate) struct PlainCell {
    pub(crate) column: ColumnId,
    pub(crate) timestamp: i64,
    /// The bytes that it takes.
    pub(crate) bytes: usize,
}

/// The iterator of [`RowView::cells`].
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    rest: &'a [u8],
}

impl<'a> Cells<'a> {
    /// The bytes not yet read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next cell, if it is a value that does not expire, without a path; nothing of it is taken.
    #[inline]
    pub(crate) fn peek_plain(&self) -> Option<PlainCell> {
        let (head, rest) = self.rest.split_first_chunk::<PLAIN_HEAD_BYTES>()?;
        let [c0, c1, 0, timestamp @ .., l0, l1, l2, l3] = *head else { return None };
        let value_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        (value_bytes <= rest.len()).then_some(PlainCell {
            column: ColumnId(u16::from_le_bytes([c0, c1])),
            timestamp: i64::from_le_bytes(timestamp),
            bytes: PLAIN_HEAD_BYTES + value_bytes,
        })
    }

    /// Passes over the cell that [`Cells::peek_plain`] has returned.
    #[inline]
    pub(crate) fn skip_plain(&mut self, cell: &PlainCell) {
        self.rest = &self.rest[cell.bytes..];
    }
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let (head, mut rest) = self.rest.split_first_chunk::<11>()?;
        let [c0, c1, flags, timestamp @ ..] = *head;
        let column = ColumnId(u16::from_le_bytes([c0, c1]));
        let timestamp = i64::from_le_bytes(timestamp);
        let (content, path) = if flags & !CELL_PATH == 0 {
            let path = if flags != 0 { Some(take_bytes(&mut rest)?) } else { None };
            (CellContent::Live(take_bytes(&mut rest)?), path)
        } else if flags == CELL_COUNTER {
            (CellContent::Counter(take_bytes(&mut rest)?), None)
        } else {
            let local_deletion_time = take_i64(&mut rest)?;
            let ttl = if flags & CELL_EXPIRING != 0 { take_i32(&mut rest)? } else { 0 };
            let path = if flags & CELL_PATH != 0 { Some(take_bytes(&mut rest)?) } else { None };
            let content = match flags & !CELL_PATH {
                CELL_DELETED => CellContent::Deleted { local_deletion_time },
                CELL_EXPIRING => CellContent::Expiring { value: take_bytes(&mut rest)?, ttl, local_deletion_time },
                CELL_COLUMN_DELETION if path.is_none() => CellContent::ColumnDeletion { local_deletion_time },
                _ => return None,
            };
            (content, path)
        };
        self.rest = rest;
        Some(Cell { column, timestamp, content, path })
    }
}

/// Appends one row blob to a byte vector. Cells must come in order: by column, a column deletion before cells, by path.
pub struct RowBuilder<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> RowBuilder<'o> {
    /// Starts a blob.
    pub fn new(out: &'o mut Vec<u8>, liveness: Option<Liveness>, deletion: Deletion) -> RowBuilder<'o> {
        let mut flags = 0;
        if let Some(liveness) = &liveness {
            flags |= ROW_LIVENESS | if liveness.expiry.is_some() { ROW_EXPIRES } else { 0 };
        }
        if !deletion.is_live() {
            flags |= ROW_DELETION;
        }
        out.push(flags);
        if let Some(Liveness { timestamp, expiry }) = liveness {
            out.extend_from_slice(&timestamp.to_le_bytes());
            if let Some((ttl, local_expiration)) = expiry {
                out.extend_from_slice(&ttl.to_le_bytes());
                out.extend_from_slice(&local_expiration.to_le_bytes());
            }
        }
        if !deletion.is_live() {
            out.extend_from_slice(&deletion.timestamp.to_le_bytes());
            out.extend_from_slice(&deletion.local_deletion_time.to_le_bytes());
        }
        RowBuilder { out }
    }

    /// Appends a cell. Column deletions and counters have no path; a path given with one is not written.
    pub fn cell(&mut self, cell: &Cell<'_>) {
        let mut path = cell.path;
        let (kind, value, local_deletion_time, ttl) = match cell.content {
            CellContent::Live(value) => (0, Some(value), None, None),
            CellContent::Counter(context) => {
                path = None;
                (CELL_COUNTER, Some(context), None, None)
            }
            CellContent::Expiring { value, ttl, local_deletion_time } => {
                (CELL_EXPIRING, Some(value), Some(local_deletion_time), Some(ttl))
            }
            CellContent::Deleted { local_deletion_time } => (CELL_DELETED, None, Some(local_deletion_time), None),
            CellContent::ColumnDeletion { local_deletion_time } => {
                path = None;
                (CELL_COLUMN_DELETION, None, Some(local_deletion_time), None)
            }
        };
        let mut head = [0; CELL_HEAD_BYTES];
        head[..2].copy_from_slice(&cell.column.0.to_le_bytes());
        head[2] = kind | if path.is_some() { CELL_PATH } else { 0 };
        head[3..].copy_from_slice(&cell.timestamp.to_le_bytes());
        self.out.extend_from_slice(&head);
        if let Some(seconds) = local_deletion_time {
            self.out.extend_from_slice(&seconds.to_le_bytes());
        }
        if let Some(ttl) = ttl {
            self.out.extend_from_slice(&ttl.to_le_bytes());
        }
        if let Some(path) = path {
            self.sized(path);
        }
        if let Some(value) = value {
            self.sized(value);
        }
    }

    /// Appends bytes after their number.
    #[inline]
    fn sized(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.out.extend_from_slice(bytes);
    }

    /// Appends the cell of a counter; `write` appends its context.
    pub(crate) fn counter(&mut self, column: ColumnId, timestamp: i64, write: impl FnOnce(&mut Vec<u8>)) {
        self.cell(&Cell { column, timestamp, content: CellContent::Counter(&[]), path: None });
        let start = self.out.len();
        write(self.out);
        let len = (self.out.len() - start) as u32;
        self.out[start - 4..start].copy_from_slice(&len.to_le_bytes());
    }

    /// Appends cells that are already encoded.
    pub(crate) fn encoded(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
}
