//! The outgoing side of the links to one node: a connection and a queue for each lane.

use crate::capacity::{Charge, Pool, QueueRoom, Reserve};
use crate::error::CallError;
use crate::frame::{Envelope, HEAD_BYTES};
use crate::identity::PeerIdentity;
use crate::lane::Lane;
use crate::metrics::{OutboundMetrics, VolumeCounter, VolumeGauge};
use runtime::Instant;
use runtime::metrics::Counter;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use tls::Stream;

/// The links to one node.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    lanes: [Rc<Outbound>; Lane::ALL.len()],
    /// What the node last said of itself.
    pub(crate) identity: RefCell<Option<Rc<PeerIdentity>>>,
    reserve: Rc<Reserve>,
}

/// What a core counts of the messages of one lane to one node.
#[derive(Default)]
pub(crate) struct OutboundCounts {
    pub(crate) connection_attempts: Counter,
    pub(crate) successful_connection_attempts: Counter,
    pub(crate) sent: VolumeCounter,
    pub(crate) pending: VolumeGauge,
    pub(crate) expired: VolumeCounter,
    pub(crate) overload: VolumeCounter,
    pub(crate) error: VolumeCounter,
}

/// One lane to one node.
pub(crate) struct Outbound {
    pub(crate) lane: Lane,
    pub(crate) state: RefCell<LinkState>,
    pub(crate) queue: RefCell<VecDeque<Queued>>,
    pub(crate) room: Rc<QueueRoom>,
    /// No message in the queue expires before this.
    pub(crate) earliest_expiry: Cell<Instant>,
    /// Whether a task moves the queue into the connection.
    pub(crate) pumping: Cell<bool>,
    /// Connections that failed, or broke soon, since one lasted.
    pub(crate) failures: Cell<u32>,
    pub(crate) counts: OutboundCounts,
    /// When the first and when the last of the attempts to connect that have failed one after another began and ended.
    pub(crate) failing: Cell<Option<(Instant, Instant)>>,
}

/// The connection of a lane.
pub(crate) enum LinkState {
    /// There is none, and the next message makes one.
    Idle,
    /// It is being made; messages wait.
    Connecting,
    /// Messages are sent on it.
    Open(Rc<OutboundConnection>),
    /// It could not be made; messages fail with this until then.
    Resting(Instant, CallError),
    /// The node was forgotten.
    Closed,
}

/// A connection that passed the handshake.
pub(crate) struct OutboundConnection {
    /// Its number in the table of calls.
    pub(crate) number: u64,
    pub(crate) stream: Stream,
    pub(crate) compressing: bool,
    pub(crate) opened: Instant,
    pub(crate) last_received: Cell<Instant>,
}

/// A message that waits.
pub(crate) struct Queued {
    pub(crate) envelope: Envelope,
    pub(crate) body: Vec<u8>,
    pub(crate) deadline: Instant,
    pub(crate) _charge: Charge,
}

/// What a message of `body_bytes` takes in a queue.
pub(crate) fn queue_bytes(body_bytes: usize) -> u64 {
    (HEAD_BYTES + body_bytes) as u64
}

impl Endpoint {
    pub(crate) fn new(address: SocketAddr, send: &Rc<Pool>) -> Rc<Endpoint> {
        let reserve = send.endpoint();
        let lanes = Lane::ALL.map(|lane| {
            Rc::new(Outbound {
                lane,
                state: RefCell::new(LinkState::Idle),
                queue: RefCell::default(),
                room: send.queue(&reserve),
                earliest_expiry: Cell::new(Instant(u64::MAX)),
                pumping: Cell::new(false),
                failures: Cell::new(0),
                counts: OutboundCounts::default(),
                failing: Cell::new(None),
            })
        });
        Rc::new(Endpoint { address, lanes, identity: RefCell::default(), reserve })
    }

    pub(crate) fn lane(&self, lane: Lane) -> &Rc<Outbound> {
        &self.lanes[lane as usize]
    }

    /// The connections that are open.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Rc<OutboundConnection>> {
        self.lanes.iter().filter_map(|lane| lane.connection())
    }

    /// What was sent over all lanes.
    pub(crate) fn metrics(&self) -> OutboundMetrics {
        let mut sum = OutboundMetrics { using_reserve_bytes: self.reserve.used(), ..OutboundMetrics::default() };
        self.lanes.iter().for_each(|lane| sum.add(&lane.metrics()));
        sum
    }
}

impl Outbound {
    pub(crate) fn connection(&self) -> Option<Rc<OutboundConnection>> {
        match &*self.state.borrow() {
            LinkState::Open(connection) => Some(connection.clone()),
            _ => None,
        }
    }

    /// What was sent over this lane. The reserve belongs to all lanes together and is not counted.
    pub(crate) fn metrics(&self) -> OutboundMetrics {
        let connection = self.connection();
        let queued = connection.as_ref().map_or(0, |connection| connection.stream.queued() as u64);
        OutboundMetrics {
            active_connections: connection.is_some().into(),
            connection_attempts: self.counts.connection_attempts.get(),
            successful_connection_attempts: self.counts.successful_connection_attempts.get(),
            sent: self.counts.sent.get(),
            pending: self.counts.pending.get(),
            expired: self.counts.expired.get(),
            overload: self.counts.overload.get(),
            error: self.counts.error.get(),
            using_bytes: self.room.used() + queued,
            using_reserve_bytes: 0,
        }
    }
}
