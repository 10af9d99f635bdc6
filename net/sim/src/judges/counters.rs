//! Tells which values counters may show, also after crashes.
//!
//! 1. A change has an amount for each counter that it increments or decrements. Its answer tells its fate, as with
//!    other writes.
//! 2. A read may show the sum of all changes that were acknowledged before it began and of any subset of those that
//!    were in flight or are unknown.
//! 3. A restart makes what was in flight unknown. The first read of all counters after it settles what is unknown: the
//!    values read become the base that later reads build on.
//!
//! Invariants: no counter shows an amount twice, a part of an amount, or less than was acknowledged.

use super::history::{Fate, Span, Violation};
use std::collections::{BTreeMap, BTreeSet};

/// With more unknown changes than this, a counter's value is only checked against their least and greatest sum.
const UNKNOWN_MAX: usize = 12;

/// A counter: partition key, clustering ([`super::history::STATIC`] for a static one) and column.
pub type CounterKey = (i64, i64, &'static str);

struct Change {
    amounts: BTreeMap<CounterKey, i64>,
    fate: Fate,
    started: u64,
    ended: u64,
}

/// The changes of all counters since the base, and the base: the values that the changes are added to.
#[derive(Default)]
pub struct CounterHistory {
    base: BTreeMap<CounterKey, i64>,
    changes: BTreeMap<u64, Change>,
    last_id: u64,
    /// When the node last began to serve again; `None` once all counters have been read after that.
    restarted: Option<u64>,
}

impl CounterHistory {
    /// Records that a change is sent. Returns its number.
    pub fn begin(&mut self, amounts: BTreeMap<CounterKey, i64>, now: u64) -> u64 {
        self.last_id += 1;
        self.changes.insert(self.last_id, Change { amounts, fate: Fate::InFlight, started: now, ended: u64::MAX });
        self.last_id
    }

    /// Records the fate of a change that was answered or whose connection broke.
    pub fn finish(&mut self, id: u64, fate: Fate, now: u64) {
        // If the change is not there, its effect has become part of the base meanwhile.
        if let Some(change) = self.changes.get_mut(&id) {
            (change.fate, change.ended) = (fate, now);
        }
    }

    /// Records that the node serves again, with the arguments of [`super::history::History::restarted`].
    pub fn restarted(&mut self, now: u64, may_lose_since: Option<u64>) {
        self.restarted = Some(now);
        for change in self.changes.values_mut() {
            let lost = may_lose_since.is_some_and(|since| change.ended >= since);
            if change.fate == Fate::InFlight || change.fate == Fate::Acknowledged && lost {
                change.fate = Fate::Unknown;
            }
        }
    }

    /// Checks that a read over `span` may show `value`.
    pub fn check(&self, counter: CounterKey, value: i64, (started, ended): Span) -> Result<(), Violation> {
        let mut sure = self.base.get(&counter).copied().unwrap_or_default();
        let mut unknown = Vec::new();
        for change in self.changes.values() {
            let Some(amount) = change.amounts.get(&counter) else { continue };
            match change.fate {
                Fate::Failed => {}
                Fate::Acknowledged if change.ended <= started => sure += amount,
                _ if change.started > ended => {}
                _ => unknown.push(*amount),
            }
        }
        let allowed = if unknown.len() > UNKNOWN_MAX {
            let (below, above): (Vec<i64>, Vec<i64>) = unknown.iter().partition(|amount| **amount < 0);
            (sure + below.iter().sum::<i64>()..=sure + above.iter().sum::<i64>()).contains(&value)
        } else {
            let mut sums = BTreeSet::from([sure]);
            for amount in &unknown {
                let more: Vec<i64> = sums.iter().map(|sum| sum + amount).collect();
                sums.extend(more);
            }
            sums.contains(&value)
        };
        if allowed {
            return Ok(());
        }
        Err(Violation(format!(
            "counter {counter:?} read {value} at {started}..{ended}: {sure}, perhaps with {unknown:?}"
        )))
    }

    /// Makes `values` the base if this is the first call after a restart. They are those of all counters, read while no
    /// client worked.
    pub fn settle(&mut self, values: BTreeMap<CounterKey, i64>) {
        if let Some(restarted) = self.restarted.take() {
            self.base = values;
            // An unknown change that began after the restart may still be under way on the node.
            self.changes.retain(|_, change| {
                change.started >= restarted && matches!(change.fate, Fate::InFlight | Fate::Unknown)
            });
        }
    }
}
