//! Time-window compaction: SSTables are merged with those whose largest timestamps lie in the same window of time.
//!
//! 1. From time to time the strategy looks for SSTables in which everything has expired; they are removed with the
//!    next task.
//! 2. The newest window with enough SSTables is chosen. In the current window SSTables of similar size are merged, in
//!    older windows the smallest ones, whatever their sizes.
//! 3. If there is none, the smallest SSTable whose tombstones are worth it is compacted alone.

use super::size_tiered::{buckets, most_interesting};
use super::tombstones::{fully_expired, is_worth_it};
use super::{Candidate, Moment, Task, TaskKind};
use model::compaction::{CommonOptions, TimeWindowOptions};
use std::collections::BTreeMap;

/// What the strategy remembers from one choice to the next.
#[derive(Clone, Debug)]
pub struct TimeWindowMemory {
    /// The start of the newest window seen so far, seconds since 1970.
    newest: i64,
    /// When it last looked for expired SSTables, seconds since 1970.
    checked_at: i64,
}

impl TimeWindowMemory {
    /// The memory of a strategy that has chosen nothing yet; `now` is in seconds since 1970.
    pub fn new(now: i64) -> TimeWindowMemory {
        TimeWindowMemory { newest: 0, checked_at: now }
    }
}

/// The start of the window in which a timestamp lies, seconds since 1970.
fn window(options: &TimeWindowOptions, timestamp: i64) -> i64 {
    let seconds = options.resolution.seconds(timestamp);
    seconds - seconds % options.window_seconds
}

fn windows<'c>(options: &TimeWindowOptions, candidates: &[&'c Candidate]) -> BTreeMap<i64, Vec<&'c Candidate>> {
    let mut windows: BTreeMap<i64, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        windows.entry(window(options, candidate.max_timestamp)).or_default().push(candidate);
    }
    windows
}

/// The SSTables to merge in the newest window that has work, and how many tasks all windows have together.
fn newest<'c>(
    options: &TimeWindowOptions,
    windows: BTreeMap<i64, Vec<&'c Candidate>>,
    current: i64,
) -> (Vec<&'c Candidate>, usize) {
    let (least, most) = (options.size_tiered.min_threshold, options.size_tiered.max_threshold);
    let mut chosen = Vec::new();
    let mut tasks = 0;
    for (start, sstables) in windows.into_iter().rev() {
        let count = sstables.len();
        let found = if count >= least && start >= current {
            most_interesting(&options.size_tiered, buckets(&options.size_tiered, &sstables))
        } else if count >= 2 && start < current {
            let mut smallest = sstables;
            smallest.sort_by_key(|candidate| (candidate.bytes, candidate.id));
            smallest.truncate(most);
            smallest
        } else {
            continue;
        };
        if found.is_empty() {
            continue;
        }
        tasks += if count > most { count.div_ceil(most) } else { 1 };
        if chosen.is_empty() {
            chosen = found;
        }
    }
    (chosen, tasks)
}

/// The next task, or `None` if there is no work.
pub(super) fn next(
    options: &TimeWindowOptions,
    common: &CommonOptions,
    memory: &mut TimeWindowMemory,
    all: &[Candidate],
    moment: &Moment,
) -> Option<Task> {
    let idle: Vec<&Candidate> = all.iter().filter(|candidate| !candidate.busy).collect();
    let mut expired = Vec::new();
    if moment.now.saturating_sub(memory.checked_at) > options.expired_check_seconds {
        memory.checked_at = moment.now;
        expired = fully_expired(&idle, all, common, moment, options.ignore_overlaps);
    }
    let is_live = |one: &&&Candidate| one.is_free() && !expired.contains(&one.id);
    let live: Vec<&Candidate> = idle.iter().filter(is_live).copied().collect();
    let windows = windows(options, &live);
    if let Some((start, _)) = windows.last_key_value() {
        memory.newest = memory.newest.max(*start);
    }
    let (mut chosen, _) = newest(options, windows, memory.newest);
    let mut kind = TaskKind::Compaction;
    if chosen.is_empty() {
        let worth = live.iter().copied().filter(|one| is_worth_it(one, all, common, moment));
        chosen.extend(worth.min_by_key(|one| (one.bytes, one.id)));
        kind = TaskKind::Tombstones;
    }
    if chosen.is_empty() && expired.is_empty() {
        return None;
    }
    if chosen.is_empty() || !expired.is_empty() && kind == TaskKind::Tombstones {
        kind = TaskKind::Compaction;
    }
    chosen.extend(idle.iter().copied().filter(|one| expired.contains(&one.id)));
    Some(Task { expired, ..Task::new(kind, &chosen) })
}

/// How many tasks the strategy expects to have: see [`super::Picker::pending`].
pub(super) fn pending(options: &TimeWindowOptions, all: &[Candidate]) -> usize {
    let free: Vec<&Candidate> = all.iter().filter(|candidate| candidate.is_free()).collect();
    let windows = windows(options, &free);
    let current = windows.last_key_value().map_or(0, |(start, _)| *start);
    newest(options, windows, current).1
}

#[cfg(test)]
mod tests {
    use super::super::tests::{common, moment, sstable, tiered};
    use super::*;
    use model::compaction::Resolution;

    const HOUR: i64 = 3600;

    fn options() -> TimeWindowOptions {
        TimeWindowOptions {
            window_seconds: HOUR,
            resolution: Resolution::Microseconds,
            expired_check_seconds: 600,
            ignore_overlaps: false,
            size_tiered: tiered(),
        }
    }

    fn of(id: u64, bytes: u64, hour: i64) -> Candidate {
        Candidate { max_timestamp: (hour * HOUR + 5) * 1_000_000, ..sstable(id, bytes, 0, 99) }
    }

    fn chosen(all: &[Candidate], memory: &mut TimeWindowMemory, now: i64) -> Vec<u64> {
        let mut inputs = next(&options(), &common(), memory, all, &moment(now)).map_or(Vec::new(), |task| task.inputs);
        inputs.sort_unstable();
        inputs
    }

    #[test]
    fn old_windows_become_one_sstable() {
        let mut memory = TimeWindowMemory::new(0);
        let all = [of(1, 100, 7), of(2, 900 << 20, 7), of(3, 100, 8), of(4, 100, 8), of(5, 100, 9)];
        assert_eq!(chosen(&all, &mut memory, 0), [3, 4], "the newer of the old windows");
        assert_eq!(chosen(&all[..2], &mut memory, 0), [1, 2], "whatever their sizes");
        assert_eq!(chosen(&all[..2], &mut TimeWindowMemory::new(0), 0), [0u64; 0], "the window is the current one");
    }

    #[test]
    fn the_current_window_is_size_tiered() {
        let mut all: Vec<Candidate> = (0..4).map(|id| of(id, 100, 9)).collect();
        assert_eq!(chosen(&all, &mut TimeWindowMemory::new(0), 0), [0, 1, 2, 3]);
        all[0].bytes = 900 << 20;
        assert_eq!(chosen(&all, &mut TimeWindowMemory::new(0), 0), [0u64; 0]);
        all.extend([of(8, 100, 3), of(9, 100, 3)]);
        assert_eq!(chosen(&all, &mut TimeWindowMemory::new(0), 0), [8, 9]);
        assert_eq!(pending(&options(), &all), 1);
    }

    #[test]
    fn expired_ones_go_when_they_are_looked_for() {
        let mut all = vec![of(1, 100, 1), of(2, 100, 5)];
        all[0].max_local_deletion_time = 10;
        all[1].min_timestamp = 5 * HOUR * 1_000_000;
        let mut memory = TimeWindowMemory::new(1000);
        assert_eq!(chosen(&all, &mut memory, 1600), [0u64; 0], "not yet");
        let task = next(&options(), &common(), &mut memory, &all, &moment(1601)).expect("a task");
        assert_eq!((task.inputs, task.expired), (vec![1], vec![1]));
        assert_eq!(chosen(&all, &mut memory, 1602), [0u64; 0], "just done");
    }

    #[test]
    fn tombstones_only_if_asked_for() {
        let all = [Candidate { droppable_ratio: 0.9, ..of(1, 100, 1) }];
        let silent = CommonOptions { tombstone_compactions: false, ..common() };
        let at = moment(86_400);
        assert_eq!(next(&options(), &silent, &mut TimeWindowMemory::new(86_400), &all, &at), None);
        let task = next(&options(), &common(), &mut TimeWindowMemory::new(86_400), &all, &at).expect("a task");
        assert_eq!(task.kind, TaskKind::Tombstones);
    }
}
