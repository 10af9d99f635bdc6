//! How tables and keyspaces are used: reads and writes, their latencies, the rows and tombstones that reads met, and
//! the reads that asked one more replica.

use model::Table;
use shard::metrics::{Distribution, Measure, TableMetrics};

/// What is measured of reads and writes.
pub(super) const MEASURES: [Measure; 5] =
    [Measure::LocalRead, Measure::LocalWrite, Measure::Rows, Measure::Tombstones, Measure::SpeculativeRetry];
pub(super) const NANOS_PER_MILLISECOND: f64 = 1e6;

/// The measurements of a table, in the order of [`MEASURES`].
#[derive(Default)]
pub(super) struct TableUsage(pub(super) [Distribution; MEASURES.len()]);

impl TableUsage {
    pub(super) fn of(measured: &TableMetrics, table: &Table) -> TableUsage {
        let found = measured.get(&table.id);
        TableUsage(MEASURES.map(|measure| found.and_then(|found| found.get(&measure)).cloned().unwrap_or_default()))
    }
}

/// Reads and writes of a keyspace: how many, and how many nanoseconds they took in all.
#[derive(Clone, Copy, Default)]
pub(super) struct KeyspaceUsage {
    pub(super) reads: u64,
    read_nanos: u64,
    pub(super) writes: u64,
    write_nanos: u64,
}

impl KeyspaceUsage {
    pub(super) fn add(&mut self, TableUsage([reads, writes, ..]): &TableUsage) {
        self.reads += reads.count;
        self.read_nanos += reads.total;
        self.writes += writes.count;
        self.write_nanos += writes.total;
    }

    /// The mean latencies of reads and writes in milliseconds; NaN if there were none.
    pub(super) fn latencies(&self) -> [f64; 2] {
        let mean = |nanos: u64, count: u64| nanos as f64 / count as f64 / NANOS_PER_MILLISECOND;
        [mean(self.read_nanos, self.reads), mean(self.write_nanos, self.writes)]
    }
}
