//! Histograms that forget: the number of all values, and the sizes of recent ones.
//!
//! 1. A value counts in the bucket of the smallest bound that is not below it. The bounds are Cassandra's: 1, 2, 3, ...
//!    8, 10, 12, 14, 17, each about a fifth above the one before.
//! 2. Time passes in ticks of five seconds. With each tick the rate moves towards that of the tick, like a five-minute
//!    load average; with every eighth tick the buckets are halved, so that values from minutes ago count for nothing.
//! 3. Ticks that have passed are caught up with when a value is recorded or the histogram is read; no timer runs.
//!
//! Invariants: recording allocates only for the first value; a histogram without values takes a few words.

use runtime::Instant;
use std::cell::{Cell, OnceCell};

/// Buckets: one per bound and one for values beyond. The last bound is 64 seconds in nanoseconds.
pub(crate) const BUCKETS: usize = 134;
/// The largest value of each bucket.
const BOUNDS: [u64; BUCKETS - 1] = bounds();
/// The first bucket that a value may be in, by the three highest bits of the value.
const STARTS: [u8; 4 * 64] = starts();
/// What a value adds to its bucket; more than 1, so that it can be halved several times.
const UNIT: u32 = 16;
/// Nanoseconds of a tick.
const TICK_NANOS: u64 = 5_000_000_000;
/// Ticks in which the weight of a value halves. Per minute it shrinks by a factor of 2.8; Cassandra's factor is 2.7.
const HALVING_TICKS: u64 = 8;
/// How far the rate moves with each tick: `1 - exp(-5 s / 300 s)`.
const RATE_STEP: f64 = 0.016_528_546_178_382_487;

const fn bounds() -> [u64; BUCKETS - 1] {
    let mut bounds = [1; BUCKETS - 1];
    let mut at = 1;
    while at < bounds.len() {
        let before = bounds[at - 1];
        let next = (before * 12 + 5) / 10;
        bounds[at] = if next == before { before + 1 } else { next };
        at += 1;
    }
    bounds
}

const fn starts() -> [u8; 4 * 64] {
    let mut starts = [0; 4 * 64];
    let mut bucket = 0;
    let mut cell = 0;
    while cell < starts.len() {
        let (exponent, high) = (cell / 4, cell % 4);
        if exponent >= 2 {
            let least = (4 + high as u64) << (exponent - 2);
            while bucket < BOUNDS.len() && BOUNDS[bucket] < least {
                bucket += 1;
            }
            starts[cell] = bucket as u8;
        }
        cell += 1;
    }
    starts
}

fn bucket_of(value: u64) -> usize {
    // Below 4 each value has a bucket of its own.
    if value < 4 {
        return (value as usize).saturating_sub(1);
    }
    let exponent = value.ilog2();
    let cell = exponent as usize * 4 + ((value >> (exponent - 2)) & 3) as usize;
    let mut bucket = usize::from(STARTS[cell]);
    while bucket < BOUNDS.len() && BOUNDS[bucket] < value {
        bucket += 1;
    }
    bucket
}

/// A histogram of one shard.
#[derive(Default)]
pub(crate) struct Histogram {
    recent: OnceCell<Box<[Cell<u32>; BUCKETS]>>,
    count: Cell<u64>,
    total: Cell<u64>,
    /// When the next tick ends, nanoseconds; 0 before the first value.
    due: Cell<u64>,
    ticks: Cell<u64>,
    /// `count` at the last tick.
    counted: Cell<u64>,
    /// Values per second; meaningful after the first tick.
    rate: Cell<f64>,
}

impl Histogram {
    /// Counts a value at the time `now`.
    pub(crate) fn record(&self, value: u64, now: Instant) {
        if now.0 >= self.due.get() {
            self.tick(now);
        }
        let recent = self.recent.get_or_init(|| Box::new([const { Cell::new(0) }; BUCKETS]));
        let bucket = &recent[bucket_of(value)];
        bucket.set(bucket.get().saturating_add(UNIT));
        self.count.set(self.count.get() + 1);
        self.total.set(self.total.get().wrapping_add(value));
    }

    /// Catches up with the ticks until `now`.
    #[cold]
    fn tick(&self, now: Instant) {
        if self.due.get() == 0 {
            return self.due.set(now.0.saturating_add(TICK_NANOS));
        }
        let passed = (now.0.saturating_sub(self.due.get())) / TICK_NANOS + 1;
        let (before, after) = (self.ticks.get(), self.ticks.get() + passed);
        let of_tick = (self.count.get() - self.counted.get()) as f64 * 1e9 / TICK_NANOS as f64;
        let rate = if before == 0 { of_tick } else { self.rate.get() + RATE_STEP * (of_tick - self.rate.get()) };
        self.rate.set(rate * (1.0 - RATE_STEP).powf((passed - 1) as f64));
        let halvings = (after / HALVING_TICKS - before / HALVING_TICKS).min(31) as u32;
        if let Some(recent) = self.recent.get().filter(|_| halvings > 0) {
            recent.iter().for_each(|bucket| bucket.set(bucket.get() >> halvings));
        }
        self.counted.set(self.count.get());
        self.ticks.set(after);
        self.due.set(self.due.get().saturating_add(passed.saturating_mul(TICK_NANOS)));
    }

    /// The histogram's content at the time `now`.
    pub(crate) fn distribution(&self, now: Instant) -> Distribution {
        if self.due.get() != 0 && now.0 >= self.due.get() {
            self.tick(now);
        }
        let rounded = |bucket: &Cell<u32>| u64::from((bucket.get().saturating_add(UNIT / 2)) / UNIT);
        Distribution {
            recent: self.recent.get().map(|recent| recent.iter().map(rounded).collect()).unwrap_or_default(),
            count: self.count.get(),
            total: self.total.get(),
            rate: self.rate.get(),
        }
    }
}

/// The content of one or several histograms.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Distribution {
    /// Weights by bucket; empty if there are no values.
    recent: Vec<u64>,
    /// Values since the start.
    pub count: u64,
    /// Their sum.
    pub total: u64,
    /// Values per second, averaged over five minutes as a load average is.
    pub rate: f64,
}

impl Distribution {
    /// Adds the content of another.
    pub fn add(&mut self, other: &Distribution) {
        self.recent.resize(self.recent.len().max(other.recent.len()), 0);
        for (bucket, count) in self.recent.iter_mut().zip(&other.recent) {
            *bucket += count;
        }
        self.count += other.count;
        self.total = self.total.wrapping_add(other.total);
        self.rate += other.rate;
    }

    /// The recent values: bucket number and weight of each bucket that is not empty.
    fn recent(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        self.recent.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// The bound that the fraction `part` (0.0 to 1.0) of the recent values does not exceed; 0 if there are none.
    pub fn percentile(&self, part: f64) -> u64 {
        let wanted = (self.recent.iter().sum::<u64>() as f64 * part).ceil() as u64;
        let mut seen = 0;
        let reached = self.recent().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        reached.map_or(0, |(bucket, _)| bound(bucket))
    }

    /// The bound of the largest recent value; 0 if there are none.
    pub fn max(&self) -> u64 {
        self.recent().next_back().map_or(0, |(bucket, _)| bound(bucket))
    }

    /// The smallest value that can be in the bucket of the smallest recent value; 0 if there are none.
    pub fn min(&self) -> u64 {
        self.recent().next().map_or(0, |(bucket, _)| if bucket == 0 { 0 } else { bound(bucket - 1) + 1 })
    }

    /// The mean of the bounds of the recent values; NaN if there are none.
    pub fn mean(&self) -> f64 {
        let (mut sum, mut all) = (0.0, 0);
        for (bucket, count) in self.recent() {
            sum += bound(bucket) as f64 * count as f64;
            all += count;
        }
        sum / all as f64
    }
}

/// The bound of a bucket; values beyond the last bound count as that bound.
fn bound(bucket: usize) -> u64 {
    BOUNDS[bucket.min(BOUNDS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn values_are_in_the_bucket_of_the_bound_above_them() {
        assert_eq!(BOUNDS[..15], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 29]);
        assert!(BOUNDS[BUCKETS - 2] > 60 * SECOND);
        for value in (0..5000).chain((0..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let expected = BOUNDS.iter().position(|bound| value <= *bound).unwrap_or(BUCKETS - 1);
            assert_eq!(bucket_of(value), expected, "{value}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn distributions_tell_bounds() {
        let (one, other) = (Histogram::default(), Histogram::default());
        let now = Instant(SECOND);
        assert!(one.distribution(now).mean().is_nan());
        assert_eq!(one.distribution(now), Distribution::default());
        (1..=98).for_each(|_| one.record(11, now));
        one.record(0, now);
        other.record(1_000_000, now);
        let mut sum = one.distribution(now);
        sum.add(&other.distribution(now));
        assert_eq!((sum.count, sum.total), (100, 98 * 11 + 1_000_000));
        assert_eq!((sum.percentile(0.5), sum.percentile(0.99), sum.percentile(1.0)), (12, 12, sum.max()));
        assert_eq!((sum.min(), one.distribution(now).max(), other.distribution(now).count), (0, 12, 1));
        assert!(sum.max() >= 1_000_000 && sum.max() < 1_200_000);
        assert!((one.distribution(now).mean() - (98.0 * 12.0 + 1.0) / 99.0).abs() < 1e-9);
        one.record(u64::MAX, now);
        assert_eq!(one.distribution(now).max(), BOUNDS[BUCKETS - 2]);
    }

    #[test]
    fn what_was_minutes_ago_is_no_longer_seen() {
        let histogram = Histogram::default();
        let at = |seconds: u64| Instant((100 + seconds) * SECOND);
        histogram.record(5, at(0));
        assert_eq!((histogram.distribution(at(4)).max(), histogram.distribution(at(4)).rate), (5, 0.0));
        assert_eq!(histogram.distribution(at(5)).rate, 0.2);
        assert_eq!(histogram.distribution(at(79)).max(), 5);
        assert_eq!(histogram.distribution(at(80)).max(), 0);
        let late = histogram.distribution(at(100_000));
        assert_eq!((late.count, late.max()), (1, 0));
        assert!(late.rate < 1e-6);
        histogram.record(7, at(100_001));
        assert_eq!((histogram.distribution(at(100_001)).max(), histogram.distribution(at(100_001)).count), (7, 2));
    }
}
