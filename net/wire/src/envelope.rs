//! Envelopes: the 9-byte header and its body.
//!
//! ```text
//! 0  version   low 7 bits 3, 4 or 5; bit 7 set in responses
//! 1  flags
//! 2  stream    i16, big-endian; negative in events
//! 4  opcode
//! 5  length    u32, big-endian: bytes of the body
//! ```
//! Versions 1 and 2 have a one-byte stream and so 8 bytes; they are only ever refused, in their own form.

use crate::{Opcode, Version};
use bytes::Bytes;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 9;

/// A checked header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Version.
    pub version: Version,
    /// See [`crate::flags`].
    pub flags: u8,
    /// The request that a response answers; negative for events.
    pub stream: i16,
    /// What the body is.
    pub opcode: Opcode,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Its header.
    pub header: Header,
    /// Its body.
    pub body: Bytes,
}

/// Appends an envelope whose body, less than 4 GiB, `encode` appends. `version_byte` has bit 7 set in responses.
pub fn put_envelope(
    out: &mut Vec<u8>,
    version_byte: u8,
    flags: u8,
    stream: i16,
    opcode: Opcode,
    encode: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    let [high, low] = stream.to_be_bytes();
    out.extend_from_slice(&[version_byte, flags, high, low, opcode as u8, 0, 0, 0, 0]);
    encode(out);
    let len = (out.len() - start - HEADER_BYTES) as u32;
    out[start + 5..start + HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
}
