//! Rows as bytes. One encoding serves mutations, memtables, fragments between cursors and row blocks, so that a row is
//! copied, never re-encoded, between them.
//!
//! Row blob, little-endian:
//! ```text
//! flags u8            1 has liveness, 2 liveness expires, 4 has deletion
//! [liveness]          timestamp i64 [ttl i32, local expiration i64]
//! [deletion]          timestamp i64, local deletion time i64
//! cells               until the end of the blob, sorted by (column, path), a column's deletion before its cells:
//!   column u16
//!   flags u8          1 deleted, 2 expiring, 4 has path, 8 column deletion (no value)
//!   timestamp i64
//!   [deleted, expiring or column deletion]  local deletion time i64 (seconds)
//!   [expiring]        ttl i32
//!   [has path]        length u32, path
//!   [neither deleted nor column deletion]   length u32, value
//! ```
//!
//! Invariants: a blob that [`RowView::parse`] accepted is well formed to its end; views iterate without checks that can
//! panic.

use crate::schema::ColumnId;

/// The timestamp of something that was never written.
pub const NO_TIMESTAMP: i64 = i64::MIN;
/// The local deletion time of something that is not deleted.
pub const NO_DELETION_TIME: i64 = i64::MAX;

/// When something was deleted: everything written at or before `timestamp` (microseconds) is gone;
/// `local_deletion_time` (seconds) starts gc_grace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deletion {
    /// Write timestamp, microseconds.
    pub timestamp: i64,
    /// Seconds since 1970.
    pub local_deletion_time: i64,
}

impl Deletion {
    /// Not deleted.
    pub const LIVE: Deletion = Deletion { timestamp: NO_TIMESTAMP, local_deletion_time: NO_DELETION_TIME };

    /// Whether this deletes nothing.
    pub fn is_live(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Whether something written at `timestamp` is gone.
    pub fn deletes(&self, timestamp: i64) -> bool {
        !self.is_live() && timestamp <= self.timestamp
    }

    /// The later of two deletions (ties: the larger local deletion time).
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

/// That a row exists by its primary key alone (INSERT does this).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Liveness {
    /// Write timestamp, microseconds.
    pub timestamp: i64,
    /// Time to live in seconds and the second at which it ends.
    pub expiry: Option<(i32, i64)>,
}

/// A cell, borrowed from a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell<'a> {
    /// Its column.
    pub column: ColumnId,
    /// Write timestamp, microseconds.
    pub timestamp: i64,
    /// What it holds.
    pub content: CellContent<'a>,
    /// The element of a multi-cell collection.
    pub path: Option<&'a [u8]>,
}

/// What a cell holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellContent<'a> {
    /// A value.
    Live(&'a [u8]),
    /// A value until a second, and the time to live it was written with.
    Expiring {
        /// The value.
        value: &'a [u8],
        /// Seconds.
        ttl: i32,
        /// Seconds since 1970.
        local_deletion_time: i64,
    },
    /// Deleted at a second.
    Deleted {
        /// Seconds since 1970.
        local_deletion_time: i64,
    },
    /// All older cells of this multi-cell column are deleted.
    ColumnDeletion {
        /// Seconds since 1970.
        local_deletion_time: i64,
    },
}

impl<'a> Cell<'a> {
    /// The value if the cell is live at `now` (seconds since 1970).
    pub fn value_at(&self, now: i64) -> Option<&'a [u8]> {
        match self.content {
            CellContent::Live(value) => Some(value),
            CellContent::Expiring { value, local_deletion_time, .. } if now < local_deletion_time => Some(value),
            _ => None,
        }
    }
}

/// Bytes that are not a row blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// A well-formed row blob.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    blob: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Checks a blob to its end (order of cells included).
    pub fn parse(blob: &'a [u8]) -> Result<RowView<'a>, Malformed> {
        let _ = blob;
        todo!()
    }

    /// A blob that came out of [`RowView::parse`], [`RowBuilder`] or [`crate::merge`] before: not checked again.
    pub fn trusted(blob: &'a [u8]) -> RowView<'a> {
        RowView { blob }
    }

    /// The bytes.
    pub fn blob(&self) -> &'a [u8] {
        self.blob
    }

    /// The primary key's liveness.
    pub fn liveness(&self) -> Option<Liveness> {
        todo!()
    }

    /// The row's deletion.
    pub fn deletion(&self) -> Deletion {
        todo!()
    }

    /// The cells in order.
    pub fn cells(&self) -> Cells<'a> {
        todo!()
    }
}

/// See [`RowView::cells`].
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;

    fn next(&mut self) -> Option<Cell<'a>> {
        let _ = self.rest;
        todo!()
    }
}

/// Writes one row blob at the end of a byte vector. Cells must come in order (column, deletion before cells, path).
pub struct RowBuilder<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> RowBuilder<'o> {
    /// Starts a blob.
    pub fn new(out: &'o mut Vec<u8>, liveness: Option<Liveness>, deletion: Deletion) -> RowBuilder<'o> {
        let _ = (liveness, deletion);
        RowBuilder { out }
    }

    /// Appends a cell.
    pub fn cell(&mut self, cell: &Cell<'_>) {
        let _ = (cell, &self.out);
        todo!()
    }
}
