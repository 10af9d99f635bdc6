//! What a read asks for and where its rows go.

use crate::key::{DecoratedKey, Token, TokenRange};
use crate::mutation::Clustering;
use crate::row::{Cell, Liveness};
use crate::schema::TableId;
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
    /// Most rows to give; at least 1.
    pub rows_max: u64,
    /// Most rows to give of one partition; [`u64::MAX`]: all.
    pub per_partition_max: u64,
    /// Where to go on: rows at or before it (in read order) are skipped.
    pub resume: Option<Position>,
    /// Rows that were given before of the partition of `resume`.
    pub resume_partition_rows: u64,
    /// Whether rows shall carry their partition's static cells.
    pub wants_static: bool,
    /// Whether a partition without a live row in the slices, but with static content, gives a row of that alone.
    pub static_only: bool,
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

    /// Whether a comparable form lies inside.
    pub fn contains(&self, comparable: &[u8]) -> bool {
        comparable >= &*self.start && (self.end.is_empty() || comparable < &*self.end)
    }
}

/// The last row that was given: what a paging state holds.
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
    /// The live static cells of its partition, ordered as `cells`; empty unless they were asked for.
    pub static_cells: &'a [Cell<'a>],
    /// Whether this is no row, but what a partition without rows holds in its static columns: without clustering and
    /// cells.
    pub static_only: bool,
}

/// Where rows go: an encoder into a connection's send buffer, a block for another core, a digest.
pub trait RowSink {
    /// Takes one row, or rejects it. `Full` ends the read after this row: the sink keeps its own limits in rows and bytes.
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState;
}

/// Whether a sink takes more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkState {
    /// Go on.
    Open,
    /// Stop after this row.
    Full,
    /// Go on; this row was not taken and counts for no limit.
    Rejected,
}

/// How a read ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadEnd {
    /// No row is left.
    Exhausted,
    /// `rows_max` or the sink stopped it; there may be more.
    Stopped,
}
