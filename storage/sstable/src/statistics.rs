//! Statistics.db: validation, compaction and statistics metadata, and the header that Data.db is encoded by.
//!
//! ```text
//! components u32 (4), CRC-32; per component kind u32 and offset u32; CRC-32 of everything so far; then each component and
//! its CRC-32. Kinds: 0 validation, 1 compaction, 2 statistics, 3 header.
//! validation   partitioner [u16 length, text], bloom filter chance f64
//! compaction   cardinality estimator [u32 length, bytes]
//! header       smallest timestamp vint - 1442880000000000, local deletion time vint - 1442880000, time to live vint;
//!              partition key class, clustering classes, static and regular (name, class); all with vint lengths
//! ```
//! Statistics are in the order of [`Statistics`]' fields, in `oa` and `da` with zero bytes behind them.
//!
//! Invariants: what was parsed is written again byte by byte.

mod cardinality;
mod collector;
mod drop_times;
mod encoding;

pub(crate) use collector::Collector;
pub use drop_times::DROP_TIMES_MAX;
pub use encoding::EncodingStats;

use crate::Error;
use crate::descriptor::{Component, Descriptor, Version};
use crate::input::{Fault, Input, Problem, push_vint};
use model::CqlType;
use model::schema::{Column, ColumnId, ColumnKind, Table, TableId, TableOptions};
use std::ops::Range;

/// Most columns of one kind in a header.
pub const COLUMNS_MAX: usize = 65535;
/// Longest type class, in bytes.
pub const CLASS_BYTES_MAX: usize = 1 << 20;
/// Most buckets of a histogram.
pub const BUCKETS_MAX: usize = 1 << 16;

const TIMESTAMP_EPOCH: i64 = 1_442_880_000_000_000;
const DELETION_TIME_EPOCH: i64 = 1_442_880_000;
/// Zero bytes that `oa` and `da` write behind their statistics per tombstone bucket: Cassandra reserves 16 bytes for a bucket
/// and uses 12.
const PADDING_PER_BUCKET: usize = 4;

/// A Statistics.db.
#[derive(Clone, PartialEq, Debug)]
pub struct Metadata {
    /// The partitioner's class.
    pub partitioner: String,
    /// The chance of false positives that Filter.db was made for.
    pub filter_chance: f64,
    /// The cardinality estimator (HyperLogLog++) of the partition keys, serialised.
    pub cardinality: Vec<u8>,
    /// What was counted.
    pub statistics: Statistics,
    /// How rows are encoded.
    pub header: Header,
}

/// How rows are encoded: what timestamps are relative to, and types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Microseconds.
    pub min_timestamp: i64,
    /// Seconds.
    pub min_local_deletion_time: i64,
    /// Seconds.
    pub min_ttl: i64,
    /// The class of the partition key, a `CompositeType` of several columns.
    pub key_class: String,
    /// The clustering columns.
    pub clustering: Vec<FieldType>,
    /// The static columns, simple ones first, by name.
    pub statics: Vec<HeaderColumn>,
    /// The regular columns, simple ones first, by name.
    pub regulars: Vec<HeaderColumn>,
}

/// A column of a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderColumn {
    /// The name's bytes.
    pub name: Vec<u8>,
    /// The type.
    pub field: FieldType,
}

/// A type as a header names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldType {
    /// The marshal class.
    pub class: String,
    /// The type; blob for `EmptyType`.
    pub cql_type: CqlType,
    /// Whether it is reversed.
    pub descending: bool,
    /// The length that values are written without.
    pub fixed_len: Option<usize>,
}

impl FieldType {
    /// The type of a class; `None` if it is not known.
    pub fn parse(class: &str) -> Option<FieldType> {
        if class == EMPTY_TYPE {
            let (class, cql_type) = (class.to_owned(), CqlType::Blob);
            return Some(FieldType { class, cql_type, descending: false, fixed_len: Some(0) });
        }
        let (cql_type, descending) = CqlType::parse_class(class).ok()?;
        let fixed_len = cql_type.fixed_len();
        Some(FieldType { class: class.to_owned(), cql_type, descending, fixed_len })
    }
}

const EMPTY_TYPE: &str = "org.apache.cassandra.db.marshal.EmptyType";
const COMPOSITE_TYPE: &str = "org.apache.cassandra.db.marshal.CompositeType";

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

/// Counts of values between bounds: `buckets[i]` counts those above `offsets[i - 1]` up to `offsets[i]`, the last one those
/// beyond.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    /// Bounds, ascending.
    pub offsets: Vec<i64>,
    /// Counts, one more than bounds.
    pub buckets: Vec<i64>,
}

/// A bound of a slice of clusterings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoveredBound {
    /// The kind's number, as in markers of Data.db.
    pub kind: u8,
    /// The first values of a clustering; `None` for null.
    pub values: Vec<Option<Vec<u8>>>,
}

/// What bounds the clusterings of an SSTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Covered {
    /// Smallest and largest value of each clustering column (`nb`).
    Legacy {
        /// Smallest.
        min: Vec<Vec<u8>>,
        /// Largest.
        max: Vec<Vec<u8>>,
    },
    /// A slice (`oa`, `da`).
    Slice {
        /// The clustering classes.
        classes: Vec<String>,
        /// The start.
        start: CoveredBound,
        /// The end.
        end: CoveredBound,
    },
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
    pub covered: Covered,
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
    pub keys: (Vec<u8>, Vec<u8>),
    /// Part of the ring that it covers, or NaN (`oa`, `da`).
    pub token_space_coverage: f64,
}

impl Header {
    /// The types of the partition key's columns.
    pub fn key_types(&self) -> Option<Vec<FieldType>> {
        let Some(parts) = self.key_class.strip_prefix(COMPOSITE_TYPE) else {
            return FieldType::parse(&self.key_class).map(|field| vec![field]);
        };
        let parts = parts.strip_prefix('(')?.strip_suffix(')')?;
        let mut depth = 0usize;
        let mut found = Vec::new();
        let mut start = 0;
        for (at, byte) in parts.bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' => depth = depth.checked_sub(1)?,
                b',' if depth == 0 => {
                    found.push(FieldType::parse(parts.get(start..at)?)?);
                    start = at + 1;
                }
                _ => {}
            }
        }
        found.push(FieldType::parse(parts.get(start..)?)?);
        Some(found)
    }

    /// A table as the file alone knows it: the names of key columns are `PartitionKey`, `clustering`, `clustering1`, as
    /// Cassandra's tools call them. `None`: a type or name of a column is not known.
    pub fn table(&self) -> Option<Table> {
        let column = |name: String, kind, position, field: &FieldType| {
            let (cql_type, descending) = (field.cql_type.clone(), field.descending);
            Column { id: ColumnId(0), name, kind, position, cql_type, descending }
        };
        let keys = self.key_types()?;
        let mut columns = Vec::new();
        for (i, field) in keys.iter().enumerate() {
            let name = format!("PartitionKey{}", if i == 0 { String::new() } else { i.to_string() });
            columns.push(column(name, ColumnKind::PartitionKey, i as u16, field));
        }
        for (i, field) in self.clustering.iter().enumerate() {
            let name = format!("clustering{}", if i == 0 { String::new() } else { i.to_string() });
            columns.push(column(name, ColumnKind::Clustering, i as u16, field));
        }
        for (list, kind) in [(&self.statics, ColumnKind::Static), (&self.regulars, ColumnKind::Regular)] {
            let start = columns.len();
            for found in list {
                columns.push(column(String::from_utf8(found.name.clone()).ok()?, kind, 0, &found.field));
            }
            columns[start..].sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        }
        let mut table = Table {
            id: TableId([0; 16]),
            keyspace: "keyspace".into(),
            name: "table".into(),
            columns,
            partition_key_len: keys.len(),
            clustering_len: self.clustering.len(),
            static_len: self.statics.len(),
            dropped: Vec::new(),
            options: TableOptions::default(),
        };
        table.number_columns();
        Some(table)
    }

    fn parse(input: &mut Input<'_>) -> Result<Header, Fault> {
        let min_timestamp = (input.vint()? as i64).wrapping_add(TIMESTAMP_EPOCH);
        let min_local_deletion_time = (input.vint()? as i64).wrapping_add(DELETION_TIME_EPOCH);
        let min_ttl = input.vint()? as i64;
        let key_class = class(input)?.to_owned();
        let count = column_count(input)?;
        let mut clustering = Vec::new();
        for _ in 0..count {
            clustering.push(field(input)?);
        }
        let statics = columns(input)?;
        let regulars = columns(input)?;
        Ok(Header { min_timestamp, min_local_deletion_time, min_ttl, key_class, clustering, statics, regulars })
    }

    fn write(&self, out: &mut Vec<u8>) {
        push_vint(out, self.min_timestamp.wrapping_sub(TIMESTAMP_EPOCH) as u64);
        push_vint(out, self.min_local_deletion_time.wrapping_sub(DELETION_TIME_EPOCH) as u64);
        push_vint(out, self.min_ttl as u64);
        push_bytes(out, self.key_class.as_bytes());
        push_vint(out, self.clustering.len() as u64);
        self.clustering.iter().for_each(|field| push_bytes(out, field.class.as_bytes()));
        for columns in [&self.statics, &self.regulars] {
            push_vint(out, columns.len() as u64);
            for column in columns {
                push_bytes(out, &column.name);
                push_bytes(out, column.field.class.as_bytes());
            }
        }
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_vint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn class<'a>(input: &mut Input<'a>) -> Result<&'a str, Fault> {
    let start = *input;
    let bytes = input.vint_bytes()?;
    if bytes.len() > CLASS_BYTES_MAX {
        return start.fail(Problem::Limit("CLASS_BYTES_MAX"));
    }
    std::str::from_utf8(bytes).or_else(|_| start.invalid("a text"))
}

fn field(input: &mut Input<'_>) -> Result<FieldType, Fault> {
    let start = *input;
    FieldType::parse(class(input)?).map_or_else(|| start.fail(Problem::Unsupported("this type")), Ok)
}

fn column_count(input: &mut Input<'_>) -> Result<usize, Fault> {
    let count = input.vint()?;
    if count > COLUMNS_MAX as u64 {
        return input.fail(Problem::Limit("COLUMNS_MAX"));
    }
    input.count(count, 1)
}

fn columns(input: &mut Input<'_>) -> Result<Vec<HeaderColumn>, Fault> {
    let count = column_count(input)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(HeaderColumn { name: input.vint_bytes()?.to_vec(), field: field(input)? });
    }
    Ok(columns)
}

impl Histogram {
    /// An empty one of so many bounds, each a fifth above the one before.
    fn with_bounds(count: usize) -> Histogram {
        let next = |last: &i64| Some(((*last as f64 * 1.2).round() as i64).max(last + 1));
        let offsets: Vec<i64> = std::iter::successors(Some(1), next).take(count).collect();
        Histogram { buckets: vec![0; offsets.len() + 1], offsets }
    }

    /// Counts a number.
    fn add(&mut self, number: i64) {
        let at = self.offsets.partition_point(|offset| *offset < number);
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket += 1;
        }
    }

    fn parse(input: &mut Input<'_>) -> Result<Histogram, Fault> {
        let count = input.u32()? as usize;
        if count > BUCKETS_MAX {
            return input.fail(Problem::Limit("BUCKETS_MAX"));
        }
        if count < 2 {
            return input.invalid("a histogram");
        }
        let count = input.count(count as u64, 16)?;
        let mut found = Histogram { offsets: Vec::with_capacity(count), buckets: Vec::with_capacity(count) };
        for i in 0..count {
            let offset = input.i64()?;
            if i > 0 {
                found.offsets.push(offset);
            }
            found.buckets.push(input.i64()?);
        }
        Ok(found)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.buckets.len() as u32).to_be_bytes());
        for (i, bucket) in self.buckets.iter().enumerate() {
            let offset = self.offsets.get(i.saturating_sub(1)).copied().unwrap_or(0);
            out.extend_from_slice(&offset.to_be_bytes());
            out.extend_from_slice(&bucket.to_be_bytes());
        }
    }
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

fn covered_bound(input: &mut Input<'_>, lens: &[Option<usize>]) -> Result<CoveredBound, Fault> {
    let kind = input.u8()?;
    let count = input.u16()? as usize;
    let Some(lens) = lens.get(..count) else { return input.invalid("a bound of the clustering") };
    let mut values = Vec::new();
    read_values(input, lens.iter().copied(), |value| {
        values.push(value.map(<[u8]>::to_vec));
        Ok(())
    })?;
    Ok(CoveredBound { kind, values })
}

/// Reads clustering values: for each 32 of them a vint with two bits per value (1 empty, 2 null), then the values.
pub(crate) fn read_values<'a>(
    input: &mut Input<'a>,
    lens: impl Iterator<Item = Option<usize>>,
    mut take: impl FnMut(Option<&'a [u8]>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut marks = 0;
    for (i, len) in lens.enumerate() {
        if i % 32 == 0 {
            marks = input.vint()?;
        }
        let mark = marks & 3;
        marks >>= 2;
        let value = match (mark, len) {
            (0, Some(len)) => Some(input.bytes(len)?),
            (0, None) => Some(input.vint_bytes()?),
            (1, _) => Some(&[][..]),
            _ => None,
        };
        take(value)?;
    }
    Ok(())
}

/// Appends clustering values in the form of [`read_values`].
pub(crate) fn push_values<'a>(
    out: &mut Vec<u8>,
    lens: impl Iterator<Item = Option<usize>> + Clone,
    values: impl Iterator<Item = Option<&'a [u8]>> + Clone,
) {
    for (i, (len, value)) in lens.zip(values.clone()).enumerate() {
        if i % 32 == 0 {
            let marks = values.clone().skip(i).take(32).enumerate().fold(0u64, |marks, (i, value)| {
                marks | (value.map_or(2, |value| u64::from(value.is_empty())) << (2 * i))
            });
            push_vint(out, marks);
        }
        match (value, len) {
            (None | Some([]), _) => {}
            (Some(value), Some(_)) => out.extend_from_slice(value),
            (Some(value), None) => push_bytes(out, value),
        }
    }
}

impl Covered {
    fn parse(input: &mut Input<'_>, version: Version) -> Result<Covered, Fault> {
        if !version.is_5() {
            let mut lists = [Vec::new(), Vec::new()];
            for list in &mut lists {
                let count = input.u32()?;
                for _ in 0..input.count(count.into(), 2)? {
                    list.push(input.short_bytes()?.to_vec());
                }
            }
            let [min, max] = lists;
            return Ok(Covered::Legacy { min, max });
        }
        let count = column_count(input)?;
        let (mut classes, mut lens) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let field = field(input)?;
            lens.push(field.fixed_len);
            classes.push(field.class);
        }
        Ok(Covered::Slice { classes, start: covered_bound(input, &lens)?, end: covered_bound(input, &lens)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Covered::Legacy { min, max } => {
                for list in [min, max] {
                    out.extend_from_slice(&(list.len() as u32).to_be_bytes());
                    for value in list {
                        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
                        out.extend_from_slice(value);
                    }
                }
            }
            Covered::Slice { classes, start, end } => {
                push_vint(out, classes.len() as u64);
                classes.iter().for_each(|class| push_bytes(out, class.as_bytes()));
                for bound in [start, end] {
                    out.push(bound.kind);
                    out.extend_from_slice(&(bound.values.len() as u16).to_be_bytes());
                    let lens = classes.iter().map(|class| FieldType::parse(class).and_then(|field| field.fixed_len));
                    push_values(out, lens, bound.values.iter().map(Option::as_deref));
                }
            }
        }
    }
}

impl Statistics {
    fn parse(input: &mut Input<'_>, version: Version) -> Result<Statistics, Fault> {
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
            covered: Covered::parse(input, version)?,
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
            partition_deletions: version.is_5() && input.bool()?,
            keys: if version.is_5() {
                (input.vint_bytes()?.to_vec(), input.vint_bytes()?.to_vec())
            } else {
                Default::default()
            },
            token_space_coverage: if version.is_5() { input.f64()? } else { f64::NAN },
        })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) {
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
        if version.is_5() {
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
        self.covered.write(out);
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
        if version.is_5() {
            out.push(self.partition_deletions.into());
            push_bytes(out, &self.keys.0);
            push_bytes(out, &self.keys.1);
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
            Ok(if version.is_5() {
                (input.i64()?, i64::from(input.u32()?))
            } else {
                (input.f64()? as i64, input.i64()?)
            })
        })
        .collect()
}

const COMPONENTS: usize = 4;

impl Metadata {
    /// Reads the Statistics.db of an SSTable.
    ///
    /// # Errors
    /// A checksum that is wrong, or bytes that are malformed.
    pub fn open(descriptor: &Descriptor, bytes: &[u8]) -> Result<Metadata, Error> {
        let fault = |fault: Fault| fault.in_file(descriptor, Component::Statistics);
        Metadata::parse(bytes, descriptor.version).map_err(fault)
    }

    pub(crate) fn parse(bytes: &[u8], version: Version) -> Result<Metadata, Fault> {
        let mut input = Input::new(bytes, 0);
        if input.u32()? as usize != COMPONENTS {
            return input.invalid("four components");
        }
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes.get(..4).unwrap_or_default());
        check(&mut input, &crc)?;
        let mut offsets = [0usize; COMPONENTS];
        let table = input.offset() as usize;
        for (expected, offset) in offsets.iter_mut().enumerate() {
            if input.u32()? as usize != expected {
                return input.invalid("the kind of a component");
            }
            *offset = input.u32()? as usize;
        }
        crc.update(bytes.get(table..input.offset() as usize).unwrap_or_default());
        check(&mut input, &crc)?;
        let ends = [offsets[1], offsets[2], offsets[3], bytes.len()];
        let mut parts = [input; COMPONENTS];
        for ((part, start), end) in parts.iter_mut().zip(offsets).zip(ends) {
            *part = component(bytes, start..end)?;
        }
        let [mut validation, mut compaction, mut statistics, mut header] = parts;
        let partitioner = validation.short_text()?.to_owned();
        let filter_chance = validation.f64()?;
        let len = compaction.u32()? as usize;
        Ok(Metadata {
            partitioner,
            filter_chance,
            cardinality: compaction.bytes(len)?.to_vec(),
            statistics: Statistics::parse(&mut statistics, version)?,
            header: Header::parse(&mut header)?,
        })
    }

    /// The file's bytes.
    pub fn write(&self, version: Version) -> Vec<u8> {
        let mut parts: [Vec<u8>; COMPONENTS] = Default::default();
        let [validation, compaction, statistics, header] = &mut parts;
        validation.extend_from_slice(&(self.partitioner.len() as u16).to_be_bytes());
        validation.extend_from_slice(self.partitioner.as_bytes());
        validation.extend_from_slice(&self.filter_chance.to_be_bytes());
        compaction.extend_from_slice(&(self.cardinality.len() as u32).to_be_bytes());
        compaction.extend_from_slice(&self.cardinality);
        self.statistics.write(version, statistics);
        self.header.write(header);
        let mut out = (COMPONENTS as u32).to_be_bytes().to_vec();
        let mut crc = crc32fast::Hasher::new();
        crc.update(&out);
        out.extend_from_slice(&crc.clone().finalize().to_be_bytes());
        let mut offset = out.len() + 8 * COMPONENTS + 4;
        let table = out.len();
        for (kind, part) in parts.iter().enumerate() {
            out.extend_from_slice(&(kind as u32).to_be_bytes());
            out.extend_from_slice(&(offset as u32).to_be_bytes());
            offset += part.len() + 4;
        }
        crc.update(&out[table..]);
        out.extend_from_slice(&crc.finalize().to_be_bytes());
        for part in &parts {
            out.extend_from_slice(part);
            out.extend_from_slice(&crc32fast::hash(part).to_be_bytes());
        }
        out
    }
}

fn check(input: &mut Input<'_>, crc: &crc32fast::Hasher) -> Result<(), Fault> {
    let start = *input;
    if input.u32()? == crc.clone().finalize() { Ok(()) } else { start.fail(Problem::Checksum) }
}

/// A component without its checksum.
fn component(bytes: &[u8], range: Range<usize>) -> Result<Input<'_>, Fault> {
    let offset = range.start as u64;
    let Some((part, crc)) = bytes.get(range).and_then(|part| part.split_last_chunk()) else {
        return Err(Fault { offset, problem: Problem::Truncated });
    };
    if crc32fast::hash(part) != u32::from_be_bytes(*crc) {
        return Err(Fault { offset, problem: Problem::Checksum });
    }
    Ok(Input::new(part, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem<T>(result: Result<T, Fault>) -> Option<Problem> {
        result.err().map(|fault| fault.problem)
    }

    #[test]
    fn what_a_file_counts_is_bounded() {
        let histogram = |count: usize| {
            let mut bytes = (count as u32).to_be_bytes().to_vec();
            bytes.resize(4 + 16 * count, 0);
            problem(Histogram::parse(&mut Input::new(&bytes, 0)))
        };
        assert_eq!(histogram(BUCKETS_MAX), None);
        assert_eq!(histogram(BUCKETS_MAX + 1), Some(Problem::Limit("BUCKETS_MAX")));
        let columns = |count: usize| {
            let mut bytes = Vec::new();
            push_vint(&mut bytes, count as u64);
            bytes.resize(bytes.len() + count, 0);
            problem(column_count(&mut Input::new(&bytes, 0)))
        };
        assert_eq!(columns(COLUMNS_MAX), None);
        assert_eq!(columns(COLUMNS_MAX + 1), Some(Problem::Limit("COLUMNS_MAX")));
        let class_of = |len: usize| {
            let mut bytes = Vec::new();
            push_bytes(&mut bytes, &vec![b'a'; len]);
            problem(class(&mut Input::new(&bytes, 0)))
        };
        assert_eq!(class_of(CLASS_BYTES_MAX), None);
        assert_eq!(class_of(CLASS_BYTES_MAX + 1), Some(Problem::Limit("CLASS_BYTES_MAX")));
    }
}
