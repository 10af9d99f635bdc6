//! Levels (P1): tables whose writes and reads have levels with R + W > RF. Every read at R shows what was acknowledged
//! at W before it began, or something newer.
//!
//! Each table is a few registers with a history of its own. Reads that ask most of the replicas of every register must
//! also never go back in time (P2), because each leaves what it shows on all of them that it asked.

use super::history::{CellKey, Effects, Fate, History, Span, Violation, WriteId};
use model::Consistency;

/// A table, and what is known about its registers.
#[derive(Debug)]
pub struct LevelTable {
    /// The level of writes.
    pub writes: Consistency,
    /// The level of reads.
    pub reads: Consistency,
    /// Whether reads never go back in time.
    pub is_monotonic: bool,
    history: History,
}

fn register(key: i64) -> CellKey {
    CellKey { table: 0, pk: key, ck: 0, column: 1, element: 0 }
}

impl LevelTable {
    /// A table with these levels. Reads never go back in time if `is_monotonic`.
    pub fn new(writes: Consistency, reads: Consistency, is_monotonic: bool) -> LevelTable {
        LevelTable { writes, reads, is_monotonic, history: History::replicated() }
    }

    /// Records that a write of a register is sent: of the write's number, which is returned, or of nothing.
    pub fn begin(&mut self, key: i64, is_deletion: bool, now: u64) -> WriteId {
        let value = (!is_deletion).then_some(self.history.next_id());
        self.history.begin(Effects::from([(register(key), value)]), None, now)
    }

    /// Records the fate of a write that was answered or whose connection broke.
    pub fn finish(&mut self, id: WriteId, fate: Fate, now: u64) -> Result<(), Violation> {
        self.history.finish(id, fate, now)
    }

    /// Checks that a read of a register over `span` may show `value`.
    pub fn check(&mut self, key: i64, value: Option<WriteId>, span: Span) -> Result<(), Violation> {
        let (writes, reads) = (self.writes.name(), self.reads.name());
        let told = |text| Violation(format!("written at {writes}, read at {reads}: {text}"));
        if value.is_some_and(|value| value < 1 || value >= self.history.next_id()) {
            return Err(told(format!("register {key} shows {value:?}, which nobody wrote")));
        }
        self.history.is_allowed(register(key), value, span).map_err(told)?;
        if self.is_monotonic {
            self.history.learn(register(key), value, span);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_goes_back_is_found_where_the_level_forbids_it() {
        for is_monotonic in [true, false] {
            let mut table = LevelTable::new(Consistency::Two, Consistency::Two, is_monotonic);
            let acknowledged = table.begin(1, false, 1);
            table.finish(acknowledged, Fate::Acknowledged, 2).expect("nothing was shown");
            let unknown = table.begin(1, false, 3);
            table.finish(unknown, Fate::Unknown, 4).expect("nothing was shown");
            assert!(table.check(1, None, (5, 6)).is_err());
            assert!(table.check(1, Some(7), (5, 6)).is_err());
            assert!(table.check(1, Some(acknowledged), (5, 6)).is_ok());
            assert!(table.check(1, Some(unknown), (5, 6)).is_ok());
            assert_eq!(table.check(1, Some(acknowledged), (7, 8)).is_ok(), !is_monotonic);
        }
    }

    #[test]
    fn a_deletion_is_a_write() {
        let mut table = LevelTable::new(Consistency::One, Consistency::All, true);
        let first = table.begin(1, false, 1);
        table.finish(first, Fate::Acknowledged, 2).expect("nothing was shown");
        let deletion = table.begin(1, true, 3);
        table.finish(deletion, Fate::Acknowledged, 4).expect("nothing was shown");
        assert!(table.check(1, Some(first), (5, 6)).is_err());
        assert!(table.check(1, None, (5, 6)).is_ok());
    }
}
