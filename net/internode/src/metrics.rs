//! What one core has counted of its links: the columns of `system_views.internode_inbound` and `internode_outbound`,
//! dropped messages by verb, and connections that strangers made.

use runtime::metrics::Counter;
use std::cell::{Cell, RefCell};

/// Messages and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Volume {
    /// How many.
    pub count: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Volume {
    fn add(&mut self, other: Volume) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// What one core has sent to a node, or could not send, over all lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutboundMetrics {
    /// Connections that are open.
    pub active_connections: u64,
    /// Attempts to connect.
    pub connection_attempts: u64,
    /// Those that passed the handshake.
    pub successful_connection_attempts: u64,
    /// Handed to the system.
    pub sent: Volume,
    /// In the queue now.
    pub pending: Volume,
    /// Dropped because they expired in the queue.
    pub expired: Volume,
    /// Refused because too much waited.
    pub overload: Volume,
    /// Dropped because no connection could be made.
    pub error: Volume,
    /// Bytes in queues now, the system's send queue included.
    pub using_bytes: u64,
    /// Those beyond the capacities of the connections.
    pub using_reserve_bytes: u64,
}

impl OutboundMetrics {
    /// Adds what another core has counted.
    pub fn add(&mut self, other: &OutboundMetrics) {
        self.active_connections += other.active_connections;
        self.connection_attempts += other.connection_attempts;
        self.successful_connection_attempts += other.successful_connection_attempts;
        self.sent.add(other.sent);
        self.pending.add(other.pending);
        self.expired.add(other.expired);
        self.overload.add(other.overload);
        self.error.add(other.error);
        self.using_bytes += other.using_bytes;
        self.using_reserve_bytes += other.using_reserve_bytes;
    }
}

/// What one core has received from a node, over all lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InboundMetrics {
    /// Arrived.
    pub received: Volume,
    /// Being served now.
    pub scheduled: Volume,
    /// Served.
    pub processed: Volume,
    /// Dropped because they had expired when they arrived, or before there was room for them.
    pub expired: Volume,
    /// Requests that ended without an answer.
    pub error: Volume,
    /// Connections closed because of a damaged frame.
    pub corrupt_frames: u64,
    /// How often receiving stopped for want of room.
    pub throttled_count: u64,
    /// For how long, in nanoseconds.
    pub throttled_nanos: u64,
    /// Bytes of messages that are being served now.
    pub using_bytes: u64,
    /// Those beyond the capacities of the connections.
    pub using_reserve_bytes: u64,
}

impl InboundMetrics {
    /// Adds what another core has counted.
    pub fn add(&mut self, other: &InboundMetrics) {
        self.received.add(other.received);
        self.scheduled.add(other.scheduled);
        self.processed.add(other.processed);
        self.expired.add(other.expired);
        self.error.add(other.error);
        self.corrupt_frames += other.corrupt_frames;
        self.throttled_count += other.throttled_count;
        self.throttled_nanos += other.throttled_nanos;
        self.using_bytes += other.using_bytes;
        self.using_reserve_bytes += other.using_reserve_bytes;
    }
}

/// What one core has counted of connections that never passed the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StrangerMetrics {
    /// Sent bytes that are no greeting, or none in time.
    pub strangers: u64,
    /// Nodes that were refused.
    pub refused: u64,
    /// Closed in favour of newer connections, or because there were too many.
    pub crowded_out: u64,
}

/// Counts messages that were dropped, by verb.
#[derive(Debug)]
pub(crate) struct Drops(RefCell<Box<[u64; 256]>>);

impl Default for Drops {
    fn default() -> Drops {
        Drops(RefCell::new(Box::new([0; 256])))
    }
}

impl Drops {
    pub(crate) fn add(&self, verb: u8) {
        self.0.borrow_mut()[verb as usize] += 1;
    }

    /// The verbs of which any message was dropped, with their number.
    pub(crate) fn all(&self) -> Vec<(u8, u64)> {
        (0..=u8::MAX).zip(self.0.borrow().iter().copied()).filter(|(_, count)| *count > 0).collect()
    }
}

/// Counts messages and their bytes.
#[derive(Default, Debug)]
pub(crate) struct VolumeCounter {
    count: Counter,
    bytes: Counter,
}

impl VolumeCounter {
    pub(crate) fn add(&self, bytes: usize) {
        self.count.increment();
        self.bytes.add(bytes as u64);
    }

    pub(crate) fn get(&self) -> Volume {
        Volume { count: self.count.get(), bytes: self.bytes.get() }
    }
}

/// Counts messages that are somewhere now.
#[derive(Default, Debug)]
pub(crate) struct VolumeGauge(Cell<Volume>);

impl VolumeGauge {
    pub(crate) fn add(&self, bytes: usize) {
        let Volume { count, bytes: before } = self.0.get();
        self.0.set(Volume { count: count + 1, bytes: before + bytes as u64 });
    }

    pub(crate) fn remove(&self, removed: usize) {
        let Volume { count, bytes } = self.0.get();
        self.0.set(Volume { count: count - 1, bytes: bytes - removed as u64 });
    }

    pub(crate) fn get(&self) -> Volume {
        self.0.get()
    }
}
