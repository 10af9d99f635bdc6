//! A change of one partition key, in one keyspace, over one or more tables: atomic and isolated.
//!
//! A mutation *is* its bytes: the log append is a copy, crossing a core is a move, the memtable copies row blobs into its
//! arena. Layout in `codec.rs`.

use crate::codec::DecodeError;
use crate::key::Token;
use crate::row::{Deletion, RowView};
use crate::schema::TableId;

/// An encoded, well-formed mutation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutation {
    token: Token,
    bytes: Vec<u8>,
}

/// Largest encoded mutation: half of a commit log segment (32 MiB), as in Cassandra.
pub const MUTATION_BYTES_MAX: usize = 16 << 20;

impl Mutation {
    /// Checks bytes from a log or a peer to their end.
    pub fn decode(bytes: Vec<u8>) -> Result<Mutation, DecodeError> {
        let _ = bytes;
        todo!()
    }

    /// The partition's token.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The serialised partition key.
    pub fn key(&self) -> &[u8] {
        todo!()
    }

    /// The encoded form.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The changes, one per table.
    pub fn updates(&self) -> impl Iterator<Item = TableUpdate<'_>> {
        std::iter::empty()
    }
}

/// The part of a mutation that concerns one table.
#[derive(Clone, Copy, Debug)]
pub struct TableUpdate<'a> {
    /// The table.
    pub table: TableId,
    /// The deletion of the whole partition, or [`Deletion::LIVE`].
    pub partition_deletion: Deletion,
    #[expect(dead_code, reason = "read by operations()")]
    body: &'a [u8],
}

impl<'a> TableUpdate<'a> {
    /// The row changes and range deletions, in the order they were added.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'a>> {
        std::iter::empty()
    }
}

/// One change within a partition.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// New data for the row of a clustering.
    Row {
        /// All clustering values; empty for a table without clustering.
        clustering: Clustering<'a>,
        /// The data.
        row: RowView<'a>,
    },
    /// A deletion of all rows between two bounds.
    RangeDeletion {
        /// Where it starts.
        start: ClusteringBound<'a>,
        /// Where it ends.
        end: ClusteringBound<'a>,
        /// When.
        deletion: Deletion,
    },
}

/// Clustering values: `[u16 length][bytes]` (little-endian) per component, in table order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clustering<'a>(pub &'a [u8]);

impl<'a> Clustering<'a> {
    /// The values.
    pub fn components(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (len, tail) = rest.split_at_checked(2)?;
            let (component, tail) = tail.split_at_checked(u16::from_le_bytes([len[0], len[1]]) as usize)?;
            rest = tail;
            Some(component)
        })
    }
}

/// Longest clustering value.
pub const CLUSTERING_BYTES_MAX: usize = 65535;

/// Appends one clustering value (at most [`CLUSTERING_BYTES_MAX`] bytes) in the form [`Clustering`] reads.
pub fn push_clustering(out: &mut Vec<u8>, component: &[u8]) {
    out.extend_from_slice(&(component.len() as u16).to_le_bytes());
    out.extend_from_slice(component);
}

/// A place between rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusteringBound<'a> {
    /// The first values of a clustering, possibly none.
    pub prefix: Clustering<'a>,
    /// Whether the rows that begin with the prefix lie inside the range that this bound starts or ends.
    pub inclusive: bool,
}

/// Builds a [`Mutation`] table by table.
pub struct MutationBuilder {
    bytes: Vec<u8>,
    token: Token,
}

impl MutationBuilder {
    /// A mutation of the partition `key` (at most 65535 bytes).
    pub fn new(key: &[u8]) -> MutationBuilder {
        let _ = key;
        todo!()
    }

    /// Starts the changes of the next table. Tables may come more than once (a batch): they merge on apply.
    pub fn table(&mut self, table: TableId) -> &mut Self {
        let _ = table;
        todo!()
    }

    /// Deletes the whole partition in the current table.
    pub fn delete_partition(&mut self, deletion: Deletion) -> &mut Self {
        let _ = deletion;
        todo!()
    }

    /// Adds a row: `clustering` in the form of [`Clustering`], `write` fills the blob with a
    /// [`crate::row::RowBuilder`] over the vector it is given.
    pub fn row(&mut self, clustering: Clustering<'_>, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        let _ = (clustering, write);
        todo!()
    }

    /// Adds a range deletion.
    pub fn delete_range(&mut self, start: ClusteringBound<'_>, end: ClusteringBound<'_>, d: Deletion) -> &mut Self {
        let _ = (start, end, d);
        todo!()
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was added after the key.
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// The finished mutation.
    pub fn finish(self) -> Mutation {
        let _ = self.token;
        todo!()
    }
}
