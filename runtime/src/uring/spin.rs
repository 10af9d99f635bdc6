//! How long a shard that has nothing to do looks at memory before it sleeps: as long as that has been worth it.
//!
//! Invariants: one wait that was short enough to be spun through brings back the longest spin; each longer one halves it,
//! so that a shard that waits for disks or for rare requests does not burn the time of every wait.

use std::cell::Cell;
use std::time::Duration;

/// Below this a spin costs more looks than it saves.
const SHORTEST: Duration = Duration::from_micros(5);

/// See the module.
pub(super) struct Spin {
    longest: Duration,
    now: Cell<Duration>,
}

impl Spin {
    /// That spins at most for `longest`.
    pub(super) fn new(longest: Duration) -> Spin {
        Spin { longest, now: Cell::new(longest) }
    }

    /// How long to spin; zero: not at all.
    pub(super) fn length(&self) -> Duration {
        self.now.get()
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
        assert_eq!(spin.length(), micros(50));
        spin.waited(micros(51));
        assert_eq!(spin.length(), micros(25));
        spin.waited(micros(1000));
        spin.waited(micros(1000));
        assert_eq!(spin.length(), micros(50) / 8);
        spin.waited(micros(1000));
        assert_eq!(spin.length(), Duration::ZERO);
        spin.waited(micros(1000));
        assert_eq!(spin.length(), Duration::ZERO);
        spin.waited(micros(50));
        assert_eq!(spin.length(), micros(50));
    }

    #[test]
    fn who_never_spins_does_not_begin() {
        let spin = Spin::new(Duration::ZERO);
        spin.waited(Duration::ZERO);
        assert_eq!(spin.length(), Duration::ZERO);
    }
}
