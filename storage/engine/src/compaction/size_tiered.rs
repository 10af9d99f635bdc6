//! Size-tiered compaction: SSTables of similar size are merged once there are enough of them.
//!
//! 1. SSTables are sorted into buckets, smallest first. An SSTable goes to a bucket if its size is near the bucket's
//!    mean, or if both are below the smallest size that counts.
//! 2. Of the buckets with enough SSTables the one that is read most is compacted; among equals the one with the
//!    smallest SSTables.
//! 3. If there is none, the largest SSTable whose tombstones are worth it is compacted alone.

use super::tombstones::is_worth_it;
use super::{Candidate, Moment, Task, TaskKind};
use model::compaction::{CommonOptions, SizeTieredOptions};

/// How often the output of a split major compaction is halved at most.
const SPLITS: u32 = 4;
/// The smallest output of a split major compaction, bytes.
const SPLIT_BYTES_MIN: u64 = 50 << 20;

/// A bucket: SSTables of similar size.
#[derive(Clone, Debug)]
pub(super) struct Bucket<'c> {
    /// The SSTables, smallest first.
    pub(super) sstables: Vec<&'c Candidate>,
    mean: u64,
}

/// Sorts SSTables into buckets by size; the bucket of the smallest ones comes first.
pub(super) fn buckets<'c>(options: &SizeTieredOptions, candidates: &[&'c Candidate]) -> Vec<Bucket<'c>> {
    let mut sorted = candidates.to_vec();
    sorted.sort_by_key(|candidate| (candidate.bytes, candidate.id));
    let mut buckets: Vec<Bucket<'c>> = Vec::new();
    for candidate in sorted {
        let size = candidate.bytes;
        let fits = |bucket: &&mut Bucket<'_>| {
            let mean = bucket.mean as f64;
            size as f64 > mean * options.bucket_low && (size as f64) < mean * options.bucket_high
                || size < options.min_sstable_bytes && bucket.mean < options.min_sstable_bytes
        };
        match buckets.iter_mut().find(fits) {
            Some(bucket) => {
                let count = bucket.sstables.len() as u64;
                bucket.mean = (count.saturating_mul(bucket.mean).saturating_add(size)) / (count + 1);
                bucket.sstables.push(candidate);
            }
            None => buckets.push(Bucket { sstables: vec![candidate], mean: size }),
        }
    }
    buckets
}

/// The SSTables of the best bucket, at most `max_threshold` of them; empty if no bucket has `min_threshold`.
pub(super) fn most_interesting<'c>(options: &SizeTieredOptions, buckets: Vec<Bucket<'c>>) -> Vec<&'c Candidate> {
    let trim = |bucket: Bucket<'c>| {
        let mut hottest = bucket.sstables;
        hottest.sort_by(|a, b| b.hotness.total_cmp(&a.hotness));
        hottest.truncate(options.max_threshold);
        hottest
    };
    let hotness = |bucket: &[&Candidate]| bucket.iter().map(|candidate| candidate.hotness).sum::<f64>();
    let mean = |bucket: &[&Candidate]| {
        bucket.iter().map(|candidate| candidate.bytes).sum::<u64>() / bucket.len().max(1) as u64
    };
    let enough = |bucket: &Vec<&'c Candidate>| bucket.len() >= options.min_threshold;
    buckets
        .into_iter()
        .map(trim)
        .filter(enough)
        .max_by(|a, b| hotness(a).total_cmp(&hotness(b)).then(mean(b).cmp(&mean(a))))
        .unwrap_or_default()
}

/// The next task, or `None` if there is no work.
pub(super) fn next(
    options: &SizeTieredOptions,
    common: &CommonOptions,
    all: &[Candidate],
    moment: &Moment,
) -> Option<Task> {
    let free: Vec<&Candidate> = all.iter().filter(|candidate| candidate.is_free()).collect();
    let chosen = most_interesting(options, buckets(options, &free));
    if !chosen.is_empty() {
        return Some(Task::new(TaskKind::Compaction, &chosen));
    }
    let worth = free.into_iter().filter(|candidate| is_worth_it(candidate, all, common, moment));
    let largest = worth.max_by_key(|candidate| (candidate.bytes, candidate.id))?;
    Some(Task { output_level: largest.level, ..Task::new(TaskKind::Tombstones, &[largest]) })
}

/// How many tasks the buckets are worth.
pub(super) fn pending_of(options: &SizeTieredOptions, buckets: &[Bucket<'_>]) -> usize {
    let enough = buckets.iter().filter(|bucket| bucket.sstables.len() >= options.min_threshold);
    enough.map(|bucket| bucket.sstables.len().div_ceil(options.max_threshold)).sum()
}

/// How many tasks the strategy expects to have: see [`super::Picker::pending`].
pub(super) fn pending(options: &SizeTieredOptions, all: &[Candidate]) -> usize {
    let free: Vec<&Candidate> = all.iter().filter(|candidate| candidate.is_free()).collect();
    pending_of(options, &buckets(options, &free))
}

/// The task of a major compaction: all SSTables into one output. With `split`, into outputs that take about a half of
/// the bytes, a quarter and so on, cut at tokens.
pub(super) fn major(free: &[&Candidate], split: bool) -> Task {
    let mut task = Task::new(TaskKind::Major, free);
    let bytes: u64 = free.iter().map(|candidate| candidate.bytes).sum();
    let first = free.iter().map(|candidate| candidate.first).min();
    let last = free.iter().map(|candidate| candidate.last).max();
    if let (true, Some(first), Some(last)) = (split, first, last) {
        let span = i128::from(last.0) - i128::from(first.0);
        let wanted = (1..=SPLITS).take_while(|halvings| bytes >> halvings >= SPLIT_BYTES_MIN);
        let place = |halvings: u32| model::Token((i128::from(last.0) - (span >> halvings)) as i64);
        task.output_boundaries = wanted.map(place).filter(|token| *token < last).collect();
        task.output_boundaries.dedup();
    }
    task
}

#[cfg(test)]
mod tests {
    use super::super::tests::{common, moment, sstable, tiered};
    use super::*;

    const MIB: u64 = 1 << 20;

    fn sized(sizes: &[u64]) -> Vec<Candidate> {
        sizes.iter().enumerate().map(|(id, size)| sstable(id as u64, *size, 0, 99)).collect()
    }

    fn sizes(task: Option<Task>, all: &[Candidate]) -> Vec<u64> {
        let inputs = task.map(|task| task.inputs).unwrap_or_default();
        let mut sizes: Vec<u64> =
            all.iter().filter(|one| inputs.contains(&one.id)).map(|one| one.bytes / MIB).collect();
        sizes.sort_unstable();
        sizes
    }

    fn chosen(sizes_mib: &[u64]) -> Vec<u64> {
        let all = sized(&sizes_mib.iter().map(|size| size * MIB).collect::<Vec<_>>());
        sizes(next(&tiered(), &common(), &all, &moment(0)), &all)
    }

    #[test]
    fn similar_sizes_go_together() {
        assert_eq!(chosen(&[100, 110, 120]), [0u64; 0]);
        assert_eq!(chosen(&[100, 110, 120, 90]), [90, 100, 110, 120]);
        assert_eq!(chosen(&[100, 151, 227, 341]), [0u64; 0], "each beyond 1.5 of the one below");
        assert_eq!(chosen(&[1, 5, 20, 49]), [1, 5, 20, 49], "all are small");
        assert_eq!(chosen(&[1, 5, 20, 50]), [0u64; 0]);
        assert_eq!(chosen(&[400, 400, 400, 400, 100, 100, 100, 100]), [100; 4], "smaller ones first");
        assert_eq!(chosen(&[100; 40]).len(), 32);
    }

    #[test]
    fn what_is_read_goes_first() {
        let mut all = sized(&[100 * MIB, 100 * MIB, 100 * MIB, 100 * MIB, 400 * MIB, 400 * MIB, 400 * MIB, 400 * MIB]);
        all[5].hotness = 0.1;
        assert_eq!(sizes(next(&tiered(), &common(), &all, &moment(0)), &all), [400; 4]);
        all[5].busy = true;
        assert_eq!(sizes(next(&tiered(), &common(), &all, &moment(0)), &all), [100; 4]);
        all[0].suspect = true;
        assert_eq!(next(&tiered(), &common(), &all, &moment(0)), None);
    }

    #[test]
    fn the_largest_with_tombstones_goes_alone() {
        let mut all = sized(&[100 * MIB, 1000 * MIB, 300 * MIB]);
        for (i, one) in all.iter_mut().enumerate() {
            (one.first, one.last) = (model::Token(100 * i as i64), model::Token(100 * i as i64 + 9));
            one.droppable_ratio = if i == 0 { 0.1 } else { 0.3 };
        }
        let task = next(&tiered(), &common(), &all, &moment(86_400)).expect("a task");
        assert_eq!((task.kind, task.inputs), (TaskKind::Tombstones, vec![1]));
    }

    #[test]
    fn pending_counts_whole_tasks() {
        assert_eq!(pending(&tiered(), &sized(&[100 * MIB; 33])), 2);
        assert_eq!(pending(&tiered(), &sized(&[100 * MIB; 3])), 0);
    }

    #[test]
    fn a_split_major_compaction_halves() {
        let all = sized(&[400 * MIB, 400 * MIB]);
        let free: Vec<&Candidate> = all.iter().collect();
        assert_eq!(major(&free, false).output_boundaries, []);
        let boundaries: Vec<i64> = major(&free, true).output_boundaries.iter().map(|token| token.0).collect();
        assert_eq!(boundaries, [50, 75, 87, 93]);
    }
}
