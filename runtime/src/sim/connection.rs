//! A simulated connection: two sides, bytes in flight between them, windows, and how it ends.
//!
//! 1. Written bytes wait in the side's send queue until the end of the turn, when its seal, if it has one, turns them
//!    into others. Then the system takes as many as the
//!    peer's window has room for, cuts them into segments of random size, and sends each with its own latency.
//! 2. Segments of one side arrive in order. While the network is cut, the first one waits, and all behind it.
//! 3. When the peer takes bytes from its receive buffer, the window opens again, one latency later.
//! 4. A side that closes sends a FIN, or a reset if it has unread bytes or receives bytes after it has closed. A
//!    crashed node sends nothing; its peers notice after a random time.
//!
//! Invariants: bytes in flight and received together never exceed the window; at most one delivery event per side.

use super::node::Node;
use super::scheduler::Event;
use super::world::{End, World};
use crate::hash::hash64;
use crate::ids::NodeId;
use crate::seal::Seal;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Waker;

/// The most bytes in flight to a reader or waiting for it.
pub(crate) const WINDOW_BYTES_MAX: usize = 128 << 10;
/// The most bytes of a segment; one in [`TINY_SEGMENTS`] is tiny.
const SEGMENT_BYTES_MAX: u64 = 16 << 10;
const TINY_SEGMENT_BYTES_MAX: u64 = 16;
const TINY_SEGMENTS: u64 = 8;
/// The longest time until a peer notices that a node has crashed.
const HALF_OPEN_NANOS_MAX: u64 = 10_000_000_000;

pub(crate) enum Segment {
    Data(Vec<u8>),
    Fin,
    Reset,
}

/// Whether and how the peer's bytes have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incoming {
    Open,
    Ended,
    Broken,
}

pub(crate) struct Side {
    pub(crate) node: Rc<Node>,
    /// The shard of the stream; none between `accept` and `attach`.
    pub(crate) shard: Option<u32>,
    pub(crate) address: SocketAddr,
    /// What tasks have written; sealed at the end of the turn if there is a seal.
    pub(crate) out: Vec<u8>,
    pub(crate) seal: Option<Rc<dyn Seal>>,
    /// What the seal has made, and the window had no room for.
    sealed: Vec<u8>,
    /// The seal has something to send beside what is written.
    pub(crate) nudged: bool,
    pub(crate) dirty: bool,
    pub(crate) received: VecDeque<Vec<u8>>,
    pub(crate) received_bytes: usize,
    pub(crate) incoming: Incoming,
    /// The stream was closed or dropped.
    pub(crate) closed: bool,
    pub(crate) paused: bool,
    pub(crate) receiver: Option<Waker>,
    pub(crate) drainers: Vec<Waker>,
    /// Closed with bytes queued, which are still sent before the FIN.
    lingering: bool,
    flight: VecDeque<(u64, Segment)>,
    flight_bytes: usize,
    arrives_last: u64,
    /// A delivery event exists, or waits for a cut to heal.
    delivering: bool,
    stalled: bool,
    window_scheduled: bool,
}

impl Side {
    pub(crate) fn new(node: Rc<Node>, shard: Option<u32>, address: SocketAddr) -> Side {
        Side {
            node,
            shard,
            address,
            out: Vec::new(),
            seal: None,
            sealed: Vec::new(),
            nudged: false,
            dirty: false,
            received: VecDeque::new(),
            received_bytes: 0,
            incoming: Incoming::Open,
            closed: false,
            paused: false,
            receiver: None,
            drainers: Vec::new(),
            lingering: false,
            flight: VecDeque::new(),
            flight_bytes: 0,
            arrives_last: 0,
            delivering: false,
            stalled: false,
            window_scheduled: false,
        }
    }

    /// The bytes that the system has not taken.
    pub(crate) fn queued(&self) -> usize {
        self.out.len() + self.sealed.len() + usize::from(self.nudged)
    }

    /// The bytes that are ready to be sent.
    fn ready(&mut self) -> &mut Vec<u8> {
        if self.seal.is_some() { &mut self.sealed } else { &mut self.out }
    }

    fn clear_queue(&mut self) {
        self.out.clear();
        self.sealed.clear();
        self.nudged = false;
    }

    fn is_gone(&self) -> bool {
        self.closed || !self.node.alive.get()
    }

    /// The error of sending; `None` while bytes can be sent.
    pub(crate) fn send_error(&self) -> Option<io::ErrorKind> {
        match self.incoming {
            _ if self.closed => Some(io::ErrorKind::BrokenPipe),
            Incoming::Broken => Some(io::ErrorKind::ConnectionReset),
            _ => None,
        }
    }

    fn wakers(&mut self) -> Vec<(u32, Waker)> {
        let Some(shard) = self.shard else { return Vec::new() };
        let drainers = self.drainers.drain(..);
        drainers.chain(self.receiver.take()).map(|waker| (shard, waker)).collect()
    }

    fn break_off(&mut self) {
        self.incoming = Incoming::Broken;
        self.clear_queue();
        self.lingering = false;
        self.flight.clear();
        self.flight_bytes = 0;
    }
}

pub(crate) struct Connection {
    pub(crate) id: u64,
    sides: RefCell<[Side; 2]>,
    /// The nodes of both sides, for cuts of the network.
    pub(crate) nodes: [NodeId; 2],
    /// Whether the connection was removed from the network.
    pub(crate) forgotten: Cell<bool>,
}

fn wake_all(world: &World, wakers: Vec<(u32, Waker)>) {
    wakers.into_iter().for_each(|(shard, waker)| world.wake(shard, waker));
}

impl Connection {
    pub(crate) fn new(id: u64, sides: [Side; 2]) -> Connection {
        let nodes = [sides[0].node.id, sides[1].node.id];
        Connection { id, sides: RefCell::new(sides), nodes, forgotten: Cell::new(false) }
    }

    /// Calls `f` with a side. `f` must not run user code.
    pub(crate) fn with<R>(&self, side: usize, f: impl FnOnce(&mut Side) -> R) -> R {
        f(&mut self.sides.borrow_mut()[side])
    }

    fn latency(world: &World) -> u64 {
        world.scheduler.between(world.options.borrow().network_latency)
    }

    fn is_cut(&self, world: &World, from: usize) -> bool {
        world.network.borrow().is_cut(self.nodes[from], self.nodes[1 - from])
    }

    /// Sends a segment, behind those in flight from `side`.
    fn send(self: &Rc<Connection>, world: &World, side: &mut Side, number: usize, segment: Segment) {
        let at = side.arrives_last.max(world.scheduler.now() + Connection::latency(world));
        side.arrives_last = at;
        if let Segment::Data(bytes) = &segment {
            side.flight_bytes += bytes.len();
        }
        side.flight.push_back((at, segment));
        if !side.delivering {
            side.delivering = true;
            world.scheduler.push(at, Event::Deliver(self.clone(), number));
        }
    }

    /// Sends queued bytes at the end of the turn in which they were written.
    pub(crate) fn turn_ended(self: &Rc<Connection>, world: &World, number: usize) {
        self.with(number, |side| side.dirty = false);
        self.seal(number);
        self.flush(world, number);
    }

    /// Has what is written sealed, if there is a seal.
    fn seal(&self, number: usize) {
        let taken = self.with(number, |side| {
            side.nudged = false;
            side.seal.clone().map(|seal| (seal, std::mem::take(&mut side.out), std::mem::take(&mut side.sealed)))
        });
        let Some((seal, mut out, mut sealed)) = taken else { return };
        seal.seal(&mut out, &mut sealed);
        self.with(number, |side| (side.out, side.sealed) = (out, sealed));
    }

    /// Sends as many queued bytes as fit into the window.
    fn flush(self: &Rc<Connection>, world: &World, number: usize) {
        let mut sides = self.sides.borrow_mut();
        let received = sides[1 - number].received_bytes;
        let side = &mut sides[number];
        let room = WINDOW_BYTES_MAX.saturating_sub(side.flight_bytes + received).min(side.ready().len());
        if room > 0 {
            let rest = side.ready().split_off(room);
            let taken = std::mem::replace(side.ready(), rest);
            // The bytes of a seal may be random beyond the seed's reach; their number may not.
            world.scheduler.fold(if side.seal.is_some() { taken.len() as u64 } else { hash64(&taken) });
            {
                let mut sent = side.node.sent.borrow_mut();
                let to_peer = sent.entry(self.nodes[1 - number]).or_default();
                (to_peer.sends, to_peer.bytes) = (to_peer.sends + 1, to_peer.bytes + taken.len() as u64);
            }
            let mut bytes = &taken[..];
            while !bytes.is_empty() {
                let tiny = world.scheduler.below(TINY_SEGMENTS) == 0;
                let most = if tiny { TINY_SEGMENT_BYTES_MAX } else { SEGMENT_BYTES_MAX };
                let len = (world.scheduler.below(most) + 1).min(bytes.len() as u64) as usize;
                let (segment, rest) = bytes.split_at(len);
                self.send(world, side, number, Segment::Data(segment.to_vec()));
                bytes = rest;
            }
        }
        if side.lingering && side.ready().is_empty() {
            side.lingering = false;
            self.send(world, side, number, Segment::Fin);
        }
        let shard = side.shard;
        let drainers: Vec<Waker> = if room > 0 { side.drainers.drain(..).collect() } else { Vec::new() };
        drop(sides);
        if let Some(shard) = shard {
            drainers.into_iter().for_each(|waker| world.wake(shard, waker));
        }
    }

    /// Delivers the first segment in flight from side `from`.
    pub(crate) fn deliver(self: &Rc<Connection>, world: &World, from: usize) {
        let cut = self.is_cut(world, from);
        let mut sides = self.sides.borrow_mut();
        if cut && !sides[from].flight.is_empty() {
            sides[from].stalled = true;
            return;
        }
        let Some((_, segment)) = sides[from].flight.pop_front() else {
            sides[from].delivering = false;
            return;
        };
        match sides[from].flight.front() {
            Some((at, _)) => world.scheduler.push(*at, Event::Deliver(self.clone(), from)),
            None => sides[from].delivering = false,
        }
        let to = 1 - from;
        let mut wakers = Vec::new();
        match segment {
            Segment::Data(bytes) => {
                sides[from].flight_bytes -= bytes.len();
                if world.scheduler.chance(world.options.borrow().network_reset) {
                    for side in sides.iter_mut() {
                        side.break_off();
                        wakers.append(&mut side.wakers());
                    }
                } else if !sides[to].is_gone() {
                    sides[to].received_bytes += bytes.len();
                    sides[to].received.push_back(bytes);
                    wakers = sides[to].wakers();
                } else if sides[to].node.powered.get() {
                    let side = &mut sides[to];
                    self.send(world, side, to, Segment::Reset);
                }
            }
            Segment::Fin => {
                if sides[to].incoming == Incoming::Open {
                    sides[to].incoming = Incoming::Ended;
                }
                wakers = sides[to].wakers();
            }
            Segment::Reset => {
                sides[to].break_off();
                wakers = sides[to].wakers();
            }
        }
        drop(sides);
        wake_all(world, wakers);
    }

    /// Sends more, after the window of `number`'s peer has opened.
    pub(crate) fn window(self: &Rc<Connection>, world: &World, number: usize) {
        self.with(number, |side| side.window_scheduled = false);
        if self.is_cut(world, 1 - number) {
            // Repeated when the cut heals.
            return;
        }
        self.flush(world, number);
    }

    /// Opens the window of side `number`, whose reader has taken bytes.
    pub(crate) fn taken(self: &Rc<Connection>, world: &World, number: usize, now: u64) {
        let mut sides = self.sides.borrow_mut();
        let sender = &mut sides[1 - number];
        if sender.ready().is_empty() || sender.window_scheduled {
            return;
        }
        sender.window_scheduled = true;
        drop(sides);
        world.scheduler.push(now + Connection::latency(world), Event::Window(self.clone(), 1 - number));
    }

    /// Continues after a cut of the network has healed.
    pub(crate) fn healed(self: &Rc<Connection>, world: &World) {
        for number in 0..2 {
            if self.is_cut(world, number) {
                continue;
            }
            let at = world.scheduler.now() + Connection::latency(world);
            let stalled = self.with(number, |side| std::mem::replace(&mut side.stalled, false));
            if stalled {
                world.scheduler.push(at, Event::Deliver(self.clone(), number));
            }
            world.scheduler.push(at, Event::Window(self.clone(), 1 - number));
        }
    }

    /// Closes a side. With `linger`, when the stream was dropped, queued bytes are still sent; without, in `shutdown`,
    /// they are dropped.
    pub(crate) fn close(self: &Rc<Connection>, world: &World, number: usize, linger: bool) {
        if linger && self.with(number, |side| side.send_error().is_none()) {
            self.seal(number);
        }
        let mut sides = self.sides.borrow_mut();
        let side = &mut sides[number];
        if side.closed {
            return;
        }
        side.closed = true;
        let unread = side.received_bytes > 0;
        side.received.clear();
        side.received_bytes = 0;
        let broken = side.incoming == Incoming::Broken;
        side.lingering = linger && !unread && !broken && !side.ready().is_empty();
        if !side.lingering {
            side.clear_queue();
        }
        let wakers = side.wakers();
        if !broken && !side.lingering {
            let end = if unread { Segment::Reset } else { Segment::Fin };
            self.send(world, side, number, end);
        }
        let over = sides[1 - number].is_gone();
        drop(sides);
        if over {
            world.network.borrow_mut().forget(self);
        }
        // These are tasks of the caller's own shard, so no other shard has to be entered.
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        if linger {
            self.flush(world, number);
        }
    }

    /// Handles the end of a side's node.
    fn died(self: &Rc<Connection>, world: &Rc<World>, number: usize, end: End) {
        let mut sides = self.sides.borrow_mut();
        let over = sides[1 - number].is_gone();
        let side = &mut sides[number];
        let was_closed = std::mem::replace(&mut side.closed, true);
        let unread = std::mem::take(&mut side.received_bytes) > 0;
        side.received.clear();
        side.receiver = None;
        side.drainers.clear();
        side.lingering = false;
        side.clear_queue();
        match end {
            End::Exit if !was_closed => {
                let reset = unread || world.scheduler.below(4) == 0;
                self.send(world, side, number, if reset { Segment::Reset } else { Segment::Fin });
            }
            End::Exit => {}
            End::Crash => {
                // Segments that had not left the machine never arrive.
                let left = world.scheduler.below(side.flight.len() as u64 + 1) as usize;
                side.flight.truncate(left);
                let bytes = |(_, segment): &(u64, Segment)| if let Segment::Data(b) = segment { b.len() } else { 0 };
                side.flight_bytes = side.flight.iter().map(bytes).sum();
            }
        }
        let peer = sides[1 - number].node.clone();
        drop(sides);
        if over {
            world.network.borrow_mut().forget(self);
        } else if end == End::Crash {
            let most = if world.scheduler.below(2) == 0 { HALF_OPEN_NANOS_MAX } else { HALF_OPEN_NANOS_MAX / 1000 };
            let at = world.scheduler.now() + world.scheduler.below(most);
            let connection = self.clone();
            world.call(&peer, at, false, move |world| {
                let wakers = connection.with(1 - number, |side| {
                    side.break_off();
                    side.wakers()
                });
                wake_all(world, wakers);
            });
        }
    }
}

/// Ends every connection and listener of a dead node.
pub(crate) fn break_all(world: &Rc<World>, node: &Rc<Node>, end: End) {
    let connections = world.network.borrow_mut().leave(node.id);
    for connection in connections {
        for number in 0..2 {
            if connection.with(number, |side| side.node.life == node.life) {
                connection.died(world, number, end);
            }
        }
    }
}
