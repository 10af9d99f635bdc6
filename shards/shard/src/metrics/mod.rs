//! Metrics of a shard's work: how long reads and writes of each table take, how many rows and tombstones they meet, how
//! many partitions batches have, how many statements run.
//!
//! [`operations`] has latencies by class of operation, for all tables together, with finer buckets; `running` the
//! requests under way; [`ShardMetrics`] describes a shard as a whole. `operations::metrics_gathering` asks all cores.
//!
//! A read or write that a client of this core makes in a partition of this core is recorded once, for both the
//! coordinator and the replica: it is one call on one core.
//!
//! Invariants: recording takes no lock, sends nothing and allocates only for the first value of a table; shards are
//! summed when metrics are asked for.

mod charges;
mod cidrs;
pub(crate) mod heavy_hitters;
pub(crate) mod histogram;
pub mod operations;
pub(crate) mod pools;
pub(crate) mod running;
pub(crate) mod sampling;
mod shard_metrics;

pub use charges::{Charges, HOT_SECONDS, HotKey, QuotaCharges, QuotaOwner, RelievedPartition, TableCharges};
pub use cidrs::CidrLatency;
pub use histogram::Distribution;
pub use operations::{Latency, Operation};
pub use pools::stages;
pub use running::RunningRequest;
pub use sampling::{SampleRequest, SampledKey, Samples};
pub use shard_metrics::{HintMetrics, RepairMetrics, ShardMetrics, StreamMetrics};

use crate::guards::tombstones::ScanCounts;
use cidrs::CidrLatencies;
use cluster::speculation::SpeculativeRetry;
use histogram::Histogram;
use model::{Mutation, Table, TableId};
use operations::Latencies;
use running::Running;
use runtime::Instant;
use runtime::metrics::Counter;
use sampling::Sampling;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often the times are worked out that reads of a table wait before they turn to further replicas.
const PATIENCE_INTERVAL: Duration = Duration::from_secs(1);
/// Tables for which a shard has room at first.
const TABLES_MIN: usize = 64;

/// A measure of the work with a table. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Measure {
    /// Reads of one partition, in the store.
    LocalRead,
    /// Reads of a range, in the store.
    LocalScan,
    /// Writes, in log and memtable.
    LocalWrite,
    /// Reads of one partition, as their coordinator sees them.
    CoordinatorRead,
    /// Pages of a range, as their coordinator sees them.
    CoordinatorScan,
    /// Writes, as their coordinator sees them.
    CoordinatorWrite,
    /// Rounds of Paxos before reads at SERIAL, as their coordinator sees them.
    CasRead,
    /// Conditional changes, as their coordinator sees them.
    CasWrite,
    /// Live rows that a read of the store met.
    Rows,
    /// Tombstones that a read of the store met.
    Tombstones,
    /// Reads that asked one more replica because answers were late: how long they had waited.
    SpeculativeRetry,
}

/// One per [`Measure`], and two for reads and writes that are local and coordinated at once.
const KINDS: usize = 13;
const READ_HERE: usize = 11;
const WRITE_HERE: usize = 12;

impl Measure {
    /// The class of operations whose latency this measures; `None` if it does not measure time.
    fn operation(self) -> Option<Operation> {
        Some(match self {
            Measure::LocalRead => Operation::LocalRead,
            Measure::LocalScan => Operation::LocalRange,
            Measure::LocalWrite => Operation::LocalWrite,
            Measure::CoordinatorRead => Operation::Read,
            Measure::CoordinatorScan => Operation::Range,
            Measure::CoordinatorWrite => Operation::Write,
            Measure::CasRead => Operation::CasRead,
            Measure::CasWrite => Operation::CasWrite,
            Measure::Rows | Measure::Tombstones | Measure::SpeculativeRetry => return None,
        })
    }
}

/// The histograms of one table, by measure, and how long its reads wait for answers, and then for acknowledgements of
/// repairs, before they turn to further replicas.
#[derive(Default)]
struct TableHistograms([Histogram; KINDS], [Cell<TablePatience>; 2]);

/// The positions of the times that reads wait.
const FOR_ANSWERS: usize = 0;
const FOR_REPAIRS: usize = 1;

/// When the time that reads wait was worked out, and that time; `None` for as long as a request lasts.
#[derive(Clone, Copy, Default)]
struct TablePatience {
    at: Option<Instant>,
    delay: Option<Duration>,
}

impl TableHistograms {
    fn record(&self, measure: Measure, value: u64, now: Instant) {
        self.0[measure as usize].record(value, now);
    }

    fn met(&self, met: ScanCounts, now: Instant) {
        self.record(Measure::Rows, met.live, now);
        self.record(Measure::Tombstones, met.dead, now);
    }

    fn distribution(&self, measure: Measure, now: Instant) -> Distribution {
        let mut distribution = self.0[measure as usize].distribution(now);
        let here = match measure {
            Measure::LocalRead | Measure::CoordinatorRead => READ_HERE,
            Measure::LocalWrite | Measure::CoordinatorWrite => WRITE_HERE,
            _ => return distribution,
        };
        distribution.add(&self.0[here].distribution(now));
        distribution
    }
}

/// Histograms by table, in an open hash table by id with linear probing, at most half full.
struct Tables {
    places: Vec<Option<(TableId, Box<TableHistograms>)>>,
    taken: usize,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables { places: std::iter::repeat_with(|| None).take(TABLES_MIN).collect(), taken: 0 }
    }
}

/// A hash of an id: ids made on one machine differ only in their first half.
fn hash(id: &TableId) -> usize {
    let bits = u128::from_le_bytes(id.0);
    let folded = (bits ^ (bits >> 64)) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl Tables {
    /// The slot of a table, or the free slot where it belongs.
    fn place(&self, id: &TableId) -> usize {
        let mask = self.places.len() - 1;
        let mut place = hash(id) & mask;
        while self.places[place].as_ref().is_some_and(|(other, _)| other != id) {
            place = (place + 1) & mask;
        }
        place
    }

    fn put(&mut self, id: TableId, histograms: Box<TableHistograms>) -> usize {
        if (self.taken + 1) * 2 > self.places.len() {
            let room = self.places.len() * 2;
            let before = std::mem::replace(&mut self.places, std::iter::repeat_with(|| None).take(room).collect());
            for (id, histograms) in before.into_iter().flatten() {
                let place = self.place(&id);
                self.places[place] = Some((id, histograms));
            }
        }
        let place = self.place(&id);
        self.places[place] = Some((id, histograms));
        self.taken += 1;
        place
    }

    fn remove(&mut self, gone: &[TableId]) {
        let before = std::mem::take(self);
        for (id, histograms) in before.places.into_iter().flatten().filter(|(id, _)| !gone.contains(id)) {
            self.put(id, histograms);
        }
    }
}

/// The metrics of one shard.
#[derive(Default)]
pub(crate) struct Metrics {
    tables: RefCell<Tables>,
    latencies: Latencies,
    /// Partitions per logged, unlogged and counter batch.
    pub(crate) logged_batches: Histogram,
    pub(crate) unlogged_batches: Histogram,
    pub(crate) counter_batches: Histogram,
    /// Which partitions are read and written most, while somebody asks.
    pub(crate) sampling: Sampling,
    /// Looking after the addresses of clients.
    pub(crate) cidrs: CidrLatencies,
    /// Prepared statements that were run.
    pub(crate) prepared_runs: Counter,
    pub(crate) regular_runs: Counter,
    /// Prepared statements evicted from the cache.
    pub(crate) prepared_evicted: Counter,
    /// Mutations that other nodes did not write in time, or at all.
    pub(crate) mutations_missed: Counter,
    /// Logged batches that were applied again, because their coordinators had not removed them in time.
    pub(crate) batches_replayed: Counter,
    /// Logged batches that were given up, because they were older than the `gc_grace_seconds` of a table.
    pub(crate) batches_expired: Counter,
    pub(crate) running: Running,
    /// Reads for which replicas were written what they lacked.
    pub(crate) reads_repaired: Counter,
    /// Repairs of partitions that were sent to further replicas, because others were late or failed.
    pub(crate) repairs_speculated: Counter,
    /// What repairs that this core leads have found and done.
    pub(crate) repairs: RepairCounters,
    /// Damaged SSTables whose rows have come from other replicas.
    pub(crate) sstables_healed: Counter,
    /// Reads whose replicas gave different digests, of tables whose replicas are repaired by that.
    pub(crate) digests_differed: Counter,
    /// Reads that asked one more replica because answers were late.
    pub(crate) reads_speculated: Counter,
    /// Reads of hot partitions that were answered by an equal one.
    pub(crate) reads_joined: Counter,
    /// Reads of hot partitions that have asked other replicas than the nearest.
    pub(crate) reads_spread: Counter,
}

/// What repairs have found and done, by the numbers of their outcomes.
#[derive(Default)]
pub(crate) struct RepairCounters {
    pub(crate) partitions: Counter,
    pub(crate) bytes: Counter,
    pub(crate) differing: Counter,
    pub(crate) hash_bytes: Counter,
    pub(crate) read_bytes: Counter,
    pub(crate) written_bytes: Counter,
}

impl Metrics {
    fn with<R>(&self, id: &TableId, f: impl FnOnce(&TableHistograms) -> R) -> R {
        {
            let tables = self.tables.borrow();
            if let Some((_, histograms)) = &tables.places[tables.place(id)] {
                return f(histograms);
            }
        }
        let mut tables = self.tables.borrow_mut();
        let place = tables.put(*id, Box::default());
        match &tables.places[place] {
            Some((_, histograms)) => f(histograms),
            None => f(&TableHistograms::default()),
        }
    }

    /// How long reads of a table wait for answers before they ask one more replica, by its `speculative_retry`; `None`
    /// for as long as a request lasts. While no latency of the table is known, or a longer one, it is taken for
    /// `latency_max`.
    pub(crate) fn read_patience(&self, table: &Table, latency_max: Duration) -> Option<Duration> {
        let policy = &table.options.speculative_retry;
        self.patience(table, FOR_ANSWERS, policy, Measure::CoordinatorRead, latency_max)
    }

    /// How long reads of a table wait for replicas that they have sent repairs, before they send these to further ones,
    /// by its `additional_write_policy` and the latency of its writes; otherwise as [`Metrics::read_patience`].
    pub(crate) fn repair_patience(&self, table: &Table, latency_max: Duration) -> Option<Duration> {
        let policy = &table.options.additional_write_policy;
        self.patience(table, FOR_REPAIRS, policy, Measure::CoordinatorWrite, latency_max)
    }

    fn patience(
        &self,
        table: &Table,
        at: usize,
        policy: &str,
        measure: Measure,
        latency_max: Duration,
    ) -> Option<Duration> {
        let now = runtime::now();
        self.with(&table.id, |histograms| {
            let known = histograms.1[at].get();
            if known.at.is_some_and(|at| now.since(at) < PATIENCE_INTERVAL) {
                return known.delay;
            }
            let latency = |part| {
                let operations = histograms.distribution(measure, now);
                (operations.count > 0).then(|| Duration::from_nanos(operations.percentile(part)))
            };
            let policy = SpeculativeRetry::parse(policy);
            let delay = policy.and_then(|policy| policy.delay(latency, latency_max));
            histograms.1[at].set(TablePatience { at: Some(now), delay });
            delay
        })
    }

    /// Records an operation on a table that started at `began`.
    pub(crate) fn took(&self, id: &TableId, measure: Measure, began: Instant) {
        let now = runtime::now();
        self.with(id, |table| table.record(measure, nanos(began, now), now));
        self.operated(measure, began, now);
    }

    fn operated(&self, measure: Measure, began: Instant, now: Instant) {
        if let Some(operation) = measure.operation() {
            self.latencies.record(operation as usize, nanos(began, now), now);
        }
    }

    /// Records a read of the store that was made for another core or is a part of a longer read.
    pub(crate) fn read(&self, id: &TableId, measure: Measure, began: Instant, met: ScanCounts) {
        let now = runtime::now();
        self.with(id, |table| {
            table.record(measure, nanos(began, now), now);
            table.met(met, now);
        });
        self.operated(measure, began, now);
    }

    /// Records a read of one partition that a client of this core made.
    pub(crate) fn read_here(&self, id: &TableId, began: Instant, met: ScanCounts) {
        let now = runtime::now();
        self.with(id, |table| {
            table.0[READ_HERE].record(nanos(began, now), now);
            table.met(met, now);
        });
        self.latencies.record(operations::READ_HERE, nanos(began, now), now);
    }

    /// Records a write of the store; `here`: a client of this core made it.
    pub(crate) fn wrote(&self, ids: &WrittenTables, here: bool, began: Instant) {
        let now = runtime::now();
        let (kind, place) = match here {
            true => (WRITE_HERE, operations::WRITE_HERE),
            false => (Measure::LocalWrite as usize, Operation::LocalWrite as usize),
        };
        for id in ids.0.iter().chain(&ids.1) {
            self.with(id, |table| table.0[kind].record(nanos(began, now), now));
        }
        self.latencies.record(place, nanos(began, now), now);
    }

    /// Records a write as its coordinator sees it, where the store's part is recorded separately; `counts`: it changes
    /// counters.
    pub(crate) fn coordinated(&self, ids: &WrittenTables, counts: bool, began: Instant) {
        let now = runtime::now();
        let measure = Measure::CoordinatorWrite;
        for id in ids.0.iter().chain(&ids.1) {
            self.with(id, |table| table.record(measure, nanos(began, now), now));
        }
        let operation = if counts { Operation::CounterWrite } else { Operation::Write };
        self.latencies.record(operation as usize, nanos(began, now), now);
    }

    /// Forgets dropped tables.
    pub(crate) fn forget(&self, gone: &[TableId]) {
        if !gone.is_empty() {
            self.tables.borrow_mut().remove(gone);
        }
    }

    /// The latency of a class of operations.
    pub(crate) fn latency(&self, operation: Operation, now: Instant) -> Latency {
        self.latencies.latency(operation, now)
    }

    /// The distributions of `measures` for every table that was used.
    pub(crate) fn tables(&self, measures: &[Measure]) -> TableMetrics {
        let now = runtime::now();
        let tables = self.tables.borrow();
        let of = |table: &TableHistograms| measures.iter().map(|&m| (m, table.distribution(m, now))).collect();
        tables.places.iter().flatten().map(|(id, histograms)| (*id, of(histograms))).collect()
    }

    /// The metrics of requests; `prepared`: the number of prepared statements; `cidr_accesses`: of logins.
    pub(crate) fn requests(&self, prepared: usize, cidr_accesses: BTreeMap<String, u64>) -> RequestMetrics {
        let now = runtime::now();
        RequestMetrics {
            logged_batches: self.logged_batches.distribution(now),
            unlogged_batches: self.unlogged_batches.distribution(now),
            counter_batches: self.counter_batches.distribution(now),
            prepared_runs: self.prepared_runs.get(),
            regular_runs: self.regular_runs.get(),
            prepared_evicted: self.prepared_evicted.get(),
            prepared: prepared as u64,
            running: self.running.list(),
            cidr_accesses,
            cidr_latencies: self.cidrs.distributions(now),
        }
    }
}

fn nanos(began: Instant, now: Instant) -> u64 {
    now.0.saturating_sub(began.0)
}

/// The tables that a mutation changes: the first, and the rest, mostly none.
#[derive(Default)]
pub(crate) struct WrittenTables(Option<TableId>, Vec<TableId>);

impl WrittenTables {
    /// The tables of a mutation.
    pub(crate) fn of(mutation: &Mutation) -> WrittenTables {
        let mut written = WrittenTables::default();
        mutation.updates().for_each(|update| written.push(update.table));
        written
    }

    pub(crate) fn push(&mut self, id: TableId) {
        match self.0 {
            None => self.0 = Some(id),
            Some(_) => self.1.push(id),
        }
    }
}

/// Distributions by table and measure.
pub type TableMetrics = BTreeMap<TableId, BTreeMap<Measure, Distribution>>;

/// Metrics of requests.
#[derive(Clone, Debug, Default)]
pub struct RequestMetrics {
    /// Partitions per logged batch.
    pub logged_batches: Distribution,
    /// Partitions per unlogged batch.
    pub unlogged_batches: Distribution,
    /// Partitions per counter batch.
    pub counter_batches: Distribution,
    /// Prepared statements that were run.
    pub prepared_runs: u64,
    /// Other statements that were run.
    pub regular_runs: u64,
    /// Prepared statements that were evicted.
    pub prepared_evicted: u64,
    /// Prepared statements in the cache; each core has all of them.
    pub prepared: u64,
    /// Requests under way.
    pub running: Vec<RunningRequest>,
    /// Logins by the groups of their addresses, by the names of `system_views.cidr_filtering_metrics_counts`.
    pub cidr_accesses: BTreeMap<String, u64>,
    /// How long it took to look after addresses, in the order of [`CidrLatency::ALL`].
    pub cidr_latencies: [Distribution; 3],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> TableId {
        let mut id = [7; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        TableId(id)
    }

    #[test]
    fn tables_are_found_and_forgotten() {
        let metrics = Metrics::default();
        for number in 0..200 {
            let now = Instant(1);
            (0..=number).for_each(|_| metrics.with(&id(number), |table| table.record(Measure::LocalScan, 3, now)));
        }
        let count =
            |number| metrics.with(&id(number), |table| table.distribution(Measure::LocalScan, Instant(1)).count);
        assert!((0..200).all(|number| count(number) == u64::from(number) + 1));
        metrics.forget(&[id(5), id(7)]);
        assert_eq!((count(4), count(5), count(6), count(199)), (5, 0, 7, 200));
    }

    #[test]
    fn what_is_done_here_counts_for_both_sides() {
        let table = TableHistograms::default();
        let now = Instant(1);
        table.0[READ_HERE].record(10, now);
        table.0[WRITE_HERE].record(10, now);
        table.record(Measure::LocalRead, 10, now);
        let count = |measure| table.distribution(measure, now).count;
        assert_eq!((count(Measure::LocalRead), count(Measure::CoordinatorRead)), (2, 1));
        assert_eq!((count(Measure::LocalWrite), count(Measure::CoordinatorWrite)), (1, 1));
        assert_eq!((count(Measure::LocalScan), count(Measure::Rows)), (0, 0));
    }
}
