//! The schedule of an open loop: when each operation is due.
//!
//! 1. Arrival times are fixed by the rate and the seed before anything is sent; a slow server cannot move them.
//! 2. At a constant rate, thread `t` of `n` takes the arrivals `t`, `t + n`, ...; with Poisson arrivals every thread
//!    has a process of its own at the n-th part of the rate. Together the threads have the full rate.
//!
//! Invariants: due times never decrease; none is skipped: a late operation is sent late and counts from its due time.

use runtime::Instant;
use runtime::rng::Rng;

/// How arrivals are spaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// Equal gaps.
    Constant,
    /// Exponential gaps, as many independent users make them.
    Poisson,
}

/// The arrivals of one thread.
pub struct Schedule {
    start: Instant,
    arrivals: Arrivals,
    /// Nanoseconds between two arrivals of all threads together.
    gap: f64,
    thread: u64,
    threads: u64,
    taken: u64,
    /// The next Poisson arrival, in nanoseconds from `start`.
    elapsed: f64,
    rng: Rng,
    next: Instant,
}

impl Schedule {
    /// Arrivals from `start` on, of `rate` operations per second (above 0) over all `threads`.
    pub fn new(start: Instant, rate: f64, arrivals: Arrivals, thread: usize, threads: usize, seed: u64) -> Schedule {
        assert!(rate > 0.0 && thread < threads, "a rate, and a thread among them");
        let mut schedule = Schedule {
            start,
            arrivals,
            gap: 1e9 / rate,
            thread: thread as u64,
            threads: threads as u64,
            taken: 0,
            elapsed: 0.0,
            rng: Rng::new(seed ^ 0x7363_6865_6475_6c65),
            next: start,
        };
        schedule.next = schedule.compute();
        schedule
    }

    /// When the next operation is due.
    pub fn next_at(&self) -> Instant {
        self.next
    }

    /// How many arrivals have been taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes the next arrival. Returns its due time.
    pub fn take(&mut self) -> Instant {
        let due = self.next;
        self.taken += 1;
        self.next = self.compute();
        due
    }

    /// Takes the arrivals due before `end` without sending them. Returns how many there were.
    pub fn abandon(&mut self, end: Instant) -> u64 {
        let before = self.taken;
        while self.next < end {
            self.take();
        }
        self.taken - before
    }

    fn compute(&mut self) -> Instant {
        let offset = match self.arrivals {
            Arrivals::Constant => (self.taken * self.threads + self.thread) as f64 * self.gap,
            Arrivals::Poisson => {
                let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                self.elapsed -= uniform.ln() * self.gap * self.threads as f64;
                self.elapsed
            }
        };
        Instant(self.start.0.saturating_add(offset as u64)).max(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_ticks() {
        let start = Instant(5_000);
        let mut threads: Vec<Schedule> =
            (0..3).map(|t| Schedule::new(start, 1_000_000.0, Arrivals::Constant, t, 3, 1)).collect();
        let mut all: Vec<u64> =
            threads.iter_mut().flat_map(|s| (0..100).map(|_| s.take().0).collect::<Vec<_>>()).collect();
        all.sort_unstable();
        let expected: Vec<u64> = (0..300).map(|i| 5_000 + i * 1_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn constant_gaps_do_not_drift() {
        let mut schedule = Schedule::new(Instant(0), 30_000.0, Arrivals::Constant, 0, 1, 1);
        let last = (0..=3_000_000).map(|_| schedule.take()).last().expect("many");
        assert!(last.0.abs_diff(100_000_000_000) < 1_000, "{last:?}");
    }

    #[test]
    fn poisson_gaps_have_the_rate_and_the_spread() {
        let mut schedule = Schedule::new(Instant(0), 10_000.0, Arrivals::Poisson, 1, 2, 7);
        let times: Vec<f64> = (0..50_000).map(|_| schedule.take().0 as f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 200_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03);
        assert!(gaps.iter().all(|gap| *gap >= 0.0));
    }

    #[test]
    fn what_is_abandoned_is_counted() {
        let mut schedule = Schedule::new(Instant(0), 1_000.0, Arrivals::Constant, 0, 1, 1);
        schedule.take();
        assert_eq!(schedule.abandon(Instant(1_000_000_000)), 999);
        assert_eq!(schedule.next_at(), Instant(1_000_000_000));
    }
}
