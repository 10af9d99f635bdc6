//! Counts what is written to an SSTable, for Statistics.db.
//!
//! Invariants: what is counted, and how often, is what Cassandra counts.

use super::cardinality::Cardinality;
use super::drop_times::DropTimes;
use super::{ClusteringBound, ClusteringBounds, Header, Histogram, LogPosition, Statistics};
use crate::bound_kind::BoundKind;
use crate::version::Version;
use model::counter::CounterContext;
use model::mutation::Clustering;
use model::row::{Cell, CellContent, Deletion, Liveness};

/// How many bounds the histogram of partition sizes has.
const SIZE_BOUNDS: usize = 155;
/// How many bounds the histogram of cells per partition has.
const CELL_BOUNDS: usize = 118;

/// The smallest and the largest of the numbers added.
#[derive(Clone, Copy, Debug)]
struct MinMax<T> {
    min: T,
    max: T,
    empty: bool,
}

impl<T: Copy + Ord> MinMax<T> {
    /// Returns what stands for the smallest and the largest as long as there is no number.
    fn none(min: T, max: T) -> MinMax<T> {
        MinMax { min, max, empty: true }
    }

    fn add(&mut self, number: T) {
        if self.empty {
            *self = MinMax { min: number, max: number, empty: false };
        } else {
            self.min = self.min.min(number);
            self.max = self.max.max(number);
        }
    }
}

/// The first or the last clustering or bound.
#[derive(Clone, Debug)]
struct Edge {
    kind: Option<BoundKind>,
    clustering: Vec<u8>,
    comparable: Vec<u8>,
}

impl Edge {
    fn set(edge: &mut Option<Edge>, kind: Option<BoundKind>, clustering: Clustering<'_>, comparable: &[u8]) {
        let edge = edge.get_or_insert(Edge { kind, clustering: Vec::new(), comparable: Vec::new() });
        edge.kind = kind;
        edge.clustering.clear();
        edge.clustering.extend_from_slice(clustering.0);
        edge.comparable.clear();
        edge.comparable.extend_from_slice(comparable);
    }

    /// Returns the bound that holds it; `of_row` is the kind for a row.
    fn bound(&self, of_row: BoundKind) -> ClusteringBound {
        let values = Clustering(&self.clustering).components().map(|value| Some(value.to_vec())).collect();
        ClusteringBound { kind: self.kind.unwrap_or(of_row).number(), values }
    }
}

/// What has been counted so far.
#[derive(Debug)]
pub(crate) struct Collector {
    deletion_time_max: i64,
    partition_sizes: Histogram,
    cell_counts: Histogram,
    cells_of_partition: i64,
    timestamps: MinMax<i64>,
    local_deletion_times: MinMax<i64>,
    ttls: MinMax<i32>,
    drop_times: DropTimes,
    first: Option<Edge>,
    last: Option<Edge>,
    columns: u64,
    rows: u64,
    partition_deletions: bool,
    legacy_counter_shards: bool,
    cardinality: Cardinality,
}

impl Collector {
    pub(crate) fn new(version: Version) -> Collector {
        Collector {
            deletion_time_max: version.deletion_time_max(),
            partition_sizes: Histogram::with_bounds(SIZE_BOUNDS),
            cell_counts: Histogram::with_bounds(CELL_BOUNDS),
            cells_of_partition: 0,
            timestamps: MinMax::none(i64::MIN, i64::MAX),
            local_deletion_times: MinMax::none(i64::MAX, i64::MAX),
            ttls: MinMax::none(0, 0),
            drop_times: DropTimes::default(),
            first: None,
            last: None,
            columns: 0,
            rows: 0,
            partition_deletions: false,
            legacy_counter_shards: false,
            cardinality: Cardinality::new(),
        }
    }

    fn times(&mut self, timestamp: i64, expiry: Option<(i32, i64)>) {
        self.timestamps.add(timestamp);
        match expiry {
            None => {
                self.ttls.add(0);
                self.local_deletion_times.add(i64::MAX);
            }
            Some((ttl, end)) => {
                self.ttls.add(ttl);
                self.dropped_at(end);
            }
        }
    }

    fn dropped_at(&mut self, time: i64) {
        let time = time.min(self.deletion_time_max);
        self.local_deletion_times.add(time);
        self.drop_times.add(time);
    }

    /// Counts the deletion of a row, range or collection, unless it is live.
    pub(crate) fn deletion(&mut self, deletion: Deletion) {
        if !deletion.is_live() {
            self.timestamps.add(deletion.timestamp);
            self.dropped_at(deletion.local_deletion_time);
        }
    }

    pub(crate) fn partition_deletion(&mut self, deletion: Deletion) {
        self.partition_deletions |= !deletion.is_live();
        self.deletion(deletion);
    }

    pub(crate) fn liveness(&mut self, liveness: Liveness) {
        self.times(liveness.timestamp, liveness.expiry);
    }

    pub(crate) fn cell(&mut self, cell: &Cell<'_>) {
        self.cells_of_partition += 1;
        match cell.content {
            CellContent::Live(_) => self.times(cell.timestamp, None),
            CellContent::Counter(context) => {
                self.times(cell.timestamp, None);
                self.legacy_counter_shards |= CounterContext::trusted(context).has_legacy_shards();
            }
            CellContent::Expiring { ttl, local_deletion_time, .. } => {
                self.times(cell.timestamp, Some((ttl, local_deletion_time)));
            }
            CellContent::Deleted { local_deletion_time } | CellContent::ColumnDeletion { local_deletion_time } => {
                self.timestamps.add(cell.timestamp);
                self.ttls.add(0);
                self.dropped_at(local_deletion_time);
            }
        }
    }

    /// Counts a row with cells in `columns` columns.
    pub(crate) fn row(&mut self, columns: usize) {
        self.columns += columns as u64;
        self.rows += 1;
    }

    /// Widens the bounds of clusterings by a row, or by a marker of a kind.
    pub(crate) fn clustering(&mut self, kind: Option<BoundKind>, clustering: Clustering<'_>, comparable: &[u8]) {
        let (starts, ends) = match kind {
            None => (true, true),
            Some(kind) if kind.is_boundary() => return,
            Some(kind) => (kind.is_start(), !kind.is_start()),
        };
        // Without clustering columns all rows have the same, empty form: they are not compared.
        let above = |last: &Edge| !comparable.is_empty() && comparable > &last.comparable[..];
        let below = |first: &Edge| !first.comparable.is_empty() && comparable < &first.comparable[..];
        // A range's start cannot be the last position, nor its end the first: the other bound lies beyond.
        if ends && self.last.as_ref().is_none_or(above) {
            Edge::set(&mut self.last, kind, clustering, comparable);
        }
        if starts && self.first.as_ref().is_none_or(below) {
            Edge::set(&mut self.first, kind, clustering, comparable);
        }
    }

    /// Counts a partition of `bytes` bytes, after its rows.
    pub(crate) fn partition(&mut self, key: &[u8], bytes: u64) {
        self.partition_sizes.add(bytes as i64);
        self.cell_counts.add(self.cells_of_partition);
        self.cells_of_partition = 0;
        self.cardinality.add(key);
    }

    /// Returns the statistics of what was counted, and the serialised sketch of the partition keys. Where the SSTable
    /// comes from (log intervals, level, repair, host) is left open for the caller.
    pub(crate) fn finish(mut self, version: Version, header: &Header) -> (Statistics, Vec<u8>) {
        let clustering_bounds = self.clustering_bounds(version, header);
        let live = if version.is_cassandra_5() { u32::MAX } else { i32::MAX as u32 };
        let time = |time: i64| u32::try_from(time).ok().filter(|time| *time < live).unwrap_or(live);
        let statistics = Statistics {
            partition_sizes: self.partition_sizes,
            cell_counts: self.cell_counts,
            log_upper: LogPosition::NONE,
            min_timestamp: self.timestamps.min,
            max_timestamp: self.timestamps.max,
            min_local_deletion_time: time(self.local_deletion_times.min),
            max_local_deletion_time: time(self.local_deletion_times.max),
            min_ttl: self.ttls.min,
            max_ttl: self.ttls.max,
            compression_ratio: -1.0,
            tombstones: self.drop_times.finish(),
            level: 0,
            repaired_at: 0,
            clustering_bounds,
            legacy_counter_shards: self.legacy_counter_shards,
            cells: self.columns,
            rows: self.rows,
            log_lower: LogPosition::NONE,
            log_intervals: Vec::new(),
            pending_repair: None,
            transient: false,
            host_id: None,
            partition_deletions: self.partition_deletions,
            key_bounds: Default::default(),
            token_space_coverage: f64::NAN,
        };
        (statistics, self.cardinality.write())
    }

    fn clustering_bounds(&self, version: Version, header: &Header) -> ClusteringBounds {
        if !version.is_cassandra_5() {
            let values = |edge: &Option<Edge>| match edge {
                None => Vec::new(),
                Some(edge) => Clustering(&edge.clustering).components().map(<[u8]>::to_vec).collect(),
            };
            return ClusteringBounds::Legacy { min: values(&self.first), max: values(&self.last) };
        }
        let none = |kind: BoundKind| ClusteringBound { kind: kind.number(), values: Vec::new() };
        let first = self.first.as_ref().map(|first| first.bound(BoundKind::InclusiveStart));
        let last = self.last.as_ref().map(|last| last.bound(BoundKind::InclusiveEnd));
        ClusteringBounds::Slice {
            classes: header.clustering.iter().map(|field| field.class.clone()).collect(),
            start: first.unwrap_or_else(|| none(BoundKind::ExclusiveStart)),
            end: last.unwrap_or_else(|| none(BoundKind::ExclusiveEnd)),
        }
    }
}
