//! The cursor: rows of one or many partitions in order, without I/O.

use crate::key::Token;
use crate::mutation::Clustering;
use crate::row::{Deletion, RowView};

/// One step of a [`Cursor`].
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The next fragment; it borrows from the cursor's current block.
    Fragment(Fragment<'a>),
    /// A block must be brought before the next step.
    Need(BlockRef),
    /// The source's bytes cannot be trusted: it says itself what and where. Every further step says the same.
    Failed,
    /// Nothing is left.
    End,
}

/// A block of a file: which source asks and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef {
    /// The source's number within a merge; a source calls itself 0.
    pub source: usize,
    /// Which of the source's files, in its own numbering.
    pub file: u8,
    /// The block's offset in bytes.
    pub offset: u64,
}

/// A piece of a partition. Order: start, static row, rows and range deletions by clustering (reversed for reversed reads), end.
#[derive(Clone, Copy, Debug)]
pub enum Fragment<'a> {
    /// A partition begins.
    PartitionStart {
        /// Its token.
        token: Token,
        /// Its serialised key.
        key: &'a [u8],
        /// Its deletion.
        deletion: Deletion,
    },
    /// The partition's static row, right after its start, if it has one.
    StaticRow {
        /// Its data: cells alone.
        row: RowView<'a>,
    },
    /// A row. Data shadowed by deletions of the same source is gone already.
    Row {
        /// The values of its clustering.
        clustering: Clustering<'a>,
        /// The comparable form of its clustering.
        comparable: &'a [u8],
        /// Its data.
        row: RowView<'a>,
    },
    /// From here to the next marker everything written at or before the deletion is gone ([`Deletion::LIVE`] closes).
    RangeMarker {
        /// The first values of a clustering: the bound's prefix. Empty for a marker that a slice's bound cut off.
        clustering: Clustering<'a>,
        /// The comparable form of the bound; [`crate::comparable::side`] tells its side.
        comparable: &'a [u8],
        /// The deletion in force after it.
        deletion: Deletion,
    },
    /// The partition ends.
    PartitionEnd,
}

/// Rows in order. Steps are synchronous; a step that needs a block says so and is repeated once the block is there.
pub trait Cursor {
    /// The next step.
    fn step(&mut self) -> Step<'_>;
}
