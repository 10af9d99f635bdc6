//! The option `memtable_flush_period_in_ms`: a table's memtable is flushed when it reaches that age.
//!
//! A period begins when the table gets a new memtable, when a period ends in which nothing was written, or when the
//! option changes. Tables without the option cost nothing.

use model::TableId;
use runtime::Instant;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// The tables of a shard that have a period, its length, and when the current one ends.
#[derive(Default)]
pub(crate) struct FlushPeriods {
    running: RefCell<BTreeMap<TableId, (Duration, Instant)>>,
}

impl FlushPeriods {
    /// Sets the length of a table's periods in milliseconds; zero or less means none.
    pub(crate) fn set(&self, table: TableId, millis: i32) {
        let mut running = self.running.borrow_mut();
        let length = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        if length.is_zero() {
            running.remove(&table);
        } else if running.get(&table).is_none_or(|(known, _)| *known != length) {
            running.insert(table, (length, runtime::now().after(length)));
        }
    }

    /// Forgets a table.
    pub(crate) fn remove(&self, table: TableId) {
        self.running.borrow_mut().remove(&table);
    }

    /// Begins a table's period anew, for a new memtable.
    pub(crate) fn restart(&self, table: TableId) {
        if let Some((length, end)) = self.running.borrow_mut().get_mut(&table) {
            *end = runtime::now().after(*length);
        }
    }

    /// When the next period ends; `None` if no table has one.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.running.borrow().values().map(|(_, end)| *end).min()
    }

    /// The tables whose period has ended. Their next period begins.
    pub(crate) fn ended(&self) -> Vec<TableId> {
        let now = runtime::now();
        let mut ended = Vec::new();
        for (table, (length, end)) in self.running.borrow_mut().iter_mut().filter(|(_, (_, end))| *end <= now) {
            *end = now.after(*length);
            ended.push(*table);
        }
        ended
    }
}
