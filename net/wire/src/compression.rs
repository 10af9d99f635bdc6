//! Compression agreed by STARTUP: bodies of versions 3 and 4, payloads of version 5's segments.
//!
//! ```text
//! LZ4 body     u32, big-endian: bytes of the plain body; then one LZ4 block
//! Snappy body  one raw Snappy block, which begins with the plain length
//! segment      one LZ4 block; the plain length is in the segment's header
//! ```
//! The header flag says which bodies are compressed. After a STARTUP with compression every answer is, the READY too;
//! requests may be or not. In version 5 the flag means nothing.
//!
//! Invariants: the declared length is checked against a limit, and against what so many bytes can hold at all, before
//! anything is allocated; what comes out has exactly that length; corrupt input is a protocol error.

use crate::envelope::{Envelope, HEADER_BYTES};
use crate::lz4::{self, check_expansion, corrupt};
use crate::{Version, flags};
use bytes::Bytes;
use model::Failure;

/// An algorithm of STARTUP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum Compression {
    Lz4,
    Snappy,
}

/// The names in SUPPORTED, in Cassandra's order.
pub const NAMES: [&str; 2] = ["snappy", "lz4"];

/// The same of a Snappy block: three bytes copy 64.
const SNAPPY_EXPANSION_MAX: usize = 22;
/// Bytes before an LZ4 block in a body.
const LENGTH_BYTES: usize = 4;

impl Compression {
    /// The algorithm of a name, in whatever case.
    pub fn of_name(name: &str) -> Option<Compression> {
        match () {
            () if name.eq_ignore_ascii_case("lz4") => Some(Compression::Lz4),
            () if name.eq_ignore_ascii_case("snappy") => Some(Compression::Snappy),
            () => None,
        }
    }

    /// Bytes of the plain body, as a compressed one declares them; an error if it cannot hold so many.
    pub fn plain_len(self, body: &[u8]) -> Result<usize, Failure> {
        match self {
            Compression::Lz4 => {
                let (length, block) = body.split_first_chunk::<LENGTH_BYTES>().ok_or_else(corrupt)?;
                let length = u32::from_be_bytes(*length) as usize;
                check_expansion(length, block.len(), lz4::EXPANSION_MAX)
            }
            Compression::Snappy => {
                let length = snap::raw::decompress_len(body).map_err(|_| corrupt())?;
                if body.is_empty() {
                    return Err(corrupt());
                }
                check_expansion(length, body.len(), SNAPPY_EXPANSION_MAX)
            }
        }
    }

    /// The plain body; more than `bytes_max` of it are refused as a request that is too big.
    pub fn open(self, body: &[u8], bytes_max: usize) -> Result<Bytes, Failure> {
        let length = self.plain_len(body)?;
        if length > bytes_max {
            return Err(Failure::invalid(format!(
                "Request is too big: length {} exceeds maximum allowed length {}.",
                length + HEADER_BYTES,
                bytes_max + HEADER_BYTES
            )));
        }
        match self {
            Compression::Lz4 => lz4::open(&body[LENGTH_BYTES..], length),
            Compression::Snappy => {
                let mut plain = vec![0; length];
                match snap::raw::Decoder::new().decompress(body, &mut plain) {
                    Ok(written) if written == length => Ok(plain.into()),
                    _ => Err(corrupt()),
                }
            }
        }
    }

    /// Compresses the body of the envelope that `out` holds from `start` to its end, whether or not that makes it
    /// smaller, and sets the header's flag.
    pub fn seal(self, out: &mut Vec<u8>, start: usize) {
        let plain = out.split_off(start + HEADER_BYTES);
        match self {
            Compression::Lz4 => {
                out.extend_from_slice(&(plain.len() as u32).to_be_bytes());
                lz4::put(out, &plain);
            }
            Compression::Snappy => {
                let at = out.len();
                out.resize(at + snap::raw::max_compress_len(plain.len()), 0);
                // The room is what the encoder asks for and bodies are far below 4 GiB, so it cannot fail.
                let written = snap::raw::Encoder::new().compress(&plain, &mut out[at..]).expect("room for the block");
                out.truncate(at + written);
            }
        }
        let length = (out.len() - start - HEADER_BYTES) as u32;
        out[start + 1] |= flags::COMPRESSION;
        out[start + 5..start + HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
    }
}

impl Envelope {
    /// The algorithm that its body has to be opened with, if `agreed` applies to it.
    pub fn compression(&self, agreed: Option<Compression>) -> Option<Compression> {
        let compressed = self.header.version < Version::V5 && self.header.flags & flags::COMPRESSION != 0;
        agreed.filter(|_| compressed)
    }

    /// Puts the plain body, of at most `bytes_max`, in the place of a compressed one.
    pub fn open(&mut self, agreed: Option<Compression>, bytes_max: usize) -> Result<(), Failure> {
        if let Some(compression) = self.compression(agreed) {
            self.body = compression.open(&self.body, bytes_max)?;
        }
        Ok(())
    }
}
