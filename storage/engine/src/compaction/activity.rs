//! What the compactions of a shard are doing and have done, for tools and system tables.
//!
//! Records of finished compactions wait in a queue until a caller stores them in a table
//! ([`crate::Store::compacted`]); if too many wait, the oldest are dropped. The fifteen-minute rate is an
//! exponentially weighted average with ticks of five seconds, as in Cassandra's metrics library.

use super::TaskKind;
use super::compactor::Compactor;
use super::run::CompactionOutcome;
use crate::error::Error;
use crate::sstables::open_sstable::OpenSstable;
use model::TableId;
use runtime::Instant;
use runtime::sync::Condition;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// Most records in the queue.
pub const RECORDS_MAX: usize = 1024;
/// The interval at which the average rate is updated.
const TICK: Duration = Duration::from_secs(5);
/// The period that the average rate covers, seconds.
const WINDOW_SECONDS: f64 = 15.0 * 60.0;

/// The record of a finished compaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionRecord {
    /// A time UUID that identifies the compaction.
    pub id: Uuid,
    /// The table's keyspace.
    pub keyspace: String,
    /// The table's name.
    pub table: String,
    /// When the compaction ended, milliseconds since 1970.
    pub at_millis: i64,
    /// Bytes of the inputs' Data.db on disk.
    pub bytes_in: u64,
    /// Bytes of the outputs' Data.db on disk.
    pub bytes_out: u64,
    /// By number of SSTables: how many partitions were merged from that many.
    pub merged: BTreeMap<u32, u64>,
    /// Why it was run.
    pub kind: TaskKind,
}

/// A compaction under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningCompaction {
    /// The id that its [`CompactionRecord`] will have.
    pub id: Uuid,
    /// The table that is compacted.
    pub table: TableId,
    /// The directory that it writes to.
    pub directory: PathBuf,
    /// Why it is run.
    pub kind: TaskKind,
    /// The number of inputs.
    pub sstables: usize,
    /// Bytes of the inputs' Data.db before compression.
    pub total_bytes: u64,
    /// Bytes of the inputs' Data.db on disk.
    pub stored_bytes: u64,
    /// An estimate of how many of `total_bytes` were read so far.
    pub read_bytes: u64,
}

/// The compactions of a shard since its start. Values of several shards can be added up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CompactionStatistics {
    /// Compactions that succeeded.
    pub completed: u64,
    /// Compactions that failed.
    pub failed: u64,
    /// Bytes of all inputs' Data.db before compression.
    pub data_bytes: u64,
    /// Bytes of all inputs' Data.db on disk.
    pub stored_bytes: u64,
    /// Compactions per second, averaged over the last fifteen minutes.
    pub recent_rate: f64,
    /// Compactions per second since the start.
    pub mean_rate: f64,
    /// How many tasks the tables' strategies still have to do, estimated; tables without any are missing.
    pub pending: BTreeMap<TableId, usize>,
    /// The compactions that are running.
    pub running: Vec<RunningCompaction>,
}

impl CompactionStatistics {
    /// Adds the values of another shard.
    pub fn add(&mut self, other: &CompactionStatistics) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.data_bytes += other.data_bytes;
        self.stored_bytes += other.stored_bytes;
        self.recent_rate += other.recent_rate;
        self.mean_rate += other.mean_rate;
        for (table, count) in &other.pending {
            *self.pending.entry(*table).or_default() += count;
        }
        self.running.extend(other.running.iter().cloned());
    }
}

/// The progress of a running compaction.
struct RunProgress {
    id: Uuid,
    table: TableId,
    directory: PathBuf,
    kind: TaskKind,
    sstables: usize,
    /// Bytes of the inputs' Data.db: `data_bytes` before compression, `stored_bytes` on disk.
    data_bytes: u64,
    stored_bytes: u64,
    /// Bytes of Data.db on disk that were read so far.
    read_bytes: Cell<u64>,
    /// By number of SSTables: how many partitions were merged from that many.
    merged: RefCell<BTreeMap<u32, u64>>,
}

/// A running compaction, which the shard's [`Activity`] shows until this is dropped.
pub(crate) struct TrackedCompaction {
    compactor: Rc<Compactor>,
    progress: Rc<RunProgress>,
}

impl TrackedCompaction {
    pub(crate) fn new(
        compactor: &Rc<Compactor>,
        table: TableId,
        kind: TaskKind,
        inputs: &[Rc<OpenSstable>],
    ) -> TrackedCompaction {
        let own = |input: &Rc<OpenSstable>| compactor.files.directory_of(input.reader.table());
        let progress = Rc::new(RunProgress {
            id: crate::sstables::sstable_id::time_uuid(),
            table,
            directory: inputs.first().map(own).unwrap_or_default(),
            kind,
            sstables: inputs.len(),
            data_bytes: inputs.iter().map(|input| input.reader.data_len()).sum(),
            stored_bytes: inputs.iter().map(|input| input.data_bytes).sum(),
            read_bytes: Cell::new(0),
            merged: RefCell::default(),
        });
        compactor.activity.running.borrow_mut().push(progress.clone());
        TrackedCompaction { compactor: compactor.clone(), progress }
    }

    /// Counts bytes of Data.db that were read.
    pub(crate) fn read(&self, bytes: u64) {
        self.progress.read_bytes.set(self.progress.read_bytes.get() + bytes);
    }

    /// Counts a partition that was merged from `sources` SSTables.
    pub(crate) fn merged(&self, sources: usize) {
        *self.progress.merged.borrow_mut().entry(sources as u32).or_default() += 1;
    }

    /// Records how the compaction ended.
    pub(crate) fn done(self, outcome: &Result<CompactionOutcome, Error>) {
        let (activity, progress) = (&self.compactor.activity, &self.progress);
        let done = match outcome {
            // The table was dropped or truncated during the compaction.
            Ok(done) if *done == CompactionOutcome::default() => return,
            Ok(done) => done,
            Err(_) => {
                activity.failed.set(activity.failed.get() + 1);
                return;
            }
        };
        let described = self.compactor.tables.description(progress.table);
        let Ok(table) = described else { return };
        activity.data_bytes.set(activity.data_bytes.get() + progress.data_bytes);
        activity.stored_bytes.set(activity.stored_bytes.get() + progress.stored_bytes);
        activity.done(CompactionRecord {
            id: progress.id,
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            at_millis: runtime::wall_micros().div_euclid(1000),
            bytes_in: done.bytes_in,
            bytes_out: done.bytes_out,
            merged: progress.merged.take(),
            kind: progress.kind,
        });
        activity.recorded.notify();
    }
}

impl Drop for TrackedCompaction {
    fn drop(&mut self) {
        self.compactor.activity.running.borrow_mut().retain(|running| !Rc::ptr_eq(running, &self.progress));
    }
}

impl RunProgress {
    fn shown(&self) -> RunningCompaction {
        let part = self.read_bytes.get() as f64 / self.stored_bytes.max(1) as f64;
        RunningCompaction {
            id: self.id,
            table: self.table,
            directory: self.directory.clone(),
            kind: self.kind,
            sstables: self.sstables,
            total_bytes: self.data_bytes,
            stored_bytes: self.stored_bytes,
            read_bytes: (self.data_bytes as f64 * part.min(1.0)) as u64,
        }
    }
}

/// The running compactions, and counters of the finished ones.
pub(crate) struct Activity {
    began: Instant,
    running: RefCell<Vec<Rc<RunProgress>>>,
    records: RefCell<VecDeque<CompactionRecord>>,
    /// How many records were taken from the queue and may not have been stored yet.
    taken: Cell<usize>,
    /// Notified when `records` grows, and when what was taken has been stored.
    recorded: Rc<Condition>,
    completed: Cell<u64>,
    failed: Cell<u64>,
    data_bytes: Cell<u64>,
    stored_bytes: Cell<u64>,
    rate: Cell<Rate>,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        let now = runtime::now();
        Activity {
            began: now,
            running: RefCell::default(),
            records: RefCell::default(),
            taken: Cell::new(0),
            recorded: Rc::default(),
            completed: Cell::new(0),
            failed: Cell::new(0),
            data_bytes: Cell::new(0),
            stored_bytes: Cell::new(0),
            rate: Cell::new(Rate { ticked: now, uncounted: 0, per_second: None }),
        }
    }

    /// Wakes callers that wait for records, so that they see that the gate was shut.
    pub(super) fn notify(&self) {
        self.recorded.notify();
    }

    /// How many major compactions are running.
    pub(crate) fn asked_for(&self) -> usize {
        self.running.borrow().iter().filter(|running| running.kind == TaskKind::Major).count()
    }

    /// Counts a finished compaction and queues its record.
    fn done(&self, record: CompactionRecord) {
        self.completed.set(self.completed.get() + 1);
        let mut rate = self.rate.get();
        rate.tick(runtime::now());
        rate.uncounted += 1;
        self.rate.set(rate);
        let mut records = self.records.borrow_mut();
        if records.len() == RECORDS_MAX {
            records.pop_front();
        }
        records.push_back(record);
    }
}

/// An exponentially weighted average rate.
#[derive(Clone, Copy)]
struct Rate {
    ticked: Instant,
    uncounted: u64,
    per_second: Option<f64>,
}

impl Rate {
    fn tick(&mut self, now: Instant) {
        let ticks = now.since(self.ticked).as_nanos() / TICK.as_nanos();
        if ticks == 0 {
            return;
        }
        self.ticked = self.ticked.after(TICK.saturating_mul(ticks.min(u128::from(u32::MAX)) as u32));
        let alpha = 1.0 - (-TICK.as_secs_f64() / WINDOW_SECONDS).exp();
        let first = std::mem::take(&mut self.uncounted) as f64 / TICK.as_secs_f64();
        let after_first = match self.per_second {
            None => first,
            Some(rate) => rate + alpha * (first - rate),
        };
        self.per_second = Some(after_first * (1.0 - alpha).powf((ticks - 1) as f64));
    }
}

impl Compactor {
    /// The running compactions and the counters of the finished ones.
    pub(crate) fn statistics(&self) -> CompactionStatistics {
        let activity = &self.activity;
        let now = runtime::now();
        let mut rate = activity.rate.get();
        rate.tick(now);
        activity.rate.set(rate);
        let seconds = now.since(activity.began).as_secs_f64();
        let completed = activity.completed.get();
        CompactionStatistics {
            completed,
            failed: activity.failed.get(),
            data_bytes: activity.data_bytes.get(),
            stored_bytes: activity.stored_bytes.get(),
            recent_rate: rate.per_second.unwrap_or_default(),
            mean_rate: if seconds > 0.0 { completed as f64 / seconds } else { 0.0 },
            pending: self.pending(),
            running: activity.running.borrow().iter().map(|progress| progress.shown()).collect(),
        }
    }

    /// Waits for finished compactions and takes their records; returns none once the gate is shut. The caller has
    /// stored what it took before.
    pub(crate) async fn completed(&self) -> Vec<CompactionRecord> {
        let signal = self.activity.recorded.clone();
        self.activity.taken.set(0);
        signal.notify();
        signal
            .wait(|| {
                let records: Vec<CompactionRecord> = self.activity.records.borrow_mut().drain(..).collect();
                self.activity.taken.set(records.len());
                (!records.is_empty() || self.gate.is_closed()).then_some(records)
            })
            .await
    }

    /// Waits until the records of all finished compactions are stored, or the gate is shut.
    pub(crate) async fn stored(&self) {
        let activity = &self.activity;
        let is_stored = || activity.records.borrow().is_empty() && activity.taken.get() == 0;
        activity.recorded.wait(|| (is_stored() || self.gate.is_closed()).then_some(())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::mesh::NodeId;
    use runtime::sim::{Options, Sim};

    #[test]
    fn the_oldest_records_give_way() {
        let mut sim = Sim::new(1, Options::default());
        sim.run_node(NodeId(1), Duration::from_secs(60), || async {
            let activity = Activity::new();
            let record = |at_millis: usize| CompactionRecord {
                id: Uuid::nil(),
                keyspace: String::new(),
                table: String::new(),
                at_millis: at_millis as i64,
                bytes_in: 0,
                bytes_out: 0,
                merged: BTreeMap::new(),
                kind: TaskKind::Compaction,
            };
            let first = || activity.records.borrow().front().map(|record| record.at_millis);
            (0..RECORDS_MAX).for_each(|at| activity.done(record(at)));
            assert_eq!((activity.records.borrow().len(), first()), (RECORDS_MAX, Some(0)));
            activity.done(record(RECORDS_MAX));
            assert_eq!((activity.records.borrow().len(), first()), (RECORDS_MAX, Some(1)));
            assert_eq!(activity.completed.get(), RECORDS_MAX as u64 + 1);
        });
    }

    #[test]
    fn the_rate_decays_as_the_metrics_library_has_it() {
        let second = 1_000_000_000;
        let mut rate = Rate { ticked: Instant(0), uncounted: 0, per_second: None };
        rate.uncounted = 3;
        rate.tick(Instant(4 * second));
        assert_eq!(rate.per_second, None);
        rate.tick(Instant(5 * second));
        assert_eq!(rate.per_second, Some(0.6));
        // `EWMATest.aFifteenMinuteEWMAWithAValueOfThree`: after one minute 0.56130419.
        rate.tick(Instant(65 * second));
        assert!((rate.per_second.unwrap_or_default() - 0.561_304_19).abs() < 1e-6, "{:?}", rate.per_second);
        rate.tick(Instant(905 * second));
        assert!((rate.per_second.unwrap_or_default() - 0.220_727_66).abs() < 1e-6, "{:?}", rate.per_second);
    }
}
