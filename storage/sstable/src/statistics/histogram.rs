//! Histograms in Statistics.db.
//!
//! ```text
//! buckets u32; per bucket the bound below it i64 (for the first bucket the first bound) and count i64
//! ```

use crate::error::{Fault, Problem};
use crate::input::Input;

/// Most buckets of a histogram that is read.
pub const BUCKETS_MAX: usize = 1 << 16;

/// Counts of values between bounds: `buckets[i]` counts those above `offsets[i - 1]` and up to `offsets[i]`, the last
/// one those above all bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    /// The bounds, ascending.
    pub offsets: Vec<i64>,
    /// The counts, one more than there are bounds.
    pub buckets: Vec<i64>,
}

impl Histogram {
    /// Returns an empty histogram with `count` bounds, each a fifth above the previous one.
    pub(super) fn with_bounds(count: usize) -> Histogram {
        let next = |last: &i64| Some(((*last as f64 * 1.2).round() as i64).max(last + 1));
        let offsets: Vec<i64> = std::iter::successors(Some(1), next).take(count).collect();
        Histogram { buckets: vec![0; offsets.len() + 1], offsets }
    }

    /// Counts a value.
    pub(super) fn add(&mut self, number: i64) {
        let at = self.offsets.partition_point(|offset| *offset < number);
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket += 1;
        }
    }

    pub(super) fn parse(input: &mut Input<'_>) -> Result<Histogram, Fault> {
        let count = input.u32()? as usize;
        if count > BUCKETS_MAX {
            return input.fail(Problem::Limit("BUCKETS_MAX"));
        }
        if count < 2 {
            return input.invalid("a histogram");
        }
        let count = input.count(count as u64, 16)?;
        let mut found = Histogram { offsets: Vec::with_capacity(count), buckets: Vec::with_capacity(count) };
        for i in 0..count {
            let offset = input.i64()?;
            if i > 0 {
                found.offsets.push(offset);
            }
            found.buckets.push(input.i64()?);
        }
        Ok(found)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.buckets.len() as u32).to_be_bytes());
        for (i, bucket) in self.buckets.iter().enumerate() {
            let offset = self.offsets.get(i.saturating_sub(1)).copied().unwrap_or(0);
            out.extend_from_slice(&offset.to_be_bytes());
            out.extend_from_slice(&bucket.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem<T>(result: Result<T, Fault>) -> Option<Problem> {
        result.err().map(|fault| fault.problem)
    }

    #[test]
    fn buckets_are_bounded() {
        let histogram = |count: usize| {
            let mut bytes = (count as u32).to_be_bytes().to_vec();
            bytes.resize(4 + 16 * count, 0);
            problem(Histogram::parse(&mut Input::new(&bytes, 0)))
        };
        assert_eq!(histogram(BUCKETS_MAX), None);
        assert_eq!(histogram(BUCKETS_MAX + 1), Some(Problem::Limit("BUCKETS_MAX")));
    }

    #[test]
    fn a_number_is_counted_below_its_bound() {
        let mut histogram = Histogram::with_bounds(6);
        assert_eq!(histogram.offsets, [1, 2, 3, 4, 5, 6]);
        [0, 1, 2, 6, 7].into_iter().for_each(|number| histogram.add(number));
        assert_eq!(histogram.buckets, [2, 1, 0, 0, 0, 1, 1]);
    }
}
