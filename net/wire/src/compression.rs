//! Compression of bodies, agreed by STARTUP: versions 3 and 4. Segments of version 5 have their own
//! ([`crate::segment`]).
//!
//! ```text
//! LZ4 body     u32, big-endian: bytes of the plain body; then one LZ4 block
//! Snappy body  one raw Snappy block, which begins with the plain length
//! ```
//! A header flag says which bodies are compressed. After a STARTUP with compression the server compresses every answer,
//! READY included; the client may compress each request or not. In version 5 the flag means nothing.
//!
//! Invariants: a declared length is checked against the caller's limit, and against what so many compressed bytes can
//! stand for, before anything is allocated; the plain body has exactly that length; corrupt input is a protocol error.

use crate::envelope::{Envelope, FLAGS_AT, HEADER_BYTES, LENGTH_AT};
use crate::lz4::{self, check_expansion, corrupt};
use crate::notation::fill_in;
use crate::{Version, flags};
use bytes::Bytes;
use model::Failure;

/// A compression algorithm that STARTUP can name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum Compression {
    Lz4,
    Snappy,
}

/// The names in SUPPORTED, in Cassandra's order.
pub const NAMES: [&str; 2] = ["snappy", "lz4"];

/// The most plain bytes that one byte of a Snappy block can stand for: three bytes copy 64.
const SNAPPY_EXPANSION_MAX: usize = 22;
/// Bytes before an LZ4 block in a body.
const LENGTH_BYTES: usize = 4;

impl Compression {
    /// The algorithm with this name in STARTUP, whatever its case.
    pub fn of_name(name: &str) -> Option<Compression> {
        match () {
            () if name.eq_ignore_ascii_case("lz4") => Some(Compression::Lz4),
            () if name.eq_ignore_ascii_case("snappy") => Some(Compression::Snappy),
            () => None,
        }
    }

    /// The plain body's length that a compressed body declares; an error if it cannot hold so many bytes.
    pub fn plain_len(self, body: &[u8]) -> Result<usize, Failure> {
        match self {
            Compression::Lz4 => lz4_parts(body).map(|(plain_len, _)| plain_len),
            Compression::Snappy => {
                let plain_len = snap::raw::decompress_len(body).map_err(|_| corrupt())?;
                if body.is_empty() {
                    return Err(corrupt());
                }
                check_expansion(plain_len, body.len(), SNAPPY_EXPANSION_MAX)
            }
        }
    }

    /// Decompresses a body. If it declares more than `bytes_max` plain bytes it is refused as too big.
    pub fn open(self, body: &[u8], bytes_max: usize) -> Result<Bytes, Failure> {
        let plain_len = self.plain_len(body)?;
        if plain_len > bytes_max {
            return Err(Failure::invalid(format!(
                "Request is too big: length {} exceeds maximum allowed length {}.",
                plain_len + HEADER_BYTES,
                bytes_max + HEADER_BYTES
            )));
        }
        match self {
            Compression::Lz4 => lz4_parts(body).and_then(|(plain_len, block)| lz4::decompress(block, plain_len)),
            Compression::Snappy => {
                let mut plain = vec![0; plain_len];
                match snap::raw::Decoder::new().decompress(body, &mut plain) {
                    Ok(written) if written == plain_len => Ok(plain.into()),
                    _ => Err(corrupt()),
                }
            }
        }
    }

    /// Compresses the body of the envelope that `out` holds from `start` to its end, even if that makes it larger, and
    /// sets the header's flag.
    pub fn seal(self, out: &mut Vec<u8>, start: usize) {
        let body_at = start + HEADER_BYTES;
        let plain = out.split_off(body_at);
        match self {
            Compression::Lz4 => {
                out.extend_from_slice(&(plain.len() as u32).to_be_bytes());
                lz4::put_block(out, &plain);
            }
            Compression::Snappy => {
                out.resize(body_at + snap::raw::max_compress_len(plain.len()), 0);
                let (_, room) = out.split_at_mut(body_at);
                // The room is what the encoder asks for and bodies are far below 4 GiB, so it cannot fail.
                let written = snap::raw::Encoder::new().compress(&plain, room).expect("room for the block");
                out.truncate(body_at + written);
            }
        }
        let length = (out.len() - body_at) as u32;
        *out.get_mut(start + FLAGS_AT).expect("the envelope has a header") |= flags::COMPRESSION;
        fill_in(out, start + LENGTH_AT, length.to_be_bytes());
    }
}

/// The plain length that a body compressed with LZ4 declares, checked against its block, and the block.
fn lz4_parts(body: &[u8]) -> Result<(usize, &[u8]), Failure> {
    let (length, block) = body.split_first_chunk::<LENGTH_BYTES>().ok_or_else(corrupt)?;
    let plain_len = check_expansion(u32::from_be_bytes(*length) as usize, block.len(), lz4::EXPANSION_MAX)?;
    Ok((plain_len, block))
}

impl Envelope {
    /// The algorithm that the body is compressed with; `None` if it is plain. `agreed` is what STARTUP agreed on.
    pub fn compression(&self, agreed: Option<Compression>) -> Option<Compression> {
        let compressed = self.header.version < Version::V5 && self.header.flags & flags::COMPRESSION != 0;
        agreed.filter(|_| compressed)
    }

    /// Replaces a compressed body with the plain one, of at most `bytes_max`.
    pub fn open(&mut self, agreed: Option<Compression>, bytes_max: usize) -> Result<(), Failure> {
        if let Some(compression) = self.compression(agreed) {
            self.body = compression.open(&self.body, bytes_max)?;
        }
        Ok(())
    }
}
