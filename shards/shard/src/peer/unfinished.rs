//! What a repair asks of a replica about changes that rounds of Paxos have left unfinished:
//! ```text
//! request: table id [16]; position of the start, position of the end; flag u8 [key length u16, key: only partitions
//!          behind it]
//! answer:  partitions u64, so many were finished; flag u8 [key length u16, key: the last of them; there may be more
//!          behind it]
//! ```
//! A position is that of `reads`.

use super::bytes::{Reader, push_short};
use super::reads::{position, push_position};
use crate::messages::repair::{Finished, UnfinishedRequest};
use model::{DecoratedKey, Partitioner, TableId, TokenRange};

fn push_key(out: &mut Vec<u8>, key: Option<&DecoratedKey>) {
    out.push(key.is_some().into());
    key.into_iter().for_each(|key| push_short(out, &key.key));
}

fn key(reader: &mut Reader<'_>, partitioner: Partitioner) -> Option<Option<DecoratedKey>> {
    Some(if reader.flag()? { Some(reader.key(partitioner)?) } else { None })
}

/// Writes a request.
pub(crate) fn push(out: &mut Vec<u8>, request: &UnfinishedRequest) {
    out.extend_from_slice(&request.table.0);
    push_position(out, request.range.start.as_ref());
    push_position(out, request.range.end.as_ref());
    push_key(out, request.after.as_ref());
}

/// Reads a request; `None` if the bytes are none.
pub(crate) fn decode(partitioner: Partitioner, bytes: &[u8]) -> Option<UnfinishedRequest> {
    let mut reader = Reader::new(bytes);
    let table = TableId(reader.chunk()?);
    let (start, end) = (position(&mut reader, partitioner)?, position(&mut reader, partitioner)?);
    let after = key(&mut reader, partitioner)?;
    reader.is_empty().then_some(UnfinishedRequest { table, range: TokenRange { start, end }, after })
}

/// Writes an answer.
pub(crate) fn push_answer(out: &mut Vec<u8>, finished: &Finished) {
    out.extend_from_slice(&finished.partitions.to_le_bytes());
    push_key(out, finished.last.as_ref());
}

/// Reads an answer; `None` if the bytes are none.
pub(crate) fn decode_answer(partitioner: Partitioner, bytes: &[u8]) -> Option<Finished> {
    let mut reader = Reader::new(bytes);
    let partitions = reader.u64()?;
    let last = key(&mut reader, partitioner)?;
    reader.is_empty().then_some(Finished { partitions, last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::RingToken;

    const M3: Partitioner = Partitioner::Murmur3;

    #[test]
    fn golden_bytes_of_unfinished_changes() {
        let range = TokenRange::between(RingToken::Murmur3(-2), RingToken::Murmur3(i64::MIN));
        let after = Some(DecoratedKey::new(M3, b"k"));
        let request = UnfinishedRequest { table: TableId([7; 16]), range, after };
        let mut out = Vec::new();
        push(&mut out, &request);
        let mut expected = vec![7; 16];
        expected.extend_from_slice(&[2, 8, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 254, 0, 1, 1, 0, b'k']);
        assert_eq!(out, expected);
        assert_eq!(decode(M3, &out), Some(request.clone()));
        assert!((0..out.len()).all(|len| decode(M3, &out[..len]).is_none()));
        let first = UnfinishedRequest { after: None, ..request };
        let mut out = Vec::new();
        push(&mut out, &first);
        assert_eq!(out, [&expected[..expected.len() - 4], &[0]].concat());
        assert_eq!(decode(M3, &out), Some(first));
        for (last, bytes) in [(None, &[0][..]), (Some(DecoratedKey::new(M3, b"k")), &[1, 1, 0, b'k'])] {
            let finished = Finished { partitions: 258, last };
            let mut out = Vec::new();
            push_answer(&mut out, &finished);
            assert_eq!(out, [&[2, 1, 0, 0, 0, 0, 0, 0][..], bytes].concat());
            assert_eq!(decode_answer(M3, &out), Some(finished));
            assert!((0..out.len()).all(|len| decode_answer(M3, &out[..len]).is_none()));
        }
    }
}
