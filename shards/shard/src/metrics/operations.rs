//! Latencies of each class of operations on one shard, as HDR histograms.
//!
//! 1. A duration counts in the histogram of the current window.
//! 2. A window lasts a minute. The first recording or reading after its end adds its histogram to that of all earlier
//!    windows, and keeps it as that of the last window.
//! 3. Totals since the start come from all windows; recent values from the current and the last window.
//!
//! Invariants: recording takes no lock and allocates only for the first value of a class; durations from `NANOS_MIN` to
//! `NANOS_MAX` are precise to one percent, and longer ones count as `NANOS_MAX`. Sums are exact.
//!
//! Source: HdrHistogram, Gil Tene.

use hdrhistogram::Histogram;
use runtime::Instant;
use std::cell::RefCell;

/// A class of operations: as the coordinator of a client's request sees them, or on the shard's own store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// A read of one partition, as its coordinator sees it.
    Read,
    /// A page of a range, as its coordinator sees it.
    Range,
    /// A write of one partition, as its coordinator sees it.
    Write,
    /// A write of counters in one partition, as its coordinator sees it.
    CounterWrite,
    /// A round of Paxos before a read at SERIAL, as its coordinator sees it.
    CasRead,
    /// A conditional change, as its coordinator sees it.
    CasWrite,
    /// A read of one partition, in the store.
    LocalRead,
    /// A read of a range, in the store.
    LocalRange,
    /// A write, in log and memtable.
    LocalWrite,
}

impl Operation {
    /// Every class, in order.
    pub const ALL: [Operation; OPERATIONS] = [
        Operation::Read,
        Operation::Range,
        Operation::Write,
        Operation::CounterWrite,
        Operation::CasRead,
        Operation::CasWrite,
        Operation::LocalRead,
        Operation::LocalRange,
        Operation::LocalWrite,
    ];
}

const OPERATIONS: usize = 9;
/// Reads that are coordinated and local at once: recorded once, shown in both classes.
pub(super) const READ_HERE: usize = OPERATIONS;
/// Writes that are coordinated and local at once.
pub(super) const WRITE_HERE: usize = OPERATIONS + 1;
const PLACES: usize = OPERATIONS + 2;

/// Resolution of the shortest durations, nanoseconds.
const NANOS_MIN: u64 = 64;
/// The longest duration that is told apart, nanoseconds.
const NANOS_MAX: u64 = 64_000_000_000;
/// Decimal digits to which a duration is precise.
const DIGITS: u8 = 2;
/// How long a window lasts.
const WINDOW_NANOS: u64 = 60_000_000_000;

/// The bounds of [`Latency::buckets`], nanoseconds: 1, 2.5 and 5 of each decade from 5 µs to 25 s.
pub const BOUNDS: [u64; 21] = [
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
];
/// The fractions of [`Latency::quantiles`]; the last one stands for the longest duration.
pub const QUANTILES: [f64; 7] = [0.5, 0.75, 0.95, 0.98, 0.99, 0.999, 1.0];

/// The latency of one class of operations on one shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// Operations since the start.
    pub count: u64,
    /// The sum of their durations, nanoseconds.
    pub total_nanos: u64,
    /// Operations since the start, by duration: at most the bound in [`BOUNDS`] and more than the bound before. A
    /// duration within one percent of a bound may count in the next bucket.
    pub buckets: [u64; BOUNDS.len()],
    /// For each fraction in [`QUANTILES`], the longest duration of that fraction of operations in the last one to two
    /// minutes, nanoseconds; 0 if there were none.
    pub quantiles: [u64; QUANTILES.len()],
}

/// The histograms of one class.
struct Windows {
    current: Histogram<u64>,
    last: Histogram<u64>,
    before: Histogram<u64>,
    total_nanos: u64,
    /// When the current window ends, nanoseconds.
    due: u64,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(NANOS_MIN, NANOS_MAX, DIGITS).expect("the bounds are those of a histogram")
}

impl Windows {
    fn new(now: Instant) -> Windows {
        let due = now.0.saturating_add(WINDOW_NANOS);
        Windows { current: histogram(), last: histogram(), before: histogram(), total_nanos: 0, due }
    }

    /// Catches up with the windows that ended until `now`.
    #[cold]
    fn turn(&mut self, now: Instant) {
        let passed = (now.0 - self.due) / WINDOW_NANOS + 1;
        self.before.add(&self.current).expect("both have the same bounds");
        std::mem::swap(&mut self.current, &mut self.last);
        self.current.clear();
        if passed > 1 {
            self.last.clear();
        }
        self.due = self.due.saturating_add(passed.saturating_mul(WINDOW_NANOS));
    }
}

/// The latencies of one shard.
#[derive(Default)]
pub(super) struct Latencies([RefCell<Option<Box<Windows>>>; PLACES]);

impl Latencies {
    /// Counts an operation; `place` is an [`Operation`], [`READ_HERE`] or [`WRITE_HERE`].
    pub(super) fn record(&self, place: usize, nanos: u64, now: Instant) {
        let mut windows = self.0[place].borrow_mut();
        let windows = windows.get_or_insert_with(|| Box::new(Windows::new(now)));
        if now.0 >= windows.due {
            windows.turn(now);
        }
        windows.total_nanos = windows.total_nanos.wrapping_add(nanos);
        windows.current.saturating_record(nanos);
    }

    /// The latency of a class at the time `now`.
    pub(super) fn latency(&self, operation: Operation, now: Instant) -> Latency {
        let here = match operation {
            Operation::Read | Operation::LocalRead => Some(READ_HERE),
            Operation::Write | Operation::LocalWrite => Some(WRITE_HERE),
            _ => None,
        };
        let (mut all, mut recent) = (histogram(), histogram());
        let mut total_nanos = 0u64;
        for place in [Some(operation as usize), here].into_iter().flatten() {
            let mut windows = self.0[place].borrow_mut();
            let Some(windows) = windows.as_mut() else { continue };
            if now.0 >= windows.due {
                windows.turn(now);
            }
            total_nanos = total_nanos.wrapping_add(windows.total_nanos);
            let add = |sum: &mut Histogram<u64>, part| sum.add(part).expect("both have the same bounds");
            add(&mut all, &windows.before);
            add(&mut all, &windows.current);
            add(&mut recent, &windows.last);
            add(&mut recent, &windows.current);
        }
        let mut buckets = [0; BOUNDS.len()];
        for value in all.iter_recorded() {
            let bucket = BOUNDS.partition_point(|bound| *bound < value.value_iterated_to());
            if let Some(count) = buckets.get_mut(bucket) {
                *count += value.count_since_last_iteration();
            }
        }
        let quantiles = QUANTILES.map(|part| if recent.is_empty() { 0 } else { recent.value_at_quantile(part) });
        Latency { count: all.len(), total_nanos, buckets, quantiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn durations_count_in_their_class_and_bucket() {
        let latencies = Latencies::default();
        let now = Instant(SECOND);
        assert_eq!(latencies.latency(Operation::Read, now), Latency::default());
        (0..98).for_each(|_| latencies.record(Operation::Read as usize, 4_000, now));
        latencies.record(Operation::Read as usize, 2 * SECOND, now);
        latencies.record(READ_HERE, 7_000, now);
        // Longer than the histogram's range.
        latencies.record(Operation::LocalRead as usize, 1000 * SECOND, now);
        let read = latencies.latency(Operation::Read, now);
        assert_eq!((read.count, read.total_nanos), (100, 98 * 4_000 + 2 * SECOND + 7_000));
        assert_eq!((read.buckets[0], read.buckets[1], read.buckets[17]), (98, 1, 1));
        assert_eq!(read.buckets.iter().sum::<u64>(), 100);
        let near = |nanos: u64, expected: u64| nanos.abs_diff(expected) <= expected / 100;
        assert!(
            near(read.quantiles[0], 4_000) && near(read.quantiles[4], 7_000) && near(read.quantiles[6], 2 * SECOND)
        );
        let local = latencies.latency(Operation::LocalRead, now);
        assert_eq!((local.count, local.total_nanos), (2, 1000 * SECOND + 7_000));
        assert_eq!(local.buckets.iter().sum::<u64>(), 1, "one is beyond the last bound");
        assert!(near(local.quantiles[6], NANOS_MAX));
        assert_eq!(latencies.latency(Operation::Write, now).count, 0);
    }

    #[test]
    fn what_was_minutes_ago_is_no_longer_recent() {
        let latencies = Latencies::default();
        let at = |seconds: u64| Instant((100 + seconds) * SECOND);
        let longest = |now| latencies.latency(Operation::Write, now).quantiles[6];
        latencies.record(Operation::Write as usize, 900_000, at(0));
        latencies.record(Operation::Write as usize, 4_000, at(61));
        assert!(longest(at(61)) > 800_000);
        assert!(longest(at(119)) > 800_000);
        assert!(longest(at(120)) < 10_000);
        assert_eq!(longest(at(600)), 0);
        latencies.record(Operation::Write as usize, 4_000, at(100_000));
        let write = latencies.latency(Operation::Write, at(100_000));
        assert_eq!((write.count, write.total_nanos), (3, 908_000));
        assert_eq!((write.buckets[0], write.buckets[7]), (2, 1));
    }
}
