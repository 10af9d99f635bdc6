//! Decides when a run has warmed up: when throughput and p99 have stopped changing.
//!
//! The median throughput and the median p99 of the last windows are compared with those of the windows before them.
//! Medians are used because a flush or a garbage collection may disturb a single window. The throughput of an open loop
//! is fixed, so there p99 decides.

use std::collections::VecDeque;
use std::time::Duration;

/// How many windows are on either side of the comparison.
const SIDE: usize = 3;
/// How far the medians may lie apart, as a share of the earlier one.
const THROUGHPUT_TOLERANCE: f64 = 0.05;
const P99_TOLERANCE: f64 = 0.20;
/// Differences of p99 below this are noise of clocks and timers.
const P99_NOISE: f64 = 100e-6;

/// The last windows of a run.
#[derive(Default)]
pub struct Steadiness {
    windows: VecDeque<(f64, f64)>,
}

impl Steadiness {
    /// Adds a window's operations per second and p99. Returns whether the run is steady.
    pub fn push(&mut self, throughput: f64, p99: Duration) -> bool {
        self.windows.push_back((throughput, p99.as_secs_f64()));
        if self.windows.len() < 2 * SIDE {
            return false;
        }
        while self.windows.len() > 2 * SIDE {
            self.windows.pop_front();
        }
        let median = |from: usize, of: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = self.windows.iter().skip(from).take(SIDE).map(of).collect();
            values.sort_by(f64::total_cmp);
            values[SIDE / 2]
        };
        let (throughput_before, throughput_now) = (median(0, |w| w.0), median(SIDE, |w| w.0));
        let (p99_before, p99_now) = (median(0, |w| w.1), median(SIDE, |w| w.1));
        let near = |before: f64, now: f64, tolerance: f64| (now - before).abs() <= before * tolerance;
        throughput_now > 0.0
            && near(throughput_before, throughput_now, THROUGHPUT_TOLERANCE)
            && (near(p99_before, p99_now, P99_TOLERANCE) || (p99_now - p99_before).abs() < P99_NOISE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady_after(windows: impl IntoIterator<Item = (f64, u64)>) -> Option<usize> {
        let mut steadiness = Steadiness::default();
        windows.into_iter().position(|(throughput, millis)| steadiness.push(throughput, Duration::from_millis(millis)))
    }

    #[test]
    fn a_level_run_is_steady_at_once() {
        assert_eq!(steady_after((0..10).map(|_| (1000.0, 5))), Some(5));
    }

    #[test]
    fn a_rising_run_is_not_steady() {
        assert_eq!(steady_after((0..10).map(|n| (1000.0 * 1.1f64.powi(n), 5))), None);
        assert_eq!(steady_after((0..20).map(|n| (1000.0 * f64::from(n.min(10)), 5))), Some(14));
        assert_eq!(steady_after((0..10).map(|n| (1000.0, 100 - 9 * n))), None);
    }

    #[test]
    fn one_bad_window_does_not_matter() {
        assert_eq!(steady_after((0..6).map(|n| if n == 4 { (200.0, 90) } else { (1000.0, 5) })), Some(5));
    }

    #[test]
    fn silence_is_not_steady() {
        assert_eq!(steady_after((0..10).map(|_| (0.0, 0))), None);
    }
}
