//! How long a shard that has nothing to do looks at memory before it sleeps: as long as that has been worth it, and not
//! on a core that others need.
//!
//! Invariants: one wait that was short enough to be spun through brings back the longest spin; each longer one halves
//! it, so that a shard that waits for disks or for rare requests does not burn the time of every wait; who was taken
//! off its core while spinning does not spin for [`REST`].

use crate::instant::Instant;
use std::cell::Cell;
use std::time::Duration;

/// Below this a spin costs more looks than it saves.
const SHORTEST: Duration = Duration::from_micros(5);
/// Looks take a microsecond; interrupts, a few. What takes longer than this was another thread's turn.
const INTERRUPTION: Duration = Duration::from_micros(20);
/// How long a core is left to others once they were seen to need it.
const REST: Duration = Duration::from_millis(20);

/// See the module.
pub(super) struct Spin {
    longest: Duration,
    now: Cell<Duration>,
    rests_until: Cell<Instant>,
}

impl Spin {
    /// That spins at most for `longest`.
    pub(super) fn new(longest: Duration) -> Spin {
        Spin { longest, now: Cell::new(longest), rests_until: Cell::default() }
    }

    /// How long to spin from now; zero: not at all.
    pub(super) fn length(&self, now: Instant) -> Duration {
        if now < self.rests_until.get() { Duration::ZERO } else { self.now.get() }
    }

    /// Some looks at memory took from `last` to `now`; false if the core was another thread's meanwhile.
    pub(super) fn looked(&self, last: Instant, now: Instant) -> bool {
        let undisturbed = now.since(last) < INTERRUPTION;
        if !undisturbed {
            self.rests_until.set(now.after(REST));
        }
        undisturbed
    }

    /// A wait took so long, spinning and asleep.
    pub(super) fn waited(&self, length: Duration) {
        let half = self.now.get() / 2;
        self.now.set(match length <= self.longest {
            true => self.longest,
            false if half < SHORTEST => Duration::ZERO,
            false => half,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_end_spinning_and_a_short_one_brings_it_back() {
        let micros = Duration::from_micros;
        let spin = Spin::new(micros(50));
        let length = || spin.length(Instant(7));
        assert_eq!(length(), micros(50));
        spin.waited(micros(51));
        assert_eq!(length(), micros(25));
        spin.waited(micros(1000));
        spin.waited(micros(1000));
        assert_eq!(length(), micros(50) / 8);
        spin.waited(micros(1000));
        assert_eq!(length(), Duration::ZERO);
        spin.waited(micros(1000));
        assert_eq!(length(), Duration::ZERO);
        spin.waited(micros(50));
        assert_eq!(length(), micros(50));
    }

    #[test]
    fn a_core_that_others_need_is_left_to_them_for_a_while() {
        let spin = Spin::new(Duration::from_micros(50));
        let start = Instant(1_000_000);
        assert!(spin.looked(start, Instant(start.0 + INTERRUPTION.as_nanos() as u64 - 1)));
        assert_eq!(spin.length(start), Duration::from_micros(50));
        let seen = start.after(INTERRUPTION);
        assert!(!spin.looked(start, seen));
        spin.waited(Duration::from_micros(30));
        assert_eq!(spin.length(seen), Duration::ZERO);
        assert_eq!(spin.length(Instant(seen.after(REST).0 - 1)), Duration::ZERO);
        assert_eq!(spin.length(seen.after(REST)), Duration::from_micros(50));
    }

    #[test]
    fn who_never_spins_does_not_begin() {
        let spin = Spin::new(Duration::ZERO);
        spin.waited(Duration::ZERO);
        assert_eq!(spin.length(Instant(1)), Duration::ZERO);
    }
}
