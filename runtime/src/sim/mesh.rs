//! The queues between simulated shards: in order per pair, shuffled between pairs, delayed, never lost.
//!
//! 1. A message enters the queue of its pair when it is sent, and arrives at a later event.
//! 2. The receiver takes the oldest message of a random pair among those with arrived messages.
//! 3. That frees a place in the queue; a later event wakes the senders that wait for one.

use super::node::Caller;
use crate::ids::ShardId;
use std::collections::VecDeque;
use std::future::poll_fn;
#[expect(clippy::disallowed_types, reason = "the queues are made before the node starts and captured by its main")]
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

struct Pair<M> {
    queue: VecDeque<M>,
    /// Tasks that wait for a place in the queue.
    senders: Vec<Waker>,
}

struct Mailbox {
    attached: bool,
    /// The sender of each arrived message that was not taken.
    arrived: Vec<u16>,
    receiver: Option<Waker>,
}

struct State<M> {
    capacity: usize,
    /// The queue from `a` to `b` is at `a * shards + b`.
    pairs: Vec<Pair<M>>,
    mailboxes: Vec<Mailbox>,
}

#[expect(clippy::disallowed_types, reason = "see the import")]
pub(crate) struct Mesh<M> {
    state: Arc<Mutex<State<M>>>,
    shards: usize,
}

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        Mesh { state: self.state.clone(), shards: self.shards }
    }
}

impl<M> Mesh<M> {
    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().expect("nothing panics while it is locked")
    }
}

impl<M: Send + 'static> Mesh<M> {
    #[expect(clippy::disallowed_types, reason = "see the import")]
    pub(crate) fn new(shards: usize, capacity: usize) -> Self {
        let pairs = (0..shards * shards).map(|_| Pair { queue: VecDeque::new(), senders: Vec::new() }).collect();
        let mailboxes = (0..shards).map(|_| Mailbox { attached: false, arrived: Vec::new(), receiver: None }).collect();
        let capacity = capacity.max(1).next_power_of_two();
        Mesh { state: Arc::new(Mutex::new(State { capacity, pairs, mailboxes })), shards }
    }

    pub(crate) fn attach(&self) -> Endpoint<M> {
        let shard = crate::context::with(|c| c.executor.shard());
        let mut state = self.state();
        let mailbox = &mut state.mailboxes[usize::from(shard.0)];
        let before = std::mem::replace(&mut mailbox.attached, true);
        drop(state);
        assert!(!before, "shard {shard} is attached already");
        Endpoint { mesh: self.clone(), caller: Caller::current(), shard, sent: crate::counts::Counter::default() }
    }
}

pub(crate) struct Endpoint<M> {
    mesh: Mesh<M>,
    caller: Caller,
    shard: ShardId,
    sent: crate::counts::Counter,
}

impl<M: Send + 'static> Endpoint<M> {
    fn pair(&self, from: u16, to: u16) -> usize {
        usize::from(from) * self.mesh.shards + usize::from(to)
    }

    pub(crate) fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        assert!(to != self.shard && usize::from(to.0) < self.mesh.shards, "no queue to shard {to}");
        let node = &self.caller.node;
        if !node.alive.get() {
            return Err(message);
        }
        let pair = self.pair(self.shard.0, to.0);
        {
            let mut state = self.mesh.state();
            if state.pairs[pair].queue.len() >= state.capacity {
                return Err(message);
            }
            state.pairs[pair].queue.push_back(message);
        }
        self.sent.increment();
        node.messages.set(node.messages.get() + 1);
        let world = &self.caller.world;
        let delay = world.scheduler.between(world.options.borrow().mesh_latency);
        let (mesh, from, receiver) = (self.mesh.clone(), self.shard.0, node.first_shard + u32::from(to.0));
        world.call(node, Caller::current().now + delay, false, move |world| {
            let waker = {
                let mailbox = &mut mesh.state().mailboxes[usize::from(to.0)];
                mailbox.arrived.push(from);
                mailbox.receiver.take()
            };
            if let Some(waker) = waker {
                world.wake(receiver, waker);
            }
        });
        Ok(())
    }

    pub(crate) async fn send(&self, to: ShardId, message: M) {
        let mut message = Some(message);
        poll_fn(|cx| {
            let Some(unsent) = message.take() else { return Poll::Ready(()) };
            match self.try_send(to, unsent) {
                Ok(()) => Poll::Ready(()),
                Err(unsent) => {
                    message = Some(unsent);
                    let pair = self.pair(self.shard.0, to.0);
                    self.mesh.state().pairs[pair].senders.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
    }

    pub(crate) async fn recv(&self) -> (ShardId, M) {
        poll_fn(|cx| match self.try_recv() {
            Some(received) => Poll::Ready(received),
            None => {
                self.mesh.state().mailboxes[usize::from(self.shard.0)].receiver = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    pub(crate) fn try_recv(&self) -> Option<(ShardId, M)> {
        let world = &self.caller.world;
        let (from, message, senders) = {
            let mut state = self.mesh.state();
            let arrived = &mut state.mailboxes[usize::from(self.shard.0)].arrived;
            if arrived.is_empty() {
                return None;
            }
            let chosen = world.scheduler.below(arrived.len() as u64) as usize;
            let from = arrived.swap_remove(chosen);
            let pair = self.pair(from, self.shard.0);
            let pair = &mut state.pairs[pair];
            (from, pair.queue.pop_front()?, std::mem::take(&mut pair.senders))
        };
        if !senders.is_empty() {
            let delay = world.scheduler.between(world.options.borrow().mesh_latency);
            let sender = self.caller.node.first_shard + u32::from(from);
            world.call(&self.caller.node, Caller::current().now + delay, false, move |world| {
                senders.into_iter().for_each(|waker| world.wake(sender, waker));
            });
        }
        Some((ShardId(from), message))
    }

    pub(crate) fn queued(&self, to: ShardId) -> usize {
        self.mesh.state().pairs[self.pair(self.shard.0, to.0)].queue.len()
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.get()
    }
}
