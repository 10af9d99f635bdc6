//! One connection: one task that receives, decodes and begins requests; each request answers when it is done.
//!
//! 1. Handshake, within [`HANDSHAKE_MAX`]: OPTIONS and STARTUP, one after the other.
//! 2. Each request is admitted (in number and bytes; the connection waits, or is answered OVERLOADED if it asked for
//!    that), then polled at once; if it has to wait it becomes a task of its own.
//! 3. An answer is encoded straight into the stream's send queue, in version 5 into a segment that answers of the same
//!    turn share.
//!
//! Invariants: requests under way, their bytes and queued output are bounded; a client that does not read is not read
//! from, and closed after [`OUTPUT_STALL_MAX`]; nothing of a request is kept after its answer.

use crate::cql::handshake::{self, LOWEST_VERSION, Startup};
use crate::cql::{Shared, dispatch};
use model::Failure;
use runtime::Stream;
use runtime::gate::{Pass, Permit, Semaphore};
use shard::{Client, Session};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use wire::compression::Compression;
use wire::decoder::{Decoder, ENVELOPE_BYTES_MAX, Event, Refusal, UNREADY_BYTES_MAX};
use wire::envelope::{Envelope, HEADER_BYTES};
use wire::request::{EventType, Request};
use wire::response::{self, To};
use wire::segment::SegmentWriter;
use wire::{Opcode, Version};

/// Time from accepting to the end of the handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Requests of one connection under way.
pub const REQUESTS_IN_FLIGHT_MAX: u64 = 2048;
/// Queued output above which no further request of the connection begins.
pub const OUTPUT_PAUSE_BYTES: usize = 1 << 20;
/// Queued output above which answers wait, and events close the connection.
pub const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// A client that leaves output queued for so long is closed.
pub const OUTPUT_STALL_MAX: Duration = Duration::from_secs(10);
/// Bodies from this size on are admitted before they have arrived.
const EARLY_ADMISSION_BYTES: usize = 64 << 10;
/// Time for such a body to arrive.
pub const LARGE_BODY_MAX: Duration = Duration::from_secs(60);
/// Largest body of a request once it is opened.
const PLAIN_BYTES_MAX: usize = ENVELOPE_BYTES_MAX - HEADER_BYTES;
/// What a request is charged beside its body.
const REQUEST_OVERHEAD_BYTES: usize = 512;

/// A connection of the current shard.
pub struct Connection {
    pub(crate) shared: Rc<Shared>,
    /// USE and the like.
    pub(crate) session: Session,
    stream: Stream,
    version: Cell<Version>,
    framed: Cell<bool>,
    segments: RefCell<SegmentWriter>,
    compression: Cell<Option<Compression>>,
    throw_on_overload: Cell<bool>,
    in_flight: Semaphore,
    /// The options of its STARTUP; `None` before.
    options: RefCell<Option<BTreeMap<String, String>>>,
    /// Requests begun.
    requests: Cell<u64>,
}

/// The connection is to be closed.
struct Close;

/// What a request under way holds; given back when it is dropped.
struct Admission {
    _pass: Pass,
    _place: Permit,
    _bytes: Permit,
}

/// Whether an envelope asks for work that is admitted; kept apart so that its path is short.
fn is_statement(envelope: &Envelope) -> bool {
    matches!(envelope.header.opcode, Opcode::Query | Opcode::Prepare | Opcode::Execute | Opcode::Batch)
}

impl Connection {
    pub(crate) fn new(shared: Rc<Shared>, stream: Stream) -> Connection {
        Connection {
            shared,
            session: Session::default(),
            stream,
            version: Cell::new(LOWEST_VERSION),
            framed: Cell::new(false),
            segments: RefCell::default(),
            compression: Cell::new(None),
            throw_on_overload: Cell::new(false),
            in_flight: Semaphore::new(REQUESTS_IN_FLIGHT_MAX),
            options: RefCell::default(),
            requests: Cell::new(0),
        }
    }

    /// Requests so far.
    pub(crate) fn request_count(&self) -> u64 {
        self.requests.get()
    }

    /// Requests under way.
    pub(crate) fn active_requests(&self) -> u64 {
        REQUESTS_IN_FLIGHT_MAX - self.in_flight.free()
    }

    /// What `system_views.clients` shows of it.
    pub(crate) fn observe(&self) -> Client {
        let peer = self.stream.peer();
        let options = self.options.borrow();
        Client {
            address: peer.ip(),
            port: peer.port(),
            options: options.clone().unwrap_or_default(),
            ready: options.is_some(),
            protocol_version: self.version.get() as u8,
            keyspace: self.session.keyspace.borrow().as_deref().map(str::to_owned),
            requests: self.requests.get(),
            tls: false,
        }
    }

    /// Serves until either side closes.
    pub(crate) async fn serve(self: &Rc<Self>) {
        let mut decoder = Decoder::server(LOWEST_VERSION);
        let ready = match runtime::timeout(HANDSHAKE_MAX, self.handshake(&mut decoder)).await {
            Some(ready) => ready,
            None => {
                tracing::debug!(peer = %self.stream.peer(), "handshake took too long");
                self.shared.metrics.evictions.increment();
                return;
            }
        };
        if ready.is_ok() {
            let Close = self.requests(&mut decoder).await;
        }
        // Answers of requests under way have nowhere to go any more; what is queued is handed to the system.
        let _ = runtime::timeout(OUTPUT_STALL_MAX, self.stream.drained_to(0)).await;
        self.stream.shutdown();
    }

    /// The next message, received if need be.
    async fn next_event(&self, decoder: &mut Decoder) -> Result<Event, Close> {
        loop {
            if let Some(event) = decoder.next_event() {
                return Ok(event);
            }
            match self.stream.recv().await {
                Ok(Some(bytes)) => decoder.feed(&bytes),
                Ok(None) | Err(_) => return Err(Close),
            }
        }
    }

    async fn handshake(&self, decoder: &mut Decoder) -> Result<(), Close> {
        loop {
            let envelope = match self.next_event(decoder).await? {
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
                self.send(|out| response::error(out, to, &[], &Failure::protocol(text)));
                return Err(Close);
            }
            match dispatch::decode(self, &envelope) {
                Ok(Request::Startup(options)) => match Startup::check(version, &options) {
                    Ok(startup) => {
                        let owned = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
                        *self.options.borrow_mut() = Some(owned.collect());
                        self.agree(version, &startup, decoder, to);
                        return Ok(());
                    }
                    Err(failure) => self.send(|out| response::error(out, to, &[], &failure)),
                },
                Ok(_) => self.send(|out| handshake::supported(&self.shared, out, to)),
                Err(failure) => {
                    self.send(|out| response::error(out, to, &[], &failure));
                    return Err(Close);
                }
            }
        }
    }

    /// Answers a STARTUP and goes on in the form that it asked for. READY is compressed in versions 3 and 4, and still
    /// without a segment in version 5.
    fn agree(&self, version: Version, startup: &Startup, decoder: &mut Decoder, to: To) {
        self.compression.set(startup.compression);
        let framed = version >= Version::V5;
        let plain = framed || startup.compression.is_none();
        if plain {
            self.stream.write(|out| response::ready(out, to));
        } else {
            self.send(|out| response::ready(out, to));
        }
        self.version.set(version);
        self.framed.set(framed);
        self.throw_on_overload.set(startup.throw_on_overload);
        decoder.agree(version);
        if framed && startup.compression.is_some() {
            decoder.agree_compressed_segments();
            *self.segments.borrow_mut() = SegmentWriter::compressed();
        }
    }

    async fn requests(self: &Rc<Self>, decoder: &mut Decoder) -> Close {
        loop {
            let (event, early) = match decoder.next_event() {
                Some(event) => (Ok(event), None),
                None if decoder.awaited() > EARLY_ADMISSION_BYTES => self.large_event(decoder).await,
                None => match self.stream.recv().await {
                    Ok(Some(bytes)) => {
                        decoder.feed(&bytes);
                        continue;
                    }
                    Ok(None) | Err(_) => return Close,
                },
            };
            let handled = match event {
                Ok(Event::Envelope(envelope)) if is_statement(&envelope) => self.begin(envelope, early).await,
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

    /// Receives a message of which much is still to come, once there is memory for it.
    async fn large_event(&self, decoder: &mut Decoder) -> (Result<Event, Close>, Option<Permit>) {
        let bytes = decoder.awaited() + decoder.buffered() + REQUEST_OVERHEAD_BYTES;
        let permit = self.admit(&self.shared.large_request_bytes, bytes).await;
        match runtime::timeout(LARGE_BODY_MAX, self.next_event(decoder)).await {
            Some(event) => (event, Some(permit)),
            None => {
                self.evict("a large request takes too long to arrive");
                (Err(Close), None)
            }
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Result<(), Close> {
        self.shared.metrics.errors.increment();
        self.send(|out| response::refusal(out, refusal.header, &refusal.failure));
        if refusal.close {
            tracing::debug!(peer = %self.stream.peer(), failure = %refusal.failure, "closing");
            self.shared.metrics.evictions.increment();
            return Err(Close);
        }
        Ok(())
    }

    /// Answers what is no statement.
    async fn handle(self: &Rc<Self>, mut envelope: Envelope) -> Result<(), Close> {
        let to = To::new(envelope.header.version, envelope.header.stream);
        match envelope.header.opcode {
            Opcode::Options => self.send(|out| handshake::supported(&self.shared, out, to)),
            // Nobody has to log in: any token will do, as on Cassandra.
            Opcode::AuthResponse => self.send(|out| response::auth_success(out, to)),
            Opcode::Startup => {
                let text = "Unexpected message STARTUP, the connection is already initialized";
                self.send(|out| response::error(out, to, &[], &Failure::protocol(text)));
            }
            _ => match envelope.open(self.compression.get(), UNREADY_BYTES_MAX) {
                Ok(()) => self.register(&envelope, to),
                Err(failure) => self.send(|out| response::error(out, to, &[], &failure)),
            },
        }
        self.make_room(OUTPUT_PAUSE_BYTES).await
    }

    fn register(self: &Rc<Self>, envelope: &Envelope, to: To) {
        match dispatch::decode(self, envelope) {
            Ok(Request::Register(types)) => {
                if types.contains(&EventType::SchemaChange) {
                    self.shared.events.register(self);
                }
                self.send(|out| response::ready(out, to));
            }
            Ok(_) => self.send(|out| response::error(out, to, &[], &Failure::protocol("Unsupported message"))),
            Err(failure) => self.send(|out| response::error(out, to, &[], &failure)),
        }
    }

    /// Admits a request and begins it: polled once here, and as a task of its own if it has to wait.
    async fn begin(self: &Rc<Self>, mut envelope: Envelope, early: Option<Permit>) -> Result<(), Close> {
        self.make_room(OUTPUT_PAUSE_BYTES).await?;
        let to = To::new(envelope.header.version, envelope.header.stream);
        let plain = match envelope.compression(self.compression.get()) {
            None => 0,
            // What it will take is admitted before it is opened; a length beyond the limit is refused by opening it.
            Some(compression) => compression.plain_len(&envelope.body).unwrap_or_default().min(PLAIN_BYTES_MAX),
        };
        let bytes = envelope.body.len() + plain + REQUEST_OVERHEAD_BYTES;
        let admitted = match early {
            Some(permit) if plain == 0 => Some(permit),
            // What was admitted was the compressed body: ask again, holding nothing meanwhile.
            Some(permit) => {
                drop(permit);
                Some(self.admit(&self.shared.large_request_bytes, bytes).await)
            }
            None if self.throw_on_overload.get() => self.shared.request_bytes.try_acquire(bytes as u64),
            None => Some(self.admit(&self.shared.request_bytes, bytes).await),
        };
        let place = match self.in_flight.try_acquire(1) {
            Some(place) => Some(place),
            None if self.throw_on_overload.get() => None,
            None => Some(self.paused(self.in_flight.acquire(1)).await),
        };
        let (Some(permit), Some(place)) = (admitted, place) else {
            let failure = Failure::overloaded("Too many requests are under way");
            self.shared.metrics.errors.increment();
            self.send(|out| response::error(out, to, &[], &failure));
            return Ok(());
        };
        let Some(pass) = self.shared.gate.enter() else { return Err(Close) };
        self.requests.set(self.requests.get() + 1);
        let admission = Admission { _pass: pass, _place: place, _bytes: permit };
        if let Err(failure) = envelope.open(self.compression.get(), PLAIN_BYTES_MAX) {
            self.shared.metrics.errors.increment();
            self.send(|out| response::error(out, to, &[], &failure));
            return Ok(());
        }

        let connection = self.clone();
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

    /// Takes `bytes` of the shard's request memory, waiting without receiving until they are free.
    async fn admit(&self, memory: &Semaphore, bytes: usize) -> Permit {
        let bytes = (bytes as u64).min(self.shared.request_bytes_max);
        match memory.try_acquire(bytes) {
            Some(permit) => permit,
            None => self.paused(memory.acquire(bytes)).await,
        }
    }

    /// Waits with reception stopped, so that the client's window fills.
    async fn paused<T>(&self, waiting: impl Future<Output = T>) -> T {
        self.stream.pause();
        let value = waiting.await;
        self.stream.resume();
        value
    }

    /// Waits until at most `bytes` of output are queued; closes a client that does not read.
    async fn make_room(&self, bytes: usize) -> Result<(), Close> {
        if self.stream.queued() <= bytes {
            return Ok(());
        }
        match self.paused(runtime::timeout(OUTPUT_STALL_MAX, self.stream.drained_to(bytes))).await {
            Some(Ok(())) => Ok(()),
            _ => {
                self.evict("it does not read its answers");
                Err(Close)
            }
        }
    }

    /// Before an answer is queued: waits while the queue is full.
    pub(crate) async fn wait_for_room(&self) {
        if self.stream.queued() > OUTPUT_BYTES_MAX {
            let drained = runtime::timeout(OUTPUT_STALL_MAX, self.stream.drained_to(OUTPUT_BYTES_MAX)).await;
            if drained.is_none() {
                self.evict("it does not read its answers");
            }
        }
    }

    fn evict(&self, why: &str) {
        tracing::debug!(peer = %self.stream.peer(), why, "closing");
        self.shared.metrics.evictions.increment();
        self.stream.shutdown();
    }

    /// Queues one envelope, in version 5 within a segment, before it compressed as agreed.
    pub(crate) fn send(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.stream.write(|out| {
            if self.framed.get() {
                self.segments.borrow_mut().write(out, encode);
                return;
            }
            let start = out.len();
            encode(out);
            if let Some(compression) = self.compression.get() {
                compression.seal(out, start);
            }
        });
    }

    /// Queues an event; a client that does not read is closed instead.
    pub(crate) fn send_event(&self, encode: impl FnOnce(&mut Vec<u8>, Version)) {
        if self.stream.queued() > OUTPUT_BYTES_MAX {
            self.evict("it does not read its events");
            return;
        }
        self.send(|out| encode(out, self.version.get()));
    }

    /// The client's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.stream.peer()
    }

    /// Waits until everything queued is with the system, as long as the client reads.
    pub(crate) async fn flush(&self) {
        let _ = runtime::timeout(OUTPUT_STALL_MAX, self.stream.drained_to(0)).await;
    }

    /// Ends the connection at once.
    pub(crate) fn shutdown(&self) {
        self.stream.shutdown();
    }
}
