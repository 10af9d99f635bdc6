//! Positions in the log, and truncations as positions.

use super::segment::{counter_of, shard_of};

/// A position in the log of a shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogPosition {
    /// `counter << 16 | shard`.
    pub segment: u64,
    /// Offset in the segment, bytes.
    pub offset: u32,
}

impl From<LogPosition> for sstable::statistics::LogPosition {
    fn from(position: LogPosition) -> Self {
        Self { segment: position.segment as i64, position: position.offset as i32 }
    }
}

impl From<sstable::statistics::LogPosition> for LogPosition {
    fn from(position: sstable::statistics::LogPosition) -> Self {
        LogPosition { segment: position.segment as u64, offset: position.position as u32 }
    }
}

/// What a truncation of a table removed, stored in `system.local.truncated_at` as [`Truncation::encode`] gives it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Truncation {
    /// All records in segments whose counter (id >> 16) is lower were truncated, whatever shard wrote them.
    pub counter_floor: u64,
    /// For segments at or above the floor: one position per writing shard, before which the table's records were
    /// truncated.
    pub positions: Vec<LogPosition>,
    /// When the table was truncated, milliseconds since 1970.
    pub at_millis: i64,
}

/// First byte of an encoded truncation.
const VERSION: u8 = 1;
/// Bytes of one encoded position: segment u64, offset u32.
const POSITION_BYTES: usize = 12;

impl Truncation {
    /// The bytes for the system table: version u8, floor u64, milliseconds i64, then per position segment u64 and
    /// offset u32, all little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.counter_floor.to_le_bytes());
        out.extend_from_slice(&self.at_millis.to_le_bytes());
        for position in &self.positions {
            out.extend_from_slice(&position.segment.to_le_bytes());
            out.extend_from_slice(&position.offset.to_le_bytes());
        }
        out
    }

    /// Decodes what [`Truncation::encode`] made; `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Truncation> {
        let (version, rest) = bytes.split_first()?;
        let (floor, rest) = rest.split_first_chunk::<8>()?;
        let (at_millis, rest) = rest.split_first_chunk::<8>()?;
        if *version != VERSION || !rest.len().is_multiple_of(POSITION_BYTES) {
            return None;
        }
        let position = |bytes: &[u8]| {
            let (segment, offset) = bytes.split_first_chunk::<8>()?;
            let offset = u32::from_le_bytes(*offset.first_chunk::<4>()?);
            Some(LogPosition { segment: u64::from_le_bytes(*segment), offset })
        };
        Some(Truncation {
            counter_floor: u64::from_le_bytes(*floor),
            positions: rest.chunks_exact(POSITION_BYTES).filter_map(position).collect(),
            at_millis: i64::from_le_bytes(*at_millis),
        })
    }

    /// Whether a record at `position` was truncated.
    pub fn covers(&self, position: LogPosition) -> bool {
        let same_shard = |cut: &&LogPosition| shard_of(cut.segment) == shard_of(position.segment);
        counter_of(position.segment) < self.counter_floor
            || self.positions.iter().filter(same_shard).any(|cut| position < *cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitlog::segment::id_of;

    fn at(counter: u64, shard: u16, offset: u32) -> LogPosition {
        LogPosition { segment: id_of(counter, shard), offset }
    }

    #[test]
    fn s3_a_truncation_covers_what_came_before_it_on_every_shard() {
        let truncation = Truncation { counter_floor: 5, positions: vec![at(6, 0, 8192), at(5, 1, 4096)], at_millis: 1 };
        for gone in [at(4, 0, 9), at(4, 7, 9), at(5, 0, 9), at(6, 0, 4096)] {
            assert!(truncation.covers(gone), "{gone:?}");
        }
        for kept in [at(6, 0, 8192), at(7, 0, 0), at(5, 1, 4096), at(5, 2, 4096)] {
            assert!(!truncation.covers(kept), "{kept:?}");
        }
    }

    #[test]
    fn truncations_survive_encoding() {
        let truncation =
            Truncation { counter_floor: 5, positions: vec![at(6, 0, 8192), at(5, 1, 4096)], at_millis: -1 };
        let bytes = truncation.encode();
        assert_eq!(Truncation::decode(&bytes), Some(truncation));
        for cut in (0..bytes.len()).filter(|cut| !(*cut >= 17 && (cut - 17).is_multiple_of(POSITION_BYTES))) {
            assert_eq!(Truncation::decode(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Truncation::decode(&[9; 17]), None);
    }
}
