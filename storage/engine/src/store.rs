//! All tables of a shard: start, replay, writes, reads, truncation, stop.
//!
//! Start, driven by the crate `shard` so that schema comes before data:
//! 1. `Store::open` scans the log's segments (headers and groups), stopping exactly at a torn tail.
//! 2. On shard 0: `replay(system tables)`, then the schema is read from them.
//! 3. On every shard: `add_table` for all tables, then `replay_rest`.
//!
//! Truncation: see [`Store::truncate`]. Old segments: those found at start stay until every table in them is dropped or
//! truncated; shard 0 removes them.

use crate::{Error, Options};
use model::query::{ReadCommand, ReadEnd, RowSink};
use model::{Mutation, Table, TableId};
use std::rc::Rc;
use std::sync::Arc;

/// A shard's storage. Cloning shares it.
#[derive(Clone)]
pub struct Store {
    _inner: Rc<()>,
}

/// A point in this shard's log: everything of a table before it is gone after a truncation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogPosition {
    /// `counter << 16 | shard`.
    pub segment: u64,
    /// Offset in the segment, bytes.
    pub offset: u32,
}

/// A table's truncation: stored in `system.local.truncated_at` as [`Truncation::encode`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Truncation {
    /// Segments whose counter (id >> 16) is below this lie before the truncation, whatever shard wrote them.
    pub counter_floor: u64,
    /// For segments at or above the floor: per writing shard the position before which the table's data is gone.
    pub positions: Vec<LogPosition>,
    /// When, milliseconds since 1970.
    pub at_millis: i64,
}

impl Truncation {
    /// Bytes for the system table.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }

    /// `None` for bytes that `encode` did not make.
    pub fn decode(bytes: &[u8]) -> Option<Truncation> {
        let _ = bytes;
        todo!()
    }

    /// Whether a record at `position` was truncated away.
    pub fn covers(&self, position: LogPosition) -> bool {
        let _ = position;
        todo!()
    }
}

impl Store {
    /// Opens the shard's part of the log directory and reads what is there, without applying anything yet.
    pub async fn open(options: Options) -> Result<Store, Error> {
        let _ = options;
        todo!()
    }

    /// Makes a table known (idempotent; replaces the description on a new schema version).
    pub fn add_table(&self, table: Arc<Table>, local: bool) {
        let _ = (table, local);
        todo!()
    }

    /// Forgets a table and frees its memtable once writes under way are done. Its log records are ignored from then on;
    /// the caller records a [`Truncation`] as for TRUNCATE, so that a table created WITH the same ID starts empty.
    pub fn drop_table(&self, table: TableId) {
        let _ = table;
        todo!()
    }

    /// Replays the records of the tables known so far that this shard owns, less what `truncations` cover; each record
    /// is applied once over all calls. Idempotent against a crash: nothing is changed on disk. May exceed the budget.
    pub async fn replay(&self, truncations: &[(TableId, Truncation)]) -> Result<ReplayStats, Error> {
        let _ = truncations;
        todo!()
    }

    /// Ends replay: forgets the scanned records, starts a fresh active segment with a counter above every one found
    /// (`counter_floor` of the node, agreed by all shards through [`Store::highest_counter`]).
    pub async fn start(&self, counter_floor: u64) -> Result<(), Error> {
        let _ = counter_floor;
        todo!()
    }

    /// The highest segment counter found in the directory.
    pub fn highest_counter(&self) -> u64 {
        todo!()
    }

    /// The counter floor given to [`Store::start`].
    pub fn counter_floor(&self) -> u64 {
        todo!()
    }

    /// Writes a mutation of this shard: durable (by mode) and visible when it returns. `system` writes may exceed the
    /// memtable budget. An error other than [`Error::LogFailed`] is definite.
    pub async fn apply(&self, mutation: Mutation, system: bool) -> Result<(), Error> {
        let _ = (mutation, system);
        todo!()
    }

    /// Reads: gives the live rows that `command` asks for to `sink`, in order. Yields in long scans; a partition is seen
    /// as it was when the read reached it, or any later state, but never half of a mutation.
    pub async fn read(&self, command: &ReadCommand, sink: &mut dyn RowSink) -> Result<ReadEnd, Error> {
        let _ = (command, sink);
        todo!()
    }

    /// Tries to read without waiting: `None` if the read would have to yield or wait (nothing was given to the sink).
    /// The fast path of single-partition reads from memory.
    pub fn read_now(&self, command: &ReadCommand, sink: &mut dyn RowSink) -> Option<Result<ReadEnd, Error>> {
        let _ = (command, sink);
        todo!()
    }

    /// Switches a table to an empty memtable in one step and returns the log position of the switch, once every write
    /// that was under way before has finished (those go with the old memtable).
    pub async fn truncate(&self, table: TableId) -> Result<LogPosition, Error> {
        let _ = table;
        todo!()
    }

    /// On shard 0, after a drop or truncation is durable: removes old segments that no longer hold anything needed.
    pub async fn release(&self, table: TableId) -> Result<(), Error> {
        let _ = table;
        todo!()
    }

    /// Makes everything written durable (in every mode).
    pub async fn sync(&self) -> Result<(), Error> {
        todo!()
    }

    /// Refuses new writes, waits for those under way, syncs the log.
    pub async fn close(&self) -> Result<(), Error> {
        todo!()
    }

    /// Bytes in memtables of user tables, and the budget.
    pub fn memory(&self) -> (usize, usize) {
        todo!()
    }
}

/// What a replay did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayStats {
    /// Segments read.
    pub segments: u64,
    /// Mutations applied.
    pub applied: u64,
    /// Mutations skipped: of other shards, unknown tables, truncated.
    pub skipped: u64,
    /// Torn tails met (at most one per segment).
    pub torn_tails: u64,
}
