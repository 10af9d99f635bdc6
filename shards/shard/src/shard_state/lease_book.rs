//! What this core has leased of one table, keyspace or role, by what is limited of it, and what its next read is
//! expected to cost.
//!
//! Invariants: at most [`KEYS_MAX`] leases are kept; one that is dropped to make room has not been used for a second.

use cluster::units::limits::{Measure, Scope};
use cluster::units::{HUNDREDTHS, Lease};
use model::HashMap;
use runtime::sync::Condition;
use std::cell::{Cell, RefCell};

/// Most leases of one book: partition keys of a table, but for two.
pub(crate) const KEYS_MAX: usize = 8192;
/// What is not used for so long may be forgotten, microseconds.
pub(super) const IDLE_MICROS: u64 = 1_000_000;
/// How often what is not used is looked for, microseconds.
pub(super) const SWEEP_MICROS: u64 = 100_000;

/// The leases of a table, keyspace or role.
pub(crate) struct LeaseBook {
    leases: RefCell<HashMap<(Measure, Scope), LeaseSlot>>,
    swept_at: Cell<u64>,
    /// Told when a keeper has answered.
    pub(crate) answered: Condition,
    /// What the next read is expected to cost, hundredths.
    read_estimate: Cell<u64>,
}

struct LeaseSlot {
    lease: Lease,
    used_at: u64,
}

impl Default for LeaseBook {
    /// No leases; the first read is expected to cost one unit.
    fn default() -> LeaseBook {
        LeaseBook {
            leases: RefCell::default(),
            swept_at: Cell::new(0),
            answered: Condition::default(),
            read_estimate: Cell::new(HUNDREDTHS),
        }
    }
}

impl LeaseBook {
    /// Runs `look` on the lease of a scope, which begins with `first` hundredths; `None` if there is no room for it.
    pub(crate) fn with_lease<T>(
        &self,
        name: (Measure, Scope),
        first: u64,
        now: u64,
        look: impl FnOnce(&mut Lease) -> T,
    ) -> Option<T> {
        let mut leases = self.leases.borrow_mut();
        if leases.len() >= KEYS_MAX && !leases.contains_key(&name) {
            if now.saturating_sub(self.swept_at.get()) < SWEEP_MICROS {
                return None;
            }
            self.swept_at.set(now);
            leases.retain(|_, slot| now.saturating_sub(slot.used_at) < IDLE_MICROS);
            if leases.len() >= KEYS_MAX {
                return None;
            }
        }
        let slot = leases.entry(name).or_insert_with(|| LeaseSlot { lease: Lease::new(first, now), used_at: now });
        slot.used_at = now;
        Some(look(&mut slot.lease))
    }

    /// What the next read is expected to cost.
    pub(crate) fn read_estimate(&self) -> u64 {
        self.read_estimate.get()
    }

    /// Takes the price of a read into account for the next ones: by an eighth of the difference.
    pub(crate) fn note_read(&self, units: u64) {
        let estimate = self.read_estimate.get();
        self.read_estimate.set((estimate - estimate / 8 + units / 8).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_keys_are_told_apart() {
        let book = LeaseBook::default();
        let look = |key, now| book.with_lease((Measure::Units, Scope::Key(key)), 5, now, |lease| lease.balance());
        assert!((0..KEYS_MAX as i64).all(|key| look(key, 1) == Some(5)));
        assert_eq!(look(-1, SWEEP_MICROS + 1), None, "one more");
        assert_eq!(look(3, SWEEP_MICROS + 2), Some(5));
        assert_eq!(look(-1, 2 * IDLE_MICROS), Some(5), "those that are not used make room");
    }

    #[test]
    fn the_expected_price_follows_what_reads_cost() {
        let book = LeaseBook::default();
        assert_eq!(book.read_estimate(), 100);
        (0..60).for_each(|_| book.note_read(900));
        assert!((880..=900).contains(&book.read_estimate()), "{}", book.read_estimate());
    }
}
