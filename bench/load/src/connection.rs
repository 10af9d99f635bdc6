//! A connection that carries load: sends requests, receives answers, and keeps the requests under way by stream number.
//!
//! Invariants: a stream number is either free or in use by one request; a request that timed out keeps its number until
//! its answer comes, so that a late answer is never taken for the answer to another request.

use crate::session::Session;
use crate::statement::{Body, Common, Statement};
use crate::workload::{Operation, Workload};
use runtime::Instant;
use std::cell::{Cell, RefCell};
use tls::Stream;
use wire::decoder::{Decoder, Event};
use wire::envelope::HEADER_BYTES;
use wire::segment::SegmentWriter;
use wire::{Opcode, Version};

/// A request under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    /// The operation that it carries out.
    pub operation: Operation,
    /// When it was due; in a closed loop, when it was sent.
    pub due: Instant,
    /// When it was handed to the connection.
    pub sent: Instant,
    /// Whether it is under way and has not timed out.
    pub waiting: bool,
}

/// A connection with its requests under way, statements and send queue.
pub struct Connection {
    host: usize,
    stream: Stream,
    segments: RefCell<Option<SegmentWriter>>,
    statements: Vec<Statement>,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u16>>,
    timed_out: Cell<usize>,
}

/// Unsent bytes above which a connection takes no more requests, because the server does not read.
const QUEUED_MAX: usize = 1 << 20;

impl Connection {
    /// Prepares the statements `texts` on the connection to server `host`, which can then carry `depth` requests at
    /// once. Returns it with the [`Inbox`] for what it receives.
    pub async fn prepare(
        mut session: Session,
        host: usize,
        texts: &[String],
        common: &Common,
        depth: usize,
    ) -> Result<(Connection, Inbox), String> {
        let mut statements = Vec::with_capacity(texts.len());
        for text in texts {
            statements.push(session.prepare(text, common).await?);
        }
        let (stream, decoder, segments) = session.into_parts();
        let framed = common.version >= Version::V5;
        let connection = Connection {
            host,
            stream,
            segments: RefCell::new(segments),
            statements,
            slots: RefCell::new(vec![Slot::default(); depth]),
            free: RefCell::new((0..depth as u16).rev().collect()),
            timed_out: Cell::new(0),
        };
        Ok((connection, Inbox { decoder: framed.then_some(decoder), rest: Vec::new() }))
    }

    /// The number of the server that it goes to.
    pub fn host(&self) -> usize {
        self.host
    }

    /// Whether a request can be sent.
    pub fn has_room(&self) -> bool {
        !self.free.borrow().is_empty() && self.stream.queued() < QUEUED_MAX
    }

    /// Sends a request; there must be room.
    pub fn send(&self, workload: &dyn Workload, common: &Common, operation: Operation, due: Instant, now: Instant) {
        let number = self.free.borrow_mut().pop().expect("there is room");
        self.slots.borrow_mut()[number as usize] = Slot { operation, due, sent: now, waiting: true };
        let statements = &self.statements;
        let frame = |out: &mut Vec<u8>| {
            let start = out.len();
            let [high, low] = number.to_be_bytes();
            out.extend_from_slice(&[common.version.number(), 0, high, low, 0, 0, 0, 0, 0]);
            let opcode = workload.encode(&operation, &mut Body { out, statements, common });
            out[start + 4] = opcode as u8;
            let length = (out.len() - start - HEADER_BYTES) as u32;
            out[start + 5..start + HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
        };
        let mut segments = self.segments.borrow_mut();
        self.stream.write(|out| match &mut *segments {
            Some(segments) => segments.write(out, frame),
            None => frame(out),
        });
    }

    /// Removes the request of stream `number` and frees the number; `None` if there is none.
    pub fn take(&self, number: i16) -> Option<Slot> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(usize::try_from(number).ok()?)?;
        let taken = *slot;
        // The slot of a free stream number has the default time.
        if taken.sent == Instant::default() {
            return None;
        }
        *slot = Slot::default();
        self.free.borrow_mut().push(number as u16);
        if !taken.waiting {
            self.timed_out.set(self.timed_out.get() - 1);
        }
        Some(taken)
    }

    /// Marks requests that were sent before `limit` as timed out and calls `f` for each. Returns true if all stream
    /// numbers belong to requests that timed out.
    pub fn expire(&self, limit: Instant, mut f: impl FnMut(Slot)) -> bool {
        let mut slots = self.slots.borrow_mut();
        for slot in slots.iter_mut().filter(|slot| slot.waiting && slot.sent < limit) {
            slot.waiting = false;
            self.timed_out.set(self.timed_out.get() + 1);
            f(*slot);
        }
        self.timed_out.get() == slots.len()
    }

    /// The requests under way that have not timed out.
    pub fn waiting(&self) -> Vec<Slot> {
        self.slots.borrow().iter().filter(|slot| slot.waiting).copied().collect()
    }

    /// The prepared statement `index`.
    pub fn statement(&self, index: usize) -> &Statement {
        &self.statements[index]
    }

    /// The stream, for receiving.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

/// Turns received bytes into answers.
pub struct Inbox {
    /// The decoder of segments; `None` for protocol versions without segments.
    decoder: Option<Decoder>,
    /// The beginning of a frame that has not arrived completely.
    rest: Vec<u8>,
}

/// An answer that borrows its body from the received bytes.
pub struct Frame<'a> {
    /// Its flags, as in [`wire::flags`].
    pub flags: u8,
    /// The request's stream number.
    pub stream: i16,
    /// Its opcode.
    pub opcode: Opcode,
    /// Its body.
    pub body: &'a [u8],
}

impl Inbox {
    /// Adds received bytes and calls `f` for every complete frame. After an error the connection must be closed.
    pub fn feed(&mut self, bytes: &[u8], mut f: impl FnMut(Frame<'_>)) -> Result<(), String> {
        if let Some(decoder) = &mut self.decoder {
            decoder.feed(bytes);
            while let Some(event) = decoder.next_event() {
                match event {
                    Event::Envelope(envelope) => {
                        let header = envelope.header;
                        let Opcode::Event = header.opcode else {
                            let (flags, stream, opcode) = (header.flags, header.stream, header.opcode);
                            f(Frame { flags, stream, opcode, body: &envelope.body });
                            continue;
                        };
                    }
                    Event::Refusal(refusal) => return Err(refusal.failure.text.to_string()),
                }
            }
            return Ok(());
        }
        if self.rest.is_empty() {
            let used = whole_frames(bytes, f)?;
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            self.rest.extend_from_slice(bytes);
            let used = whole_frames(&self.rest, &mut f)?;
            self.rest.drain(..used);
        }
        Ok(())
    }
}

/// The largest body of an answer that is accepted.
const BODY_BYTES_MAX: usize = 256 << 20;

/// Calls `f` for each complete frame at the front of `bytes`. Returns the length of these frames.
fn whole_frames(bytes: &[u8], mut f: impl FnMut(Frame<'_>)) -> Result<usize, String> {
    let mut at = 0;
    while let Some(&[_, flags, high, low, opcode, a, b, c, d]) = bytes[at..].first_chunk::<HEADER_BYTES>() {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let opcode = Opcode::from_byte(opcode).ok_or_else(|| format!("opcode {opcode} in an answer"))?;
        if length > BODY_BYTES_MAX {
            return Err(format!("an answer of {length} bytes"));
        }
        let body = at + HEADER_BYTES;
        let Some(body) = bytes.get(body..body + length) else { break };
        let stream = i16::from_be_bytes([high, low]);
        if opcode != Opcode::Event {
            f(Frame { flags, stream, opcode, body });
        }
        at += HEADER_BYTES + length;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::envelope::put_envelope;

    fn answers() -> Vec<u8> {
        let mut bytes = Vec::new();
        put_envelope(&mut bytes, 0x84, 0, 1, Opcode::Result, |out| out.extend([0, 0, 0, 1]));
        put_envelope(&mut bytes, 0x84, 0, -1, Opcode::Event, |out| out.extend([9; 30]));
        put_envelope(&mut bytes, 0x84, 8, 300, Opcode::Error, |out| out.extend([7; 1000]));
        put_envelope(&mut bytes, 0x84, 0, 2, Opcode::Ready, |_| {});
        bytes
    }

    #[test]
    fn frames_come_out_whole_however_they_are_cut() {
        let bytes = answers();
        for size in [1, 2, 8, 9, 10, 13, 100, 2000] {
            let (mut inbox, mut seen) = (Inbox { decoder: None, rest: Vec::new() }, Vec::new());
            for piece in bytes.chunks(size) {
                let fed =
                    inbox.feed(piece, |frame| seen.push((frame.stream, frame.opcode, frame.flags, frame.body.len())));
                fed.expect("whole frames");
            }
            let expected = [(1, Opcode::Result, 0, 4), (300, Opcode::Error, 8, 1000), (2, Opcode::Ready, 0, 0)];
            assert_eq!(seen, expected, "pieces of {size}");
            assert!(inbox.rest.is_empty());
        }
    }

    #[test]
    fn what_is_no_frame_ends_the_connection() {
        let mut inbox = Inbox { decoder: None, rest: Vec::new() };
        assert!(inbox.feed(&[0x84, 0, 0, 1, 99, 0, 0, 0, 0], |_| {}).is_err());
        let mut inbox = Inbox { decoder: None, rest: Vec::new() };
        assert!(inbox.feed(&[0x84, 0, 0, 1, 8, 255, 0, 0, 0], |_| {}).is_err());
    }
}
