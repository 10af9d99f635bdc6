//! [`Cursor`]: rows of one or many partitions in order, without I/O.

use crate::clustering::Clustering;
use crate::row::{Deletion, RowView};
use crate::token::Token;

/// The outcome of [`Cursor::advance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentStep {
    /// There is a fragment: [`Cursor::fragment`].
    Fragment,
    /// This block must be provided before the same step is tried again.
    Need(BlockRef),
    /// There are no more fragments.
    End,
}

/// A block of a file that a source needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef {
    /// The source's number within a merge; a source that is not merged is 0.
    pub source: usize,
    /// Which of the source's files, in the source's own numbering.
    pub file: u8,
    /// The block's offset in bytes.
    pub offset: u64,
}

/// A piece of a partition. A partition is its start, its static row, its rows and range markers by clustering
/// (descending in a reversed read), and its end.
#[derive(Clone, Copy, Debug)]
pub enum Fragment<'a> {
    /// The start of a partition.
    PartitionStart {
        /// Its token.
        token: Token,
        /// Its serialised key.
        key: &'a [u8],
        /// Its deletion.
        deletion: Deletion,
    },
    /// The partition's static row, if it has one.
    StaticRow {
        /// Its data, which consists of cells alone.
        row: RowView<'a>,
    },
    /// A row. Data that is shadowed by deletions of the same source is left out.
    Row {
        /// The values of its clustering.
        clustering: Clustering<'a>,
        /// The comparable form of its clustering.
        comparable: &'a [u8],
        /// Its data.
        row: RowView<'a>,
    },
    /// The start of a range deletion, its end, or both: from here to the next marker everything written at or before
    /// `deletion` is deleted; [`Deletion::LIVE`] ends a range deletion.
    RangeMarker {
        /// The prefix of the clustering that the bound consists of. Empty for a marker at the bound of a slice.
        clustering: Clustering<'a>,
        /// The comparable form of the bound; [`crate::comparable::side`] gives its side.
        comparable: &'a [u8],
        /// The deletion in force after the marker.
        deletion: Deletion,
    },
    /// The end of the partition.
    PartitionEnd,
}

/// Reads rows in order, in two phases: a step, and a look at the fragment it reached, which is borrowed until the next
/// step. Partitions come by token and key; within a slice no two range markers are at the same position.
pub trait Cursor {
    /// The error of a step.
    type Error;

    /// Moves to the next fragment. Synchronous: a step that needs a block returns [`FragmentStep::Need`], and is
    /// repeated once the caller has provided the block.
    ///
    /// # Errors
    /// The source's bytes are corrupt. Every further step fails with the same error.
    fn advance(&mut self) -> Result<FragmentStep, Self::Error>;

    /// The fragment that the last step reached; `None` if it reached none.
    fn fragment(&self) -> Option<Fragment<'_>>;

    /// Within a partition: skips the rest of it, its end included.
    fn skip_partition(&mut self);
}

/// Takes the fragments that a read visits, while the read goes on as if nobody listened.
///
/// A partition comes as its start, its static row if the command wants static cells, rows and range markers, and its
/// end. The end is left out if the read ends within the partition. A partition of which the read leaves rows out comes
/// with [`FragmentSink::cut`] in place of its end.
pub trait FragmentSink {
    /// Takes a fragment. Whatever `shadow` deletes of a row does not belong to it: the deletion of its partition or of
    /// a range, where the source has not left that out already. Range markers may repeat the deletion in force, or be
    /// older than the partition's deletion.
    fn fragment(&mut self, fragment: Fragment<'_>, shadow: Deletion);

    /// Ends a partition of which only rows up to this comparable form, in read order, were visited, because the command
    /// asks for no more rows of a partition.
    fn cut(&mut self, comparable: &[u8]);

    /// Whether the read must end after the fragment that was taken last. A sink that has no limit is never full.
    fn is_full(&self) -> bool {
        false
    }
}
