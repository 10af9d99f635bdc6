//! The statistics component of Statistics.db: what was counted when the SSTable was written.
//!
//! Invariants: what was parsed is written to the same bytes again, but for fractions of seconds in the histogram of
//! local deletion times, which versions before `na` may have.

use super::{BUCKETS_MAX, ClusteringBounds, DROP_TIMES_MAX, Histogram, push_bytes};
use crate::error::{Fault, Problem};
use crate::input::Input;
use crate::version::Version;

/// Zero bytes that `oa` and `da` append to the component for each tombstone bucket: Cassandra reserves 16 bytes for a
/// bucket and uses 12.
const PADDING_PER_BUCKET: usize = 4;

/// A position in a commit log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogPosition {
    /// The id of the segment; -1 with position 0 for none.
    pub segment: i64,
    /// The offset in the segment, in bytes.
    pub position: i32,
}

impl LogPosition {
    /// No position.
    pub const NONE: LogPosition = LogPosition { segment: -1, position: 0 };
}

/// The fields of the statistics component, in the order of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Statistics {
    /// Sizes of partitions, in bytes.
    pub partition_sizes: Histogram,
    /// Cells per partition.
    pub cell_counts: Histogram,
    /// The commit log position up to which the SSTable has the data.
    pub log_upper: LogPosition,
    /// The smallest timestamp, in microseconds.
    pub min_timestamp: i64,
    /// The largest timestamp, in microseconds.
    pub max_timestamp: i64,
    /// The smallest local deletion time, in seconds, as the 32 bits in the file.
    pub min_local_deletion_time: u32,
    /// The largest local deletion time. `u32::MAX`, before `oa` `i32::MAX`, stands for what is not deleted.
    pub max_local_deletion_time: u32,
    /// The smallest time to live, in seconds.
    pub min_ttl: i32,
    /// The largest time to live, in seconds.
    pub max_ttl: i32,
    /// Compressed length of Data.db divided by its uncompressed length, or -1.
    pub compression_ratio: f64,
    /// Local deletion times, rounded and ascending, and how many tombstones have them.
    pub tombstones: Vec<(i64, i64)>,
    /// The level in leveled compaction.
    pub level: u32,
    /// When the SSTable was repaired, in milliseconds; 0 if it was not.
    pub repaired_at: i64,
    /// Bounds of all clusterings.
    pub clustering_bounds: ClusteringBounds,
    /// Whether counters have shards of before Cassandra 2.1.
    pub legacy_counter_shards: bool,
    /// Columns with cells, summed over all rows.
    pub cells: u64,
    /// How many rows there are.
    pub rows: u64,
    /// The commit log position from which on the SSTable has the data (from `mb` on).
    pub log_lower: LogPosition,
    /// The intervals of the commit log whose data is in the SSTable (from `mc` on).
    pub log_intervals: Vec<(LogPosition, LogPosition)>,
    /// The repair session that the SSTable is part of (from `na` on).
    pub pending_repair: Option<[u8; 16]>,
    /// Whether the SSTable belongs to a transient replica (from `na` on).
    pub transient: bool,
    /// The id of the node that wrote the SSTable (`me`, `nb`, `oa`, `da`).
    pub host_id: Option<[u8; 16]>,
    /// Whether any partition has a deletion (`oa`, `da`).
    pub partition_deletions: bool,
    /// The first and the last partition key (`oa`, `da`).
    pub key_bounds: (Vec<u8>, Vec<u8>),
    /// The part of the token space that the SSTable covers, 0 to 1, or NaN (`oa`, `da`).
    pub token_space_coverage: f64,
}

fn log_position(input: &mut Input<'_>) -> Result<LogPosition, Fault> {
    Ok(LogPosition { segment: input.i64()?, position: input.i32()? })
}

fn push_log_position(out: &mut Vec<u8>, position: LogPosition) {
    out.extend_from_slice(&position.segment.to_be_bytes());
    out.extend_from_slice(&position.position.to_be_bytes());
}

fn log_intervals(input: &mut Input<'_>) -> Result<Vec<(LogPosition, LogPosition)>, Fault> {
    let count = input.u32()?;
    (0..input.count(count.into(), 24)?).map(|_| Ok((log_position(input)?, log_position(input)?))).collect()
}

fn optional_uuid(input: &mut Input<'_>) -> Result<Option<[u8; 16]>, Fault> {
    if input.bool()? { input.uuid().map(Some) } else { Ok(None) }
}

fn push_optional_uuid(out: &mut Vec<u8>, uuid: Option<[u8; 16]>) {
    out.push(uuid.is_some().into());
    out.extend_from_slice(uuid.as_ref().map_or(&[], |uuid| uuid));
}

impl Statistics {
    pub(super) fn parse(input: &mut Input<'_>, version: Version) -> Result<Statistics, Fault> {
        let features = version.features();
        Ok(Statistics {
            partition_sizes: Histogram::parse(input)?,
            cell_counts: Histogram::parse(input)?,
            log_upper: log_position(input)?,
            min_timestamp: input.i64()?,
            max_timestamp: input.i64()?,
            min_local_deletion_time: input.u32()?,
            max_local_deletion_time: input.u32()?,
            min_ttl: input.i32()?,
            max_ttl: input.i32()?,
            compression_ratio: input.f64()?,
            tombstones: tombstones(input, version)?,
            level: input.u32()?,
            repaired_at: input.i64()?,
            clustering_bounds: ClusteringBounds::parse(input, version)?,
            legacy_counter_shards: input.bool()?,
            cells: input.u64()?,
            rows: input.u64()?,
            log_lower: if features.log_lower { log_position(input)? } else { LogPosition::NONE },
            log_intervals: if features.log_intervals { log_intervals(input)? } else { Vec::new() },
            pending_repair: if features.repair_session { optional_uuid(input)? } else { None },
            transient: features.repair_session && input.bool()?,
            host_id: if features.host_id { optional_uuid(input)? } else { None },
            partition_deletions: version.is_cassandra_5() && input.bool()?,
            key_bounds: if version.is_cassandra_5() {
                (input.vint_bytes()?.to_vec(), input.vint_bytes()?.to_vec())
            } else {
                Default::default()
            },
            token_space_coverage: if version.is_cassandra_5() { input.f64()? } else { f64::NAN },
        })
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) {
        self.partition_sizes.write(out);
        self.cell_counts.write(out);
        push_log_position(out, self.log_upper);
        out.extend_from_slice(&self.min_timestamp.to_be_bytes());
        out.extend_from_slice(&self.max_timestamp.to_be_bytes());
        out.extend_from_slice(&self.min_local_deletion_time.to_be_bytes());
        out.extend_from_slice(&self.max_local_deletion_time.to_be_bytes());
        out.extend_from_slice(&self.min_ttl.to_be_bytes());
        out.extend_from_slice(&self.max_ttl.to_be_bytes());
        out.extend_from_slice(&self.compression_ratio.to_be_bytes());
        let features = version.features();
        let count = self.tombstones.len() as u32;
        let bins_max = if features.drop_times_count_twice { count } else { DROP_TIMES_MAX as u32 };
        if version.is_cassandra_5() {
            out.extend_from_slice(&bins_max.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            for (time, count) in &self.tombstones {
                out.extend_from_slice(&time.to_be_bytes());
                out.extend_from_slice(&(*count as u32).to_be_bytes());
            }
        } else {
            out.extend_from_slice(&bins_max.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            for (time, count) in &self.tombstones {
                out.extend_from_slice(&(*time as f64).to_be_bytes());
                out.extend_from_slice(&count.to_be_bytes());
            }
        }
        out.extend_from_slice(&self.level.to_be_bytes());
        out.extend_from_slice(&self.repaired_at.to_be_bytes());
        self.clustering_bounds.write(out);
        out.push(self.legacy_counter_shards.into());
        out.extend_from_slice(&self.cells.to_be_bytes());
        out.extend_from_slice(&self.rows.to_be_bytes());
        if features.log_lower {
            push_log_position(out, self.log_lower);
        }
        if features.log_intervals {
            out.extend_from_slice(&(self.log_intervals.len() as u32).to_be_bytes());
            for (start, end) in &self.log_intervals {
                push_log_position(out, *start);
                push_log_position(out, *end);
            }
        }
        if features.repair_session {
            push_optional_uuid(out, self.pending_repair);
            out.push(self.transient.into());
        }
        if features.host_id {
            push_optional_uuid(out, self.host_id);
        }
        if version.is_cassandra_5() {
            out.push(self.partition_deletions.into());
            push_bytes(out, &self.key_bounds.0);
            push_bytes(out, &self.key_bounds.1);
            out.extend_from_slice(&self.token_space_coverage.to_be_bytes());
            out.resize(out.len() + PADDING_PER_BUCKET * self.tombstones.len(), 0);
        }
    }
}

fn tombstones(input: &mut Input<'_>, version: Version) -> Result<Vec<(i64, i64)>, Fault> {
    let _bins_max = input.u32()?;
    let count = input.u32()? as usize;
    if count > BUCKETS_MAX {
        return input.fail(Problem::Limit("BUCKETS_MAX"));
    }
    (0..input.count(count as u64, 12)?)
        .map(|_| {
            Ok(if version.is_cassandra_5() {
                (input.i64()?, i64::from(input.u32()?))
            } else {
                (input.f64()? as i64, input.i64()?)
            })
        })
        .collect()
}
