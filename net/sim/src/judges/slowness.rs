//! Slowness (P11): one slow node does not slow the requests down that can do without it, nor make them fail.

use super::history::Violation;
use std::time::Duration;

/// A percentile of no more than this is never too high.
const ALWAYS_ALLOWED: Duration = Duration::from_millis(10);
/// How many latencies there must be for a verdict.
const SAMPLES_MIN: usize = 200;

/// How long requests took.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Adds a request.
    pub fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The 99th percentile; zero if there are none.
    pub fn p99(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
    }
}

/// Checks the latencies of requests that could do without a slow node, beside those of calm times. The 99th percentile
/// may have `times_max` times its calm value, at most.
pub fn check_latencies(calm: &Latencies, slow: &Latencies, times_max: u32) -> Result<(), Violation> {
    if calm.count() < SAMPLES_MIN || slow.count() < SAMPLES_MIN {
        return Err(Violation(format!(
            "{} requests in calm times and {} beside a slow node are too few to judge",
            calm.count(),
            slow.count()
        )));
    }
    let (before, during) = (calm.p99(), slow.p99());
    match during <= ALWAYS_ALLOWED.max(times_max * before) {
        true => Ok(()),
        false => Err(Violation(format!("99% of requests took up to {before:?}, and {during:?} beside a slow node"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(millis: u64, count: usize, slow: usize) -> Latencies {
        let of = |number| Duration::from_millis(if number < slow { 1000 } else { millis });
        Latencies((0..count).map(of).collect())
    }

    #[test]
    fn a_percentile_that_rises_is_found() {
        let calm = latencies(6, 1000, 0);
        assert!(check_latencies(&calm, &latencies(12, 1000, 9), 2).is_ok());
        assert!(check_latencies(&calm, &latencies(13, 1000, 0), 2).is_err());
        assert!(check_latencies(&calm, &latencies(6, 1000, 11), 2).is_err());
        assert!(check_latencies(&latencies(1, 1000, 0), &latencies(10, 1000, 0), 2).is_ok());
        assert!(check_latencies(&calm, &latencies(6, SAMPLES_MIN - 1, 0), 2).is_err());
    }
}
