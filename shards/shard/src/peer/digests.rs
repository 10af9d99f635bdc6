//! The request of a digest, and its answer:
//! ```text
//! request: 1 u8 if the rows are returned too, 0 if not; the request of a read, see `reads`
//! answer:  digest [16]; the rows, see `rows`, if they were asked for
//! ```

use super::bytes::Reader;
use super::reads::{self, AskedCore};
use super::rows;
use crate::messages::data::{ReadReply, ReadRequest};
use model::Partitioner;
use model::digest::Digest;

/// Writes a read whose digest is asked for, and its rows as well or not.
pub(crate) fn push(out: &mut Vec<u8>, request: &ReadRequest, with_rows: bool, core: AskedCore) {
    out.push(with_rows.into());
    reads::push(out, request, core);
}

/// Whether the rows are asked for, and the request of the read; `None` if the bytes are too few.
pub(crate) fn split(bytes: &[u8]) -> Option<(bool, &[u8])> {
    let mut reader = Reader::new(bytes);
    Some((reader.flag()?, reader.rest()))
}

/// Writes the answer.
pub(crate) fn push_answer(out: &mut Vec<u8>, digest: Digest, rows: Option<&ReadReply>) {
    out.extend_from_slice(&digest.bytes());
    if let Some(rows) = rows {
        rows::push(out, rows);
    }
}

/// Reads the answer to a request `with_rows` or without; `None` if the bytes are none.
pub(crate) fn decode_answer(
    partitioner: Partitioner,
    bytes: &[u8],
    with_rows: bool,
) -> Option<(Digest, Option<ReadReply>)> {
    let mut reader = Reader::new(bytes);
    let digest = Digest::from_bytes(reader.chunk()?);
    match with_rows {
        true => Some((digest, Some(rows::decode(partitioner, reader.rest())?))),
        false => reader.is_empty().then_some((digest, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let digest = Digest::from_bytes([7; 16]);
        let mut alone = Vec::new();
        push_answer(&mut alone, digest, None);
        assert_eq!(alone, [7; 16]);
        let mut with_rows = Vec::new();
        push_answer(&mut with_rows, digest, Some(&ReadReply::default()));
        let mut rows = Vec::new();
        rows::push(&mut rows, &ReadReply::default());
        assert_eq!(with_rows, [&[7; 16][..], &rows].concat());
        let decode = |bytes: &[u8], is_asked| {
            let answer = decode_answer(Partitioner::Murmur3, bytes, is_asked);
            answer.map(|(digest, rows)| (digest, rows.map(|rows| rows.block.rows)))
        };
        assert_eq!(decode(&alone, false), Some((digest, None)));
        assert_eq!(decode(&with_rows, true), Some((digest, Some(0))));
        assert_eq!(decode(&alone, true), None, "the rows are missing");
        assert_eq!(decode(&with_rows, false), None, "nobody asked for rows");
        assert!((0..with_rows.len()).all(|len| decode(&with_rows[..len], true).is_none()));
        assert_eq!(split(&[1, 5, 6]), Some((true, &[5, 6][..])));
        assert_eq!(split(&[0]), Some((false, &[][..])));
        assert_eq!((split(&[]), split(&[2, 5])), (None, None));
    }
}
