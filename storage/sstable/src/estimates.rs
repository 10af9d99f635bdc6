//! Estimates from statistics alone, by Cassandra's rules.

use crate::statistics::{Histogram, Statistics};

impl Histogram {
    /// Returns how many values were counted.
    pub fn count(&self) -> i64 {
        self.buckets.iter().fold(0, |sum: i64, count| sum.saturating_add(*count))
    }

    /// Returns the estimated mean of the counted values, rounded up; 0 if there are none, `None` if some are above all
    /// bounds.
    pub fn mean(&self) -> Option<i64> {
        if self.buckets.get(self.offsets.len()).is_some_and(|count| *count > 0) {
            return None;
        }
        let counted = self.offsets.iter().zip(&self.buckets);
        let sum: f64 = counted.map(|(bound, count)| *bound as f64 * *count as f64).sum();
        Some(if self.count() == 0 { 0 } else { (sum / self.count() as f64).ceil() as i64 })
    }
}

impl Statistics {
    /// Returns the estimated share of all cells that are tombstones or expired with a local deletion time up to
    /// `before`, in seconds: what a compaction could purge. `None` if a partition has more cells than the histogram's
    /// bounds allow.
    pub fn droppable_ratio(&self, before: i64) -> Option<f64> {
        let all = self.cell_counts.mean()? as f64 * self.cell_counts.count() as f64;
        Some(if all > 0.0 { tombstones_until(&self.tombstones, before) / all } else { 0.0 })
    }
}

/// Returns the estimated number of tombstones with a local deletion time up to `until`, interpolated between two
/// points.
fn tombstones_until(tombstones: &[(i64, i64)], until: i64) -> f64 {
    let mut sum = 0.0;
    let mut previous: Option<(i64, i64)> = None;
    for &(point, count) in tombstones {
        if point > until {
            let Some((last_point, last_count)) = previous else { return 0.0 };
            let weight = (until - last_point) as f64 / (point - last_point) as f64;
            let here = last_count as f64 + (count - last_count) as f64 * weight;
            sum -= last_count as f64;
            sum += (last_count as f64 + here) * weight / 2.0;
            sum += last_count as f64 / 2.0;
            return sum;
        }
        sum += count as f64;
        previous = Some((point, count));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstones_between_points_change_evenly() {
        let tombstones = [(1_700_000_040, 20), (2_015_360_040, 2)];
        assert_eq!(tombstones_until(&tombstones, 0), 0.0);
        assert_eq!(tombstones_until(&tombstones, 3_000_000_000), 22.0);
        assert!((tombstones_until(&tombstones, 1_795_221_000) - 15.217).abs() < 0.01);
    }

    #[test]
    fn counts_of_a_damaged_file_saturate() {
        let histogram = Histogram { offsets: vec![1, 2], buckets: vec![i64::MAX, 1, 0] };
        assert_eq!(histogram.count(), i64::MAX);
    }

    #[test]
    fn means_are_rounded_up() {
        let histogram = Histogram { offsets: vec![5, 24, 642], buckets: vec![1, 1, 1, 0] };
        assert_eq!((histogram.mean(), histogram.count()), (Some(224), 3));
        assert_eq!(Histogram { offsets: vec![1], buckets: vec![0, 1] }.mean(), None);
        assert_eq!(Histogram { offsets: vec![1], buckets: vec![0, 0] }.mean(), Some(0));
    }
}
