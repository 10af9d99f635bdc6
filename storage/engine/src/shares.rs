//! How much of the core flushes and compactions get: as much as they lag behind.
//!
//! * Compactions have [`SHARES_PER_TASK`] for each task that the tables' strategies expect to have, from 100 to 1000; one
//!   that somebody asked for counts as a task. Looked at when a table's SSTables change and when a compaction begins.
//! * Flushes have 500 where flushing begins, at half of the memtable budget, and 1000 where it ends; 1000 while writes
//!   wait for room. Looked at as a flush goes on.
//!
//! Requests have 1000, and come first unless they have had their share (crate `runtime`, `shares`).

use crate::store::Inner;
use model::TableId;
use runtime::Class;
use runtime::shares::{SHARES_MAX, SHARES_MIN};

/// Shares of compactions for each task that waits.
pub(crate) const SHARES_PER_TASK: u32 = 100;
/// Shares of flushes without hurry.
const FLUSH_SHARES_MIN: u32 = 500;

/// Of compactions, with so many tasks to do.
fn of_tasks(tasks: usize) -> u32 {
    let tasks = tasks.min((SHARES_MAX / SHARES_PER_TASK) as usize) as u32;
    (tasks * SHARES_PER_TASK).clamp(SHARES_MIN, SHARES_MAX)
}

/// Of flushes, with so much in memory.
fn of_memory(bytes: usize, begins_at: usize, bytes_max: usize) -> u32 {
    let (over, room) = (bytes.saturating_sub(begins_at), bytes_max.saturating_sub(begins_at).max(1));
    let more = u64::from(SHARES_MAX - FLUSH_SHARES_MIN) * over.min(room) as u64 / room as u64;
    FLUSH_SHARES_MIN + more as u32
}

impl Inner {
    /// Counts again what a table's strategy expects to do, and gives compactions their shares.
    pub(crate) fn weigh_compactions(&self, table: TableId) {
        let tasks = self.tables.borrow().get(&table).map_or(0, |state| self.pending_of(state));
        let mut waiting = self.waiting_tasks.borrow_mut();
        match tasks {
            0 => waiting.remove(&table),
            tasks => waiting.insert(table, tasks),
        };
        let tasks = waiting.values().fold(self.activity.asked_for(), |sum, tasks| sum.saturating_add(*tasks));
        runtime::set_shares(Class::Background, of_tasks(tasks));
    }

    /// Gives flushes their shares.
    pub(crate) fn weigh_flushes(&self) {
        let shares = match self.waiting_bytes.get() {
            0 => of_memory(self.user_bytes.get(), self.flush_at(), self.options.memtable_bytes_max),
            _ => SHARES_MAX,
        };
        runtime::set_shares(Class::Flush, shares);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_backlog_gets_more_shares() {
        assert_eq!([0, 1, 2, 5, 9, 10, 11, usize::MAX].map(of_tasks), [100, 100, 200, 500, 900, 1000, 1000, 1000]);
    }

    #[test]
    fn a_fuller_memory_gets_more_shares() {
        let of = |bytes| of_memory(bytes, 50, 100);
        assert_eq!([0, 50, 60, 75, 100, 1000].map(of), [500, 500, 600, 750, 1000, 1000]);
        assert_eq!(of_memory(7, 7, 7), 500);
    }
}
