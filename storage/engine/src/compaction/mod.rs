//! Compaction: which SSTables of a table to merge next, and how that is done.
//!
//! The decisions are pure functions without I/O:
//! 1. The caller describes the table's SSTables ([`Candidate`]) and the moment ([`Moment`]).
//! 2. [`Picker::pick`] returns tasks that may run at the same time, chosen by the table's strategy: [`size_tiered`],
//!    [`leveled`], [`time_window`] or [`unified`]. [`Picker::major`] returns the tasks of a major compaction.
//! 3. If there is no better work, an SSTable with many droppable tombstones is compacted alone (`tombstones`).
//! 4. When a task is done, the caller reports it ([`Picker::done`]), marks the outputs with the task's level and asks
//!    again.
//!
//! `compactor` queues tables and runs their tasks one at a time; `run` runs one compaction; `chosen` starts those
//! that operators ask for, `cleanup` those that leave out what the node has lost; `repair_sets` sets data apart for
//! incremental repairs; `throttle` limits the speed of compactions; `activity` keeps their progress and history for
//! display.
//!
//! Invariants: no SSTable is in two tasks, and no busy one is in any; the SSTables of a level above 0 of a leveled
//! table never overlap, if they did not before; what is repaired is never merged with what is not;
//! picking and applying tasks comes to an end.

mod activity;
mod chosen;
mod cleanup;
mod compactor;
pub mod leveled;
mod repair_sets;
mod run;
pub mod size_tiered;
pub(crate) mod throttle;
pub mod time_window;
mod tombstones;
pub mod unified;

pub use activity::{CompactionRecord, CompactionStatistics, RECORDS_MAX, RunningCompaction};
pub use chosen::CompactionScope;
pub use cleanup::OwnedRanges;
pub(crate) use compactor::Compactor;
pub use tombstones::fully_expired;

use model::Token;
use model::compaction::{CompactionOptions, Strategy};

/// Most tasks that one call of [`Picker::pick`] returns.
pub const TASKS_MAX: usize = 64;

/// An SSTable as pickers see it.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// A number by which the caller knows the SSTable.
    pub id: u64,
    /// Bytes of Data.db on disk.
    pub bytes: u64,
    /// The level in leveled compaction; 0 otherwise.
    pub level: u32,
    /// The smallest timestamp, in the unit of the table's timestamps, usually microseconds.
    pub min_timestamp: i64,
    /// The largest timestamp, in the same unit.
    pub max_timestamp: i64,
    /// Token of the first partition.
    pub first: Token,
    /// Token of the last partition.
    pub last: Token,
    /// The estimated fraction of cells that may be dropped at [`Moment::gc_before`], 0 to 1.
    pub droppable_ratio: f64,
    /// The second since 1970 at which its last cell is deleted or expired; `i64::MAX` if a cell lives for ever.
    pub max_local_deletion_time: i64,
    /// When it was written, seconds since 1970.
    pub created_at: i64,
    /// Recent reads per second and partition; 0 if reads are not counted.
    pub hotness: f64,
    /// Whether it was repaired.
    pub repaired: bool,
    /// Whether it is an input of a task.
    pub busy: bool,
    /// Whether it holds damaged bytes.
    pub suspect: bool,
}

impl Candidate {
    /// Whether a task may use it.
    pub fn is_free(&self) -> bool {
        !self.busy && !self.suspect
    }

    /// Whether some token lies in the token ranges of both.
    pub fn overlaps(&self, other: &Candidate) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The moment of a choice, and what else matters besides the candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The time, seconds since 1970.
    pub now: i64,
    /// Tombstones from before this second (since 1970) may be dropped, whatever partition they are in.
    pub gc_before: i64,
    /// A lower bound of the timestamps in memtables and in SSTables that are no candidates; `None` if there are none.
    pub memtable_min_timestamp: Option<i64>,
    /// Bytes of Data.db that the last flush wrote.
    pub flush_bytes: u64,
}

/// Why a task is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskKind {
    /// The strategy wants these SSTables merged.
    Compaction,
    /// A single SSTable is compacted to purge its tombstones.
    Tombstones,
    /// A single SSTable moves to another level: only its metadata has to change.
    Uplevel,
    /// All inputs have fully expired: they are removed and nothing is written.
    Expired,
    /// An operator asked for a major compaction.
    Major,
    /// An operator asked for SSTables of older versions to be rewritten.
    Upgrade,
    /// Keys that this node does not own are removed.
    Cleanup,
    /// An operator asked for SSTables in the wrong directory to be rewritten.
    Relocate,
    /// What an incremental repair is about is set apart from the rest.
    AntiCompaction,
}

/// SSTables to be compacted together.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// The ids of the SSTables.
    pub inputs: Vec<u64>,
    /// The inputs that need not be read: everything in them has expired and shadows nothing.
    pub expired: Vec<u64>,
    /// The reason for the task.
    pub kind: TaskKind,
    /// The level of the outputs.
    pub output_level: u32,
    /// Bytes of Data.db after which an output ends and another begins; `None` for no limit.
    pub output_bytes_max: Option<u64>,
    /// Tokens behind which another output begins, ascending.
    pub output_boundaries: Vec<Token>,
}

impl Task {
    fn new(kind: TaskKind, inputs: &[&Candidate]) -> Task {
        Task {
            inputs: inputs.iter().map(|candidate| candidate.id).collect(),
            expired: Vec::new(),
            kind,
            output_level: 0,
            output_bytes_max: None,
            output_boundaries: Vec::new(),
        }
    }
}

/// Chooses the compactions of one table on one shard.
#[derive(Clone, Debug)]
pub struct Picker {
    options: CompactionOptions,
    memory: StrategyMemory,
}

/// What each strategy remembers from one choice to the next.
#[derive(Clone, Debug)]
enum StrategyMemory {
    None,
    Leveled(leveled::LeveledMemory),
    TimeWindow(time_window::TimeWindowMemory),
    Unified(unified::UnifiedMemory),
}

impl Picker {
    /// A picker for a table's compaction options; `now` is in seconds since 1970.
    pub fn new(options: CompactionOptions, now: i64) -> Picker {
        let memory = match options.strategy {
            Strategy::SizeTiered(_) => StrategyMemory::None,
            Strategy::Leveled(_) => StrategyMemory::Leveled(leveled::LeveledMemory::default()),
            Strategy::TimeWindow(_) => StrategyMemory::TimeWindow(time_window::TimeWindowMemory::new(now)),
            Strategy::Unified(_) => StrategyMemory::Unified(unified::UnifiedMemory::new(now)),
        };
        Picker { options, memory }
    }

    /// The options that the picker was made with.
    pub fn options(&self) -> &CompactionOptions {
        &self.options
    }

    /// Up to `tasks_max` (at most [`TASKS_MAX`]) tasks, most urgent first. `sstables` must be all SSTables of the
    /// table.
    pub fn pick(&mut self, sstables: &[Candidate], moment: &Moment, tasks_max: usize) -> Vec<Task> {
        let mut all = sstables.to_vec();
        let mut tasks = Vec::new();
        while tasks.len() < tasks_max.min(TASKS_MAX) {
            let Some(task) = self.next(&all, moment) else { break };
            for candidate in &mut all {
                candidate.busy |= task.inputs.contains(&candidate.id);
            }
            tasks.push(task);
        }
        tasks
    }

    fn next(&mut self, all: &[Candidate], moment: &Moment) -> Option<Task> {
        let common = &self.options.common;
        let mut task = match (&self.options.strategy, &mut self.memory) {
            (Strategy::Leveled(options), StrategyMemory::Leveled(memory)) => {
                leveled::next(options, common, memory, all, moment)
            }
            (Strategy::TimeWindow(options), StrategyMemory::TimeWindow(memory)) => {
                time_window::next(options, common, memory, all, moment)
            }
            (Strategy::Unified(options), StrategyMemory::Unified(memory)) => {
                unified::next(options, common, memory, all, moment)
            }
            (Strategy::SizeTiered(options), _) => size_tiered::next(options, common, all, moment),
            _ => None,
        }?;
        let inputs: Vec<&Candidate> = all.iter().filter(|candidate| task.inputs.contains(&candidate.id)).collect();
        if task.expired.is_empty() && task.kind != TaskKind::Uplevel {
            task.expired = fully_expired(&inputs, all, common, moment, false);
        }
        if task.expired.len() == task.inputs.len() {
            task.kind = TaskKind::Expired;
        }
        Some(task)
    }

    /// Reports that a task is done; `outputs` are the SSTables that it wrote.
    pub fn done(&mut self, task: &Task, inputs: &[Candidate], outputs: &[Candidate]) {
        if let (StrategyMemory::Leveled(memory), TaskKind::Compaction | TaskKind::Uplevel) =
            (&mut self.memory, task.kind)
        {
            memory.done(inputs, outputs);
        }
    }

    /// An estimate of how many tasks the strategy still has to do.
    pub fn pending(&self, sstables: &[Candidate], moment: &Moment) -> usize {
        match &self.options.strategy {
            Strategy::SizeTiered(options) => size_tiered::pending(options, sstables),
            Strategy::Leveled(options) => leveled::pending(options, sstables),
            Strategy::TimeWindow(options) => time_window::pending(options, sstables),
            Strategy::Unified(options) => unified::pending(options, sstables, moment),
        }
    }

    /// The task that merges those SSTables in `ids` that are free into one; `None` if none is. A single SSTable of a
    /// leveled table stays at its level.
    pub fn chosen(&self, sstables: &[Candidate], ids: &[u64]) -> Option<Task> {
        let chosen: Vec<&Candidate> =
            sstables.iter().filter(|candidate| candidate.is_free() && ids.contains(&candidate.id)).collect();
        if chosen.is_empty() {
            return None;
        }
        let mut task = Task::new(TaskKind::Compaction, &chosen);
        if let ([one], Strategy::Leveled(options)) = (&chosen[..], &self.options.strategy)
            && one.level > 0
        {
            task.output_level = one.level;
            task.output_bytes_max = Some(options.sstable_bytes);
        }
        Some(task)
    }

    /// The tasks of a major compaction of all free SSTables; none for a leveled table while an SSTable is busy. With
    /// `split`, size-tiered and time-window tables get outputs of a half of the bytes, a quarter and so on instead of
    /// one.
    pub fn major(&self, sstables: &[Candidate], moment: &Moment, split: bool) -> Vec<Task> {
        let free: Vec<&Candidate> = sstables.iter().filter(|candidate| candidate.is_free()).collect();
        if free.is_empty() {
            return Vec::new();
        }
        let mut tasks = match &self.options.strategy {
            Strategy::SizeTiered(_) | Strategy::TimeWindow(_) => vec![size_tiered::major(&free, split)],
            // The outputs of a running task could overlap those of this one.
            Strategy::Leveled(_) if sstables.iter().any(|candidate| candidate.busy) => Vec::new(),
            Strategy::Leveled(options) => vec![leveled::major(options, &free)],
            Strategy::Unified(options) => unified::major(options, &free, moment),
        };
        for task in &mut tasks {
            let inputs: Vec<&Candidate> = free.iter().copied().filter(|one| task.inputs.contains(&one.id)).collect();
            task.expired = fully_expired(&inputs, sstables, &self.options.common, moment, false);
        }
        tasks
    }
}

#[cfg(test)]
mod tests;
