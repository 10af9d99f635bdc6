//! The task of a connection: it receives messages and begins requests; each request answers when it is done.
//!
//! 1. Handshake, within [`HANDSHAKE_MAX`]: OPTIONS and STARTUP, one after the other, and a login if there must be one.
//! 2. Each request is admitted, in number and in bytes. If there is no room the connection waits, or answers OVERLOADED
//!    if the client asked for that.
//! 3. An admitted request is polled at once. If it has to wait it becomes a task of its own.
//!
//! Invariants: the requests under way and their bytes are bounded; nothing is received from a client that does not read
//! its answers; a request's memory is released with its answer.
//!
//! The connection's state and output are in `connection`, executing requests in `dispatch`.

use crate::cql::connection::{Close, Connection, OUTPUT_PAUSE_BYTES};
use crate::cql::dispatch;
use crate::cql::handshake::{self, LOWEST_VERSION, Startup};
use crate::cql::login;
use crate::cql::registry::ConnectionRegistry;
use model::Failure;
use runtime::gate::{Pass, Permit, Semaphore};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use wire::decoder::{Decoder, ENVELOPE_BYTES_MAX, Event, Refusal, UNREADY_BYTES_MAX};
use wire::envelope::{Envelope, HEADER_BYTES};
use wire::request::Request;
use wire::response::{self, To};
use wire::{Opcode, Version};

/// Time from accepting a connection to the end of its handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// A request is admitted before it has arrived if more bytes than this are still to come.
const EARLY_ADMISSION_BYTES: usize = 64 << 10;
/// How long the body of a request that was admitted early may take to arrive.
pub const LARGE_BODY_MAX: Duration = Duration::from_secs(60);
/// The largest plain body of a request.
const PLAIN_BYTES_MAX: usize = ENVELOPE_BYTES_MAX - HEADER_BYTES;
/// Bytes of memory that a request is charged beside its body.
const REQUEST_OVERHEAD_BYTES: usize = 512;

/// What a request under way occupies until it is dropped: a pass of the shard's gate, a permit of the connection, bytes
/// of the shard.
struct Admission {
    _pass: Pass,
    _in_flight: Permit,
    _bytes: Permit,
}

/// Serves a connection until either side closes it.
pub(crate) async fn serve(connection: &Rc<Connection>, registry: &ConnectionRegistry) {
    let mut receiver = Receiver { connection, registry, decoder: Decoder::server(LOWEST_VERSION) };
    match runtime::timeout(HANDSHAKE_MAX, receiver.handshake()).await {
        Some(Ok(())) => {
            let Close = receiver.requests().await;
        }
        Some(Err(Close)) => {}
        None => {
            tracing::debug!(peer = %connection.peer(), "handshake took too long");
            connection.context.metrics.evictions.increment();
            return;
        }
    }
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
}

impl Receiver<'_> {
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
                        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
                        connection.agree(&startup, options.collect(), to);
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
                Some(event) => (Ok(event), None),
                None if self.decoder.awaited() > EARLY_ADMISSION_BYTES => self.large_event().await,
                None => match connection.stream.recv().await {
                    Ok(Some(bytes)) => {
                        self.decoder.feed(&bytes);
                        continue;
                    }
                    Ok(None) | Err(_) => return Close,
                },
            };
            let handled = match event {
                Ok(Event::Envelope(envelope)) if is_statement(&envelope) => begin(connection, envelope, early).await,
                Ok(Event::Envelope(envelope)) => self.handle(envelope).await,
                Ok(Event::Refusal(refusal)) => self.refuse(&refusal),
                Err(close) => Err(close),
            };
            if let Err(close) = handled {
                return close;
            }
            // A client that pipelines must not keep the core from the others.
            runtime::yield_if_needed().await;
        }
    }

    /// Waits for memory for a large message and then receives the rest of it.
    async fn large_event(&mut self) -> (Result<Event, Close>, Option<Permit>) {
        let connection = self.connection;
        let bytes = self.decoder.awaited() + self.decoder.buffered() + REQUEST_OVERHEAD_BYTES;
        let permit = admit(connection, &connection.context.large_request_bytes, bytes).await;
        match runtime::timeout(LARGE_BODY_MAX, self.next_event()).await {
            Some(event) => (event, Some(permit)),
            None => {
                connection.evict("a large request takes too long to arrive");
                (Err(Close), None)
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
        connection.make_room(OUTPUT_PAUSE_BYTES).await
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
async fn begin(connection: &Rc<Connection>, mut envelope: Envelope, early: Option<Permit>) -> Result<(), Close> {
    let context = &connection.context;
    connection.make_room(OUTPUT_PAUSE_BYTES).await?;
    let to = To::new(envelope.header.version, envelope.header.stream);
    let plain = match envelope.compression(connection.compression()) {
        None => 0,
        // The uncompressed size is admitted before the body is decompressed, which refuses a body that is too long.
        Some(compression) => compression.plain_len(&envelope.body).unwrap_or_default().min(PLAIN_BYTES_MAX),
    };
    let bytes = envelope.body.len() + plain + REQUEST_OVERHEAD_BYTES;
    let admitted = match early {
        Some(permit) if plain == 0 => Some(permit),
        // Only the compressed body was admitted. Its permit is given back first, so that no two requests wait for each
        // other.
        Some(permit) => {
            drop(permit);
            Some(admit(connection, &context.large_request_bytes, bytes).await)
        }
        None if connection.throws_on_overload() => context.request_bytes.try_acquire(bytes as u64),
        None => Some(admit(connection, &context.request_bytes, bytes).await),
    };
    let in_flight = match connection.in_flight.try_acquire(1) {
        Some(permit) => Some(permit),
        None if connection.throws_on_overload() => None,
        None => Some(connection.paused(connection.in_flight.acquire(1)).await),
    };
    let (Some(bytes), Some(in_flight)) = (admitted, in_flight) else {
        let failure = Failure::overloaded("Too many requests are under way");
        context.metrics.errors.increment();
        connection.send(|out| response::error(out, to, &[], &failure));
        return Ok(());
    };
    let Some(pass) = context.gate.enter() else { return Err(Close) };
    connection.count_request();
    let admission = Admission { _pass: pass, _in_flight: in_flight, _bytes: bytes };
    if let Err(failure) = envelope.open(connection.compression(), PLAIN_BYTES_MAX) {
        context.metrics.errors.increment();
        connection.send(|out| response::error(out, to, &[], &failure));
        return Ok(());
    }

    let connection = connection.clone();
    let mut request = Box::pin(async move {
        dispatch::run(&connection, &envelope).await;
        drop(admission);
    });
    let done = std::future::poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx).is_ready())).await;
    if !done {
        runtime::spawn(request);
    }
    Ok(())
}

/// Acquires `bytes` of the shard's request memory. Nothing is received while it waits for them.
async fn admit(connection: &Connection, memory: &Semaphore, bytes: usize) -> Permit {
    let bytes = (bytes as u64).min(connection.context.request_bytes_max);
    match memory.try_acquire(bytes) {
        Some(permit) => permit,
        None => connection.paused(memory.acquire(bytes)).await,
    }
}
