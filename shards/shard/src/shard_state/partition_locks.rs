//! Locks of this core's partitions that requests of any core hold across several messages.
//!
//! Invariants: a lock is held until its ticket is released; at most [`LOCKS_MAX`] are held.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Most locks of one core that are held this way; a request for one more is OVERLOADED.
pub(crate) const LOCKS_MAX: usize = 16384;

/// The locks held, by ticket. A `G` holds one lock until it is dropped.
pub(crate) struct PartitionLocks<G> {
    guards: RefCell<BTreeMap<u64, G>>,
    next: Cell<u64>,
}

impl<G> Default for PartitionLocks<G> {
    fn default() -> PartitionLocks<G> {
        PartitionLocks { guards: RefCell::default(), next: Cell::new(0) }
    }
}

impl<G> PartitionLocks<G> {
    /// Keeps a guard and returns its ticket; `None` if too many are kept.
    pub(crate) fn keep(&self, guard: G) -> Option<u64> {
        let mut guards = self.guards.borrow_mut();
        if guards.len() >= LOCKS_MAX {
            return None;
        }
        let ticket = self.next.replace(self.next.get() + 1);
        guards.insert(ticket, guard);
        Some(ticket)
    }

    /// Releases the lock with this ticket, if it is held.
    pub(crate) fn release(&self, ticket: u64) {
        // Dropped after the borrow has ended: a task that waits for the lock may run at once.
        let guard = self.guards.borrow_mut().remove(&ticket);
        drop(guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn guards_are_dropped_when_released_and_no_more_are_kept_than_allowed() {
        let locks = PartitionLocks::default();
        let guard = Rc::new(());
        let tickets: Vec<u64> = (0..LOCKS_MAX).map(|_| locks.keep(guard.clone()).expect("room")).collect();
        assert_eq!(locks.keep(guard.clone()), None);
        assert_eq!(Rc::strong_count(&guard), 1 + LOCKS_MAX);
        locks.release(tickets[7]);
        locks.release(tickets[7]);
        assert_eq!(Rc::strong_count(&guard), LOCKS_MAX);
        let again = locks.keep(guard.clone()).expect("room");
        assert!(!tickets.contains(&again));
    }
}
