//! Sampling which partitions are read and written most, while an operator asks for it (`nodetool profileload`).
//!
//! Every core samples what it does as a replica; keys of one node are on one core each, so that the samples of its
//! cores only need to be put together.
//!
//! Invariants: while nobody samples, a read or write looks at one flag; samplings are at most [`SAMPLINGS_MAX`], and
//! each keeps at most its capacity of keys for each sampler.

use super::heavy_hitters::{Counted, HeavyHitters};
use crate::guards::tombstones::ScanCounts;
use model::{Mutation, TableId};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Most samplings of a core at a time.
pub(crate) const SAMPLINGS_MAX: usize = 16;
/// Most keys that a sampler keeps.
pub(crate) const SAMPLE_CAPACITY_MAX: usize = 1 << 16;

/// What is sampled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleRequest {
    /// The number of the sampling.
    pub id: u64,
    /// The tables; `None`: all.
    pub tables: Option<Arc<[TableId]>>,
    /// How many keys each sampler keeps.
    pub capacity: usize,
}

/// A partition that was sampled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampledKey {
    /// Its table.
    pub table: TableId,
    /// Its key, serialised.
    pub key: Box<[u8]>,
    /// How often, how many or how much.
    pub count: u64,
    /// Up to how much too high the count is.
    pub error: u64,
}

/// What was sampled, the highest counts first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Samples {
    /// Reads by partition.
    pub reads: Vec<SampledKey>,
    /// Writes by partition.
    pub writes: Vec<SampledKey>,
    /// The reads that met the most live rows.
    pub rows: Vec<SampledKey>,
    /// The reads that met the most tombstones.
    pub tombstones: Vec<SampledKey>,
    /// The largest mutations, bytes.
    pub write_sizes: Vec<SampledKey>,
}

impl Samples {
    /// Adds those of another core.
    pub fn add(&mut self, other: Samples) {
        let Samples { reads, writes, rows, tombstones, write_sizes } = other;
        for (own, more) in [
            (&mut self.reads, reads),
            (&mut self.writes, writes),
            (&mut self.rows, rows),
            (&mut self.tombstones, tombstones),
            (&mut self.write_sizes, write_sizes),
        ] {
            own.extend(more);
            own.sort_by_key(|sampled| std::cmp::Reverse(sampled.count));
        }
    }
}

type Key = (TableId, Box<[u8]>);

/// The samplings of one core.
#[derive(Default)]
pub(crate) struct Sampling {
    is_on: Cell<bool>,
    running: RefCell<Vec<Running>>,
}

struct Running {
    request: SampleRequest,
    reads: HeavyHitters<Key>,
    writes: HeavyHitters<Key>,
    rows: Highest,
    tombstones: Highest,
    write_sizes: Highest,
}

impl Running {
    fn has(&self, table: TableId) -> bool {
        self.request.tables.as_ref().is_none_or(|tables| tables.contains(&table))
    }
}

/// The highest values.
struct Highest {
    capacity: usize,
    values: Vec<SampledKey>,
}

impl Highest {
    fn add(&mut self, (table, key): &Key, count: u64) {
        if count == 0
            || self.values.len() >= self.capacity && self.values.last().is_some_and(|least| least.count >= count)
        {
            return;
        }
        let at = self.values.partition_point(|other| other.count >= count);
        self.values.insert(at, SampledKey { table: *table, key: key.clone(), count, error: 0 });
        self.values.truncate(self.capacity);
    }
}

impl Sampling {
    /// Whether anything is sampled.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Begins a sampling; whether there is room for it.
    pub(crate) fn begin(&self, request: SampleRequest) -> bool {
        let mut running = self.running.borrow_mut();
        if running.len() >= SAMPLINGS_MAX {
            return false;
        }
        let capacity = request.capacity.min(SAMPLE_CAPACITY_MAX);
        let highest = || Highest { capacity, values: Vec::new() };
        running.push(Running {
            request,
            reads: HeavyHitters::new(capacity),
            writes: HeavyHitters::new(capacity),
            rows: highest(),
            tombstones: highest(),
            write_sizes: highest(),
        });
        self.is_on.set(true);
        true
    }

    /// Ends a sampling and returns what it has found; nothing if there is none with that number.
    pub(crate) fn end(&self, id: u64) -> Samples {
        let mut running = self.running.borrow_mut();
        let Some(at) = running.iter().position(|sampling| sampling.request.id == id) else { return Samples::default() };
        let ended = running.swap_remove(at);
        self.is_on.set(!running.is_empty());
        let counted = |sketch: HeavyHitters<Key>| {
            let top = sketch.top().into_iter();
            top.map(|Counted { key: (table, key), count, error, .. }| SampledKey { table, key, count, error }).collect()
        };
        Samples {
            reads: counted(ended.reads),
            writes: counted(ended.writes),
            rows: ended.rows.values,
            tombstones: ended.tombstones.values,
            write_sizes: ended.write_sizes.values,
        }
    }

    /// Notes a read of a partition.
    #[cold]
    pub(crate) fn note_read(&self, table: TableId, key: &[u8], met: ScanCounts) {
        let name = (table, Box::from(key));
        for running in self.running.borrow_mut().iter_mut().filter(|running| running.has(table)) {
            running.reads.add(&name, 1);
            running.rows.add(&name, met.live);
            running.tombstones.add(&name, met.dead);
        }
    }

    /// Notes a mutation of a partition.
    #[cold]
    pub(crate) fn note_write(&self, mutation: &Mutation) {
        for update in mutation.updates() {
            let name = (update.table, Box::from(mutation.key()));
            for running in self.running.borrow_mut().iter_mut().filter(|running| running.has(update.table)) {
                running.writes.add(&name, 1);
                running.write_sizes.add(&name, mutation.bytes().len() as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Token;

    const TABLE: TableId = TableId([7; 16]);

    fn request(id: u64) -> SampleRequest {
        SampleRequest { id, tables: Some(Arc::from([TABLE])), capacity: 2 }
    }

    #[test]
    fn what_is_read_most_is_found() {
        let sampling = Sampling::default();
        assert!(!sampling.is_on());
        assert!(sampling.begin(request(1)));
        for (key, live, dead) in [(b"a", 5, 0), (b"b", 7, 1), (b"a", 2, 0), (b"a", 6, 0)] {
            sampling.note_read(TABLE, key, ScanCounts { live, dead, token: Token::MIN });
        }
        sampling.note_read(TableId([8; 16]), b"c", ScanCounts { live: 100, dead: 100, token: Token::MIN });
        let found = sampling.end(1);
        assert!(!sampling.is_on());
        let shown =
            |keys: &[SampledKey]| -> Vec<(u8, u64)> { keys.iter().map(|key| (key.key[0], key.count)).collect() };
        assert_eq!(shown(&found.reads), [(b'a', 3), (b'b', 1)]);
        assert_eq!(shown(&found.rows), [(b'b', 7), (b'a', 6)]);
        assert_eq!(shown(&found.tombstones), [(b'b', 1)]);
        assert_eq!(sampling.end(1), Samples::default(), "it has ended");
        let mut both = found.clone();
        both.add(found);
        assert_eq!(shown(&both.reads), [(b'a', 3), (b'a', 3), (b'b', 1), (b'b', 1)]);
    }

    #[test]
    fn so_many_samplings_run_at_a_time() {
        let sampling = Sampling::default();
        assert!((0..SAMPLINGS_MAX as u64).all(|id| sampling.begin(request(id))));
        assert!(!sampling.begin(request(99)));
        sampling.end(3);
        assert!(sampling.begin(request(99)));
    }
}
