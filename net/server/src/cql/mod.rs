//! The CQL ports: accepting, choosing a shard, draining.
//!
//! Shard 0 accepts. On the plain port a connection goes to the shard with the fewest; on the shard-aware port to shard
//! `source port % shards`, as ScyllaDB's drivers expect. The accepted socket moves there as a [`Control`] message and
//! is attached to that shard's ring.
//!
//! Invariants: connections are bounded in all and per client address; a drain answers every request that was begun.

pub mod connection;
pub mod dispatch;
pub mod events;
pub mod handshake;

use crate::admin::Admin;
use crate::config::Config;
use crate::data_dir::Refused;
use crate::disk_policy::{self, Consequence};
use crate::http;
use crate::metrics::Metrics;
use crate::{ControlPort, Exit, Ready};
use connection::Connection;
use events::Events;
use runtime::gate::{Gate, Semaphore};
use runtime::sync::{Either, Latch, race};
use runtime::{Accepted, JoinHandle, Listener, ShardId};
use shard::Shard;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a stop waits for requests under way and for their answers to leave.
pub const DRAIN_MAX: Duration = Duration::from_secs(15);
/// Wait before accepting again after an accept failed, for instance for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Part of a shard's memory that requests under way may hold.
const REQUEST_MEMORY_PART: usize = 10;
/// The same in bytes at least, so that a request of the largest size always fits its half.
const REQUEST_MEMORY_MIN: usize = 4 * wire::decoder::ENVELOPE_BYTES_MAX;

/// What shards of a node tell each other about connections, start and stop.
pub enum Control {
    /// Shard 0: the data directory is ours.
    Begin,
    /// The node cannot go on.
    Abort(Exit),
    /// To shard 0: a disk failed, and a policy wants this.
    Failed(Consequence),
    /// Shard 0: serve this connection; the port is the shard-aware one.
    Connection(Accepted, u16),
    /// To shard 0: a connection of this client has closed.
    Closed(IpAddr),
    /// Shard 0: finish what is under way.
    Drain,
    /// To shard 0: finished.
    Drained,
    /// Shard 0: all have finished.
    Stop,
}

/// What all connections of a shard share.
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    pub(crate) shard: Shard,
    pub(crate) events: Rc<Events>,
    pub(crate) metrics: Rc<Metrics>,
    /// Requests under way.
    pub(crate) gate: Gate,
    /// Bytes of requests under way, as far as they came in one piece.
    pub(crate) request_bytes: Semaphore,
    /// Bytes of large requests, from before their body has arrived: a client that sends slowly holds up only these.
    pub(crate) large_request_bytes: Semaphore,
    /// Each of the two in all.
    pub(crate) request_bytes_max: u64,
    pub(crate) shard_aware_port: Cell<u16>,
    pub(crate) simulated: bool,
    control: Rc<ControlPort>,
    connections: RefCell<BTreeMap<u64, Rc<Connection>>>,
    next_connection: Cell<u64>,
    /// Set when no connection is taken any more.
    closing: Latch,
    balance: RefCell<Balance>,
}

/// Shard 0's count of connections.
#[derive(Default, Debug)]
struct Balance {
    by_shard: Vec<usize>,
    by_address: BTreeMap<IpAddr, usize>,
}

impl Balance {
    fn total(&self) -> usize {
        self.by_shard.iter().sum()
    }

    fn least_loaded(&self) -> usize {
        let least = self.by_shard.iter().enumerate().min_by_key(|(_, connections)| **connections);
        least.map_or(0, |(shard, _)| shard)
    }

    fn opened(&mut self, shard: usize, address: IpAddr) {
        if let Some(connections) = self.by_shard.get_mut(shard) {
            *connections += 1;
        }
        *self.by_address.entry(address).or_default() += 1;
    }

    fn closed(&mut self, shard: usize, address: IpAddr) {
        if let Some(connections) = self.by_shard.get_mut(shard) {
            *connections = connections.saturating_sub(1);
        }
        if let Some(connections) = self.by_address.get_mut(&address) {
            *connections -= 1;
            if *connections == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Whether one more connection from `address` is within the limits.
    fn admits(&self, config: &Config, address: IpAddr) -> bool {
        let from_there = self.by_address.get(&address).copied().unwrap_or_default();
        self.total() < config.connections_max && from_there < config.connections_per_ip_max
    }
}

/// How a port chooses the shard.
#[derive(Clone, Copy)]
enum Port {
    Plain,
    ShardAware,
}

/// One shard's part in serving CQL.
pub(crate) struct Service {
    shared: Rc<Shared>,
}

impl Service {
    pub(crate) fn new(
        config: Arc<Config>,
        shard: Shard,
        events: Rc<Events>,
        control: Rc<ControlPort>,
        simulated: bool,
    ) -> Service {
        let shards = runtime::shard_count();
        let request_memory = (config.memory_bytes / shards / REQUEST_MEMORY_PART).max(REQUEST_MEMORY_MIN);
        let request_bytes_max = request_memory as u64 / 2;
        let shared = Shared {
            shard_aware_port: Cell::new(config.shard_aware_port),
            config,
            shard,
            metrics: events.metrics.clone(),
            events,
            gate: Gate::new(),
            request_bytes: Semaphore::new(request_bytes_max),
            large_request_bytes: Semaphore::new(request_bytes_max),
            request_bytes_max,
            simulated,
            control,
            connections: RefCell::default(),
            next_connection: Cell::new(0),
            closing: Latch::default(),
            balance: RefCell::new(Balance { by_shard: vec![0; shards], by_address: BTreeMap::new() }),
        };
        Service { shared: Rc::new(shared) }
    }

    /// Shard 0: serves until the node is asked to stop and all shards have drained.
    pub(crate) async fn lead(&self, ready: impl FnOnce(&Ready)) -> Result<(), Refused> {
        let shared = &self.shared;
        let me = ShardId(0);
        let plain = self.bind(shared.config.native_port).await?;
        let aware = self.bind(shared.config.shard_aware_port).await?;
        shared.shard_aware_port.set(aware.local_address().port());
        ready(&Ready {
            address: plain.local_address(),
            shard_aware: aware.local_address(),
            shards: runtime::shard_count(),
        });
        let accepting = [
            runtime::spawn(shared.clone().accept(plain, Port::Plain)),
            runtime::spawn(shared.clone().accept(aware, Port::ShardAware)),
        ];

        let admin = Admin::new(shared.config.clone(), shared.shard.clone(), shared.simulated);
        let stopping = Latch::default();
        let listener = admin.listen().await;
        let commands = listener.map(|listener| runtime::spawn(admin.clone().serve(listener, stopping.clone())));
        let listener = http::listen(&admin).await;
        let watched = listener.map(|listener| runtime::spawn(http::serve(admin.clone(), listener, stopping.clone())));
        let mut terminated = pin!(runtime::signal::terminated());
        let mut drain = pin!(admin.drain.wait());
        let mut accepting = Some(accepting);
        loop {
            let asked = async {
                match accepting {
                    Some(_) => drain.as_mut().await,
                    None => std::future::pending().await,
                }
            };
            let told = race(shared.control.recv(), shared.shard.next_fault());
            let consequence = match race(race(terminated.as_mut(), asked), told).await {
                Either::Left(Either::Left(())) => break,
                Either::Left(Either::Right(())) => {
                    self.drain_all(accepting.take()).await;
                    admin.drained.set();
                    continue;
                }
                Either::Right(Either::Left((shard, Control::Closed(address)))) => {
                    shared.balance.borrow_mut().closed(shard.0 as usize, address);
                    continue;
                }
                Either::Right(Either::Left((_, Control::Failed(consequence)))) => consequence,
                Either::Right(Either::Left(_)) => continue,
                Either::Right(Either::Right(fault)) => disk_policy::decide(&shared.config, &fault),
            };
            match consequence {
                Consequence::Errors => {}
                Consequence::StopServing => admin.drain.set(),
                Consequence::Die => {
                    return Err(Refused { text: "the disk failed".into(), exit: Exit::DiskFailed });
                }
            }
        }
        stopping.set();
        for task in commands.into_iter().chain(watched) {
            task.await;
        }
        if accepting.is_some() {
            self.drain_all(accepting).await;
        }
        shared.control.broadcast(me, || Control::Stop).await;
        Ok(())
    }

    /// Shard 0: takes no more connections, finishes and answers what is under way on all shards, closes connections.
    async fn drain_all(&self, accepting: Option<[JoinHandle<()>; 2]>) {
        let shared = &self.shared;
        tracing::info!("no more connections, finishing requests under way");
        shared.closing.set();
        for task in accepting.into_iter().flatten() {
            task.await;
        }
        shared.control.broadcast(ShardId(0), || Control::Drain).await;
        shared.drain().await;
        let mut waiting = runtime::shard_count() - 1;
        while waiting > 0 {
            if let (_, Control::Drained) = shared.control.recv().await {
                waiting -= 1;
            }
        }
    }

    /// Any other shard: serves what shard 0 hands over until all shards have drained.
    pub(crate) async fn follow(&self) -> Result<(), Exit> {
        let shared = &self.shared;
        loop {
            let message = match race(shared.control.recv(), shared.shard.next_fault()).await {
                Either::Left((_, message)) => message,
                Either::Right(fault) => {
                    let consequence = disk_policy::decide(&shared.config, &fault);
                    shared.control.send(ShardId(0), Control::Failed(consequence)).await;
                    continue;
                }
            };
            match message {
                Control::Connection(accepted, shard_aware_port) => {
                    shared.shard_aware_port.set(shard_aware_port);
                    shared.open(accepted);
                }
                Control::Drain => {
                    shared.closing.set();
                    shared.drain().await;
                    shared.control.send(ShardId(0), Control::Drained).await;
                }
                Control::Stop => return Ok(()),
                Control::Abort(exit) => return Err(exit),
                Control::Begin | Control::Closed(_) | Control::Drained | Control::Failed(_) => {}
            }
        }
    }

    /// Logs what this shard has counted.
    pub(crate) fn report(&self) {
        let metrics = &self.shared.metrics;
        tracing::info!(
            shard = %runtime::current_shard(),
            connections = metrics.connections.get(),
            requests = metrics.requests.get(),
            errors = metrics.errors.get(),
            evictions = metrics.evictions.get(),
            messages_to_other_cores = self.shared.shard.messages_sent(),
            "served"
        );
    }

    async fn bind(&self, port: u16) -> Result<Listener, Refused> {
        let address = SocketAddr::new(self.shared.config.rpc_address, port);
        Listener::bind(address)
            .await
            .map_err(|e| Refused { text: format!("cannot listen on {address}: {e}"), exit: Exit::Misconfigured })
    }
}

impl Shared {
    async fn accept(self: Rc<Self>, listener: Listener, port: Port) {
        loop {
            match race(self.closing.wait(), listener.accept()).await {
                Either::Left(()) => return,
                Either::Right(Ok(accepted)) => self.place(accepted, port).await,
                Either::Right(Err(error)) => {
                    tracing::warn!(%error, "accept failed");
                    if let Either::Left(()) = race(self.closing.wait(), runtime::sleep(ACCEPT_RETRY)).await {
                        return;
                    }
                }
            }
        }
    }

    /// Shard 0: counts a connection and gives it to its shard, or closes it when there are too many.
    async fn place(self: &Rc<Self>, accepted: Accepted, port: Port) {
        let peer = accepted.peer();
        let shard = {
            let mut balance = self.balance.borrow_mut();
            if !balance.admits(&self.config, peer.ip()) {
                drop(balance);
                self.metrics.evictions.increment();
                tracing::debug!(%peer, "too many connections");
                return;
            }
            let shard = match port {
                Port::Plain => balance.least_loaded(),
                Port::ShardAware => peer.port() as usize % runtime::shard_count(),
            };
            balance.opened(shard, peer.ip());
            shard
        };
        if shard == 0 {
            self.open(accepted);
        } else {
            let message = Control::Connection(accepted, self.shard_aware_port.get());
            self.control.send(ShardId(shard as u16), message).await;
        }
    }

    /// Serves a connection on the current shard.
    fn open(self: &Rc<Self>, accepted: Accepted) {
        let shared = self.clone();
        runtime::spawn(async move {
            let address = accepted.peer().ip();
            if !shared.closing.is_set() {
                match accepted.attach() {
                    Ok(stream) => Served(Box::pin(shared.serve(stream))).await,
                    Err(error) => tracing::debug!(%error, "a connection could not be attached"),
                }
            }
            if runtime::current_shard() == ShardId(0) {
                shared.balance.borrow_mut().closed(0, address);
            } else {
                shared.control.send(ShardId(0), Control::Closed(address)).await;
            }
        });
    }

    async fn serve(self: &Rc<Self>, stream: runtime::Stream) {
        self.metrics.connections.increment();
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        let connection = Rc::new(Connection::new(self.clone(), stream));
        self.connections.borrow_mut().insert(id, connection.clone());
        self.events.add(&connection);
        let known = Known { shared: self, id, connection: &connection };
        connection.serve().await;
        drop(known);
    }

    /// Lets no request begin, waits for those under way, sends what is queued, closes every connection.
    async fn drain(&self) {
        let finished = runtime::timeout(DRAIN_MAX, async {
            self.gate.close().await;
            let connections = self.connections.borrow().values().cloned().collect::<Vec<_>>();
            for connection in connections {
                connection.flush().await;
            }
        });
        if finished.await.is_none() {
            tracing::warn!("requests under way were given up");
        }
        let connections = self.connections.borrow().values().cloned().collect::<Vec<_>>();
        connections.iter().for_each(|connection| connection.shutdown());
    }
}

/// The serving of a connection, whose steps are calls of one function however this is compiled: profilers see by its
/// name what is done for connections.
struct Served<F>(Pin<Box<F>>);

impl<F: Future> Future for Served<F> {
    type Output = F::Output;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Without it the compiler may take a function of the same instructions in place of this one, name and all.
        std::hint::black_box(());
        self.0.as_mut().poll(context)
    }
}

/// A connection that its shard knows until this is dropped, be it with a task that ends in the middle: each has the
/// other.
struct Known<'s> {
    shared: &'s Shared,
    id: u64,
    connection: &'s Rc<Connection>,
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        self.shared.connections.borrow_mut().remove(&self.id);
        self.shared.events.forget(self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn connections_are_spread_and_bounded() {
        let config = Config { connections_max: 4, connections_per_ip_max: 3, ..Config::default() };
        let (a, b) = (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
        let mut balance = Balance { by_shard: vec![0; 2], by_address: BTreeMap::new() };
        for expected in [0, 1, 0] {
            assert!(balance.admits(&config, a));
            assert_eq!(balance.least_loaded(), expected);
            balance.opened(expected, a);
        }
        assert!(!balance.admits(&config, a), "three of one address");
        assert!(balance.admits(&config, b));
        balance.opened(1, b);
        assert!(!balance.admits(&config, b), "four in all");
        balance.closed(0, a);
        assert!(balance.admits(&config, b) && balance.admits(&config, a));
        balance.closed(0, a);
        balance.closed(1, a);
        balance.closed(1, b);
        assert!(balance.by_address.is_empty());
        assert_eq!(balance.total(), 0);
    }
}
