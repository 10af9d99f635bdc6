//! Segments, into which version 5 wraps envelopes after STARTUP. All numbers are little-endian:
//!
//! ```text
//! header  3 bytes  17 bits payload length, 1 bit self-contained, 6 bits zero
//!         3 bytes  CRC24 of the 3 bytes before
//! payload 0 to 131071 bytes
//! trailer 4 bytes  CRC32 of the payload, seeded with FA 2D 55 CA
//! ```
//! With LZ4 agreed:
//!
//! ```text
//! header  5 bytes  17 bits payload length, 17 bits plain length, 1 bit self-contained, 5 bits zero
//!         3 bytes  CRC24 of the 5 bytes before
//! payload one LZ4 block of plain length; where that is 0, the plain bytes themselves
//! trailer 4 bytes  CRC32 of the payload as it is sent
//! ```
//! A self-contained segment holds one or more whole envelopes. An envelope that does not fit into one segment is cut
//! over several, none of them self-contained.
//!
//! Source: native_protocol_v5.spec, section 2.

use crate::lz4;
use crate::notation::fill_in;
use crc32fast::Hasher;
use std::sync::LazyLock;

/// The longest payload, both as sent and plain.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;
/// Bytes of the header without compression.
pub const HEADER_BYTES: usize = 6;
/// Bytes of the header with compression.
pub const COMPRESSED_HEADER_BYTES: usize = 8;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 4;

/// Envelopes share a compressed segment up to this many plain bytes: each one that is added compresses the payload
/// anew.
const SHARED_BYTES_MAX: usize = 4 << 10;

const LENGTH_BITS: u32 = 17;
const CRC24_INIT: u32 = 0x87_5060;
const CRC24_POLYNOMIAL: u32 = 0x197_4F0B;

/// The CRC32 state after the four seed bytes.
static SEEDED: LazyLock<Hasher> = LazyLock::new(|| {
    let mut hasher = Hasher::new();
    hasher.update(&[0xFA, 0x2D, 0x55, 0xCA]);
    hasher
});

/// The CRC24 of a header, without its checksum.
pub fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_INIT, |crc, byte| {
        (0..8).fold(crc ^ (*byte as u32) << 16, |crc, _| {
            let shifted = crc << 1;
            if shifted & 0x100_0000 != 0 { shifted ^ CRC24_POLYNOMIAL } else { shifted }
        })
    })
}

/// The CRC32 of a payload as it is sent.
pub fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = SEEDED.clone();
    hasher.update(payload);
    hasher.finalize()
}

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Bytes of the payload as it is sent, at most [`PAYLOAD_BYTES_MAX`].
    pub payload_len: usize,
    /// Plain bytes of a compressed payload, at most [`PAYLOAD_BYTES_MAX`]; 0 if the payload is plain.
    pub plain_len: usize,
    /// Whether the payload consists of whole envelopes.
    pub self_contained: bool,
}

/// A checksum that does not match its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChecksumMismatch {
    /// The checksum as received.
    pub read: u32,
    /// The checksum of the bytes as received.
    pub computed: u32,
}

impl SegmentHeader {
    /// Reads a header without compression and checks its checksum.
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<SegmentHeader, ChecksumMismatch> {
        let [a, b, c, checksum @ ..] = bytes;
        check(&[a, b, c], checksum)?;
        let bits = u32::from_le_bytes([a, b, c, 0]);
        let payload_len = bits as usize & PAYLOAD_BYTES_MAX;
        Ok(SegmentHeader { payload_len, plain_len: 0, self_contained: bits >> LENGTH_BITS & 1 != 0 })
    }

    /// Reads a header with compression and checks its checksum.
    pub fn decode_compressed(bytes: [u8; COMPRESSED_HEADER_BYTES]) -> Result<SegmentHeader, ChecksumMismatch> {
        let [a, b, c, d, e, checksum @ ..] = bytes;
        check(&[a, b, c, d, e], checksum)?;
        let bits = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
        Ok(SegmentHeader {
            payload_len: bits as usize & PAYLOAD_BYTES_MAX,
            plain_len: (bits >> LENGTH_BITS) as usize & PAYLOAD_BYTES_MAX,
            self_contained: bits >> (2 * LENGTH_BITS) & 1 != 0,
        })
    }

    /// The bytes of a header without compression. Panics if the payload is too long.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        assert!(self.payload_len <= PAYLOAD_BYTES_MAX, "the payload was cut to size");
        let bits = self.payload_len as u32 | u32::from(self.self_contained) << LENGTH_BITS;
        let [a, b, c, _] = bits.to_le_bytes();
        let [x, y, z, _] = crc24(&[a, b, c]).to_le_bytes();
        [a, b, c, x, y, z]
    }

    /// The bytes of a header with compression. Panics if either payload is too long.
    pub fn encode_compressed(self) -> [u8; COMPRESSED_HEADER_BYTES] {
        assert!(self.payload_len.max(self.plain_len) <= PAYLOAD_BYTES_MAX, "the payload was cut to size");
        let bits = self.payload_len as u64
            | (self.plain_len as u64) << LENGTH_BITS
            | u64::from(self.self_contained) << (2 * LENGTH_BITS);
        let [a, b, c, d, e, ..] = bits.to_le_bytes();
        let [x, y, z, _] = crc24(&[a, b, c, d, e]).to_le_bytes();
        [a, b, c, d, e, x, y, z]
    }
}

fn check(bytes: &[u8], [x, y, z]: [u8; 3]) -> Result<(), ChecksumMismatch> {
    let read = u32::from_le_bytes([x, y, z, 0]);
    let computed = crc24(bytes);
    if read == computed { Ok(()) } else { Err(ChecksumMismatch { read, computed }) }
}

/// Wraps envelopes into segments at the end of a send queue. An envelope joins the last segment if that is still the
/// queue's end: envelopes that are sent together share segments, and none waits for another.
#[derive(Default)]
pub struct SegmentWriter {
    /// The last segment without compression, which may take further envelopes.
    open: Option<OpenSegment>,
    /// Used if segments are compressed.
    compressed: Option<CompressedWriter>,
}

/// A complete segment at the end of the queue. It stays open until something else is appended or the queue is sent.
struct OpenSegment {
    start: usize,
    payload_len: usize,
    crc: Hasher,
}

/// The last segment with compression: its place in the queue and its plain payload.
#[derive(Default)]
struct CompressedWriter {
    start: usize,
    end: usize,
    plain: Vec<u8>,
}

impl OpenSegment {
    fn end(&self) -> usize {
        self.start + HEADER_BYTES + self.payload_len + TRAILER_BYTES
    }

    /// Writes the header and the trailer around the payload, which ends `out`.
    fn finish(&self, out: &mut Vec<u8>) {
        let header = SegmentHeader { payload_len: self.payload_len, plain_len: 0, self_contained: true };
        fill_in(out, self.start, header.encode());
        out.extend_from_slice(&self.crc.clone().finalize().to_le_bytes());
    }
}

impl SegmentWriter {
    /// A writer of segments that LZ4 compresses.
    pub fn compressed() -> SegmentWriter {
        SegmentWriter { open: None, compressed: Some(CompressedWriter::default()) }
    }

    /// Wraps the one envelope that `encode` appends to `out` into a segment, or into several if it is too long for one.
    pub fn write<R>(&mut self, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        if let Some(compressed) = &mut self.compressed {
            return compressed.write(out, encode);
        }
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let payload_at = out.len();
        let result = encode(out);
        let (_, payload) = out.split_at(payload_at);
        let len = payload.len();
        if len > PAYLOAD_BYTES_MAX {
            split_in_place(out, start);
            self.open = None;
            return result;
        }
        match self.open.take() {
            Some(mut open) if open.end() == start && open.payload_len + len <= PAYLOAD_BYTES_MAX => {
                open.crc.update(payload);
                open.payload_len += len;
                let target = start - TRAILER_BYTES;
                out.copy_within(payload_at.., target);
                out.truncate(target + len);
                open.finish(out);
                self.open = Some(open);
            }
            _ => {
                let mut crc = SEEDED.clone();
                crc.update(payload);
                let open = OpenSegment { start, payload_len: len, crc };
                open.finish(out);
                self.open = Some(open);
            }
        }
        result
    }
}

impl CompressedWriter {
    fn write<R>(&mut self, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let start = out.len();
        let result = encode(out);
        let len = out.len() - start;
        if len > SHARED_BYTES_MAX {
            let envelope = out.split_off(start);
            put_split_compressed(out, &envelope);
            self.plain.clear();
            return result;
        }
        if self.plain.is_empty() || self.end != start || self.plain.len() + len > SHARED_BYTES_MAX {
            self.plain.clear();
            self.start = start;
        }
        let (_, envelope) = out.split_at(start);
        self.plain.extend_from_slice(envelope);
        out.truncate(self.start);
        put_compressed(out, &self.plain, true);
        self.end = out.len();
        result
    }
}

/// Cuts the envelope at the end of `out` over segments that are not self-contained. At `start`, before the envelope, is
/// room for the first header. A large result is moved once, and only `out` grows.
fn split_in_place(out: &mut Vec<u8>, start: usize) {
    const OVERHEAD_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;
    let envelope_at = start + HEADER_BYTES;
    let len = out.len() - envelope_at;
    let count = len.div_ceil(PAYLOAD_BYTES_MAX);
    out.resize(start + len + count * OVERHEAD_BYTES, 0);
    // Backwards, so that a payload moves towards the end into room that those behind it have left.
    for index in (0..count).rev() {
        let payload_len = (len - index * PAYLOAD_BYTES_MAX).min(PAYLOAD_BYTES_MAX);
        let source = envelope_at + index * PAYLOAD_BYTES_MAX;
        let header_at = source + index * OVERHEAD_BYTES - HEADER_BYTES;
        let payload_at = header_at + HEADER_BYTES;
        out.copy_within(source..source + payload_len, payload_at);
        let header = SegmentHeader { payload_len, plain_len: 0, self_contained: false };
        fill_in(out, header_at, header.encode());
        let (_, moved) = out.split_at_mut(payload_at);
        let (payload, trailer) = moved.split_at_mut(payload_len);
        fill_in(trailer, 0, crc32(payload).to_le_bytes());
    }
}

/// Appends an envelope in as many segments as it takes, none of them self-contained.
pub fn put_split(out: &mut Vec<u8>, envelope: &[u8]) {
    for payload in envelope.chunks(PAYLOAD_BYTES_MAX) {
        put_segment(out, payload, false);
    }
}

/// Appends an envelope in as many compressed segments as it takes; a single one is self-contained.
pub fn put_split_compressed(out: &mut Vec<u8>, envelope: &[u8]) {
    for payload in envelope.chunks(PAYLOAD_BYTES_MAX) {
        put_compressed(out, payload, envelope.len() <= PAYLOAD_BYTES_MAX);
    }
}

/// Appends one segment without compression. Panics if the payload is too long.
pub fn put_segment(out: &mut Vec<u8>, payload: &[u8], self_contained: bool) {
    let header = SegmentHeader { payload_len: payload.len(), plain_len: 0, self_contained };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32(payload).to_le_bytes());
}

/// Appends one segment with compression, whose payload stays plain if LZ4 does not make it smaller. Panics if `plain`
/// is too long.
pub fn put_compressed(out: &mut Vec<u8>, plain: &[u8], self_contained: bool) {
    let start = out.len();
    out.extend_from_slice(&[0; COMPRESSED_HEADER_BYTES]);
    let payload_at = out.len();
    lz4::put_block(out, plain);
    let mut plain_len = plain.len();
    if out.len() - payload_at >= plain.len() {
        out.truncate(payload_at);
        out.extend_from_slice(plain);
        plain_len = 0;
    }
    let (_, payload) = out.split_at(payload_at);
    let (payload_len, checksum) = (payload.len(), crc32(payload));
    let header = SegmentHeader { payload_len, plain_len, self_contained };
    fill_in(out, start, header.encode_compressed());
    out.extend_from_slice(&checksum.to_le_bytes());
}
