//! Rows that a filtered read of several replicas must see from all of them before it knows which match: from one
//! threshold on the client is warned, and beyond another the read fails.
//!
//! 1. A read that merges replicas counts the rows of a partition that match, once for each replica, as Cassandra does
//!    that holds these rows in memory ([`CountedRows`]).
//! 2. What is beyond a threshold is noted, and becomes the client's warning or failure ([`report`]).
//!
//! The memory of such a read is limited here by the bytes of its blocks; the thresholds are for operators who want to
//! know of, or stop, reads that are expensive on Cassandra too.

use super::tombstones::LogGate;
use model::query::{LiveRow, RowSink, SinkState};
use model::{DecoratedKey, Failure};
use std::cell::RefCell;

/// `replica_filtering_protection`: more rows than so many are warned about, or fail the read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilteringThresholds {
    /// `cached_rows_warn_threshold`: above it the client is warned.
    pub warn: u64,
    /// `cached_rows_fail_threshold`: above it the read fails.
    pub fail: u64,
}

impl Default for FilteringThresholds {
    fn default() -> FilteringThresholds {
        FilteringThresholds { warn: 2_000, fail: 32_000 }
    }
}

/// A read that had more rows than it should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FilteringNote {
    /// The partition, if the read is of one.
    pub(crate) key: Option<DecoratedKey>,
    /// Whether it fails.
    pub(crate) has_failed: bool,
}

/// The thresholds of a request and what it noted.
#[derive(Debug, Default)]
pub(crate) struct FilteredRows {
    thresholds: FilteringThresholds,
    note: RefCell<Option<FilteringNote>>,
}

impl FilteredRows {
    /// Of a request for which these thresholds hold.
    pub(crate) fn new(thresholds: FilteringThresholds) -> FilteredRows {
        FilteredRows { thresholds, note: RefCell::default() }
    }

    /// Takes the note out, if there is one.
    pub(crate) fn take(&self) -> Option<FilteringNote> {
        self.note.take()
    }

    fn note(&self, has_failed: bool) {
        let mut note = self.note.borrow_mut();
        if has_failed || note.is_none() {
            *note = Some(FilteringNote { key: None, has_failed });
        }
    }

    /// Names the partition that was read, if something is noted.
    pub(crate) fn name(&self, key: &DecoratedKey) {
        if let Some(note) = &mut *self.note.borrow_mut() {
            note.key = Some(key.clone());
        }
    }
}

/// The rows of the partition under way so far.
#[derive(Debug, Default)]
pub(crate) struct PartitionCount {
    key: Vec<u8>,
    rows: u64,
}

/// A sink that counts the rows which another one takes.
pub(crate) struct CountedRows<'a> {
    pub(crate) sink: &'a mut dyn RowSink,
    pub(crate) filtered: &'a FilteredRows,
    /// How many replicas have answered.
    pub(crate) replicas: u64,
    /// What earlier rounds of the read have counted, and this one goes on with.
    pub(crate) count: &'a mut PartitionCount,
    /// Whether the rows have become too many.
    pub(crate) are_too_many: bool,
}

impl RowSink for CountedRows<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let state = self.sink.row(row);
        if state == SinkState::Rejected {
            return state;
        }
        if self.count.key != row.key {
            self.count.key.clear();
            self.count.key.extend_from_slice(row.key);
            self.count.rows = 0;
        }
        self.count.rows += self.replicas;
        let thresholds = self.filtered.thresholds;
        if self.count.rows > thresholds.fail {
            self.filtered.note(true);
            self.are_too_many = true;
            return SinkState::Full;
        }
        if self.count.rows > thresholds.warn {
            self.filtered.note(false);
        }
        state
    }

    fn takes_cells(&self) -> bool {
        self.sink.takes_cells()
    }

    fn dead(&mut self, count: u64) {
        self.sink.dead(count);
    }
}

/// The failure of a read that had too many rows, until its query is known.
pub(crate) fn too_many_rows() -> Failure {
    Failure::overloaded("Replica filtering protection has cached too many rows")
}

/// Reports a note about a query: writes a line of the log if one is due. Returns the client's warning, or its failure.
pub(crate) fn report(
    log: &LogGate,
    filtered: &FilteredRows,
    note: &FilteringNote,
    query: &str,
) -> Result<String, Failure> {
    let FilteringThresholds { warn, fail } = filtered.thresholds;
    let (rows, option) = match note.has_failed {
        true => (fail, "cached_replica_rows_fail_threshold"),
        false => (warn, "cached_replica_rows_warn_threshold"),
    };
    let text = format!(
        "Replica filtering protection has cached over {rows} rows during query {query}. (See '{option}' in \
         cassandra.yaml.)"
    );
    if note.has_failed {
        tracing::error!("{text}");
        return Err(Failure::overloaded(text));
    }
    if log.is_due() {
        tracing::warn!("{text}");
    }
    Ok(text)
}
