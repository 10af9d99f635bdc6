//! Envelopes: the 9-byte header and its body.
//!
//! ```text
//! 0  version   low 7 bits: 3, 4 or 5; bit 7 is set in responses
//! 1  flags     see `flags`
//! 2  stream    i16, big-endian; negative in events
//! 4  opcode
//! 5  length    u32, big-endian: bytes of the body
//! ```
//! Headers of versions 1 and 2 have 8 bytes, because their stream has one. The decoder knows them only to refuse them.

use crate::notation::fill_in;
use crate::{Opcode, Version};
use bytes::Bytes;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 9;

/// Where in a header the flags are.
pub(crate) const FLAGS_AT: usize = 1;
/// Where in a header the body's length is.
pub(crate) const LENGTH_AT: usize = 5;

/// A header whose version and opcode are known. The body's length is that of [`Envelope::body`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Protocol version.
    pub version: Version,
    /// Bits of [`crate::flags`].
    pub flags: u8,
    /// The client's number for the request, which the response repeats; negative for events.
    pub stream: i16,
    /// The kind of message that the body holds.
    pub opcode: Opcode,
}

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The header.
    pub header: Header,
    /// The body, as received.
    pub body: Bytes,
}

/// Appends an envelope whose body `encode` appends; it must stay below 4 GiB. `version_byte` has bit 7 set in
/// responses.
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
    fill_in(out, start + LENGTH_AT, len.to_be_bytes());
}
