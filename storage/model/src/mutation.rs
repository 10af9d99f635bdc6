//! A change of one partition in one or more tables of a keyspace, applied atomically and in isolation.
//!
//! A [`Mutation`] is its encoded bytes: appending it to the log is a copy, sending it to another core a move, and the
//! memtable copies row blobs into its arena. The encoding is in [`crate::codec`].

use crate::codec::{self, ByteReader, DecodeError};
use crate::key::KEY_BYTES_MAX;
use crate::partitioner::Partitioner;
use crate::row::Deletion;
use crate::schema::TableId;
use crate::token::Token;

pub use crate::clustering::{CLUSTERING_BYTES_MAX, Clustering, ClusteringBound, push_clustering};
pub use crate::codec::{MUTATION_BYTES_MAX, Operation};

/// An encoded, well-formed mutation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutation {
    token: Token,
    bytes: Vec<u8>,
}

impl Mutation {
    /// Decodes bytes from a log or another node, and checks them to their end.
    pub fn decode(partitioner: Partitioner, bytes: Vec<u8>) -> Result<Mutation, DecodeError> {
        let token = partitioner.token(codec::check(&bytes)?);
        Ok(Mutation { token, bytes })
    }

    /// The partition's token.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The serialised partition key.
    pub fn key(&self) -> &[u8] {
        codec::split_key(&self.bytes).map_or(&[], |(key, _)| key)
    }

    /// The encoded form.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The changes, one [`TableUpdate`] per table.
    pub fn updates(&self) -> impl Iterator<Item = TableUpdate<'_>> {
        updates(&self.bytes)
    }

    /// The encoded form, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The mutation without its changes to tables that `keeps` refuses; `None` if nothing is left.
    pub fn of_tables(self, keeps: impl Fn(TableId) -> bool) -> Option<Mutation> {
        if self.updates().all(|update| keeps(update.table)) {
            return Some(self);
        }
        let (_, mut tables) = codec::split_key(&self.bytes)?;
        let mut bytes = self.bytes[..self.bytes.len() - tables.rest.len()].to_vec();
        let head = bytes.len();
        loop {
            let before = tables.rest;
            let Some((table, _)) = codec::next_table(&mut tables) else { break };
            if keeps(table) {
                bytes.extend_from_slice(&before[..before.len() - tables.rest.len()]);
            }
        }
        (bytes.len() > head).then_some(Mutation { token: self.token, bytes })
    }
}

fn updates(bytes: &[u8]) -> impl Iterator<Item = TableUpdate<'_>> {
    let mut tables = codec::split_key(bytes).map_or(ByteReader { rest: &[] }, |(_, tables)| tables);
    std::iter::from_fn(move || {
        let (table, body) = codec::next_table(&mut tables)?;
        let mut body = ByteReader { rest: body };
        let partition_deletion = codec::partition_deletion(&mut body)?;
        Some(TableUpdate { table, partition_deletion, body })
    })
}

/// The tables of a mutation whose bytes have not been checked: all of them, if it is well-formed.
pub fn tables_of(bytes: &[u8]) -> impl Iterator<Item = TableId> + '_ {
    let mut tables = codec::split_key(bytes).map_or(ByteReader { rest: &[] }, |(_, tables)| tables);
    std::iter::from_fn(move || codec::next_table(&mut tables).map(|(table, _)| table))
}

/// Splits a mutation of exactly one table into the bytes before the table's id, the id, and the table's body without
/// its length. `None` if it has several tables or none.
pub fn cut_out_table(bytes: &[u8]) -> Option<(&[u8], TableId, &[u8])> {
    let (_, mut tables) = codec::split_key(bytes)?;
    let head = &bytes[..bytes.len() - tables.rest.len()];
    let (table, body) = codec::next_table(&mut tables)?;
    tables.rest.is_empty().then_some((head, table, body))
}

/// Restores a mutation from the pieces of [`cut_out_table`]: `cut` is the first and the last one concatenated. Appends
/// it to `out`; `None`, with nothing appended, if `cut` does not begin with a key.
pub fn put_back_table(cut: &[u8], table: TableId, out: &mut Vec<u8>) -> Option<()> {
    let (_, body) = codec::split_key(cut)?;
    out.extend_from_slice(&cut[..cut.len() - body.rest.len()]);
    out.extend_from_slice(&table.0);
    out.extend_from_slice(&(body.rest.len() as u32).to_le_bytes());
    out.extend_from_slice(body.rest);
    Some(())
}

/// Strips a mutation of exactly one row of one table of everything that can be computed: gives the table, and the key
/// with its length (2 bytes), the clustering's length (2 bytes), the clustering, and the row. `None` for any other
/// mutation, and if the clustering is longer than 65535 bytes.
pub fn cut_out_row(bytes: &[u8]) -> Option<(TableId, [&[u8]; 4])> {
    let (head, table, body) = cut_out_table(bytes)?;
    let (lengths, rest) = body.split_at_checked(6)?;
    // The low half of a four-byte length serves as the two-byte length.
    let &[0, codec::KIND_ROW, low, high, 0, 0] = lengths else { return None };
    let (clustering, row) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high])))?;
    let mut row = ByteReader { rest: row };
    let blob = row.long_bytes()?;
    row.rest.is_empty().then_some((table, [&head[1..], &lengths[2..4], clustering, blob]))
}

/// Restores a mutation of `table` from the concatenated pieces of [`cut_out_row`] and appends it to `out`. `None`, with
/// nothing appended, if `cut` ends before the row.
pub fn put_back_row(cut: &[u8], table: TableId, out: &mut Vec<u8>) -> Option<()> {
    let mut row = ByteReader { rest: cut };
    let (key, clustering) = (row.short_bytes()?, row.short_bytes()?);
    let body_len = 2 + 4 + clustering.len() + 4 + row.rest.len();
    out.push(codec::VERSION);
    out.extend_from_slice(&cut[..2 + key.len()]);
    out.extend_from_slice(&table.0);
    out.extend_from_slice(&(body_len as u32).to_le_bytes());
    out.extend_from_slice(&[0, codec::KIND_ROW]);
    for bytes in [clustering, row.rest] {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    Some(())
}

/// A well-formed mutation in borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub struct MutationView<'a> {
    token: Token,
    key: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> MutationView<'a> {
    /// Decodes a mutation and checks it to its end.
    ///
    /// # Errors
    /// The bytes are not a mutation.
    pub fn decode(partitioner: Partitioner, bytes: &'a [u8]) -> Result<MutationView<'a>, DecodeError> {
        let key = codec::check(bytes)?;
        Ok(MutationView { token: partitioner.token(key), key, bytes })
    }

    /// The partition's token.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The serialised partition key.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The changes, one [`TableUpdate`] per table.
    pub fn updates(&self) -> impl Iterator<Item = TableUpdate<'a>> + use<'a> {
        updates(self.bytes)
    }
}

/// The changes of a mutation to one table.
#[derive(Clone, Copy, Debug)]
pub struct TableUpdate<'a> {
    /// The table.
    pub table: TableId,
    /// The deletion of the whole partition; [`Deletion::LIVE`] if there is none.
    pub partition_deletion: Deletion,
    body: ByteReader<'a>,
}

impl<'a> TableUpdate<'a> {
    /// The changes of rows and the range deletions, in the order they were added.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'a>> + use<'a> {
        let mut body = self.body;
        std::iter::from_fn(move || codec::next_operation(&mut body))
    }
}

/// Builds a [`Mutation`] table by table. Changes belong to the last [`MutationBuilder::table`]; a change without one
/// panics.
pub struct MutationBuilder {
    bytes: Vec<u8>,
    token: Token,
    /// Offset at which the first table starts.
    tables_start: usize,
    /// Offset at which the current table's body starts.
    body_start: Option<usize>,
}

impl MutationBuilder {
    /// Starts a mutation of the partition `key`. Panics if the key is longer than [`KEY_BYTES_MAX`].
    pub fn new(partitioner: Partitioner, key: &[u8]) -> MutationBuilder {
        MutationBuilder::with_room(partitioner, key, 0)
    }

    /// [`MutationBuilder::new`], with capacity for rows whose values take about `room` bytes.
    pub fn with_room(partitioner: Partitioner, key: &[u8], room: usize) -> MutationBuilder {
        assert!(key.len() <= KEY_BYTES_MAX, "a partition key of {} bytes", key.len());
        let mut bytes = Vec::with_capacity(128 + key.len() + room);
        bytes.push(codec::VERSION);
        bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        bytes.extend_from_slice(key);
        MutationBuilder { token: partitioner.token(key), tables_start: bytes.len(), body_start: None, bytes }
    }

    /// Continues `mutation`: keeps all its changes and takes more tables.
    pub fn continuing(mutation: Mutation) -> MutationBuilder {
        let tables_start = 1 + 2 + mutation.key().len();
        MutationBuilder { token: mutation.token, tables_start, body_start: None, bytes: mutation.bytes }
    }

    /// The partition's token.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Starts the changes of the next table. A table may come more than once (in a batch): its changes merge when they
    /// are applied.
    pub fn table(&mut self, table: TableId) -> &mut Self {
        self.end_table();
        self.bytes.extend_from_slice(&table.0);
        self.bytes.extend_from_slice(&[0; 4]);
        self.body_start = Some(self.bytes.len());
        self.bytes.push(0);
        self
    }

    fn end_table(&mut self) {
        if let Some(start) = self.body_start.take() {
            self.patch_len(start);
        }
    }

    /// Writes the length of the bytes from `start` on into the four bytes before it.
    fn patch_len(&mut self, start: usize) {
        let len = (self.bytes.len() - start) as u32;
        self.bytes[start - 4..start].copy_from_slice(&len.to_le_bytes());
    }

    fn body_start(&self) -> usize {
        self.body_start.expect("a change comes after the table it belongs to")
    }

    /// Deletes the whole partition in the current table. Of several deletions the latest counts; one that deletes
    /// nothing is not written.
    pub fn delete_partition(&mut self, deletion: Deletion) -> &mut Self {
        let start = self.body_start();
        let mut body = ByteReader { rest: &self.bytes[start..] };
        let before = codec::partition_deletion(&mut body).unwrap_or(Deletion::LIVE);
        let deletion = before.max(deletion);
        if !deletion.is_live() {
            let old_end = start + 1 + if before.is_live() { 0 } else { 16 };
            let encoded =
                deletion.timestamp.to_le_bytes().into_iter().chain(deletion.local_deletion_time.to_le_bytes());
            self.bytes[start] = 1;
            self.bytes.splice(start + 1..old_end, encoded);
        }
        self
    }

    /// Adds a row. `write` appends the row blob with a [`crate::row::RowBuilder`] over the vector it is given.
    pub fn row(&mut self, clustering: Clustering<'_>, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.body_start();
        self.bytes.push(codec::KIND_ROW);
        self.push_bytes(clustering.0);
        self.bytes.extend_from_slice(&[0; 4]);
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.patch_len(start);
        self
    }

    /// Adds data for the static row. `write` appends the row blob with a [`crate::row::RowBuilder`] over the vector it
    /// is given, without liveness and deletion, which [`Mutation::decode`] refuses here.
    pub fn static_row(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.body_start();
        self.bytes.push(codec::KIND_STATIC_ROW);
        self.bytes.extend_from_slice(&[0; 4]);
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.patch_len(start);
        self
    }

    /// Adds a range deletion; one that deletes nothing is not written.
    pub fn delete_range(&mut self, start: ClusteringBound<'_>, end: ClusteringBound<'_>, d: Deletion) -> &mut Self {
        self.body_start();
        if d.is_live() {
            return self;
        }
        self.bytes.push(codec::KIND_RANGE_DELETION);
        self.bytes.extend_from_slice(&d.timestamp.to_le_bytes());
        self.bytes.extend_from_slice(&d.local_deletion_time.to_le_bytes());
        for bound in [start, end] {
            self.bytes.push(bound.inclusive.into());
            self.push_bytes(bound.prefix.0);
        }
        self
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes so far. [`Mutation::decode`] refuses more than [`MUTATION_BYTES_MAX`].
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no table has been added.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.tables_start
    }

    /// The finished mutation.
    pub fn finish(mut self) -> Mutation {
        self.end_table();
        Mutation { token: self.token, bytes: self.bytes }
    }
}
