//! Partitions.db and Rows.db, while partitions come.
//!
//! 1. Whenever a granularity's worth of bytes of a partition is written, they are a block of its row index.
//! 2. At the partition's end its row index goes to Rows.db if it has more than one block.
//! 3. Partitions.db gets the shortest prefix of each key that tells it from its neighbours, once the one behind is
//!    known.
//!
//! Invariants: the bytes are Cassandra's.

use super::Out;
use super::partition::{Item, Partition};
use crate::descriptor::Version;
use crate::filter::KeyHash;
use crate::input::{push_signed_vint, push_vint};
use crate::row_codec::push_deletion;
use crate::trie::writer::{Payload, TrieWriter, signed_len};
use crate::trie::{HAS_HASH, HAS_OPEN_DELETION, push_key_bytes};
use model::row::Deletion;

/// The row index of the partition that is being written.
#[derive(Default, Debug)]
struct Rows {
    /// Blocks: separator and payload. A trie of one is not written.
    blocks: Vec<(Vec<u8>, Payload)>,
    /// The last comparable form of the last block.
    max: Vec<u8>,
    /// The block that is being filled: its start and what is open there.
    open: Option<(u64, Deletion)>,
    /// The comparable form of its first row or marker, and of its last one.
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Rows {
    fn add_block(&mut self) {
        let Some((start, open)) = self.open.take() else { return };
        // The smallest of the shortest keys above the block before.
        let shared = self.first.iter().zip(&self.max).take_while(|(a, b)| a == b).count();
        let mut separator = Vec::new();
        if !self.blocks.is_empty() {
            separator.extend_from_slice(self.first.get(..shared).unwrap_or_default());
            separator.push(self.max.get(shared).map_or(0, |byte| byte.saturating_add(1)));
        }
        self.blocks.push((separator, payload(start, open)));
        self.max.clone_from(&self.last);
    }

    /// A key above the last block, as long as the last separator needs it to be.
    fn end(&self) -> Vec<u8> {
        let separator = self.blocks.last().map_or(&[][..], |(separator, _)| separator);
        let mut at = self.max.iter().zip(separator).take_while(|(a, b)| a == b).count();
        while self.max.get(at) == Some(&0xff) {
            at += 1;
        }
        let mut key = self.max[..(at + 1).min(self.max.len())].to_vec();
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
    let place = &offset.to_be_bytes()[8 - len..];
    if open.is_live() {
        return Payload::new(len as u8, &[place]);
    }
    let mut deletion = Vec::new();
    push_deletion(Version::Da, open, &mut deletion);
    Payload::new(len as u8 | HAS_OPEN_DELETION, &[place, &deletion])
}

/// The last partition that came.
#[derive(Debug)]
struct Pending {
    /// The byte-comparable form of its key.
    form: Vec<u8>,
    payload: Payload,
    /// Bytes that tell it from the one before.
    differs: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct BtiIndex {
    granularity: u64,
    rows: Rows,
    pub(super) rows_out: Out,
    pub(super) partitions_out: Out,
    trie: TrieWriter,
    pending: Option<Pending>,
    /// Room for the form of the next key.
    form: Vec<u8>,
}

impl BtiIndex {
    pub(super) fn new(granularity: usize) -> BtiIndex {
        BtiIndex {
            granularity: granularity as u64,
            rows: Rows::default(),
            rows_out: Out::new(),
            partitions_out: Out::new(),
            trie: TrieWriter::default(),
            pending: None,
            form: Vec::new(),
        }
    }

    /// A row or marker was written.
    pub(super) fn item(&mut self, item: &Item<'_>) {
        let rows = &mut self.rows;
        if rows.open.is_none() {
            rows.open = Some((item.start, item.open_before));
            rows.first.clear();
            rows.first.extend_from_slice(item.comparable);
        }
        rows.last.clear();
        rows.last.extend_from_slice(item.comparable);
        if rows.open.is_some_and(|(start, _)| item.end - start >= self.granularity) {
            rows.add_block();
        }
    }

    /// A partition was written whose last row or marker ends at `end`, from its start.
    pub(super) fn partition(&mut self, partition: &Partition, end: u64, hash: KeyHash) {
        if !self.rows.blocks.is_empty() {
            self.rows.add_block();
        }
        let position =
            if self.rows.blocks.len() > 1 { self.write_rows(partition, end) } else { !(partition.start as i64) };
        self.rows.clear();
        let len = signed_len(position);
        let payload = Payload::new(HAS_HASH + len as u8 - 1, &[&[hash.low_byte()], &position.to_be_bytes()[8 - len..]]);
        let mut form = std::mem::take(&mut self.form);
        form.clear();
        push_key_bytes(partition.token, &partition.key, &mut form);
        let mut differs = 0;
        if let Some(before) = self.pending.take() {
            differs = form.iter().zip(&before.form).take_while(|(a, b)| a == b).count() + 1;
            let len = differs.max(before.differs).min(before.form.len());
            self.trie.add(&before.form[..len], before.payload, &mut self.partitions_out);
            self.form = before.form;
        }
        self.pending = Some(Pending { form, payload, differs });
    }

    /// Writes the row index; the place of the partition's entry.
    fn write_rows(&mut self, partition: &Partition, end: u64) -> i64 {
        let out = &mut self.rows_out;
        let end_key = self.rows.end();
        let count = self.rows.blocks.len();
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

    /// Ends Partitions.db: the last key's path, the first and the last key, the footer.
    pub(super) fn finish(mut self, first: &[u8], last: &[u8]) -> (Out, Out) {
        let out = &mut self.partitions_out;
        if let Some(Pending { form, payload, differs }) = self.pending.take() {
            self.trie.add(&form[..differs.min(form.len())], payload, out);
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
