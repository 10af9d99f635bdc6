//! The cursor: rows of one or many partitions in order, without I/O.

use crate::clustering::Clustering;
use crate::key::Token;
use crate::row::{Deletion, RowView};

/// What [`Cursor::advance`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentStep {
    /// A fragment: [`Cursor::fragment`].
    Fragment,
    /// A block must be brought before the same step is tried again.
    Need(BlockRef),
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

/// Rows in order, in two phases: a step, and a look at what it came to, which lasts until the next step. Partitions come
/// by token and key; within a slice no two range markers are at one place.
pub trait Cursor {
    /// What makes a step fail.
    type Error;

    /// Goes on to the next fragment. Synchronous: a step that needs a block says so and is repeated once it is there.
    ///
    /// # Errors
    /// The source's bytes cannot be trusted; every further step says the same.
    fn advance(&mut self) -> Result<FragmentStep, Self::Error>;

    /// The fragment that the last step came to; `None` if it came to none.
    fn fragment(&self) -> Option<Fragment<'_>>;

    /// Within a partition: leaves the rest of it out, its end included.
    fn skip_partition(&mut self);
}
