//! Reads and writes that one core requests from another.

use crate::guards::tombstones::ScanCounts;
use crate::paxos::ballot::Ballot;
use crate::paxos::{Acceptance, Promise, Proposal, Update};
use crate::rows::block::{RowBlock, RowPlaces};
use crate::rows::filter::RowFilter;
use cluster::plan::CasPlan;
use cql::plan::{Modify, Selector, Transaction};
use engine::index::IndexLookup;
use model::digest::Digest;
use model::fragment_block::FragmentBlock;
use model::query::{ReadCommand, ReadEnd, Resume, Slice};
use model::value::BoundValue;
use model::{ColumnId, DecoratedKey, Failure, Table, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A read, and the form of its result.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// What to read.
    pub command: ReadCommand,
    /// The columns of the result, in order.
    pub selection: Arc<[Selector]>,
    /// Conditions that a row must meet to be returned.
    pub filter: Option<Arc<RowFilter>>,
    /// The index through which the rows are found.
    pub index: Option<IndexLookup>,
    /// Stop after the row with which the block reaches this many bytes.
    pub bytes_max: usize,
    /// Whether the position of each row is returned too.
    pub places: bool,
}

/// A read on its way to the core that owns what it reads, and on its way back with the result.
///
/// The core that sent it allocates, counts and frees everything that both cores look at: freeing another core's memory,
/// or counting references that another core counts too, would take longer than reading a row.
#[derive(Debug)]
pub struct ReadCall {
    /// The read.
    pub request: ReadRequest,
    /// Memory for the rows; the receiver allocates more if they do not fit.
    pub room: Vec<u8>,
    /// The result; `None` on the way to the owner.
    pub result: Option<Result<ReadReply, Failure>>,
}

/// The result of a read.
#[derive(Clone, Debug)]
pub struct ReadReply {
    /// Rows in protocol form.
    pub block: RowBlock,
    /// Whether the read ended, or why it stopped.
    pub end: ReadEnd,
    /// The position after the last row returned, if the read was stopped.
    pub last: Option<Resume>,
    /// The position of each row, if asked for.
    pub places: RowPlaces,
    /// Live rows and tombstones that the read met.
    pub(crate) scanned: ScanCounts,
}

impl Default for ReadReply {
    /// The reply of a read that has not begun: no rows so far, and possibly more to come.
    fn default() -> ReadReply {
        ReadReply {
            block: RowBlock::default(),
            end: ReadEnd::Stopped,
            last: None,
            places: RowPlaces::default(),
            scanned: ScanCounts::default(),
        }
    }
}

/// A read whose answer is merged with those of other replicas.
#[derive(Clone, PartialEq, Debug)]
pub struct FragmentRequest {
    /// What to read. Limits in rows count the rows that are live on this replica.
    pub command: ReadCommand,
    /// The block ends with the fragment with which it reaches this many bytes.
    pub bytes_max: usize,
}

/// The result of a read whose answer is compared with those of other replicas.
#[derive(Debug)]
pub struct DigestReply {
    /// The rows.
    pub rows: ReadReply,
    /// The digest of everything that the read visited.
    pub digest: Digest,
}

/// A request's write timestamp and second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteTimes {
    /// Write timestamp, microseconds since 1970.
    pub(crate) timestamp: i64,
    /// The timestamp of deletions of partitions and ranges: `timestamp`, or one less in a conditional change.
    pub(crate) ranges_deleted_at: i64,
    /// The request's time, seconds since 1970.
    pub(crate) now_in_seconds: i64,
}

/// A bound value that outlives its request.
#[derive(Clone, Debug)]
pub(crate) enum OwnedBound {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

/// Copies bound values so that they can outlive their request.
pub(crate) fn owned(bound: &[BoundValue<'_>]) -> Vec<OwnedBound> {
    let owned = bound.iter().map(|value| match value {
        BoundValue::Null => OwnedBound::Null,
        BoundValue::Unset => OwnedBound::Unset,
        BoundValue::Bytes(bytes) => OwnedBound::Bytes(bytes.to_vec()),
    });
    owned.collect()
}

/// Borrows copied values in the form that a request has.
pub(crate) fn borrowed(bound: &[OwnedBound]) -> Vec<BoundValue<'_>> {
    let borrowed = bound.iter().map(|value| match value {
        OwnedBound::Null => BoundValue::Null,
        OwnedBound::Unset => BoundValue::Unset,
        OwnedBound::Bytes(bytes) => BoundValue::Bytes(bytes),
    });
    borrowed.collect()
}

/// The part of a statement that changes elements of lists by index or by value in one partition.
#[derive(Clone, Debug)]
pub struct ListChange {
    pub(crate) modify: Modify,
    pub(crate) bound: Vec<OwnedBound>,
    /// The serialised partition key.
    pub(crate) key: Vec<u8>,
    pub(crate) when: WriteTimes,
}

/// Lists of a row, or of a partition's static row, that a change reads first.
#[derive(Clone, Debug)]
pub(crate) struct ListRead {
    pub(crate) table: Arc<Table>,
    pub(crate) key: DecoratedKey,
    /// The row's clustering; `None` for the static row.
    pub(crate) row: Option<Vec<u8>>,
    pub(crate) columns: Vec<ColumnId>,
    /// The time by which elements have expired, seconds since 1970.
    pub(crate) now_in_seconds: i64,
}

/// An element of a list.
#[derive(Clone, Debug)]
pub(crate) struct ListElement {
    /// The element's timeuuid.
    pub(crate) path: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// Write timestamp, microseconds.
    pub(crate) timestamp: i64,
}

/// The elements of a row's lists, in order. Empty for statements that do not read.
pub(crate) type Lists = BTreeMap<ColumnId, Vec<ListElement>>;

/// The lists that were read, by table, key and row.
pub(crate) type ListsByRow = BTreeMap<(TableId, Vec<u8>, Option<Vec<u8>>), Lists>;

/// A partition to be locked, and the lists to be read under the lock.
#[derive(Debug)]
pub struct LockRequest {
    pub(crate) table: TableId,
    pub(crate) key: DecoratedKey,
    pub(crate) reads: Vec<ListRead>,
}

/// A partition that is locked until its core is asked to unlock it.
#[derive(Debug)]
pub struct LockedPartition {
    pub(crate) ticket: u64,
    pub(crate) lists: ListsByRow,
}

/// A conditional change of one partition. Without statements it is a read that must come after all earlier decisions.
#[derive(Clone, Debug)]
pub struct ConditionalRequest {
    pub(crate) table: Arc<Table>,
    /// The serialised partition key.
    pub(crate) key: Vec<u8>,
    pub(crate) statements: Vec<ConditionalStatement>,
    /// The columns that the answer shows if the change is not applied.
    pub(crate) shown: Arc<[ColumnId]>,
    /// Who takes part, and what the client is told.
    pub(crate) plan: CasPlan,
    /// The request's time, seconds since 1970.
    pub(crate) now_in_seconds: i64,
    /// How long the decision may take.
    pub(crate) timeout: Duration,
    /// The read that the conditions need, if replicas on other nodes may answer it together with their promises.
    pub(crate) read: Option<ReadCommand>,
    /// For a transaction: what it reads, and what its changes depend on.
    pub(crate) transaction: Option<Box<TransactionRequest>>,
}

/// A transaction with its values. Its changes are the statements of the request that it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct TransactionRequest {
    pub(crate) plan: Arc<Transaction>,
    /// The values of the markers.
    pub(crate) bound: Vec<OwnedBound>,
    /// The rows of each LET assignment, then those of the SELECT, then those that changes add to.
    pub(crate) reads: Vec<RowsRead>,
    /// For each change: the read of the row that it adds to.
    pub(crate) added: Vec<Option<usize>>,
    /// The static columns whose values are used.
    pub(crate) statics: Arc<[ColumnId]>,
}

/// Some rows of the partition of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct RowsRead {
    /// Where they are, in the table's order.
    pub(crate) slices: Arc<[Slice]>,
    /// The limit; [`u64::MAX`] without one.
    pub(crate) rows_max: u64,
    /// The columns that are used.
    pub(crate) selection: Arc<[Selector]>,
    /// Whether a partition that has only static content gives a row.
    pub(crate) static_rows: bool,
    /// Whether at most one row is named, by its whole clustering.
    pub(crate) names_row: bool,
}

/// One statement of a conditional change with its values.
#[derive(Clone, Debug)]
pub(crate) struct ConditionalStatement {
    pub(crate) modify: Modify,
    pub(crate) bound: Vec<OwnedBound>,
}

impl ConditionalStatement {
    /// Bytes of its values.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |value: &OwnedBound| if let OwnedBound::Bytes(bytes) = value { bytes.len() as u64 } else { 0 };
        self.bound.iter().map(bytes).sum()
    }
}

/// A step of a round that another node runs about a partition.
#[derive(Debug)]
pub struct PaxosRequest {
    pub(crate) table: TableId,
    pub(crate) key: DecoratedKey,
    pub(crate) step: PaxosStep,
}

/// What the acceptor of a partition is asked.
#[derive(Clone, Debug)]
pub(crate) enum PaxosStep {
    /// To promise to accept nothing below a ballot.
    Prepare(Ballot),
    /// The same, and what the replica has of a partition.
    PrepareRead(Ballot, FragmentRequest),
    /// To accept.
    Accept(Proposal<Update>),
    /// To accept and commit, as the only replica.
    Settle(Proposal<Update>),
    /// To write what was decided.
    Commit(Proposal<Update>),
}

/// The answer to a [`PaxosRequest`].
#[derive(Debug)]
pub struct PaxosReply(pub(crate) PaxosAnswer);

/// What the acceptor of a partition answers.
#[derive(Debug)]
pub(crate) enum PaxosAnswer {
    /// To [`PaxosStep::Prepare`].
    Promise(Promise<Update>),
    /// To [`PaxosStep::PrepareRead`]: what was read under the promise.
    PromiseRead(Promise<Update>, FragmentBlock),
    /// To [`PaxosStep::Accept`] and [`PaxosStep::Settle`].
    Acceptance(Acceptance),
    /// To [`PaxosStep::Commit`].
    Committed,
}

/// The decision about a conditional change.
#[derive(Debug)]
pub struct Decision {
    /// Whether the change was made.
    pub(crate) applied: bool,
    /// The rows looked at if the change was not made, each as `false` and the columns shown; may be empty.
    pub(crate) rows: RowBlock,
}

impl Decision {
    /// The decision for a read, or for a change that has nothing to change.
    pub(crate) fn unchanged() -> Decision {
        Decision { applied: true, rows: RowBlock::default() }
    }
}
