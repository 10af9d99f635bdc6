//! The partition that is being written, and what is written of it.

use crate::row_codec::BoundKind;
use model::Token;
use model::mutation::Clustering;
use model::row::Deletion;

/// A partition.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) token: Token,
    /// Its serialised key.
    pub(super) key: Vec<u8>,
    /// Where it begins in the uncompressed data.
    pub(super) start: u64,
    pub(super) deletion: Deletion,
    /// Whether its head was written: it is when something comes.
    pub(super) begun: bool,
    pub(super) has_static: bool,
    /// Where the last row or marker begins, from the partition's start.
    pub(super) previous: u64,
    /// The range tombstone that is open.
    pub(super) open: Deletion,
}

/// A row or marker that was written: places are from the partition's start.
pub(super) struct Item<'a> {
    pub(super) clustering: Clustering<'a>,
    /// Of a marker.
    pub(super) kind: Option<BoundKind>,
    pub(super) comparable: &'a [u8],
    pub(super) start: u64,
    pub(super) end: u64,
    /// The range tombstone that is open before it, and after it.
    pub(super) open_before: Deletion,
    pub(super) open_after: Deletion,
}
