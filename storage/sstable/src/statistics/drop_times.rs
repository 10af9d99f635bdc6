//! A histogram of local deletion times: how many tombstones can be purged when. Collected as Cassandra does.
//!
//! 1. A time is rounded up to a minute and counted in the spool, a hash table.
//! 2. When the spool is full, and at the end, it is emptied into the bins in the order of its slots. Whenever there is
//!    one bin too many, the two nearest to each other are merged at their weighted mean.
//!
//! Invariants: slots, order and rounding are Cassandra's, so that the bytes are equal.

use model::HashMap;

/// Most bins that are written.
pub const DROP_TIMES_MAX: usize = 100;
/// Slots of the spool that times hash to; it has twice as many.
const SPOOL_SLOTS: usize = 1 << 17;
/// How many slots are tried for a time.
const PROBES: usize = 100;
const ROUND_SECONDS: i64 = 60;
/// The latest time; later ones count as this one.
const TIME_MAX: i64 = u32::MAX as i64 - 1;
const COUNT_MAX: i64 = i32::MAX as i64;

/// Collects local deletion times.
#[derive(Default, Debug)]
pub(crate) struct DropTimes {
    /// Time and count by slot.
    spool: HashMap<u32, (i64, i64)>,
    /// The last time and how often it came in a row. It is not in the spool yet.
    last: Option<(i64, i64)>,
    /// Time and count, ascending.
    bins: Vec<(i64, i64)>,
}

impl DropTimes {
    /// Counts a local deletion time, in seconds.
    pub(crate) fn add(&mut self, time: i64) {
        let time = round_up(time.clamp(0, TIME_MAX));
        match &mut self.last {
            Some((last, count)) if *last == time => *count += 1,
            last => {
                if let Some((time, count)) = last.replace((time, 1)) {
                    self.spool(time, count);
                }
            }
        }
    }

    fn spool(&mut self, time: i64, count: i64) {
        if self.spool.len() > SPOOL_SLOTS || !self.try_spool(time, count) {
            self.empty_spool();
            self.try_spool(time, count);
        }
    }

    fn try_spool(&mut self, time: i64, count: i64) -> bool {
        const PRIME: i64 = 948_701_839;
        let slot = time.wrapping_mul(PRIME) as u32 as usize & (SPOOL_SLOTS - 1);
        for probe in 0..PROBES {
            let found = self.spool.entry(((slot + probe) % (2 * SPOOL_SLOTS)) as u32).or_insert((time, 0));
            if found.0 == time {
                found.1 = (found.1 + count).min(COUNT_MAX);
                return true;
            }
        }
        false
    }

    fn empty_spool(&mut self) {
        let mut slots: Vec<_> = std::mem::take(&mut self.spool).into_iter().collect();
        slots.sort_unstable();
        for (_, (time, count)) in slots {
            self.bin(time, count);
        }
    }

    fn bin(&mut self, time: i64, count: i64) {
        match self.bins.binary_search_by_key(&time, |bin| bin.0) {
            Ok(at) => {
                if let Some(bin) = self.bins.get_mut(at) {
                    bin.1 = (bin.1 + count).min(COUNT_MAX);
                }
            }
            Err(at) => self.bins.insert(at, (time, count)),
        }
        if self.bins.len() > DROP_TIMES_MAX {
            self.merge_nearest();
        }
    }

    /// Merges the two bins that are nearest to each other.
    fn merge_nearest(&mut self) {
        let gaps = self.bins.iter().zip(self.bins.iter().skip(1)).map(|(bin, next)| next.0 - bin.0);
        let nearest = gaps.enumerate().min_by_key(|(at, gap)| (*gap, *at)).map(|(at, _)| at);
        let Some(at) = nearest else { return };
        let (second, second_count) = self.bins.remove(at + 1);
        let Some((first, count)) = self.bins.get_mut(at) else { return };
        let sum = *count + second_count;
        let middle = (*first * *count + second * second_count) / sum;
        *first = round_up(middle.max(*first + 1).min(second));
        *count = sum.min(COUNT_MAX);
    }

    /// Returns the bins: time and count, ascending.
    pub(crate) fn finish(mut self) -> Vec<(i64, i64)> {
        if let Some((time, count)) = self.last.take() {
            self.spool(time, count);
        }
        self.empty_spool();
        self.bins
    }
}

fn round_up(time: i64) -> i64 {
    match time % ROUND_SECONDS {
        0 => time,
        rest => (time + ROUND_SECONDS - rest).min(TIME_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_bounded() {
        let count = |times: i64| {
            let mut found = DropTimes::default();
            (0..times).for_each(|i| found.add(i * ROUND_SECONDS));
            found.finish()
        };
        assert_eq!(count(DROP_TIMES_MAX as i64).len(), DROP_TIMES_MAX);
        let joined = count(DROP_TIMES_MAX as i64 + 1);
        assert_eq!(joined.len(), DROP_TIMES_MAX);
        assert_eq!(joined.iter().map(|bin| bin.1).sum::<i64>(), DROP_TIMES_MAX as i64 + 1);
    }

    #[test]
    fn times_are_rounded_up_and_saturate() {
        let mut found = DropTimes::default();
        [1, 60, 61, TIME_MAX, i64::MAX, -5].into_iter().for_each(|time| found.add(time));
        assert_eq!(found.finish(), [(0, 1), (60, 2), (120, 1), (TIME_MAX, 2)]);
    }

    #[test]
    fn a_full_spool_is_emptied() {
        let mut found = DropTimes::default();
        (0..2 * SPOOL_SLOTS as i64).for_each(|i| found.add(i * ROUND_SECONDS));
        let bins = found.finish();
        assert_eq!(bins.len(), DROP_TIMES_MAX);
        assert_eq!(bins.iter().map(|bin| bin.1).sum::<i64>(), 2 * SPOOL_SLOTS as i64);
    }

    /// Counts of times, and the number of bins and their CRC-32 in Cassandra's implementation.
    const VECTORS: [(usize, usize, u32); 5] = [
        (50, 50, 0x86b0_84ad),
        (101, 100, 0x0e73_520d),
        (1000, 100, 0x0b26_e867),
        (50_000, 100, 0x9939_1cc5),
        (200_000, 100, 0xfade_01bd),
    ];

    #[test]
    fn bins_are_the_originals() {
        for (times, len, crc) in VECTORS {
            let mut found = DropTimes::default();
            let mut state = 1u64;
            for _ in 0..times {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                found.add((state >> 33) as i64 + 1);
            }
            let bins = found.finish();
            let bytes: Vec<u8> = bins
                .iter()
                .flat_map(|(time, count)| [&time.to_be_bytes()[..], &(*count as u32).to_be_bytes()].concat())
                .collect();
            assert_eq!((bins.len(), crc32fast::hash(&bytes)), (len, crc), "{times} times");
        }
    }
}
