//! How long an idle shard spins before it sleeps: as long as spinning has paid off, and not on a core that others need.
//!
//! 1. A wait that ends within the longest spin restores the longest spin.
//! 2. Each longer wait halves the spin, so that a shard that waits for disks or rare requests does not burn CPU.
//! 3. A shard that lost its core to another thread while spinning does not spin for [`REST`].

use crate::instant::Instant;
use std::cell::Cell;
use std::time::Duration;

/// A shorter spin costs more than it saves.
const SHORTEST: Duration = Duration::from_micros(5);
/// A few looks at memory take a microsecond and an interrupt some more; if they take longer, another thread had the
/// core.
const INTERRUPTION: Duration = Duration::from_micros(20);
/// How long a shard does not spin after another thread has needed its core.
const REST: Duration = Duration::from_millis(20);

/// The spinning of one shard.
pub(super) struct Spin {
    longest: Duration,
    now: Cell<Duration>,
    rests_until: Cell<Instant>,
}

impl Spin {
    /// Creates a spin of at most `longest`; zero stands for none.
    pub(super) fn new(longest: Duration) -> Spin {
        Spin { longest, now: Cell::new(longest), rests_until: Cell::default() }
    }

    /// How long to spin at `now`; zero means not at all.
    pub(super) fn length(&self, now: Instant) -> Duration {
        if now < self.rests_until.get() { Duration::ZERO } else { self.now.get() }
    }

    /// Notes that some looks at memory took from `last` to `now`; false if another thread had the core meanwhile.
    pub(super) fn looked(&self, last: Instant, now: Instant) -> bool {
        let undisturbed = now.since(last) < INTERRUPTION;
        if !undisturbed {
            self.rests_until.set(now.after(REST));
        }
        undisturbed
    }

    /// Notes how long a wait took, spinning and asleep.
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
    fn a_shard_that_must_not_spin_never_does() {
        let spin = Spin::new(Duration::ZERO);
        spin.waited(Duration::ZERO);
        assert_eq!(spin.length(Instant(1)), Duration::ZERO);
    }
}
