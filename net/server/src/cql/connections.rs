//! The connections of a shard: accepting them, choosing a shard for each, serving and draining them.
//!
//! 1. Shard 0 accepts. On a plain port a connection goes to the shard with the fewest; on a shard-aware port to
//!    shard `source port % shards`, as ScyllaDB's drivers expect.
//! 2. The accepted socket moves to its shard as a [`Control`] message and is attached to that shard's ring.
//! 3. If the port is encrypted, the shard makes the handshake of TLS before anything else is read. Accepting, all of a
//!    handshake, login included, and the end of a connection run in [`HANDSHAKE_CLASS`].
//! 4. A drain lets no further request begin, waits for those under way and closes every connection.
//!
//! Invariants: connections are bounded in all and per client address; a drain answers every request that was begun,
//! unless that takes longer than [`DRAIN_MAX`].

use crate::client_ports::PortKind;
use crate::config::Encryption;
use crate::control::{Control, ControlPort};
use crate::cql::balance::{Balance, ConnectionLimit};
use crate::cql::connection::Connection;
use crate::cql::context::Context;
use crate::cql::receiver::{self, HANDSHAKE_CLASS, HANDSHAKE_MAX};
use crate::cql::registry::ConnectionRegistry;
use runtime::gate::Gate;
use runtime::sync::{Either, Latch, race};
use runtime::{Accepted, Instant, Listener, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task;
use std::task::Poll;
use std::time::Duration;
use tls::Stream;
use wire::decoder::Decoder;

/// How long a drain waits for requests under way and for their answers to be sent.
pub const DRAIN_MAX: Duration = Duration::from_secs(15);
/// After this time the log says again that connections are refused.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// Pause after a failed accept, for instance when file descriptors have run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The connections of the current shard; on shard 0 also the distribution of all of them.
pub(crate) struct Connections {
    pub(crate) context: Rc<Context>,
    registry: Rc<ConnectionRegistry>,
    control: Rc<ControlPort>,
    open: RefCell<BTreeMap<u64, Rc<Connection>>>,
    next_id: Cell<u64>,
    /// Set once no further connection is accepted or served.
    closing: RefCell<Latch>,
    /// Used on shard 0.
    balance: RefCell<Balance>,
    /// When the log last said that connections are refused.
    told_of_refusal: Cell<Option<Instant>>,
}

impl Connections {
    pub(crate) fn new(
        context: Rc<Context>,
        registry: Rc<ConnectionRegistry>,
        control: Rc<ControlPort>,
    ) -> Rc<Connections> {
        Rc::new(Connections {
            context,
            registry,
            control,
            open: RefCell::default(),
            next_id: Cell::new(0),
            closing: RefCell::default(),
            balance: RefCell::new(Balance::new(runtime::shard_count())),
            told_of_refusal: Cell::new(None),
        })
    }

    /// Shard 0: accepts connections until [`Connections::close`].
    pub(crate) async fn accept(self: Rc<Self>, listener: Listener, port: PortKind) {
        let closing = self.closing.borrow().clone();
        loop {
            match race(closing.wait(), listener.accept()).await {
                Either::Left(()) => return,
                Either::Right(Ok(accepted)) => {
                    self.place(accepted, port).await;
                    runtime::yield_if_needed().await;
                }
                Either::Right(Err(error)) => {
                    tracing::warn!(%error, "accept failed");
                    if let Either::Left(()) = race(closing.wait(), runtime::sleep(ACCEPT_RETRY)).await {
                        return;
                    }
                }
            }
        }
    }

    /// Shard 0: counts a connection and gives it to its shard, or closes it if there are too many.
    async fn place(self: &Rc<Self>, accepted: Accepted, port: PortKind) {
        let context = &self.context;
        let peer = accepted.peer();
        let shard = {
            let mut balance = self.balance.borrow_mut();
            if let Some(limit) = balance.breached(&context.config, peer.ip()) {
                drop(balance);
                context.metrics.evictions.increment();
                self.tell_of_refusal(limit);
                return;
            }
            let shard = match port.is_shard_aware {
                false => balance.least_loaded(),
                true => peer.port() as usize % runtime::shard_count(),
            };
            balance.opened(shard, peer.ip());
            shard
        };
        if shard == 0 {
            self.open(accepted, port);
        } else {
            let message = Control::Connection(accepted, port, context.shard_aware_ports.get());
            self.control.send(ShardId(shard as u16), message).await;
        }
    }

    /// Shard 0: logs that connections are refused, from time to time.
    fn tell_of_refusal(&self, limit: ConnectionLimit) {
        let now = runtime::now();
        if self.told_of_refusal.get().is_none_or(|told| now.since(told) >= TOLD_AGAIN) {
            self.told_of_refusal.set(Some(now));
            tracing::warn!("{limit}");
        }
    }

    /// Makes a connection on the current shard and serves it, in tasks of its own: one in [`HANDSHAKE_CLASS`] until the
    /// handshake is done, then one for its requests, and one in that class again to end it.
    pub(crate) fn open(self: &Rc<Self>, accepted: Accepted, port: PortKind) {
        let connections = self.clone();
        runtime::spawn_in(HANDSHAKE_CLASS, async move {
            let address = accepted.peer().ip();
            let made = connections.make(accepted, port).await;
            let Some((registration, decoder)) = made else { return connections.tell_closed(address).await };
            runtime::spawn(async move {
                let Registration { connections, connection, .. } = &registration;
                let served = receiver::serve(connection, &connections.registry, decoder);
                ServedConnection(Box::pin(served)).await;
                runtime::spawn_in(HANDSHAKE_CLASS, async move {
                    receiver::end(&registration.connection).await;
                    let connections = registration.connections.clone();
                    drop(registration);
                    connections.tell_closed(address).await;
                });
            });
        });
    }

    /// Makes the handshakes; `None` if one of them has failed or the node drains.
    async fn make(self: &Rc<Self>, accepted: Accepted, port: PortKind) -> Option<(Registration, Decoder)> {
        if self.closing.borrow().is_set() {
            return None;
        }
        let socket = match accepted.attach() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(%error, "a connection could not be attached");
                return None;
            }
        };
        let stream = self.secure(socket, port.encryption).await?;
        let registration = self.register(stream);
        let decoder = receiver::shake_hands(&registration.connection, &self.registry).await?;
        Some((registration, decoder))
    }

    /// Lets shard 0 know that a connection of this shard has closed.
    async fn tell_closed(&self, address: IpAddr) {
        if runtime::current_shard() == ShardId(0) {
            self.closed(ShardId(0), address);
        } else {
            self.control.send(ShardId(0), Control::Closed(address)).await;
        }
    }

    /// Shard 0: a connection that `shard` served has closed.
    pub(crate) fn closed(&self, shard: ShardId, address: IpAddr) {
        self.balance.borrow_mut().closed(shard.0 as usize, address);
    }

    /// Makes the handshake of TLS if there is to be one; `None` if it has failed or the node drains.
    async fn secure(&self, socket: runtime::Stream, encryption: Encryption) -> Option<Stream> {
        if encryption == Encryption::Off {
            return Some(socket.into());
        }
        let context = &self.context;
        let keys = context.keys.borrow().clients.clone();
        let source = socket.peer().ip();
        let accepting = Stream::accept_by(encryption, socket, keys.as_ref());
        let secured = context.metrics.handshakes.run(source, HANDSHAKE_MAX, accepting).await;
        if secured.is_err() {
            context.metrics.evictions.increment();
        }
        secured.ok().filter(|_| !self.closing.borrow().is_set())
    }

    fn register(self: &Rc<Self>, stream: Stream) -> Registration {
        self.context.metrics.connections.increment();
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let connection = Rc::new(Connection::new(self.context.clone(), stream));
        self.open.borrow_mut().insert(id, connection.clone());
        self.registry.add(&connection);
        Registration { connections: self.clone(), id, connection }
    }

    /// Accepts and serves no further connections.
    pub(crate) fn close(&self) {
        self.closing.borrow().set();
        self.context.metrics.handshakes.close();
    }

    /// Lets no further request begin, waits for those under way unless `by_force`, sends what is queued and closes
    /// every connection.
    pub(crate) async fn drain(&self, by_force: bool) {
        let gate = self.context.gate.borrow().clone();
        gate.shut();
        if !by_force {
            let finished = runtime::timeout(DRAIN_MAX, async {
                gate.close().await;
                for connection in self.all() {
                    connection.flush().await;
                }
            });
            if finished.await.is_none() {
                tracing::warn!("Some connections took longer than the native transport timeout to complete");
            }
        }
        self.all().iter().for_each(|connection| connection.shutdown());
    }

    /// Serves connections again after [`Connections::drain`].
    pub(crate) fn reopen(&self) {
        self.closing.replace(Latch::default());
        self.context.gate.replace(Gate::new());
    }

    fn all(&self) -> Vec<Rc<Connection>> {
        self.open.borrow().values().cloned().collect()
    }
}

/// Serves a connection through one function that is never inlined, so that profilers show under its name what is done
/// for connections.
struct ServedConnection<F>(Pin<Box<F>>);

impl<F: Future> Future for ServedConnection<F> {
    type Output = F::Output;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<F::Output> {
        // Keeps the compiler from merging this function with another one of the same instructions.
        std::hint::black_box(());
        self.0.as_mut().poll(context)
    }
}

/// Makes the shard forget a connection when dropped, even if its task is dropped while it serves. The connection and
/// its task hold each other.
struct Registration {
    connections: Rc<Connections>,
    id: u64,
    connection: Rc<Connection>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.open.borrow_mut().remove(&self.id);
        self.connections.registry.forget(&self.connection);
        self.connections.context.request_memory.closed(self.connection.peer().ip());
    }
}
