//! The loop of one shard, and what its tasks reach through the ambient context.
//!
//! Invariants: a sleeping flag is set only around the wait, and everything that could have arrived is looked at after
//! setting it; `drain` ends only when no operation is under way.

use super::doorbell::Doorbell;
use super::lent::LentBuffers;
use super::operations::{Complete, Operation, OperationId, Operations, Payload, Running, Single};
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

/// Words of completions that belong to no operation.
const WOKEN: u64 = u64::MAX;
/// Plus the shard that `MSG_RING` did not reach.
const NOT_WOKEN: u64 = 1 << 63;
/// Looks at memory between two looks at the clock while spinning.
const SPINS_PER_CLOCK: u32 = 16;
/// How long a stop waits for sends before it cuts them off.
const DRAIN_SENDS: Duration = Duration::from_secs(1);
/// How long a stop waits for the kernel to end cancelled operations before it leaks them.
const DRAIN_ALL: Duration = Duration::from_secs(10);

/// The shard's handle on its core; cheap to clone.
#[derive(Clone)]
pub(crate) struct Reactor {
    pub(super) core: Rc<Core>,
}

pub(super) struct Core {
    // Dropped first: the kernel writes into what follows.
    ring: Ring,
    pub(super) buffers: LentBuffers,
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
    /// Set when nothing may be armed any more.
    stopping: Cell<bool>,
    /// Set when what is left to send is not sent any more.
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
    /// Makes the ring of the calling thread.
    pub(super) fn new(node: Arc<Node<Doorbell>>, shard: ShardId) -> io::Result<Reactor> {
        let ring = Ring::new()?;
        let buffers = LentBuffers::register(&ring)?;
        node.bell(shard).set_ring(ring.fd());
        let core = Rc::new(Core {
            ring,
            buffers,
            operations: RefCell::default(),
            dirty: DirtyList::default(),
            system: Shard::new(node.helpers.clone())?,
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

    /// Operations under way; one is the wait for other threads.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.core.operations.borrow().len()
    }

    /// What is set when a stop signal arrives.
    pub(crate) fn terminated(&self) -> Latch {
        self.core.signal.listen(&self.core)
    }

    /// Turns the loop until the mains of all shards have returned. The caller has entered the shard.
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

    /// Ends every operation. The caller has dropped all tasks.
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
    /// What `entry` points to is owned by `operation`, or lives as long as the ring, and stays in place.
    #[expect(unsafe_code, reason = "the kernel reads and writes the memory that the entry names")]
    pub(super) unsafe fn start(&self, operation: Operation, entry: squeue::Entry) -> OperationId {
        let id = self.operations.borrow_mut().insert(operation);
        // SAFETY: the slab keeps `operation` until its last completion.
        unsafe { self.ring.push(entry.user_data(id.0)) };
        id
    }

    /// Starts an operation with one result. `entry` is built from the payload in its final place.
    ///
    /// # Safety
    /// What the entry points to is owned by the payload.
    #[expect(unsafe_code, reason = "see start")]
    pub(super) unsafe fn single<P: Payload>(
        &self,
        payload: P,
        entry: impl FnOnce(&mut P) -> squeue::Entry,
    ) -> Running<P> {
        let single = Single::new(payload);
        let entry = single.payload.borrow_mut().as_mut().map(entry).expect("just put there");
        let operation: Rc<dyn Complete> = single.clone();
        // SAFETY: the payload stays in its Rc until the result is there, and is the caller's promise otherwise.
        unsafe { self.start(Operation::Single(operation), entry) };
        Running(single)
    }

    /// Asks the kernel to end an operation; its completion still comes.
    #[expect(unsafe_code, reason = "see start")]
    pub(super) fn cancel(&self, id: OperationId) {
        // SAFETY: the entry points to nothing.
        unsafe { self.start(Operation::Silent, opcode::AsyncCancel::new(id.0).build()) };
    }

    fn cancel_where(&self, which: impl Fn(&Operation) -> bool) {
        let selected = self.operations.borrow().select(which);
        selected.into_iter().for_each(|id| self.cancel(id));
    }

    /// Closes a descriptor after all operations that were started before on this ring with it have been submitted.
    #[expect(unsafe_code, reason = "see start")]
    pub(super) fn close(&self, descriptor: RawFd) {
        // SAFETY: the entry points to nothing.
        unsafe { self.start(Operation::Silent, opcode::Close::new(types::Fd(descriptor)).build()) };
    }

    /// Whether the shard is past its last task: nothing is armed again.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Whether a stop has waited long enough for sends.
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
            Some(Operation::Accept(listener)) => listener.accepted(self, result, more),
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

    /// Shows the other shards what was queued for them and wakes those that sleep.
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

    /// Whether anything waits for the loop to turn. Reads memory only.
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
