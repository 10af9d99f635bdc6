//! The partition that is being written, and its rows and markers.

use crate::row_codec::BoundKind;
use model::Token;
use model::mutation::Clustering;
use model::row::Deletion;

/// The partition that is being written.
#[derive(Debug)]
pub(super) struct OpenPartition {
    pub(super) token: Token,
    /// The serialised partition key.
    pub(super) key: Vec<u8>,
    /// The partition's offset in the uncompressed data.
    pub(super) start: u64,
    pub(super) deletion: Deletion,
    /// Whether the head has been written, which waits until the partition holds something.
    pub(super) begun: bool,
    pub(super) has_static: bool,
    /// The offset of the last row or marker from the partition's start.
    pub(super) previous: u64,
    /// The range tombstone that is open.
    pub(super) open: Deletion,
}

/// A row or marker that was written. Offsets are from the partition's start.
pub(super) struct WrittenItem<'a> {
    pub(super) clustering: Clustering<'a>,
    /// The kind of a marker; `None` for a row.
    pub(super) kind: Option<BoundKind>,
    pub(super) comparable: &'a [u8],
    pub(super) start: u64,
    pub(super) end: u64,
    /// The range tombstone that is open before it.
    pub(super) open_before: Deletion,
    /// The range tombstone that is open after it.
    pub(super) open_after: Deletion,
}
