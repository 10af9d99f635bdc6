//! The decoder that finds envelopes in received bytes.
//!
//! 1. Received bytes are fed in.
//! 2. In version 5 after STARTUP, segments are checked and opened; the payloads of those that are not self-contained
//!    are put together.
//! 3. One [`Event`] at a time comes out: an envelope, or a [`Refusal`] that has to be answered.
//!
//! Invariants:
//! - Nothing is allocated by a declared length.
//! - The body of a refused envelope is skipped as it arrives, not kept.
//! - After a refusal that closes the connection nothing more comes out. A wrong checksum closes it.
//!
//! Bodies are read in `request` and `client`; compressed ones are opened in `compression`.

use crate::envelope::{Envelope, HEADER_BYTES, Header};
use crate::segment::{self, ChecksumMismatch, SegmentHeader};
use crate::{Opcode, Version, lz4};
use bytes::{Buf, Bytes, BytesMut};
use model::Failure;

/// The largest envelope, header included, that a server accepts until STARTUP has succeeded.
pub const UNREADY_BYTES_MAX: usize = 64 << 10;
/// The largest envelope, header included, that a server accepts afterwards, unless it has other [`SizeLimits`]; in
/// version 5 the largest body.
pub const ENVELOPE_BYTES_MAX: usize = 16 << 20;
/// The largest response body that a client accepts.
pub const RESPONSE_BYTES_MAX: usize = 256 << 20;
/// A receive buffer with more capacity than this is freed once it is empty.
const BUFFER_KEPT_MAX: usize = 64 << 10;
/// The capacity that a receive buffer keeps while nothing comes.
const BUFFER_IDLE_MAX: usize = 1 << 10;

/// The largest messages that a server accepts once a client is let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeLimits {
    /// Bytes of an envelope of version 3 or 4, its header included.
    pub envelope_bytes_max: usize,
    /// Bytes of a body in version 5.
    pub body_bytes_max: usize,
}

impl Default for SizeLimits {
    fn default() -> SizeLimits {
        SizeLimits { envelope_bytes_max: ENVELOPE_BYTES_MAX, body_bytes_max: ENVELOPE_BYTES_MAX }
    }
}

/// The header that the answer to a refused envelope has to carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerHeader {
    /// A 9-byte header.
    Long {
        /// The version's number, without the direction bit; not always one that is spoken.
        version: u8,
        /// The stream.
        stream: i16,
    },
    /// An 8-byte header, of versions 1 and 2.
    Short {
        /// 1 or 2.
        version: u8,
        /// The stream.
        stream: i8,
    },
}

/// An envelope that is not accepted. Its failure has to be answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The header of the answer.
    pub header: AnswerHeader,
    /// The error to answer.
    pub failure: Failure,
    /// Whether the connection has to be closed afterwards.
    pub close: bool,
}

/// What the decoder has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A message.
    Envelope(Envelope),
    /// An envelope that is not accepted.
    Refusal(Refusal),
}

/// The side of the connection that reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Server,
    Client,
}

/// Finds envelopes in the bytes received on one connection.
pub struct Decoder {
    side: Side,
    /// The lowest version that is spoken.
    lowest: Version,
    limits: SizeLimits,
    /// The version agreed by STARTUP.
    agreed: Option<Version>,
    /// Whether the client may send long messages: once it is let in.
    is_trusted: bool,
    /// Whether envelopes come in segments, and whether those have compression.
    segmented: bool,
    compressed: bool,
    /// Bytes received and not decoded.
    input: BytesMut,
    /// The rest of the current self-contained segment's payload.
    self_contained: Bytes,
    /// The joined payloads of segments that are not self-contained.
    joined: BytesMut,
    /// Bytes of a refused body that have not arrived yet.
    skip: u64,
    /// See [`Decoder::awaited`].
    awaited: usize,
    closed: bool,
}

/// What a buffer begins with.
enum Scan {
    /// A part of an envelope that has at least this many bytes.
    Incomplete(usize),
    /// An envelope with a body of this many bytes.
    Whole(Header, usize),
    /// An envelope that is refused; the bytes of its header, to be dropped, and of its body, to be skipped.
    Refused(Refusal, usize, u64),
}

impl Decoder {
    /// A decoder of requests, for a server that speaks `lowest` and later versions.
    pub fn server(lowest: Version) -> Decoder {
        Decoder::new(Side::Server, lowest)
    }

    /// The same with other limits for clients that are let in.
    pub fn with_limits(self, limits: SizeLimits) -> Decoder {
        Decoder { limits, ..self }
    }

    /// A decoder of responses, for a client.
    pub fn client() -> Decoder {
        Decoder::new(Side::Client, Version::V3)
    }

    fn new(side: Side, lowest: Version) -> Decoder {
        Decoder {
            side,
            lowest,
            limits: SizeLimits::default(),
            agreed: None,
            is_trusted: false,
            segmented: false,
            compressed: false,
            input: BytesMut::new(),
            self_contained: Bytes::new(),
            joined: BytesMut::new(),
            skip: 0,
            awaited: 0,
            closed: false,
        }
    }

    /// Tells the decoder that STARTUP has succeeded: the limits rise, other versions are refused, version 5 goes on in
    /// segments. Either side has to call it before it decodes what follows READY.
    pub fn agree(&mut self, version: Version) {
        self.agree_before_login(version);
        self.admit();
    }

    /// As [`Decoder::agree`], but the limits stay until [`Decoder::admit`], because the client has yet to log in.
    pub fn agree_before_login(&mut self, version: Version) {
        self.agreed = Some(version);
        self.segmented = version >= Version::V5;
    }

    /// Tells the decoder that the client is let in: the limits rise.
    pub fn admit(&mut self) {
        self.is_trusted = true;
    }

    /// Tells the decoder that STARTUP has agreed on LZ4 in a version with segments.
    pub fn agree_compressed_segments(&mut self) {
        self.compressed = true;
    }

    /// Appends received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.input.extend_from_slice(bytes);
        }
    }

    /// How many bytes of the current envelope have not arrived, as far as its header declares; 0 between envelopes.
    pub fn awaited(&self) -> usize {
        self.awaited
    }

    /// Gives memory back, because nothing is going to come for a while.
    pub fn rest(&mut self) {
        if self.input.is_empty() && self.input.capacity() > BUFFER_IDLE_MAX {
            self.input = BytesMut::new();
        }
    }

    /// How many received bytes are kept.
    pub fn buffered(&self) -> usize {
        self.input.len() + self.self_contained.len() + self.joined.len()
    }

    /// The next event; `None` until more bytes are fed.
    pub fn next_event(&mut self) -> Option<Event> {
        self.awaited = 0;
        if self.closed {
            return None;
        }
        let event = if self.segmented { self.next_in_segments() } else { self.next_plain() };
        if let Some(Event::Refusal(Refusal { close: true, .. })) = event {
            self.closed = true;
            self.input = BytesMut::new();
            self.self_contained = Bytes::new();
            self.joined = BytesMut::new();
        }
        if self.input.is_empty() && self.input.capacity() > BUFFER_KEPT_MAX {
            self.input = BytesMut::new();
        }
        if self.joined.is_empty() && self.joined.capacity() > 0 {
            self.joined = BytesMut::new();
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

    fn next_in_segments(&mut self) -> Option<Event> {
        loop {
            if !self.self_contained.is_empty() {
                return Some(self.next_self_contained());
            }
            drop_skipped(&mut self.skip, &mut self.joined);
            if !self.joined.is_empty() {
                match self.scan(&self.joined) {
                    Scan::Incomplete(total) => self.awaited = total - self.joined.len(),
                    Scan::Whole(header, len) => {
                        self.joined.advance(HEADER_BYTES);
                        let body = self.joined.split_to(len).freeze();
                        return Some(Event::Envelope(Envelope { header, body }));
                    }
                    Scan::Refused(refusal, head, body) => {
                        self.joined.advance(head);
                        self.skip = body;
                        return Some(Event::Refusal(refusal));
                    }
                }
            }
            match self.open_segment() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(failure) => return Some(Event::Refusal(broken(failure))),
            }
        }
    }

    /// Checks and opens the next segment; false if it has not arrived whole.
    fn open_segment(&mut self) -> Result<bool, Failure> {
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
            return Err(checksum_failure("body", ChecksumMismatch { read, computed }));
        }
        let payload = match header.plain_len {
            0 => whole.freeze(),
            plain_len => lz4::decompress(&whole, plain_len)?,
        };
        if header.self_contained {
            self.self_contained = payload;
        } else {
            self.joined.extend_from_slice(&payload);
        }
        Ok(true)
    }

    /// The header of the segment that the input begins with, and the header's length; `None` if it has not arrived
    /// whole.
    fn segment_header(&self) -> Result<Option<(SegmentHeader, usize)>, Failure> {
        let (header, len) = if self.compressed {
            let Some(head) = self.input.first_chunk() else { return Ok(None) };
            (SegmentHeader::decode_compressed(*head), segment::COMPRESSED_HEADER_BYTES)
        } else {
            let Some(head) = self.input.first_chunk() else { return Ok(None) };
            (SegmentHeader::decode(*head), segment::HEADER_BYTES)
        };
        Ok(Some((header.map_err(|mismatch| checksum_failure("header", mismatch))?, len)))
    }

    fn next_self_contained(&mut self) -> Event {
        match self.scan(&self.self_contained) {
            Scan::Incomplete(_) => {
                Event::Refusal(broken(Failure::protocol("Envelope is cut short in a self-contained segment")))
            }
            Scan::Whole(header, len) => {
                self.self_contained.advance(HEADER_BYTES);
                let body = self.self_contained.split_to(len);
                Event::Envelope(Envelope { header, body })
            }
            Scan::Refused(refusal, head, body) => {
                self.self_contained.advance(head);
                // The body may claim to go on behind this segment; there is nothing of it to skip there.
                let skipped = usize::try_from(body).unwrap_or(usize::MAX).min(self.self_contained.len());
                self.self_contained.advance(skipped);
                Event::Refusal(refusal)
            }
        }
    }

    fn scan(&self, bytes: &[u8]) -> Scan {
        let Some(first) = bytes.first() else { return Scan::Incomplete(0) };
        let number = first & 0x7F;
        if self.side == Side::Server && (number == 1 || number == 2) {
            return self.scan_short_header(bytes, number);
        }
        let Some([_, header_flags, high, low, opcode, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>().copied()
        else {
            return Scan::Incomplete(HEADER_BYTES);
        };
        let stream = i16::from_be_bytes([high, low]);
        let len = u32::from_be_bytes([a, b, c, d]);
        let answer = AnswerHeader::Long { version: self.agreed.map_or(number, Version::number), stream };
        let refuse = |header, failure| self.refuse(header, failure, HEADER_BYTES, len);

        let version = match Version::from_number(number) {
            Some(version) if version.beta_flag() & !header_flags != 0 => {
                let text = format!("Beta version of the protocol used ({version}), but USE_BETA flag is unset");
                return refuse(AnswerHeader::Long { version: number, stream }, Failure::protocol(text));
            }
            Some(version) if version >= self.lowest || self.agreed.is_some() => version,
            known => {
                let header = AnswerHeader::Long { version: Version::HIGHEST.number(), stream };
                let text = match known {
                    Some(version) => format!("Rejecting Protocol Version {version} < {}.", self.lowest),
                    None => unsupported_text(number),
                };
                return refuse(header, Failure::protocol(text));
            }
        };
        if let Some(agreed) = self.agreed.filter(|agreed| *agreed != version) {
            // The missing blank in version 5 is Cassandra's.
            let gap = if self.segmented { "" } else { " " };
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

    fn scan_short_header(&self, bytes: &[u8], number: u8) -> Scan {
        const SHORT_HEADER_BYTES: usize = 8;
        let Some([_, _, stream, _, a, b, c, d]) = bytes.first_chunk::<SHORT_HEADER_BYTES>().copied() else {
            return Scan::Incomplete(SHORT_HEADER_BYTES);
        };
        let header = AnswerHeader::Short { version: number, stream: stream as i8 };
        let failure = Failure::protocol(unsupported_text(number));
        self.refuse(header, failure, SHORT_HEADER_BYTES, u32::from_be_bytes([a, b, c, d]))
    }

    /// A refused envelope. Before STARTUP has succeeded an oversized body is not even skipped: the connection closes.
    fn refuse(&self, header: AnswerHeader, failure: Failure, head: usize, len: u32) -> Scan {
        let close = self.side == Side::Client || (!self.is_trusted && head + len as usize > UNREADY_BYTES_MAX);
        Scan::Refused(Refusal { header, failure, close }, head, len as u64)
    }

    /// The failure of an envelope whose body is longer than the limit.
    fn too_big(&self, len: u32) -> Option<Failure> {
        let len = len as usize;
        let total = len + HEADER_BYTES;
        if self.side == Side::Client {
            return (len > RESPONSE_BYTES_MAX).then(|| Failure::protocol(format!("Response of {len} bytes")));
        }
        let max = match (self.is_trusted, self.segmented) {
            (false, _) => UNREADY_BYTES_MAX,
            (true, false) => self.limits.envelope_bytes_max,
            (true, true) => self.limits.body_bytes_max,
        };
        if self.segmented {
            return (len > max).then(|| {
                Failure::invalid(format!("CQL Message of size {len} bytes exceeds allowed maximum of {max} bytes"))
            });
        }
        (total > max).then(|| {
            Failure::invalid(format!("Request is too big: length {total} exceeds maximum allowed length {max}."))
        })
    }
}

/// Drops from the front of `buffer` what is to be skipped.
fn drop_skipped(skip: &mut u64, buffer: &mut BytesMut) {
    let dropped = (*skip).min(buffer.len() as u64);
    buffer.advance(dropped as usize);
    *skip -= dropped;
}

/// The text that answers a version which is not spoken. Drivers match it word for word and fall back to a lower
/// version.
pub fn unsupported_text(number: u8) -> String {
    format!("Invalid or unsupported protocol version ({number}); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)")
}

/// The refusal after which nothing can be decoded.
fn broken(failure: Failure) -> Refusal {
    Refusal { header: AnswerHeader::Long { version: Version::V5.number(), stream: 0 }, failure, close: true }
}

fn checksum_failure(part: &str, mismatch: ChecksumMismatch) -> Failure {
    let (read, computed) = (mismatch.read as i32, mismatch.computed as i32);
    Failure::protocol(format!(
        "Segment invalid, unrecoverable CRC mismatch detected in frame {part}. Read {read}, Computed {computed}"
    ))
}
