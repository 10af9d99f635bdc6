//! The rate at which a node takes requests, if it is limited: one limit for all of its cores.
//!
//! Each request takes the next of the moments that lie one interval apart. Moments that have passed are kept for up to
//! [`BURST`], so that clients may ask for a second's worth at once after a pause, as on Cassandra.

use runtime::Instant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Requests of this time may come at once.
const BURST: Duration = Duration::from_secs(1);

/// The limit of a node, which its cores share.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    per_second: u32,
    interval_nanos: u64,
    /// The first moment that no request has taken, in nanoseconds.
    next: AtomicU64,
}

impl RateLimiter {
    /// A limit of this many requests per second.
    pub(crate) fn new(per_second: u32) -> RateLimiter {
        let interval_nanos = 1_000_000_000 / u64::from(per_second.max(1));
        RateLimiter { per_second, interval_nanos, next: AtomicU64::new(0) }
    }

    /// The requests per second.
    pub(crate) fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Takes a moment, and returns how long the request has to wait for it.
    pub(crate) fn reserve(&self, now: Instant) -> Duration {
        let taken = self.take(now, u64::MAX).unwrap_or(now.0);
        Duration::from_nanos(taken.saturating_sub(now.0))
    }

    /// Takes a moment if there is one that has passed.
    pub(crate) fn try_reserve(&self, now: Instant) -> bool {
        self.take(now, now.0).is_some()
    }

    /// Takes the next moment if it is not after `latest`.
    fn take(&self, now: Instant, latest: u64) -> Option<u64> {
        let first = now.0.saturating_sub(BURST.as_nanos() as u64);
        let moment = |next: u64| next.max(first);
        let following = |next| (moment(next) <= latest).then(|| moment(next).saturating_add(self.interval_nanos));
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, following).ok().map(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_second_of_requests_may_come_at_once_and_then_one_per_interval() {
        let limiter = RateLimiter::new(5);
        let now = Instant(100 * SECOND);
        // The moment a second ago and the five since.
        assert_eq!((0..20).filter(|_| limiter.try_reserve(now)).count(), 6);
        assert!(!limiter.try_reserve(now.after(Duration::from_millis(199))));
        assert!(limiter.try_reserve(now.after(Duration::from_millis(200))));
        assert!(!limiter.try_reserve(now.after(Duration::from_millis(200))));
        let delays: Vec<u128> =
            (0..3).map(|_| limiter.reserve(now.after(Duration::from_millis(200))).as_millis()).collect();
        assert_eq!(delays, [200, 400, 600]);
        let later = Instant(200 * SECOND);
        assert_eq!((0..20).filter(|_| limiter.try_reserve(later)).count(), 6, "no more than a second is kept");
        assert_eq!(limiter.reserve(later).as_millis(), 200);
    }

    #[test]
    fn a_rate_beyond_the_clock_is_no_limit() {
        let limiter = RateLimiter::new(u32::MAX);
        assert!((0..1000).all(|_| limiter.try_reserve(Instant(5))));
    }
}
