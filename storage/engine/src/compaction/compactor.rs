//! Runs the compactions of a shard, one at a time.
//!
//! 1. At the start, and when a flush or a compaction has changed its SSTables, a table is queued
//!    ([`Compactor::want`]).
//! 2. The task of [`Compactor::start`] asks the strategy of a queued table for its next compaction and runs it, until
//!    the strategy has none. If a compaction fails, the table's strategy is asked again after its next flush.
//! 3. Compactions that an operator asks for take their turn between those (`chosen`).
//!
//! Compactions get [`SHARES_PER_TASK`] shares of the core for each task that the tables' strategies still have to do,
//! from 100 to 1000; a running major compaction counts as another task. The shares are updated when a table's
//! SSTables change and when a compaction begins.

use super::activity::{Activity, TrackedCompaction};
use super::run::{CompactionJob, CompactionOutcome};
use super::throttle::Throttle;
use super::{Candidate, Moment, Picker, Task, TaskKind};
use crate::error::Error;
use crate::faults::Faults;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::repair_set::RepairSet;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::sstable_id;
use crate::tables::Tables;
use crate::tables::table_state::TableState;
use model::TableId;
use model::compaction::CompactionOptions;
use runtime::gate::{Gate, Semaphore};
use runtime::shares::{SHARES_MAX, SHARES_MIN};
use runtime::sync::Condition;
use runtime::{Class, HashMap};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

/// Shares of the core that compactions get for each task to do.
const SHARES_PER_TASK: u32 = 100;

/// The shares of the core that compactions get if there are `tasks` to do.
fn shares_of(tasks: usize) -> u32 {
    let tasks = tasks.min((SHARES_MAX / SHARES_PER_TASK) as usize) as u32;
    (tasks * SHARES_PER_TASK).clamp(SHARES_MIN, SHARES_MAX)
}

/// The time, seconds since 1970.
fn now_in_seconds() -> i64 {
    runtime::wall_micros().div_euclid(1_000_000)
}

/// The compactions of a shard.
pub(crate) struct Compactor {
    pub(super) tables: Rc<Tables>,
    pub(super) files: Rc<SstableFiles>,
    pub(super) faults: Rc<Faults>,
    pub(super) gate: Gate,
    /// One compaction runs at a time.
    pub(crate) turn: Semaphore,
    /// Tables whose SSTables have changed since their strategy was last asked.
    queue: RefCell<BTreeSet<TableId>>,
    /// Notified when `queue` grows.
    wanted: Rc<Condition>,
    /// The strategies of tables that were asked or configured since the start.
    strategies: RefCell<HashMap<TableId, StrategyState>>,
    /// How many tasks each table's strategy still has to do, estimated; tables without any are missing.
    waiting_tasks: RefCell<BTreeMap<TableId, usize>>,
    pub(super) activity: Activity,
    /// Limits how fast compactions may read.
    pub(super) throttle: Throttle,
    /// Bytes of Data.db that the last flush wrote.
    flush_bytes: Cell<u64>,
}

/// The compaction strategy of one table.
struct StrategyState {
    /// By the set whose SSTables it chooses from. Made when the strategy is first asked, and replaced when the table's
    /// options change.
    pickers: BTreeMap<RepairSet, Picker>,
    /// Whether the strategy starts compactions by itself.
    is_automatic: bool,
}

impl Default for StrategyState {
    fn default() -> StrategyState {
        StrategyState { pickers: BTreeMap::new(), is_automatic: true }
    }
}

impl Compactor {
    pub(crate) fn new(tables: Rc<Tables>, files: Rc<SstableFiles>, faults: Rc<Faults>, gate: Gate) -> Compactor {
        Compactor {
            tables,
            files,
            faults,
            gate,
            turn: Semaphore::new(1),
            queue: RefCell::default(),
            wanted: Rc::default(),
            strategies: RefCell::default(),
            waiting_tasks: RefCell::default(),
            activity: Activity::new(),
            throttle: Throttle::default(),
            flush_bytes: Cell::new(0),
        }
    }

    /// Queues a table whose SSTables have changed, so that its strategy is asked.
    pub(crate) fn want(&self, table: TableId) {
        self.queue.borrow_mut().insert(table);
        self.weigh(table);
        self.wanted.notify();
    }

    /// Queues a table after a flush that wrote `data_bytes` of Data.db.
    pub(crate) fn flushed(&self, table: TableId, data_bytes: u64) {
        self.flush_bytes.set(data_bytes);
        self.want(table);
    }

    /// Forgets the strategy of a table that was dropped.
    pub(crate) fn forget(&self, table: TableId) {
        self.strategies.borrow_mut().remove(&table);
        self.weigh(table);
    }

    /// Sets whether the strategy of a table starts compactions by itself; the default, yes, returns with the next
    /// start. Returns whether the table exists.
    pub(crate) fn set_automatic(&self, table: TableId, on: bool) -> bool {
        let known = self.tables.contains(table);
        if known {
            self.strategies.borrow_mut().entry(table).or_default().is_automatic = on;
            if on {
                self.want(table);
            }
        }
        known
    }

    /// Limits how fast compactions may read, bytes per second; 0 means unlimited.
    pub(crate) fn set_throughput(&self, bytes_per_second: u64) {
        self.throttle.set(bytes_per_second);
    }

    /// Starts the task that compacts. It ends when the gate is shut.
    pub(crate) fn start(self: &Rc<Self>) {
        let compactor = Rc::downgrade(self);
        runtime::spawn_in(Class::Background, async move {
            loop {
                let Some(signal) = compactor.upgrade().map(|compactor| compactor.wanted.clone()) else { return };
                let wanted = signal
                    .wait(|| match compactor.upgrade() {
                        None => Some(None),
                        Some(compactor) if compactor.gate.is_closed() => Some(None),
                        Some(compactor) => compactor.queue.borrow_mut().pop_first().map(Some),
                    })
                    .await;
                let (Some(table), Some(compactor)) = (wanted, compactor.upgrade()) else { return };
                let Some(_pass) = compactor.gate.enter() else { return };
                let done = match compactor.compact_as_wanted(table).await {
                    // An index was dropped, and its directory cleared.
                    Err(Error::Io(error))
                        if error.kind() == io::ErrorKind::NotFound && compactor.tables.readable(table).is_err() =>
                    {
                        Ok(())
                    }
                    done => done,
                };
                if let Err(error) = compactor.faults.noted(done) {
                    tracing::error!(%error, %table, "compaction failed");
                }
            }
        });
        self.tables.ids().into_iter().for_each(|table| self.want(table));
    }

    /// Wakes the task and callers that wait for records, so that they see that the gate was shut.
    pub(crate) fn notify(&self) {
        self.wanted.notify();
        self.activity.notify();
    }

    /// Runs the compactions that the strategy of a table wants, one after the other, until it wants none.
    async fn compact_as_wanted(self: &Rc<Self>, table: TableId) -> Result<(), Error> {
        while !self.gate.is_closed() {
            let _turn = self.turn.acquire(1).await;
            let next = self.next_task(table);
            self.weigh(table);
            let Some((set, task, job)) = next else { return Ok(()) };
            let inputs: Vec<Candidate> = job.inputs.iter().map(|input| candidate(input, 0)).collect();
            let done = match task.kind {
                TaskKind::Expired => self.drop_expired(job).await?,
                kind => self.compact(job, kind).await?,
            };
            if done == CompactionOutcome::default() {
                return Ok(());
            }
            let tables = self.tables.borrow();
            let Some(state) = tables.get(&table) else { return Ok(()) };
            let is_output = |sstable: &&Rc<OpenSstable>| done.outputs.contains(&sstable.number);
            let outputs = state.view.sstables.iter().filter(is_output).map(|sstable| candidate(sstable, 0));
            let outputs: Vec<Candidate> = outputs.collect();
            let mut strategies = self.strategies.borrow_mut();
            if let Some(picker) = strategies.get_mut(&table).and_then(|strategy| strategy.pickers.get_mut(&set)) {
                picker.done(&task, &inputs, &outputs);
            }
        }
        Ok(())
    }

    /// The next compaction that the strategy of a table wants.
    fn next_task(&self, table: TableId) -> Option<(RepairSet, Task, CompactionJob)> {
        let tables = self.tables.borrow();
        let state = tables.get(&table)?;
        let options = CompactionOptions::of(&state.table.options.compaction);
        if !options.common.enabled || !self.is_automatic(table) {
            return None;
        }
        RepairSet::COMPACTED.into_iter().find_map(|set| {
            let (candidates, moment) = self.moment_of(state, set);
            let pick = |picker: &mut Picker| picker.pick(&candidates, &moment, 1);
            let task = self.with_picker(table, set, options.clone(), &moment, pick).pop()?;
            let job = job_of(state, &task);
            Some((set, task, job))
        })
    }

    fn is_automatic(&self, table: TableId) -> bool {
        self.strategies.borrow().get(&table).is_none_or(|strategy| strategy.is_automatic)
    }

    /// Calls `ask` with the table's picker of a set, which is made first if there is none or the options have changed.
    pub(super) fn with_picker<T>(
        &self,
        table: TableId,
        set: RepairSet,
        options: CompactionOptions,
        moment: &Moment,
        ask: impl FnOnce(&mut Picker) -> T,
    ) -> T {
        let mut strategies = self.strategies.borrow_mut();
        let strategy = strategies.entry(table).or_default();
        strategy.pickers.retain(|_, picker| *picker.options() == options);
        ask(strategy.pickers.entry(set).or_insert_with(|| Picker::new(options, moment.now)))
    }

    /// The SSTables of a set, from which the table's picker chooses, and the moment of the choice.
    pub(super) fn moment_of(&self, state: &TableState, set: RepairSet) -> (Vec<Candidate>, Moment) {
        let now = now_in_seconds();
        let gc_before = state.gc_before(now);
        let is_one = |sstable: &&Rc<OpenSstable>| !sstable.foreign && RepairSet::of(sstable) == set;
        let own = state.view.sstables.iter().filter(is_one);
        let candidates: Vec<Candidate> = own.map(|sstable| candidate(sstable, gc_before.latest())).collect();
        let in_memory = std::iter::once(&state.memtable).chain(&state.view.flushing);
        let in_memory = in_memory.filter(|memtable| !memtable.read().partitions.is_empty()).count();
        // Memtables do not keep their smallest timestamp. Foreign SSTables and those of other sets are no candidates,
        // but deletions in candidates may shadow data in them, as in those that could not be opened.
        let others = state.view.sstables.iter().filter(|sstable| !is_one(sstable));
        let oldest_other = others.map(|sstable| sstable.reader.metadata().statistics.min_timestamp).min();
        let moment = Moment {
            now,
            gc_before: gc_before.earliest(),
            memtable_min_timestamp: match in_memory > 0 || !state.view.unopened.is_empty() {
                true => Some(i64::MIN),
                false => oldest_other,
            },
            flush_bytes: self.flush_bytes.get(),
        };
        (candidates, moment)
    }

    /// Runs a compaction, unless it has no inputs. The caller holds the permit of [`Compactor::turn`].
    pub(super) async fn compact(
        self: &Rc<Self>,
        job: CompactionJob,
        kind: TaskKind,
    ) -> Result<CompactionOutcome, Error> {
        if job.inputs.is_empty() {
            return Ok(CompactionOutcome::default());
        }
        let (table, inputs) = (job.table, job.inputs.len());
        let tracked = TrackedCompaction::new(self, table, kind, &job.inputs);
        self.weigh(table);
        let outcome = self.run(job, now_in_seconds(), &tracked).await;
        tracked.done(&outcome);
        self.weigh(table);
        let done = outcome?;
        tracing::info!(%table, inputs, ?done, "compacted");
        Ok(done)
    }

    async fn drop_expired(self: &Rc<Self>, job: CompactionJob) -> Result<CompactionOutcome, Error> {
        let tracked = TrackedCompaction::new(self, job.table, TaskKind::Expired, &job.inputs);
        let table = job.table;
        let outcome = self.run_expired(job).await;
        tracked.done(&outcome);
        self.weigh(table);
        outcome
    }

    /// Estimates again how many tasks a table's strategy has to do, and updates the shares of compactions.
    fn weigh(&self, table: TableId) {
        let tasks = self.tables.borrow().get(&table).map_or(0, |state| self.pending_of(state));
        let mut waiting = self.waiting_tasks.borrow_mut();
        match tasks {
            0 => waiting.remove(&table),
            tasks => waiting.insert(table, tasks),
        };
        let tasks = waiting.values().fold(self.activity.asked_for(), |sum, tasks| sum.saturating_add(*tasks));
        runtime::set_shares(Class::Background, shares_of(tasks));
    }

    /// An estimate of how many tasks the strategy of a table still has to do; 0 if it does not run by itself.
    fn pending_of(&self, state: &TableState) -> usize {
        let strategies = self.strategies.borrow();
        let strategy = strategies.get(&state.table.id).filter(|strategy| strategy.is_automatic);
        let Some(pickers) = strategy.map(|strategy| &strategy.pickers) else { return 0 };
        let now = now_in_seconds();
        let gc_before = state.gc_before(now);
        let flush_bytes = self.flush_bytes.get();
        let moment = Moment { now, gc_before: gc_before.earliest(), memtable_min_timestamp: None, flush_bytes };
        let pending = pickers.iter().map(|(set, picker)| {
            let own = state.view.sstables.iter().filter(|sstable| !sstable.foreign && RepairSet::of(sstable) == *set);
            let candidates: Vec<Candidate> = own.map(|sstable| candidate(sstable, gc_before.latest())).collect();
            picker.pending(&candidates, &moment)
        });
        pending.sum()
    }

    /// Estimates of how many tasks the tables' strategies still have to do; tables without any are missing.
    pub(super) fn pending(&self) -> BTreeMap<TableId, usize> {
        let tables = self.tables.borrow();
        let counted = tables.iter().map(|(id, state)| (*id, self.pending_of(state)));
        counted.filter(|(_, count)| *count > 0).collect()
    }
}

/// The job for a task, with the inputs that the table still has.
pub(super) fn job_of(state: &TableState, task: &Task) -> CompactionJob {
    let is_input = |sstable: &&Rc<OpenSstable>| task.inputs.contains(&sstable.number);
    CompactionJob {
        table: state.table.id,
        inputs: state.view.sstables.iter().filter(is_input).cloned().collect(),
        level: task.output_level,
        output_bytes_max: task.output_bytes_max.unwrap_or(u64::MAX),
        boundaries: task.output_boundaries.clone(),
        owned: None,
        set_apart: None,
    }
}

/// The sets that a table has SSTables of.
pub(super) fn sets_of(state: &TableState) -> BTreeSet<RepairSet> {
    let own = state.view.sstables.iter().filter(|sstable| !sstable.foreign);
    own.map(|sstable| RepairSet::of(sstable)).collect()
}

/// Describes an SSTable for pickers. What it has of deletions that may be forgotten is estimated for this second.
fn candidate(sstable: &OpenSstable, gc_before: i64) -> Candidate {
    let statistics = &sstable.reader.metadata().statistics;
    let descriptor = sstable.reader.descriptor();
    let (first, last) = sstable.tokens();
    let lives_for_ever = statistics.max_local_deletion_time >= i32::MAX as u32;
    Candidate {
        id: sstable.number,
        bytes: sstable.data_bytes,
        level: statistics.level,
        min_timestamp: statistics.min_timestamp,
        max_timestamp: statistics.max_timestamp,
        first,
        last,
        droppable_ratio: statistics.droppable_ratio(gc_before).unwrap_or(0.0),
        max_local_deletion_time: if lives_for_ever { i64::MAX } else { statistics.max_local_deletion_time.into() },
        created_at: sstable_id::made_at(&descriptor.id).unwrap_or(0),
        hotness: 0.0,
        repaired: statistics.repaired_at > 0,
        busy: false,
        suspect: sstable.suspect.get(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_backlog_gets_more_shares() {
        assert_eq!([0, 1, 2, 5, 9, 10, 11, usize::MAX].map(shares_of), [100, 100, 200, 500, 900, 1000, 1000, 1000]);
    }
}
