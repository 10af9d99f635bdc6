//! What nodes tell each other to know which deletions have reached all replicas:
//! ```text
//! waiting since:  nothing
//! answer:         flag u8 [i64, microseconds since 1970: no hint or logged batch of the node is older]
//! note repaired:  table id [16]; second i64; count u32, of each range the positions of its start and its end
//! answer:         nothing
//! ```
//! A position is that of `reads`.

use super::bytes::{Reader, push_count};
use super::reads::{position, push_position};
use crate::messages::repair::Repaired;
use model::{Partitioner, TableId, TokenRange};

/// Writes since when something waits.
pub(crate) fn push_waiting(out: &mut Vec<u8>, since: Option<i64>) {
    out.push(since.is_some().into());
    since.into_iter().for_each(|since| out.extend_from_slice(&since.to_le_bytes()));
}

/// Reads since when something waits; `None` if the bytes are none.
pub(crate) fn decode_waiting(bytes: &[u8]) -> Option<Option<i64>> {
    let mut reader = Reader::new(bytes);
    let since = if reader.flag()? { Some(reader.i64()?) } else { None };
    reader.is_empty().then_some(since)
}

/// Writes what is repaired.
pub(crate) fn push(out: &mut Vec<u8>, repaired: &Repaired) {
    out.extend_from_slice(&repaired.table.0);
    out.extend_from_slice(&repaired.second.to_le_bytes());
    push_count(out, repaired.ranges.len());
    for TokenRange { start, end } in &repaired.ranges {
        push_position(out, start.as_ref());
        push_position(out, end.as_ref());
    }
}

/// Reads what is repaired; `None` if the bytes are none.
pub(crate) fn decode(partitioner: Partitioner, bytes: &[u8]) -> Option<Repaired> {
    let mut reader = Reader::new(bytes);
    let (table, second) = (TableId(reader.chunk()?), reader.i64()?);
    let count = reader.count(2)?;
    let mut range = || {
        let (start, end) = (position(&mut reader, partitioner)?, position(&mut reader, partitioner)?);
        Some(TokenRange { start, end })
    };
    let ranges = (0..count).map(|_| range()).collect::<Option<_>>()?;
    reader.is_empty().then_some(Repaired { table, second, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::RingToken;

    #[test]
    fn golden_bytes_of_proofs() {
        let mut out = Vec::new();
        push_waiting(&mut out, None);
        push_waiting(&mut out, Some(258));
        assert_eq!(out, [0, 1, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!((decode_waiting(&out[..1]), decode_waiting(&out[1..])), (Some(None), Some(Some(258))));
        assert!(
            decode_waiting(&out[1..9]).is_none() && decode_waiting(&[2]).is_none() && decode_waiting(&[]).is_none()
        );
        let range = TokenRange::between(RingToken::Murmur3(-2), RingToken::Murmur3(i64::MIN));
        let repaired = Repaired { table: TableId([7; 16]), second: 1_700_000_000, ranges: vec![range] };
        let mut out = Vec::new();
        push(&mut out, &repaired);
        let mut expected = vec![7; 16];
        expected.extend_from_slice(&1_700_000_000i64.to_le_bytes());
        expected.extend_from_slice(&[1, 0, 0, 0, 2, 8, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 254, 0]);
        assert_eq!(out, expected);
        assert_eq!(decode(Partitioner::Murmur3, &out), Some(repaired));
        assert!((0..out.len()).all(|len| decode(Partitioner::Murmur3, &out[..len]).is_none()));
    }
}
