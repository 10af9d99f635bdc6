//! The queue of events, virtual time, the run's random generator and the trace hash.
//!
//! 1. Events are ordered by virtual time, and events at the same time by a random number, so that a sweep over seeds
//!    tries every order that real machines could show.
//! 2. Virtual time is the time of the event that runs. It never goes back.
//! 3. Every event goes into the trace hash.
//!
//! Invariants: all randomness of a run comes from its seed; no two events have the same key.

use super::connection::Connection;
use super::node::Node;
use super::world::World;
use crate::generator::Rng;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

/// The function that is called when an operation completes.
pub(crate) type Completion = Box<dyn FnOnce(&Rc<World>)>;

/// Something that happens at a point in virtual time.
pub(crate) enum Event {
    /// A shard polls one of its ready tasks.
    Run(u32),
    /// Timers of a shard are due.
    Timers(u32),
    /// The first segment in flight from a side of a connection arrives.
    Deliver(Rc<Connection>, usize),
    /// A side of a connection learns that its peer has taken bytes.
    Window(Rc<Connection>, usize),
    /// An operation of a node completes, unless the node is dead or, with `outlives`, has lost power.
    Call { node: Rc<Node>, outlives: bool, run: Completion },
}

impl Event {
    /// A number for the trace hash that identifies the event.
    pub(crate) fn kind(&self) -> u64 {
        match self {
            Event::Run(shard) => 1 << 32 | u64::from(*shard),
            Event::Timers(shard) => 2 << 32 | u64::from(*shard),
            Event::Deliver(connection, side) => 3 << 60 | connection.id << 1 | *side as u64,
            Event::Window(connection, side) => 4 << 60 | connection.id << 1 | *side as u64,
            Event::Call { node, outlives, .. } => 5 << 32 | u64::from(node.id.0) << 1 | u64::from(*outlives),
        }
    }
}

struct Entry {
    at: u64,
    tie: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.tie) == (other.at, other.tie)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest event is the greatest, because `BinaryHeap` returns the greatest first.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at, other.tie).cmp(&(self.at, self.tie))
    }
}

/// The events of a run, in order.
pub(crate) struct Scheduler {
    queue: RefCell<BinaryHeap<Entry>>,
    pushed: Cell<u32>,
    now: Cell<u64>,
    rng: RefCell<Rng>,
    trace: Cell<u64>,
    steps: Cell<u64>,
}

impl Scheduler {
    pub(crate) fn new(seed: u64) -> Scheduler {
        Scheduler {
            queue: RefCell::default(),
            pushed: Cell::new(0),
            now: Cell::new(0),
            rng: RefCell::new(Rng::new(seed)),
            trace: Cell::new(0),
            steps: Cell::new(0),
        }
    }

    /// Adds an event at `at`, or now if that has passed.
    pub(crate) fn push(&self, at: u64, event: Event) {
        let number = self.pushed.get();
        self.pushed.set(number.wrapping_add(1));
        let tie = self.random() & !0xffff_ffff | u64::from(number);
        self.queue.borrow_mut().push(Entry { at: at.max(self.now.get()), tie, event });
    }

    /// Calls `look` with the next event.
    pub(crate) fn peek<R>(&self, look: impl FnOnce(u64, &Event) -> R) -> Option<R> {
        self.queue.borrow().peek().map(|entry| look(entry.at, &entry.event))
    }

    /// Removes the next event without moving virtual time.
    pub(crate) fn pop(&self) -> Option<(u64, Event)> {
        self.queue.borrow_mut().pop().map(|entry| (entry.at, entry.event))
    }

    /// Moves virtual time to an event and counts it.
    pub(crate) fn begin(&self, at: u64, event: &Event) {
        self.advance(at);
        self.steps.set(self.steps.get() + 1);
        self.fold(at);
        self.fold(event.kind());
    }

    /// Moves virtual time to `at` unless it is later already.
    pub(crate) fn advance(&self, at: u64) {
        self.now.set(self.now.get().max(at));
    }

    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Adds a word to the trace hash.
    pub(crate) fn fold(&self, word: u64) {
        let mixed = (self.trace.get().rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.trace.set(mixed ^ mixed >> 32);
    }

    pub(crate) fn trace(&self) -> u64 {
        self.trace.get()
    }

    pub(crate) fn random(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    /// A random number below `n`, uniformly distributed; `n` must not be 0.
    pub(crate) fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }

    pub(crate) fn chance(&self, p: f64) -> bool {
        p > 0.0 && self.rng.borrow_mut().chance(p)
    }

    /// A random duration between the two, in nanoseconds.
    pub(crate) fn between(&self, (low, high): (Duration, Duration)) -> u64 {
        let (low, high) = (low.as_nanos() as u64, high.as_nanos() as u64);
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Calls `f` with the run's generator.
    pub(crate) fn with_rng<R>(&self, f: impl FnOnce(&mut Rng) -> R) -> R {
        f(&mut self.rng.borrow_mut())
    }

    /// Removes all events.
    pub(crate) fn clear(&self) {
        let entries = std::mem::take(&mut *self.queue.borrow_mut());
        drop(entries);
    }
}
