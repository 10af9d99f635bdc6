//! One partition: its deletion, static row, rows and range tombstones. Partitions are shared by `Rc` and copied when
//! a write meets one that a snapshot holds.

use super::arena::{Arena, Span};
use super::rows::Rows;
use super::tombstones::RangeTombstones;
use model::Token;
use model::row::{Deletion, RowView};
use std::rc::Rc;

/// One partition of a memtable.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The token of the key.
    pub token: Token,
    /// The serialised key, in the arena.
    pub key: Span,
    /// The deletion of the whole partition.
    pub deletion: Deletion,
    /// The blob of the static row, if there is one.
    pub static_row: Option<Span>,
    /// The rows, by clustering.
    pub rows: Rows,
    /// The range tombstones; `None` for most partitions, which never have any.
    pub tombstones: Option<Rc<RangeTombstones>>,
}

/// Memory of a partition outside the arena: the struct and the counts of its `Rc`.
pub const PARTITION_BYTES: usize = size_of::<Partition>() + 16;

impl Partition {
    /// An empty partition.
    pub fn new(token: Token, key: Span) -> Partition {
        Partition { token, key, deletion: Deletion::LIVE, static_row: None, rows: Rows::Empty, tombstones: None }
    }

    /// The static row, if there is one, including what the partition's deletion shadows.
    pub fn static_row<'a>(&self, arena: &'a Arena) -> Option<RowView<'a>> {
        self.static_row.map(|blob| RowView::trusted(arena.get(blob)))
    }

    /// The serialised key.
    pub fn key<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get(self.key)
    }
}
