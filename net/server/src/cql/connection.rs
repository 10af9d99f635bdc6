//! One connection of a client: its session, its output, and what virtual tables show about it.
//!
//! Answers and events are encoded straight into the stream's send queue: compressed if STARTUP has agreed on that, and
//! in version 5 into a segment that the answers of one turn share.
//!
//! Invariants: queued output is bounded, for all connections together in `output_memory`; a client that leaves output
//! queued for [`OUTPUT_STALL_MAX`] is closed.
//!
//! Receiving is in `receiver`, executing requests in `dispatch`.

use crate::cql::context::Context;
use crate::cql::handshake::LOWEST_VERSION;
use crate::cql::output_memory::NotedOutput;
use crate::cql::request_memory::Share;
use crate::query_log::Asker;
use runtime::gate::Semaphore;
use shard::{Client, Session};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::{Secured, Stream};
use wire::Version;
use wire::compression::Compression;
use wire::response::{self, To};
use wire::segment::SegmentWriter;
use wire::startup::Startup;

/// Most requests of one connection that are under way at the same time.
pub const REQUESTS_IN_FLIGHT_MAX: u64 = 2048;
/// Bytes of queued output above which no further request of the connection begins.
pub const OUTPUT_PAUSE_BYTES: usize = 1 << 20;
/// Bytes of queued output above which answers wait, and an event closes the connection.
pub const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// A connection whose output stays queued for this long, because the client does not read, is closed.
pub const OUTPUT_STALL_MAX: Duration = Duration::from_secs(10);

/// The name of clients that need not log in.
const ANONYMOUS: &str = "anonymous";
/// The package of Cassandra's authenticators.
const PACKAGE: &str = "org.apache.cassandra.auth";

/// A connection of the current shard.
pub struct Connection {
    pub(crate) context: Rc<Context>,
    /// The client's session: the keyspace that USE has set.
    pub(crate) session: Session,
    pub(crate) stream: Stream,
    /// The encryption that was agreed on, with the certificates that the client has shown; `None` without encryption.
    pub(crate) secured: Option<Secured>,
    /// A permit for each request under way.
    pub(crate) in_flight: Semaphore,
    /// The part of the client's address of the memory for requests, if that is limited.
    pub(crate) address_share: Option<Share>,
    version: Cell<Version>,
    /// Whether output is sent in segments (version 5 after STARTUP).
    segmented: Cell<bool>,
    segments: RefCell<SegmentWriter>,
    compression: Cell<Option<Compression>>,
    throw_on_overload: Cell<bool>,
    knows_rate_limits: Cell<bool>,
    /// The options of STARTUP; `None` before it.
    options: RefCell<Option<BTreeMap<String, String>>>,
    /// What the core's memory for output has noted of it.
    pub(crate) noted_output: Cell<NotedOutput>,
    /// How many requests have begun.
    requests: Cell<u64>,
    /// How many other messages have been answered.
    other_messages: Cell<u64>,
}

/// Says that the connection has to be closed.
pub(crate) struct Close;

impl Connection {
    pub(crate) fn new(context: Rc<Context>, stream: Stream) -> Connection {
        let address_share = context.request_memory.opened(stream.peer().ip());
        let throws_on_overload = context.config.client_limits.throws_on_overload;
        Connection {
            context,
            address_share,
            session: Session::default(),
            secured: stream.secured(),
            stream,
            in_flight: Semaphore::new(REQUESTS_IN_FLIGHT_MAX),
            version: Cell::new(LOWEST_VERSION),
            segmented: Cell::new(false),
            segments: RefCell::default(),
            compression: Cell::new(None),
            throw_on_overload: Cell::new(throws_on_overload),
            knows_rate_limits: Cell::new(false),
            options: RefCell::default(),
            noted_output: Cell::default(),
            requests: Cell::new(0),
            other_messages: Cell::new(0),
        }
    }

    /// How many requests have begun.
    pub(crate) fn request_count(&self) -> u64 {
        self.requests.get()
    }

    /// Counts a request that begins.
    pub(crate) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// Counts a message that is not a request of the shard.
    pub(crate) fn count_message(&self) {
        self.other_messages.set(self.other_messages.get() + 1);
    }

    /// How many requests are under way.
    pub(crate) fn active_requests(&self) -> u64 {
        REQUESTS_IN_FLIGHT_MAX - self.in_flight.free()
    }

    /// The client's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.stream.peer()
    }

    /// The client, as logs name it.
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker {
            shard: &self.context.shard,
            session: &self.session,
            source: self.peer(),
            version: self.version.get().number(),
        }
    }

    /// The compression of bodies that STARTUP has agreed on.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression.get()
    }

    /// Whether the client wants OVERLOADED as the answer instead of waiting.
    pub(crate) fn throws_on_overload(&self) -> bool {
        self.throw_on_overload.get()
    }

    /// Whether the client knows ScyllaDB's error for rate limits.
    pub(crate) fn knows_rate_limits(&self) -> bool {
        self.knows_rate_limits.get()
    }

    /// Whether the client must log in and has not.
    pub(crate) fn awaits_login(&self) -> bool {
        self.context.config.node.access.requires_login() && self.session.user.borrow().is_none()
    }

    /// The connection as `system_views.clients` shows it; `None` before STARTUP.
    pub(crate) fn observe(&self) -> Option<Client> {
        let peer = self.stream.peer();
        let options = self.options.borrow().clone()?;
        let user = self.session.user.borrow().as_ref().map(|user| user.name.to_string());
        let ready = !self.awaits_login();
        Some(Client {
            address: peer.ip(),
            port: peer.port(),
            options,
            ready,
            user: user.or_else(|| ready.then(|| ANONYMOUS.to_owned())),
            protocol_version: self.version.get() as u8,
            keyspace: self.session.keyspace.borrow().as_deref().map(str::to_owned),
            requests: self.requests.get() + self.other_messages.get(),
            encryption: self.secured.as_ref().map(|secured| (secured.protocol, secured.cipher_suite.clone())),
        })
    }

    /// Answers STARTUP with READY, or with AUTHENTICATE if the client must log in. Later output has the form that the
    /// client asked for; this answer is compressed in versions 3 and 4, and is not in a segment in version 5.
    pub(crate) fn agree(&self, startup: &Startup, options: BTreeMap<String, String>, to: To) {
        *self.options.borrow_mut() = Some(options);
        self.compression.set(startup.compression);
        let segmented = to.version >= Version::V5;
        let authenticator = self.context.config.node.access.authenticator;
        let answer = |out: &mut Vec<u8>| match self.awaits_login() {
            false => response::ready(out, to),
            true => response::authenticate(out, to, &format!("{PACKAGE}.{}", authenticator.class())),
        };
        if segmented || startup.compression.is_none() {
            self.stream.write(answer);
        } else {
            self.send(answer);
        }
        self.version.set(to.version);
        self.segmented.set(segmented);
        if let Some(throws) = startup.throw_on_overload {
            self.throw_on_overload.set(throws);
        }
        self.knows_rate_limits.set(startup.knows_rate_limits);
        self.session.knows_tablets.set(startup.knows_tablets);
        self.count_message();
        if segmented && startup.compression.is_some() {
            *self.segments.borrow_mut() = SegmentWriter::compressed();
        }
    }

    /// Awaits `waiting` and receives nothing meanwhile, so that TCP slows the client down.
    pub(crate) async fn paused<T>(&self, waiting: impl Future<Output = T>) -> T {
        self.stream.pause();
        let value = waiting.await;
        self.stream.resume();
        value
    }

    /// Waits until at most `bytes` of output are queued; whether there were no more at once. Closes the connection if
    /// the client does not read.
    pub(crate) async fn make_room(&self, bytes: usize) -> Result<bool, Close> {
        if self.stream.queued() <= bytes {
            return Ok(true);
        }
        match self.paused(runtime::timeout(OUTPUT_STALL_MAX, self.stream.drained_to(bytes))).await {
            Some(Ok(())) => Ok(false),
            _ => {
                self.evict("it does not read its answers");
                Err(Close)
            }
        }
    }

    /// Waits until an answer may be queued. Closes the connection if the client does not read.
    pub(crate) async fn wait_for_room(&self) {
        if self.stream.queued() > OUTPUT_BYTES_MAX {
            let drained = runtime::timeout(OUTPUT_STALL_MAX, self.stream.drained_to(OUTPUT_BYTES_MAX)).await;
            if drained.is_none() {
                self.evict("it does not read its answers");
            }
        }
    }

    /// Closes the connection because of something that the client did; the log says what.
    pub(crate) fn evict(&self, why: &str) {
        tracing::debug!(peer = %self.stream.peer(), why, "closing");
        self.context.metrics.evictions.increment();
        self.stream.shutdown();
    }

    /// Queues the one envelope that `encode` appends, in the form that STARTUP has agreed on.
    pub(crate) fn send(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.stream.write(|out| {
            if self.segmented.get() {
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

    /// Queues an event, or closes the connection if the client does not read.
    pub(crate) fn send_event(&self, encode: impl FnOnce(&mut Vec<u8>, Version)) {
        if self.stream.queued() > OUTPUT_BYTES_MAX {
            self.evict("it does not read its events");
            return;
        }
        self.send(|out| encode(out, self.version.get()));
    }

    /// Waits until the system has taken all queued output, as long as the client reads. Nothing is sent afterwards.
    pub(crate) async fn flush(&self) {
        self.stream.finish();
        let _ = runtime::timeout(OUTPUT_STALL_MAX, self.stream.drained_to(0)).await;
    }

    /// Closes the connection at once.
    pub(crate) fn shutdown(&self) {
        self.stream.shutdown();
    }
}
