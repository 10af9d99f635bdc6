//! Estimates of how many partitions a token range has and how large they are, for tools that divide a scan of a table
//! between their workers.

use super::Tables;
use super::statistics::TableStatistics;
use model::token::RingPosition;
use model::{TableId, Token, TokenRange};

/// What SSTables say about one token range of a table. Estimates of several shards add up with [`SizeEstimate::add`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SizeEstimate {
    /// Partitions in the range, each counted in every SSTable that has it.
    partitions: f64,
    /// The sum of the mean sizes of the partitions of each SSTable, each times their number; bytes.
    weighted_bytes: f64,
    /// The partitions that `weighted_bytes` is about: all those of SSTables that overlap the range.
    weight: f64,
    /// What the range takes on the disk, bytes.
    disk_bytes: f64,
}

impl SizeEstimate {
    /// Adds that of another shard.
    pub fn add(&mut self, other: &SizeEstimate) {
        self.partitions += other.partitions;
        self.weighted_bytes += other.weighted_bytes;
        self.weight += other.weight;
        self.disk_bytes += other.disk_bytes;
    }

    /// Partitions in the range.
    pub fn partitions(&self) -> i64 {
        self.partitions.round() as i64
    }

    /// What the range takes on the disk, bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes as u64
    }

    /// The mean size of a partition, bytes; 0 without any.
    pub fn mean_partition_bytes(&self) -> i64 {
        if self.weight > 0.0 { (self.weighted_bytes / self.weight) as i64 } else { 0 }
    }
}

/// The part `0.0..=1.0` of the tokens from `first` to `last` that lies in a range, by their first 64 bits.
pub(crate) fn part_within(range: &TokenRange, first: Token, last: Token) -> f64 {
    let (first, last) = (i128::from(first.0), i128::from(last.0));
    let place = |at: &RingPosition, is_after: bool| i128::from(at.token.token().0) + i128::from(is_after);
    let from = range.start.as_ref().map_or(first, |start| first.max(place(start, start.is_after)));
    let until = range.end.as_ref().map_or(last, |end| last.min(place(end, end.is_after) - 1));
    let width = |from: i128, until: i128| (until - from + 1).max(0) as f64;
    width(from, until) / width(first, last)
}

/// Estimates a table's partitions in each range, taking those of an SSTable for evenly spread over its tokens. A shard
/// that does not know the table has none.
pub(crate) fn size_estimates(tables: &Tables, table: TableId, ranges: &[TokenRange]) -> Vec<SizeEstimate> {
    let mut estimates = vec![SizeEstimate::default(); ranges.len()];
    let states = tables.borrow();
    let Some(state) = states.get(&table) else { return estimates };
    let counted = state.view.sstables.iter().filter(|sstable| !sstable.foreign || tables.shard == 0);
    for sstable in counted {
        let (first, last) = sstable.tokens();
        let sizes = TableStatistics::partition_sizes_of(sstable);
        let count = sizes.count().max(0);
        let partitions = sstable.reader.partition_count().map_or(count as f64, |partitions| partitions as f64);
        for (range, estimate) in ranges.iter().zip(&mut estimates) {
            let part = part_within(range, first, last);
            if part > 0.0 {
                let weight = count as f64;
                estimate.add(&SizeEstimate {
                    partitions: partitions * part,
                    weighted_bytes: sizes.mean() as f64 * weight,
                    weight,
                    disk_bytes: sstable.disk_bytes as f64 * part,
                });
            }
        }
    }
    estimates
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::RingToken;

    #[test]
    fn a_range_has_its_part_of_an_sstable() {
        let range = |after, until| TokenRange::between(RingToken::Murmur3(after), RingToken::Murmur3(until));
        let part = |range| part_within(&range, Token(1), Token(100));
        assert_eq!(part(range(0, 50)), 0.5);
        assert_eq!(part(range(50, i64::MIN)), 0.5);
        assert_eq!(part(range(i64::MIN, 10)), 0.1);
        assert_eq!((part(range(100, 200)), part(range(-5, 0))), (0.0, 0.0));
        assert_eq!(part_within(&TokenRange::FULL, Token::MIN, Token(i64::MAX)), 1.0);
        assert_eq!(part_within(&range(6, 7), Token(7), Token(7)), 1.0);
    }

    #[test]
    fn estimates_add_up() {
        let mut sum = SizeEstimate::default();
        assert_eq!((sum.partitions(), sum.mean_partition_bytes()), (0, 0));
        sum.add(&SizeEstimate { partitions: 10.4, weighted_bytes: 1000.0, weight: 10.0, disk_bytes: 700.5 });
        sum.add(&SizeEstimate { partitions: 1.3, weighted_bytes: 3000.0, weight: 10.0, disk_bytes: 1.6 });
        assert_eq!((sum.partitions(), sum.mean_partition_bytes()), (12, 200));
    }
}
