//! A simulated node from its start to its end, its shards, and the operations that they start.

use super::connection::Connection;
use super::world::World;
use crate::context::{self, BackendContext};
use crate::generator::Rng;
use crate::hash::hash64;
use crate::ids::NodeId;
use crate::instant::Instant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The virtual time of reading the clock, so that a loop that waits for the clock within a poll ends.
const CLOCK_COST_NANOS: u64 = 20;

/// One life of a node, from its start to its crash or stop.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// The number of this life, unique in the run.
    pub(crate) life: u64,
    /// The index of shard 0 among the shards of the world; the others follow.
    pub(crate) first_shard: u32,
    /// False after a crash or stop: calls of its tasks have no effect.
    pub(crate) alive: Cell<bool>,
    /// False after a crash: operations in flight do not complete. Shared by the lives between two crashes.
    pub(crate) powered: Rc<Cell<bool>>,
    /// The number of shards whose `main` has not returned.
    pub(crate) mains: Cell<usize>,
    pub(crate) terminating: Cell<bool>,
    pub(crate) termination_waiters: RefCell<Vec<(u32, Waker)>>,
    /// The offset of the wall clock from virtual time.
    pub(crate) wall_offset_micros: Cell<i64>,
    /// The drift of the wall clock, in parts per million.
    pub(crate) wall_drift_ppm: i64,
    /// The latest time that the wall clock has shown, because it never goes back within a life.
    pub(crate) wall_shown_micros: Cell<i64>,
    /// The number of messages that its shards have sent each other.
    pub(crate) messages: Cell<u64>,
    /// What it has sent to each node, itself included.
    pub(crate) sent: RefCell<BTreeMap<NodeId, Sent>>,
    /// The function through which its tasks are polled.
    pub(crate) polling: Cell<PollThrough>,
}

/// What a node has sent to another one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent {
    /// How often it has handed bytes to the network.
    pub(crate) sends: u64,
    pub(crate) bytes: u64,
}

/// A function through which the tasks of a node are polled: it must call its argument once.
pub type PollThrough = fn(&mut dyn FnMut());

/// A simulated shard, in its context.
pub(crate) struct Shard {
    pub(crate) world: Rc<World>,
    pub(crate) node: Rc<Node>,
    /// The index among the shards of the world.
    pub(crate) index: u32,
    pub(crate) rng: RefCell<Rng>,
    /// The virtual time that the current poll has used.
    pub(crate) elapsed: Cell<u64>,
    /// When the last poll ends, which is the earliest time of the next.
    pub(crate) busy_until: Cell<u64>,
    pub(crate) run_scheduled: Cell<bool>,
    pub(crate) timers_scheduled: RefCell<BTreeSet<u64>>,
    /// Sides of connections with bytes to send at the end of this turn.
    pub(crate) dirty: RefCell<Vec<(Rc<Connection>, usize)>>,
}

impl Shard {
    pub(crate) fn monotonic(&self) -> Instant {
        self.elapsed.set(self.elapsed.get() + CLOCK_COST_NANOS);
        Instant(self.now())
    }

    /// The virtual time of this shard, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.world.scheduler.now() + self.elapsed.get()
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        let true_micros = (self.monotonic().0 / 1000) as i64;
        let drift = true_micros / 1_000_000 * self.node.wall_drift_ppm;
        let wall = (true_micros + drift + self.node.wall_offset_micros.get()).max(self.node.wall_shown_micros.get());
        self.node.wall_shown_micros.set(wall);
        wall
    }

    pub(crate) fn random(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    pub(crate) fn terminated(&self) -> Terminated {
        Terminated { node: self.node.clone(), shard: self.index }
    }

    pub(crate) fn buggify(&self, site: &'static str) -> bool {
        let enabled = self.world.options.borrow().buggify
            && hash64(site.as_bytes()).wrapping_add(self.world.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0;
        enabled && self.world.scheduler.below(4) == 0
    }

    pub(crate) fn reached(&self, site: &'static str) {
        self.world.reached.borrow_mut().insert(site);
    }

    pub(crate) fn believe(&self, history: u128, at: u64, belief: u64) {
        let (mut beliefs, node) = (self.world.beliefs.borrow_mut(), self.node.id);
        let (first, known) = *beliefs.entry((history, at)).or_insert((node, belief));
        if known != belief {
            let text = format!("nodes {} and {} believe different things at {at}", first.0, node.0);
            self.world.contradiction.borrow_mut().get_or_insert(text);
        }
    }
}

/// The shard that started an operation, and when.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) world: Rc<World>,
    pub(crate) node: Rc<Node>,
    pub(crate) shard: u32,
    /// The virtual time of the start, in nanoseconds.
    pub(crate) now: u64,
}

impl Caller {
    /// The current shard. Panics outside a simulated shard.
    pub(crate) fn current() -> Caller {
        context::with(|c| match &c.backend {
            BackendContext::Sim(s) => {
                Caller { world: s.world.clone(), node: s.node.clone(), shard: s.index, now: s.now() }
            }
            _ => panic!("a simulated operation outside the simulator"),
        })
    }

    /// Starts an operation: after `delay` nanoseconds it calls `complete` and passes the result to the waiting task, if
    /// there is one. The operation completes even if the node has stopped by then, but not if it has crashed.
    pub(crate) fn operate<T: 'static>(
        &self,
        delay: u64,
        complete: impl FnOnce(&Rc<World>) -> T + 'static,
    ) -> Operation<T> {
        let state = Rc::new(OperationState { value: RefCell::new(None), waker: RefCell::new(None) });
        let (shared, shard) = (state.clone(), self.shard);
        self.world.call(&self.node, self.now + delay, true, move |world| {
            let value = complete(world);
            shared.finish(world, shard, value);
        });
        Operation(state)
    }
}

pub(crate) struct OperationState<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
}

impl<T> OperationState<T> {
    /// Creates an operation that the caller finishes.
    pub(crate) fn new() -> Rc<OperationState<T>> {
        Rc::new(OperationState { value: RefCell::new(None), waker: RefCell::new(None) })
    }

    pub(crate) fn finish(&self, world: &World, shard: u32, value: T) {
        *self.value.borrow_mut() = Some(value);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            world.wake(shard, waker);
        }
    }
}

/// A future that waits for an operation. Dropping it does not cancel the operation.
pub(crate) struct Operation<T>(pub(crate) Rc<OperationState<T>>);

impl<T> Future for Operation<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.0.value.borrow_mut().take() {
            return Poll::Ready(value);
        }
        *self.0.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A future that waits until the run asks the node to stop.
pub(crate) struct Terminated {
    node: Rc<Node>,
    shard: u32,
}

impl Future for Terminated {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.node.terminating.get() {
            return Poll::Ready(());
        }
        self.node.termination_waiters.borrow_mut().push((self.shard, cx.waker().clone()));
        Poll::Pending
    }
}
