//! Index.db and Summary.db: the indexes of the `big` format.
//!
//! ```text
//! Index.db      per partition: key (u16 length), position vint, length of the row index vint, row index
//! row index     length of the partition's head vint, deletion, blocks vint, per block an entry, per block the offset
//!               of its entry u32
//! entry         first and last clustering, offset vint, width signed vint - 65536, [deletion] after a flag u8
//! clustering    kind u8; of a bound the count of values u16; values
//! Summary.db    interval u32, entries u32, bytes u64, level u32, entries at full level u32; per entry its offset u32
//!               (little-endian, counted from the first of these), entries: key, position u64 (little-endian); then
//!               first and last key (u32 length)
//! ```
//!
//! A partition shorter than one block has no row index. The writer is [`crate::writer`].
//!
//! Invariants: the entries of a summary ascend by token and key; the blocks of a row index ascend by clustering and
//! offset.

use crate::block::{IndexBlocks, LOOKUP_BLOCKS_MAX, PAGE_BYTES, Stop};
use crate::descriptor::Component;
use crate::error::{Fault, Problem};
use crate::input::Input;
use crate::row_codec::{BoundKind, ClusteringOf, read_components, read_deletion};
use crate::statistics::FieldType;
use crate::trie::RowBlock;
use crate::version::Version;
use model::comparable;
use model::mutation::Clustering;
use model::row::Deletion;
use model::schema::Table;
use model::token::RingPosition;
use model::{DecoratedKey, Partitioner};
use std::sync::Arc;

/// Longest row index of one partition that is used, in bytes. A partition with a longer one is read from its start.
pub const ROW_INDEX_BYTES_MAX: usize = 3 << 20;
// A lookup needs the blocks of a row index and of the key before it.
const _: () = assert!(ROW_INDEX_BYTES_MAX + 2 * u16::MAX as usize <= LOOKUP_BLOCKS_MAX * PAGE_BYTES);
/// What the width of a block is relative to in a row index: the most frequent width.
pub(crate) const WIDTH_BASE: i64 = 65536;
/// The number that stands for a full clustering where a bound has the number of its kind.
pub(crate) const KIND_CLUSTERING: u8 = 4;

/// A Summary.db: the keys and offsets of some entries of Index.db, at regular intervals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// How many entries of Index.db lie from one entry of the summary to the next, at full level.
    pub min_interval: u32,
    /// How many of 128 entries at full level the summary has.
    pub level: u32,
    /// Keys and the offsets of their entries in Index.db, ascending.
    pub entries: Arc<[(DecoratedKey, u64)]>,
    /// The first and the last key of the SSTable.
    pub bounds: Option<(Vec<u8>, Vec<u8>)>,
}

impl Default for Summary {
    /// The summary of an SSTable that has none: lookups start at the first entry of Index.db.
    fn default() -> Summary {
        Summary { min_interval: 0, level: 0, entries: Arc::new([]), bounds: None }
    }
}

impl Summary {
    pub(crate) fn parse(bytes: &[u8], partitioner: Partitioner) -> Result<Summary, Fault> {
        let mut input = Input::new(bytes, 0);
        let min_interval = input.u32()?;
        let count = input.u32()?;
        let len = input.u64()?;
        let level = input.u32()?;
        let _at_full_level = input.u32()?;
        let count = input.count(count.into(), 4)?;
        let start = input;
        let body = usize::try_from(len).ok().filter(|len| *len >= 4 * count);
        let Some(body) = body else { return input.invalid("the length of a summary") };
        let body = input.bytes(body)?;
        let mut offsets_input = start;
        let mut offsets = Vec::with_capacity(count);
        for _ in 0..count {
            offsets.push(offsets_input.u32_le()? as usize);
        }
        let mut entries: Vec<(DecoratedKey, u64)> = Vec::with_capacity(count);
        for (i, offset) in offsets.iter().enumerate() {
            let end = offsets.get(i + 1).copied().unwrap_or(body.len());
            let entry = body.get(*offset..end).and_then(|entry| entry.split_last_chunk());
            let Some((key, position)) = entry else { return start.invalid("an entry of a summary") };
            let entry = (DecoratedKey::new(partitioner, key), u64::from_le_bytes(*position));
            if entries.last().is_some_and(|last| last.0 >= entry.0 || last.1 >= entry.1) {
                return start.invalid("an ascending summary");
            }
            entries.push(entry);
        }
        let mut bounds = None;
        if !input.is_empty() {
            let mut key = || {
                let len = input.u32()? as usize;
                input.bytes(len).map(<[u8]>::to_vec)
            };
            bounds = Some((key()?, key()?));
        }
        Ok(Summary { min_interval, level, entries: entries.into(), bounds })
    }

    pub(crate) fn key_bounds(&self) -> Option<(&[u8], &[u8])> {
        self.bounds.as_ref().map(|(first, last)| (&first[..], &last[..]))
    }

    /// Returns the offset in Index.db from which to look for the first key that is not `below`.
    pub(crate) fn start(&self, below: impl Fn(&DecoratedKey) -> bool) -> u64 {
        match self.entries.partition_point(|(key, _)| below(key)) {
            0 => 0,
            after => self.entries.get(after - 1).map_or(0, |(_, position)| *position),
        }
    }
}

/// A search through the entries of Index.db, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexWalk {
    /// The offset of the next entry.
    pub(crate) at: u64,
}

/// An entry of Index.db without its row index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) key: DecoratedKey,
    /// The offset of the partition in Data.db.
    pub(crate) position: u64,
    /// Offset and length of the row index, in bytes.
    pub(crate) row_index: (u64, u64),
}

impl IndexWalk {
    /// Returns the first entry whose key is not `below`; `None` if there is none.
    pub(crate) fn find(
        &mut self,
        blocks: &mut IndexBlocks,
        file_len: u64,
        partitioner: Partitioner,
        below: impl Fn(&DecoratedKey) -> bool,
    ) -> Result<Option<IndexEntry>, Stop> {
        while self.at < file_len {
            blocks.forget_before(Component::Index, self.at);
            let (entry, end) = blocks.read(Component::Index, self.at, file_len, |input| {
                let key = DecoratedKey::new(partitioner, input.short_bytes()?);
                let position = input.vint()?;
                let row_index = input.vint()?;
                Ok(IndexEntry { key, position, row_index: (input.offset(), row_index) })
            })?;
            if !below(&entry.key) {
                return Ok(Some(entry));
            }
            match end.checked_add(entry.row_index.1).filter(|end| *end <= file_len) {
                Some(end) => self.at = end,
                None => {
                    let fault = Fault { offset: self.at, problem: Problem::Truncated };
                    return Err(Stop::Fault(Component::Index, fault));
                }
            }
        }
        Ok(None)
    }
}

/// Returns whether a row index of this length, in bytes, exists and is used.
pub(crate) fn is_used(len: u64) -> bool {
    (1..=ROW_INDEX_BYTES_MAX as u64).contains(&len)
}

/// The row index of a partition: for each block the comparable form of its last clustering.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BigRowIndex {
    entries: Vec<(Vec<u8>, RowBlock)>,
}

impl BigRowIndex {
    /// Reads a row index of `len` bytes.
    pub(crate) fn parse(
        input: &mut Input<'_>,
        len: usize,
        version: Version,
        fields: &[FieldType],
        table: &Table,
    ) -> Result<BigRowIndex, Fault> {
        let offset = input.offset();
        let mut input = Input::new(input.bytes(len)?, offset);
        let mut read = || -> Result<BigRowIndex, Fault> {
            input.vint()?;
            read_deletion(version, &mut input)?;
            let count = input.vint()?;
            let count = input.count(count, 8)?;
            let mut entries: Vec<(Vec<u8>, RowBlock)> = Vec::with_capacity(count);
            let mut open = Deletion::LIVE;
            for _ in 0..count {
                clustering(&mut input, fields, table)?;
                let last = clustering(&mut input, fields, table)?;
                let offset = input.vint()?;
                let width = input.signed_vint()?.checked_add(WIDTH_BASE);
                let starts_with = open;
                open = if input.bool()? { read_deletion(version, &mut input)? } else { Deletion::LIVE };
                if width.is_none_or(|width| width < 0)
                    || entries.last().is_some_and(|before| before.0 > last || before.1.offset >= offset)
                {
                    return input.invalid("an ascending row index");
                }
                entries.push((last, RowBlock { offset, open: starts_with }));
            }
            Ok(BigRowIndex { entries })
        };
        read().map_err(|fault| match fault.problem {
            Problem::Truncated => Fault::invalid(fault.offset, "a row index of its length"),
            _ => fault,
        })
    }

    /// Returns the block that holds the first row at or after a comparable form.
    pub(crate) fn floor(&self, comparable: &[u8]) -> Option<RowBlock> {
        self.block(self.position(comparable))
    }

    /// Returns the index of the block that holds the first row at or after a comparable form.
    pub(crate) fn position(&self, comparable: &[u8]) -> usize {
        // After all rows comes the partition's end, which is in the last block.
        self.entries.partition_point(|(last, _)| &last[..] < comparable).min(self.last())
    }

    /// Returns the index of the last block.
    pub(crate) fn last(&self) -> usize {
        self.entries.len().saturating_sub(1)
    }

    /// Returns the block with an index.
    pub(crate) fn block(&self, at: usize) -> Option<RowBlock> {
        self.entries.get(at).map(|(_, block)| *block)
    }

    /// Returns whether a block holds anything at or after a comparable form.
    pub(crate) fn reaches(&self, at: usize, comparable: &[u8]) -> bool {
        self.entries.get(at).is_some_and(|(last, _)| &last[..] >= comparable)
    }
}

/// Reads a clustering or bound and returns its comparable form.
fn clustering(input: &mut Input<'_>, fields: &[FieldType], table: &Table) -> Result<Vec<u8>, Fault> {
    let start = *input;
    let kind = input.u8()?;
    let count = if kind == KIND_CLUSTERING { fields.len() } else { input.u16()?.into() };
    let Some(fields) = fields.get(..count) else { return start.invalid("a count of clustering values") };
    let mut values = Vec::new();
    let of = if kind == KIND_CLUSTERING { ClusteringOf::Row } else { ClusteringOf::Bound };
    read_components(input, fields, of, &mut values)?;
    let mut out = Vec::new();
    let components = Clustering(&values).components();
    if kind == KIND_CLUSTERING {
        comparable::clustering(table, components, &mut out);
        return Ok(out);
    }
    let Some(kind) = BoundKind::from_number(kind) else { return start.invalid("the kind of a bound") };
    comparable::bound(table, components, kind.side(), &mut out);
    Ok(out)
}

/// Returns the predicate that holds for keys before a position.
pub(crate) fn before(position: &RingPosition) -> impl Fn(&DecoratedKey) -> bool {
    |key| !position.is_before_key(key.token, &key.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_index_that_is_too_long_is_not_used() {
        assert!(!is_used(0));
        assert!(is_used(ROW_INDEX_BYTES_MAX as u64));
        assert!(!is_used(ROW_INDEX_BYTES_MAX as u64 + 1));
    }
}
