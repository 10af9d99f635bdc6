//! The task of a connection: it receives messages and begins requests; each request answers when it is done.
//!
//! 1. Handshake, within [`HANDSHAKE_MAX`]: OPTIONS and STARTUP, one after the other, and a login if there must be one.
//! 2. Each request is admitted, in number and in bytes. If there is no room the connection waits, or answers OVERLOADED
//!    if the client asked for that.
//! 3. A request that has waited longer than its client waits is refused. Any other is polled at once. If it has to wait
//!    it becomes a task of its own.
//!
//! A client may be silent between two messages, as long as the configuration lets it; a message that has begun to
//! arrive must be there within [`MESSAGE_MAX`].
//!
//! Invariants: the requests under way and their bytes are bounded; nothing is received from a client that does not read
//! its answers; a request's memory is released with its answer.
//!
//! The connection's state and output are in `connection`, executing requests in `dispatch`.

use crate::cql::connection::{Close, Connection, OUTPUT_PAUSE_BYTES};
use crate::cql::dispatch;
use crate::cql::handshake;
use crate::cql::login;
use crate::cql::rate::RateLimiter;
use crate::cql::registry::ConnectionRegistry;
use crate::cql::request_memory::Share;
use model::Failure;
use runtime::gate::{Pass, Permit};
use runtime::{Class, Instant};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use wire::decoder::{Decoder, Event, Refusal, SizeLimits, UNREADY_BYTES_MAX};
use wire::envelope::{Envelope, HEADER_BYTES};
use wire::request::Request;
use wire::response::{self, To};
use wire::startup::Startup;
use wire::{Opcode, Version};

/// Time from accepting a connection to the end of its handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// The class of tasks in which connections are made. Thousands of clients that connect at once have to wait for each
/// other and not the requests of those who are connected, but get their shares of a busy core.
pub(crate) const HANDSHAKE_CLASS: Class = Class::Streaming;
/// A request is admitted before it has arrived if more bytes than this are still to come.
const EARLY_ADMISSION_BYTES: usize = 64 << 10;
/// How long a message may take to arrive once its first byte is there; for one that has to be admitted first, once it
/// is.
pub const MESSAGE_MAX: Duration = Duration::from_secs(60);
/// Bytes of memory that a request is charged beside its body.
const REQUEST_OVERHEAD_BYTES: usize = 512;

/// Of shorter waits nothing is taken off the time that a request may take.
const WAITED_MIN: Duration = Duration::from_millis(1);

/// What a request under way occupies until it is dropped: a pass of the shard's gate, a permit of the connection, bytes
/// of the shard.
struct Admission {
    _pass: Pass,
    _in_flight: Permit,
    _bytes: Bytes,
}

/// Memory of a request: of its core, and of its address if that is limited.
struct Bytes {
    _core: Permit,
    _address: Option<Permit>,
}

/// Makes the handshake. Returns the decoder, which may have received the first requests by then; `None` if it has
/// failed or takes too long.
pub(crate) async fn shake_hands(connection: &Rc<Connection>, registry: &ConnectionRegistry) -> Option<Decoder> {
    let context = &connection.context;
    let limits = &context.config.client_limits;
    let sizes = SizeLimits { envelope_bytes_max: limits.frame_bytes_max, body_bytes_max: limits.message_bytes_max };
    let decoder = Decoder::server(context.lowest_version()).with_limits(sizes);
    let mut receiver = Receiver::new(connection, registry, decoder);
    match runtime::timeout(HANDSHAKE_MAX, receiver.handshake()).await {
        Some(Ok(())) => Some(receiver.decoder),
        Some(Err(Close)) => {
            end(connection).await;
            None
        }
        None => {
            tracing::debug!(peer = %connection.peer(), "handshake took too long");
            context.metrics.evictions.increment();
            None
        }
    }
}

/// Serves a connection after its handshake, until either side closes it.
pub(crate) async fn serve(connection: &Rc<Connection>, registry: &ConnectionRegistry, decoder: Decoder) {
    let Close = Receiver::new(connection, registry, decoder).requests().await;
}

/// Ends a connection that either side closes.
pub(crate) async fn end(connection: &Rc<Connection>) {
    // Answers of requests under way have nowhere to go any more; what is queued is handed to the system.
    connection.flush().await;
    connection.shutdown();
}

/// Whether an envelope is a request that has to be admitted.
fn is_statement(envelope: &Envelope) -> bool {
    matches!(envelope.header.opcode, Opcode::Query | Opcode::Prepare | Opcode::Execute | Opcode::Batch)
}

/// The receiving side of a connection.
struct Receiver<'c> {
    connection: &'c Rc<Connection>,
    registry: &'c ConnectionRegistry,
    decoder: Decoder,
    /// When the message that is arriving was first seen.
    partial_since: Option<Instant>,
    /// When what the decoder has was received.
    arrival: Arrival,
}

/// When messages have arrived.
#[derive(Clone, Copy)]
struct Arrival {
    at: Instant,
    /// Whether nothing has been done since.
    is_now: bool,
}

impl Arrival {
    fn now() -> Arrival {
        Arrival { at: runtime::now(), is_now: true }
    }
}

impl<'c> Receiver<'c> {
    fn new(connection: &'c Rc<Connection>, registry: &'c ConnectionRegistry, decoder: Decoder) -> Receiver<'c> {
        Receiver { connection, registry, decoder, partial_since: None, arrival: Arrival::now() }
    }

    /// Waits for the next event of the decoder.
    async fn next_event(&mut self) -> Result<Event, Close> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Ok(event);
            }
            match self.connection.stream.recv().await {
                Ok(Some(bytes)) => self.decoder.feed(&bytes),
                Ok(None) | Err(_) => return Err(Close),
            }
        }
    }

    /// Answers OPTIONS and STARTUP until one of the latter succeeds.
    async fn handshake(&mut self) -> Result<(), Close> {
        let connection = self.connection;
        loop {
            let envelope = match self.next_event().await? {
                Event::Envelope(envelope) => envelope,
                Event::Refusal(refusal) => {
                    self.refuse(&refusal)?;
                    continue;
                }
            };
            let version = envelope.header.version;
            let to = To::new(version, envelope.header.stream);
            let opcode = envelope.header.opcode;
            if !matches!(opcode, Opcode::Options | Opcode::Startup) {
                let text = format!("Unexpected message {}, expecting STARTUP or OPTIONS", opcode.name());
                connection.send(|out| response::error(out, to, &[], &Failure::protocol(text)));
                return Err(Close);
            }
            match dispatch::decode(connection, &envelope) {
                Ok(Request::Startup(options)) => match Startup::check(version, &options) {
                    Ok(startup) => {
                        if let Err(failure) = login::with_certificate(connection).await {
                            connection.context.metrics.errors.increment();
                            connection.send(|out| response::error(out, to, &[], &failure));
                            continue;
                        }
                        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
                        connection.agree(&startup, options.collect(), to);
                        self.registry.note_client(version, connection.peer().ip());
                        self.decoder.agree_before_login(version);
                        if version >= Version::V5 && startup.compression.is_some() {
                            self.decoder.agree_compressed_segments();
                        }
                        if connection.awaits_login() {
                            self.login().await?;
                        }
                        self.decoder.admit();
                        return Ok(());
                    }
                    Err(failure) => connection.send(|out| response::error(out, to, &[], &failure)),
                },
                Ok(_) => connection.send(|out| handshake::supported(&connection.context, out, to)),
                Err(failure) => {
                    connection.send(|out| response::error(out, to, &[], &failure));
                    return Err(Close);
                }
            }
        }
    }

    /// Answers AUTH_RESPONSE until one of them has a name and a password that are right. Nothing else is answered.
    async fn login(&mut self) -> Result<(), Close> {
        let connection = self.connection;
        loop {
            let mut envelope = match self.next_event().await? {
                Event::Envelope(envelope) => envelope,
                Event::Refusal(refusal) => {
                    self.refuse(&refusal)?;
                    continue;
                }
            };
            let to = To::new(envelope.header.version, envelope.header.stream);
            connection.count_message();
            let outcome = match envelope.header.opcode {
                Opcode::AuthResponse => match envelope.open(connection.compression(), UNREADY_BYTES_MAX) {
                    Ok(()) => match dispatch::decode(connection, &envelope) {
                        Ok(Request::AuthResponse(token)) => login::with_token(connection, token).await,
                        Ok(_) => Err(Failure::protocol("Unsupported message")),
                        Err(failure) => Err(failure),
                    },
                    Err(failure) => Err(failure),
                },
                opcode => {
                    let name = opcode.name();
                    Err(Failure::protocol(format!("Unexpected message {name}, expecting SASL_RESPONSE")))
                }
            };
            match outcome {
                Ok(()) => {
                    connection.send(|out| response::auth_success(out, to));
                    return Ok(());
                }
                Err(failure) => {
                    connection.context.metrics.errors.increment();
                    connection.send(|out| response::error(out, to, &[], &failure));
                }
            }
            connection.make_room(OUTPUT_PAUSE_BYTES).await?;
        }
    }

    /// Receives and begins requests until the connection has to be closed.
    async fn requests(&mut self) -> Close {
        let connection = self.connection;
        loop {
            let (event, early) = match self.decoder.next_event() {
                Some(event) => (event, None),
                None if self.decoder.awaited() > EARLY_ADMISSION_BYTES => match self.large_event().await {
                    Ok((event, permit)) => {
                        self.arrival = Arrival::now();
                        (event, Some(permit))
                    }
                    Err(close) => return close,
                },
                None => match self.receive().await {
                    Ok(()) => continue,
                    Err(close) => return close,
                },
            };
            self.partial_since = None;
            let arrival = self.arrival;
            self.arrival.is_now = false;
            let handled = match event {
                Event::Envelope(envelope) if is_statement(&envelope) => {
                    begin(connection, envelope, early, arrival).await
                }
                Event::Envelope(envelope) => self.handle(envelope).await,
                Event::Refusal(refusal) => self.refuse(&refusal),
            };
            if let Err(close) = handled {
                return close;
            }
            // A client that pipelines must not keep the core from the others.
            runtime::yield_if_needed().await;
        }
    }

    /// Waits for bytes: at most until the message that has begun to arrive takes too long, or the client has been
    /// silent for too long.
    async fn receive(&mut self) -> Result<(), Close> {
        let connection = self.connection;
        let mut receiving = pin!(connection.stream.recv());
        let idle_max = connection.context.config.client_limits.idle_max;
        let is_between = self.decoder.buffered() == 0;
        let decoder = &mut self.decoder;
        let mut at_once = |cx: &mut Context<'_>| {
            let received = receiving.as_mut().poll(cx);
            if received.is_pending() {
                decoder.rest();
            }
            received
        };
        let received = if is_between && idle_max.is_none() {
            // The usual case, without a timer.
            std::future::poll_fn(at_once).await
        } else {
            match std::future::poll_fn(|cx| Poll::Ready(at_once(cx))).await {
                Poll::Ready(received) => received,
                Poll::Pending => loop {
                    let limit = match idle_max {
                        Some(idle_max) if is_between => idle_max,
                        _ => {
                            let now = runtime::now();
                            let began = *self.partial_since.get_or_insert(now);
                            MESSAGE_MAX.saturating_sub(now.since(began))
                        }
                    };
                    match runtime::timeout(limit, receiving.as_mut()).await {
                        Some(received) => break received,
                        None if self.partial_since.is_some() => {
                            connection.evict("a message takes too long to arrive");
                            return Err(Close);
                        }
                        // Whoever waits for an answer is not idle.
                        None if connection.active_requests() > 0 => {}
                        None => {
                            let (client, millis) = (connection.peer(), limit.as_millis());
                            tracing::info!("Closing client connection /{client} after timeout of {millis}ms");
                            connection.evict("it is idle");
                            return Err(Close);
                        }
                    }
                },
            }
        };
        match received {
            Ok(Some(bytes)) => {
                self.decoder.feed(&bytes);
                self.arrival = Arrival::now();
                Ok(())
            }
            Ok(None) | Err(_) => Err(Close),
        }
    }

    /// Waits for memory for a large message and then receives the rest of it.
    async fn large_event(&mut self) -> Result<(Event, Bytes), Close> {
        let connection = self.connection;
        let bytes = self.decoder.awaited() + self.decoder.buffered() + REQUEST_OVERHEAD_BYTES;
        let permit = admit(connection, &connection.context.request_memory.large, bytes).await;
        match runtime::timeout(MESSAGE_MAX, self.next_event()).await {
            Some(event) => Ok((event?, permit)),
            None => {
                connection.evict("a large request takes too long to arrive");
                Err(Close)
            }
        }
    }

    /// Answers an envelope that the decoder has refused.
    fn refuse(&self, refusal: &Refusal) -> Result<(), Close> {
        let connection = self.connection;
        connection.context.metrics.errors.increment();
        connection.send(|out| response::refusal(out, refusal.header, &refusal.failure));
        if refusal.close {
            tracing::debug!(peer = %connection.peer(), failure = %refusal.failure, "closing");
            connection.context.metrics.evictions.increment();
            return Err(Close);
        }
        Ok(())
    }

    /// Answers a message that is not a statement.
    async fn handle(&self, mut envelope: Envelope) -> Result<(), Close> {
        let connection = self.connection;
        let to = To::new(envelope.header.version, envelope.header.stream);
        connection.count_message();
        match envelope.header.opcode {
            Opcode::Options => connection.send(|out| handshake::supported(&connection.context, out, to)),
            // Without authentication any token will do, and after it one more changes nothing, as on Cassandra.
            Opcode::AuthResponse => connection.send(|out| response::auth_success(out, to)),
            Opcode::Startup => {
                let text = "Unexpected message STARTUP, the connection is already initialized";
                connection.send(|out| response::error(out, to, &[], &Failure::protocol(text)));
            }
            _ => match envelope.open(connection.compression(), UNREADY_BYTES_MAX) {
                Ok(()) => self.register(&envelope, to),
                Err(failure) => connection.send(|out| response::error(out, to, &[], &failure)),
            },
        }
        connection.make_room(OUTPUT_PAUSE_BYTES).await.map(drop)
    }

    fn register(&self, envelope: &Envelope, to: To) {
        let connection = self.connection;
        match dispatch::decode(connection, envelope) {
            Ok(Request::Register(types)) => {
                self.registry.register(connection, &types);
                connection.send(|out| response::ready(out, to));
            }
            Ok(_) => connection.send(|out| response::error(out, to, &[], &Failure::protocol("Unsupported message"))),
            Err(failure) => connection.send(|out| response::error(out, to, &[], &failure)),
        }
    }
}

/// Admits a request and begins it: it is polled once here and becomes a task of its own if it has to wait. `early` is
/// the permit of a request that was admitted before it arrived.
async fn begin(
    connection: &Rc<Connection>,
    mut envelope: Envelope,
    early: Option<Bytes>,
    arrival: Arrival,
) -> Result<(), Close> {
    let context = &connection.context;
    let begins_now = connection.make_room(OUTPUT_PAUSE_BYTES).await? && arrival.is_now;
    let to = To::new(envelope.header.version, envelope.header.stream);
    let at_once = match (&early, &context.limiter) {
        (None, None) => admitted_at_once(connection, &envelope),
        _ => None,
    };
    let waits = !begins_now || at_once.is_none();
    let (admission, warning) = match at_once {
        Some(admission) => (admission, None),
        None => match Box::pin(admission(connection, &envelope, early)).await {
            Ok(admitted) => admitted,
            Err(failure) => {
                context.metrics.errors.increment();
                connection.send(|out| response::error(out, to, &[], &failure));
                return Ok(());
            }
        },
    };
    let waited = if waits { runtime::now().since(arrival.at) } else { Duration::ZERO };
    if waited > context.config.node.client_timeout {
        context.metrics.errors.increment();
        let failure = Failure::overloaded("Query timed out before it could start");
        connection.send(|out| response::error(out, to, &[], &failure));
        return Ok(());
    }
    connection.count_request();
    if let Err(failure) = envelope.open(connection.compression(), plain_bytes_max(connection)) {
        context.metrics.errors.increment();
        connection.send(|out| response::error(out, to, &[], &failure));
        return Ok(());
    }

    let connection = connection.clone();
    let mut request = runtime::sync::boxed(|| async move {
        if waited < WAITED_MIN {
            dispatch::run(&connection, &envelope, warning).await;
        } else {
            let shard = &connection.context.shard;
            shard.after_waiting(waited, dispatch::run(&connection, &envelope, warning)).await;
        }
        connection.context.output_memory.note(&connection);
        drop(admission);
    });
    let done = std::future::poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx).is_ready())).await;
    if !done {
        runtime::spawn(request);
    }
    Ok(())
}

/// The largest plain body of a request.
fn plain_bytes_max(connection: &Connection) -> usize {
    let limits = &connection.context.config.client_limits;
    limits.frame_bytes_max.max(limits.message_bytes_max) - HEADER_BYTES
}

/// The plain bytes of a request that is compressed, else 0, and all the memory that it needs.
fn needed_bytes(connection: &Connection, envelope: &Envelope) -> (usize, usize) {
    let plain = match envelope.compression(connection.compression()) {
        None => 0,
        // The uncompressed size is admitted before the body is decompressed, which refuses a body that is too long.
        Some(compression) => compression.plain_len(&envelope.body).unwrap_or_default().min(plain_bytes_max(connection)),
    };
    (plain, envelope.body.len() + plain + REQUEST_OVERHEAD_BYTES)
}

/// Admits a request if nothing is in its way; what is, [`admission`] finds out.
fn admitted_at_once(connection: &Connection, envelope: &Envelope) -> Option<Admission> {
    let context = &connection.context;
    let (_, bytes) = needed_bytes(connection, envelope);
    let bytes = try_admit(connection, &context.request_memory.small, bytes)?;
    let in_flight = connection.in_flight.try_acquire(1)?;
    let pass = context.gate.borrow().enter()?;
    Some(Admission { _pass: pass, _in_flight: in_flight, _bytes: bytes })
}

/// Admits a request: by rate, by bytes, by number. Returns also the warning for a client that had to wait for it.
async fn admission(
    connection: &Connection,
    envelope: &Envelope,
    early: Option<Bytes>,
) -> Result<(Admission, Option<String>), Failure> {
    let context = &connection.context;
    let mut warning = None;
    if let Some(limiter) = &context.limiter {
        warning = at_rate(connection, limiter).await?;
    }
    let (plain, bytes) = needed_bytes(connection, envelope);
    let memory = &context.request_memory;
    let admitted = match early {
        Some(permit) if plain == 0 => permit,
        // Only the compressed body was admitted. Its permit is given back first, so that no two requests wait for each
        // other.
        Some(permit) => {
            drop(permit);
            admit(connection, &memory.large, bytes).await
        }
        None => match try_admit(connection, &memory.small, bytes) {
            Some(permit) => permit,
            None if connection.throws_on_overload() => return Err(breached_bytes(connection)),
            None => {
                let permit = admit(connection, &memory.small, bytes).await;
                let (of_address, of_core) = limits_of_bytes(connection);
                let text = "Request breached limit(s) on bytes in flight";
                warning = Some(format!(
                    "{text} (Endpoint: {}, Global: {}) and triggered backpressure.",
                    of_address.1, of_core.1
                ));
                permit
            }
        },
    };
    let in_flight = match connection.in_flight.try_acquire(1) {
        Some(permit) => permit,
        None if connection.throws_on_overload() => return Err(Failure::overloaded("Too many requests are under way")),
        None => connection.paused(connection.in_flight.acquire(1)).await,
    };
    let Some(pass) = context.gate.borrow().enter() else { return Err(Failure::overloaded("Server is shutting down")) };
    Ok((Admission { _pass: pass, _in_flight: in_flight, _bytes: admitted }, warning))
}

/// Waits as long as the rate of requests wants it, and returns a warning if it does; OVERLOADED for a client that wants
/// that instead.
async fn at_rate(connection: &Connection, limiter: &RateLimiter) -> Result<Option<String>, Failure> {
    let (now, rate) = (runtime::now(), limiter.per_second());
    if connection.throws_on_overload() {
        if limiter.try_reserve(now) {
            return Ok(None);
        }
        return Err(Failure::overloaded(format!(
            "Request breached global limit of {rate} requests/second. {OVERLOADED}"
        )));
    }
    let delay = limiter.reserve(now);
    if delay.is_zero() {
        return Ok(None);
    }
    connection.paused(runtime::sleep(delay)).await;
    Ok(Some(format!("Request breached global limit of {rate} requests/second and triggered backpressure.")))
}

/// The end of Cassandra's texts about limits.
const OVERLOADED: &str = "Server is currently in an overloaded state and cannot accept more requests.";

/// The bytes in use and all bytes, of the client's address and of the core.
fn limits_of_bytes(connection: &Connection) -> ((u64, u64), (u64, u64)) {
    let of_core = connection.context.request_memory.small.usage();
    (connection.address_share.as_ref().map_or(of_core, Share::usage), of_core)
}

/// The answer to a request for which there is no memory. The missing blank is Cassandra's.
fn breached_bytes(connection: &Connection) -> Failure {
    let ((used, max), (used_in_all, max_in_all)) = limits_of_bytes(connection);
    Failure::overloaded(format!(
        "Request breached limit on bytes in flight. (Endpoint: {used}/{max} bytes, Global: {used_in_all}/{max_in_all} \
         bytes.){OVERLOADED}"
    ))
}

/// Acquires memory for a request if it is free.
fn try_admit(connection: &Connection, memory: &Share, bytes: usize) -> Option<Bytes> {
    let of_address = match &connection.address_share {
        None => None,
        Some(share) => Some(share.try_acquire(bytes as u64)?),
    };
    Some(Bytes { _core: memory.try_acquire(bytes as u64)?, _address: of_address })
}

/// Acquires memory for a request. Nothing is received while it waits for that.
async fn admit(connection: &Connection, memory: &Share, bytes: usize) -> Bytes {
    match try_admit(connection, memory, bytes) {
        Some(permit) => permit,
        None => {
            let waiting = async {
                let of_address = match &connection.address_share {
                    None => None,
                    Some(share) => Some(share.acquire(bytes as u64).await),
                };
                Bytes { _core: memory.acquire(bytes as u64).await, _address: of_address }
            };
            connection.paused(waiting).await
        }
    }
}
