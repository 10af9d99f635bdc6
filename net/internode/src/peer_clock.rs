//! What the clock of the other side shows, so that it can say until when its messages matter.
//!
//! 1. Greetings and pings show the sender's clock. The difference to the own clock at their arrival is the true one
//!    plus the time they travelled.
//! 2. The least difference of the last one to two windows of [`SAMPLES`] is used: a slow ping changes nothing, and
//!    clocks that drift apart are followed.
//!
//! Invariants: a deadline in own time is never earlier than meant, but for the drift during two windows; what waited
//! long on its way has expired when it arrives.

use runtime::Instant;

/// Samples in a window.
const SAMPLES: u32 = 8;

/// The clock of one peer. Times of the peer are in microseconds.
#[derive(Debug)]
pub(crate) struct PeerClock {
    /// Own minus peer's, in microseconds, least of the window.
    current: i64,
    previous: i64,
    samples: u32,
}

/// An instant in microseconds.
pub(crate) fn micros(instant: Instant) -> u64 {
    instant.0 / 1000
}

fn difference(now: Instant, shown: u64) -> i64 {
    micros(now).wrapping_sub(shown) as i64
}

impl PeerClock {
    /// The clock that showed `shown` in a greeting that arrived at `now`.
    pub(crate) fn new(now: Instant, shown: u64) -> PeerClock {
        let difference = difference(now, shown);
        PeerClock { current: difference, previous: difference, samples: 1 }
    }

    /// The clock showed `shown` in a ping that arrived at `now`.
    pub(crate) fn sample(&mut self, now: Instant, shown: u64) {
        let difference = difference(now, shown);
        if self.samples == SAMPLES {
            (self.previous, self.current, self.samples) = (self.current, difference, 0);
        }
        self.current = self.current.min(difference);
        self.samples += 1;
    }

    /// The own time at which the peer's clock shows `deadline`.
    pub(crate) fn own_time(&self, deadline: u64) -> Instant {
        let difference = self.current.min(self.previous);
        let micros = if difference < 0 {
            deadline.saturating_sub(difference.unsigned_abs())
        } else {
            deadline.saturating_add(difference.unsigned_abs())
        };
        Instant(micros.saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant(micros * 1000)
    }

    #[test]
    fn the_fastest_ping_counts() {
        // The peer's clock is 1000 behind; messages take 50 to 500.
        let mut clock = PeerClock::new(at(5500), 4000);
        assert_eq!(clock.own_time(4100), at(5600), "late by the time that the greeting took");
        clock.sample(at(6050), 5000);
        clock.sample(at(7400), 6000);
        assert_eq!(clock.own_time(6100), at(7150));
    }

    #[test]
    fn drift_is_followed_within_two_windows() {
        let mut clock = PeerClock::new(at(1000), 1000);
        for round in 1..=3 * u64::from(SAMPLES) {
            clock.sample(at(1000 + round * 110), 1000 + round * 100);
        }
        let least = clock.own_time(0).0 / 1000;
        assert!((80..=160).contains(&least), "{least} of 240");
    }

    #[test]
    fn a_deadline_far_away_stays_far_away() {
        assert_eq!(PeerClock::new(at(5), 0).own_time(u64::MAX), Instant(u64::MAX));
        assert_eq!(PeerClock::new(at(0), 5).own_time(3), Instant(0));
    }

    #[test]
    fn any_times_are_taken() {
        let mut clock = PeerClock::new(at(5), u64::MAX);
        clock.sample(Instant(u64::MAX), 0);
        clock.sample(Instant(0), u64::MAX / 2);
        for deadline in [0, 1, u64::MAX / 2, u64::MAX] {
            clock.own_time(deadline);
        }
    }
}
