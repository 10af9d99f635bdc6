//! Frames: the messages on a connection once the greeting has passed.
//!
//! ```text
//! at  bytes
//!  0   4    bytes of the payload
//!  4   1    kind: 1 request, 2 one way, 3 reply, 4 failure, 5 ping, 6 pong
//!  5   1    flags: 1 compressed
//!  6   1    verb; of a failure its reason
//!  7   1    0
//!  8   8    number of the call, for request, reply and failure
//! 16   8    request and one way: when it expires; ping: now; microseconds on the clock of the side that dialled
//! 24   8    xxh3-64 of the payload
//! 32   8    xxh3-64 of the 32 bytes before
//! 40   n    payload
//! ```
//! Integers are little-endian. The payload is the body, or, if compressed, 4 bytes with the body's length and one LZ4
//! block. The side that dialled sends requests, one ways and pings, the other side replies, failures and pongs.
//!
//! Invariants: a length is believed only after the head's hash and the limit are checked; no bytes panic.

mod compression;
mod decoder;

pub use decoder::{Decoder, Step};

use compression::compress;
use num_enum::TryFromPrimitive;
use runtime::hash64;

/// Bytes of a frame before its payload.
pub const HEAD_BYTES: usize = 40;

const LENGTH_BYTES: usize = 4;
const PAYLOAD_HASH_AT: usize = 24;
const HEAD_HASH_AT: usize = 32;
const COMPRESSED: u8 = 1;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, TryFromPrimitive)]
#[repr(u8)]
pub enum Kind {
    /// A message that is answered.
    Request = 1,
    /// A message that is not.
    OneWay = 2,
    /// The answer to a request.
    Reply = 3,
    /// Says that a request gets no answer; the verb is the number of a [`crate::FailureReason`].
    Failure = 4,
    /// Asks whether the other side is there, and shows it the clock.
    Ping = 5,
    /// The answer to a ping.
    Pong = 6,
}

/// A frame without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// The verb of a message; numbers have their meaning above this crate.
    pub verb: u8,
    /// The number of the call.
    pub id: u64,
    /// When a message expires, or what the clock shows, in microseconds on the clock of the side that dialled.
    pub clock_micros: u64,
    /// Whether the payload is compressed.
    pub compressed: bool,
    /// Bytes of the payload.
    pub payload_bytes: usize,
    payload_hash: u64,
}

/// What is wrong with bytes that should be frames. Nothing that follows on the connection can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// A hash does not match.
    Corrupt,
    /// The kind is not known, or the compressed payload makes no sense.
    Malformed,
    /// A payload or its body is longer than the limit.
    TooLong,
}

/// What a frame to be sent is, but for its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// What it is.
    pub kind: Kind,
    /// See [`Head::verb`].
    pub verb: u8,
    /// See [`Head::id`].
    pub id: u64,
    /// See [`Head::clock_micros`].
    pub clock_micros: u64,
}

impl Envelope {
    /// Appends a frame whose body `write` appends, and returns the bytes of the body. A body of at least
    /// [`COMPRESSED_BYTES_MIN`] bytes is compressed if `compressing` and if that makes it smaller. Bodies are below
    /// 4 GiB.
    pub fn put(self, out: &mut Vec<u8>, compressing: bool, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = out.len();
        out.resize(start + HEAD_BYTES, 0);
        let payload_at = start + HEAD_BYTES;
        write(out);
        let body_bytes = out.len() - payload_at;
        let compressed = compressing && body_bytes >= COMPRESSED_BYTES_MIN && compress(out, payload_at);
        let payload = &out[payload_at..];
        let (length, payload_hash) = (payload.len() as u32, hash64(payload));
        let head = &mut out[start..payload_at];
        head[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        head[4..8].copy_from_slice(&[self.kind as u8, if compressed { COMPRESSED } else { 0 }, self.verb, 0]);
        head[8..16].copy_from_slice(&self.id.to_le_bytes());
        head[16..24].copy_from_slice(&self.clock_micros.to_le_bytes());
        head[PAYLOAD_HASH_AT..HEAD_HASH_AT].copy_from_slice(&payload_hash.to_le_bytes());
        let head_hash = hash64(&head[..HEAD_HASH_AT]);
        head[HEAD_HASH_AT..].copy_from_slice(&head_hash.to_le_bytes());
        body_bytes
    }
}

/// Smaller bodies are not compressed.
pub const COMPRESSED_BYTES_MIN: usize = 1024;

impl Head {
    fn of(bytes: &[u8; HEAD_BYTES]) -> Result<Head, Damage> {
        let number = |at: usize| {
            let field = bytes[at..].first_chunk().expect("within the head");
            u64::from_le_bytes(*field)
        };
        if number(HEAD_HASH_AT) != hash64(&bytes[..HEAD_HASH_AT]) {
            return Err(Damage::Corrupt);
        }
        let length = u32::from_le_bytes(*bytes.first_chunk().expect("within the head"));
        Ok(Head {
            kind: Kind::try_from(bytes[4]).map_err(|_| Damage::Malformed)?,
            verb: bytes[6],
            id: number(8),
            clock_micros: number(16),
            compressed: bytes[5] & COMPRESSED != 0,
            payload_bytes: length as usize,
            payload_hash: number(PAYLOAD_HASH_AT),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut out = Vec::new();
        let envelope = Envelope { kind: Kind::Request, verb: 0x40, id: 0x0102_0304_0506_0708, clock_micros: 9 };
        assert_eq!(envelope.put(&mut out, true, |out| out.extend_from_slice(b"body")), 4);
        let mut expected = b"\x04\0\0\0\x01\0\x40\0\x08\x07\x06\x05\x04\x03\x02\x01\x09\0\0\0\0\0\0\0".to_vec();
        expected.extend_from_slice(&hash64(b"body").to_le_bytes());
        let hash = hash64(&expected);
        expected.extend_from_slice(&hash.to_le_bytes());
        expected.extend_from_slice(b"body");
        assert_eq!(out, expected);
        // The hash itself is xxh3-64 with seed 0, as its published vectors have it.
        assert_eq!(hash64(b""), 0x2d06_8005_38d3_94c2);
    }
}
