//! The decoder that finds envelopes in received bytes.
//!
//! Steps of the decoder: bytes are fed in; in version 5 after STARTUP, segments are checked and opened; then one
//! envelope at a time comes out, or a [`Refusal`] to be answered.
//!
//! Invariants: no allocation by a declared length; a body above the limit is skipped, not kept; after a refusal that
//! closes nothing more comes out; a checksum that differs closes.

use crate::envelope::{Envelope, HEADER_BYTES, Header};
use crate::segment::{self, SegmentHeader};
use crate::{Opcode, Version, flags, lz4};
use bytes::{Buf, Bytes, BytesMut};
use model::Failure;

/// Largest envelope before STARTUP (and authentication) has ended, header included.
pub const UNREADY_BYTES_MAX: usize = 64 << 10;
/// Largest envelope afterwards, header included; in version 5 the largest body.
pub const ENVELOPE_BYTES_MAX: usize = 16 << 20;
/// Largest response body that a client takes.
pub const RESPONSE_BYTES_MAX: usize = 256 << 20;
/// A receive buffer above this size is given back once it is empty.
const BUFFER_KEPT_MAX: usize = 64 << 10;

/// How an error that the decoder found is to be addressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// The 9-byte header with this version number.
    Stream {
        /// Version number, without the direction bit.
        version: u8,
        /// The stream.
        stream: i16,
    },
    /// The 8-byte header of versions 1 and 2.
    Old {
        /// 1 or 2.
        version: u8,
        /// The stream.
        stream: i8,
    },
}

/// An envelope that is not taken: answer the failure, then close if it says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// To whom.
    pub address: Address,
    /// What to answer.
    pub failure: Failure,
    /// Whether the connection cannot go on.
    pub close: bool,
}

/// What comes out of the decoder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A message.
    Envelope(Envelope),
    /// Something else.
    Refusal(Refusal),
}

/// Which side of the connection reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Server,
    Client,
}

/// Finds envelopes in received bytes.
pub struct Decoder {
    side: Side,
    lowest: Version,
    /// The version agreed by STARTUP.
    agreed: Option<Version>,
    framed: bool,
    /// Segments have compression.
    compressed: bool,
    input: BytesMut,
    /// What is left of the current self-contained segment.
    contained: Bytes,
    /// Payloads of segments that are not self-contained.
    spread: BytesMut,
    /// Body bytes still to be dropped.
    skip: u64,
    awaited: usize,
    closed: bool,
}

/// What the front of a buffer is.
enum Scan {
    /// Fewer bytes than this many.
    Incomplete(usize),
    Whole(Header, usize),
    /// Refused: drop the header's bytes, skip the body's.
    Refused(Refusal, usize, u64),
}

impl Decoder {
    /// For a server that speaks `lowest` and later versions.
    pub fn server(lowest: Version) -> Decoder {
        Decoder::new(Side::Server, lowest)
    }

    /// For a client.
    pub fn client() -> Decoder {
        Decoder::new(Side::Client, Version::V3)
    }

    fn new(side: Side, lowest: Version) -> Decoder {
        Decoder {
            side,
            lowest,
            agreed: None,
            framed: false,
            compressed: false,
            input: BytesMut::new(),
            contained: Bytes::new(),
            spread: BytesMut::new(),
            skip: 0,
            awaited: 0,
            closed: false,
        }
    }

    /// STARTUP has succeeded: the limits rise, other versions are refused, version 5 goes on in segments. Both sides
    /// call it before they look at what follows READY.
    pub fn agree(&mut self, version: Version) {
        self.agreed = Some(version);
        self.framed = version >= Version::V5;
    }

    /// STARTUP has agreed on LZ4 and a version with segments.
    pub fn agree_compressed_segments(&mut self) {
        self.compressed = true;
    }

    /// Takes received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.input.extend_from_slice(bytes);
        }
    }

    /// Bytes that the message under way has declared and that have not arrived; 0 between messages.
    pub fn awaited(&self) -> usize {
        self.awaited
    }

    /// Bytes held.
    pub fn buffered(&self) -> usize {
        self.input.len() + self.contained.len() + self.spread.len()
    }

    /// The next message; `None` until more bytes are fed.
    pub fn next_event(&mut self) -> Option<Event> {
        self.awaited = 0;
        if self.closed {
            return None;
        }
        let event = if self.framed { self.next_framed() } else { self.next_plain() };
        if let Some(Event::Refusal(Refusal { close: true, .. })) = event {
            self.closed = true;
            self.input = BytesMut::new();
            self.contained = Bytes::new();
            self.spread = BytesMut::new();
        }
        if self.input.is_empty() && self.input.capacity() > BUFFER_KEPT_MAX {
            self.input = BytesMut::new();
        }
        if self.spread.is_empty() && self.spread.capacity() > 0 {
            self.spread = BytesMut::new();
        }
        event
    }

    fn next_plain(&mut self) -> Option<Event> {
        drop_skipped(&mut self.skip, &mut self.input);
        match self.scan(&self.input) {
            Scan::Incomplete(total) => {
                self.awaited = total - self.input.len();
                None
            }
            Scan::Whole(header, len) => {
                self.input.advance(HEADER_BYTES);
                let body = self.input.split_to(len).freeze();
                Some(Event::Envelope(Envelope { header, body }))
            }
            Scan::Refused(refusal, head, body) => {
                self.input.advance(head);
                self.skip = body;
                Some(Event::Refusal(refusal))
            }
        }
    }

    fn next_framed(&mut self) -> Option<Event> {
        loop {
            if !self.contained.is_empty() {
                return Some(self.next_contained());
            }
            drop_skipped(&mut self.skip, &mut self.spread);
            if !self.spread.is_empty() {
                match self.scan(&self.spread) {
                    Scan::Incomplete(total) => self.awaited = total - self.spread.len(),
                    Scan::Whole(header, len) => {
                        self.spread.advance(HEADER_BYTES);
                        let body = self.spread.split_to(len).freeze();
                        return Some(Event::Envelope(Envelope { header, body }));
                    }
                    Scan::Refused(refusal, head, body) => {
                        self.spread.advance(head);
                        self.skip = body;
                        return Some(Event::Refusal(refusal));
                    }
                }
            }
            match self.next_segment() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(failure) => return Some(Event::Refusal(broken(failure))),
            }
        }
    }

    /// Opens one segment; false if it has not arrived whole.
    fn next_segment(&mut self) -> Result<bool, Failure> {
        let Some((header, header_len)) = self.segment_header()? else { return Ok(false) };
        let total = header_len + header.payload_len + segment::TRAILER_BYTES;
        if self.input.len() < total {
            return Ok(false);
        }
        let mut whole = self.input.split_to(total);
        whole.advance(header_len);
        let trailer = whole.split_off(header.payload_len);
        let read = trailer.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes)).unwrap_or_default();
        let computed = segment::crc32(&whole);
        if read != computed {
            return Err(crc_failure("body", segment::Mismatch { read, computed }));
        }
        let payload = match header.plain_len {
            0 => whole.freeze(),
            plain_len => lz4::open(&whole, plain_len)?,
        };
        if header.self_contained {
            self.contained = payload;
        } else {
            self.spread.extend_from_slice(&payload);
        }
        Ok(true)
    }

    /// The header of the segment at the front, and its bytes; `None` if it has not arrived whole.
    fn segment_header(&self) -> Result<Option<(SegmentHeader, usize)>, Failure> {
        let (header, len) = if self.compressed {
            let Some(head) = self.input.first_chunk() else { return Ok(None) };
            (SegmentHeader::decode_compressed(*head), segment::COMPRESSED_HEADER_BYTES)
        } else {
            let Some(head) = self.input.first_chunk() else { return Ok(None) };
            (SegmentHeader::decode(*head), segment::HEADER_BYTES)
        };
        Ok(Some((header.map_err(|mismatch| crc_failure("header", mismatch))?, len)))
    }

    fn next_contained(&mut self) -> Event {
        match self.scan(&self.contained) {
            Scan::Incomplete(_) => {
                Event::Refusal(broken(Failure::protocol("Envelope is cut short in a self-contained segment")))
            }
            Scan::Whole(header, len) => {
                self.contained.advance(HEADER_BYTES);
                let body = self.contained.split_to(len);
                Event::Envelope(Envelope { header, body })
            }
            Scan::Refused(refusal, head, body) => {
                self.contained.advance(head);
                // A body that does not end in this segment cannot be skipped within it: it was never whole.
                let skipped = usize::try_from(body).unwrap_or(usize::MAX).min(self.contained.len());
                self.contained.advance(skipped);
                Event::Refusal(refusal)
            }
        }
    }

    fn scan(&self, bytes: &[u8]) -> Scan {
        let Some(first) = bytes.first() else { return Scan::Incomplete(0) };
        let number = first & 0x7F;
        if self.side == Side::Server && (number == 1 || number == 2) {
            return self.scan_old(bytes, number);
        }
        let Some([_, header_flags, high, low, opcode, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>().copied()
        else {
            return Scan::Incomplete(HEADER_BYTES);
        };
        let stream = i16::from_be_bytes([high, low]);
        let len = u32::from_be_bytes([a, b, c, d]);
        let answer = Address::Stream { version: self.agreed.map_or(number, Version::number), stream };
        let refuse = |address, failure| self.refuse(address, failure, HEADER_BYTES, len);

        let version = match Version::from_number(number) {
            Some(version) if version >= self.lowest || self.agreed.is_some() => version,
            _ if self.side == Side::Server && number == 6 && header_flags & flags::USE_BETA == 0 => {
                let text = "Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset";
                return refuse(Address::Stream { version: 6, stream }, Failure::protocol(text));
            }
            _ => {
                let address = Address::Stream { version: Version::HIGHEST.number(), stream };
                return refuse(address, Failure::protocol(unsupported_text(number)));
            }
        };
        if let Some(agreed) = self.agreed.filter(|agreed| *agreed != version) {
            // The missing blank in version 5 is Cassandra's.
            let gap = if self.framed { "" } else { " " };
            let text = format!(
                "Invalid message version. Got {version} but previous{gap}messages on this connection had version {agreed}"
            );
            return refuse(answer, Failure::protocol(text));
        }
        let Some(opcode) = Opcode::from_byte(opcode) else {
            return refuse(answer, Failure::protocol(format!("Unknown opcode {opcode}")));
        };
        let response = first & 0x80 != 0;
        if response != (self.side == Side::Client) || opcode.is_request() == response {
            let expected = if opcode.is_request() { "REQUEST" } else { "RESPONSE" };
            let got = if response { "RESPONSE" } else { "REQUEST" };
            let text = format!(
                "Wrong protocol direction (expected {expected}, got {got}) for opcode {} ({})",
                opcode as u8,
                opcode.name()
            );
            return refuse(answer, Failure::protocol(text));
        }
        if let Some(failure) = self.too_big(len) {
            return refuse(answer, failure);
        }
        let total = HEADER_BYTES + len as usize;
        if bytes.len() < total {
            return Scan::Incomplete(total);
        }
        Scan::Whole(Header { version, flags: header_flags, stream, opcode }, len as usize)
    }

    fn scan_old(&self, bytes: &[u8], number: u8) -> Scan {
        const OLD_HEADER_BYTES: usize = 8;
        let Some([_, _, stream, _, a, b, c, d]) = bytes.first_chunk::<OLD_HEADER_BYTES>().copied() else {
            return Scan::Incomplete(OLD_HEADER_BYTES);
        };
        let address = Address::Old { version: number, stream: stream as i8 };
        let failure = Failure::protocol(unsupported_text(number));
        self.refuse(address, failure, OLD_HEADER_BYTES, u32::from_be_bytes([a, b, c, d]))
    }

    /// Before STARTUP has ended a declared body above the limit is not even skipped.
    fn refuse(&self, address: Address, failure: Failure, head: usize, len: u32) -> Scan {
        let close = self.side == Side::Client || (self.agreed.is_none() && head + len as usize > UNREADY_BYTES_MAX);
        Scan::Refused(Refusal { address, failure, close }, head, len as u64)
    }

    fn too_big(&self, len: u32) -> Option<Failure> {
        let len = len as usize;
        let total = len + HEADER_BYTES;
        if self.side == Side::Client {
            return (len > RESPONSE_BYTES_MAX).then(|| Failure::protocol(format!("Response of {len} bytes")));
        }
        let max = if self.agreed.is_some() { ENVELOPE_BYTES_MAX } else { UNREADY_BYTES_MAX };
        if self.framed {
            return (len > max).then(|| {
                Failure::invalid(format!("CQL Message of size {len} bytes exceeds allowed maximum of {max} bytes"))
            });
        }
        (total > max).then(|| {
            Failure::invalid(format!("Request is too big: length {total} exceeds maximum allowed length {max}."))
        })
    }
}

fn drop_skipped(skip: &mut u64, buffer: &mut BytesMut) {
    let dropped = (*skip).min(buffer.len() as u64);
    buffer.advance(dropped as usize);
    *skip -= dropped;
}

/// The answer to a version that is not spoken, to the byte: drivers match it and fall back.
pub fn unsupported_text(number: u8) -> String {
    format!("Invalid or unsupported protocol version ({number}); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)")
}

fn broken(failure: Failure) -> Refusal {
    Refusal { address: Address::Stream { version: Version::V5.number(), stream: 0 }, failure, close: true }
}

fn crc_failure(part: &str, mismatch: segment::Mismatch) -> Failure {
    let (read, computed) = (mismatch.read as i32, mismatch.computed as i32);
    Failure::protocol(format!(
        "Segment invalid, unrecoverable CRC mismatch detected in frame {part}. Read {read}, Computed {computed}"
    ))
}
