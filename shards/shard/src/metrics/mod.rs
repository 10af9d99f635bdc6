//! Figures of a shard's work: how long reads and writes of each table take and what they meet, what batches hold, how
//! often statements run.
//!
//! [`operations`] has the same by class of operation, all tables together, more finely. [`ShardFigures`] is all that a
//! shard tells.
//!
//! What is read and written here on behalf of the shard's own clients is recorded once, for both the coordinator and the
//! replica: they are the same core and the same call.
//!
//! Invariants: recording takes no lock, sends nothing and allocates at a table's first value only; shards are summed when
//! somebody looks.

pub(crate) mod histogram;
pub mod operations;
pub(crate) mod pools;
pub(crate) mod running;
mod shard_figures;

pub use histogram::Distribution;
pub use operations::{Latency, Operation};
pub use pools::stages;
pub use running::RunningRequest;
pub use shard_figures::ShardFigures;

use crate::Shard;
use crate::tombstones::Met;
use crate::verbs::{Reply, Request, unexpected};
use histogram::Histogram;
use model::{Failure, Mutation, TableId};
use operations::Latencies;
use running::Running;
use runtime::Instant;
use runtime::metrics::Counter;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Tables that a shard has room for at first.
const TABLES_MIN: usize = 64;

/// A figure of a table. Times are in nanoseconds.
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
    /// What reads at SERIAL decide before they are reads, as their coordinator sees it.
    CasRead,
    /// Conditional changes, as their coordinator sees them.
    CasWrite,
    /// Live rows that a read of the store met.
    Rows,
    /// Tombstones that a read of the store met.
    Tombstones,
}

/// [`Measure`] and two more: reads and writes that are local and coordinated at once.
const KINDS: usize = 12;
const READ_HERE: usize = 10;
const WRITE_HERE: usize = 11;

impl Measure {
    /// The class of operations that is measured; `None`: no time is.
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
            Measure::Rows | Measure::Tombstones => return None,
        })
    }
}

/// The figures of one table.
#[derive(Default)]
struct TableFigures([Histogram; KINDS]);

impl TableFigures {
    fn record(&self, measure: Measure, value: u64, now: Instant) {
        self.0[measure as usize].record(value, now);
    }

    fn met(&self, met: Met, now: Instant) {
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

/// Figures by table: places by a hash of the id, the next free one if it is taken; at most half of them are.
struct Tables {
    places: Vec<Option<(TableId, Box<TableFigures>)>>,
    taken: usize,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables { places: std::iter::repeat_with(|| None).take(TABLES_MIN).collect(), taken: 0 }
    }
}

/// Ids of tables that were made on one machine differ in their first half alone.
fn hash(id: &TableId) -> usize {
    let bits = u128::from_le_bytes(id.0);
    let folded = (bits ^ (bits >> 64)) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl Tables {
    /// The place of a table, or that where it belongs.
    fn place(&self, id: &TableId) -> usize {
        let mask = self.places.len() - 1;
        let mut place = hash(id) & mask;
        while self.places[place].as_ref().is_some_and(|(other, _)| other != id) {
            place = (place + 1) & mask;
        }
        place
    }

    fn put(&mut self, id: TableId, figures: Box<TableFigures>) -> usize {
        if (self.taken + 1) * 2 > self.places.len() {
            let room = self.places.len() * 2;
            let before = std::mem::replace(&mut self.places, std::iter::repeat_with(|| None).take(room).collect());
            for (id, figures) in before.into_iter().flatten() {
                let place = self.place(&id);
                self.places[place] = Some((id, figures));
            }
        }
        let place = self.place(&id);
        self.places[place] = Some((id, figures));
        self.taken += 1;
        place
    }

    fn remove(&mut self, gone: &[TableId]) {
        let before = std::mem::take(self);
        for (id, figures) in before.places.into_iter().flatten().filter(|(id, _)| !gone.contains(id)) {
            self.put(id, figures);
        }
    }
}

/// The figures of one shard.
#[derive(Default)]
pub(crate) struct Figures {
    tables: RefCell<Tables>,
    latencies: Latencies,
    /// Partitions per logged, unlogged and counter batch.
    pub(crate) logged_batches: Histogram,
    pub(crate) unlogged_batches: Histogram,
    pub(crate) counter_batches: Histogram,
    /// Statements that were run prepared, and others.
    pub(crate) prepared_runs: Counter,
    pub(crate) regular_runs: Counter,
    /// Prepared statements that had to go.
    pub(crate) prepared_evicted: Counter,
    pub(crate) running: Running,
}

impl Figures {
    fn with<R>(&self, id: &TableId, f: impl FnOnce(&TableFigures) -> R) -> R {
        {
            let tables = self.tables.borrow();
            if let Some((_, figures)) = &tables.places[tables.place(id)] {
                return f(figures);
            }
        }
        let mut tables = self.tables.borrow_mut();
        let place = tables.put(*id, Box::default());
        match &tables.places[place] {
            Some((_, figures)) => f(figures),
            None => f(&TableFigures::default()),
        }
    }

    /// A time of a table that began at `began`.
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

    /// A read of the store for another core, or part of a longer one.
    pub(crate) fn read(&self, id: &TableId, measure: Measure, began: Instant, met: Met) {
        let now = runtime::now();
        self.with(id, |table| {
            table.record(measure, nanos(began, now), now);
            table.met(met, now);
        });
        self.operated(measure, began, now);
    }

    /// A read of one partition for a client of this core.
    pub(crate) fn read_here(&self, id: &TableId, began: Instant, met: Met) {
        let now = runtime::now();
        self.with(id, |table| {
            table.0[READ_HERE].record(nanos(began, now), now);
            table.met(met, now);
        });
        self.latencies.record(operations::READ_HERE, nanos(began, now), now);
    }

    /// A write of the store; `here`: for a client of this core.
    pub(crate) fn wrote(&self, ids: &Written, here: bool, began: Instant) {
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

    /// A write as its coordinator sees it, where that is not the same as the write of the store; `counts`: of counters.
    pub(crate) fn coordinated(&self, ids: &Written, counts: bool, began: Instant) {
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

    /// These figures of all tables.
    pub(crate) fn tables(&self, measures: &[Measure]) -> Measured {
        let now = runtime::now();
        let tables = self.tables.borrow();
        let of = |figures: &TableFigures| measures.iter().map(|&m| (m, figures.distribution(m, now))).collect();
        tables.places.iter().flatten().map(|(id, figures)| (*id, of(figures))).collect()
    }

    /// The figures of requests; `prepared`: how many statements are prepared.
    pub(crate) fn requests(&self, prepared: usize) -> RequestFigures {
        let now = runtime::now();
        RequestFigures {
            logged_batches: self.logged_batches.distribution(now),
            unlogged_batches: self.unlogged_batches.distribution(now),
            counter_batches: self.counter_batches.distribution(now),
            prepared_runs: self.prepared_runs.get(),
            regular_runs: self.regular_runs.get(),
            prepared_evicted: self.prepared_evicted.get(),
            prepared: prepared as u64,
            running: self.running.list(),
        }
    }
}

fn nanos(began: Instant, now: Instant) -> u64 {
    now.0.saturating_sub(began.0)
}

/// The tables of a mutation: most have one.
#[derive(Default)]
pub(crate) struct Written(Option<TableId>, Vec<TableId>);

impl Written {
    /// Of a mutation.
    pub(crate) fn of(mutation: &Mutation) -> Written {
        let mut written = Written::default();
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

/// Figures by table.
pub type Measured = BTreeMap<TableId, BTreeMap<Measure, Distribution>>;

/// Figures of requests.
#[derive(Clone, Debug, Default)]
pub struct RequestFigures {
    /// Partitions per logged batch.
    pub logged_batches: Distribution,
    /// Partitions per unlogged batch.
    pub unlogged_batches: Distribution,
    /// Partitions per counter batch.
    pub counter_batches: Distribution,
    /// Statements that were run prepared.
    pub prepared_runs: u64,
    /// Others.
    pub regular_runs: u64,
    /// Prepared statements that had to go.
    pub prepared_evicted: u64,
    /// Statements that are prepared; every core knows all of them.
    pub prepared: u64,
    /// Requests under way.
    pub running: Vec<RunningRequest>,
}

impl Shard {
    /// These figures of all tables that were used, all cores together.
    pub async fn measured(&self, measures: &[Measure]) -> Result<Measured, Failure> {
        let mut sum = Measured::new();
        for reply in self.call_all(|| Request::Measure(measures.to_vec())).await {
            let Reply::Measured(of_shard) = reply else { return Err(unexpected()) };
            for (id, figures) in *of_shard {
                let table = sum.entry(id).or_default();
                for (measure, distribution) in figures {
                    table.entry(measure).or_default().add(&distribution);
                }
            }
        }
        Ok(sum)
    }

    /// The figures of requests, by core.
    pub(crate) async fn request_figures(&self) -> Result<Vec<RequestFigures>, Failure> {
        let replies = self.call_all(|| Request::MeasureRequests).await.into_iter();
        let figures = replies.map(|reply| match reply {
            Reply::MeasuredRequests(figures) => Ok(*figures),
            _ => Err(unexpected()),
        });
        figures.collect()
    }

    pub(crate) fn figures(&self) -> &Rc<Figures> {
        &self.inner.figures
    }
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
        let figures = Figures::default();
        for number in 0..200 {
            let now = Instant(1);
            (0..=number).for_each(|_| figures.with(&id(number), |table| table.record(Measure::LocalScan, 3, now)));
        }
        let count =
            |number| figures.with(&id(number), |table| table.distribution(Measure::LocalScan, Instant(1)).count);
        assert!((0..200).all(|number| count(number) == u64::from(number) + 1));
        figures.forget(&[id(5), id(7)]);
        assert_eq!((count(4), count(5), count(6), count(199)), (5, 0, 7, 200));
    }

    #[test]
    fn what_is_done_here_counts_for_both_sides() {
        let table = TableFigures::default();
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
