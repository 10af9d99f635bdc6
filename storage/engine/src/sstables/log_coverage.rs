//! Tells which records of the commit log an SSTable already holds, so that replay leaves them out.

use super::open_sstable::OpenSstable;
use crate::commitlog::position::{LogPosition, Truncation};
use crate::commitlog::segment::shard_of;
use model::{Home, ShardMap, Token};

/// The part of the log whose rows an SSTable holds: intervals of positions, for the tokens of one shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogCoverage {
    /// The shard that the SSTable belongs to.
    pub(crate) shard: u16,
    /// The map from tokens to shards when the SSTable was written.
    pub(crate) map: ShardMap,
    /// Intervals, each from the first position up to the second (excluded).
    pub(crate) intervals: Vec<(LogPosition, LogPosition)>,
}

impl LogCoverage {
    /// The coverage of an SSTable; `None` if it has no `Helenus.db`, because another program wrote it.
    pub(crate) fn of(sstable: &OpenSstable) -> Option<LogCoverage> {
        let sidecar = sstable.sidecar()?;
        Some(LogCoverage { shard: sidecar.shard, map: sidecar.map, intervals: sstable.log_intervals().collect() })
    }

    /// Whether the SSTable holds what a record at `position` wrote for a token. `home` says whether the table lives
    /// on shard 0 only.
    pub(crate) fn covers(&self, position: LogPosition, token: Token, home: Home) -> bool {
        (home == Home::Shard0 || self.map.owner(token) == self.shard)
            && self.intervals.iter().any(|(lower, upper)| {
                shard_of(lower.segment) == shard_of(position.segment) && *lower <= position && position < *upper
            })
    }

    /// Whether a truncation covers everything in it.
    pub(crate) fn is_truncated(&self, truncation: &Truncation) -> bool {
        let last = |upper: &LogPosition| LogPosition { segment: upper.segment, offset: upper.offset.saturating_sub(1) };
        !self.intervals.is_empty() && self.intervals.iter().all(|(_, upper)| truncation.covers(last(upper)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitlog::segment::id_of;
    use model::Partitioner;

    fn at(counter: u64, shard: u16, offset: u32) -> LogPosition {
        LogPosition { segment: id_of(counter, shard), offset }
    }

    #[test]
    fn s4_an_sstable_stands_for_its_own_shards_records_of_its_own_tokens() {
        let map = ShardMap::new(Partitioner::Murmur3, 2);
        let own = (0..)
            .map(|key: u32| Partitioner::Murmur3.token(&key.to_be_bytes()))
            .find(|token| map.owner(*token) == 1)
            .unwrap();
        let other = (0..)
            .map(|key: u32| Partitioner::Murmur3.token(&key.to_be_bytes()))
            .find(|token| map.owner(*token) == 0)
            .unwrap();
        let flushed = LogCoverage { shard: 1, map, intervals: vec![(at(5, 1, 100), at(9, 1, 50))] };
        assert!(flushed.covers(at(5, 1, 100), own, Home::ByToken) && flushed.covers(at(9, 1, 49), own, Home::ByToken));
        assert!(flushed.covers(at(6, 1, 0), own, Home::ByToken));
        for kept in [at(5, 1, 99), at(9, 1, 50), at(6, 0, 0)] {
            assert!(!flushed.covers(kept, own, Home::ByToken), "{kept:?}");
        }
        assert!(!flushed.covers(at(6, 1, 0), other, Home::ByToken) && flushed.covers(at(6, 1, 0), other, Home::Shard0));
    }

    #[test]
    fn s4_a_truncation_takes_what_was_flushed_before_it() {
        let truncation = Truncation { counter_floor: 5, positions: vec![at(6, 1, 8192)], at_millis: 1 };
        let flushed = |upper| LogCoverage {
            shard: 1,
            map: ShardMap::new(Partitioner::Murmur3, 2),
            intervals: vec![(at(4, 1, 0), upper)],
        };
        assert!(flushed(at(6, 1, 8192)).is_truncated(&truncation));
        assert!(!flushed(at(6, 1, 8193)).is_truncated(&truncation));
        assert!(
            !LogCoverage { shard: 1, map: ShardMap::new(Partitioner::Murmur3, 2), intervals: Vec::new() }
                .is_truncated(&truncation)
        );
    }
}
