//! Locks of this core's partitions that requests of any core hold, from one message to another.
//!
//! Invariants: a lock is held until it is let go by its ticket; at most [`HELD_MAX`] are held.

use crate::execute::batch_reading::{Hold, Holding};
use crate::execute::modify::reading;
use crate::{Shard, replica};
use model::Failure;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Most locks of one core that are held this way; one more is OVERLOADED.
pub(crate) const HELD_MAX: usize = 16384;

/// What is held, by ticket.
pub(crate) struct Held<G> {
    guards: RefCell<BTreeMap<u64, G>>,
    next: Cell<u64>,
}

impl<G> Default for Held<G> {
    fn default() -> Held<G> {
        Held { guards: RefCell::default(), next: Cell::new(0) }
    }
}

impl<G> Held<G> {
    /// Keeps a guard and gives its ticket; `None` if there are too many.
    fn keep(&self, guard: G) -> Option<u64> {
        let mut guards = self.guards.borrow_mut();
        if guards.len() >= HELD_MAX {
            return None;
        }
        let ticket = self.next.replace(self.next.get() + 1);
        guards.insert(ticket, guard);
        Some(ticket)
    }

    /// Lets go.
    pub(crate) fn let_go(&self, ticket: u64) {
        // Dropped after the borrow: who waits for the lock may go on at once.
        let guard = self.guards.borrow_mut().remove(&ticket);
        drop(guard);
    }
}

/// Locks a partition of this core and reads what is asked of it.
pub(crate) async fn hold(shard: &Shard, hold: &Hold) -> Result<Holding, Failure> {
    let failed = |error| replica::failure(&shard.schema(), Some(hold.table), error);
    let guard = shard.store().lock(hold.table, &hold.key).await.map_err(failed)?;
    let found = reading::read(shard, &hold.wants).await?;
    match shard.held().keep(guard) {
        Some(ticket) => Ok(Holding { ticket, found }),
        None => Err(Failure::overloaded("Too many batches wait for partitions of this core; nothing was written")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn guards_are_dropped_when_let_go_and_no_more_are_kept_than_allowed() {
        let held = Held::default();
        let guard = Rc::new(());
        let tickets: Vec<u64> = (0..HELD_MAX).map(|_| held.keep(guard.clone()).expect("room")).collect();
        assert_eq!(held.keep(guard.clone()), None);
        assert_eq!(Rc::strong_count(&guard), 1 + HELD_MAX);
        held.let_go(tickets[7]);
        held.let_go(tickets[7]);
        assert_eq!(Rc::strong_count(&guard), HELD_MAX);
        let again = held.keep(guard.clone()).expect("room");
        assert!(!tickets.contains(&again));
    }
}
