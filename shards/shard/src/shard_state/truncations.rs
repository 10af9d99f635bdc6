//! When tables were truncated, for data that is kept outside of them and must not come back: proposals of Paxos.

use model::{IdMap, TableId};
use std::cell::RefCell;

/// The time of the last truncation of each table that had one, microseconds since 1970.
#[derive(Default)]
pub(crate) struct Truncations(RefCell<IdMap<TableId, i64>>);

impl Truncations {
    /// Records that a table was truncated at `micros` since 1970.
    pub(crate) fn note(&self, table: TableId, micros: i64) {
        let mut known = self.0.borrow_mut();
        let last = known.entry(table).or_insert(micros);
        *last = micros.max(*last);
    }

    /// When a table was truncated last, microseconds since 1970.
    pub(crate) fn last(&self, table: TableId) -> Option<i64> {
        self.0.borrow().get(&table).copied()
    }

    /// Whether what was written at `micros` was removed by the table's last truncation.
    pub(crate) fn covers(&self, table: TableId, micros: i64) -> bool {
        self.0.borrow().get(&table).is_some_and(|last| micros <= *last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_truncation_counts() {
        let (table, other) = (TableId([1; 16]), TableId([2; 16]));
        let truncations = Truncations::default();
        assert!(!truncations.covers(table, 0));
        truncations.note(table, 9);
        truncations.note(table, 5);
        assert!(truncations.covers(table, 9) && !truncations.covers(table, 10) && !truncations.covers(other, 1));
    }
}
