//! Version 5 segments (little-endian):
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
//! A self-contained segment holds whole envelopes, perhaps several. A larger envelope is cut over segments that are not
//! self-contained.
//!
//! Source: native_protocol_v5.spec, section 2.

use crate::lz4;
use crc32fast::Hasher;
use std::sync::LazyLock;

/// Longest payload, sent and plain.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 6;
/// The same with compression.
pub const COMPRESSED_HEADER_BYTES: usize = 8;
/// Bytes after the payload.
pub const TRAILER_BYTES: usize = 4;

/// A compressed segment takes further envelopes as long as its plain payload stays within this: each of them compresses
/// it anew.
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

/// The CRC24 of a header's first bytes.
pub fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_INIT, |crc, byte| {
        (0..8).fold(crc ^ (*byte as u32) << 16, |crc, _| {
            let shifted = crc << 1;
            if shifted & 0x100_0000 != 0 { shifted ^ CRC24_POLYNOMIAL } else { shifted }
        })
    })
}

/// The CRC32 of a payload.
pub fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = SEEDED.clone();
    hasher.update(payload);
    hasher.finalize()
}

/// A segment's checked header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Payload bytes, at most [`PAYLOAD_BYTES_MAX`].
    pub payload_len: usize,
    /// Plain bytes of a compressed payload, at most [`PAYLOAD_BYTES_MAX`]; 0: the payload is plain.
    pub plain_len: usize,
    /// Whether the payload is whole envelopes.
    pub self_contained: bool,
}

/// A checksum that differs: as read and as computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// In the bytes.
    pub read: u32,
    /// Of the bytes.
    pub computed: u32,
}

impl SegmentHeader {
    /// Checks and reads a header.
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<SegmentHeader, Mismatch> {
        let [a, b, c, checksum @ ..] = bytes;
        check(&[a, b, c], checksum)?;
        let bits = u32::from_le_bytes([a, b, c, 0]);
        let payload_len = bits as usize & PAYLOAD_BYTES_MAX;
        Ok(SegmentHeader { payload_len, plain_len: 0, self_contained: bits >> LENGTH_BITS & 1 != 0 })
    }

    /// The same of a segment with compression.
    pub fn decode_compressed(bytes: [u8; COMPRESSED_HEADER_BYTES]) -> Result<SegmentHeader, Mismatch> {
        let [a, b, c, d, e, checksum @ ..] = bytes;
        check(&[a, b, c, d, e], checksum)?;
        let bits = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
        Ok(SegmentHeader {
            payload_len: bits as usize & PAYLOAD_BYTES_MAX,
            plain_len: (bits >> LENGTH_BITS) as usize & PAYLOAD_BYTES_MAX,
            self_contained: bits >> (2 * LENGTH_BITS) & 1 != 0,
        })
    }

    /// The header's bytes. The length must fit.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        assert!(self.payload_len <= PAYLOAD_BYTES_MAX, "the payload was cut to size");
        let bits = self.payload_len as u32 | u32::from(self.self_contained) << LENGTH_BITS;
        let [a, b, c, _] = bits.to_le_bytes();
        let [x, y, z, _] = crc24(&[a, b, c]).to_le_bytes();
        [a, b, c, x, y, z]
    }

    /// The same with compression. Both lengths must fit.
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

fn check(bytes: &[u8], [x, y, z]: [u8; 3]) -> Result<(), Mismatch> {
    let read = u32::from_le_bytes([x, y, z, 0]);
    let computed = crc24(bytes);
    if read == computed { Ok(()) } else { Err(Mismatch { read, computed }) }
}

/// Wraps envelopes into segments at the end of a send queue. While the last segment is still the queue's end, the next
/// envelope goes into it: envelopes of one loop turn share segments without waiting for each other.
#[derive(Default)]
pub struct SegmentWriter {
    open: Option<Open>,
    /// With compression: the plain payload of the last segment and where that segment is in the queue.
    compressed: Option<OpenCompressed>,
}

#[derive(Default)]
struct OpenCompressed {
    start: usize,
    end: usize,
    plain: Vec<u8>,
}

/// The last segment written, as long as nothing was sent or appended after it.
struct Open {
    start: usize,
    payload_len: usize,
    crc: Hasher,
}

impl Open {
    fn end(&self) -> usize {
        self.start + HEADER_BYTES + self.payload_len + TRAILER_BYTES
    }

    fn close(&self, out: &mut Vec<u8>) {
        let header = SegmentHeader { payload_len: self.payload_len, plain_len: 0, self_contained: true }.encode();
        out[self.start..self.start + HEADER_BYTES].copy_from_slice(&header);
        out.extend_from_slice(&self.crc.clone().finalize().to_le_bytes());
    }
}

impl SegmentWriter {
    /// A writer of segments with LZ4.
    pub fn compressed() -> SegmentWriter {
        SegmentWriter { open: None, compressed: Some(OpenCompressed::default()) }
    }

    /// Lets `encode` append one envelope to `out`, in a segment.
    pub fn write<R>(&mut self, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        if let Some(open) = &mut self.compressed {
            return open.write(out, encode);
        }
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let body = out.len();
        let result = encode(out);
        let len = out.len() - body;
        if len > PAYLOAD_BYTES_MAX {
            split_in_place(out, start);
            self.open = None;
            return result;
        }
        match self.open.take() {
            Some(mut open) if open.end() == start && open.payload_len + len <= PAYLOAD_BYTES_MAX => {
                open.crc.update(&out[body..]);
                open.payload_len += len;
                let to = start - TRAILER_BYTES;
                out.copy_within(body.., to);
                out.truncate(to + len);
                open.close(out);
                self.open = Some(open);
            }
            _ => {
                let mut crc = SEEDED.clone();
                crc.update(&out[body..]);
                let open = Open { start, payload_len: len, crc };
                open.close(out);
                self.open = Some(open);
            }
        }
        result
    }
}

impl OpenCompressed {
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
        self.plain.extend_from_slice(&out[start..]);
        out.truncate(self.start);
        put_compressed(out, &self.plain, true);
        self.end = out.len();
        result
    }
}

/// Cuts the envelope that lies at the end of `out`, behind room for a header at `start`, over as many segments as it
/// takes, none of them self-contained: large results are moved once and nothing is allocated but what `out` lacks.
fn split_in_place(out: &mut Vec<u8>, start: usize) {
    const AROUND: usize = HEADER_BYTES + TRAILER_BYTES;
    let from = start + HEADER_BYTES;
    let len = out.len() - from;
    let count = len.div_ceil(PAYLOAD_BYTES_MAX);
    out.resize(start + len + count * AROUND, 0);
    // From the last on: each moves towards the end, by no less than what is written around the one behind it needs.
    for at in (0..count).rev() {
        let payload_len = (len - at * PAYLOAD_BYTES_MAX).min(PAYLOAD_BYTES_MAX);
        let source = from + at * PAYLOAD_BYTES_MAX;
        let payload = source + at * AROUND;
        out.copy_within(source..source + payload_len, payload);
        let header = SegmentHeader { payload_len, plain_len: 0, self_contained: false };
        out[payload - HEADER_BYTES..payload].copy_from_slice(&header.encode());
        let end = payload + payload_len;
        let checksum = crc32(&out[payload..end]);
        out[end..end + TRAILER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Appends an envelope over as many segments as it takes, none of them self-contained.
pub fn put_split(out: &mut Vec<u8>, envelope: &[u8]) {
    for payload in envelope.chunks(PAYLOAD_BYTES_MAX) {
        put_segment(out, payload, false);
    }
}

/// The same with compression; one that fits into a segment is self-contained.
pub fn put_split_compressed(out: &mut Vec<u8>, envelope: &[u8]) {
    for payload in envelope.chunks(PAYLOAD_BYTES_MAX) {
        put_compressed(out, payload, envelope.len() <= PAYLOAD_BYTES_MAX);
    }
}

/// Appends one segment; `payload` must fit.
pub fn put_segment(out: &mut Vec<u8>, payload: &[u8], self_contained: bool) {
    let header = SegmentHeader { payload_len: payload.len(), plain_len: 0, self_contained };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32(payload).to_le_bytes());
}

/// Appends one segment with compression, plain where that is not larger; `plain` must fit.
pub fn put_compressed(out: &mut Vec<u8>, plain: &[u8], self_contained: bool) {
    let start = out.len();
    out.extend_from_slice(&[0; COMPRESSED_HEADER_BYTES]);
    let at = out.len();
    lz4::put(out, plain);
    let mut plain_len = plain.len();
    if out.len() - at >= plain.len() {
        out.truncate(at);
        out.extend_from_slice(plain);
        plain_len = 0;
    }
    let header = SegmentHeader { payload_len: out.len() - at, plain_len, self_contained };
    out[start..at].copy_from_slice(&header.encode_compressed());
    let checksum = crc32(&out[at..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}
