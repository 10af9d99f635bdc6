//! Rows in the native protocol's form, encoded once on the owning core: they cross cores as one move and go into the
//! send buffer as one copy.
//!
//! Per row and column: `[int length][bytes]`, big-endian, length -1 for null. Range scans also keep a token per row, by
//! which the coordinating core merges the blocks of several cores, and the place of each row, with which a page that
//! ends in the middle of a block is resumed. `replica::row_sink` encodes.

use cql::plan::Selector;
use model::query::{LiveRow, Position, Resume};
use model::token::Token;
use model::value::push_element;
use model::{DecoratedKey, Partitioner};

/// Encoded rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowBlock {
    /// The cells of all rows, one after another.
    pub bytes: Vec<u8>,
    /// How many rows.
    pub rows: u32,
    /// Each row's token and where its bytes end, for range reads and where places are asked for; else empty.
    pub ends: Vec<(Token, u32)>,
}

impl RowBlock {
    /// Appends a row's bytes.
    pub fn push_row(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.rows += 1;
    }
}

/// The places of a block's rows, for resuming after any of them. A key is written once for the rows of its partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowPlaces {
    bytes: Vec<u8>,
    /// Per row: the key's start and length, the comparable clustering's start. The last ends where `bytes` does or the
    /// next one's key or clustering starts.
    rows: Vec<RowPlace>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RowPlace {
    token: Token,
    key_start: u32,
    key_len: u16,
    comparable_start: u32,
    comparable_len: u32,
    /// Whether the row is a partition's static content alone: it has no clustering, and nothing follows it.
    static_only: bool,
    /// Rows of the partition up to this one.
    partition_rows: u64,
}

impl RowPlaces {
    pub(crate) fn push(&mut self, row: &LiveRow<'_>, partition_rows: u64) {
        let (key_start, key_len) = match self.rows.last() {
            Some(last) if last.token == row.token && self.key(last) == row.key => (last.key_start, last.key_len),
            _ => {
                let start = self.bytes.len() as u32;
                self.bytes.extend_from_slice(row.key);
                (start, row.key.len() as u16)
            }
        };
        let comparable_start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(row.comparable);
        let comparable_len = row.comparable.len() as u32;
        self.rows.push(RowPlace {
            token: row.token,
            key_start,
            key_len,
            comparable_start,
            comparable_len,
            static_only: row.static_only,
            partition_rows,
        });
    }

    fn key(&self, place: &RowPlace) -> &[u8] {
        &self.bytes[place.key_start as usize..place.key_start as usize + place.key_len as usize]
    }

    /// Where a read goes on after row `n`, on a node with `partitioner`.
    pub fn resume(&self, partitioner: Partitioner, n: usize) -> Resume {
        let place = &self.rows[n];
        let key = DecoratedKey { token: place.token, partitioner, key: self.key(place).into() };
        let start = place.comparable_start as usize;
        let comparable = (!place.static_only).then(|| self.bytes[start..start + place.comparable_len as usize].into());
        Resume { position: Position { key, comparable }, partition_rows: place.partition_rows }
    }
}

/// One row out of the aggregated rows of several reads: counts are summed, other values are the first row's.
pub(crate) fn merge_counted(selection: &[Selector], parts: &[RowBlock]) -> RowBlock {
    let Some(first) = parts.first() else { return RowBlock::default() };
    let mut counts = vec![0u64; selection.len()];
    for part in parts {
        for ((selector, count), cell) in selection.iter().zip(&mut counts).zip(cells_of(&part.bytes)) {
            if !matches!(selector, Selector::CountRows | Selector::Count(_)) {
                continue;
            }
            *count += cell.and_then(|cell| cell.try_into().ok()).map_or(0, u64::from_be_bytes);
        }
    }
    let mut block = RowBlock { rows: 1, ..RowBlock::default() };
    for ((selector, count), value) in selection.iter().zip(counts).zip(cells_of(&first.bytes)) {
        match selector {
            Selector::CountRows | Selector::Count(_) => push_element(&mut block.bytes, Some(&count.to_be_bytes())),
            _ => push_element(&mut block.bytes, value),
        }
    }
    let token = first.ends.first().map_or(Token::MIN, |(token, _)| *token);
    block.ends.push((token, block.bytes.len() as u32));
    block
}

/// The one row of an aggregate over nothing: counts are 0, the rest is null.
pub(crate) fn counted_nothing(selection: &[Selector]) -> RowBlock {
    let mut block = RowBlock { rows: 1, ..RowBlock::default() };
    for selector in selection {
        match selector {
            Selector::CountRows | Selector::Count(_) => push_element(&mut block.bytes, Some(&[0; 8])),
            _ => push_element(&mut block.bytes, None),
        }
    }
    block
}

/// The cells of encoded rows, one after another.
pub(crate) fn cells_of(bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    model::value::TupleElements::new(bytes)
}
