//! What a read asks for and where its rows go.

use crate::clustering::Clustering;
use crate::key::{DecoratedKey, Token, TokenRange};
use crate::row::{Cell, Liveness};
use crate::schema::{ColumnId, TableId};
use std::sync::Arc;

/// A read of one partition or of a range of tokens, as one shard executes it.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadCommand {
    /// The table.
    pub table: TableId,
    /// Seconds since 1970 against which expiry is judged; read once per request.
    pub now_in_seconds: i64,
    /// Which partitions.
    pub partitions: Partitions,
    /// Which rows of each, in clustering order, not overlapping.
    pub slices: Arc<[Slice]>,
    /// Rows of a partition come last first.
    pub reversed: bool,
    /// Most rows to give; at least 1. Rows that the sink rejects do not count.
    pub rows_max: u64,
    /// Most rows to give of one partition; at least 1, [`u64::MAX`]: all. PER PARTITION LIMIT; 1 for DISTINCT.
    pub per_partition_max: u64,
    /// Visits ([`Self::VISIT_BYTES`]) after which the read ends as [`ReadEnd::Paused`]; [`u64::MAX`]: never.
    pub visits_max: u64,
    /// Where to go on: rows at or before it (in read order) are skipped.
    pub resume: Option<Position>,
    /// How many rows of the partition of `resume` earlier parts of the read gave.
    pub resume_partition_rows: u64,
    /// Whether a partition without a live row, but with live static cells, gives a row: one that the query restricts
    /// neither by clustering nor by regular columns. Needs `wants_static`.
    pub static_only: bool,
    /// Whether the sink looks at static cells.
    pub wants_static: bool,
    /// Set if each slice is one row by its whole clustering: the regular columns that the sink looks at, none of them
    /// multi-cell. What lies below the newest cells of these need not be read.
    pub row_columns: Option<Arc<[ColumnId]>>,
}

impl ReadCommand {
    /// What a read does is counted in visits: one for each partition, and for each row, live or not, one per started
    /// piece of this many bytes.
    pub const VISIT_BYTES: u64 = 4096;

    /// All rows of whole partitions to their end, without static cells.
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
}

/// Which partitions a read visits.
#[derive(Clone, PartialEq, Debug)]
pub enum Partitions {
    /// One.
    Key(DecoratedKey),
    /// All in a range, by token and key.
    Range(TokenRange),
}

/// Rows between two comparable bounds: `start <= comparable form < end` by memcmp (`end` empty: no end).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Inclusive start.
    pub start: Box<[u8]>,
    /// Exclusive end; empty means to the end of the partition.
    pub end: Box<[u8]>,
}

impl Slice {
    /// The whole partition.
    pub fn all() -> Slice {
        Slice { start: Box::default(), end: Box::default() }
    }

    /// Whether a comparable form lies before it.
    pub fn starts_after(&self, comparable: &[u8]) -> bool {
        // Nothing lies before an empty start: most slices have one, and comparing with it is a slow call for nothing.
        !self.start.is_empty() && comparable < &*self.start
    }

    /// Whether a comparable form lies inside.
    pub fn contains(&self, comparable: &[u8]) -> bool {
        !self.starts_after(comparable) && (self.end.is_empty() || comparable < &*self.end)
    }

    /// What is left of slices behind a place, in read order: behind the row there, or behind a range marker there alone.
    pub fn remaining(slices: &[Slice], place: &[u8], is_row: bool, reversed: bool) -> Arc<[Slice]> {
        // Forwards a marker comes before the row at its place, and is behind it when reversed.
        let bound = if is_row && !reversed { [place, &[0]].concat() } else { place.to_vec() };
        let rest = slices.iter().filter_map(|slice| {
            let mut slice = slice.clone();
            if reversed {
                if slice.end.is_empty() || *slice.end > *bound {
                    slice.end = bound.clone().into();
                }
                // An empty end has no limit, so that nothing is before an empty place. Behind a row at a slice's start
                // the slice still closes what is open.
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

/// The last row that was given or visited: what a paging state holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    /// Its partition.
    pub key: DecoratedKey,
    /// Its comparable clustering; `None`: the whole partition is done.
    pub comparable: Option<Box<[u8]>>,
}

impl Position {
    /// The partition's token.
    pub fn token(&self) -> Token {
        self.key.token
    }
}

/// A live row as a read gives it.
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
    /// Its primary key's liveness, if live.
    pub liveness: Option<Liveness>,
    /// Its live cells by column id, a collection's by path.
    pub cells: &'a [Cell<'a>],
    /// The live cells of its partition's static row, in the same order; none unless the command wants them.
    pub static_cells: &'a [Cell<'a>],
    /// Whether this stands for a partition that has nothing but static cells: clustering, comparable form and `cells`
    /// are empty, and a read goes on after the whole partition.
    pub static_only: bool,
}

/// Where rows go: an encoder into a connection's send buffer, a block for another core, a digest.
pub trait RowSink {
    /// Takes one row, or refuses it. `Full` ends the read after this row: the sink keeps its own limits in rows and bytes.
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState;

    /// So many dead cells, rows and range deletions were met since the last call.
    fn dead(&mut self, _count: u64) {}
}

/// Whether a sink takes more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkState {
    /// Go on.
    Open,
    /// Stop after this row.
    Full,
    /// The row does not pass the sink's filter: it counts for no limit but visits.
    Rejected,
}

/// How a read ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadEnd {
    /// No row is left.
    Exhausted,
    /// `rows_max` or the sink stopped it; there may be more after the last row given.
    Stopped,
    /// `visits_max` stopped it; there may be more after this place, at which no row needs to have been given.
    Paused(Box<Resume>),
}

/// Where a read goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resume {
    /// The last row given, or only visited.
    pub position: Position,
    /// Rows given of its partition so far, for PER PARTITION LIMIT.
    pub partition_rows: u64,
}
