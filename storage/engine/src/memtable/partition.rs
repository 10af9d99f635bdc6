//! One partition: its deletion, static row, rows and range tombstones, shared by `Rc` and copied when a snapshot is
//! written to.

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
    /// The blob of its static row.
    pub static_row: Option<Span>,
    /// Its rows.
    pub rows: Rows,
    /// Its range tombstones; most partitions never have one.
    pub tombstones: Option<Rc<RangeTombstones>>,
}

/// Memory of a partition beside the arena: itself and its counts.
pub const PARTITION_BYTES: usize = size_of::<Partition>() + 16;

impl Partition {
    /// An empty partition.
    pub fn new(token: Token, key: Span) -> Partition {
        Partition { token, key, deletion: Deletion::LIVE, static_row: None, rows: Rows::Empty, tombstones: None }
    }

    /// The data of the static row, as it is stored.
    pub fn static_row<'a>(&self, arena: &'a Arena) -> Option<RowView<'a>> {
        self.static_row.map(|blob| RowView::trusted(arena.get(blob)))
    }

    /// The serialised key.
    pub fn key<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get(self.key)
    }
}
