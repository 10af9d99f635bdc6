//! Index.db and Summary.db, while partitions come.
//!
//! 1. Whenever a block's worth of bytes of a partition is written, its first and last clustering are an entry of the
//!    partition's row index.
//! 2. At the partition's end Index.db gets its key, place and, if it has more than one block, row index.
//! 3. Summary.db gets every so many entries of Index.db.
//!
//! Invariants: the bytes are Cassandra's.

use super::Out;
use super::partition::{Item, Partition};
use crate::descriptor::Version;
use crate::index::{KIND_CLUSTERING, WIDTH_BASE};
use crate::input::{push_signed_vint, push_vint, vint_len};
use crate::row_codec::{BoundKind, push_deletion};
use crate::statistics::{Header, push_values};
use model::mutation::Clustering;
use model::row::Deletion;

/// Most bytes of the entries of a Summary.db: places in it have 31 bits. What is behind is found from the last entry
/// on.
pub const SUMMARY_BYTES_MAX: usize = i32::MAX as usize;
/// The share of 128 of the entries that a new summary has.
const FULL_LEVEL: u32 = 128;

/// The clustering of a row, or the bound of a marker.
#[derive(Default, Debug)]
struct Name {
    kind: Option<BoundKind>,
    clustering: Vec<u8>,
}

impl Name {
    fn set(&mut self, item: &Item<'_>) {
        self.kind = item.kind;
        self.clustering.clear();
        self.clustering.extend_from_slice(item.clustering.0);
    }

    fn push(&self, lens: &[Option<usize>], out: &mut Vec<u8>) {
        let values = Clustering(&self.clustering);
        match self.kind {
            None => {
                out.push(KIND_CLUSTERING);
                // What a row's clustering lacks is null.
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
    /// Its entries, and where each begins in them.
    entries: Vec<u8>,
    places: Vec<u32>,
    /// Where the block that is being filled begins.
    open: Option<u64>,
    first: Name,
    last: Name,
    /// The range tombstone that is open behind the last row or marker.
    deletion: Option<Deletion>,
    /// The bytes before the first row or marker.
    head: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct BigIndex {
    version: Version,
    block_bytes: u64,
    /// The fixed lengths of clustering values.
    lens: Vec<Option<usize>>,
    rows: Rows,
    pub(super) out: Out,
    summary: SummaryWriter,
}

impl BigIndex {
    pub(super) fn new(version: Version, header: &Header, block_bytes: usize, min_interval: u32) -> BigIndex {
        BigIndex {
            version,
            block_bytes: block_bytes as u64,
            lens: header.clustering.iter().map(|field| field.fixed_len).collect(),
            rows: Rows::default(),
            out: Out::new(),
            summary: SummaryWriter {
                min_interval,
                keys: 0,
                places: Vec::new(),
                entries: Vec::new(),
                bytes_max: SUMMARY_BYTES_MAX,
            },
        }
    }

    /// A row or marker was written.
    pub(super) fn item(&mut self, item: &Item<'_>) {
        let rows = &mut self.rows;
        rows.head.get_or_insert(item.start);
        if rows.open.is_none() {
            rows.open = Some(item.start);
            rows.first.set(item);
        }
        rows.last.set(item);
        rows.deletion = Some(item.open_after).filter(|open| !open.is_live());
        if rows.open.is_some_and(|start| item.end - start >= self.block_bytes) {
            self.add_block(item.end);
        }
    }

    fn add_block(&mut self, end: u64) {
        let rows = &mut self.rows;
        let Some(start) = rows.open.take() else { return };
        rows.places.push(rows.entries.len() as u32);
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

    /// A partition was written whose last row or marker ends at `end`, from its start.
    pub(super) fn partition(&mut self, partition: &Partition, end: u64) {
        // The end of the partition is in the last block, if it was not full before.
        self.add_block(end + 1);
        let index_start = self.out.len();
        let key = &partition.key;
        let out = self.out.tail();
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(key);
        push_vint(out, partition.start);
        let rows = &mut self.rows;
        if rows.places.len() > 1 {
            let mut deletion = Vec::new();
            push_deletion(self.version, partition.deletion, &mut deletion);
            let (head, count) = (rows.head.unwrap_or(0), rows.places.len() as u64);
            let len = vint_len(head) + deletion.len() + vint_len(count) + rows.entries.len() + 4 * rows.places.len();
            push_vint(out, len as u64);
            push_vint(out, head);
            out.extend_from_slice(&deletion);
            push_vint(out, count);
            out.extend_from_slice(&rows.entries);
            rows.places.iter().for_each(|place| out.extend_from_slice(&place.to_be_bytes()));
        } else {
            push_vint(out, 0);
        }
        rows.entries.clear();
        rows.places.clear();
        rows.deletion = None;
        rows.head = None;
        self.summary.add(key, index_start);
    }

    /// Index.db, and the bytes of Summary.db.
    pub(super) fn finish(self, first: &[u8], last: &[u8]) -> (Out, Vec<u8>) {
        (self.out, self.summary.write(first, last))
    }
}

#[derive(Debug)]
struct SummaryWriter {
    min_interval: u32,
    /// Partitions so far.
    keys: u64,
    /// Where each entry begins.
    places: Vec<u32>,
    entries: Vec<u8>,
    bytes_max: usize,
}

impl SummaryWriter {
    fn add(&mut self, key: &[u8], position: u64) {
        let wanted = self.keys.is_multiple_of(self.min_interval.into());
        self.keys += 1;
        if wanted && self.entries.len() + key.len() + 8 <= self.bytes_max {
            self.places.push(self.entries.len() as u32);
            self.entries.extend_from_slice(key);
            self.entries.extend_from_slice(&position.to_le_bytes());
        }
    }

    fn write(self, first: &[u8], last: &[u8]) -> Vec<u8> {
        let places_len = 4 * self.places.len();
        let mut out = Vec::with_capacity(32 + places_len + self.entries.len() + first.len() + last.len());
        out.extend_from_slice(&self.min_interval.to_be_bytes());
        out.extend_from_slice(&(self.places.len() as u32).to_be_bytes());
        out.extend_from_slice(&((places_len + self.entries.len()) as u64).to_be_bytes());
        out.extend_from_slice(&FULL_LEVEL.to_be_bytes());
        out.extend_from_slice(&(self.keys.div_ceil(self.min_interval.into()) as u32).to_be_bytes());
        for place in &self.places {
            out.extend_from_slice(&(place + places_len as u32).to_le_bytes());
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
            let mut writer = SummaryWriter { min_interval: 1, keys: 0, places: new.0, entries: new.1, bytes_max };
            // In the order of their tokens.
            let mut keys: Vec<_> = (0..10u64).map(|i| model::DecoratedKey::new(&i.to_be_bytes())).collect();
            keys.sort();
            keys.iter().zip(0..).for_each(|(key, at)| writer.add(&key.key, at));
            Summary::parse(&writer.write(b"a", b"b")).unwrap().entries.len()
        };
        assert_eq!(entries(10 * 16), 10);
        assert_eq!(entries(10 * 16 - 1), 9);
        assert_eq!(entries(SUMMARY_BYTES_MAX), 10);
    }
}
