//! The queues between shards, one per pair of shards and direction.
//!
//! 1. Sending fills slots of a queue; the loop of the backend publishes the new tail at the end of the turn and wakes
//!    the receiver if it sleeps.
//! 2. Receiving takes from the queues in turn; the loop publishes the new heads at the end of the turn.
//! 3. Before it polls tasks, the loop wakes the task that waits for messages, if there are any, and the tasks that wait
//!    for space in a queue, if there is some.
//!
//! Invariants: see `spsc.rs`; each shard attaches once, which makes it the one producer and the one consumer of its
//! queues.

use super::spsc::Queue;
use crate::context;
use crate::ids::ShardId;
use crate::sync::Waiters;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Poll, Waker};

/// The largest capacity of a queue, in messages.
pub(crate) const CAPACITY_MAX: usize = 1 << 20;

pub(crate) struct Mesh<M> {
    queues: Arc<Queues<M>>,
}

struct Queues<M> {
    shards: usize,
    /// The queue from `a` to `b` is at `a * shards + b`.
    pairs: Vec<Queue<M>>,
    attached: Vec<AtomicBool>,
}

impl<M> Queues<M> {
    fn pair(&self, from: usize, to: usize) -> &Queue<M> {
        &self.pairs[from * self.shards + to]
    }
}

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        Mesh { queues: self.queues.clone() }
    }
}

impl<M: Send + 'static> Mesh<M> {
    pub(crate) fn new(shards: usize, capacity: usize) -> Self {
        assert!((1..=CAPACITY_MAX).contains(&capacity), "a queue holds 1 to {CAPACITY_MAX} messages");
        let pair = |index| Queue::new(if index / shards == index % shards { 1 } else { capacity });
        let queues = Queues {
            shards,
            pairs: (0..shards * shards).map(pair).collect(),
            attached: (0..shards).map(|_| AtomicBool::new(false)).collect(),
        };
        Mesh { queues: Arc::new(queues) }
    }

    pub(crate) fn attach(&self) -> Endpoint<M> {
        let me = context::with(|c| c.executor.shard().0 as usize);
        let queues = &self.queues;
        assert!(me < queues.shards, "the mesh was made for {} shards", queues.shards);
        assert!(!queues.attached[me].swap(true, Ordering::SeqCst), "shard {me} attaches twice");
        let state = Rc::new(State {
            queues: queues.clone(),
            me,
            outgoing: (0..queues.shards).map(|_| Outgoing::default()).collect(),
            incoming: (0..queues.shards).map(|_| Incoming::default()).collect(),
            receiver: RefCell::new(None),
            next: Cell::new(0),
            sent: Cell::new(0),
            detached: Cell::new(false),
        });
        context::with(|c| c.system().hooks.list.borrow_mut().push(state.clone()));
        Endpoint { state }
    }
}

/// The endpoints of a shard, as the loop of its backend sees them.
#[derive(Default)]
pub(crate) struct Hooks {
    list: RefCell<Vec<Rc<dyn Hook>>>,
    peers: RefCell<Vec<ShardId>>,
}

impl Hooks {
    /// Wakes the tasks for which there are messages or space.
    pub(crate) fn deliver(&self) {
        self.list.borrow().iter().for_each(|hook| hook.deliver());
    }

    /// Whether [`Hooks::deliver`] would wake a task. Reads memory only.
    pub(crate) fn has_news(&self) -> bool {
        self.list.borrow().iter().any(|hook| hook.has_news())
    }

    /// Publishes the queues to the other shards, and calls `wake` for each shard that has to be woken if it sleeps.
    pub(crate) fn publish(&self, mut wake: impl FnMut(ShardId)) {
        let (mut published, mut detached) = (false, false);
        for hook in self.list.borrow().iter() {
            published |= hook.publish();
            detached |= hook.is_detached();
        }
        if !published && !detached {
            return;
        }
        fence(Ordering::SeqCst);
        let mut peers = self.peers.borrow_mut();
        self.list.borrow().iter().for_each(|hook| hook.peers_to_wake(&mut peers));
        if detached {
            self.list.borrow_mut().retain(|hook| !hook.is_detached());
        }
        peers.drain(..).for_each(&mut wake);
    }

    /// Releases all endpoints.
    pub(crate) fn clear(&self) {
        self.list.borrow_mut().clear();
    }
}

/// An endpoint as the loop sees it, whatever the type of its messages.
trait Hook {
    /// Publishes what this shard has sent and taken; true if there was anything.
    fn publish(&self) -> bool;
    /// Adds the shards that have to be woken if they sleep. Called after a publish and a fence.
    fn peers_to_wake(&self, peers: &mut Vec<ShardId>);
    /// Wakes the tasks for which there are messages or space.
    fn deliver(&self);
    /// Whether `deliver` would wake a task. Reads memory only.
    fn has_news(&self) -> bool;
    /// Whether the endpoint was dropped, so that it can be released after one more publish.
    fn is_detached(&self) -> bool;
}

struct State<M> {
    queues: Arc<Queues<M>>,
    me: usize,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    receiver: RefCell<Option<Waker>>,
    /// The shard from whose queue the next message is taken first.
    next: Cell<usize>,
    sent: Cell<u64>,
    detached: Cell<bool>,
}

/// The producer's end of a queue.
#[derive(Default)]
struct Outgoing {
    tail: Cell<usize>,
    published: Cell<usize>,
    head_seen: Cell<usize>,
    /// Something was published for which the peer has not been woken.
    fresh: Cell<bool>,
    waiters: Waiters,
}

/// The consumer's end of a queue.
#[derive(Default)]
struct Incoming {
    head: Cell<usize>,
    published: Cell<usize>,
    tail_seen: Cell<usize>,
    fresh: Cell<bool>,
}

impl<M> State<M> {
    fn to(&self, peer: usize) -> &Queue<M> {
        self.queues.pair(self.me, peer)
    }

    fn from(&self, peer: usize) -> &Queue<M> {
        self.queues.pair(peer, self.me)
    }

    fn has_space(&self, peer: usize) -> bool {
        let (queue, end) = (self.to(peer), &self.outgoing[peer]);
        let full = |head: usize| end.tail.get().wrapping_sub(head) >= queue.capacity();
        if full(end.head_seen.get()) {
            end.head_seen.set(queue.published_head());
        }
        !full(end.head_seen.get())
    }

    fn has_message(&self, peer: usize) -> bool {
        let end = &self.incoming[peer];
        if end.head.get() == end.tail_seen.get() {
            end.tail_seen.set(self.from(peer).published_tail());
        }
        end.head.get() != end.tail_seen.get()
    }

    /// Publishes both ends of a pair; true if the peer may have to be woken for this or an earlier publish.
    fn publish_one(&self, peer: usize) -> bool {
        let (out, into) = (&self.outgoing[peer], &self.incoming[peer]);
        if out.tail.get() != out.published.get() {
            self.to(peer).publish_tail(out.tail.get());
            out.published.set(out.tail.get());
            out.fresh.set(true);
        }
        if into.head.get() != into.published.get() {
            self.from(peer).publish_head(into.head.get());
            into.published.set(into.head.get());
            into.fresh.set(true);
        }
        out.fresh.get() || into.fresh.get()
    }
}

impl<M> Drop for State<M> {
    fn drop(&mut self) {
        // The queues drop the messages between the published indices.
        for peer in 0..self.queues.shards {
            self.publish_one(peer);
        }
    }
}

impl<M: Send + 'static> Hook for State<M> {
    fn publish(&self) -> bool {
        (0..self.queues.shards).filter(|peer| self.publish_one(*peer)).count() > 0
    }

    fn peers_to_wake(&self, peers: &mut Vec<ShardId>) {
        for peer in 0..self.queues.shards {
            let space_wanted = self.incoming[peer].fresh.take() && self.from(peer).waiting.load(Ordering::Relaxed);
            if self.outgoing[peer].fresh.take() || space_wanted {
                peers.push(ShardId(peer as u16));
            }
        }
    }

    fn deliver(&self) {
        if self.receiver.borrow().is_some() && (0..self.queues.shards).any(|peer| self.has_message(peer)) {
            let receiver = self.receiver.borrow_mut().take();
            receiver.into_iter().for_each(Waker::wake);
        }
        for (peer, end) in self.outgoing.iter().enumerate() {
            if !end.waiters.is_empty() && self.has_space(peer) {
                self.to(peer).waiting.store(false, Ordering::Relaxed);
                let waiters = end.waiters.take();
                waiters.into_iter().for_each(Waker::wake);
            }
        }
    }

    fn has_news(&self) -> bool {
        let waits = self.receiver.borrow().is_some();
        waits && (0..self.queues.shards).any(|peer| self.has_message(peer))
            || (0..self.queues.shards).any(|p| !self.outgoing[p].waiters.is_empty() && self.has_space(p))
    }

    fn is_detached(&self) -> bool {
        self.detached.get()
    }
}

pub(crate) struct Endpoint<M> {
    state: Rc<State<M>>,
}

impl<M: Send + 'static> Endpoint<M> {
    #[expect(unsafe_code, reason = "see Queue::put")]
    pub(crate) fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        let (state, to) = (&self.state, to.0 as usize);
        assert!(to != state.me, "a shard calls itself, it does not send to itself");
        if !state.has_space(to) {
            // Without this a caller that retries before the loop turns would never see space.
            state.publish_one(to);
            return Err(message);
        }
        let end = &state.outgoing[to];
        // SAFETY: this shard is the producer (it attached once), and there is space at its tail.
        unsafe { state.to(to).put(end.tail.get(), message) };
        end.tail.set(end.tail.get().wrapping_add(1));
        state.sent.set(state.sent.get() + 1);
        Ok(())
    }

    pub(crate) async fn send(&self, to: ShardId, message: M) {
        let mut message = Some(message);
        std::future::poll_fn(|cx| {
            let Some(next) = message.take() else { return Poll::Ready(()) };
            let Err(back) = self.try_send(to, next) else { return Poll::Ready(()) };
            message = Some(back);
            let peer = to.0 as usize;
            self.state.outgoing[peer].waiters.add(cx);
            // The peer reads this after it has published its head; the loop reads the head again before it sleeps, with
            // a fence between.
            self.state.to(peer).waiting.store(true, Ordering::Relaxed);
            Poll::Pending
        })
        .await
    }

    pub(crate) async fn recv(&self) -> (ShardId, M) {
        std::future::poll_fn(|cx| match self.try_recv() {
            Some(message) => {
                self.state.receiver.borrow_mut().take();
                Poll::Ready(message)
            }
            None => {
                *self.state.receiver.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    #[expect(unsafe_code, reason = "see Queue::take")]
    pub(crate) fn try_recv(&self) -> Option<(ShardId, M)> {
        let state = &self.state;
        let shards = state.queues.shards;
        let first = state.next.get();
        for step in 0..shards {
            let peer = (first + step) % shards;
            if state.has_message(peer) {
                let end = &state.incoming[peer];
                // SAFETY: this shard is the consumer (it attached once), and the tail is beyond its head.
                let message = unsafe { state.from(peer).take(end.head.get()) };
                end.head.set(end.head.get().wrapping_add(1));
                state.next.set((peer + 1) % shards);
                return Some((ShardId(peer as u16), message));
            }
        }
        None
    }

    pub(crate) fn queued(&self, to: ShardId) -> usize {
        let (state, to) = (&self.state, to.0 as usize);
        state.outgoing[to].tail.get().wrapping_sub(state.to(to).published_head())
    }

    pub(crate) fn sent(&self) -> u64 {
        self.state.sent.get()
    }
}

impl<M> Drop for Endpoint<M> {
    fn drop(&mut self) {
        // The loop publishes once more, then releases the endpoint.
        self.state.detached.set(true);
    }
}
