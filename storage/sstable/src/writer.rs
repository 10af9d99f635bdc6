//! Sorted partitions to the uncompressed Data.db, and to Partitions.db, Rows.db and Filter.db of `da`.
//!
//! 1. A partition's head and its static row, empty if the file has static columns and the partition none.
//! 2. Rows and markers. Whenever a granularity's worth of bytes is written, they are a block of the row index.
//! 3. The partition's end; its row index, if it has more than one block, goes to Rows.db; the partition index gets the
//!    shortest prefix of the key before that tells it from its neighbours.
//!
//! Compressing Data.db ([`crate::compression`]) and counting for Statistics.db are for who calls.
//!
//! Invariants: partitions ascend by token and key, rows and markers by clustering; the bytes are Cassandra's.

use crate::descriptor::Version;
use crate::filter::{Filter, KeyHash};
use crate::input::{push_signed_vint, push_vint};
use crate::row_codec::{BoundKind, END_OF_PARTITION, Encoder, push_deletion};
use crate::statistics::Header;
use crate::trie::writer::{Payload, TrieWriter, signed_bytes};
use crate::trie::{HAS_HASH, HAS_OPEN_DELETION, key_bytes};
use model::DecoratedKey;
use model::comparable::{self, BoundSide};
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder, RowView};
use model::schema::Table;
use std::sync::Arc;

/// Bytes of a block of the row index unless `column_index_size` says otherwise.
pub const ROW_INDEX_GRANULARITY: usize = 16 << 10;

/// What a [`Writer`] made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// Data.db, not compressed.
    pub data: Vec<u8>,
    /// Partitions.db.
    pub partitions: Vec<u8>,
    /// Rows.db.
    pub rows: Vec<u8>,
    /// Filter.db, unless the chance of false positives needs none.
    pub filter: Option<Vec<u8>>,
}

/// The partition that is being written.
#[derive(Debug)]
struct Partition {
    key: DecoratedKey,
    start: usize,
    deletion: Deletion,
    has_static: bool,
    /// Where the last row or marker begins, from the partition's start.
    previous: usize,
    open: Deletion,
    /// The block of the row index that is being filled: its start and what is open there.
    block: Option<(usize, Deletion)>,
    /// The comparable form of the last clustering, and that of the first of the block.
    last: Vec<u8>,
    first: Vec<u8>,
    index: RowIndexWriter,
}

#[derive(Default, Debug)]
struct RowIndexWriter {
    /// Blocks: separator and payload. A trie of one is not written.
    blocks: Vec<(Vec<u8>, Payload)>,
    max: Vec<u8>,
}

impl RowIndexWriter {
    fn add(&mut self, first: &[u8], last: &[u8], payload: Payload) {
        // The smallest of the shortest keys above the block before.
        let shared = first.iter().zip(&self.max).take_while(|(a, b)| a == b).count();
        let mut separator = Vec::new();
        if !self.blocks.is_empty() {
            separator.extend_from_slice(first.get(..shared).unwrap_or_default());
            separator.push(self.max.get(shared).map_or(0, |byte| byte.saturating_add(1)));
        }
        self.blocks.push((separator, payload));
        self.max = last.to_vec();
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
}

/// See the module.
#[derive(Debug)]
pub struct Writer {
    table: Arc<Table>,
    encoder: Encoder,
    granularity: usize,
    written: Written,
    filter: Option<Filter>,
    trie: TrieWriter,
    partition: Option<Partition>,
    first_key: Vec<u8>,
    /// The last finished partition: key, its byte-comparable form, payload, and the bytes that tell it from the one before.
    pending: Option<(Vec<u8>, Vec<u8>, Payload, usize)>,
}

impl Writer {
    /// A writer of rows of a table, encoded by a header that covers them; `keys` is how many partitions the filter of
    /// chance `filter_chance` is for. Columns that the header does not have are left out.
    pub fn new(table: Arc<Table>, header: &Header, granularity: usize, keys: u64, filter_chance: f64) -> Writer {
        Writer {
            encoder: Encoder::new(Version::Da, header, &table),
            table,
            granularity,
            written: Written { data: Vec::new(), partitions: Vec::new(), rows: Vec::new(), filter: None },
            filter: Filter::new(keys, filter_chance),
            trie: TrieWriter::default(),
            partition: None,
            first_key: Vec::new(),
            pending: None,
        }
    }

    /// Begins a partition (its key at most 65535 bytes, above that of the one before).
    pub fn start_partition(&mut self, key: &[u8], deletion: Deletion) {
        assert!(self.partition.is_none(), "a partition ends before the next one");
        let start = self.written.data.len();
        self.written.data.extend_from_slice(&(key.len() as u16).to_be_bytes());
        self.written.data.extend_from_slice(key);
        push_deletion(Version::Da, deletion, &mut self.written.data);
        self.partition = Some(Partition {
            key: DecoratedKey::new(key),
            start,
            deletion,
            has_static: false,
            previous: 0,
            open: Deletion::LIVE,
            block: None,
            last: Vec::new(),
            first: Vec::new(),
            index: RowIndexWriter::default(),
        });
    }

    /// Writes the static row, before all rows.
    pub fn static_row(&mut self, row: RowView<'_>) {
        if let Some(partition) = self.partition.as_mut().filter(|partition| !partition.has_static) {
            partition.has_static = true;
            if self.encoder.has_statics() {
                self.encoder.push_row(None, row, 0, &mut self.written.data);
            }
        }
    }

    fn no_static_row(&mut self) {
        let mut empty = Vec::new();
        RowBuilder::new(&mut empty, None, Deletion::LIVE);
        self.static_row(RowView::trusted(&empty));
    }

    /// Writes a row.
    pub fn row(&mut self, clustering: Clustering<'_>, row: RowView<'_>) {
        self.no_static_row();
        let mut form = Vec::new();
        comparable::clustering(&self.table, clustering.components(), &mut form);
        let before = self.begin(form);
        self.encoder.push_row(Some(clustering), row, before, &mut self.written.data);
        self.end();
    }

    /// Writes a marker: from its bound on, `deletion` is in force, [`Deletion::LIVE`] for none.
    pub fn marker(&mut self, prefix: Clustering<'_>, side: BoundSide, deletion: Deletion) {
        self.no_static_row();
        let Some(open) = self.partition.as_ref().map(|partition| partition.open) else { return };
        let Some(kind) = BoundKind::of(side, !open.is_live(), !deletion.is_live()) else { return };
        let mut form = Vec::new();
        comparable::bound(&self.table, prefix.components(), side, &mut form);
        let before = self.begin(form);
        let deletions = [open, deletion];
        let deletions = match (kind.is_boundary(), kind.is_start()) {
            (true, _) => &deletions[..],
            (_, true) => &deletions[1..],
            _ => &deletions[..1],
        };
        self.encoder.push_marker(kind, prefix, deletions, before, &mut self.written.data);
        if let Some(partition) = &mut self.partition {
            partition.open = deletion;
        }
        self.end();
    }

    /// The length of the row or marker before the one that begins now.
    fn begin(&mut self, form: Vec<u8>) -> u64 {
        let at = self.written.data.len();
        let Some(partition) = &mut self.partition else { return 0 };
        let at = at - partition.start;
        if partition.block.is_none() {
            partition.block = Some((at, partition.open));
            partition.first.clone_from(&form);
        }
        partition.last = form;
        let before = at - partition.previous;
        partition.previous = at;
        before as u64
    }

    fn end(&mut self) {
        let Some(partition) = &mut self.partition else { return };
        let at = self.written.data.len() - partition.start;
        if partition.block.is_some_and(|(start, _)| at - start >= self.granularity) {
            partition.add_block();
        }
    }

    /// Ends the partition.
    pub fn end_partition(&mut self) {
        self.no_static_row();
        let Some(mut partition) = self.partition.take() else { return };
        let end = self.written.data.len() - partition.start;
        self.written.data.push(END_OF_PARTITION);
        if !partition.index.blocks.is_empty() && partition.block.is_some() {
            partition.add_block();
        }
        let rows = &mut self.written.rows;
        let position = if partition.index.blocks.len() > 1 {
            let end_key = partition.index.end();
            let count = partition.index.blocks.len();
            let mut trie = TrieWriter::default();
            for (separator, payload) in partition.index.blocks {
                trie.add(&separator, payload, rows);
            }
            trie.add(&end_key, block_payload(end, Deletion::LIVE), rows);
            let root = trie.finish(rows);
            let position = rows.len() as i64;
            rows.extend_from_slice(&(partition.key.key.len() as u16).to_be_bytes());
            rows.extend_from_slice(&partition.key.key);
            let base = rows.len() as i64;
            push_vint(rows, partition.start as u64);
            push_signed_vint(rows, root as i64 - base);
            push_vint(rows, count as u64);
            push_deletion(Version::Da, partition.deletion, rows);
            position
        } else {
            !(partition.start as i64)
        };
        self.index_partition(partition.key, position);
    }

    fn index_partition(&mut self, key: DecoratedKey, position: i64) {
        let hash = KeyHash::of(&key.key);
        if let Some(filter) = &mut self.filter {
            filter.add(hash);
        }
        let bytes = signed_bytes(position);
        let flags = HAS_HASH + bytes.len() as u8 - 1;
        let payload = Payload { flags, bytes: [&[hash.low_byte()][..], &bytes].concat() };
        let form: Vec<u8> = key_bytes(&key).collect();
        let mut differs = 0;
        match self.pending.take() {
            None => self.first_key = key.key.to_vec(),
            Some((_, before, payload, differed)) => {
                differs = form.iter().zip(&before).take_while(|(a, b)| a == b).count() + 1;
                let len = differs.max(differed).min(before.len());
                self.trie.add(&before[..len], payload, &mut self.written.partitions);
            }
        }
        self.pending = Some((key.key.into_vec(), form, payload, differs));
    }

    /// Ends the file.
    pub fn finish(mut self) -> Written {
        assert!(self.partition.is_none(), "the last partition ends before the file");
        let out = &mut self.written.partitions;
        let mut last_key = Vec::new();
        if let Some((key, form, payload, differed)) = self.pending.take() {
            self.trie.add(&form[..differed.min(form.len())], payload, out);
            last_key = key;
        }
        let count = self.trie.count;
        let root = self.trie.finish(out);
        let keys_at = out.len() as u64;
        for key in [&self.first_key, &last_key] {
            out.extend_from_slice(&(key.len() as u16).to_be_bytes());
            out.extend_from_slice(key);
        }
        for number in [keys_at, count, root] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        self.written.filter = self.filter.map(|filter| filter.write());
        self.written
    }
}

impl Partition {
    fn add_block(&mut self) {
        if let Some((start, open)) = self.block.take() {
            self.index.add(&self.first, &self.last, block_payload(start, open));
        }
    }
}

fn block_payload(offset: usize, open: Deletion) -> Payload {
    let mut bytes = signed_bytes(offset as i64);
    let mut flags = bytes.len() as u8;
    if !open.is_live() {
        flags |= HAS_OPEN_DELETION;
        push_deletion(Version::Da, open, &mut bytes);
    }
    Payload { flags, bytes }
}
