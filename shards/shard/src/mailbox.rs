//! Calls between cores: requests out, replies back to the waiting task.
//!
//! 1. A call takes a slot, sends its request with the slot's number and generation, and waits.
//! 2. One task per shard receives (`start`): a reply completes the slot it names, a request is served and answered
//!    (`dispatch`).
//! 3. A caller that gives up frees its slot; the reply that comes later finds another generation and is dropped.
//!
//! Invariants: nobody waits for space in a queue but tasks made for it, so two full queues cannot wait for each other;
//! each request gets exactly one reply; calls for clients in flight are at most [`CALLS_MAX`].

use crate::messages::{Message, Reply, Request};
use crate::query_trace;
use runtime::metrics::Counter;
use runtime::{Endpoint, ShardId};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Queue length from one core to another.
pub const MAILBOX_MESSAGES_MAX: usize = 1024;
/// Most calls of one shard for its clients that wait for other shards; one more is OVERLOADED.
pub(crate) const CALLS_MAX: usize = 16384;

/// One shard's end of the calls between cores. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Mailbox {
    inner: Rc<Inner>,
}

struct Inner {
    endpoint: Endpoint<Message>,
    calls: RefCell<Calls>,
    sent: Counter,
    tracing: Rc<query_trace::TraceSlot>,
}

#[derive(Default)]
struct Calls {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    state: SlotState,
}

enum SlotState {
    Free,
    Waiting(Option<Waker>),
    Answered(Reply),
}

impl Mailbox {
    pub(crate) fn new(endpoint: Endpoint<Message>) -> Mailbox {
        Mailbox {
            inner: Rc::new(Inner {
                endpoint,
                calls: RefCell::default(),
                sent: Counter::default(),
                tracing: Rc::default(),
            }),
        }
    }

    /// Whether one more call for a client may start.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting() < CALLS_MAX
    }

    /// Calls that wait for their replies.
    pub(crate) fn waiting(&self) -> usize {
        let calls = self.inner.calls.borrow();
        calls.slots.len() - calls.free.len()
    }

    /// Messages that another shard has not taken yet.
    pub(crate) fn queued(&self, to: ShardId) -> usize {
        self.inner.endpoint.queued(to)
    }

    /// Requests sent since the start.
    pub(crate) fn sent(&self) -> u64 {
        self.inner.sent.get()
    }

    /// Holds the trace of the current request.
    pub(crate) fn tracing(&self) -> &Rc<query_trace::TraceSlot> {
        &self.inner.tracing
    }

    /// Sends `request` to another shard; await the call for its reply. The request's trace goes with it.
    pub(crate) fn call(&self, to: ShardId, request: Request) -> Call {
        let trace = self.inner.tracing.get();
        let request = match &trace {
            None => request,
            Some(trace) => Request::Traced { began: trace.began(), request: Box::new(request) },
        };
        let waiting = self.register();
        self.inner.sent.increment();
        self.send(to, Message::Request { id: waiting.id, request });
        Call { waiting, trace }
    }

    fn register(&self) -> Waiting {
        let mut calls = self.inner.calls.borrow_mut();
        let index = match calls.free.pop() {
            Some(index) => index,
            None => {
                calls.slots.push(Slot { generation: 0, state: SlotState::Free });
                (calls.slots.len() - 1) as u32
            }
        };
        let slot = &mut calls.slots[index as usize];
        slot.state = SlotState::Waiting(None);
        Waiting { inner: self.inner.clone(), id: u64::from(slot.generation) << 32 | u64::from(index) }
    }

    /// Completes the call that `id` names, unless its caller gave up.
    pub(crate) fn complete(&self, id: u64, reply: Reply) {
        let mut calls = self.inner.calls.borrow_mut();
        let Some(slot) = calls.slots.get_mut(id as u32 as usize) else { return };
        if u64::from(slot.generation) != id >> 32 {
            return;
        }
        if let SlotState::Waiting(waker) = std::mem::replace(&mut slot.state, SlotState::Answered(reply)) {
            drop(calls);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Answers a request.
    pub(crate) fn answer(&self, to: ShardId, id: u64, reply: Reply) {
        self.send(to, Message::Reply { id, reply });
    }

    /// Sends without waiting: a message that finds a full queue waits in a task of its own.
    fn send(&self, to: ShardId, message: Message) {
        if let Err(message) = self.inner.endpoint.try_send(to, message) {
            let inner = self.inner.clone();
            runtime::spawn(async move { inner.endpoint.send(to, message).await });
        }
    }

    /// Sends a message that is not a call, waiting for room in the queue.
    pub(crate) async fn post(&self, to: ShardId, message: Message) {
        self.inner.endpoint.send(to, message).await;
    }

    /// The next message. Only one task may wait here.
    pub(crate) async fn recv(&self) -> (ShardId, Message) {
        self.inner.endpoint.recv().await
    }

    /// The next message, if it is there.
    pub(crate) fn try_recv(&self) -> Option<(ShardId, Message)> {
        self.inner.endpoint.try_recv()
    }
}

/// A call under way: awaited for its reply, dropped to give up.
pub(crate) struct Call {
    waiting: Waiting,
    trace: Option<query_trace::Trace>,
}

impl Future for Call {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let reply = std::task::ready!(self.waiting.poll_reply(cx));
        Poll::Ready(match (reply, self.trace.take()) {
            (Reply::Traced { reply, events }, Some(trace)) => {
                trace.add(events);
                *reply
            }
            (reply, _) => reply,
        })
    }
}

/// The slot of a call under way: free again when this is dropped.
struct Waiting {
    inner: Rc<Inner>,
    id: u64,
}

impl Waiting {
    fn poll_reply(&self, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut calls = self.inner.calls.borrow_mut();
        let slot = &mut calls.slots[self.id as u32 as usize];
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Answered(reply) => Poll::Ready(reply),
            SlotState::Waiting(_) | SlotState::Free => {
                slot.state = SlotState::Waiting(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut calls = self.inner.calls.borrow_mut();
        let index = self.id as u32;
        let slot = &mut calls.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let unread = std::mem::replace(&mut slot.state, SlotState::Free);
        calls.free.push(index);
        drop(calls);
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Failure;
    use runtime::mesh::{Mesh, NodeId};
    use runtime::sim::{Options, Sim, Stop};
    use std::cell::Cell;
    use std::time::Duration;

    /// Runs `main` on two shards with a mailbox each.
    fn on_two<Fut: Future<Output = ()> + 'static>(main: impl Fn(u16, Mailbox) -> Fut + 'static) {
        let mut sim = Sim::new(1, Options::default());
        let mesh = Mesh::simulated(2, 16);
        let done = Rc::new(Cell::new(0));
        let counted = done.clone();
        let main = Rc::new(main);
        sim.start_node(NodeId(1), 2, move |shard| {
            let (mesh, counted, main) = (mesh.clone(), counted.clone(), main.clone());
            async move {
                main(shard.0, Mailbox::new(mesh.attach())).await;
                counted.set(counted.get() + 1);
            }
        });
        assert_eq!(sim.run_until(Duration::from_secs(60), || done.get() == 2), Stop::Condition);
    }

    /// Answers `count` requests; the text of a failure tells which.
    async fn answer(mailbox: &Mailbox, count: usize) {
        for _ in 0..count {
            let (from, Message::Request { id, request }) = mailbox.recv().await else { panic!("a request") };
            let Request::FindPrepared(which) = request else { panic!("a search") };
            mailbox.answer(from, id, Reply::Done(Err(Failure::invalid(format!("{}", which[0])))));
        }
    }

    fn receive(mailbox: &Mailbox) {
        let mailbox = mailbox.clone();
        runtime::spawn(async move {
            loop {
                let (_, Message::Reply { id, reply }) = mailbox.recv().await else { panic!("a reply") };
                mailbox.complete(id, reply);
            }
        });
    }

    async fn ask(mailbox: Mailbox, which: u8) -> String {
        let reply = mailbox.call(ShardId(1), Request::FindPrepared([which; 16])).await;
        reply.done().expect_err("which").text.into_owned()
    }

    #[test]
    fn more_calls_than_the_queue_holds_get_their_own_replies() {
        on_two(|shard, mailbox| async move {
            if shard == 1 {
                return answer(&mailbox, 100).await;
            }
            receive(&mailbox);
            let calls: Vec<_> = (0..100).map(|n| runtime::spawn(ask(mailbox.clone(), n))).collect();
            for (n, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await, n.to_string());
            }
            assert_eq!(mailbox.sent(), 100);
            assert!(mailbox.has_room());
        });
    }

    #[test]
    fn a_reply_after_its_caller_gave_up_is_nobody_s() {
        on_two(|shard, mailbox| async move {
            if shard == 1 {
                runtime::sleep(Duration::from_secs(1)).await;
                return answer(&mailbox, 2).await;
            }
            receive(&mailbox);
            assert_eq!(runtime::timeout(Duration::from_millis(1), ask(mailbox.clone(), 1)).await, None);
            // Takes the slot that the first call left.
            assert_eq!(ask(mailbox.clone(), 2).await, "2");
            assert_eq!(mailbox.inner.calls.borrow().slots.len(), 1);
        });
    }

    #[test]
    fn there_is_room_up_to_the_limit() {
        on_two(|_, mailbox| async move {
            let mut waiting: Vec<Waiting> = (1..CALLS_MAX).map(|_| mailbox.register()).collect();
            assert!(mailbox.has_room());
            waiting.push(mailbox.register());
            assert!(!mailbox.has_room());
            assert_eq!(mailbox.waiting(), CALLS_MAX);
            waiting.pop();
            assert!(mailbox.has_room());
        });
    }
}
