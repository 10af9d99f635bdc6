//! The links of one core: what the node calls.

use crate::calls::{Call, NO_CALL};
use crate::core_state::CoreState;
use crate::dialing;
use crate::endpoint::{Endpoint, LinkState};
use crate::error::CallError;
use crate::frame::{Envelope, Kind};
use crate::handler::Handler;
use crate::identity::{Identity, PeerIdentity, Refusal};
use crate::inbound;
use crate::lane::Lane;
use crate::metrics::{InboundMetrics, OutboundMetrics, StrangerMetrics};
use crate::options::{Keys, Options};
use crate::outbound;
use crate::peer_clock::micros;
use runtime::sync::{Either, join_all, race};
use runtime::{Accepted, Instant};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tls::{Encryption, HandshakeMetrics};

/// A connection is pinged this often.
const PING_EVERY: Duration = Duration::from_secs(5);
/// A connection that another node dialled is silent for at least this long before it is closed, because that node pings
/// as its own options say.
const SILENCE_MIN: Duration = Duration::from_secs(15);
/// How often [`Links::flush`] looks at what waits for a connection.
const FLUSH_PAUSE: Duration = Duration::from_millis(5);
/// How long [`Links::presence`] waits: longer than a round trip to any place.
const PRESENCE_WAIT: Duration = Duration::from_millis(500);

/// What a look at a node's address has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// A process listens there.
    Listening,
    /// The machine is there, and no process listens.
    Gone,
    /// No answer came: the machine is down, slow, or cut off.
    Silent,
}

/// The links of one core to other nodes and from them. Cloning shares them.
#[derive(Clone)]
pub struct Links(Rc<CoreState>);

impl Links {
    /// Links without connections, of the current core. `handler` judges other nodes and serves what they send.
    pub fn new(options: Options, identity: Identity, handler: Rc<dyn Handler>) -> Links {
        let links = Links(CoreState::new(options, identity, handler));
        runtime::spawn(links.clone().keep_alive());
        links
    }

    /// Changes what this node says of itself on connections made from now on, for instance once it has joined a
    /// cluster.
    pub fn set_identity(&self, identity: Identity) {
        self.0.identity.replace(Rc::new(identity));
    }

    /// What this node says of itself.
    pub fn identity(&self) -> Rc<Identity> {
        self.0.identity()
    }

    /// Sends a request to the node that listens at `to`, and makes the connection if there is none. The request is sent
    /// or queued at once; the returned call waits for the reply until `deadline`.
    pub fn call(&self, to: SocketAddr, lane: Lane, verb: u8, body: &[u8], deadline: Instant) -> Call {
        self.begin(to, lane, Kind::Request, verb, body, deadline)
    }

    /// Asks a node whether it is there. The call gives no bytes.
    pub fn ping(&self, to: SocketAddr, lane: Lane, deadline: Instant) -> Call {
        self.begin(to, lane, Kind::Ping, 0, &[], deadline)
    }

    fn begin(&self, to: SocketAddr, lane: Lane, kind: Kind, verb: u8, body: &[u8], deadline: Instant) -> Call {
        let Some(waiting) = self.0.calls.register() else { return Call::failed(CallError::Overloaded) };
        let envelope = Envelope { kind, verb, id: waiting.id(), clock_micros: micros(deadline) };
        match self.send(to, lane, envelope, body, deadline) {
            Ok(()) => Call::waiting(waiting, deadline),
            Err(error) => Call::failed(error),
        }
    }

    /// Sends a message that is not answered. It is dropped, and counted, if it cannot be sent before `deadline`; an
    /// error says that it was dropped at once.
    pub fn post(&self, to: SocketAddr, lane: Lane, verb: u8, body: &[u8], deadline: Instant) -> Result<(), CallError> {
        let envelope = Envelope { kind: Kind::OneWay, verb, id: NO_CALL, clock_micros: micros(deadline) };
        self.send(to, lane, envelope, body, deadline)
    }

    fn send(
        &self,
        to: SocketAddr,
        lane: Lane,
        envelope: Envelope,
        body: &[u8],
        deadline: Instant,
    ) -> Result<(), CallError> {
        if self.0.closed.is_set() {
            return Err(CallError::Unreachable);
        }
        let endpoint = self.0.endpoint(to);
        outbound::send(&self.0, &endpoint, endpoint.lane(lane), envelope, body, deadline)
    }

    /// What the node at `to` last said of itself on a connection that this core made; `None` if there was none.
    pub fn peer(&self, to: SocketAddr) -> Option<Rc<PeerIdentity>> {
        self.0.endpoints.borrow().get(&to).and_then(|endpoint| endpoint.identity.borrow().clone())
    }

    /// For how long no connection of `lane` to the node at `to` could be made. Zero if there is one, or if the last
    /// failure is so long ago that the next attempt may succeed.
    pub fn unreachable_for(&self, to: SocketAddr, lane: Lane) -> Duration {
        let endpoints = self.0.endpoints.borrow();
        let failing = endpoints.get(&to).and_then(|endpoint| endpoint.lane(lane).failing.get());
        let recent = outbound::REST_MAX + self.0.options.connect_timeout;
        match (failing, runtime::now()) {
            (Some((first, last)), now) if now.since(last) <= recent => now.since(first),
            _ => Duration::ZERO,
        }
    }

    /// Why the node at `to` and this one refused each other when a connection of `lane` was tried last.
    pub fn refusal(&self, to: SocketAddr, lane: Lane) -> Option<Refusal> {
        let endpoints = self.0.endpoints.borrow();
        match &*endpoints.get(&to)?.lane(lane).state.borrow() {
            LinkState::Resting(_, CallError::Refused(refusal)) => Some(refusal.clone()),
            _ => None,
        }
    }

    /// Looks whether a process listens at `to` at this moment, by a connection that is closed at once.
    pub async fn presence(&self, to: SocketAddr) -> Presence {
        let to = self.0.dialled_at(to);
        let connected = runtime::timeout(PRESENCE_WAIT, dialing::connect(&self.0, to, None)).await;
        match connected {
            Some(Ok(_)) => Presence::Listening,
            Some(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Presence::Gone,
            Some(Err(_)) | None => Presence::Silent,
        }
    }

    /// Dials the nodes that are known by the first addresses at the second ones from now on, and any other node at the
    /// address by which it is known. Connections that were made to another address are closed.
    pub fn dial_at(&self, addresses: Arc<BTreeMap<SocketAddr, SocketAddr>>) {
        let before = self.0.dialled_at.replace(addresses);
        for (address, endpoint) in &*self.0.endpoints.borrow() {
            if before.get(address).unwrap_or(address) != &self.0.dialled_at(*address) {
                endpoint.connections().for_each(|connection| connection.stream.shutdown());
            }
        }
    }

    /// Closes all connections to and from the node at `to`, fails what waits for it and drops its counts. A message
    /// that is sent to it later begins anew.
    pub fn forget(&self, to: SocketAddr) {
        let endpoint = self.0.endpoints.borrow_mut().remove(&to);
        if let Some(endpoint) = endpoint {
            self.close_endpoint(&endpoint);
        }
        self.0.inbound_counts.borrow_mut().remove(&to);
        let inbound = self.0.inbound.borrow();
        let from_there = inbound.values().filter(|connection| connection.peer.identity.address == to);
        from_there.for_each(|connection| connection.stream.shutdown());
    }

    /// Encrypts connections that are made from now on with `keys`.
    pub fn set_keys(&self, keys: Keys) {
        self.0.keys.replace(keys);
    }

    /// Serves an accepted connection on this core, which [`crate::route`] has chosen. It came to a port that is
    /// encrypted as `encryption` says.
    pub fn attach(&self, accepted: Accepted, encryption: Encryption) {
        if !self.0.closed.is_set() {
            runtime::spawn(inbound::serve(self.0.clone(), accepted, encryption));
        }
    }

    /// Waits until what was sent and answered so far is handed to the system or has failed, for at most `limit`.
    pub async fn flush(&self, limit: Duration) {
        let endpoints: Vec<Rc<Endpoint>> = self.0.endpoints.borrow().values().cloned().collect();
        let outbound = endpoints.iter().flat_map(|endpoint| {
            Lane::ALL.into_iter().map(move |lane| async move {
                let link = endpoint.lane(lane);
                loop {
                    match link.connection() {
                        Some(connection) if connection.stream.drained_to(0).await.is_err() => return,
                        _ if link.queue.borrow().is_empty() => return,
                        // It is being moved to the connection, or that is being made.
                        _ => runtime::sleep(FLUSH_PAUSE).await,
                    }
                }
            })
        });
        let answered: Vec<_> = self.0.inbound.borrow().values().cloned().collect();
        let inbound = answered.iter().map(|connection| async move {
            // A connection that broke has nothing left to take.
            let _ = connection.stream.drained_to(0).await;
        });
        let (outbound, inbound) = (join_all(outbound.collect()), join_all(inbound.collect()));
        runtime::timeout(limit, async move {
            outbound.await;
            inbound.await;
        })
        .await;
    }

    /// Closes all connections and fails what waits. Nothing can be sent afterwards.
    pub fn close(&self) {
        self.0.closed.set();
        self.0.strangers.close();
        self.0.handshakes.close();
        let endpoints = std::mem::take(&mut *self.0.endpoints.borrow_mut());
        endpoints.values().for_each(|endpoint| self.close_endpoint(endpoint));
    }

    fn close_endpoint(&self, endpoint: &Endpoint) {
        for lane in Lane::ALL {
            let link = endpoint.lane(lane);
            let before = link.state.replace(LinkState::Closed);
            if let LinkState::Open(connection) = before {
                connection.stream.shutdown();
            }
            outbound::fail_queue(&self.0, link, &CallError::Unreachable);
        }
    }

    /// Pings open connections, closes silent ones and drops what has expired.
    async fn keep_alive(self) {
        let core = &self.0;
        let timeout = Some(core.options.user_timeout).filter(|timeout| !timeout.is_zero()).unwrap_or(Duration::MAX);
        let every = PING_EVERY.min(timeout / 4).max(Duration::from_millis(100));
        loop {
            if let Either::Left(()) = race(core.closed.wait(), runtime::sleep(every)).await {
                return;
            }
            let now = runtime::now();
            let endpoints: Vec<Rc<Endpoint>> = core.endpoints.borrow().values().cloned().collect();
            for endpoint in endpoints {
                for lane in Lane::ALL {
                    outbound::prune(core, endpoint.lane(lane), now);
                }
                for connection in endpoint.connections() {
                    if now.since(connection.last_received.get()) > timeout {
                        tracing::warn!(peer = %endpoint.address, "closed a connection to a silent node");
                        connection.stream.shutdown();
                    } else {
                        let ping = Envelope { kind: Kind::Ping, verb: 0, id: NO_CALL, clock_micros: micros(now) };
                        connection.stream.write(|out| ping.put(out, false, |_| ()));
                    }
                }
            }
            let silence = timeout.max(SILENCE_MIN);
            for connection in core.inbound.borrow().values() {
                if now.since(connection.last_received.get()) > silence {
                    connection.stream.shutdown();
                }
            }
        }
    }

    /// What this core has sent to each node, ordered by address.
    pub fn outbound(&self) -> Vec<(SocketAddr, OutboundMetrics)> {
        let endpoints = self.0.endpoints.borrow();
        let mut all: Vec<_> = endpoints.iter().map(|(address, endpoint)| (*address, endpoint.metrics())).collect();
        all.sort_by_key(|(address, _)| *address);
        all
    }

    /// What this core has sent over a lane to all nodes together.
    pub fn outbound_of(&self, lane: Lane) -> OutboundMetrics {
        let mut sum = OutboundMetrics::default();
        self.0.endpoints.borrow().values().for_each(|endpoint| sum.add(&endpoint.lane(lane).metrics()));
        sum
    }

    /// What this core has received from each node, ordered by the address where the node listens.
    pub fn inbound(&self) -> Vec<(SocketAddr, InboundMetrics)> {
        let counts = self.0.inbound_counts.borrow();
        let mut all: Vec<_> = counts.iter().map(|(address, counts)| (*address, counts.get())).collect();
        all.sort_by_key(|(address, _)| *address);
        all
    }

    /// The messages that this core has dropped, in either direction, by verb.
    pub fn drops(&self) -> Vec<(u8, u64)> {
        self.0.drops.all()
    }

    /// Connections that never passed the handshake.
    pub fn strangers(&self) -> StrangerMetrics {
        self.0.strangers.metrics()
    }

    /// How handshakes of TLS with nodes that connected have ended.
    pub fn handshakes(&self) -> HandshakeMetrics {
        self.0.handshakes.metrics()
    }

    /// Calls of this core that wait for answers.
    pub fn calls_waiting(&self) -> usize {
        self.0.calls.waiting()
    }
}
