//! Index.db and Summary.db of big.
//!
//! ```text
//! Index.db      per partition: key (u16 length), position vint, length of the row index vint, row index
//! row index     length of the partition's head vint, deletion, blocks vint, per block an entry, per block its place u32
//! entry         first and last clustering, offset vint, width signed vint - 65536, [deletion] after a flag u8
//! clustering    kind u8; of a bound the count of values u16; values
//! Summary.db    interval u32, entries u32, bytes u64, level u32, entries at full level u32; per entry its place u32
//!               (little-endian, from the first of these), entries: key, position u64 (little-endian); then first and
//!               last key (u32 length)
//! ```
//!
//! Invariants: the entries of a summary ascend by token and key, or it is not used.

use crate::descriptor::{Component, Version};
use crate::input::{Fault, Input, Problem};
use crate::reader::{Blocks, Stop};
use crate::row_codec::read_components;
use crate::row_codec::{BoundKind, read_deletion};
use crate::statistics::FieldType;
use crate::trie::RowBlock;
use model::comparable;
use model::mutation::Clustering;
use model::row::Deletion;
use model::schema::Table;
use model::{DecoratedKey, Token};
use std::sync::Arc;

/// Longest row index of one partition, in bytes: longer ones are not used, the partition is read from its start.
pub const ROW_INDEX_BYTES_MAX: usize = 64 << 20;
pub(crate) const WIDTH_BASE: i64 = 65536;
/// The number of the kind of a full clustering.
pub(crate) const KIND_CLUSTERING: u8 = 4;

/// A Summary.db: every so many entries of Index.db.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Entries of Index.db between two of the summary at full level.
    pub min_interval: u32,
    /// Share of 128 of the entries that are kept.
    pub level: u32,
    /// Keys and their places in Index.db, ascending.
    pub entries: Arc<[(DecoratedKey, u64)]>,
    /// First and last key.
    pub bounds: Option<(Vec<u8>, Vec<u8>)>,
}

impl Default for Summary {
    /// Of a file without one.
    fn default() -> Summary {
        Summary { min_interval: 0, level: 0, entries: Arc::new([]), bounds: None }
    }
}

impl Summary {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Summary, Fault> {
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
        let mut places = start;
        let mut ends = Vec::with_capacity(count);
        for _ in 0..count {
            ends.push(places.u32_le()? as usize);
        }
        let mut entries: Vec<(DecoratedKey, u64)> = Vec::with_capacity(count);
        for (i, place) in ends.iter().enumerate() {
            let end = ends.get(i + 1).copied().unwrap_or(body.len());
            let entry = body.get(*place..end).and_then(|entry| entry.split_last_chunk());
            let Some((key, position)) = entry else { return start.invalid("an entry of a summary") };
            let entry = (DecoratedKey::new(key), u64::from_le_bytes(*position));
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

    /// Where to begin in Index.db to find the first key that is not below a place.
    pub(crate) fn start(&self, below: impl Fn(&DecoratedKey) -> bool) -> u64 {
        match self.entries.partition_point(|(key, _)| below(key)) {
            0 => 0,
            after => self.entries.get(after - 1).map_or(0, |(_, position)| *position),
        }
    }
}

/// A walk through Index.db.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexWalk {
    /// The next entry.
    pub(crate) at: u64,
}

/// An entry of Index.db without its row index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) key: DecoratedKey,
    pub(crate) position: u64,
    /// Where its row index is, and how long.
    pub(crate) row_index: (u64, u64),
}

impl IndexWalk {
    /// The first entry that is not `below`; `None` if there is none.
    pub(crate) fn find(
        &mut self,
        blocks: &mut Blocks,
        len: u64,
        below: impl Fn(&DecoratedKey) -> bool,
    ) -> Result<Option<IndexEntry>, Stop> {
        while self.at < len {
            blocks.forget_before(Component::Index, self.at);
            let (entry, end) = blocks.read(Component::Index, self.at, len, |input| {
                let key = DecoratedKey::new(input.short_bytes()?);
                let position = input.vint()?;
                let row_index = input.vint()?;
                Ok(IndexEntry { key, position, row_index: (input.offset(), row_index) })
            })?;
            if !below(&entry.key) {
                return Ok(Some(entry));
            }
            match end.checked_add(entry.row_index.1).filter(|end| *end <= len) {
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

/// Whether a row index of so many bytes is there and used.
pub(crate) fn is_used(len: u64) -> bool {
    (1..=ROW_INDEX_BYTES_MAX as u64).contains(&len)
}

/// The row index of a partition: the comparable form of the last clustering of each block, and the block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowIndex {
    entries: Vec<(Vec<u8>, RowBlock)>,
}

impl RowIndex {
    /// Reads a row index of `len` bytes.
    pub(crate) fn parse(
        input: &mut Input<'_>,
        len: usize,
        version: Version,
        fields: &[FieldType],
        table: &Table,
    ) -> Result<RowIndex, Fault> {
        let offset = input.offset();
        let mut input = Input::new(input.bytes(len)?, offset);
        let mut read = || -> Result<RowIndex, Fault> {
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
            Ok(RowIndex { entries })
        };
        read().map_err(|fault| match fault.problem {
            Problem::Truncated => Fault::invalid(fault.offset, "a row index of its length"),
            _ => fault,
        })
    }

    /// The block that the first row at or after a comparable form is in.
    pub(crate) fn floor(&self, comparable: &[u8]) -> Option<RowBlock> {
        self.block(self.position(comparable))
    }

    /// The number of that block.
    pub(crate) fn position(&self, comparable: &[u8]) -> usize {
        // Behind the last block: the end of the partition is in it.
        self.entries.partition_point(|(last, _)| &last[..] < comparable).min(self.last())
    }

    /// The number of the last block.
    pub(crate) fn last(&self) -> usize {
        self.entries.len().saturating_sub(1)
    }

    /// The block of a number.
    pub(crate) fn block(&self, at: usize) -> Option<RowBlock> {
        self.entries.get(at).map(|(_, block)| *block)
    }

    /// Whether a block holds anything at or behind a comparable form.
    pub(crate) fn reaches(&self, at: usize, comparable: &[u8]) -> bool {
        self.entries.get(at).is_some_and(|(last, _)| &last[..] >= comparable)
    }
}

/// The comparable form of a clustering or bound of an entry.
fn clustering(input: &mut Input<'_>, fields: &[FieldType], table: &Table) -> Result<Vec<u8>, Fault> {
    let start = *input;
    let kind = input.u8()?;
    let count = if kind == KIND_CLUSTERING { fields.len() } else { input.u16()?.into() };
    let Some(fields) = fields.get(..count) else { return start.invalid("a count of clustering values") };
    let mut values = Vec::new();
    read_components(input, fields, kind == KIND_CLUSTERING, &mut values)?;
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

/// Whether a key's token is below a token.
pub(crate) fn token_below(token: Token) -> impl Fn(&DecoratedKey) -> bool {
    move |key| key.token < token
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
