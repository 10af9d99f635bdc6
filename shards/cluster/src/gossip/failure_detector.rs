//! The phi accrual failure detector (Hayashibara and others, 2004) as Cassandra has it.
//!
//! 1. The intervals between the heartbeats of a node are kept, the last [`WINDOW`] of them; the first counts as
//!    [`INITIAL_INTERVAL`], and one longer than [`INTERVAL_MAX`] is not kept.
//! 2. phi is the time since the last heartbeat, divided by the mean interval, times 1 / ln 10: were intervals
//!    distributed exponentially, a heartbeat would still come with a probability of 10^-phi.
//! 3. A node whose phi passes the threshold is convicted: with the default of 8 after 18.4 mean intervals.
//! 4. A pause of this process would convict everybody, so after one of [`LOCAL_PAUSE_MAX`] nobody is for as long.

use std::collections::VecDeque;
use std::time::Duration;

/// Intervals that count.
pub const WINDOW: usize = 1000;
/// The interval that stands for the time before the first heartbeat.
pub const INITIAL_INTERVAL: Duration = Duration::from_secs(2);
/// Longest interval that is kept.
pub const INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Longest time between two rounds after which nodes are still convicted.
pub const LOCAL_PAUSE_MAX: Duration = Duration::from_secs(5);
/// `phi_convict_threshold` unless configured.
pub const PHI_CONVICT_THRESHOLD: f64 = 8.0;
/// 1 / ln 10.
const PHI_FACTOR: f64 = std::f64::consts::LOG10_E;

/// The last heartbeats of one node.
#[derive(Clone, Debug)]
pub struct ArrivalWindow {
    last: Duration,
    /// In nanoseconds; [`INTERVAL_MAX`] fits.
    intervals: VecDeque<u32>,
    sum: u64,
}

impl ArrivalWindow {
    /// The window of a node whose first heartbeat arrived at `now`.
    pub fn new(now: Duration) -> ArrivalWindow {
        let mut window = ArrivalWindow { last: now, intervals: VecDeque::new(), sum: 0 };
        window.keep(INITIAL_INTERVAL);
        window
    }

    /// Takes a heartbeat.
    pub fn report(&mut self, now: Duration) {
        let interval = now.saturating_sub(self.last);
        if interval <= INTERVAL_MAX {
            self.keep(interval);
        }
        self.last = now;
    }

    /// phi of the node.
    pub fn phi(&self, now: Duration) -> f64 {
        let mean = self.sum as f64 / self.intervals.len() as f64;
        now.saturating_sub(self.last).as_nanos() as f64 / mean.max(1.0) * PHI_FACTOR
    }

    fn keep(&mut self, interval: Duration) {
        if self.intervals.len() == WINDOW {
            self.sum -= self.intervals.pop_front().map_or(0, u64::from);
        }
        let nanos = interval.as_nanos() as u32;
        self.intervals.push_back(nanos);
        self.sum += u64::from(nanos);
    }
}

/// Whether this process has run without a pause, so that silence is the fault of others.
#[derive(Clone, Debug)]
pub(super) struct PauseGuard {
    last_round: Duration,
    paused: Option<Duration>,
}

/// What a round may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Conviction {
    Allowed,
    /// Not now: the process has just been paused for this long.
    Paused(Duration),
    /// Not yet after a pause.
    Suspended,
}

impl PauseGuard {
    pub(super) fn new(now: Duration) -> PauseGuard {
        PauseGuard { last_round: now, paused: None }
    }

    /// Called once a round.
    pub(super) fn round(&mut self, now: Duration) -> Conviction {
        let since_last = now.saturating_sub(self.last_round);
        self.last_round = now;
        if since_last > LOCAL_PAUSE_MAX {
            self.paused = Some(now);
            return Conviction::Paused(since_last);
        }
        match self.paused {
            Some(at) if now.saturating_sub(at) < LOCAL_PAUSE_MAX => Conviction::Suspended,
            _ => Conviction::Allowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// When a node is convicted after `beats` heartbeats a second apart, in tenths of seconds after the last of them.
    fn conviction(beats: u32, threshold: f64) -> u32 {
        let mut window = ArrivalWindow::new(SECOND);
        (2..=beats).for_each(|at| window.report(SECOND * at));
        (0..).find(|tenths| window.phi(SECOND * beats + SECOND / 10 * *tenths) > threshold).unwrap()
    }

    #[test]
    fn conviction_takes_the_time_that_it_takes_in_cassandra() {
        // A long time of heartbeats a second apart: 8 * ln 10 = 18.42 s.
        assert_eq!(conviction(5000, 8.0), 185);
        assert_eq!(conviction(5000, 12.0), 277);
        // A single heartbeat: the mean is the initial interval.
        assert_eq!(conviction(1, 8.0), 369);
        // Ten: (2 + 9) / 10.
        assert_eq!(conviction(10, 8.0), 203);
    }

    #[test]
    fn intervals_longer_than_the_limit_are_not_kept() {
        let mut window = ArrivalWindow::new(SECOND);
        window.report(SECOND * 2);
        let mean = |window: &ArrivalWindow| window.sum / window.intervals.len() as u64;
        assert_eq!(mean(&window), 1_500_000_000);
        window.report(SECOND * 2 + INTERVAL_MAX + Duration::from_nanos(1));
        assert_eq!(mean(&window), 1_500_000_000);
        assert_eq!(window.phi(SECOND * 4 + Duration::from_nanos(1)), 0.0, "it counts as a heartbeat");
        window.report(SECOND * 6 + Duration::from_nanos(1));
        assert_eq!(window.intervals.len(), 3, "an interval as long as the limit is kept");
    }

    #[test]
    fn the_window_forgets_its_oldest_interval() {
        let mut window = ArrivalWindow::new(SECOND);
        (2..=WINDOW as u32).for_each(|at| window.report(SECOND * at));
        assert_eq!((window.intervals.len(), window.sum), (WINDOW, 1_000_000_000 * (WINDOW as u64 + 1)));
        window.report(SECOND * (WINDOW as u32 + 1));
        assert_eq!((window.intervals.len(), window.sum), (WINDOW, 1_000_000_000 * WINDOW as u64));
    }

    #[test]
    fn a_pause_of_this_process_convicts_nobody() {
        let mut guard = PauseGuard::new(SECOND);
        assert_eq!(guard.round(SECOND * 6), Conviction::Allowed);
        assert_eq!(guard.round(SECOND * 12), Conviction::Paused(SECOND * 6));
        assert_eq!(guard.round(SECOND * 13), Conviction::Suspended);
        assert_eq!(guard.round(SECOND * 17 - Duration::from_nanos(1)), Conviction::Suspended);
        assert_eq!(guard.round(SECOND * 17), Conviction::Allowed);
    }
}
