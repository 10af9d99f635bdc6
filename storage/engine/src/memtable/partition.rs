//! One partition: its deletion, rows and range tombstones, shared by `Rc` and copied when a snapshot is written to.

use super::arena::{Arena, Span};
use super::rows::Rows;
use super::tombstones::RangeTombstones;
use model::Token;
use model::row::Deletion;
use std::rc::Rc;

/// See the module.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The token of the key.
    pub token: Token,
    /// The serialised key, in the arena.
    pub key: Span,
    /// The deletion of the whole partition.
    pub deletion: Deletion,
    /// Its rows.
    pub rows: Rows,
    /// Its range tombstones; most partitions never have one.
    pub tombstones: Option<Rc<RangeTombstones>>,
}

/// Memory of a partition beside the arena: itself, its counts, its share of the index.
pub const PARTITION_BYTES: usize = size_of::<Partition>() + 16 + 48;

impl Partition {
    /// An empty partition.
    pub fn new(token: Token, key: Span) -> Partition {
        Partition { token, key, deletion: Deletion::LIVE, rows: Rows::Empty, tombstones: None }
    }

    /// The serialised key.
    pub fn key<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get(self.key)
    }
}
