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

/// Bytes of a place in its encoded form.
const PLACE_BYTES: usize = 8 + 4 + 2 + 4 + 4 + 1 + 8;

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
    /// Bytes of memory of all places.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.rows)
    }

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

    /// The comparable clustering of row `n`; empty if there is no such row.
    pub(crate) fn comparable(&self, n: usize) -> &[u8] {
        let Some(place) = self.rows.get(n) else { return &[] };
        let start = place.comparable_start as usize;
        self.bytes.get(start..start + place.comparable_len as usize).unwrap_or_default()
    }

    /// Appends the places of the rows that follow.
    pub(crate) fn append(&mut self, more: RowPlaces) {
        let before = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&more.bytes);
        self.rows.extend(more.rows.into_iter().map(|place| RowPlace {
            key_start: place.key_start + before,
            comparable_start: place.comparable_start + before,
            ..place
        }));
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The places as bytes, all integers little-endian:
    /// ```text
    /// count u32, of each: token i64, key start u32, key length u16, comparable start u32, comparable length u32,
    ///                     static only u8, rows of the partition u64
    /// keys and comparable forms
    /// ```
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 + self.rows.len() * PLACE_BYTES + self.bytes.len());
        out.extend_from_slice(&(self.rows.len() as u32).to_le_bytes());
        for place in &self.rows {
            out.extend_from_slice(&place.token.0.to_le_bytes());
            out.extend_from_slice(&place.key_start.to_le_bytes());
            out.extend_from_slice(&place.key_len.to_le_bytes());
            out.extend_from_slice(&place.comparable_start.to_le_bytes());
            out.extend_from_slice(&place.comparable_len.to_le_bytes());
            out.push(place.static_only.into());
            out.extend_from_slice(&place.partition_rows.to_le_bytes());
        }
        out.extend_from_slice(&self.bytes);
        out
    }

    /// The places that [`RowPlaces::encode`] gave; `None` if the bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<RowPlaces> {
        let (count, rest) = bytes.split_first_chunk()?;
        let len = (u32::from_le_bytes(*count) as usize).checked_mul(PLACE_BYTES)?;
        let (places, bytes) = rest.split_at_checked(len)?;
        let place = |place: &[u8; PLACE_BYTES]| {
            let (token, rest) = place.split_first_chunk()?;
            let (key_start, rest) = rest.split_first_chunk()?;
            let (key_len, rest) = rest.split_first_chunk()?;
            let (comparable_start, rest) = rest.split_first_chunk()?;
            let (comparable_len, rest) = rest.split_first_chunk()?;
            let (static_only, rest) = rest.split_first()?;
            let place = RowPlace {
                token: Token(i64::from_le_bytes(*token)),
                key_start: u32::from_le_bytes(*key_start),
                key_len: u16::from_le_bytes(*key_len),
                comparable_start: u32::from_le_bytes(*comparable_start),
                comparable_len: u32::from_le_bytes(*comparable_len),
                static_only: *static_only == 1,
                partition_rows: u64::from_le_bytes(rest.try_into().ok()?),
            };
            let ends_at = |start: u32, len: usize| start as usize + len;
            let lies_within = ends_at(place.key_start, place.key_len.into()) <= bytes.len()
                && ends_at(place.comparable_start, place.comparable_len as usize) <= bytes.len();
            (lies_within && *static_only <= 1).then_some(place)
        };
        let rows = places.as_chunks().0.iter().map(place).collect::<Option<_>>()?;
        Some(RowPlaces { bytes: bytes.to_vec(), rows })
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::mutation::Clustering;

    fn places(rows: &[(&[u8], &[u8], u64)]) -> RowPlaces {
        let mut places = RowPlaces::default();
        for (key, comparable, count) in rows {
            let token = Partitioner::Murmur3.token(key);
            let row = LiveRow {
                token,
                key,
                clustering: Clustering(&[]),
                comparable,
                liveness: None,
                cells: &[],
                static_cells: &[],
                static_only: false,
            };
            places.push(&row, *count);
        }
        places
    }

    #[test]
    fn places_follow_each_other_in_blocks_that_are_joined() {
        let (first, second) =
            (places(&[(b"k", b"a", 1), (b"k", b"bb", 2)]), places(&[(b"k", b"ccc", 3), (b"l", b"", 1)]));
        let mut joined = first;
        joined.append(second);
        assert_eq!(joined.len(), 4);
        let expected: [(&[u8], &[u8], u64); 4] = [(b"k", b"a", 1), (b"k", b"bb", 2), (b"k", b"ccc", 3), (b"l", b"", 1)];
        for (n, (key, comparable, count)) in expected.into_iter().enumerate() {
            assert_eq!(joined.comparable(n), comparable);
            let resume = joined.resume(Partitioner::Murmur3, n);
            assert_eq!((&*resume.position.key.key, resume.partition_rows), (key, count));
            assert_eq!(resume.position.comparable.as_deref(), Some(comparable));
        }
        assert_eq!(joined.comparable(4), [0; 0]);
    }
}
