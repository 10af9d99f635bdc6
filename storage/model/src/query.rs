//! Read commands, the sinks that take their rows, and where a read ended.

use crate::clustering::Clustering;
use crate::key::DecoratedKey;
use crate::row::{Cell, Liveness};
use crate::schema::{ColumnId, TableId};
use crate::token::{Token, TokenRange};
use std::cmp::Ordering;
use std::sync::Arc;

/// A read of one partition or of a range of tokens, as one shard executes it.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadCommand {
    /// The table.
    pub table: TableId,
    /// The time against which expiry is judged, seconds since 1970; taken once per request.
    pub now_in_seconds: i64,
    /// The partitions to read.
    pub partitions: Partitions,
    /// The rows to read of each partition, in clustering order and not overlapping.
    pub slices: Arc<[Slice]>,
    /// Whether rows of a partition come in descending clustering order.
    pub reversed: bool,
    /// Most rows to return; at least 1. Rows that the sink rejects do not count.
    pub rows_max: u64,
    /// Most rows to return per partition; at least 1, [`u64::MAX`] for all. PER PARTITION LIMIT, and 1 for DISTINCT.
    pub per_partition_max: u64,
    /// Number of visits (see [`Self::VISIT_BYTES`]) after which the read ends as [`ReadEnd::Paused`]; [`u64::MAX`] for
    /// never.
    pub visits_max: u64,
    /// Where to continue: rows at or before this position, in read order, are skipped.
    pub resume: Option<Position>,
    /// How many rows of the partition of `resume` earlier parts of the read returned.
    pub resume_partition_rows: u64,
    /// Whether a partition with live static cells but no live row gives a row. This is so for queries that restrict
    /// neither clustering nor regular columns. Needs `wants_static`.
    pub static_only: bool,
    /// Whether the sink uses static cells.
    pub wants_static: bool,
    /// Set if each slice is a single row named by its whole clustering: the regular columns that the sink uses, none of
    /// them multi-cell. A read may then stop at the newest cells of these columns and leave older sources unread.
    pub row_columns: Option<Arc<[ColumnId]>>,
}

impl ReadCommand {
    /// The work of a read is counted in visits: one per partition, and for each row, live or not, one per started piece
    /// of this many bytes.
    pub const VISIT_BYTES: u64 = 4096;

    /// A read of all rows of whole partitions without limits and without static cells.
    pub fn all(table: TableId, now_in_seconds: i64, partitions: Partitions) -> ReadCommand {
        ReadCommand {
            table,
            now_in_seconds,
            partitions,
            slices: [Slice::all()].into(),
            reversed: false,
            rows_max: u64::MAX,
            per_partition_max: u64::MAX,
            visits_max: u64::MAX,
            resume: None,
            resume_partition_rows: 0,
            static_only: false,
            wants_static: false,
            row_columns: None,
        }
    }

    /// Whether this reads one row of one partition and names the columns, so that sources may be left unread.
    #[inline]
    pub fn is_point(&self) -> bool {
        self.row_columns.is_some()
            && self.slices.len() == 1
            && !self.wants_static
            && matches!(self.partitions, Partitions::Key(_))
    }
}

/// The partitions of a read.
#[derive(Clone, PartialEq, Debug)]
pub enum Partitions {
    /// A single partition.
    Key(DecoratedKey),
    /// All partitions of a range, by token and key.
    Range(TokenRange),
}

/// A range of rows between two comparable bounds: `start <= comparable form < end` by memcmp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The inclusive start; empty for the start of the partition.
    pub start: Box<[u8]>,
    /// The exclusive end; empty for the end of the partition.
    pub end: Box<[u8]>,
}

impl Slice {
    /// A whole partition.
    pub fn all() -> Slice {
        Slice { start: Box::default(), end: Box::default() }
    }

    /// Whether the slice starts after a comparable form.
    pub fn starts_after(&self, comparable: &[u8]) -> bool {
        // Most slices have an empty start, which nothing lies before: this saves the call of memcmp.
        !self.start.is_empty() && comparable < &*self.start
    }

    /// Whether a comparable form lies in the slice.
    pub fn contains(&self, comparable: &[u8]) -> bool {
        !self.starts_after(comparable) && (self.end.is_empty() || comparable < &*self.end)
    }

    /// The rest of `slices` after `place`, a comparable form, in read order: after the row at it, or only after a range
    /// marker at it.
    pub fn remaining(slices: &[Slice], place: &[u8], is_row: bool, reversed: bool) -> Arc<[Slice]> {
        // In a forward read a marker comes before the row at its place; in a reversed read it comes after it.
        let bound = if is_row && !reversed { [place, &[0]].concat() } else { place.to_vec() };
        let rest = slices.iter().filter_map(|slice| {
            let mut slice = slice.clone();
            if reversed {
                if slice.end.is_empty() || *slice.end > *bound {
                    slice.end = bound.clone().into();
                }
                // An empty end is unlimited, so that nothing comes before an empty place. After a row at a slice's
                // start the slice still closes an open range deletion.
                let is_left = slice.start < slice.end || is_row && slice.start == slice.end;
                (!bound.is_empty() && is_left).then_some(slice)
            } else {
                if *slice.start < *bound {
                    slice.start = bound.clone().into();
                }
                (slice.end.is_empty() || slice.start < slice.end).then_some(slice)
            }
        });
        rest.collect()
    }
}

/// The last row that was returned or visited: the content of a paging state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    /// Its partition.
    pub key: DecoratedKey,
    /// Its comparable clustering; `None` if the whole partition is done.
    pub comparable: Option<Box<[u8]>>,
}

impl Position {
    /// The partition's token.
    pub fn token(&self) -> Token {
        self.key.token
    }

    /// Which of two places comes first in a read, `reversed` or not; a partition ends behind all its rows.
    pub fn read_order(&self, other: &Position, reversed: bool) -> Ordering {
        self.key.cmp(&other.key).then_with(|| match (&self.comparable, &other.comparable) {
            (Some(a), Some(b)) if reversed => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        })
    }
}

/// A live row as a read passes it to its sink.
#[derive(Clone, Copy, Debug)]
pub struct LiveRow<'a> {
    /// Its partition's token.
    pub token: Token,
    /// Its serialised partition key.
    pub key: &'a [u8],
    /// Its clustering values.
    pub clustering: Clustering<'a>,
    /// The comparable form of its clustering, for paging.
    pub comparable: &'a [u8],
    /// The liveness of its primary key, if it is live.
    pub liveness: Option<Liveness>,
    /// Its live cells in the order of column ids, those of a collection in the order of their paths.
    pub cells: &'a [Cell<'a>],
    /// The live cells of its partition's static row, in the same order; empty unless the command wants them.
    pub static_cells: &'a [Cell<'a>],
    /// Whether this stands for a partition that has only static cells: clustering, comparable form and `cells` are
    /// empty, and a read continues after the whole partition.
    pub static_only: bool,
}

/// A consumer of rows: an encoder into a connection's send buffer, a block for another core, a digest.
pub trait RowSink {
    /// Takes or rejects one row. `Full` ends the read after this row; the sink enforces its own limits in rows and
    /// bytes.
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState;

    /// Whether rows must come with their cells. A sink that only counts rows is served faster.
    fn takes_cells(&self) -> bool {
        true
    }

    /// Reports how many dead cells, rows and range deletions were scanned since the last call.
    fn dead(&mut self, _count: u64) {}
}

/// A sink that takes every row and keeps none: for reads whose answer is a digest or fragments.
#[derive(Clone, Copy, Debug)]
pub struct EveryRow;

impl RowSink for EveryRow {
    fn takes_cells(&self) -> bool {
        false
    }

    fn row(&mut self, _: &LiveRow<'_>) -> SinkState {
        SinkState::Open
    }
}

/// A sink's answer to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkState {
    /// The row is taken, and the sink takes more.
    Open,
    /// The row is taken, and the read ends.
    Full,
    /// The row does not pass the sink's filter; it counts as a visit but towards no other limit.
    Rejected,
}

/// How a read ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadEnd {
    /// There are no more rows.
    Exhausted,
    /// `rows_max` or the sink ended it; there may be more rows after the last one returned.
    Stopped,
    /// `visits_max` ended it; there may be more rows after this position, at which no row need have been returned.
    Paused(Box<Resume>),
}

/// Where a paused read continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resume {
    /// The last row that was returned or visited.
    pub position: Position,
    /// Rows returned of its partition so far, for PER PARTITION LIMIT.
    pub partition_rows: u64,
}
