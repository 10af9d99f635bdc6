//! The rows of one block of a row index, buffered so that a cursor can give them in reverse.
//!
//! A block is read forward ([`super::backward`]); its rows and markers are appended to one buffer and taken from its
//! end.
//!
//! Invariants: the buffer holds rows of one block, and its length is checked against [`BACKWARD_BYTES_MAX`].

use crate::error::{Fault, Problem};
use crate::trie::RowBlock;
use model::mutation::Clustering;
use model::row::{Deletion, RowView};
use std::ops::Range;

/// Most bytes of rows that are buffered. Only a partition whose row index is missing is one block of such a length.
pub const BACKWARD_BYTES_MAX: usize = 1 << 30;

/// How a block is found in the row index of its partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BlockKey {
    /// The partition is one block.
    Whole,
    /// The block of this separator in a trie.
    Separator(Vec<u8>),
    /// The block of the entry with this index.
    Entry(usize),
}

/// What a reverse read does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Begin the slice before the last one.
    NextSlice,
    /// Buffer the rest of the block, up to an offset from the partition's start. Without one the block is the last of
    /// its slice, and read up to the slice's end.
    Fill { until: Option<u64> },
    /// Give the buffered rows, then go to the block before.
    Drain,
}

/// A row or marker, as ranges of the buffer.
#[derive(Debug)]
pub(super) struct BufferedItem {
    clustering: Range<usize>,
    comparable: Range<usize>,
    /// The row blob; `None` for a marker.
    pub(super) row: Option<Range<usize>>,
    /// For a marker: the range tombstone that is open before it.
    pub(super) deletion: Deletion,
}

/// The state of a read in reverse: where it is in the row index, and the rows of the current block.
#[derive(Debug)]
pub(super) struct ReverseBlock {
    pub(super) phase: Phase,
    /// How many slices are left, the current one included.
    pub(super) slices_left: usize,
    /// Offset of the partition's first row in the uncompressed data.
    pub(super) rows_at: Option<u64>,
    pub(super) key: BlockKey,
    /// Offset of the block from the partition's start.
    pub(super) offset: u64,
    /// The range tombstone that is open at the position that the block has been read to.
    pub(super) open: Deletion,
    /// The range tombstone that is open at the block's start.
    pub(super) open_at_start: Deletion,
    /// The range tombstone that is open at the start of the block that follows.
    pub(super) open_at_end: Deletion,
    items: Vec<BufferedItem>,
    buffer: Vec<u8>,
    current: Option<BufferedItem>,
}

impl Default for ReverseBlock {
    fn default() -> ReverseBlock {
        ReverseBlock {
            phase: Phase::NextSlice,
            slices_left: 0,
            rows_at: None,
            key: BlockKey::Whole,
            offset: 0,
            open: Deletion::LIVE,
            open_at_start: Deletion::LIVE,
            open_at_end: Deletion::LIVE,
            items: Vec::new(),
            buffer: Vec::new(),
            current: None,
        }
    }
}

impl ReverseBlock {
    /// Begins a block, which is to be filled.
    pub(super) fn begin(&mut self, key: BlockKey, block: RowBlock, until: Option<u64>) {
        self.key = key;
        self.offset = block.offset;
        self.open = block.open;
        self.items.clear();
        self.buffer.clear();
        self.phase = Phase::Fill { until };
        self.open_at_end = self.open_at_start;
        self.open_at_start = block.open;
    }

    fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }

    /// Returns clustering and comparable form of the current row or marker.
    pub(super) fn position(&self) -> (Clustering<'_>, &[u8]) {
        match &self.current {
            Some(item) => (Clustering(self.bytes(&item.clustering)), self.bytes(&item.comparable)),
            None => Default::default(),
        }
    }

    /// Returns the current row.
    pub(super) fn row(&self) -> RowView<'_> {
        let row = self.current.as_ref().and_then(|item| item.row.as_ref());
        RowView::trusted(row.map_or(&[], |row| self.bytes(row)))
    }

    /// Makes the last buffered row or marker the current one and returns it.
    pub(super) fn pop(&mut self) -> Option<&BufferedItem> {
        self.current = Some(self.items.pop()?);
        self.current.as_ref()
    }

    /// Checks that another row may be buffered, which begins at `offset`.
    pub(super) fn check_len(&self, offset: u64) -> Result<(), Fault> {
        check_len(self.buffer.len(), offset)
    }

    /// Buffers a row, or a marker if there is no `row`.
    pub(super) fn push(&mut self, clustering: &[u8], comparable: &[u8], row: Option<&[u8]>, deletion: Deletion) {
        let mut append = |bytes: &[u8]| {
            let start = self.buffer.len();
            self.buffer.extend_from_slice(bytes);
            start..self.buffer.len()
        };
        let (clustering, comparable) = (append(clustering), append(comparable));
        self.items.push(BufferedItem { clustering, comparable, row: row.map(append), deletion });
    }
}

/// Checks that more rows may be buffered after `len` bytes of them. `offset` is that of the next row.
fn check_len(len: usize, offset: u64) -> Result<(), Fault> {
    match len {
        ..=BACKWARD_BYTES_MAX => Ok(()),
        _ => Err(Fault { offset, problem: Problem::Limit("BACKWARD_BYTES_MAX") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffered_rows_are_bounded() {
        assert_eq!(check_len(BACKWARD_BYTES_MAX, 7), Ok(()));
        let fault = Fault { offset: 7, problem: Problem::Limit("BACKWARD_BYTES_MAX") };
        assert_eq!(check_len(BACKWARD_BYTES_MAX + 1, 7), Err(fault));
    }
}
