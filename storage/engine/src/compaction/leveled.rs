//! Leveled compaction: above level 0, SSTables have one size and never overlap within a level, and each level may
//! hold ten times as much as the one below it.
//!
//! 1. The highest level that holds too much gives up one SSTable, which is merged with those that it overlaps one
//!    level up. Successive tasks go through the level in token order.
//! 2. Before that, if level 0 has too many SSTables, some of similar size are merged within level 0.
//! 3. If no level holds too much, level 0 is moved up: its oldest SSTables, those of level 0 that they overlap, and
//!    those of level 1 that these overlap. Less than one SSTable's worth of bytes stays in level 0.
//! 4. If the highest level has not been compacted for long, a task takes in one of its SSTables that lies inside the
//!    task's token range.
//! 5. Without other work, an SSTable is compacted alone for its tombstones, highest level first.
//!
//! Invariants: in the token range of a task's outputs, their level contains nothing but inputs of the task.

use super::size_tiered;
use super::tombstones::is_worth_it;
use super::{Candidate, Moment, Task, TaskKind};
use model::Token;
use model::compaction::{CommonOptions, LeveledOptions};

/// The number of levels, including level 0.
pub const LEVELS_MAX: usize = 9;
/// If level 0 has more SSTables than this, it is compacted by size.
pub const LEVEL_0_MAX: usize = 32;
/// A level is starved if more tasks than this in a row did not write to it.
const STARVED_TASKS: u32 = 25;
/// How full a level may be, as a fraction of its size, before it is compacted.
const SCORE_MAX: f64 = 1.001;

/// What the strategy remembers from one choice to the next.
#[derive(Clone, Default, Debug)]
pub struct LeveledMemory {
    /// For each level, the largest first token among the outputs of its last task.
    last_compacted: [Option<Token>; LEVELS_MAX],
    /// For each level, how many tasks in a row did not write to it.
    idle: [u32; LEVELS_MAX],
}

impl LeveledMemory {
    /// Notes that a task with these inputs wrote these outputs.
    pub(super) fn done(&mut self, inputs: &[Candidate], outputs: &[Candidate]) {
        let lowest = inputs.iter().map(level_of).min().unwrap_or(0);
        if let Some(last) = outputs.iter().map(|candidate| candidate.first).max() {
            self.last_compacted[lowest] = Some(last);
        }
    }
}

fn level_of(candidate: &Candidate) -> usize {
    (candidate.level as usize).min(LEVELS_MAX - 1)
}

/// The most bytes that a level should hold.
fn level_bytes_max(options: &LeveledOptions, level: usize) -> u64 {
    match level {
        0 => options.sstable_bytes.saturating_mul(4),
        _ => options.fanout.saturating_pow(level as u32).saturating_mul(options.sstable_bytes),
    }
}

fn bytes(candidates: &[&Candidate]) -> u64 {
    candidates.iter().map(|candidate| candidate.bytes).sum()
}

/// SSTables by level, each level in token order.
struct Levels<'c> {
    options: &'c LeveledOptions,
    levels: Vec<Vec<&'c Candidate>>,
}

/// The first and the last token of several SSTables; `None` if there are none.
fn span(candidates: &[&Candidate]) -> Option<(Token, Token)> {
    let first = candidates.iter().map(|candidate| candidate.first).min()?;
    Some((first, candidates.iter().map(|candidate| candidate.last).max()?))
}

fn in_span<'c>(span: (Token, Token), others: &[&'c Candidate]) -> Vec<&'c Candidate> {
    others.iter().copied().filter(|other| other.first <= span.1 && span.0 <= other.last).collect()
}

impl<'c> Levels<'c> {
    fn of(options: &'c LeveledOptions, all: &'c [Candidate]) -> Levels<'c> {
        let mut levels = vec![Vec::new(); LEVELS_MAX];
        for candidate in all {
            levels[level_of(candidate)].push(candidate);
        }
        for level in &mut levels {
            level.sort_by_key(|candidate| (candidate.first, candidate.id));
        }
        Levels { options, levels }
    }

    fn highest(&self) -> Option<usize> {
        self.levels.iter().rposition(|level| !level.is_empty())
    }

    /// The SSTables to compact, and the level of the outputs.
    fn candidates(&self, memory: &mut LeveledMemory) -> Option<(Vec<&'c Candidate>, usize)> {
        // The last level has none above it.
        for level in (1..LEVELS_MAX - 1).rev() {
            let idle: Vec<&Candidate> = self.levels[level].iter().copied().filter(|one| !one.busy).collect();
            let score = bytes(&idle) as f64 / level_bytes_max(self.options, level) as f64;
            if score <= SCORE_MAX {
                continue;
            }
            if let Some(chosen) = self.by_size_in_level_0() {
                return Some((chosen, 0));
            }
            if let Some(chosen) = self.choose_from_level(level, memory) {
                let target = self.target(&chosen);
                return Some((self.with_starved(target, chosen, memory), target));
            }
        }
        match self.choose_from_level_0() {
            Some(chosen) => {
                let target = self.target(&chosen);
                Some((chosen, target))
            }
            None => self.by_size_in_level_0().map(|chosen| (chosen, 0)),
        }
    }

    fn by_size_in_level_0(&self) -> Option<Vec<&'c Candidate>> {
        if self.levels[0].len() <= LEVEL_0_MAX {
            return None;
        }
        let free: Vec<&Candidate> = self.levels[0].iter().copied().filter(|one| one.is_free()).collect();
        let options = &self.options.size_tiered;
        let chosen = size_tiered::most_interesting(options, size_tiered::buckets(options, &free));
        (!chosen.is_empty()).then_some(chosen)
    }

    /// An SSTable of `level` and those that it overlaps one level up. The search begins behind the SSTable that was
    /// compacted last.
    fn choose_from_level(&self, level: usize, memory: &LeveledMemory) -> Option<Vec<&'c Candidate>> {
        let sstables = &self.levels[level];
        let start = memory.last_compacted[level].map_or(0, |last| sstables.partition_point(|one| one.first <= last));
        let (before, after) = sstables.split_at(start);
        after.iter().chain(before).find_map(|one| {
            let mut chosen = vec![*one];
            chosen.extend(in_span((one.first, one.last), &self.levels[level + 1]));
            chosen.iter().all(|candidate| candidate.is_free()).then_some(chosen)
        })
    }

    /// The oldest SSTables of level 0, and the SSTables that they overlap.
    fn choose_from_level_0(&self) -> Option<Vec<&'c Candidate>> {
        let level_0 = &self.levels[0];
        let busy: Vec<&Candidate> = level_0.iter().copied().filter(|one| one.busy).collect();
        let busy_span = span(&busy);
        let is_apart = |one: &Candidate| busy_span.is_none_or(|(first, last)| one.first > last || one.last < first);
        let mut by_age: Vec<&Candidate> = level_0.iter().copied().filter(|one| !one.suspect).collect();
        by_age.sort_by_key(|one| (one.max_timestamp, one.id));
        let mut remaining = by_age.clone();
        let mut chosen: Vec<&Candidate> = Vec::new();
        let most = self.options.size_tiered.max_threshold;
        for oldest in by_age {
            if !remaining.iter().any(|one| one.id == oldest.id) {
                continue;
            }
            let together = in_span((oldest.first, oldest.last), &remaining);
            if together.iter().any(|one| one.busy) {
                continue;
            }
            remaining.retain(|one| !together.iter().any(|other| other.id == one.id));
            chosen.extend(together.into_iter().filter(|one| is_apart(one)));
            if chosen.len() > most {
                chosen.sort_by_key(|one| (one.max_timestamp, one.id));
                chosen.truncate(most);
                break;
            }
        }
        if bytes(&chosen) > self.options.sstable_bytes
            && let Some(all) = span(&chosen)
        {
            let above = in_span(all, &self.levels[1]);
            if above.iter().any(|one| !one.is_free()) || !in_span(all, &busy).is_empty() {
                return None;
            }
            chosen.extend(above);
        }
        (chosen.len() >= 2).then_some(chosen)
    }

    /// The level to which the outputs of a task belong.
    fn target(&self, chosen: &[&Candidate]) -> usize {
        let total = bytes(chosen);
        let lowest = chosen.iter().map(|one| level_of(one)).min().unwrap_or(0);
        let highest = chosen.iter().map(|one| level_of(one)).max().unwrap_or(0);
        if highest == 0 && total <= self.options.sstable_bytes {
            return 0;
        }
        let mut level = if lowest == highest { highest + 1 } else { highest };
        while level + 1 < LEVELS_MAX
            && level_bytes_max(self.options, level) < total
            && self.levels[level + 1].is_empty()
        {
            level += 1;
        }
        level.min(LEVELS_MAX - 1)
    }

    /// Adds an SSTable of the highest level that lies inside the span of `chosen`, if that level is starved.
    fn with_starved(
        &self,
        target: usize,
        mut chosen: Vec<&'c Candidate>,
        memory: &mut LeveledMemory,
    ) -> Vec<&'c Candidate> {
        memory.idle.iter_mut().skip(1).for_each(|idle| *idle = idle.saturating_add(1));
        memory.idle[target] = 0;
        let Some(highest) = self.highest().filter(|highest| *highest > 0) else { return chosen };
        if memory.idle[highest] <= STARVED_TASKS {
            return chosen;
        }
        let Some((first, last)) = span(&chosen).filter(|(first, last)| first < last) else { return chosen };
        let is_inside = |one: &&&Candidate| one.is_free() && first <= one.first && one.last <= last;
        let taken = |one: &Candidate| chosen.iter().any(|other| other.id == one.id);
        if let Some(starved) = self.levels[highest].iter().filter(is_inside).find(|one| !taken(one)) {
            chosen.push(starved);
        }
        chosen
    }
}

/// The next task, or `None` if there is no work.
pub(super) fn next(
    options: &LeveledOptions,
    common: &CommonOptions,
    memory: &mut LeveledMemory,
    all: &[Candidate],
    moment: &Moment,
) -> Option<Task> {
    let levels = Levels::of(options, all);
    if let Some((chosen, level)) = levels.candidates(memory) {
        let alone = chosen.len() == 1 && options.single_uplevel;
        let mut task = Task::new(if alone { TaskKind::Uplevel } else { TaskKind::Compaction }, &chosen);
        task.output_level = level as u32;
        // Within level 0, one SSTable replaces many, however large it becomes.
        let by_size = level == 0 && bytes(&chosen) > options.sstable_bytes;
        task.output_bytes_max = (!by_size).then_some(options.sstable_bytes);
        return Some(task);
    }
    for level in levels.levels.iter().rev() {
        let mut droppable = level.clone();
        droppable.sort_by(|a, b| b.droppable_ratio.total_cmp(&a.droppable_ratio));
        if let Some(one) = droppable.iter().find(|one| is_worth_it(one, all, common, moment)) {
            let task = Task::new(TaskKind::Tombstones, &[one]);
            return Some(Task { output_level: one.level, output_bytes_max: Some(options.sstable_bytes), ..task });
        }
    }
    None
}

/// How many tasks the strategy expects to have: see [`super::Picker::pending`].
pub(super) fn pending(options: &LeveledOptions, all: &[Candidate]) -> usize {
    let levels = Levels::of(options, all);
    let excess = levels.levels.iter().enumerate().map(|(level, sstables)| {
        let allowed = (level_bytes_max(options, level) as f64 * SCORE_MAX) as u64;
        bytes(sstables).saturating_sub(allowed).div_ceil(options.sstable_bytes) as usize
    });
    let most = options.size_tiered.max_threshold;
    let level_0 = levels.levels[0].len();
    excess.sum::<usize>() + if level_0 > most { level_0 / most } else { 0 }
}

/// The task of a major compaction: all SSTables go into the lowest level that can hold them.
pub(super) fn major(options: &LeveledOptions, free: &[&Candidate]) -> Task {
    let total = bytes(free);
    let level = (1..LEVELS_MAX).find(|level| level_bytes_max(options, *level) >= total).unwrap_or(LEVELS_MAX - 1);
    let task = Task::new(TaskKind::Major, free);
    Task { output_level: level as u32, output_bytes_max: Some(options.sstable_bytes), ..task }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{common, moment, sstable, tiered};
    use super::*;

    fn options() -> LeveledOptions {
        LeveledOptions { sstable_bytes: 100, fanout: 10, single_uplevel: true, size_tiered: tiered() }
    }

    fn at(level: u32, id: u64, bytes: u64, first: i64, last: i64) -> Candidate {
        Candidate { level, ..sstable(id, bytes, first, last) }
    }

    fn chosen(all: &[Candidate], memory: &mut LeveledMemory) -> Option<(Vec<u64>, u32, TaskKind)> {
        let mut task = next(&options(), &common(), memory, all, &moment(0))?;
        task.inputs.sort_unstable();
        Some((task.inputs, task.output_level, task.kind))
    }

    #[test]
    fn little_of_level_0_stays_there() {
        let mut memory = LeveledMemory::default();
        assert_eq!(chosen(&[at(0, 1, 40, 0, 99)], &mut memory), None);
        let two = [at(0, 1, 40, 0, 99), at(0, 2, 40, 0, 99)];
        assert_eq!(chosen(&two, &mut memory), Some((vec![1, 2], 0, TaskKind::Compaction)));
        let more = [at(0, 1, 60, 0, 99), at(0, 2, 60, 0, 99), at(1, 3, 100, 50, 150), at(1, 4, 100, 151, 300)];
        assert_eq!(chosen(&more, &mut memory), Some((vec![1, 2, 3], 1, TaskKind::Compaction)));
    }

    #[test]
    fn a_busy_level_1_holds_level_0_back() {
        let mut all = [at(0, 1, 60, 0, 99), at(0, 2, 60, 0, 99), at(1, 3, 100, 50, 150)];
        all[2].busy = true;
        assert_eq!(chosen(&all, &mut LeveledMemory::default()), None);
    }

    #[test]
    fn a_damaged_sstable_of_level_1_stays_out() {
        let mut all = [at(0, 1, 60, 0, 99), at(0, 2, 60, 0, 99), at(1, 3, 100, 50, 150)];
        all[2].suspect = true;
        assert_eq!(chosen(&all, &mut LeveledMemory::default()), None);
    }

    #[test]
    fn full_levels_go_up_round_robin() {
        let mut all: Vec<Candidate> = (0..11).map(|i| at(1, i, 100, 10 * i as i64, 10 * i as i64 + 9)).collect();
        all.push(at(2, 50, 100, 0, 14));
        all.push(at(2, 51, 100, 15, 200));
        let mut memory = LeveledMemory::default();
        assert_eq!(chosen(&all, &mut memory), Some((vec![0, 50], 2, TaskKind::Compaction)));
        memory.done(&[all[0].clone(), all[11].clone()], &[at(2, 60, 100, 0, 4), at(2, 61, 100, 5, 14)]);
        assert_eq!(chosen(&all, &mut memory), Some((vec![1, 50, 51], 2, TaskKind::Compaction)));
        all.truncate(11);
        assert_eq!(chosen(&all, &mut memory), Some((vec![1], 2, TaskKind::Uplevel)));
    }

    #[test]
    fn too_many_in_level_0_are_compacted_by_size() {
        let mut all: Vec<Candidate> = (0..33).map(|i| at(0, i, 1000, 0, 99)).collect();
        all.extend((0..11).map(|i| at(1, 100 + i, 100, 10 * i as i64, 10 * i as i64 + 9)));
        let task = next(&options(), &common(), &mut LeveledMemory::default(), &all, &moment(0)).expect("a task");
        assert_eq!((task.inputs.len(), task.output_level, task.output_bytes_max), (32, 0, None));
        assert!(task.inputs.iter().all(|id| *id < 33));
        assert!(pending(&options(), &all) > 100);
    }

    #[test]
    fn starved_levels_give_one() {
        let mut all: Vec<Candidate> = (0..12).map(|i| at(1, i, 100, 100 * i as i64, 100 * i as i64 + 99)).collect();
        all.push(at(3, 50, 100, 20, 30));
        let mut memory = LeveledMemory::default();
        for _ in 0..STARVED_TASKS {
            assert_eq!(chosen(&all, &mut memory).expect("a task").0, [0]);
        }
        assert_eq!(chosen(&all, &mut memory), Some((vec![0, 50], 2, TaskKind::Compaction)));
    }

    #[test]
    fn levels_are_skipped_and_sizes_grow() {
        let all = [at(0, 1, 20_000, 0, 99), at(0, 2, 20_000, 0, 99)];
        assert_eq!(chosen(&all, &mut LeveledMemory::default()).expect("a task").1, 3);
        let sizes: Vec<u64> = (0..4).map(|level| level_bytes_max(&options(), level)).collect();
        assert_eq!(sizes, [400, 1000, 10_000, 100_000]);
        assert_eq!(major(&options(), &all.iter().collect::<Vec<_>>()).output_level, 3);
    }
}
