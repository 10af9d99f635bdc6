//! Sending messages to another node.
//!
//! 1. A message goes straight into the connection's send queue while nothing waits and that queue is short; else it
//!    waits in the lane's own, where it can still expire.
//! 2. The first message of a lane makes its connection; a failure fails what waits, and what comes until the link has
//!    rested.
//! 3. One task per connection receives answers. When the connection ends, it fails the calls that were sent on it.
//!
//! Invariants: the messages of a lane keep their order; what waits is bounded in bytes, and in time by its deadlines;
//! a link that keeps failing is tried at most every [`REST_MIN`] to [`REST_MAX`].

use crate::calls::NO_CALL;
use crate::core_state::CoreState;
use crate::dialing::dial;
use crate::endpoint::{Endpoint, LinkState, Outbound, OutboundConnection, Queued, queue_bytes};
use crate::error::{CallError, FailureReason};
use crate::frame::{Damage, Decoder, Envelope, Kind, Step};
use runtime::Instant;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Bytes in a connection's send queue beyond which messages wait in their lane.
const WINDOW_BYTES: usize = 256 << 10;
/// How long a link rests after its first failure, at most; twice as long after each further one.
pub const REST_MIN: Duration = Duration::from_millis(50);
/// The longest rest. A connection that lasted longer than this was no failure.
pub const REST_MAX: Duration = Duration::from_secs(1);

/// Sends a message, or queues it. An error says that it has not been sent and will not be.
pub(crate) fn send(
    core: &Rc<CoreState>,
    endpoint: &Rc<Endpoint>,
    link: &Rc<Outbound>,
    envelope: Envelope,
    body: &[u8],
    deadline: Instant,
) -> Result<(), CallError> {
    let now = runtime::now();
    if body.len() > core.options.message_bytes_max {
        link.counts.error.add(body.len());
        return Err(CallError::TooLong);
    }
    if deadline <= now {
        expired(core, link, &envelope, body.len());
        return Err(CallError::Expired);
    }
    let connected = {
        let mut state = link.state.borrow_mut();
        match &*state {
            LinkState::Open(connection) => Some(connection.clone()),
            LinkState::Resting(until, error) if now < *until => {
                link.counts.error.add(body.len());
                return Err(error.clone());
            }
            LinkState::Closed => return Err(CallError::Unreachable),
            LinkState::Idle | LinkState::Resting(..) => {
                *state = LinkState::Connecting;
                runtime::spawn(connect(core.clone(), endpoint.clone(), link.clone()));
                None
            }
            LinkState::Connecting => None,
        }
    };
    if let Some(connection) = &connected
        && link.queue.borrow().is_empty()
        && connection.stream.queued() < WINDOW_BYTES
    {
        put(core, link, connection, envelope, body);
        return Ok(());
    }
    let bytes = queue_bytes(body.len());
    let mut charge = link.room.try_take(bytes);
    if charge.is_none() && link.earliest_expiry.get() <= now {
        prune(core, link, now);
        charge = link.room.try_take(bytes);
    }
    let Some(charge) = charge else {
        link.counts.overload.add(body.len());
        core.drops.add(envelope.verb);
        return Err(CallError::Overloaded);
    };
    link.counts.pending.add(body.len());
    link.earliest_expiry.set(link.earliest_expiry.get().min(deadline));
    link.queue.borrow_mut().push_back(Queued { envelope, body: body.to_vec(), deadline, _charge: charge });
    if connected.is_some() && !link.pumping.replace(true) {
        runtime::spawn(pump(core.clone(), link.clone()));
    }
    Ok(())
}

/// Appends a message to the connection's send queue.
fn put(core: &CoreState, link: &Outbound, connection: &OutboundConnection, mut envelope: Envelope, body: &[u8]) {
    if envelope.kind == Kind::Ping {
        envelope.clock_micros = crate::peer_clock::micros(runtime::now());
    }
    if envelope.id != NO_CALL {
        core.calls.sent(envelope.id, connection.number);
    }
    link.counts.sent.add(body.len());
    connection.stream.write(|out| envelope.put(out, connection.compressing, |out| out.extend_from_slice(body)));
}

/// Counts a message that is dropped because it has expired.
fn expired(core: &CoreState, link: &Outbound, envelope: &Envelope, bytes: usize) {
    link.counts.expired.add(bytes);
    core.drops.add(envelope.verb);
}

/// Drops the messages of the queue that have expired. Their callers know by their own timers.
pub(crate) fn prune(core: &CoreState, link: &Outbound, now: Instant) {
    let mut earliest = Instant(u64::MAX);
    let mut dropped = Vec::new();
    link.queue.borrow_mut().retain_mut(|queued| {
        if queued.deadline <= now {
            dropped.push((queued.envelope, queued.body.len()));
            return false;
        }
        earliest = earliest.min(queued.deadline);
        true
    });
    link.earliest_expiry.set(earliest);
    for (envelope, bytes) in dropped {
        link.counts.pending.remove(bytes);
        expired(core, link, &envelope, bytes);
    }
}

/// Moves what waits into the connection as it takes more, until nothing waits or there is no connection. A new one may
/// have taken the place of one that broke.
async fn pump(core: Rc<CoreState>, link: Rc<Outbound>) {
    let mut broken = 0;
    while let Some(connection) = link.connection().filter(|connection| connection.number != broken) {
        if connection.stream.drained_to(WINDOW_BYTES / 2).await.is_err() {
            broken = connection.number;
            continue;
        }
        let now = runtime::now();
        while connection.stream.queued() < WINDOW_BYTES {
            let Some(queued) = link.queue.borrow_mut().pop_front() else { break };
            let bytes = queued.body.len();
            link.counts.pending.remove(bytes);
            if queued.deadline <= now {
                expired(&core, &link, &queued.envelope, bytes);
            } else {
                put(&core, &link, &connection, queued.envelope, &queued.body);
            }
        }
        if link.queue.borrow().is_empty() {
            link.earliest_expiry.set(Instant(u64::MAX));
            break;
        }
        runtime::yield_if_needed().await;
    }
    link.pumping.set(false);
}

/// Makes the connection of a lane and serves it until it ends.
async fn connect(core: Rc<CoreState>, endpoint: Rc<Endpoint>, link: Rc<Outbound>) {
    link.counts.connection_attempts.increment();
    let began = runtime::now();
    let dialled = runtime::timeout(core.options.connect_timeout, dial(&core, &endpoint, link.lane)).await;
    let dialled = match dialled.unwrap_or(Err(CallError::Unreachable)) {
        Ok(dialled) => dialled,
        Err(error) => {
            if let CallError::Refused(refusal) = &error
                && core.strangers.should_tell(endpoint.address.ip(), runtime::now())
            {
                tracing::warn!(peer = %endpoint.address, "no connection: {refusal}");
            }
            let first = link.failing.get().map_or(began, |(first, _)| first);
            link.failing.set(Some((first, runtime::now())));
            return rest(&core, &link, error);
        }
    };
    let now = runtime::now();
    let connection = Rc::new(OutboundConnection {
        number: core.next_connection(),
        stream: dialled.stream,
        compressing: core.compresses_to(&dialled.peer.identity.data_center),
        opened: now,
        last_received: Cell::new(now),
    });
    {
        let mut state = link.state.borrow_mut();
        if let LinkState::Closed = &*state {
            return;
        }
        *state = LinkState::Open(connection.clone());
    }
    link.counts.successful_connection_attempts.increment();
    link.failing.set(None);
    tracing::debug!(peer = %endpoint.address, lane = ?link.lane, version = dialled.peer.version, "connected");
    if !link.pumping.replace(true) {
        runtime::spawn(pump(core.clone(), link.clone()));
    }
    if let Err(damage) = receive(&core, &connection).await {
        tracing::warn!(peer = %endpoint.address, lane = ?link.lane, ?damage, "damaged frame received, reconnecting");
    }
    connection.stream.shutdown();
    core.calls.disconnected(connection.number);
    if runtime::now().since(connection.opened) < REST_MAX {
        return rest(&core, &link, CallError::Unreachable);
    }
    link.failures.set(0);
    let is_waiting = !link.queue.borrow().is_empty();
    let mut state = link.state.borrow_mut();
    if let LinkState::Closed = &*state {
        return;
    }
    *state = if is_waiting { LinkState::Connecting } else { LinkState::Idle };
    if is_waiting {
        runtime::spawn(connect(core.clone(), endpoint.clone(), link.clone()));
    }
}

/// Lets a link rest after a failure, and fails what waits.
fn rest(core: &CoreState, link: &Outbound, error: CallError) {
    let failures = link.failures.get();
    link.failures.set(failures.saturating_add(1));
    {
        let mut state = link.state.borrow_mut();
        if let LinkState::Closed = &*state {
            return;
        }
        *state = LinkState::Resting(runtime::now().after(rest_for(failures)), error.clone());
    }
    fail_queue(core, link, &error);
}

/// How long to rest after so many earlier failures: half of it and a random part of the other half, so that nodes do
/// not come back in step.
fn rest_for(failures: u32) -> Duration {
    let longest = REST_MIN.saturating_mul(1 << failures.min(16)).min(REST_MAX).as_nanos() as u64;
    Duration::from_nanos(longest / 2 + runtime::rng::below(longest / 2 + 1))
}

/// Fails everything that waits.
pub(crate) fn fail_queue(core: &CoreState, link: &Outbound, error: &CallError) {
    let queue = std::mem::take(&mut *link.queue.borrow_mut());
    link.earliest_expiry.set(Instant(u64::MAX));
    for queued in queue {
        let bytes = queued.body.len();
        link.counts.pending.remove(bytes);
        link.counts.error.add(bytes);
        core.calls.complete(queued.envelope.id, Err(error.clone()));
    }
}

/// Receives answers until the connection ends.
async fn receive(core: &CoreState, connection: &OutboundConnection) -> Result<(), Damage> {
    let mut decoder = Decoder::new(core.options.message_bytes_max);
    let mut answered = None;
    while let Ok(Some(piece)) = connection.stream.recv().await {
        connection.last_received.set(runtime::now());
        let mut input = &*piece;
        loop {
            match decoder.step(&mut input)? {
                Step::Starved => break,
                Step::Head(head) => match head.kind {
                    Kind::Reply | Kind::Failure | Kind::Pong => answered = Some(head),
                    Kind::Request | Kind::OneWay | Kind::Ping => return Err(Damage::Malformed),
                },
                Step::Body(body) => {
                    let Some(head) = answered.take() else { continue };
                    core.calls.complete(
                        head.id,
                        match head.kind {
                            Kind::Failure => Err(CallError::Failed(FailureReason::from(head.verb))),
                            _ => Ok(body.to_vec()),
                        },
                    );
                }
            }
        }
        drop(piece);
        runtime::yield_if_needed().await;
    }
    Ok(())
}
