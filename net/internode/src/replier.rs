//! A message that is being served, and the way back to the node that sent it.

use crate::capacity::{Charge, Pool, Reserve};
use crate::error::FailureReason;
use crate::frame::{Envelope, Kind};
use crate::identity::PeerIdentity;
use crate::metrics::{Drops, InboundMetrics, VolumeCounter, VolumeGauge};
use runtime::Instant;
use runtime::metrics::Counter;
use std::cell::Cell;
use std::rc::Rc;
use tls::Stream;

/// What a core counts of one node's messages.
pub(crate) struct InboundCounts {
    pub(crate) reserve: Rc<Reserve>,
    pub(crate) received: VolumeCounter,
    pub(crate) scheduled: VolumeGauge,
    pub(crate) processed: VolumeCounter,
    pub(crate) expired: VolumeCounter,
    pub(crate) error: VolumeCounter,
    pub(crate) corrupt_frames: Counter,
    pub(crate) throttled_count: Counter,
    pub(crate) throttled_nanos: Counter,
}

impl InboundCounts {
    pub(crate) fn new(receive: &Pool) -> Rc<InboundCounts> {
        Rc::new(InboundCounts {
            reserve: receive.endpoint(),
            received: VolumeCounter::default(),
            scheduled: VolumeGauge::default(),
            processed: VolumeCounter::default(),
            expired: VolumeCounter::default(),
            error: VolumeCounter::default(),
            corrupt_frames: Counter::default(),
            throttled_count: Counter::default(),
            throttled_nanos: Counter::default(),
        })
    }

    pub(crate) fn get(&self) -> InboundMetrics {
        InboundMetrics {
            received: self.received.get(),
            scheduled: self.scheduled.get(),
            processed: self.processed.get(),
            expired: self.expired.get(),
            error: self.error.get(),
            corrupt_frames: self.corrupt_frames.get(),
            throttled_count: self.throttled_count.get(),
            throttled_nanos: self.throttled_nanos.get(),
            using_bytes: self.scheduled.get().bytes,
            using_reserve_bytes: self.reserve.used(),
        }
    }
}

/// A connection that another node dialled, after its greeting.
pub(crate) struct InboundConnection {
    pub(crate) stream: Stream,
    pub(crate) peer: Rc<PeerIdentity>,
    pub(crate) counts: Rc<InboundCounts>,
    pub(crate) drops: Rc<Drops>,
    pub(crate) compressing: bool,
    /// The most bytes of a body.
    pub(crate) body_bytes_max: usize,
    /// The most bytes of answers that wait to be sent.
    pub(crate) queue_bytes_max: usize,
    pub(crate) last_received: Cell<Instant>,
}

impl InboundConnection {
    /// Says that a request gets no answer.
    pub(crate) fn fail(&self, id: u64, reason: FailureReason) {
        self.put(Envelope { kind: Kind::Failure, verb: reason as u8, id, clock_micros: 0 }, |_| ());
    }

    pub(crate) fn put(&self, envelope: Envelope, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        self.stream.write(|out| envelope.put(out, self.compressing, write))
    }

    /// Counts a message that is dropped because it has expired.
    pub(crate) fn expired(&self, verb: u8, bytes: usize) {
        self.counts.expired.add(bytes);
        self.drops.add(verb);
    }
}

/// A message that is being served. Any task of the core may answer it, once; a request whose replier is dropped fails
/// at the caller. Its bytes count as being served until then.
pub struct Replier {
    connection: Rc<InboundConnection>,
    id: u64,
    verb: u8,
    bytes: usize,
    deadline: Instant,
    /// Whether the other side still waits for an answer.
    expected: bool,
    _charge: Charge,
}

impl Replier {
    /// Counts the message as being served. One that is sent one way has no `id`.
    pub(crate) fn new(
        connection: &Rc<InboundConnection>,
        id: Option<u64>,
        verb: u8,
        bytes: usize,
        deadline: Instant,
        charge: Charge,
    ) -> Replier {
        connection.counts.scheduled.add(bytes);
        Replier {
            connection: connection.clone(),
            id: id.unwrap_or_default(),
            verb,
            bytes,
            deadline,
            expected: id.is_some(),
            _charge: charge,
        }
    }

    /// Whether the other side waits for an answer; false for messages sent one way.
    pub fn is_expected(&self) -> bool {
        self.expected
    }

    /// When the other side stops waiting, in this node's time.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Who sent the message.
    pub fn peer(&self) -> &Rc<PeerIdentity> {
        &self.connection.peer
    }

    /// Answers with a body.
    pub fn send(self, body: &[u8]) {
        self.send_with(|out| out.extend_from_slice(body));
    }

    /// Answers that the verb or the body means nothing to this node.
    pub fn refuse(mut self) {
        if std::mem::replace(&mut self.expected, false) {
            self.connection.counts.error.add(self.bytes);
            self.connection.fail(self.id, FailureReason::NotUnderstood);
        }
    }

    /// Answers with what `write` appends to the send queue; it must not change what is there already. Nothing is sent
    /// if the message was sent one way or has expired.
    pub fn send_with(mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !std::mem::replace(&mut self.expected, false) {
            return;
        }
        let connection = &self.connection;
        if self.deadline <= runtime::now() {
            return connection.expired(self.verb, self.bytes);
        }
        if connection.stream.queued() > connection.queue_bytes_max {
            connection.counts.error.add(self.bytes);
            return connection.fail(self.id, FailureReason::Overloaded);
        }
        let envelope = Envelope { kind: Kind::Reply, verb: self.verb, id: self.id, clock_micros: 0 };
        let sent = connection.stream.write(|out| {
            let start = out.len();
            let fits = envelope.put(out, connection.compressing, write) <= connection.body_bytes_max;
            if !fits {
                out.truncate(start);
            }
            fits
        });
        if !sent {
            connection.counts.error.add(self.bytes);
            connection.fail(self.id, FailureReason::ReplyTooLong);
        }
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        let counts = &self.connection.counts;
        counts.scheduled.remove(self.bytes);
        counts.processed.add(self.bytes);
        if self.expected {
            counts.error.add(self.bytes);
            self.connection.fail(self.id, FailureReason::Unanswered);
        }
    }
}
