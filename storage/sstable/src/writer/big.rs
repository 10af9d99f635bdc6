//! Writes Index.db and Summary.db, the indexes of the `big` format ([`crate::index`] describes and reads them).
//!
//! 1. When a block's length of a partition has been written, its first and last clustering become an entry of the
//!    partition's row index.
//! 2. At the partition's end Index.db gets its key, its offset and, if it has more than one block, its row index.
//! 3. Summary.db gets one of every `min_interval` entries of Index.db.
//!
//! Invariants: the bytes are those that Cassandra writes.

use super::partition::{OpenPartition, WrittenItem};
use crate::bound_kind::BoundKind;
use crate::index::{KIND_CLUSTERING, WIDTH_BASE};
use crate::input::{push_signed_vint, push_vint, vint_len};
use crate::output::Output;
use crate::row_codec::push_deletion;
use crate::statistics::{Header, push_values};
use crate::version::Version;
use model::mutation::Clustering;
use model::row::Deletion;

/// Most bytes of the entries of a Summary.db, in which offsets have 31 bits. Keys after the last entry are searched for
/// from there.
pub const SUMMARY_BYTES_MAX: usize = i32::MAX as usize;
/// How many of 128 entries a new summary has: all.
const FULL_LEVEL: u32 = 128;

/// The clustering of a row, or the bound of a marker.
#[derive(Default, Debug)]
struct Position {
    kind: Option<BoundKind>,
    clustering: Vec<u8>,
}

impl Position {
    fn set(&mut self, item: &WrittenItem<'_>) {
        self.kind = item.kind;
        self.clustering.clear();
        self.clustering.extend_from_slice(item.clustering.0);
    }

    fn push(&self, lens: &[Option<usize>], out: &mut Vec<u8>) {
        let values = Clustering(&self.clustering);
        match self.kind {
            None => {
                out.push(KIND_CLUSTERING);
                // Values that are missing at the end of a row's clustering are null.
                let components = values.components().map(Some).chain(std::iter::repeat(None));
                push_values(out, lens.iter().copied(), components.take(lens.len()));
            }
            Some(kind) => {
                out.push(kind.number());
                out.extend_from_slice(&(values.components().count() as u16).to_be_bytes());
                push_values(out, lens.iter().copied(), values.components().map(Some));
            }
        }
    }
}

/// The row index of the partition that is being written.
#[derive(Default, Debug)]
struct Rows {
    entries: Vec<u8>,
    /// The offset of each entry in `entries`.
    offsets: Vec<u32>,
    /// The offset of the block that is being filled, from the partition's start.
    open: Option<u64>,
    first: Position,
    last: Position,
    /// The comparable form of the last row or marker.
    last_comparable: Vec<u8>,
    /// The range tombstone that is open after the last row or marker.
    deletion: Option<Deletion>,
    /// The length of what precedes the first row or marker, in bytes.
    head: Option<u64>,
}

/// Writes Index.db, and collects Summary.db.
#[derive(Debug)]
pub(super) struct BigIndexWriter {
    version: Version,
    block_bytes: u64,
    /// The fixed lengths of clustering values.
    lens: Vec<Option<usize>>,
    rows: Rows,
    pub(super) out: Output,
    summary: SummaryWriter,
    /// Whether all rows so far came in clustering order.
    pub(super) is_ordered: bool,
}

impl BigIndexWriter {
    pub(super) fn new(version: Version, header: &Header, block_bytes: usize, min_interval: u32) -> BigIndexWriter {
        BigIndexWriter {
            version,
            block_bytes: block_bytes as u64,
            lens: header.clustering.iter().map(|field| field.fixed_len).collect(),
            rows: Rows::default(),
            out: Output::new(),
            summary: SummaryWriter {
                min_interval,
                keys: 0,
                offsets: Vec::new(),
                entries: Vec::new(),
                bytes_max: SUMMARY_BYTES_MAX,
            },
            is_ordered: true,
        }
    }

    /// Takes a row or marker that was written.
    pub(super) fn item(&mut self, item: &WrittenItem<'_>) {
        let rows = &mut self.rows;
        rows.head.get_or_insert(item.start);
        if rows.open.is_none() {
            rows.open = Some(item.start);
            rows.first.set(item);
        }
        rows.last.set(item);
        self.is_ordered &= rows.last_comparable[..] <= *item.comparable;
        rows.last_comparable.clear();
        rows.last_comparable.extend_from_slice(item.comparable);
        rows.deletion = Some(item.open_after).filter(|open| !open.is_live());
        if rows.open.is_some_and(|start| item.end - start >= self.block_bytes) {
            self.add_block(item.end);
        }
    }

    fn add_block(&mut self, end: u64) {
        let rows = &mut self.rows;
        let Some(start) = rows.open.take() else { return };
        rows.offsets.push(rows.entries.len() as u32);
        let out = &mut rows.entries;
        rows.first.push(&self.lens, out);
        rows.last.push(&self.lens, out);
        push_vint(out, start);
        push_signed_vint(out, (end - start) as i64 - WIDTH_BASE);
        out.push(rows.deletion.is_some().into());
        if let Some(open) = rows.deletion {
            push_deletion(self.version, open, out);
        }
    }

    /// Takes a partition that was written, whose last row or marker ends at `end`, from the partition's start.
    pub(super) fn partition(&mut self, partition: &OpenPartition, end: u64) {
        // The last block holds the end of the partition too, unless it was full before.
        self.add_block(end + 1);
        let index_start = self.out.len();
        let key = &partition.key;
        let out = self.out.tail();
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(key);
        push_vint(out, partition.start);
        let rows = &mut self.rows;
        if rows.offsets.len() > 1 {
            let mut deletion = Vec::new();
            push_deletion(self.version, partition.deletion, &mut deletion);
            let (head, count) = (rows.head.unwrap_or(0), rows.offsets.len() as u64);
            let len = vint_len(head) + deletion.len() + vint_len(count) + rows.entries.len() + 4 * rows.offsets.len();
            push_vint(out, len as u64);
            push_vint(out, head);
            out.extend_from_slice(&deletion);
            push_vint(out, count);
            out.extend_from_slice(&rows.entries);
            rows.offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
        } else {
            push_vint(out, 0);
        }
        rows.entries.clear();
        rows.offsets.clear();
        rows.last_comparable.clear();
        rows.deletion = None;
        rows.head = None;
        self.summary.add(key, index_start);
    }

    /// Returns Index.db, and the bytes of Summary.db.
    pub(super) fn finish(self, first: &[u8], last: &[u8]) -> (Output, Vec<u8>) {
        (self.out, self.summary.write(first, last))
    }
}

#[derive(Debug)]
struct SummaryWriter {
    min_interval: u32,
    /// How many partitions there are so far.
    keys: u64,
    /// The offset of each entry in `entries`.
    offsets: Vec<u32>,
    entries: Vec<u8>,
    bytes_max: usize,
}

impl SummaryWriter {
    fn add(&mut self, key: &[u8], position: u64) {
        let wanted = self.keys.is_multiple_of(self.min_interval.into());
        self.keys += 1;
        if wanted && self.entries.len() + key.len() + 8 <= self.bytes_max {
            self.offsets.push(self.entries.len() as u32);
            self.entries.extend_from_slice(key);
            self.entries.extend_from_slice(&position.to_le_bytes());
        }
    }

    fn write(self, first: &[u8], last: &[u8]) -> Vec<u8> {
        let offsets_len = 4 * self.offsets.len();
        let mut out = Vec::with_capacity(32 + offsets_len + self.entries.len() + first.len() + last.len());
        out.extend_from_slice(&self.min_interval.to_be_bytes());
        out.extend_from_slice(&(self.offsets.len() as u32).to_be_bytes());
        out.extend_from_slice(&((offsets_len + self.entries.len()) as u64).to_be_bytes());
        out.extend_from_slice(&FULL_LEVEL.to_be_bytes());
        out.extend_from_slice(&(self.keys.div_ceil(self.min_interval.into()) as u32).to_be_bytes());
        for offset in &self.offsets {
            out.extend_from_slice(&(offset + offsets_len as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.entries);
        for key in [first, last] {
            out.extend_from_slice(&(key.len() as u32).to_be_bytes());
            out.extend_from_slice(key);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Summary;

    #[test]
    fn a_summary_is_bounded() {
        let entries = |bytes_max: usize| {
            let new = (Vec::new(), Vec::new());
            let mut writer = SummaryWriter { min_interval: 1, keys: 0, offsets: new.0, entries: new.1, bytes_max };
            // In the order of their tokens.
            let mut keys: Vec<_> =
                (0..10u64).map(|i| model::DecoratedKey::new(model::Partitioner::Murmur3, &i.to_be_bytes())).collect();
            keys.sort();
            keys.iter().zip(0..).for_each(|(key, at)| writer.add(&key.key, at));
            Summary::parse(&writer.write(b"a", b"b"), model::Partitioner::Murmur3)
                .expect("a summary that was just written")
                .entries
                .len()
        };
        assert_eq!(entries(10 * 16), 10);
        assert_eq!(entries(10 * 16 - 1), 9);
        assert_eq!(entries(SUMMARY_BYTES_MAX), 10);
    }
}
