//! Requests between cores (later: between nodes) and their replies.

use crate::ports::SchemaChange;
use crate::row_block::RowBlock;
use cql::plan::{Define, Selector};
use model::query::{Position, ReadCommand, ReadEnd};
use model::{Failure, Mutation, Schema, TableId};
use std::sync::Arc;

/// What one core asks of another.
#[derive(Debug)]
pub enum Request {
    /// Apply a mutation that the receiver owns.
    Mutate {
        /// The change.
        mutation: Mutation,
        /// Of a system keyspace: may exceed the memtable budget.
        system: bool,
    },
    /// Read what the receiver owns.
    Read(Box<ReadRequest>),
    /// Shard 0 only: run a DDL statement.
    Define(Box<Define>),
    /// Shard 0 only: truncate a table on all shards.
    Truncate(TableId),
    /// Empty this shard's part of a table and tell the log position of the cut.
    TruncateLocal(TableId),
    /// Serve this schema from now on; `dropped` tables are forgotten.
    SwitchSchema {
        /// The new schema.
        schema: Arc<Schema>,
        /// What changed; `None` at start.
        change: Option<SchemaChange>,
        /// Tables that are gone.
        dropped: Vec<TableId>,
    },
    /// Install a prepared statement.
    InstallPrepared {
        /// Its id.
        id: [u8; 16],
        /// The keyspace it was prepared in.
        keyspace: Option<Arc<str>>,
        /// Its text.
        text: Arc<str>,
    },
    /// Home shard of an id: keyspace and text, if known.
    FindPrepared([u8; 16]),
    /// A step of starting or stopping together: see `mailbox`.
    Barrier(&'static str),
}

/// A read with what its rows shall look like.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// What to read.
    pub command: ReadCommand,
    /// The result's columns, in order.
    pub selection: Arc<[Selector]>,
    /// Stop after the row with which the block reaches this many bytes.
    pub bytes_max: usize,
}

/// What a read gives.
#[derive(Debug)]
pub struct ReadReply {
    /// Rows in protocol form.
    pub block: RowBlock,
    /// How it ended.
    pub end: ReadEnd,
    /// The last row given, if any.
    pub last: Option<Position>,
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Reply {
    /// Done.
    Done(Result<(), Failure>),
    /// Of a read.
    Read(Result<ReadReply, Failure>),
    /// Of DDL: what changed; `None`: nothing.
    Defined(Result<Option<SchemaChange>, Failure>),
    /// Of a local truncation.
    Truncated(Result<engine::store::LogPosition, Failure>),
    /// Of a search for a prepared statement.
    Prepared(Option<(Option<Arc<str>>, Arc<str>)>),
}
