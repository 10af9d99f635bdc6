//! Counting what is written, for Statistics.db.
//!
//! Invariants: what is counted, and how often, is what Cassandra counts.

use super::cardinality::Cardinality;
use super::drop_times::DropTimes;
use super::{ClusteringBound, ClusteringBounds, Header, Histogram, LogPosition, Metadata, Statistics};
use crate::descriptor::Version;
use crate::row_codec::BoundKind;
use crate::writer::Options;
use model::counter::Context;
use model::mutation::Clustering;
use model::row::{Cell, CellContent, Deletion, Liveness};

/// Bounds of the histogram of partition sizes.
const SIZE_BOUNDS: usize = 155;
/// Bounds of the histogram of cells per partition.
const CELL_BOUNDS: usize = 118;
const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The smallest and the largest of some numbers.
#[derive(Clone, Copy, Debug)]
struct Bounds<T> {
    min: T,
    max: T,
    empty: bool,
}

impl<T: Copy + Ord> Bounds<T> {
    /// Of none: what stands for them.
    fn none(min: T, max: T) -> Bounds<T> {
        Bounds { min, max, empty: true }
    }

    fn add(&mut self, number: T) {
        if self.empty {
            *self = Bounds { min: number, max: number, empty: false };
        } else {
            self.min = self.min.min(number);
            self.max = self.max.max(number);
        }
    }
}

/// A clustering, or a bound, that was the first or the last.
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

    /// The bound that covers it.
    fn bound(&self, own: BoundKind) -> ClusteringBound {
        let values = Clustering(&self.clustering).components().map(|value| Some(value.to_vec())).collect();
        ClusteringBound { kind: self.kind.unwrap_or(own).number(), values }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Collector {
    deletion_time_max: i64,
    partition_sizes: Histogram,
    cell_counts: Histogram,
    cells_of_partition: i64,
    timestamps: Bounds<i64>,
    local_deletion_times: Bounds<i64>,
    ttls: Bounds<i32>,
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
            timestamps: Bounds::none(i64::MIN, i64::MAX),
            local_deletion_times: Bounds::none(i64::MAX, i64::MAX),
            ttls: Bounds::none(0, 0),
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

    /// A deletion of a row, range or collection.
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
                self.legacy_counter_shards |= Context::trusted(context).has_legacy_shards();
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

    /// A row with cells in so many columns.
    pub(crate) fn row(&mut self, columns: usize) {
        self.columns += columns as u64;
        self.rows += 1;
    }

    /// The place of a row, or of a marker with its kind.
    pub(crate) fn place(&mut self, kind: Option<BoundKind>, clustering: Clustering<'_>, comparable: &[u8]) {
        let (starts, ends) = match kind {
            None => (true, true),
            Some(kind) if kind.is_boundary() => return,
            Some(kind) => (kind.is_start(), !kind.is_start()),
        };
        // Rows without clustering are all at the empty place: they are not compared.
        let above = |last: &Edge| !comparable.is_empty() && comparable > &last.comparable[..];
        let below = |first: &Edge| !first.comparable.is_empty() && comparable < &first.comparable[..];
        // Every range that is opened is closed behind: neither can be the last place, or the first.
        if ends && self.last.as_ref().is_none_or(above) {
            Edge::set(&mut self.last, kind, clustering, comparable);
        }
        if starts && self.first.as_ref().is_none_or(below) {
            Edge::set(&mut self.first, kind, clustering, comparable);
        }
    }

    /// A partition ends that has so many bytes.
    pub(crate) fn partition(&mut self, key: &[u8], bytes: u64) {
        self.partition_sizes.add(bytes as i64);
        self.cell_counts.add(self.cells_of_partition);
        self.cells_of_partition = 0;
        self.cardinality.add(key);
    }

    /// Everything, of an SSTable with these keys.
    pub(crate) fn finish(
        mut self,
        version: Version,
        options: &Options,
        ratio: Option<f64>,
        keys: (Vec<u8>, Vec<u8>),
    ) -> Metadata {
        let clustering_bounds = self.clustering_bounds(version, &options.header);
        let live = if version.is_cassandra_5() { u32::MAX } else { i32::MAX as u32 };
        let time = |time: i64| u32::try_from(time).ok().filter(|time| *time < live).unwrap_or(live);
        let intervals = &options.log_intervals;
        Metadata {
            partitioner: PARTITIONER.to_owned(),
            filter_chance: options.filter_chance,
            cardinality: self.cardinality.write(),
            statistics: Statistics {
                partition_sizes: self.partition_sizes,
                cell_counts: self.cell_counts,
                log_upper: intervals.last().map_or(LogPosition::NONE, |last| last.1),
                min_timestamp: self.timestamps.min,
                max_timestamp: self.timestamps.max,
                min_local_deletion_time: time(self.local_deletion_times.min),
                max_local_deletion_time: time(self.local_deletion_times.max),
                min_ttl: self.ttls.min,
                max_ttl: self.ttls.max,
                compression_ratio: ratio.unwrap_or(-1.0),
                tombstones: self.drop_times.finish(),
                level: options.level,
                repaired_at: options.repaired_at,
                clustering_bounds,
                legacy_counter_shards: self.legacy_counter_shards,
                cells: self.columns,
                rows: self.rows,
                log_lower: intervals.first().map_or(LogPosition::NONE, |first| first.0),
                log_intervals: intervals.clone(),
                pending_repair: options.pending_repair,
                transient: options.transient,
                host_id: options.host_id,
                partition_deletions: self.partition_deletions,
                key_bounds: keys,
                token_space_coverage: options.token_space_coverage,
            },
            header: options.header.clone(),
        }
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
