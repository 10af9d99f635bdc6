//! Connections that other nodes dial.
//!
//! 1. The other side says who it is, within the time for connecting. Until it has passed, nothing else is read, and a
//!    stranger is closed without an answer.
//! 2. A new connection of the same core and lane of a node closes the one before, which that node has given up.
//! 3. Before the body of a message is read, it must not have expired, and there must be room; until there is, the
//!    connection is not read.
//!
//! Invariants: the bytes of messages that are being served are bounded; a damaged frame ends its connection and no
//! other.

use crate::capacity::{Charge, QueueRoom};
use crate::core_state::{CoreState, InboundKey};
use crate::endpoint::queue_bytes;
use crate::error::FailureReason;
use crate::frame::{Damage, Decoder, Envelope, Head, Kind, Step};
use crate::greeting::Greeting;
use crate::identity::{Identity, PeerIdentity, Refusal, Versions, certificates_of};
use crate::lane::Lane;
use crate::peer_clock::PeerClock;
use crate::replier::{InboundConnection, InboundCounts, Replier};
use runtime::sync::{Either, race};
use runtime::{Accepted, Instant};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use tls::{Encryption, Stream};

/// A connection that has passed the handshake.
struct Passed {
    peer: PeerIdentity,
    lane: Lane,
    clock: PeerClock,
    /// What has arrived after the greeting.
    rest: Vec<u8>,
}

/// Why a connection has not passed.
enum Failed {
    Stranger,
    Refused(Refusal),
}

/// Serves an accepted connection until either side closes it.
pub(crate) async fn serve(core: Rc<CoreState>, accepted: Accepted, encryption: Encryption) {
    let source = accepted.peer();
    let socket = match accepted.attach() {
        Ok(socket) => socket,
        Err(error) => return tracing::debug!(%source, %error, "a connection could not be attached"),
    };
    // The handshake of TLS is bounded and timed for itself.
    let Some(stream) = secure(&core, socket, encryption).await else {
        return core.strangers.strangers.increment();
    };
    let stream = Rc::new(stream);
    let greeted = {
        let _being_greeted = core.strangers.greet(&stream);
        runtime::timeout(core.options.connect_timeout, greet(&core, &stream)).await
    };
    // The list of those being greeted has let go of it.
    let Some(stream) = Rc::into_inner(stream) else { return };
    match greeted.unwrap_or(Err(Failed::Stranger)) {
        Ok(passed) => serve_passed(&core, stream, passed).await,
        Err(Failed::Stranger) => {
            core.strangers.strangers.increment();
            if core.strangers.should_tell(source.ip(), runtime::now()) {
                tracing::warn!(%source, "closed a connection that did not say who it is");
            }
            stream.shutdown();
        }
        Err(Failed::Refused(refusal)) => {
            core.strangers.refused.increment();
            if core.strangers.should_tell(source.ip(), runtime::now()) {
                tracing::warn!(%source, "refused a connection: {refusal}");
            }
            stream.write(|out| Greeting::Refusal(refusal).put(out));
        }
    }
}

/// Makes the handshake of TLS if there is to be one; `None` if it has failed.
async fn secure(core: &CoreState, socket: runtime::Stream, encryption: Encryption) -> Option<Stream> {
    if encryption == Encryption::Off {
        return Some(socket.into());
    }
    let source = socket.peer().ip();
    let keys = core.keys.borrow().inbound.clone();
    let accepting = Stream::accept_by(encryption, socket, keys.as_ref());
    core.handshakes.run(source, core.options.connect_timeout, accepting).await.ok()
}

/// Waits for the other side's greeting, judges it and answers if it passes.
async fn greet(core: &CoreState, stream: &Stream) -> Result<Passed, Failed> {
    let mut received = Vec::new();
    let (greeting, used) = loop {
        match stream.recv().await {
            Ok(Some(bytes)) => received.extend_from_slice(&bytes),
            Ok(None) | Err(_) => return Err(Failed::Stranger),
        }
        match Greeting::take(&received) {
            Ok(Some(taken)) => break taken,
            Ok(None) => {}
            Err(_) => return Err(Failed::Stranger),
        }
    };
    let Greeting::Hello { lane, clock_micros, identity } = greeting else { return Err(Failed::Stranger) };
    let clock = PeerClock::new(runtime::now(), clock_micros);
    let own = core.identity();
    own.check_cluster(&identity).map_err(Failed::Refused)?;
    let version = own.common_version(identity.address, identity.versions).map_err(Failed::Refused)?;
    let certificates = certificates_of(stream);
    let peer = PeerIdentity { identity, version, socket: stream.peer(), certificates };
    core.handler.accept_peer(&peer).map_err(Failed::Refused)?;
    let agreed = Identity { versions: Versions { min: version, max: version }, ..Identity::clone(&own) };
    stream.write(|out| Greeting::Welcome { version, identity: agreed }.put(out));
    Ok(Passed { peer, lane, clock, rest: received.split_off(used) })
}

/// The counts of messages from the node at `address`; `None` if there are too many nodes or connections for this one.
fn admit(core: &CoreState, address: SocketAddr, key: InboundKey) -> Option<Rc<InboundCounts>> {
    let (mut all, inbound) = (core.inbound_counts.borrow_mut(), core.inbound.borrow());
    let too_many_peers = all.len() >= core.options.peers_max && !all.contains_key(&address);
    if too_many_peers || inbound.len() >= core.options.connections_max && !inbound.contains_key(&key) {
        return None;
    }
    Some(all.entry(address).or_insert_with(|| InboundCounts::new(&core.receive)).clone())
}

async fn serve_passed(core: &Rc<CoreState>, stream: Stream, passed: Passed) {
    let Passed { peer, lane, clock, rest } = passed;
    let key = (peer.identity.host_id, peer.identity.shard.0, lane);
    let Some(counts) = admit(core, peer.identity.address, key) else {
        core.strangers.crowded_out.increment();
        return stream.shutdown();
    };
    let connection = Rc::new(InboundConnection {
        compressing: core.compresses_to(&peer.identity.data_center),
        stream,
        peer: Rc::new(peer),
        counts,
        drops: core.drops.clone(),
        body_bytes_max: core.options.message_bytes_max,
        queue_bytes_max: core.send.queue_bytes_max() as usize,
        last_received: Cell::new(runtime::now()),
    });
    if let Some(before) = core.inbound.borrow_mut().insert(key, connection.clone()) {
        before.stream.shutdown();
    }
    let mut receiver = Receiver { core, connection: &connection, lane, clock, message: None };
    match race(core.closed.wait(), receiver.receive(&rest)).await {
        Either::Left(()) | Either::Right(Ok(())) => {}
        Either::Right(Err(damage)) => {
            connection.counts.corrupt_frames.increment();
            tracing::warn!(peer = %connection.peer.identity.address, ?lane, ?damage, "closed for a damaged frame");
        }
    }
    connection.stream.shutdown();
    let mut inbound = core.inbound.borrow_mut();
    if inbound.get(&key).is_some_and(|now| Rc::ptr_eq(now, &connection)) {
        inbound.remove(&key);
    }
}

/// The receiving side of a connection.
struct Receiver<'c> {
    core: &'c Rc<CoreState>,
    connection: &'c Rc<InboundConnection>,
    lane: Lane,
    clock: PeerClock,
    /// The message whose body is awaited.
    message: Option<Message>,
}

struct Message {
    head: Head,
    deadline: Instant,
    charge: Charge,
}

impl Receiver<'_> {
    async fn receive(&mut self, rest: &[u8]) -> Result<(), Damage> {
        let connection = self.connection;
        let room = self.core.receive.queue(&connection.counts.reserve);
        let mut decoder = Decoder::new(connection.body_bytes_max);
        self.piece(&mut decoder, &room, rest).await?;
        while let Ok(Some(piece)) = connection.stream.recv().await {
            connection.last_received.set(runtime::now());
            self.piece(&mut decoder, &room, &piece).await?;
            drop(piece);
            // A node that does not read its answers is not read either.
            if connection.stream.queued() > connection.queue_bytes_max / 2 {
                connection.stream.pause();
                if connection.stream.drained_to(connection.queue_bytes_max / 4).await.is_err() {
                    return Ok(());
                }
                connection.stream.resume();
            }
            runtime::yield_if_needed().await;
        }
        Ok(())
    }

    /// Serves what a piece of received bytes completes.
    async fn piece(&mut self, decoder: &mut Decoder, room: &Rc<QueueRoom>, piece: &[u8]) -> Result<(), Damage> {
        let connection = self.connection;
        let mut input = piece;
        loop {
            let head = match decoder.step(&mut input)? {
                Step::Starved => return Ok(()),
                Step::Body(body) => {
                    if let Some(Message { head, deadline, charge }) = self.message.take() {
                        let id = (head.kind == Kind::Request).then_some(head.id);
                        let bytes = head.payload_bytes;
                        let replier = Replier::new(connection, id, head.verb, bytes, deadline, charge);
                        self.core.handler.serve(&connection.peer, self.lane, head.verb, body, replier);
                    }
                    continue;
                }
                Step::Head(head) => head,
            };
            match head.kind {
                Kind::Ping => {
                    self.clock.sample(runtime::now(), head.clock_micros);
                    connection.put(Envelope { kind: Kind::Pong, verb: 0, id: head.id, clock_micros: 0 }, |_| ());
                }
                Kind::Request | Kind::OneWay => {
                    connection.counts.received.add(head.payload_bytes);
                    let deadline = self.clock.own_time(head.clock_micros);
                    match self.find_room(room, head.payload_bytes, deadline).await {
                        Some(charge) => self.message = Some(Message { head, deadline, charge }),
                        None => {
                            decoder.skip();
                            connection.expired(head.verb, head.payload_bytes);
                            if head.kind == Kind::Request {
                                connection.fail(head.id, FailureReason::Expired);
                            }
                        }
                    }
                }
                Kind::Reply | Kind::Failure | Kind::Pong => return Err(Damage::Malformed),
            }
        }
    }

    /// Takes room for a message; `None` if it has expired, or expires before there is room.
    async fn find_room(&self, room: &Rc<QueueRoom>, payload_bytes: usize, deadline: Instant) -> Option<Charge> {
        let bytes = queue_bytes(payload_bytes);
        let began = runtime::now();
        if deadline <= began {
            return None;
        }
        if let Some(charge) = room.try_take(bytes) {
            return Some(charge);
        }
        let connection = self.connection;
        connection.counts.throttled_count.increment();
        connection.stream.pause();
        let free = self.core.receive.room.wait(|| room.try_take(bytes));
        let found = runtime::timeout(deadline.since(began), free).await;
        connection.stream.resume();
        connection.counts.throttled_nanos.add(runtime::now().since(began).as_nanos() as u64);
        found
    }
}
