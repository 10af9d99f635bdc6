//! Writes Partitions.db and Rows.db, the indexes of the `bti` format ([`crate::trie`] describes and reads them).
//!
//! 1. When a block's length of a partition has been written, it becomes a block of the partition's row index.
//! 2. At the partition's end its row index is written to Rows.db if it has more than one block.
//! 3. Partitions.db gets the shortest prefix of each key that tells it from its neighbours, once the next key is known.
//!
//! Invariants: the bytes are those that Cassandra writes.

use super::partition::{OpenPartition, WrittenItem};
use crate::filter::KeyHash;
use crate::input::{push_signed_vint, push_vint};
use crate::output::Output;
use crate::row_codec::push_deletion;
use crate::trie::writer::{Payload, TrieWriter, last_bytes, signed_len};
use crate::trie::{HAS_HASH, HAS_OPEN_DELETION, push_key_bytes};
use crate::version::Version;
use model::Partitioner;
use model::row::Deletion;

/// The row index of the partition that is being written.
#[derive(Default, Debug)]
struct Rows {
    /// Separator and payload of each block.
    blocks: Vec<(Vec<u8>, Payload)>,
    /// The comparable form of the last row or marker of the last block.
    max: Vec<u8>,
    /// The block that is being filled: its offset and the range tombstone that is open there.
    open: Option<(u64, Deletion)>,
    /// The comparable form of its first row or marker.
    first: Vec<u8>,
    /// The comparable form of its last row or marker.
    last: Vec<u8>,
}

impl Rows {
    fn add_block(&mut self) {
        let Some((start, open)) = self.open.take() else { return };
        // The smallest among the shortest keys that are above the previous block.
        let shared = self.first.iter().zip(&self.max).take_while(|(a, b)| a == b).count();
        let mut separator = Vec::new();
        if !self.blocks.is_empty() {
            separator.extend_from_slice(self.first.get(..shared).unwrap_or_default());
            separator.push(self.max.get(shared).map_or(0, |byte| byte.saturating_add(1)));
        }
        self.blocks.push((separator, payload(start, open)));
        self.max.clone_from(&self.last);
    }

    /// Returns a key above the last block, as short as the last separator allows.
    fn end(&self) -> Vec<u8> {
        let separator = self.blocks.last().map_or(&[][..], |(separator, _)| separator);
        let mut at = self.max.iter().zip(separator).take_while(|(a, b)| a == b).count();
        while self.max.get(at) == Some(&0xff) {
            at += 1;
        }
        let mut key: Vec<u8> = self.max.iter().take(at + 1).copied().collect();
        if let Some(last) = key.get_mut(at) {
            *last += 1;
        }
        key
    }

    fn clear(&mut self) {
        self.blocks.clear();
        self.max.clear();
        self.open = None;
    }
}

fn payload(offset: u64, open: Deletion) -> Payload {
    let len = signed_len(offset as i64);
    let bytes = offset.to_be_bytes();
    let offset = last_bytes(&bytes, len);
    if open.is_live() {
        return Payload::new(len as u8, &[offset]);
    }
    let mut deletion = Vec::new();
    push_deletion(Version::Da, open, &mut deletion);
    Payload::new(len as u8 | HAS_OPEN_DELETION, &[offset, &deletion])
}

/// The last partition, whose prefix depends on the next one.
#[derive(Debug)]
struct Pending {
    /// The byte-comparable form of its key.
    form: Vec<u8>,
    payload: Payload,
    /// How many bytes tell it from the previous one.
    differs: usize,
}

/// Writes Partitions.db and Rows.db.
#[derive(Debug)]
pub(super) struct BtiIndexWriter {
    partitioner: Partitioner,
    block_bytes: u64,
    rows: Rows,
    pub(super) rows_out: Output,
    pub(super) partitions_out: Output,
    trie: TrieWriter,
    pending: Option<Pending>,
    /// Whether all rows so far came in clustering order, as far as the row indexes depend on it.
    pub(super) is_ordered: bool,
    /// A buffer for the form of the next key.
    form: Vec<u8>,
}

impl BtiIndexWriter {
    pub(super) fn new(partitioner: Partitioner, block_bytes: usize) -> BtiIndexWriter {
        BtiIndexWriter {
            partitioner,
            block_bytes: block_bytes as u64,
            rows: Rows::default(),
            rows_out: Output::new(),
            partitions_out: Output::new(),
            trie: TrieWriter::default(),
            pending: None,
            is_ordered: true,
            form: Vec::new(),
        }
    }

    /// Takes a row or marker that was written.
    pub(super) fn item(&mut self, item: &WrittenItem<'_>) {
        let rows = &mut self.rows;
        if rows.open.is_none() {
            rows.open = Some((item.start, item.open_before));
            rows.first.clear();
            rows.first.extend_from_slice(item.comparable);
        }
        rows.last.clear();
        rows.last.extend_from_slice(item.comparable);
        if rows.open.is_some_and(|(start, _)| item.end - start >= self.block_bytes) {
            rows.add_block();
        }
    }

    /// Takes a partition that was written, whose last row or marker ends at `end`, from the partition's start.
    pub(super) fn partition(&mut self, partition: &OpenPartition, end: u64, hash: KeyHash) {
        if !self.rows.blocks.is_empty() {
            self.rows.add_block();
        }
        let position =
            if self.rows.blocks.len() > 1 { self.write_rows(partition, end) } else { !(partition.start as i64) };
        self.rows.clear();
        let len = signed_len(position);
        let position = position.to_be_bytes();
        let payload = Payload::new(HAS_HASH + len as u8 - 1, &[&[hash.low_byte()], last_bytes(&position, len)]);
        let mut form = std::mem::take(&mut self.form);
        form.clear();
        push_key_bytes(self.partitioner, partition.token, &partition.key, &mut form);
        let mut differs = 0;
        if let Some(before) = self.pending.take() {
            differs = form.iter().zip(&before.form).take_while(|(a, b)| a == b).count() + 1;
            let prefix = before.form.get(..differs.max(before.differs)).unwrap_or(&before.form);
            self.trie.add(prefix, before.payload, &mut self.partitions_out);
            self.form = before.form;
        }
        self.pending = Some(Pending { form, payload, differs });
    }

    /// Writes the row index to Rows.db. Returns the offset of the partition's entry.
    fn write_rows(&mut self, partition: &OpenPartition, end: u64) -> i64 {
        let out = &mut self.rows_out;
        let end_key = self.rows.end();
        let count = self.rows.blocks.len();
        let last = self.rows.blocks.last().map(|(separator, _)| separator);
        let ascend = self.rows.blocks.is_sorted_by(|(a, _), (b, _)| a < b) && last < Some(&end_key);
        if !ascend {
            self.is_ordered = false;
            return !(partition.start as i64);
        }
        let mut trie = TrieWriter::default();
        for (separator, payload) in self.rows.blocks.drain(..) {
            trie.add(&separator, payload, out);
        }
        trie.add(&end_key, payload(end, Deletion::LIVE), out);
        let root = trie.finish(out);
        let position = out.len() as i64;
        out.extend(&(partition.key.len() as u16).to_be_bytes());
        out.extend(&partition.key);
        let base = out.len() as i64;
        push_vint(out.tail(), partition.start);
        push_signed_vint(out.tail(), root as i64 - base);
        push_vint(out.tail(), count as u64);
        push_deletion(Version::Da, partition.deletion, out.tail());
        position
    }

    /// Ends Partitions.db with the last key's path, the first and the last key, and the footer. Returns Partitions.db
    /// and Rows.db.
    pub(super) fn finish(mut self, first: &[u8], last: &[u8]) -> (Output, Output) {
        let out = &mut self.partitions_out;
        if let Some(Pending { form, payload, differs }) = self.pending.take() {
            self.trie.add(form.get(..differs).unwrap_or(&form), payload, out);
        }
        let count = self.trie.count;
        let root = self.trie.finish(out);
        let keys_at = out.len();
        for key in [first, last] {
            out.extend(&(key.len() as u16).to_be_bytes());
            out.extend(key);
        }
        for number in [keys_at, count, root] {
            out.extend(&number.to_be_bytes());
        }
        (self.partitions_out, self.rows_out)
    }
}
