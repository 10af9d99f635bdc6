//! Weighted fair sharing of a core's time among the classes of tasks.
//!
//! 1. Each class has a virtual time: the time that its polls took, divided by its shares.
//! 2. The class with ready tasks and the least virtual time runs next; of equals the one that comes first in [`Class`].
//!    Foreground tasks run first until they are `HEAD_START` ahead of all other classes, so that requests wait only
//!    when requests keep the core busy.
//! 3. A class that was idle is owed nothing for it: its virtual time continues from the least of the classes that had
//!    ready tasks at the last pick.
//!
//! Invariants: while two classes both always have ready tasks, they get time in proportion to their shares, apart from
//! the head start and one poll.

use crate::class::{CLASSES, Class};
use std::cell::Cell;

/// Shares of each class, in the order of [`Class`].
const SHARES: [u32; CLASSES] = [1000, 500, 500, 200, SHARES_MIN];
/// The fewest shares that a class can have.
pub const SHARES_MIN: u32 = 100;
/// The most shares that a class can have.
pub const SHARES_MAX: u32 = 1000;
/// Virtual time per nanosecond of a class with a single share.
const UNIT: u64 = 1 << 20;
/// How far the virtual time of foreground tasks may be ahead of the others: 5 ms of their polls.
const HEAD_START: u64 = 5_000_000 * (UNIT / SHARES_MAX as u64);

/// Shares and virtual time of all classes of a shard.
pub(crate) struct Shares {
    shares: Cell<[u32; CLASSES]>,
    /// Virtual time per nanosecond.
    weights: Cell<[u64; CLASSES]>,
    spent: [Cell<u64>; CLASSES],
    /// The least virtual time of the classes that had ready tasks at the last pick.
    clock: Cell<u64>,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares {
            shares: Cell::new(SHARES),
            weights: Cell::new(SHARES.map(|shares| UNIT / u64::from(shares))),
            spent: Default::default(),
            clock: Cell::new(0),
        }
    }
}

impl Shares {
    /// The shares of a class.
    pub(crate) fn get(&self, class: Class) -> u32 {
        self.shares.get()[class as usize]
    }

    /// Changes the shares of a class, within [`SHARES_MIN`] and [`SHARES_MAX`]; its virtual time stays.
    pub(crate) fn set(&self, class: Class, shares: u32) {
        let shares = shares.clamp(SHARES_MIN, SHARES_MAX);
        let (mut all, mut weights) = (self.shares.get(), self.weights.get());
        all[class as usize] = shares;
        weights[class as usize] = UNIT / u64::from(shares);
        self.shares.set(all);
        self.weights.set(weights);
    }

    /// Notes that a class that had no ready task has one.
    pub(crate) fn roused(&self, class: usize) {
        let spent = &self.spent[class];
        spent.set(spent.get().max(self.clock.get()));
    }

    /// Picks the class to run next; `None` if none has ready tasks.
    pub(crate) fn pick(&self, is_ready: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut best, mut least) = (None, u64::MAX);
        let mut best_spent = u64::MAX;
        for class in (0..CLASSES).filter(|class| is_ready(*class)) {
            let spent = self.spent[class].get();
            least = least.min(spent);
            let ahead = if class == Class::Foreground as usize { HEAD_START } else { 0 };
            if best.is_none() || spent.saturating_sub(ahead) < best_spent {
                best = Some(class);
                best_spent = spent.saturating_sub(ahead);
            }
        }
        let class = best?;
        self.clock.set(self.clock.get().max(least));
        Some(class)
    }

    /// Charges a class for a poll.
    pub(crate) fn charge(&self, class: Class, nanos: u64) {
        let spent = &self.spent[class as usize];
        spent.set(spent.get().saturating_add(nanos.saturating_mul(self.weights.get()[class as usize])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREGROUND: usize = Class::Foreground as usize;
    const BACKGROUND: usize = Class::Background as usize;

    /// The nanoseconds of a second that each class gets if the `busy` ones always have ready tasks, whose polls take
    /// the given time.
    fn second(shares: &Shares, busy: [Option<u64>; CLASSES]) -> [u64; CLASSES] {
        const CLASS: [Class; CLASSES] =
            [Class::Foreground, Class::Log, Class::Flush, Class::Streaming, Class::Background];
        let mut got = [0; CLASSES];
        while got.iter().sum::<u64>() < 1_000_000_000 {
            let class = shares.pick(|class| busy[class].is_some()).expect("a busy class");
            let nanos = busy[class].expect("it is busy");
            shares.charge(CLASS[class], nanos);
            got[class] += nanos;
        }
        got
    }

    #[test]
    fn more_shares_get_more_time_however_long_the_polls_are() {
        let mut before = 0;
        for shares_of_background in [SHARES_MIN, 250, 500, SHARES_MAX] {
            let shares = Shares::default();
            shares.set(Class::Background, shares_of_background);
            let got = second(&shares, [Some(3_000), None, None, None, Some(500_000)]);
            let part = got[BACKGROUND] as f64 / 1e9;
            let expected = f64::from(shares_of_background) / f64::from(1000 + shares_of_background);
            assert!((part - expected).abs() < 0.006, "{shares_of_background}: {part}");
            assert!(got[BACKGROUND] > before);
            before = got[BACKGROUND];
        }
    }

    #[test]
    fn every_class_gets_its_part() {
        let got = second(&Shares::default(), [Some(3_000), Some(20_000), Some(500_000), Some(100_000), Some(500_000)]);
        for (class, shares) in SHARES.iter().enumerate() {
            let part = got[class] as f64 / 1e9;
            let expected = f64::from(*shares) / f64::from(SHARES.iter().sum::<u32>());
            assert!((part - expected).abs() < 0.006, "class {class}: {part}");
        }
    }

    #[test]
    fn a_class_that_was_idle_comes_first_and_is_owed_nothing() {
        let shares = Shares::default();
        shares.set(Class::Background, SHARES_MAX);
        let mut ready = [false, false, false, false, true];
        for round in 0..1000 {
            // The background has the core to itself for a while.
            (0..50).for_each(|_| {
                assert_eq!(shares.pick(|class| ready[class]), Some(BACKGROUND));
                shares.charge(Class::Background, 500_000);
            });
            shares.roused(FOREGROUND);
            ready[FOREGROUND] = true;
            assert_eq!(shares.pick(|class| ready[class]), Some(FOREGROUND), "round {round}");
            shares.charge(Class::Foreground, 3_000);
            ready[FOREGROUND] = false;
        }
        // Idle for long, busy from now on: the background is not starved for what it got before.
        shares.roused(FOREGROUND);
        let got = second(&shares, [Some(3_000), None, None, None, Some(500_000)]);
        assert!((got[BACKGROUND] as f64 / 5e8 - 1.0).abs() < 0.02, "{got:?}");
    }

    #[test]
    fn shares_have_limits() {
        let shares = Shares::default();
        for (given, kept) in [(0, 100), (99, 100), (100, 100), (101, 101), (999, 999), (1000, 1000), (1001, 1000)] {
            shares.set(Class::Flush, given);
            assert_eq!(shares.get(Class::Flush), kept);
        }
        assert_eq!(shares.get(Class::Foreground), 1000);
    }
}
