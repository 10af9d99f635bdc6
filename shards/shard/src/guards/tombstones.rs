//! Tombstones that reads meet: from one threshold on the client is warned, and beyond another the read fails.
//!
//! 1. The cores that read count what is dead and what lives ([`ScanCounts`]), and say so with what they give.
//! 2. The coordinating core adds up the parts of one partition's read, or of a page of a scan, and notes what is beyond
//!    a threshold ([`Tombstones`]).
//! 3. The notes become warnings to the client and, at most once in [`LOG_INTERVAL`] on each core, lines of the log.
//!
//! Invariants: the tables of this node alone, such as its schema, are read whatever they hold, as in Cassandra.

use model::schema::VIRTUAL_KEYSPACES;
use model::{DecoratedKey, Table, Token};
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// How long the log is quiet about tombstones after a line about some.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Most notes of one request.
const NOTES_MAX: usize = 100;
/// Longest part of a query in a warning, characters, as in Cassandra.
pub(crate) const QUERY_CHARACTERS_MAX: usize = 512;

/// `tombstone_warn_threshold` and `tombstone_failure_threshold`: more than so many are warned about, or fail the read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TombstoneThresholds {
    /// Above it the client is warned.
    pub warn: u64,
    /// Above it the read fails.
    pub fail: u64,
}

impl Default for TombstoneThresholds {
    fn default() -> TombstoneThresholds {
        TombstoneThresholds { warn: 1_000, fail: 100_000 }
    }
}

/// How many live rows and tombstones a read met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScanCounts {
    /// Live rows, including those that a filter rejected.
    pub(crate) live: u64,
    /// Dead cells and rows, and bounds of deleted ranges.
    pub(crate) dead: u64,
    /// The last row's partition.
    pub(crate) token: Token,
}

impl Default for ScanCounts {
    fn default() -> ScanCounts {
        ScanCounts { live: 0, dead: 0, token: Token::MIN }
    }
}

impl ScanCounts {
    pub(crate) fn add(&mut self, other: ScanCounts) {
        self.live += other.live;
        self.dead += other.dead;
        self.token = self.token.max(other.token);
    }
}

/// A read that met more tombstones than it should.
#[derive(Clone, Debug)]
pub(crate) struct ScanNote {
    pub(crate) met: ScanCounts,
    /// The partition; `None`: a scan.
    pub(crate) key: Option<DecoratedKey>,
    /// Rows that it was asked for, if there was a limit.
    pub(crate) limit: Option<u64>,
    /// Whether it failed.
    pub(crate) failed: bool,
}

/// The thresholds of a request and what it noted.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    thresholds: Option<TombstoneThresholds>,
    notes: RefCell<Vec<ScanNote>>,
}

impl Tombstones {
    /// The thresholds for reads of `table`; tables of system keyspaces have none.
    pub(crate) fn of(thresholds: TombstoneThresholds, table: &Table) -> Tombstones {
        let keyspace = table.keyspace.as_str();
        let exempt = matches!(keyspace, "system" | "system_schema") || VIRTUAL_KEYSPACES.contains(&keyspace);
        Tombstones { thresholds: (!exempt).then_some(thresholds), notes: RefCell::default() }
    }

    /// Whether a read must fail for what it met so far; then it is noted.
    pub(crate) fn are_too_many(&self, met: &ScanCounts, key: Option<&DecoratedKey>, limit: u64) -> bool {
        let too_many = self.thresholds.is_some_and(|thresholds| met.dead > thresholds.fail);
        if too_many {
            self.note(met, key, limit, true);
        }
        too_many
    }

    /// Notes a read that met more than the threshold for warnings in all.
    pub(crate) fn end(&self, met: &ScanCounts, key: Option<&DecoratedKey>, limit: u64) {
        if self.thresholds.is_some_and(|thresholds| met.dead > thresholds.warn) {
            self.note(met, key, limit, false);
        }
    }

    #[cold]
    fn note(&self, met: &ScanCounts, key: Option<&DecoratedKey>, limit: u64, failed: bool) {
        let mut notes = self.notes.borrow_mut();
        if notes.len() < NOTES_MAX {
            notes.push(ScanNote { met: *met, key: key.cloned(), limit: (limit < u64::MAX).then_some(limit), failed });
        }
    }

    /// Takes the notes out.
    pub(crate) fn take(&self) -> Vec<ScanNote> {
        self.notes.take()
    }
}

/// Reports a note about a query: writes a line of the log if one is due, and returns the client's warning unless the
/// read failed.
pub(crate) fn report(log: &LogGate, note: &ScanNote, query: &str) -> Option<String> {
    let ScanCounts { live, dead, token } = note.met;
    let token = note.key.as_ref().map_or(token, |key| key.token);
    let query: String = query.chars().take(QUERY_CHARACTERS_MAX).collect();
    let may_log = log.is_due();
    if note.failed {
        if may_log {
            tracing::error!(
                "Scanned over {dead} tombstones during query '{query}' (last scanned row token was {}); query aborted (see \
                 tombstone_failure_threshold)",
                token.0
            );
        }
        return None;
    }
    let text = format!(
        "Read {live} live rows and {dead} tombstone cells for query {query}; token {} (see tombstone_warn_threshold)",
        token.0
    );
    if may_log {
        tracing::warn!("{text}");
    }
    Some(text)
}

/// Lets a line through now and then.
#[derive(Debug, Default)]
pub(crate) struct LogGate {
    last: Cell<Option<Instant>>,
}

impl LogGate {
    /// Whether a line may be written now; the next one must wait.
    pub(crate) fn is_due(&self) -> bool {
        let now = runtime::now();
        let due = self.last.get().is_none_or(|last| now.since(last) >= LOG_INTERVAL);
        if due {
            self.last.set(Some(now));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstones(warn: u64, fail: u64) -> Tombstones {
        Tombstones { thresholds: Some(TombstoneThresholds { warn, fail }), notes: RefCell::default() }
    }

    #[test]
    fn thresholds_are_what_is_still_allowed() {
        let tombstones = tombstones(5, 20);
        let met = |dead| ScanCounts { dead, ..ScanCounts::default() };
        tombstones.end(&met(5), None, 7);
        assert!(tombstones.take().is_empty());
        tombstones.end(&met(6), None, 7);
        let notes = tombstones.take();
        assert_eq!((notes.len(), notes[0].limit, notes[0].failed), (1, Some(7), false));
        assert!(!tombstones.are_too_many(&met(20), None, u64::MAX));
        assert!(tombstones.are_too_many(&met(21), None, u64::MAX));
        let notes = tombstones.take();
        assert_eq!((notes.len(), notes[0].limit, notes[0].failed), (1, None, true));
    }

    #[test]
    fn notes_are_bounded() {
        let tombstones = tombstones(0, 1_000);
        (0..=NOTES_MAX).for_each(|_| tombstones.end(&ScanCounts { dead: 1, ..ScanCounts::default() }, None, 1));
        assert_eq!(tombstones.take().len(), NOTES_MAX);
    }

    #[test]
    fn parts_of_a_read_are_added_up() {
        let mut met = ScanCounts { live: 1, dead: 2, token: Token(5) };
        met.add(ScanCounts { live: 3, dead: 4, token: Token(-1) });
        assert_eq!(met, ScanCounts { live: 4, dead: 6, token: Token(5) });
    }
}
