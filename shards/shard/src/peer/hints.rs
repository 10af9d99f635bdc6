//! A mutation that a node has missed, as another one sends it later:
//!
//! ```text
//! node [16]: the host id of the node that has missed it
//! written at i64, microseconds since 1970
//! gc_grace_seconds u32, the smallest of its tables
//! mutation
//! ```
//! A node that is not named by it keeps it for the one that is. The answer is empty.

use super::bytes::Reader;
use engine::hints::Hint;
use uuid::Uuid;

/// Bytes before the mutation.
pub(crate) const HINT_HEAD_BYTES: usize = 16 + 8 + 4;

/// Writes a hint for the node `host_id`.
pub(crate) fn push(out: &mut Vec<u8>, host_id: Uuid, hint: &Hint<'_>) {
    out.extend_from_slice(host_id.as_bytes());
    out.extend_from_slice(&hint.written_at.to_le_bytes());
    out.extend_from_slice(&hint.gc_grace_seconds.to_le_bytes());
    out.extend_from_slice(hint.mutation);
}

/// Reads a hint, and which node has missed it; `None` if the bytes are none.
pub(crate) fn split(bytes: &[u8]) -> Option<(Uuid, Hint<'_>)> {
    let mut reader = Reader::new(bytes);
    let host_id = Uuid::from_bytes(reader.chunk()?);
    let (written_at, gc_grace_seconds) = (reader.i64()?, reader.u32()?);
    Some((host_id, Hint { written_at, gc_grace_seconds, mutation: reader.rest() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let hint = Hint { written_at: 0x0102_0304, gc_grace_seconds: 9, mutation: b"abc" };
        let mut out = Vec::new();
        push(&mut out, Uuid::from_u128(7), &hint);
        let mut expected = vec![0; 15];
        expected.extend_from_slice(&[7, 4, 3, 2, 1, 0, 0, 0, 0, 9, 0, 0, 0, b'a', b'b', b'c']);
        assert_eq!(out, expected);
        assert_eq!(split(&out), Some((Uuid::from_u128(7), hint)));
        assert!((0..HINT_HEAD_BYTES).all(|len| split(&out[..len]).is_none()), "too short");
    }
}
