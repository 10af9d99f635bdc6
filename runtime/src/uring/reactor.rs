//! The loop of one shard, and the parts of it that tasks reach through the context.
//!
//! Invariants: the sleep flag is set only around the wait, and the loop looks at everything that could have arrived
//! after setting it; `drain` returns only when no operation is under way, or when it leaks those that do not end.

use super::doorbell::Doorbell;
use super::operations::{Complete, Operation, OperationId, Operations, Payload, Running, Single};
use super::receive_buffers::ReceiveBuffers;
use super::ring::{Completion, Ring};
use super::signal::StopSignal;
use super::spin::Spin;
use super::stream::Connection;
use crate::context::{self, BackendContext};
use crate::executor::Executor;
use crate::ids::ShardId;
use crate::instant::Instant;
use crate::sync::Latch;
use crate::system::Shard;
use crate::system::node::{Bell, Node, monotonic};
use crate::system::send_queue::DirtyList;
use crate::system::slice::run_slice;
use io_uring::{cqueue, opcode, squeue, types};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The `user_data` of a wake-up, which belongs to no operation.
const WOKEN: u64 = u64::MAX;
/// The `user_data` of a failed `MSG_RING`, plus the number of the shard that it did not reach.
const NOT_WOKEN: u64 = 1 << 63;
/// How often a spinning loop looks at memory between two readings of the clock.
const SPINS_PER_CLOCK: u32 = 16;
/// How long a stop waits for sends before it cancels them.
const DRAIN_SENDS: Duration = Duration::from_secs(1);
/// How long a stop waits for cancelled operations before it leaks their memory.
const DRAIN_ALL: Duration = Duration::from_secs(10);

/// The context's handle on a shard's core; cheap to clone.
#[derive(Clone)]
pub(crate) struct Reactor {
    pub(super) core: Rc<Core>,
}

pub(super) struct Core {
    // Dropped first, because the kernel writes to the fields that follow.
    ring: Ring,
    pub(super) buffers: ReceiveBuffers,
    operations: RefCell<Operations>,
    pub(super) dirty: DirtyList<Connection>,
    pub(super) system: Shard,
    node: Arc<Node<Doorbell>>,
    spin: Spin,
    shard: ShardId,
    signal: Rc<StopSignal>,
    /// Where the kernel writes the event counter.
    event_count: UnsafeCell<u64>,
    completions: Cell<Vec<Completion>>,
    /// The shard is stopping: nothing is armed again.
    stopping: Cell<bool>,
    /// The stop has waited long enough: sends are cancelled.
    cutting: Cell<bool>,
}

/// The core of the current shard. Panics outside a shard of this backend.
pub(super) fn current() -> Rc<Core> {
    context::with(|c| match &c.backend {
        BackendContext::Uring(reactor) => reactor.core.clone(),
        _ => panic!("a uring object is used on another backend"),
    })
}

impl Reactor {
    /// Creates the core and the ring of the calling thread's shard.
    pub(super) fn new(node: Arc<Node<Doorbell>>, shard: ShardId) -> io::Result<Reactor> {
        let ring = Ring::new()?;
        let buffers = ReceiveBuffers::register(&ring)?;
        node.bell(shard).set_ring(ring.fd());
        let core = Rc::new(Core {
            ring,
            buffers,
            operations: RefCell::default(),
            dirty: DirtyList::default(),
            system: Shard::new(node.helpers.clone(), node.calculators.clone())?,
            spin: Spin::new(node.spin),
            node,
            shard,
            signal: Rc::default(),
            event_count: UnsafeCell::new(0),
            completions: Cell::default(),
            stopping: Cell::new(false),
            cutting: Cell::new(false),
        });
        core.await_event();
        Ok(Reactor { core })
    }

    pub(crate) fn monotonic(&self) -> Instant {
        monotonic()
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        self.core.node.wall_micros()
    }

    pub(crate) fn system(&self) -> &Shard {
        &self.core.system
    }

    /// The number of operations under way, one of which waits for other threads.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.core.operations.borrow().len()
    }

    /// The latch that a stop signal sets.
    pub(crate) fn terminated(&self) -> Latch {
        self.core.signal.listen(&self.core)
    }

    /// Runs the loop until the `main` of every shard has returned. The caller has entered the shard.
    pub(super) fn run(&self, executor: &Executor) {
        let core = &self.core;
        while !core.node.all_returned() {
            let now = monotonic();
            executor.fire_timers(now);
            core.reap();
            executor.drain_inbox();
            core.system.hooks.deliver();
            run_slice(executor);
            core.flush();
            core.publish();
            core.wait(executor);
        }
        core.flush();
        core.publish();
        core.ring.submit();
    }

    /// Waits for all operations to end. The caller has dropped all tasks.
    pub(super) fn drain(&self, executor: &Executor) {
        let core = &self.core;
        core.system.hooks.clear();
        core.flush();
        core.stopping.set(true);
        let start = monotonic();
        core.cancel_where(Operation::is_passive);
        while core.operations.borrow().len() > 0 {
            let waited = monotonic().since(start);
            if waited > DRAIN_ALL {
                tracing::error!(shard = %core.shard, "operations do not end, their memory is leaked");
                std::mem::forget(core.clone());
                return;
            }
            if waited > DRAIN_SENDS && !core.cutting.replace(true) {
                core.cancel_where(|_| true);
            }
            core.ring.wait(Some(Duration::from_millis(100)));
            core.reap();
            core.flush();
        }
        executor.drain_inbox();
    }
}

impl Core {
    /// Starts an operation.
    ///
    /// # Safety
    /// `operation` owns everything that `entry` points to, or it lives as long as the ring; and it does not move.
    #[expect(unsafe_code, reason = "the kernel reads and writes the memory that the entry names")]
    pub(super) unsafe fn start(&self, operation: Operation, entry: squeue::Entry) -> OperationId {
        let id = self.operations.borrow_mut().insert(operation);
        // SAFETY: the slab keeps `operation` until its last completion.
        unsafe { self.ring.push(entry.user_data(id.0)) };
        id
    }

    /// Starts an operation with one result. `entry` builds its queue entry from the payload in its final place.
    ///
    /// # Safety
    /// The payload owns everything that the entry points to.
    #[expect(unsafe_code, reason = "see start")]
    pub(super) unsafe fn single<P: Payload>(
        &self,
        payload: P,
        entry: impl FnOnce(&mut P) -> squeue::Entry,
    ) -> Running<P> {
        let single = Single::new(payload);
        let entry = single.payload.borrow_mut().as_mut().map(entry).expect("just put there");
        let operation: Rc<dyn Complete> = single.clone();
        // SAFETY: the payload stays in its Rc until the result is there; the rest is the caller's promise.
        unsafe { self.start(Operation::Single(operation), entry) };
        Running(single)
    }

    /// Asks the kernel to cancel an operation; its completion still arrives.
    #[expect(unsafe_code, reason = "see start")]
    pub(super) fn cancel(&self, id: OperationId) {
        // SAFETY: the entry points to nothing.
        unsafe { self.start(Operation::Silent, opcode::AsyncCancel::new(id.0).build()) };
    }

    fn cancel_where(&self, which: impl Fn(&Operation) -> bool) {
        let selected = self.operations.borrow().select(which);
        selected.into_iter().for_each(|id| self.cancel(id));
    }

    /// Closes a descriptor, after the operations on it that were started before have been submitted.
    #[expect(unsafe_code, reason = "see start")]
    pub(super) fn close(&self, descriptor: RawFd) {
        // SAFETY: the entry points to nothing.
        unsafe { self.start(Operation::Silent, opcode::Close::new(types::Fd(descriptor)).build()) };
    }

    /// Whether the shard is stopping, so that nothing is armed again.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Whether the stop has waited long enough, so that sends are cancelled.
    pub(super) fn is_cutting(&self) -> bool {
        self.cutting.get()
    }

    fn reap(self: &Rc<Core>) {
        let mut completions = self.completions.take();
        self.ring.reap(&mut completions);
        for completion in completions.drain(..) {
            self.dispatch(completion);
        }
        self.completions.set(completions);
    }

    fn dispatch(self: &Rc<Core>, completion: Completion) {
        let Completion { user_data, result, flags } = completion;
        if user_data & NOT_WOKEN != 0 {
            if user_data != WOKEN && result < 0 {
                self.node.bell(ShardId(user_data as u16)).ring();
            }
            return;
        }
        let more = cqueue::more(flags);
        let operation = self.operations.borrow_mut().complete(OperationId(user_data), more);
        match operation {
            Some(Operation::Single(single)) => single.complete(result),
            Some(Operation::Accept(listener)) => listener.accepted(OperationId(user_data), result),
            Some(Operation::Receive(connection)) => connection.received(result, flags),
            Some(Operation::Send(connection)) => connection.sent(result),
            Some(Operation::Rouse) => self.await_event(),
            Some(Operation::Signal(state)) => state.arrived(self, result),
            Some(Operation::Silent) => {}
            None => tracing::error!(shard = %self.shard, user_data, "completion of no operation"),
        }
    }

    #[expect(unsafe_code, reason = "see start")]
    fn await_event(&self) {
        if self.stopping.get() {
            return;
        }
        let event = types::Fd(self.node.bell(self.shard).event());
        let entry = opcode::Read::new(event, self.event_count.get().cast(), 8).build();
        // SAFETY: the word lives in the core, which outlives the ring in it and never moves; nobody else touches it.
        unsafe { self.start(Operation::Rouse, entry) };
    }

    fn flush(&self) {
        self.dirty.flush(|connection| connection.flush());
    }

    /// Publishes the queues to other shards and wakes those that sleep.
    #[expect(unsafe_code, reason = "see Ring::push")]
    fn publish(&self) {
        self.system.hooks.publish(|shard| {
            if self.node.must_wake(shard) {
                let word = NOT_WOKEN | shard.0 as u64;
                let ring = types::Fd(self.node.bell(shard).target());
                let entry = opcode::MsgRingData::new(ring, 0, WOKEN, None).build();
                // SAFETY: the entry points to nothing; the other ring lives until all shards have stopped.
                unsafe { self.ring.push(entry.user_data(word).flags(squeue::Flags::SKIP_SUCCESS)) };
            }
        });
    }

    /// Whether the next turn of the loop has anything to do for others. Reads memory only.
    fn has_news(&self, executor: &Executor) -> bool {
        self.ring.has_events() || executor.inbox_filled() || self.system.hooks.has_news() || self.node.all_returned()
    }

    /// Submits; if there is nothing to do, spins and then sleeps until there is.
    fn wait(&self, executor: &Executor) {
        if executor.has_ready() || !self.dirty.is_empty() {
            return self.ring.submit();
        }
        let deadline = executor.next_deadline().unwrap_or(Instant(u64::MAX));
        let start = monotonic();
        let spin = self.spin.length(start);
        if !spin.is_zero() {
            self.ring.submit();
            let end = start.after(spin).min(deadline);
            let mut last = start;
            while last < end {
                let news = (0..SPINS_PER_CLOCK).any(|_| {
                    std::hint::spin_loop();
                    self.has_news(executor)
                });
                let now = monotonic();
                let undisturbed = self.spin.looked(last, now);
                if news {
                    return self.spin.waited(now.since(start));
                }
                if !undisturbed {
                    break;
                }
                last = now;
            }
        }
        self.node.fall_asleep(self.shard);
        if self.has_news(executor) {
            self.ring.submit();
        } else {
            let now = monotonic();
            if deadline == Instant(u64::MAX) {
                self.ring.wait(None);
            } else if deadline > now {
                self.ring.wait(Some(deadline.since(now)));
            } else {
                self.ring.submit();
            }
        }
        self.spin.waited(monotonic().since(start));
        self.node.awake(self.shard);
    }
}
