//! Messages between cores: requests and their replies.
//!
//! Each family has a file with the payloads of its requests: [`data`] (reads and writes), [`repair`], [`schema`],
//! [`streams`], [`units`], [`admin`] (metrics and operators' requests) and [`start`] (steps of starting together, which
//! are not requests).
//!
//! `mailbox` carries messages, `dispatch` serves requests. Only `execute` knows what a payload means in CQL.

pub(crate) mod admin;
pub(crate) mod data;
pub(crate) mod repair;
pub(crate) mod schema;
pub(crate) mod start;
pub(crate) mod streams;
pub(crate) mod units;

use crate::ports::{SchemaChange, Unreadable};
use crate::query_trace::Events;
use crate::verbs::Verb;
use admin::{
    HintAnswer, HintVerb, Members, MetricsReply, MetricsRequest, OwedTruncation, SplitRequest, TableAnswer, TableVerb,
};
use cluster::repair::session::SessionState;
use cluster::units::Grant;
use cql::plan::Define;
use data::{
    ConditionalRequest, Decision, DigestReply, FragmentRequest, ListChange, LockRequest, LockedPartition, PaxosReply,
    PaxosRequest, ReadCall, ReadReply, ReadRequest,
};
use engine::RepairSet;
use engine::store::LogPosition;
use engine::{BatchId, StoredBatch};
use model::fragment_block::FragmentBlock;
use model::query::Partitions;
use model::{Failure, Mutation, Schema, TableId, Token};
use repair::{Repaired, SessionRequest, UnfinishedList, UnfinishedRequest, Validation, ValidationRequest};
use runtime::Instant;
use schema::{Defined, PreparedText};
use start::StartStep;
use std::collections::BTreeSet;
use std::sync::Arc;
use streams::{StreamAnswer, StreamVerb};
use units::{CountedQuota, LeaseRequest};
use uuid::Uuid;

/// A message as it travels through the mesh between cores.
#[derive(Debug)]
pub enum Message {
    /// A call; its reply carries the same id.
    Request {
        /// The slot of the call in the caller's mailbox.
        id: u64,
        /// The request.
        request: Request,
    },
    /// The answer to a call.
    Reply {
        /// The slot of the call in the caller's mailbox.
        id: u64,
        /// The reply.
        reply: Reply,
    },
    /// A step of starting together.
    Start(Start),
}

/// The payload of [`Message::Start`].
#[derive(Debug)]
pub struct Start(pub(crate) Box<StartStep>);

impl Message {
    /// Begins to prefetch memory that the sender's core wrote.
    pub(crate) fn prefetch(&self) {
        if let Message::Request { request: Request::Read(call), .. } | Message::Reply { reply: Reply::Read(call), .. } =
            self
        {
            runtime::prefetch(std::slice::from_ref(&**call));
        }
    }

    /// The partition that the message asks to read or write, if it is such a request.
    pub(crate) fn partition(&self) -> Option<(TableId, Token)> {
        let Message::Request { request, .. } = self else { return None };
        match request {
            Request::Read(call) => match &call.request.command.partitions {
                Partitions::Key(key) => Some((call.request.command.table, key.token)),
                Partitions::Range(_) => None,
            },
            Request::Mutate { mutation, .. } => Some((mutation.updates().next()?.table, mutation.token())),
            _ => None,
        }
    }
}

/// What one core asks of another.
#[derive(Debug)]
pub enum Request {
    /// Apply a mutation that the receiver owns.
    Mutate {
        /// The change.
        mutation: Mutation,
        /// Whether it belongs to a system keyspace and may exceed the memtable budget.
        system: bool,
    },
    /// Apply a mutation that the receiver owns and has missed, but for what tables had before they were truncated.
    MutateLate {
        /// The change.
        mutation: Mutation,
        /// When it was to be written, microseconds since 1970.
        written_at: i64,
    },
    /// Apply a mutation of a counter table that the receiver owns; it has amounts in the place of counters.
    MutateCounters(Mutation),
    /// The same, but the answer is what was written, for the other replicas.
    LeadCounters(Mutation),
    /// Change elements of lists in a partition that the receiver owns, depending on the current lists.
    ChangeLists(Box<ListChange>),
    /// Decide a conditional change of a partition that the receiver owns.
    Decide(Box<ConditionalRequest>),
    /// Do a step of a round of another node about a partition that the receiver owns.
    Paxos(Box<PaxosRequest>),
    /// Lock a partition that the receiver owns until [`Request::Unlock`], and read lists of it.
    Lock(Box<LockRequest>),
    /// Release the lock with this ticket.
    Unlock(u64),
    /// Read what the receiver owns.
    Read(Box<ReadCall>),
    /// Read what the receiver owns, with a digest.
    ReadDigest(Box<ReadRequest>),
    /// Read the fragments of what the receiver owns.
    ReadFragments(Box<FragmentRequest>),
    /// The same of one set of SSTables.
    ReadFragmentsOf(Box<(RepairSet, FragmentRequest)>),
    /// Hash what the receiver owns of a segment.
    Validate(Box<ValidationRequest>),
    /// Note that ranges of a table are repaired on all replicas. Sent to shard 0.
    NoteRepaired(Box<Repaired>),
    /// List the partitions that the receiver owns in which rounds of Paxos have left a change unfinished.
    ListUnfinished(Box<UnfinishedRequest>),
    /// Keep a logged batch of another node. Sent to the core that owns the token of its id.
    StoreBatch(Box<StoredBatch>),
    /// Forget a logged batch. Sent to the core that keeps it.
    RemoveBatch(BatchId),
    /// The number and the bytes of an answer that the receiver awaits, of a node to which another one has passed a
    /// mutation on.
    RelayedAnswer(Box<(u64, Vec<u8>)>),
    /// Run a DDL statement. Sent to shard 0.
    Define(Box<Define>),
    /// Truncate a table on all shards. Sent to shard 0.
    Truncate(TableId),
    /// Have the cluster agree that members which are down owe the truncation of a table. Sent to shard 0.
    OweTruncation(Box<OwedTruncation>),
    /// Take these members for down, because they owe truncations.
    SwitchOwingNodes(Arc<BTreeSet<Uuid>>),
    /// Truncate this shard's part of a table and return the log position up to which its records are void.
    TruncateShard(TableId),
    /// Release the log segments that only a truncated or dropped table needed; its truncation record is durable.
    ReleaseLog(TableId),
    /// Tell the store about the altered tables of a schema that will be served soon.
    AdoptTables(Arc<Schema>),
    /// Serve this schema and forget the `dropped` tables.
    SwitchSchema {
        /// The new schema.
        schema: Arc<Schema>,
        /// What changed; `None` during a start.
        change: Option<SchemaChange>,
        /// Dropped tables.
        dropped: Vec<TableId>,
        /// The change's timestamp, microseconds: later writes must be above it.
        timestamp: i64,
        /// How far timestamps are ahead of the wall clock from now on, microseconds.
        clock_ahead: i64,
    },
    /// Place data on these nodes.
    SwitchTopology(Arc<Members>),
    /// Wait until no request that was planned before this epoch is under way, or, if `fence` says so, refuse those of
    /// other nodes from now on.
    EndOlder {
        /// The epoch.
        epoch: u64,
        /// Whether to refuse older requests instead of waiting.
        fence: bool,
    },
    /// The nodes with these host ids are believed to be alive.
    SwitchLiveNodes(Arc<BTreeSet<Uuid>>),
    /// Install a prepared statement.
    InstallPrepared {
        /// Its id.
        id: [u8; 16],
        /// The keyspace in which it was prepared.
        keyspace: Option<Arc<str>>,
        /// Its text.
        text: Arc<str>,
    },
    /// Find the text of a prepared statement. Sent to the id's home shard, or to shard 0.
    FindPrepared([u8; 16]),
    /// Serve a holder from a bucket of units that the receiver keeps.
    Lease(Box<LeaseRequest>),
    /// Count a request among those at once of a quota unless there are `most`. Sent to the core that counts them.
    BeginLimited {
        /// The quota.
        quota: CountedQuota,
        /// How many there may be.
        most: u32,
    },
    /// Take a request off that was counted.
    EndLimited(CountedQuota),
    /// Forget what was read of roles, because they have changed.
    ForgetRoles,
    /// Return metrics of this core.
    Metrics(MetricsRequest),
    /// Run an operator's request on this core's part of a table.
    Table(Box<TableVerb>),
    /// Run an operator's request about this core's hints.
    Hints(HintVerb),
    /// Take part in splitting a foreign SSTable.
    Split(Box<SplitRequest>),
    /// Take part in a session of incremental repair. Sent to shard 0.
    RepairSession(Box<SessionRequest>),
    /// Take part in streaming.
    Stream(Box<StreamVerb>),
    /// A request on behalf of a client's request that is traced.
    Traced {
        /// When the client's request began.
        began: Instant,
        /// What is asked.
        request: Box<Request>,
    },
    /// Serve a request of another node that is about the metadata. Sent to shard 0.
    Control(Box<(Verb, Vec<u8>)>),
    /// Answer when every shard has arrived at the same step of stopping together. Sent to shard 0.
    Barrier(&'static str),
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Reply {
    /// The answer to requests without a result.
    Done(Result<(), Failure>),
    /// The answer to [`Request::LeadCounters`].
    Counted(Result<Mutation, Failure>),
    /// The answer to [`Request::Decide`].
    Decided(Result<Decision, Failure>),
    /// The answer to [`Request::Paxos`].
    Paxos(Result<Box<PaxosReply>, Failure>),
    /// The answer to [`Request::Lock`].
    Locked(Result<LockedPartition, Failure>),
    /// The answer to [`Request::Read`].
    Read(Box<ReadCall>),
    /// The answer to [`Request::ReadDigest`].
    Digest(Result<Box<DigestReply>, Failure>),
    /// The answer to [`Request::ReadFragments`] and [`Request::ReadFragmentsOf`].
    Fragments(Result<FragmentBlock, Failure>),
    /// The answer to [`Request::Validate`].
    Validated(Result<Box<Validation>, Failure>),
    /// The answer to [`Request::ListUnfinished`].
    Unfinished(Result<Box<UnfinishedList>, Failure>),
    /// The answer to [`Request::Define`].
    Defined(Result<Defined, Failure>),
    /// The answer to [`Request::TruncateShard`].
    Truncated(Result<LogPosition, Failure>),
    /// The answer to [`Request::FindPrepared`]; `None` if there is no such statement.
    Prepared(Option<PreparedText>),
    /// The answer to [`Request::Lease`]; `None` if the receiver knows of no such limit.
    Leased(Option<Grant>),
    /// The answer to [`Request::BeginLimited`]: whether the request is counted.
    Begun(bool),
    /// The answer to [`Request::Metrics`].
    Metrics(MetricsReply),
    /// The answer to [`Request::Table`].
    Table(Result<TableAnswer, Failure>),
    /// The answer to [`Request::Hints`].
    Hints(Result<HintAnswer, Failure>),
    /// The answer to [`Request::Split`]: a position in the log, if one was asked for.
    Split(Result<Option<LogPosition>, Failure>),
    /// The answer to [`Request::RepairSession`]: the state of the session, if there is such a session.
    RepairSession(Result<Option<SessionState>, Failure>),
    /// The answer to [`Request::Stream`].
    Stream(StreamAnswer),
    /// The answer to [`Request::Control`].
    Control(Result<Vec<u8>, Unreadable>),
    /// The answer to [`Request::Traced`].
    Traced {
        /// The reply to the request inside.
        reply: Box<Reply>,
        /// What was done for it.
        events: Events,
    },
}

/// The failure of a call whose reply is of the wrong kind, which is a defect of this program.
pub(crate) fn unexpected() -> Failure {
    Failure::server("another core gave an answer of another kind").unknown()
}

impl Reply {
    /// The result of a request that returns nothing.
    pub(crate) fn done(self) -> Result<(), Failure> {
        match self {
            Reply::Done(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::LeadCounters`].
    pub(crate) fn counted(self) -> Result<Mutation, Failure> {
        match self {
            Reply::Counted(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Decide`].
    pub(crate) fn decided(self) -> Result<Decision, Failure> {
        match self {
            Reply::Decided(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Paxos`].
    pub(crate) fn paxos(self) -> Result<PaxosReply, Failure> {
        match self {
            Reply::Paxos(result) => result.map(|reply| *reply),
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Lock`].
    pub(crate) fn locked(self) -> Result<LockedPartition, Failure> {
        match self {
            Reply::Locked(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Read`].
    pub(crate) fn read(self) -> Result<ReadReply, Failure> {
        match self {
            Reply::Read(call) => call.result.unwrap_or_else(|| Err(unexpected())),
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::ReadDigest`].
    pub(crate) fn digest(self) -> Result<DigestReply, Failure> {
        match self {
            Reply::Digest(result) => result.map(|reply| *reply),
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::ReadFragments`].
    pub(crate) fn fragments(self) -> Result<FragmentBlock, Failure> {
        match self {
            Reply::Fragments(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::ListUnfinished`].
    pub(crate) fn unfinished(self) -> Result<UnfinishedList, Failure> {
        match self {
            Reply::Unfinished(result) => result.map(|list| *list),
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Validate`].
    pub(crate) fn validated(self) -> Result<Validation, Failure> {
        match self {
            Reply::Validated(result) => result.map(|validation| *validation),
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Define`].
    pub(crate) fn defined(self) -> Result<Defined, Failure> {
        match self {
            Reply::Defined(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::TruncateShard`].
    pub(crate) fn truncated(self) -> Result<LogPosition, Failure> {
        match self {
            Reply::Truncated(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Lease`]; nothing if it was not served.
    pub(crate) fn leased(self) -> Option<Grant> {
        match self {
            Reply::Leased(grant) => grant,
            _ => None,
        }
    }

    /// The result of [`Request::BeginLimited`]; none is counted if it was not served.
    pub(crate) fn begun(self) -> bool {
        matches!(self, Reply::Begun(true))
    }

    /// The result of [`Request::Metrics`].
    pub(crate) fn metrics(self) -> Result<MetricsReply, Failure> {
        match self {
            Reply::Metrics(reply) => Ok(reply),
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Table`].
    pub(crate) fn table(self) -> Result<TableAnswer, Failure> {
        match self {
            Reply::Table(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Hints`].
    pub(crate) fn hints(self) -> Result<HintAnswer, Failure> {
        match self {
            Reply::Hints(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::RepairSession`].
    pub(crate) fn repair_session(self) -> Result<Option<SessionState>, Failure> {
        match self {
            Reply::RepairSession(result) => result,
            _ => Err(unexpected()),
        }
    }

    /// The result of [`Request::Split`].
    pub(crate) fn split(self) -> Result<Option<LogPosition>, Failure> {
        match self {
            Reply::Split(result) => result,
            _ => Err(unexpected()),
        }
    }
}
