//! Unified compaction: SSTables are sorted into levels by density (bytes per ring), and in each level SSTables that
//! overlap are merged.
//!
//! 1. Each level holds densities up to `fanout` times those of the level below.
//! 2. In a level, sections are formed: sets of SSTables that overlap at some token. A section of at least `threshold`
//!    SSTables is worth a compaction, together with the neighbouring sections that the option
//!    `overlap_inclusion_method` adds. Together they are a group.
//! 3. The group with the largest section in all levels is chosen. Usually all of it is compacted; but if compaction
//!    is late, only its oldest SSTables are, so many that the result has the density that compactions in time would
//!    have given.
//! 4. The output is cut at tokens that divide the ring evenly; the denser it is, the finer the cuts.
//!
//! The tokens of one shard are spread over the whole ring, so a part of the ring stands for a part of what the shard
//! owns. Source: the design of unified compaction in Cassandra (CEP-26).

use super::tombstones::fully_expired;
use super::{Candidate, Moment, Task, TaskKind};
use model::Token;
use model::compaction::{CommonOptions, OverlapInclusion, UnifiedOptions};

/// Most levels; the last one takes everything that is denser.
const LEVELS_MAX: usize = 32;
/// How often the parts that `base_shard_count` makes may be halved at most.
const SHARD_SHIFT_MAX: u32 = 20;
/// Most outputs of a compaction.
pub const OUTPUTS_MAX: u64 = 1 << 16;
/// The smallest part of the ring that gives a meaningful density; a single partition spans less, for example.
const SPAN_MIN: f64 = 1.0 / (1u64 << 48) as f64;

/// What the strategy remembers from one choice to the next.
#[derive(Clone, Debug)]
pub struct UnifiedMemory {
    /// When it last looked for expired SSTables, seconds since 1970.
    checked_at: i64,
}

impl UnifiedMemory {
    /// The memory of a strategy that has chosen nothing yet; `now` is in seconds since 1970.
    pub fn new(now: i64) -> UnifiedMemory {
        UnifiedMemory { checked_at: now }
    }
}

fn scaling(options: &UnifiedOptions, level: usize) -> i32 {
    options.scaling.get(level).or(options.scaling.last()).copied().unwrap_or(2)
}

/// The factor between the densities of a level and of the next one.
fn fanout(options: &UnifiedOptions, level: usize) -> usize {
    2 + scaling(options, level).unsigned_abs() as usize
}

/// How many overlapping SSTables are worth a compaction.
fn threshold(options: &UnifiedOptions, level: usize) -> usize {
    2 + scaling(options, level).max(0) as usize
}

/// The fraction of the ring between two tokens, 0 to 1.
fn ring_part(first: Token, last: Token) -> f64 {
    (i128::from(last.0) - i128::from(first.0)) as f64 / 2f64.powi(64)
}

/// The density of SSTables together: their bytes divided by the fraction of the ring that they span.
fn density(candidates: &[&Candidate]) -> f64 {
    let bytes = candidates.iter().map(|candidate| candidate.bytes).sum::<u64>() as f64;
    let first = candidates.iter().map(|candidate| candidate.first).min();
    let last = candidates.iter().map(|candidate| candidate.last).max();
    match first.zip(last).map(|(first, last)| ring_part(first, last)) {
        Some(span) if span >= SPAN_MIN => bytes / span,
        _ => bytes,
    }
}

/// SSTables of similar density, with the number of their level.
struct Level<'c> {
    index: usize,
    sstables: Vec<&'c Candidate>,
}

fn levels<'c>(options: &UnifiedOptions, free: &[&'c Candidate], moment: &Moment) -> Vec<Level<'c>> {
    let flush = options.flush_bytes.unwrap_or(moment.flush_bytes).max(1 << 20).next_multiple_of(1 << 20);
    let base = flush as f64 * (1.0 - 0.9 / fanout(options, 0) as f64);
    let mut limits = vec![(base * fanout(options, 0) as f64).floor()];
    while limits.len() < LEVELS_MAX {
        let below = limits.last().copied().unwrap_or(base);
        limits.push((below * fanout(options, limits.len()) as f64).floor());
    }
    let mut levels: Vec<Level<'c>> = (0..LEVELS_MAX).map(|index| Level { index, sstables: Vec::new() }).collect();
    for candidate in free {
        let place = limits.partition_point(|limit| *limit <= density(&[candidate])).min(LEVELS_MAX - 1);
        levels[place].sstables.push(candidate);
    }
    levels.retain(|level| !level.sstables.is_empty());
    levels
}

/// The maximal sets of SSTables that all overlap at some token, in token order.
fn sections<'c>(sstables: &[&'c Candidate]) -> Vec<Vec<&'c Candidate>> {
    let mut sorted = sstables.to_vec();
    sorted.sort_by_key(|candidate| (candidate.first, candidate.id));
    let mut found = Vec::new();
    let mut active: Vec<&Candidate> = Vec::new();
    for candidate in sorted {
        if active.iter().any(|other| other.last < candidate.first) {
            found.push(active.clone());
            active.retain(|other| other.last >= candidate.first);
        }
        active.push(candidate);
    }
    if !active.is_empty() {
        found.push(active);
    }
    found
}

fn share<'c>(a: &[&'c Candidate], b: &[&'c Candidate]) -> bool {
    a.iter().any(|one| b.iter().any(|other| other.id == one.id))
}

/// Neighbouring sections that are compacted together.
#[derive(Clone, Debug)]
struct Group<'c> {
    sections: Vec<Vec<&'c Candidate>>,
}

impl<'c> Group<'c> {
    /// The number of SSTables in its largest section.
    fn overlap(&self) -> usize {
        self.sections.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Its SSTables, by largest timestamp.
    fn sstables(&self) -> Vec<&'c Candidate> {
        let mut all: Vec<&Candidate> = self.sections.iter().flatten().copied().collect();
        all.sort_by_key(|candidate| (candidate.max_timestamp, candidate.id));
        all.dedup_by_key(|candidate| candidate.id);
        all
    }

    /// The oldest SSTables: as many as possible without taking more than `limit` from one section.
    fn oldest(&self, limit: usize) -> Vec<&'c Candidate> {
        let mut all = self.sstables();
        let mut counts = vec![0usize; self.sections.len()];
        for (i, candidate) in all.iter().enumerate() {
            for (section, count) in self.sections.iter().zip(&mut counts) {
                *count += usize::from(section.iter().any(|other| other.id == candidate.id));
            }
            if counts.iter().any(|count| *count > limit) {
                all.truncate(i);
                break;
            }
        }
        all
    }
}

fn groups<'c>(sections: &[Vec<&'c Candidate>], threshold: usize, inclusion: OverlapInclusion) -> Vec<Group<'c>> {
    let mut groups = Vec::new();
    let (mut i, mut free_from) = (0, 0);
    while let Some(section) = sections.get(i) {
        if section.len() < threshold {
            i += 1;
            continue;
        }
        let (mut start, mut end) = (i, i + 1);
        if inclusion != OverlapInclusion::None {
            let mut reached = section.clone();
            let takes = |reached: &mut Vec<&'c Candidate>, next: &[&'c Candidate]| {
                let target = if inclusion == OverlapInclusion::Transitive { &*reached } else { section };
                let found = share(next, target);
                if found {
                    reached.extend(next);
                }
                found
            };
            while start > free_from && takes(&mut reached, &sections[start - 1]) {
                start -= 1;
            }
            while end < sections.len() && takes(&mut reached, &sections[end]) {
                end += 1;
            }
        }
        groups.push(Group { sections: sections[start..end].to_vec() });
        i = end;
        free_from = end;
    }
    groups
}

impl<'c> Level<'c> {
    /// The groups that are worth a compaction.
    fn groups(&self, options: &UnifiedOptions) -> Vec<Group<'c>> {
        groups(&sections(&self.sstables), threshold(options, self.index), options.overlap_inclusion)
    }

    /// The SSTables of a group to compact at once.
    fn choice(&self, options: &UnifiedOptions, group: &Group<'c>) -> Vec<&'c Candidate> {
        let fan = fanout(options, self.index);
        let most = options.sstables_max.max(fan);
        let overlap = group.overlap();
        if overlap <= fan {
            return group.sstables();
        }
        if overlap <= fan.saturating_mul(fanout(options, self.index + 1)) || most == fan {
            return group.oldest(overlap.min(most));
        }
        // As many SSTables as compactions in time would have merged to reach one of the next levels.
        let limit = most.min(overlap);
        let (mut count, mut step, mut index) = (fan, fan, self.index);
        while step <= limit {
            count = step;
            index += 1;
            step = step.saturating_mul(fanout(options, index));
        }
        if scaling(options, self.index) < 0 {
            count *= (limit / count).max(1);
        }
        group.oldest(count)
    }
}

/// Into how many parts the ring is cut for outputs of this density.
fn parts(options: &UnifiedOptions, density: f64) -> u64 {
    let base = u64::from(options.base_shards);
    let power_of_two = |count: f64| 1u64 << (count.min(2f64.powi(SHARD_SHIFT_MAX as i32)) as u64 | 1).ilog2();
    let least = options.min_sstable_bytes as f64;
    if least > 0.0 && density / least < base as f64 {
        // The count must divide the base, so that these cuts are also cuts of denser levels.
        return power_of_two(density / least).min(base & base.wrapping_neg());
    }
    let target = options.target_sstable_bytes as f64 * base as f64;
    let count = if options.sstable_growth >= 1.0 {
        base
    } else if options.sstable_growth <= 0.0 {
        base * power_of_two(density / (target * 0.5f64.sqrt()))
    } else {
        let power = (density / target).ln() / 2f64.ln() * (1.0 - options.sstable_growth) + 0.5;
        base << if power >= 0.0 { (power as u32).min(SHARD_SHIFT_MAX) } else { 0 }
    };
    count.min(OUTPUTS_MAX)
}

/// The tokens at which outputs end: the last token of each part of the ring, if it lies inside the inputs' span.
fn boundaries(options: &UnifiedOptions, inputs: &[&Candidate]) -> Vec<Token> {
    let parts = i128::from(parts(options, density(inputs)));
    let first = inputs.iter().map(|candidate| candidate.first).min().unwrap_or(Token(0));
    let last = inputs.iter().map(|candidate| candidate.last).max().unwrap_or(Token(0));
    let cut = |i: i128| Token((i128::from(i64::MIN) + (i << 64) / parts) as i64);
    (1..parts).map(cut).filter(|token| first <= *token && *token < last).collect()
}

/// The next task, or `None` if nothing is worth a compaction.
pub(super) fn next(
    options: &UnifiedOptions,
    common: &CommonOptions,
    memory: &mut UnifiedMemory,
    all: &[Candidate],
    moment: &Moment,
) -> Option<Task> {
    let free: Vec<&Candidate> = all.iter().filter(|candidate| candidate.is_free()).collect();
    let mut expired = Vec::new();
    if moment.now.saturating_sub(memory.checked_at) > options.expired_check_seconds {
        memory.checked_at = moment.now;
        expired = fully_expired(&free, all, common, moment, options.ignore_overlaps);
    }
    let live: Vec<&Candidate> = free.iter().copied().filter(|one| !expired.contains(&one.id)).collect();
    let mut chosen: Vec<&Candidate> = Vec::new();
    let mut most = 0;
    for level in levels(options, &live, moment) {
        let groups = level.groups(options);
        // Reversed, so that the first of the groups with the largest overlap wins. Among levels, the lower one wins.
        let best = groups.iter().rev().max_by_key(|group| group.overlap());
        if let Some(group) = best.filter(|group| group.overlap() > most) {
            most = group.overlap();
            chosen = level.choice(options, group);
        }
    }
    let output_boundaries = boundaries(options, &chosen);
    chosen.extend(free.iter().copied().filter(|one| expired.contains(&one.id)));
    if chosen.is_empty() {
        return None;
    }
    Some(Task { expired, output_boundaries, ..Task::new(TaskKind::Compaction, &chosen) })
}

/// How many tasks the strategy expects to have: see [`super::Picker::pending`].
pub(super) fn pending(options: &UnifiedOptions, all: &[Candidate], moment: &Moment) -> usize {
    let free: Vec<&Candidate> = all.iter().filter(|candidate| candidate.is_free()).collect();
    let of_level = |level: Level<'_>| {
        let threshold = threshold(options, level.index);
        level.groups(options).iter().map(|group| group.overlap() / threshold).sum::<usize>()
    };
    levels(options, &free, moment).into_iter().map(of_level).sum()
}

/// The tasks of a major compaction: one for each set of SSTables that are connected by overlaps.
pub(super) fn major(options: &UnifiedOptions, free: &[&Candidate], _moment: &Moment) -> Vec<Task> {
    let groups = groups(&sections(free), 1, OverlapInclusion::Transitive);
    let task = |group: Group<'_>| {
        let inputs = group.sstables();
        Task { output_boundaries: boundaries(options, &inputs), ..Task::new(TaskKind::Major, &inputs) }
    };
    groups.into_iter().map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{common, moment, sstable};
    use super::*;

    const MIB: u64 = 1 << 20;

    fn options(scaling: &[i32]) -> UnifiedOptions {
        UnifiedOptions {
            scaling: scaling.to_vec(),
            target_sstable_bytes: 1024 * MIB,
            base_shards: 4,
            sstable_growth: 0.333,
            min_sstable_bytes: 100 * MIB,
            flush_bytes: Some(100 * MIB),
            sstables_max: usize::MAX,
            expired_check_seconds: 600,
            ignore_overlaps: false,
            overlap_inclusion: OverlapInclusion::Transitive,
        }
    }

    /// An SSTable that spans the whole ring.
    fn full(id: u64, mib: u64) -> Candidate {
        Candidate { max_timestamp: id as i64, ..sstable(id, mib * MIB, i64::MIN, i64::MAX) }
    }

    fn count(options: &UnifiedOptions, sstables: u64) -> usize {
        let all: Vec<Candidate> = (0..sstables).map(|id| full(id, 100)).collect();
        next(options, &common(), &mut UnifiedMemory::new(0), &all, &moment(0)).map_or(0, |task| task.inputs.len())
    }

    #[test]
    fn tiers_wait_and_levels_do_not() {
        assert_eq!((count(&options(&[2]), 3), count(&options(&[2]), 4)), (0, 4));
        assert_eq!((count(&options(&[-2]), 1), count(&options(&[-2]), 2)), (0, 2));
        assert_eq!((count(&options(&[0]), 1), count(&options(&[0]), 2)), (0, 2));
    }

    #[test]
    fn late_compactions_keep_the_shape() {
        assert_eq!((count(&options(&[2]), 16), count(&options(&[2]), 55)), (16, 16));
        assert_eq!(count(&options(&[-2]), 55), 48);
        let few = UnifiedOptions { sstables_max: 8, ..options(&[2]) };
        assert_eq!((count(&few, 4), count(&few, 16), count(&few, 55)), (4, 8, 4));
    }

    #[test]
    fn levels_are_by_density() {
        let options = options(&[2]);
        let half = sstable(9, 100 * MIB, 0, i64::MAX);
        let all = [full(1, 100), full(2, 309), full(3, 311), half];
        let free: Vec<&Candidate> = all.iter().collect();
        let found: Vec<(usize, usize)> =
            levels(&options, &free, &moment(0)).iter().map(|level| (level.index, level.sstables.len())).collect();
        assert_eq!(found, [(0, 3), (1, 1)], "310 MiB is the limit of the first level; half a ring doubles");
        assert_eq!(density(&[&sstable(1, 7, 5, 5)]), 7.0);
    }

    #[test]
    fn sections_and_groups_follow_overlaps() {
        let all = [sstable(1, 1, 0, 39), sstable(2, 1, 20, 79), sstable(3, 1, 60, 99), sstable(4, 1, 10, 89)];
        let refs: Vec<&Candidate> = all.iter().collect();
        let ids = |sections: &[Vec<&Candidate>]| {
            let sorted = |section: &Vec<&Candidate>| {
                let mut ids: Vec<u64> = section.iter().map(|one| one.id).collect();
                ids.sort_unstable();
                ids
            };
            sections.iter().map(sorted).collect::<Vec<_>>()
        };
        assert_eq!(ids(&sections(&refs)), [[1, 2, 4], [2, 3, 4]]);
        let chain: Vec<Candidate> = (0..5).map(|i| sstable(i, 1, 10 * i as i64, 10 * i as i64 + 12)).collect();
        let refs: Vec<&Candidate> = chain.iter().collect();
        let sections = sections(&refs);
        assert_eq!(sections.len(), 4);
        let sizes = |inclusion| groups(&sections, 2, inclusion).iter().map(|g| g.sstables().len()).collect::<Vec<_>>();
        assert_eq!(sizes(OverlapInclusion::Transitive), [5]);
        assert_eq!(sizes(OverlapInclusion::Single), [3, 3]);
        assert_eq!(sizes(OverlapInclusion::None), [2, 2, 2, 2]);
        let group = groups(&sections, 2, OverlapInclusion::Transitive).remove(0);
        assert_eq!(group.oldest(1).iter().map(|one| one.id).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn outputs_are_cut_by_density() {
        let fixed = UnifiedOptions { sstable_growth: 0.0, ..options(&[2]) };
        let gib = 1024.0 * MIB as f64;
        assert_eq!(
            [0.05, 0.15, 0.3, 3.0, 5.0, 6.0, 100.0].map(|size| parts(&fixed, size * gib)),
            [1, 1, 2, 4, 4, 8, 128]
        );
        let grows = options(&[2]);
        assert_eq!([3.0, 16.0, 256.0].map(|size| parts(&grows, size * gib)), [4, 8, 64]);
        assert_eq!(parts(&UnifiedOptions { sstable_growth: 1.0, ..grows }, 1e15), 4);
        let huge =
            UnifiedOptions { min_sstable_bytes: 0, target_sstable_bytes: MIB, base_shards: 1 << 10, ..fixed.clone() };
        assert_eq!(parts(&huge, 1e30), OUTPUTS_MAX);
        assert_eq!(boundaries(&fixed, &[&full(1, 3000)]), [Token(i64::MIN / 2), Token(0), Token(-(i64::MIN / 2))]);
        assert_eq!(boundaries(&fixed, &[&sstable(1, 3000 * MIB, 1, i64::MAX)]).len(), 3);
    }

    #[test]
    fn separate_ranges_are_separate_tasks() {
        let mut all: Vec<Candidate> = (0..4).map(|id| sstable(id, 30 * MIB, i64::MIN, -1)).collect();
        all.extend((10..14).map(|id| sstable(id, 30 * MIB, 0, i64::MAX)));
        let refs: Vec<&Candidate> = all.iter().collect();
        assert_eq!(major(&options(&[2]), &refs, &moment(0)).len(), 2);
        assert_eq!(pending(&options(&[2]), &all, &moment(0)), 2);
        let task = next(&options(&[2]), &common(), &mut UnifiedMemory::new(0), &all, &moment(0)).expect("a task");
        assert_eq!(task.inputs.len(), 4);
    }
}
