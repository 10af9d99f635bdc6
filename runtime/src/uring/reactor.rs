//! The loop of one shard, and what its tasks reach through the ambient context.
//!
//! Invariants: a sleeping flag is set only around the wait, and everything that could have arrived is looked at after
//! setting it; `drain` ends only when no operation is under way.

use super::disk::Admission;
use super::lent::LentBuffers;
use super::mesh::Hook;
use super::node::{Node, monotonic};
use super::operations::{Complete, Operation, OperationId, Operations, Payload, Running, Single};
use super::ring::{Completion, Ring};
use super::signal::{SignalState, Terminated};
use super::stream::Connection;
use crate::context::{self, BackendContext};
use crate::executor::Executor;
use crate::mesh::ShardId;
use crate::rng::Rng;
use crate::time::Instant;
use io_uring::{cqueue, opcode, squeue, types};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// How long tasks run before connections are flushed and completions reaped again.
const SLICE: Duration = Duration::from_micros(500);
/// A poll longer than this is logged: it delays everything else on the core.
const STALL: Duration = Duration::from_millis(1);
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
    dirty: RefCell<Vec<Rc<Connection>>>,
    hooks: RefCell<Vec<Rc<dyn Hook>>>,
    wake: RefCell<Vec<ShardId>>,
    pub(super) node: Arc<Node>,
    pub(super) shard: ShardId,
    random: RefCell<Rng>,
    signal: Rc<SignalState>,
    pub(super) admission: Admission,
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
        BackendContext::Sim(_) => panic!("a uring object is used in a simulation"),
    })
}

impl Reactor {
    /// Makes the ring of the calling thread.
    pub(super) fn new(node: Arc<Node>, shard: ShardId) -> io::Result<Reactor> {
        let ring = Ring::new()?;
        let buffers = LentBuffers::register(&ring)?;
        node.set_ring(shard, ring.fd());
        let core = Rc::new(Core {
            ring,
            buffers,
            operations: RefCell::default(),
            dirty: RefCell::default(),
            hooks: RefCell::default(),
            wake: RefCell::default(),
            node,
            shard,
            random: RefCell::new(Rng::new(seed()?)),
            signal: Rc::default(),
            admission: Admission::default(),
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

    pub(crate) fn random(&self) -> u64 {
        self.core.random.borrow_mut().next_u64()
    }

    pub(crate) fn terminated(&self) -> Terminated {
        Terminated::new(&self.core, self.core.signal.clone())
    }

    /// Turns the loop until the mains of all shards have returned. The caller has entered the shard.
    pub(super) fn run(&self, executor: &Executor) {
        let core = &self.core;
        while !core.node.all_returned() {
            let now = monotonic();
            executor.fire_timers(now);
            core.reap();
            executor.drain_inbox();
            core.hooks.borrow().iter().for_each(|hook| hook.deliver());
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
        core.hooks.borrow_mut().clear();
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

/// Polls ready tasks until there are none or the slice is over.
fn run_slice(executor: &Executor) {
    let mut before = monotonic();
    let end = before.after(SLICE);
    executor.slice_end.set(end);
    while before < end && executor.poll_one() {
        let after = monotonic();
        executor.charge(after.since(before).as_nanos() as u64);
        if !cfg!(debug_assertions) && after.since(before) > STALL {
            let micros = after.since(before).as_micros() as u64;
            tracing::warn!(shard = %executor.shard(), micros, "{} held its core", executor.last_polled());
        }
        before = after;
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

    /// Operations under way; one is the wait for other threads.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.operations.borrow().len()
    }

    /// Whether the shard is past its last task: nothing is armed again.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Whether a stop has waited long enough for sends.
    pub(super) fn is_cutting(&self) -> bool {
        self.cutting.get()
    }

    /// Remembers a connection that has bytes to send, for the flush of this turn.
    pub(super) fn mark_dirty(&self, connection: Rc<Connection>) {
        self.dirty.borrow_mut().push(connection);
    }

    pub(super) fn add_hook(&self, hook: Rc<dyn Hook>) {
        self.hooks.borrow_mut().push(hook);
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
                self.node.write_event(ShardId(user_data as u16));
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
        let event = types::Fd(self.node.event(self.shard));
        let entry = opcode::Read::new(event, self.event_count.get().cast(), 8).build();
        // SAFETY: the word lives in the core, which outlives the ring in it and never moves; nobody else touches it.
        unsafe { self.start(Operation::Rouse, entry) };
    }

    fn flush(&self) {
        if self.dirty.borrow().is_empty() {
            return;
        }
        let mut dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        for connection in dirty.drain(..) {
            connection.flush();
        }
        let mut now = self.dirty.borrow_mut();
        if now.is_empty() {
            *now = dirty;
        }
    }

    /// Shows the other shards what was queued for them and wakes those that sleep.
    #[expect(unsafe_code, reason = "see Ring::push")]
    fn publish(&self) {
        let (mut published, mut detached) = (false, false);
        for hook in self.hooks.borrow().iter() {
            published |= hook.publish();
            detached |= hook.is_detached();
        }
        if !published && !detached {
            return;
        }
        fence(Ordering::SeqCst);
        let mut wake = self.wake.borrow_mut();
        self.hooks.borrow().iter().for_each(|hook| hook.peers_to_wake(&mut wake));
        if detached {
            self.hooks.borrow_mut().retain(|hook| !hook.is_detached());
        }
        for shard in wake.drain(..) {
            if self.node.must_wake(shard) {
                let word = NOT_WOKEN | shard.0 as u64;
                let entry = opcode::MsgRingData::new(types::Fd(self.node.ring(shard)), 0, WOKEN, None).build();
                // SAFETY: the entry points to nothing; the other ring lives until all shards have stopped.
                unsafe { self.ring.push(entry.user_data(word).flags(squeue::Flags::SKIP_SUCCESS)) };
            }
        }
    }

    /// Whether anything waits for the loop to turn. Reads memory only.
    fn has_news(&self, executor: &Executor) -> bool {
        self.ring.has_events()
            || executor.inbox_filled()
            || self.hooks.borrow().iter().any(|hook| hook.has_news())
            || self.node.all_returned()
    }

    /// Submits; if there is nothing to do, spins and then sleeps until there is.
    fn wait(&self, executor: &Executor) {
        if executor.has_ready() || !self.dirty.borrow().is_empty() {
            return self.ring.submit();
        }
        let deadline = executor.next_deadline().unwrap_or(Instant(u64::MAX));
        if !self.node.spin.is_zero() {
            self.ring.submit();
            let start = monotonic();
            let end = start.after(self.node.spin).min(deadline);
            loop {
                for _ in 0..SPINS_PER_CLOCK {
                    if self.has_news(executor) {
                        return;
                    }
                    std::hint::spin_loop();
                }
                if monotonic() >= end {
                    break;
                }
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
        self.node.awake(self.shard);
    }
}

/// A seed from the system.
#[expect(unsafe_code, reason = "std has no stable source of random bytes")]
fn seed() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the pointer and length are those of the array.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == 8 { Ok(u64::from_le_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
}
