//! TCP between simulated nodes: listeners, connecting, streams, and cuts of the network.
//!
//! A node has the address [`super::Sim::address_of`] and, for itself only, 127.0.0.1. A connection attempt is retried
//! after 1, 2, 4 ... seconds, up to [`CONNECT_TRIES_MAX`] times, while the network is cut, the listener's backlog is
//! full or the other node is crashed. A crashed node may also refuse.

use super::Sim;
use super::connection::{Connection, Incoming, Side};
use super::node::{Caller, Node, Operation, OperationState};
use super::world::World;
use crate::context;
use crate::executor::yield_now;
use crate::ids::NodeId;
use crate::seal::Seal;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The most attempts of one connect; the pause between them doubles.
const CONNECT_TRIES_MAX: u32 = 7;
/// Connections that wait for `accept`.
const BACKLOG_MAX: usize = 1024;
/// The first port for sockets that are bound to any port.
const EPHEMERAL_PORT_MIN: u16 = 32_768;

/// All connections, listeners and cuts.
#[derive(Default)]
pub(crate) struct Network {
    connections: BTreeMap<u64, Rc<Connection>>,
    opened: u64,
    listeners: BTreeMap<(NodeId, SocketAddr), Rc<Listening>>,
    /// Local addresses of the connecting sides of connections.
    bound: BTreeSet<(NodeId, SocketAddr)>,
    next_port: BTreeMap<NodeId, u16>,
    cuts: BTreeSet<(NodeId, NodeId)>,
}

struct Listening {
    node: Rc<Node>,
    shard: u32,
    backlog: RefCell<VecDeque<u64>>,
    acceptors: RefCell<Vec<Waker>>,
}

impl Network {
    pub(crate) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        !self.cuts.is_empty() && self.cuts.contains(&(from, to))
    }

    /// Cuts or heals one direction; returns the connections between the nodes if it healed.
    pub(crate) fn cut(&mut self, from: NodeId, to: NodeId, cut: bool) -> Vec<Rc<Connection>> {
        if cut {
            self.cuts.insert((from, to));
            return Vec::new();
        }
        if !self.cuts.remove(&(from, to)) {
            return Vec::new();
        }
        let between = |c: &&Rc<Connection>| c.nodes == [from, to] || c.nodes == [to, from];
        self.connections.values().filter(between).cloned().collect()
    }

    /// Removes a connection whose sides are both gone.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        if connection.forgotten.replace(true) {
            return;
        }
        self.connections.remove(&connection.id);
        self.bound.remove(&(connection.nodes[0], connection.with(0, |side| side.address)));
    }

    /// Removes a node's listeners and returns its connections.
    pub(crate) fn leave(&mut self, node: NodeId) -> Vec<Rc<Connection>> {
        self.listeners.retain(|(owner, _), _| *owner != node);
        self.bound.retain(|(owner, _)| *owner != node);
        self.connections.values().filter(|c| c.nodes.contains(&node)).cloned().collect()
    }

    fn listener(&self, node: NodeId, address: SocketAddr) -> Option<Rc<Listening>> {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
        self.listeners.get(&(node, address)).or_else(|| self.listeners.get(&(node, any))).cloned()
    }

    /// A free port of a node's address; `None` if all are taken.
    fn free_port(&mut self, node: NodeId, ip: IpAddr) -> Option<u16> {
        for _ in EPHEMERAL_PORT_MIN..=u16::MAX {
            let next = self.next_port.entry(node).or_insert(EPHEMERAL_PORT_MIN);
            let port = *next;
            *next = port.checked_add(1).unwrap_or(EPHEMERAL_PORT_MIN);
            let address = SocketAddr::new(ip, port);
            if !self.bound.contains(&(node, address)) && self.listener(node, address).is_none() {
                return Some(port);
            }
        }
        None
    }
}

fn os_error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

fn latency(world: &World) -> u64 {
    world.scheduler.between(world.options.borrow().network_latency)
}

/// Whether a socket of `node` may be bound to the address.
fn is_own(node: NodeId, ip: IpAddr) -> bool {
    ip == Sim::address_of(node) || ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
}

/// The node that node `own` reaches at `ip`.
fn node_at(own: NodeId, ip: IpAddr) -> Option<NodeId> {
    match ip {
        IpAddr::V4(Ipv4Addr::LOCALHOST | Ipv4Addr::UNSPECIFIED) => Some(own),
        IpAddr::V4(ip) => match ip.octets() {
            [127, 1, high, low] => Some(NodeId(u32::from(high) << 8 | u32::from(low))),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

pub(crate) struct Listener {
    world: Rc<World>,
    listening: Rc<Listening>,
    address: SocketAddr,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Listener> {
        let caller = Caller::current();
        let delay = latency(&caller.world);
        let owner = caller.clone();
        caller
            .operate(delay, move |world| {
                let node = owner.node.id;
                if !owner.node.alive.get() {
                    return Err(os_error(libc::EINTR));
                }
                if !is_own(node, address.ip()) {
                    return Err(os_error(libc::EADDRNOTAVAIL));
                }
                let mut network = world.network.borrow_mut();
                let mut address = address;
                if address.port() == 0 {
                    let port = network.free_port(node, address.ip()).ok_or_else(|| os_error(libc::EADDRINUSE))?;
                    address.set_port(port);
                } else if network.listener(node, address).is_some() {
                    return Err(os_error(libc::EADDRINUSE));
                }
                let listening = Rc::new(Listening {
                    node: owner.node.clone(),
                    shard: owner.shard,
                    backlog: RefCell::default(),
                    acceptors: RefCell::default(),
                });
                network.listeners.insert((node, address), listening.clone());
                drop(network);
                Ok(Listener { world: owner.world, listening, address })
            })
            .await
    }

    pub(crate) fn local_address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        yield_now().await;
        poll_fn(|cx| {
            while let Some(id) = self.listening.backlog.borrow_mut().pop_front() {
                let found = self.world.network.borrow().connections.get(&id).cloned();
                if let Some(connection) = found {
                    let peer = connection.with(0, |side| side.address);
                    return Poll::Ready(Ok(Accepted { id, peer, attached: false }));
                }
            }
            self.listening.acceptors.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let node = &self.listening.node;
        if !node.alive.get() {
            return;
        }
        let waiting: Vec<Rc<Connection>> = {
            let mut network = self.world.network.borrow_mut();
            network.listeners.remove(&(node.id, self.address));
            let backlog = self.listening.backlog.borrow();
            backlog.iter().filter_map(|id| network.connections.get(id).cloned()).collect()
        };
        waiting.into_iter().for_each(|connection| connection.close(&self.world, 1, false));
    }
}

/// An accepted connection. It only has a number, so that it can move to another shard.
pub(crate) struct Accepted {
    id: u64,
    peer: SocketAddr,
    attached: bool,
}

impl Accepted {
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn attach(mut self) -> io::Result<Stream> {
        let caller = Caller::current();
        let connection = caller.world.network.borrow().connections.get(&self.id).cloned();
        let connection = connection.ok_or_else(|| os_error(libc::ENOTCONN))?;
        self.attached = true;
        connection.with(1, |side| side.shard = Some(caller.shard));
        Ok(Stream { world: caller.world, node: caller.node, connection, side: 1, peer: self.peer })
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        // Without a current shard the node is dead, and so are its connections.
        if self.attached || context::try_with(|_| ()).is_none() {
            return;
        }
        let caller = Caller::current();
        let connection = caller.world.network.borrow().connections.get(&self.id).cloned();
        if let Some(connection) = connection {
            connection.close(&caller.world, 1, false);
        }
    }
}

pub(crate) struct Stream {
    world: Rc<World>,
    node: Rc<Node>,
    connection: Rc<Connection>,
    side: usize,
    peer: SocketAddr,
}

/// An attempt to connect.
struct Attempt {
    caller: Caller,
    state: Rc<OperationState<io::Result<Stream>>>,
    target: NodeId,
    address: SocketAddr,
    local: SocketAddr,
    tries: u32,
}

impl Attempt {
    /// Sends the request, which arrives after `delay`.
    fn send(self, world: &Rc<World>, delay: u64) {
        let node = self.caller.node.clone();
        world.call(&node, world.scheduler.now() + delay, false, move |world| self.arrive(world));
    }

    fn fail(self, world: &World, number: i32) {
        world.network.borrow_mut().bound.remove(&(self.caller.node.id, self.local));
        self.state.finish(world, self.caller.shard, Err(os_error(number)));
    }

    fn retry(mut self, world: &Rc<World>) {
        self.tries += 1;
        if self.tries >= CONNECT_TRIES_MAX {
            return self.fail(world, libc::ETIMEDOUT);
        }
        let pause = 1_000_000_000 << (self.tries - 1);
        self.send(world, pause + latency(world));
    }

    fn is_cut(&self, world: &World) -> bool {
        let (network, own) = (world.network.borrow(), self.caller.node.id);
        network.is_cut(own, self.target) || network.is_cut(self.target, own)
    }

    /// Handles the arrival of the request at the other node, unless the network is cut.
    fn arrive(self, world: &Rc<World>) {
        let crashed = world.node(self.target).is_some_and(|node| !node.powered.get());
        if self.is_cut(world) || crashed && world.scheduler.below(2) == 0 {
            return self.retry(world);
        }
        let Some(listening) = world.network.borrow().listener(self.target, self.address) else {
            return self.fail(world, libc::ECONNREFUSED);
        };
        if listening.backlog.borrow().len() >= BACKLOG_MAX {
            return self.retry(world);
        }
        let connection = {
            let mut network = world.network.borrow_mut();
            network.opened += 1;
            let own = Side::new(self.caller.node.clone(), Some(self.caller.shard), self.local);
            let other = Side::new(listening.node.clone(), None, self.address);
            let connection = Rc::new(Connection::new(network.opened, [own, other]));
            network.connections.insert(connection.id, connection.clone());
            connection
        };
        listening.backlog.borrow_mut().push_back(connection.id);
        let acceptors = std::mem::take(&mut *listening.acceptors.borrow_mut());
        acceptors.into_iter().for_each(|waker| world.wake(listening.shard, waker));
        let node = self.caller.node.clone();
        world.call(&node, world.scheduler.now() + latency(world), false, move |world| self.answered(world, connection));
    }

    /// Handles the arrival of the answer, unless the network is cut.
    fn answered(self, world: &Rc<World>, connection: Rc<Connection>) {
        if self.is_cut(world) {
            let node = self.caller.node.clone();
            let pause = 1_000_000_000 + latency(world);
            return world
                .call(&node, world.scheduler.now() + pause, false, move |world| self.answered(world, connection));
        }
        let Attempt { caller, state, address, .. } = self;
        let stream = Stream { world: caller.world, node: caller.node, connection, side: 0, peer: address };
        state.finish(world, caller.shard, Ok(stream));
    }
}

impl Stream {
    pub(crate) async fn connect(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<Stream> {
        let caller = Caller::current();
        let (world, own) = (caller.world.clone(), caller.node.id);
        let state = OperationState::new();
        let delay = latency(&world) + caller.now - world.scheduler.now();
        match prepare(&world, own, address, source) {
            Ok((target, local)) => {
                let attempt = Attempt { caller, state: state.clone(), target, address, local, tries: 0 };
                attempt.send(&world, delay);
            }
            Err(error) => return caller.operate(delay, move |_| Err(error)).await,
        }
        Operation(state).await
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn with_side<R>(&self, f: impl FnOnce(&mut Side) -> R) -> R {
        self.connection.with(self.side, f)
    }

    pub(crate) async fn recv(&self) -> io::Result<Option<Vec<u8>>> {
        yield_now().await;
        poll_fn(|cx| {
            let polled = self.with_side(|side| {
                if !side.paused
                    && let Some(bytes) = side.received.pop_front()
                {
                    side.received_bytes -= bytes.len();
                    return Poll::Ready(Ok(Some(bytes)));
                }
                let unread = side.received_bytes > 0;
                match side.incoming {
                    _ if side.closed => Poll::Ready(Ok(None)),
                    Incoming::Ended if !unread => Poll::Ready(Ok(None)),
                    Incoming::Broken if !unread => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                    _ => {
                        side.receiver = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            });
            if let Poll::Ready(Ok(Some(_))) = &polled {
                self.connection.taken(&self.world, self.side, Caller::current().now);
            }
            polled
        })
        .await
    }

    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        // The buffer is taken out, because `f` may call anything.
        let mut out = self.with_side(|side| std::mem::take(&mut side.out));
        let result = f(&mut out);
        self.with_side(|side| {
            if side.send_error().is_none() && self.node.alive.get() {
                side.out = out;
            }
        });
        self.mark_dirty(false);
        result
    }

    pub(crate) fn seal_with(&self, seal: Rc<dyn Seal>) {
        self.with_side(|side| {
            assert!(side.out.is_empty() && side.seal.is_none(), "sealed once, before anything is written");
            side.seal = Some(seal);
        });
    }

    pub(crate) fn nudge(&self) {
        self.mark_dirty(true);
    }

    /// Has what is written sent at the end of the turn, and the seal asked if it is `nudged`.
    fn mark_dirty(&self, nudged: bool) {
        let dirty = self.with_side(|side| {
            let is_able = side.send_error().is_none() && self.node.alive.get();
            side.nudged |= nudged && is_able;
            is_able && (!side.out.is_empty() || side.nudged) && !std::mem::replace(&mut side.dirty, true)
        });
        if dirty {
            let queued = context::try_with(|c| {
                if let context::BackendContext::Sim(shard) = &c.backend {
                    shard.dirty.borrow_mut().push((self.connection.clone(), self.side));
                }
            });
            debug_assert!(queued.is_some(), "a live node writes in its polls only");
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.with_side(|side| side.queued())
    }

    pub(crate) async fn drained_to(&self, bytes: usize) -> io::Result<()> {
        poll_fn(|cx| {
            self.with_side(|side| match side.send_error() {
                Some(error) => Poll::Ready(Err(error.into())),
                None if side.queued() <= bytes => Poll::Ready(Ok(())),
                None => {
                    side.drainers.push(cx.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await
    }

    pub(crate) fn pause(&self) {
        self.with_side(|side| side.paused = true);
    }

    pub(crate) fn resume(&self) {
        let waker = self.with_side(|side| {
            side.paused = false;
            side.receiver.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn shutdown(&self) {
        if self.node.alive.get() {
            self.connection.close(&self.world, self.side, false);
        }
    }
}

/// Finds the node at `address`, and takes a local address for a connection to it.
fn prepare(
    world: &World,
    own: NodeId,
    address: SocketAddr,
    source: Option<SocketAddr>,
) -> io::Result<(NodeId, SocketAddr)> {
    let target = node_at(own, address.ip()).ok_or_else(|| os_error(libc::ENETUNREACH))?;
    let mut network = world.network.borrow_mut();
    let natural = if address.ip() == Sim::address_of(target) { Sim::address_of(own) } else { address.ip() };
    let mut local = source.unwrap_or(SocketAddr::new(natural, 0));
    if local.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        local.set_ip(natural);
    }
    if !is_own(own, local.ip()) {
        return Err(os_error(libc::EADDRNOTAVAIL));
    }
    if local.port() == 0 {
        let port = network.free_port(own, local.ip()).ok_or_else(|| os_error(libc::EADDRNOTAVAIL))?;
        local.set_port(port);
    }
    if network.listener(own, local).is_some() || !network.bound.insert((own, local)) {
        return Err(os_error(libc::EADDRINUSE));
    }
    Ok((target, local))
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.node.alive.get() {
            self.connection.close(&self.world, self.side, true);
        }
    }
}
