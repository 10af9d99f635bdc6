//! Reads and writes of one core on behalf of another.

use crate::guards::tombstones::ScanCounts;
use crate::request::AckTerms;
use crate::rows::block::{RowBlock, RowPlaces};
use crate::rows::filter::RowFilter;
use cql::plan::{Modify, Selector};
use engine::index::IndexLookup;
use model::query::{ReadCommand, ReadEnd, Resume};
use model::value::BoundValue;
use model::{ColumnId, Consistency, DecoratedKey, Failure, Home, Table, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A read with what its rows shall look like.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// What to read.
    pub command: ReadCommand,
    /// The result's columns, in order.
    pub selection: Arc<[Selector]>,
    /// Conditions that a row must meet to count.
    pub filter: Option<Arc<RowFilter>>,
    /// The index that leads to the rows.
    pub index: Option<IndexLookup>,
    /// Stop after the row with which the block reaches this many bytes.
    pub bytes_max: usize,
    /// Whether the place of each row is asked for.
    pub places: bool,
}

/// A read on its way to the core that owns what it reads, and on its way back with the result.
///
/// One core allocates, counts and frees what both look at: to free another core's memory, or to count references that
/// it counts too, takes longer than to read a row.
#[derive(Debug)]
pub struct ReadCall {
    /// What is asked.
    pub request: ReadRequest,
    /// Memory for the rows; the receiver takes more where they do not fit.
    pub room: Vec<u8>,
    /// What was found, on the way back.
    pub result: Option<Result<ReadReply, Failure>>,
}

/// The result of a read.
#[derive(Debug)]
pub struct ReadReply {
    /// Rows in protocol form.
    pub block: RowBlock,
    /// How it ended.
    pub end: ReadEnd,
    /// Where to go on after the last row given, if the read was stopped.
    pub last: Option<Resume>,
    /// The place of each row, if asked for.
    pub places: RowPlaces,
    /// Live rows and tombstones that the read met.
    pub(crate) scanned: ScanCounts,
}

impl Default for ReadReply {
    /// The reply of a read that has not begun: nothing so far, and perhaps more to come.
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

/// A request's write timestamp and second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteTimes {
    /// Microseconds.
    pub(crate) timestamp: i64,
    /// The timestamp of deletions of partitions and ranges: `timestamp`, or just before it in a conditional change.
    pub(crate) ranges_deleted_at: i64,
    /// Seconds since 1970.
    pub(crate) now_in_seconds: i64,
}

/// A bound value that leaves its request.
#[derive(Clone, Debug)]
pub(crate) enum OwnedBound {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

/// Copies bound values that leave their request.
pub(crate) fn owned(bound: &[BoundValue<'_>]) -> Vec<OwnedBound> {
    let owned = bound.iter().map(|value| match value {
        BoundValue::Null => OwnedBound::Null,
        BoundValue::Unset => OwnedBound::Unset,
        BoundValue::Bytes(bytes) => OwnedBound::Bytes(bytes.to_vec()),
    });
    owned.collect()
}

/// Borrows such values in the form in which a request has them.
pub(crate) fn borrowed(bound: &[OwnedBound]) -> Vec<BoundValue<'_>> {
    let borrowed = bound.iter().map(|value| match value {
        OwnedBound::Null => BoundValue::Null,
        OwnedBound::Unset => BoundValue::Unset,
        OwnedBound::Bytes(bytes) => BoundValue::Bytes(bytes),
    });
    borrowed.collect()
}

/// One partition's part of a statement that changes elements of lists by index or by value.
#[derive(Clone, Debug)]
pub struct ListChange {
    pub(crate) modify: Modify,
    pub(crate) bound: Vec<OwnedBound>,
    /// The serialised partition key.
    pub(crate) key: Vec<u8>,
    /// Whether the table lives on shard 0.
    pub(crate) home: Home,
    pub(crate) when: WriteTimes,
}

/// Lists of a row, or of a partition's static row, that a change reads first.
#[derive(Clone, Debug)]
pub(crate) struct ListRead {
    pub(crate) table: Arc<Table>,
    pub(crate) key: DecoratedKey,
    /// The row's clustering; `None`: the static row.
    pub(crate) row: Option<Vec<u8>>,
    pub(crate) columns: Vec<ColumnId>,
    /// Seconds since 1970, by which elements have expired.
    pub(crate) now_in_seconds: i64,
}

/// An element of a list.
#[derive(Clone, Debug)]
pub(crate) struct ListElement {
    /// A timeuuid.
    pub(crate) path: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// When it was written, microseconds.
    pub(crate) timestamp: i64,
}

/// The elements that the lists of a row have, in their order. Empty for statements that do not read.
pub(crate) type Lists = BTreeMap<ColumnId, Vec<ListElement>>;

/// The lists that were read, by table, key and row.
pub(crate) type ListsByRow = BTreeMap<(TableId, Vec<u8>, Option<Vec<u8>>), Lists>;

/// A partition to be locked, and which of its lists to read then.
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

/// A conditional change of one partition; without statements a read that must come after all decisions before it.
#[derive(Clone, Debug)]
pub struct ConditionalRequest {
    pub(crate) table: Arc<Table>,
    /// The serialised partition key.
    pub(crate) key: Vec<u8>,
    pub(crate) statements: Vec<ConditionalStatement>,
    /// The columns that are shown when the change is not applied.
    pub(crate) shown: Arc<[ColumnId]>,
    /// Whether the table lives on shard 0.
    pub(crate) home: Home,
    /// SERIAL or LOCAL_SERIAL.
    pub(crate) serial: Consistency,
    /// Seconds since 1970.
    pub(crate) now_in_seconds: i64,
    pub(crate) terms: AckTerms,
}

/// One statement of a conditional change with its values.
#[derive(Clone, Debug)]
pub(crate) struct ConditionalStatement {
    pub(crate) modify: Modify,
    pub(crate) bound: Vec<OwnedBound>,
}

/// What was decided about a conditional change.
#[derive(Debug)]
pub struct Decision {
    /// Whether the change is made.
    pub(crate) applied: bool,
    /// What stood against it: `false` and the columns shown, of each row looked at. None if none was there.
    pub(crate) rows: RowBlock,
}

impl Decision {
    /// The decision about a read, or about a change that changes nothing.
    pub(crate) fn unchanged() -> Decision {
        Decision { applied: true, rows: RowBlock::default() }
    }
}
