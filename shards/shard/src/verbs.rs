//! Requests between cores (later: between nodes) and their replies.

use crate::execute::batch_reading::{Hold, Holding};
use crate::execute::conditional::decision::Decided;
use crate::execute::conditional::request::Conditional;
use crate::execute::modify::reading::ReadingChange;
use crate::metrics::{Measure, Measured, RequestFigures, ShardFigures};
use crate::ports::{Observation, SchemaChange};
use crate::query_trace::Events;
use crate::row_block::{Places, RowBlock};
use crate::row_filter::RowFilter;
use crate::split::PartRequest;
use crate::table_verbs::{TableAnswer, TableVerb};
use crate::tombstones::Met;
use cql::plan::{Define, Selector};
use engine::index::IndexLookup;
pub use model::query::Resume;
use model::query::{ReadCommand, ReadEnd};
use model::{Failure, Mutation, Schema, TableId};
use runtime::Instant;
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
    /// Apply a mutation of a counter table that the receiver owns, with amounts in the place of counters.
    Count(Mutation),
    /// Change what the receiver owns, depending on what is there.
    Change(Box<ReadingChange>),
    /// Decide about a partition that the receiver owns.
    Decide(Box<Conditional>),
    /// Lock a partition that the receiver owns until [`Request::LetGo`], and read lists of it.
    Hold(Box<Hold>),
    /// Let go of the lock with this ticket.
    LetGo(u64),
    /// Read what the receiver owns.
    Read(Box<ReadCall>),
    /// Shard 0 only: run a DDL statement.
    Define(Box<Define>),
    /// Shard 0 only: truncate a table on all shards.
    Truncate(TableId),
    /// Empty this shard's part of a table and tell the log position of the cut.
    TruncateLocal(TableId),
    /// Let go of this shard's log segments that only a truncated or dropped table needed; its cut is durable.
    Release(TableId),
    /// Let the store know the altered tables of a schema that will be served soon.
    AdoptTables(Arc<Schema>),
    /// Serve this schema from now on; `dropped` tables are forgotten.
    SwitchSchema {
        /// The new schema.
        schema: Arc<Schema>,
        /// What changed; `None` at start.
        change: Option<SchemaChange>,
        /// Tables that are gone.
        dropped: Vec<TableId>,
        /// The change's timestamp, microseconds: what is written from now on is later.
        timestamp: i64,
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
    /// What this core sees of its clients.
    Observe,
    /// These figures of this core's work with all tables.
    Measure(Vec<Measure>),
    /// The figures of this core's requests.
    MeasureRequests,
    /// All that this core tells of itself.
    Figures,
    /// What an operator asks of a table's storage.
    Table(Box<TableVerb>),
    /// Take part in splitting a foreign SSTable.
    Part(Box<PartRequest>),
    /// Any other request, on behalf of a client's request that is traced.
    Traced {
        /// When the client's request began.
        began: Instant,
        /// What is asked.
        request: Box<Request>,
    },
    /// Shard 0 only: answered when every shard has asked for the same step of stopping together.
    Barrier(&'static str),
}

/// A read with what its rows shall look like.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// What to read.
    pub command: ReadCommand,
    /// The result's columns, in order.
    pub selection: Arc<[Selector]>,
    /// What rows are asked for before they count.
    pub filter: Option<Arc<RowFilter>>,
    /// The index that leads to the rows.
    pub index: Option<IndexLookup>,
    /// Stop after the row with which the block reaches this many bytes.
    pub bytes_max: usize,
    /// Whether the place of each row is asked for.
    pub places: bool,
}

/// A read on its way to the core that owns what it reads, and on its way back with what that found: one core allocates,
/// counts and frees what both look at, for to free another core's memory, or to count references that it counts too, takes
/// longer than to read a row.
#[derive(Debug)]
pub struct ReadCall {
    /// What is asked.
    pub request: ReadRequest,
    /// Room for the rows; more is taken where they do not fit.
    pub room: Vec<u8>,
    /// What was found, on the way back.
    pub result: Option<Result<ReadReply, Failure>>,
}

/// What a read gives.
#[derive(Debug)]
pub struct ReadReply {
    /// Rows in protocol form.
    pub block: RowBlock,
    /// How it ended.
    pub end: ReadEnd,
    /// After the last row given, if the read was stopped.
    pub last: Option<Resume>,
    /// The place of each row, if asked for.
    pub places: Places,
    /// What it met.
    pub(crate) met: Met,
}

impl Default for ReadReply {
    /// Of a read that has not begun: nothing, and perhaps more.
    fn default() -> ReadReply {
        ReadReply {
            block: RowBlock::default(),
            end: ReadEnd::Stopped,
            last: None,
            places: Places::default(),
            met: Met::default(),
        }
    }
}

/// What DDL did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Defined {
    /// What changed; `None`: nothing.
    pub change: Option<SchemaChange>,
    /// What the client is told besides.
    pub warnings: Vec<String>,
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Reply {
    /// Done.
    Done(Result<(), Failure>),
    /// Of a decision.
    Decided(Result<Decided, Failure>),
    /// Of a lock.
    Held(Result<Holding, Failure>),
    /// Of a read.
    Read(Box<ReadCall>),
    /// Of DDL.
    Defined(Result<Defined, Failure>),
    /// Of a local truncation.
    Truncated(Result<engine::store::LogPosition, Failure>),
    /// Of a look at a core's clients.
    Observed(Observation),
    /// Of figures by table.
    Measured(Box<Measured>),
    /// Of figures of requests.
    MeasuredRequests(Box<RequestFigures>),
    /// Of a core.
    Figures(Box<ShardFigures>),
    /// Of an operator's request.
    Table(Result<TableAnswer, Failure>),
    /// Of a part in splitting an SSTable: a place in the log, if one was asked for.
    Part(Result<Option<engine::store::LogPosition>, Failure>),
    /// Of a traced request.
    Traced {
        /// Its reply.
        reply: Box<Reply>,
        /// What was done.
        events: Events,
    },
    /// Of a search for a prepared statement.
    Prepared(Option<(Option<Arc<str>>, Arc<str>)>),
}

/// Two ends of a call that do not know each other's words: a defect of this program.
pub(crate) fn unexpected() -> Failure {
    Failure::server("another core gave an answer of another kind").unknown()
}

impl Reply {
    /// The answer to what is only done.
    pub(crate) fn done(self) -> Result<(), Failure> {
        match self {
            Reply::Done(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The answer to what is decided.
    pub(crate) fn decided(self) -> Result<Decided, Failure> {
        match self {
            Reply::Decided(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The answer to what locks a partition.
    pub(crate) fn held(self) -> Result<Holding, Failure> {
        match self {
            Reply::Held(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The answer to a read.
    pub(crate) fn read(self) -> Result<ReadReply, Failure> {
        match self {
            Reply::Read(call) => call.result.unwrap_or_else(|| Err(unexpected())),
            _ => Err(unexpected()),
        }
    }

    /// The answer to a local truncation.
    pub(crate) fn truncated(self) -> Result<engine::store::LogPosition, Failure> {
        match self {
            Reply::Truncated(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The answer to a look at a core's clients.
    pub(crate) fn observed(self) -> Result<Observation, Failure> {
        match self {
            Reply::Observed(observation) => Ok(observation),
            _ => Err(unexpected()),
        }
    }

    /// The answer to an operator's request.
    pub(crate) fn table(self) -> Result<TableAnswer, Failure> {
        match self {
            Reply::Table(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The answer to a part in splitting an SSTable.
    pub(crate) fn part(self) -> Result<Option<engine::store::LogPosition>, Failure> {
        match self {
            Reply::Part(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The answer to DDL.
    pub(crate) fn defined(self) -> Result<Defined, Failure> {
        match self {
            Reply::Defined(result) => result,
            _ => Err(unexpected()),
        }
    }
}
