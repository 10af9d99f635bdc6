//! Statistics of one table on this shard, for the tools that show them.

use super::table_state::TableState;
use crate::sstables::open_sstable::OpenSstable;
use sstable::statistics::Histogram;
use std::collections::BTreeMap;
use std::path::Path;

/// What a session of incremental repair has set apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PendingRepair {
    /// Bytes of the data, uncompressed.
    pub bytes: u64,
    /// SSTables.
    pub sstables: u64,
}

/// Figures of one table; those of several shards add up with [`TableStatistics::add`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TableStatistics {
    /// SSTables that serve reads.
    pub sstables: u64,
    /// SSTables of an older format version than the one written now.
    pub old_sstables: u64,
    /// SSTables that lie in another data directory than the one that their shard writes to.
    pub misplaced_sstables: u64,
    /// Bytes of all their files.
    pub disk_bytes: u64,
    /// Bytes of the files of the largest one.
    pub largest_bytes: u64,
    /// Longest time between the first and the last write of one SSTable, microseconds.
    pub longest_micros: u64,
    /// Bytes of the data, uncompressed.
    pub data_bytes: u64,
    /// Bytes of the data of repaired SSTables, uncompressed.
    pub repaired_bytes: u64,
    /// Bytes of the data of SSTables that a repair session owns, uncompressed.
    pub pending_repair_bytes: u64,
    /// How many SSTables a repair session owns.
    pub pending_repair_sstables: u64,
    /// The ids of these sessions.
    pub pending_repair_sessions: BTreeMap<[u8; 16], PendingRepair>,
    /// Bytes of the data of compressed SSTables before compression.
    pub uncompressed: u64,
    /// The same data's bytes after compression, estimated by each SSTable's ratio.
    pub compressed: f64,
    /// Partitions, in each SSTable and in memory, whatever they have in common.
    pub partitions: u64,
    /// Bytes of the bloom filters in memory.
    pub filter_bytes: u64,
    /// Bytes of the offsets of compressed chunks in memory.
    pub chunk_bytes: u64,
    /// Bytes of the active memtable.
    pub memtable_bytes: u64,
    /// Memtables that are being flushed.
    pub flushing: u64,
    /// Sizes of partitions in the SSTables, bytes.
    pub partition_sizes: Counts,
    /// Cells of partitions in the SSTables.
    pub cell_counts: Counts,
    /// Tombstones that are old enough to be dropped.
    pub droppable: f64,
    /// Cells in all SSTables.
    pub cells: f64,
}

/// Values by upper bound, ascending, with how many there are; the bounds are Cassandra's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts(Vec<(i64, i64)>);

impl Counts {
    fn add_histogram(&mut self, histogram: &Histogram) {
        // The file names each bucket's bound; what lies beyond the last one counts there.
        for (at, count) in histogram.buckets.iter().enumerate().filter(|(_, count)| **count != 0) {
            let bound = histogram.offsets.get(at).or(histogram.offsets.last()).copied().unwrap_or_default();
            self.put(bound, *count);
        }
    }

    fn put(&mut self, bound: i64, count: i64) {
        match self.0.binary_search_by_key(&bound, |(bound, _)| *bound) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(count),
            Err(at) => self.0.insert(at, (bound, count)),
        }
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Counts) {
        other.0.iter().for_each(|(bound, count)| self.put(*bound, *count));
    }

    /// How many values there are.
    pub fn count(&self) -> i64 {
        self.0.iter().map(|(_, count)| count).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The bound up to which the part `0.0..=1.0` of the values lies; 0 without any.
    pub fn percentile(&self, part: f64) -> i64 {
        let wanted = ((self.count() as f64 * part).ceil() as i64).max(1);
        let mut seen = 0i64;
        for (bound, count) in &self.0 {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return *bound;
            }
        }
        0
    }

    /// The bound under the smallest value, plus one; 0 without any.
    pub fn min(&self) -> i64 {
        match self.0.first() {
            // Bounds grow by a fifth, and by one at least.
            Some((bound, _)) if *bound > 1 => bound_below(*bound) + 1,
            _ => 0,
        }
    }

    /// The bound of the largest value; 0 without any.
    pub fn max(&self) -> i64 {
        self.0.last().map_or(0, |(bound, _)| *bound)
    }

    /// The mean of the bounds, rounded up; 0 without any.
    pub fn mean(&self) -> i64 {
        let count = self.count();
        if count == 0 {
            return 0;
        }
        let sum: f64 = self.0.iter().map(|(bound, count)| *bound as f64 * *count as f64).sum();
        (sum / count as f64).ceil() as i64
    }
}

/// The bound before `bound` in Cassandra's series 1, 2, 3, ... 8, 10, 12, 14, 17, ...
fn bound_below(bound: i64) -> i64 {
    let mut last = 0i64;
    let mut next = 1i64;
    while next < bound {
        last = next;
        next = (last + 1).max((last as f64 * 1.2).round() as i64);
    }
    last
}

impl TableStatistics {
    /// Adds those of another shard.
    pub fn add(&mut self, other: &TableStatistics) {
        self.sstables += other.sstables;
        self.old_sstables += other.old_sstables;
        self.misplaced_sstables += other.misplaced_sstables;
        self.disk_bytes += other.disk_bytes;
        self.largest_bytes = self.largest_bytes.max(other.largest_bytes);
        self.longest_micros = self.longest_micros.max(other.longest_micros);
        self.data_bytes += other.data_bytes;
        self.repaired_bytes += other.repaired_bytes;
        self.pending_repair_bytes += other.pending_repair_bytes;
        self.pending_repair_sstables += other.pending_repair_sstables;
        for (session, pending) in &other.pending_repair_sessions {
            let sum = self.pending_repair_sessions.entry(*session).or_default();
            sum.bytes += pending.bytes;
            sum.sstables += pending.sstables;
        }
        self.uncompressed += other.uncompressed;
        self.compressed += other.compressed;
        self.partitions += other.partitions;
        self.filter_bytes += other.filter_bytes;
        self.chunk_bytes += other.chunk_bytes;
        self.memtable_bytes += other.memtable_bytes;
        self.flushing += other.flushing;
        self.partition_sizes.add(&other.partition_sizes);
        self.cell_counts.add(&other.cell_counts);
        self.droppable += other.droppable;
        self.cells += other.cells;
    }

    /// The sizes of the partitions of one SSTable, bytes.
    pub(super) fn partition_sizes_of(sstable: &OpenSstable) -> Counts {
        Counts::of(&sstable.reader.metadata().statistics.partition_sizes)
    }

    /// `directory` is the one that the shard writes the table's SSTables to.
    pub(crate) fn of(state: &TableState, directory: &Path, now_in_seconds: i64) -> TableStatistics {
        let droppable_before = state.gc_before(now_in_seconds).latest();
        let mut sum = TableStatistics {
            memtable_bytes: state.memtable.bytes() as u64,
            partitions: state.memtable.read().partitions.len() as u64,
            flushing: state.view.flushing.len() as u64,
            ..TableStatistics::default()
        };
        for sstable in &state.view.sstables {
            let reader = &sstable.reader;
            let statistics = &reader.metadata().statistics;
            let data_bytes = reader.data_len();
            sum.sstables += 1;
            sum.old_sstables += u64::from(!reader.descriptor().version.is_cassandra_5());
            sum.misplaced_sstables += u64::from(sstable.directory != directory);
            sum.disk_bytes += sstable.disk_bytes;
            sum.largest_bytes = sum.largest_bytes.max(sstable.disk_bytes);
            let between = statistics.max_timestamp.saturating_sub(statistics.min_timestamp);
            sum.longest_micros = sum.longest_micros.max(between.max(0) as u64);
            sum.data_bytes += data_bytes;
            if statistics.repaired_at != 0 {
                sum.repaired_bytes += data_bytes;
            }
            if let Some(session) = statistics.pending_repair {
                sum.pending_repair_bytes += data_bytes;
                sum.pending_repair_sstables += 1;
                let pending = sum.pending_repair_sessions.entry(session).or_default();
                pending.bytes += data_bytes;
                pending.sstables += 1;
            }
            if reader.compression().is_some() && statistics.compression_ratio >= 0.0 {
                sum.uncompressed += data_bytes;
                sum.compressed += data_bytes as f64 * statistics.compression_ratio;
            }
            sum.filter_bytes += reader.filter_bytes() as u64;
            sum.chunk_bytes += reader.compression().map_or(0, |info| info.offsets.len() * size_of::<u64>()) as u64;
            let sizes = TableStatistics::partition_sizes_of(sstable);
            sum.partitions += reader.partition_count().unwrap_or(sizes.count().max(0) as u64);
            sum.partition_sizes.add(&sizes);
            sum.cell_counts.add(&Counts::of(&statistics.cell_counts));
            let dead = statistics.tombstones.iter().filter(|(time, _)| *time < droppable_before);
            sum.droppable += dead.map(|(_, count)| *count as f64).sum::<f64>();
            sum.cells += statistics.cells as f64;
        }
        sum
    }
}

impl Counts {
    fn of(histogram: &Histogram) -> Counts {
        let mut counts = Counts::default();
        counts.add_histogram(histogram);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_by_bounds() {
        let mut counts = Counts::default();
        assert_eq!((counts.min(), counts.max(), counts.mean(), counts.percentile(0.5)), (0, 0, 0, 0));
        counts.put(17, 2);
        counts.put(1, 1);
        counts.put(17, 1);
        assert_eq!((counts.min(), counts.max(), counts.count()), (0, 17, 4));
        assert_eq!((counts.percentile(0.25), counts.percentile(0.5), counts.mean()), (1, 17, 13));
        assert_eq!((bound_below(17), bound_below(14), bound_below(10), bound_below(2)), (14, 12, 8, 1));
    }
}
