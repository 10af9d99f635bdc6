//! Statistics.db: what was counted in an SSTable, and the header that Data.db is encoded by.
//!
//! ```text
//! components u32 (4), CRC-32; per component kind u32 and offset u32; CRC-32 of everything so far; then each component
//! and its CRC-32. Kinds: 0 validation, 1 compaction, 2 statistics, 3 header. Before `na` there are no CRC-32s.
//!
//! validation   partitioner [u16 length, text], bloom filter chance f64
//! compaction   cardinality estimator [u32 length, bytes]
//! ```
//! The statistics component has the fields of [`Statistics`] in their order. The four components are not the components
//! of an SSTable, which are files ([`Component`]).
//!
//! Invariants: what was parsed is written to the same bytes again.

mod cardinality;
mod clustering_bounds;
mod clustering_values;
mod collector;
mod drop_times;
mod encoding_stats;
mod header;
mod histogram;
mod stats_component;

pub use clustering_bounds::{ClusteringBound, ClusteringBounds};
pub(crate) use clustering_values::{push_values, read_values};
pub(crate) use collector::Collector;
pub use drop_times::DROP_TIMES_MAX;
pub use encoding_stats::EncodingStats;
pub use header::{CLASS_BYTES_MAX, COLUMNS_MAX, FieldType, Header, HeaderColumn};
pub use histogram::{BUCKETS_MAX, Histogram};
pub use stats_component::{LogPosition, Statistics};

use crate::descriptor::{Component, Descriptor};
use crate::error::{Error, Fault, Problem};
use crate::input::{Input, push_vint};
use crate::version::Version;
use std::ops::Range;

/// The contents of a Statistics.db.
#[derive(Clone, PartialEq, Debug)]
pub struct Metadata {
    /// The class of the partitioner.
    pub partitioner: String,
    /// The chance of a false positive that Filter.db was made for.
    pub filter_chance: f64,
    /// The serialised HyperLogLog++ sketch of the partition keys.
    pub cardinality: Vec<u8>,
    /// What was counted.
    pub statistics: Statistics,
    /// How rows are encoded.
    pub header: Header,
}

/// Appends bytes preceded by their length as a vint.
fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_vint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

const COMPONENTS: usize = 4;

impl Metadata {
    /// Parses the bytes of an SSTable's Statistics.db.
    ///
    /// # Errors
    /// The bytes are malformed, or do not match their checksums.
    pub fn open(descriptor: &Descriptor, bytes: &[u8]) -> Result<Metadata, Error> {
        let fault = |fault: Fault| fault.in_file(descriptor, Component::Statistics);
        Metadata::parse(bytes, descriptor.version).map_err(fault)
    }

    pub(crate) fn parse(bytes: &[u8], version: Version) -> Result<Metadata, Fault> {
        let mut input = Input::new(bytes, 0);
        if input.u32()? as usize != COMPONENTS {
            return input.invalid("four components");
        }
        let is_checked = version.features().statistics_checksums;
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes.get(..4).unwrap_or_default());
        if is_checked {
            check(&mut input, &crc)?;
        }
        let mut offsets = [0usize; COMPONENTS];
        let table = input.offset() as usize;
        for (expected, offset) in offsets.iter_mut().enumerate() {
            if input.u32()? as usize != expected {
                return input.invalid("the kind of a component");
            }
            *offset = input.u32()? as usize;
        }
        crc.update(bytes.get(table..input.offset() as usize).unwrap_or_default());
        if is_checked {
            check(&mut input, &crc)?;
        }
        let component = |range| component(bytes, range, is_checked);
        let [validation, compaction, statistics, header] = offsets;
        let mut validation = component(validation..compaction)?;
        let mut compaction = component(compaction..statistics)?;
        let mut statistics = component(statistics..header)?;
        let mut header = component(header..bytes.len())?;
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

    /// Returns the bytes of a Statistics.db.
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
        let crc_len = if version.features().statistics_checksums { 4 } else { 0 };
        let push_crc = |out: &mut Vec<u8>, crc: u32| out.extend(crc.to_be_bytes().iter().take(crc_len));
        let mut crc = crc32fast::Hasher::new();
        crc.update(&out);
        push_crc(&mut out, crc.clone().finalize());
        let mut offset = out.len() + 8 * COMPONENTS + crc_len;
        let mut offsets = Vec::new();
        for (kind, part) in parts.iter().enumerate() {
            offsets.extend_from_slice(&(kind as u32).to_be_bytes());
            offsets.extend_from_slice(&(offset as u32).to_be_bytes());
            offset += part.len() + crc_len;
        }
        crc.update(&offsets);
        out.append(&mut offsets);
        push_crc(&mut out, crc.finalize());
        for part in &parts {
            out.extend_from_slice(part);
            push_crc(&mut out, crc32fast::hash(part));
        }
        out
    }
}

/// Reads a checksum and compares it with `crc`.
fn check(input: &mut Input<'_>, crc: &crc32fast::Hasher) -> Result<(), Fault> {
    let start = *input;
    if input.u32()? == crc.clone().finalize() { Ok(()) } else { start.fail(Problem::Checksum) }
}

/// Returns the bytes of a component, without its checksum, which is checked if there is one.
fn component(bytes: &[u8], range: Range<usize>, is_checked: bool) -> Result<Input<'_>, Fault> {
    let offset = range.start as u64;
    let fault = |problem| Fault { offset, problem };
    let whole = bytes.get(range).ok_or(fault(Problem::Truncated))?;
    if !is_checked {
        return Ok(Input::new(whole, offset));
    }
    let (part, crc) = whole.split_last_chunk().ok_or(fault(Problem::Truncated))?;
    if crc32fast::hash(part) != u32::from_be_bytes(*crc) {
        return Err(fault(Problem::Checksum));
    }
    Ok(Input::new(part, offset))
}
