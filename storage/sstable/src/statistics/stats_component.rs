//! What was counted of an SSTable, in the order of the file; in `oa` and `da` with zero bytes behind it.
//!
//! Invariants: what was parsed is written again byte by byte.

use super::{BUCKETS_MAX, ClusteringBounds, Histogram, push_bytes};
use crate::descriptor::Version;
use crate::input::{Fault, Input, Problem};

/// Zero bytes that `oa` and `da` write behind their statistics per tombstone bucket: Cassandra reserves 16 bytes for a
/// bucket and uses 12.
const PADDING_PER_BUCKET: usize = 4;

/// A place in a commit log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogPosition {
    /// The segment; -1 with position 0 for none.
    pub segment: i64,
    /// Bytes.
    pub position: i32,
}

impl LogPosition {
    /// No place.
    pub const NONE: LogPosition = LogPosition { segment: -1, position: 0 };
}

/// Statistics in the order of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Statistics {
    /// Bytes of partitions.
    pub partition_sizes: Histogram,
    /// Cells of partitions.
    pub cell_counts: Histogram,
    /// Where the commit log was when the last of the data was written.
    pub log_upper: LogPosition,
    /// Smallest timestamp, microseconds.
    pub min_timestamp: i64,
    /// Largest timestamp, microseconds.
    pub max_timestamp: i64,
    /// Smallest local deletion time, seconds, as the file has it (32 bits).
    pub min_local_deletion_time: u32,
    /// Largest; of something that is not deleted `u32::MAX`, in `nb` `i32::MAX`.
    pub max_local_deletion_time: u32,
    /// Smallest time to live, seconds.
    pub min_ttl: i32,
    /// Largest time to live.
    pub max_ttl: i32,
    /// Compressed by uncompressed bytes, or -1.
    pub compression_ratio: f64,
    /// Count of tombstones by rounded local deletion time, ascending.
    pub tombstones: Vec<(i64, i64)>,
    /// Level of leveled compaction.
    pub level: u32,
    /// Milliseconds, or 0.
    pub repaired_at: i64,
    /// Which clusterings there are.
    pub clustering_bounds: ClusteringBounds,
    /// Whether there are counter shards of old versions.
    pub legacy_counter_shards: bool,
    /// Cells.
    pub cells: u64,
    /// Rows.
    pub rows: u64,
    /// Where the commit log was when the first of the data was written.
    pub log_lower: LogPosition,
    /// The parts of the commit log that the SSTable stands for.
    pub log_intervals: Vec<(LogPosition, LogPosition)>,
    /// The repair session that owns it.
    pub pending_repair: Option<[u8; 16]>,
    /// Whether it is of transient replicas.
    pub transient: bool,
    /// The node that wrote it.
    pub host_id: Option<[u8; 16]>,
    /// Whether a partition deletion is in it (`oa`, `da`).
    pub partition_deletions: bool,
    /// First and last partition key (`oa`, `da`).
    pub key_bounds: (Vec<u8>, Vec<u8>),
    /// Part of the ring that it covers, or NaN (`oa`, `da`).
    pub token_space_coverage: f64,
}

fn log_position(input: &mut Input<'_>) -> Result<LogPosition, Fault> {
    Ok(LogPosition { segment: input.i64()?, position: input.i32()? })
}

fn push_log_position(out: &mut Vec<u8>, position: LogPosition) {
    out.extend_from_slice(&position.segment.to_be_bytes());
    out.extend_from_slice(&position.position.to_be_bytes());
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
            log_lower: log_position(input)?,
            log_intervals: {
                let count = input.u32()?;
                (0..input.count(count.into(), 24)?)
                    .map(|_| Ok((log_position(input)?, log_position(input)?)))
                    .collect::<Result<_, Fault>>()?
            },
            pending_repair: optional_uuid(input)?,
            transient: input.bool()?,
            host_id: optional_uuid(input)?,
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
        let count = self.tombstones.len() as u32;
        if version.is_cassandra_5() {
            out.extend_from_slice(&count.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            for (time, count) in &self.tombstones {
                out.extend_from_slice(&time.to_be_bytes());
                out.extend_from_slice(&(*count as u32).to_be_bytes());
            }
        } else {
            out.extend_from_slice(&count.to_be_bytes());
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
        push_log_position(out, self.log_lower);
        out.extend_from_slice(&(self.log_intervals.len() as u32).to_be_bytes());
        for (start, end) in &self.log_intervals {
            push_log_position(out, *start);
            push_log_position(out, *end);
        }
        push_optional_uuid(out, self.pending_repair);
        out.push(self.transient.into());
        push_optional_uuid(out, self.host_id);
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
