//! Compactions of a shard, one at a time: those that the tables' strategies want. Those that someone asks for are in
//! `chosen`.
//!
//! After a flush, a compaction and a start the strategy of the table is asked what is next, until there is nothing. A table
//! whose compaction failed is asked again after its next flush.

use super::run::{self, Done, Job};
use super::{Candidate, Kind, Moment, Picker, Task, Tracked};
use crate::Error;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::sstable_id;
use crate::store::Inner;
use crate::tables::table_state::TableState;
use model::TableId;
use model::compaction::CompactionOptions;
use runtime::Class;
use std::rc::Rc;

/// Seconds since 1970.
fn now_in_seconds() -> i64 {
    runtime::wall_micros().div_euclid(1_000_000)
}

impl Inner {
    /// A table's SSTables have changed.
    pub(crate) fn want_compaction(&self, table: TableId) {
        self.to_compact.borrow_mut().insert(table);
        self.weigh_compactions(table);
        self.compaction_wanted.notify();
    }

    /// Starts the task that compacts.
    pub(crate) fn start_compactor(self: &Rc<Self>) {
        let inner = Rc::downgrade(self);
        runtime::spawn_in(Class::Background, async move {
            loop {
                let Some(signal) = inner.upgrade().map(|inner| inner.compaction_wanted.clone()) else { return };
                let wanted = signal
                    .wait(|| match inner.upgrade() {
                        None => Some(None),
                        Some(inner) if inner.gate.is_closed() => Some(None),
                        Some(inner) => inner.to_compact.borrow_mut().pop_first().map(Some),
                    })
                    .await;
                let (Some(table), Some(inner)) = (wanted, inner.upgrade()) else { return };
                let Some(_pass) = inner.gate.enter() else { return };
                if let Err(error) = inner.faults.noted(inner.compact_as_wanted(table).await) {
                    tracing::error!(%error, %table, "compaction failed");
                }
            }
        });
    }

    /// Runs what the strategy of a table wants, until it wants nothing.
    async fn compact_as_wanted(self: &Rc<Self>, table: TableId) -> Result<(), Error> {
        while !self.gate.is_closed() {
            let _turn = self.compaction_turn.acquire(1).await;
            let next = self.next_task(table);
            self.weigh_compactions(table);
            let Some((task, job)) = next else { return Ok(()) };
            let inputs: Vec<Candidate> = job.inputs.iter().map(|input| candidate(input, 0)).collect();
            let done = match task.kind {
                Kind::Expired => self.drop_expired(job).await?,
                kind => self.compact(job, kind).await?,
            };
            if done == Done::default() {
                return Ok(());
            }
            let mut tables = self.tables.borrow_mut();
            let Some(state) = tables.get_mut(&table) else { return Ok(()) };
            let is_output = |sstable: &&Rc<OpenSstable>| done.outputs.contains(&sstable.number);
            let outputs = state.view.sstables.iter().filter(is_output).map(|sstable| candidate(sstable, 0));
            let outputs: Vec<Candidate> = outputs.collect();
            if let Some(picker) = &mut state.picker {
                picker.done(&task, &inputs, &outputs);
            }
        }
        Ok(())
    }

    /// What the strategy of a table wants next.
    fn next_task(&self, table: TableId) -> Option<(Task, Job)> {
        let mut tables = self.tables.borrow_mut();
        let state = tables.get_mut(&table)?;
        let options = CompactionOptions::of(&state.table.options.compaction);
        if !options.common.enabled || !state.auto_compaction {
            return None;
        }
        let (candidates, moment) = self.moment_of(state);
        let task = picker_of(state, options, &moment).pick(&candidates, &moment, 1).pop()?;
        let job = job_of(state, &task);
        Some((task, job))
    }

    /// What a picker of a table chooses from, and when.
    pub(super) fn moment_of(&self, state: &TableState) -> (Vec<Candidate>, Moment) {
        let now = now_in_seconds();
        let gc_before = now - i64::from(state.table.options.gc_grace_seconds);
        let own = state.view.sstables.iter().filter(|sstable| !sstable.foreign);
        let candidates: Vec<Candidate> = own.map(|sstable| candidate(sstable, gc_before)).collect();
        let in_memory = std::iter::once(&state.memtable).chain(&state.view.flushing);
        let in_memory = in_memory.filter(|memtable| !memtable.read().partitions.is_empty()).count();
        // Memtables do not count their smallest timestamp. Foreign SSTables are no candidates, but what is deleted in others
        // may be in them.
        let foreign = state.view.sstables.iter().filter(|sstable| sstable.foreign);
        let oldest_foreign = foreign.map(|sstable| sstable.reader.metadata().statistics.min_timestamp).min();
        let moment = Moment {
            now,
            gc_before,
            memtable_min_timestamp: if in_memory > 0 { Some(i64::MIN) } else { oldest_foreign },
            flush_bytes: self.flushed_bytes.get(),
        };
        (candidates, moment)
    }

    /// Runs a job, if it has inputs. The caller has the turn.
    pub(crate) async fn compact(self: &Rc<Self>, job: Job, kind: Kind) -> Result<Done, Error> {
        if job.inputs.is_empty() {
            return Ok(Done::default());
        }
        let (table, inputs) = (job.table, job.inputs.len());
        let tracked = Tracked::new(self, table, kind, &job.inputs);
        self.weigh_compactions(table);
        let outcome = run::run(self, job, now_in_seconds(), &tracked).await;
        tracked.done(&outcome);
        self.weigh_compactions(table);
        let done = outcome?;
        tracing::info!(%table, inputs, ?done, "compacted");
        Ok(done)
    }
}

impl Inner {
    async fn drop_expired(self: &Rc<Self>, job: Job) -> Result<Done, Error> {
        let tracked = Tracked::new(self, job.table, Kind::Expired, &job.inputs);
        let table = job.table;
        let outcome = run::drop_expired(self, job).await;
        tracked.done(&outcome);
        self.weigh_compactions(table);
        outcome
    }

    /// How many tasks the strategy of a table expects to have yet.
    pub(crate) fn pending_of(&self, state: &TableState) -> usize {
        let Some(picker) = state.picker.as_ref().filter(|_| state.auto_compaction) else { return 0 };
        let now = now_in_seconds();
        let gc_before = now - i64::from(state.table.options.gc_grace_seconds);
        let own = state.view.sstables.iter().filter(|sstable| !sstable.foreign);
        let candidates: Vec<Candidate> = own.map(|sstable| candidate(sstable, gc_before)).collect();
        let flush_bytes = self.flushed_bytes.get();
        picker.pending(&candidates, &Moment { now, gc_before, memtable_min_timestamp: None, flush_bytes })
    }
}

/// The picker of a table's options, made anew when they have changed.
pub(super) fn picker_of<'s>(state: &'s mut TableState, options: CompactionOptions, moment: &Moment) -> &'s mut Picker {
    if state.picker.as_ref().is_some_and(|picker| *picker.options() != options) {
        state.picker = None;
    }
    state.picker.get_or_insert_with(|| Picker::new(options, moment.now))
}

/// A task with its inputs.
pub(super) fn job_of(state: &TableState, task: &Task) -> Job {
    let is_input = |sstable: &&Rc<OpenSstable>| task.inputs.contains(&sstable.number);
    Job {
        table: state.table.id,
        inputs: state.view.sstables.iter().filter(is_input).cloned().collect(),
        level: task.output_level,
        output_bytes_max: task.output_bytes_max.unwrap_or(u64::MAX),
        boundaries: task.output_boundaries.clone(),
    }
}

/// An SSTable as pickers see it.
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
