//! The tasks of one shard: a slab of futures, a ready queue per class, and timers. All backends use this executor.
//!
//! 1. A waker is one 64-bit word (executor, slot, generation): cloning it is a copy, and a stale one is ignored.
//! 2. Waking a task on its own shard pushes its slot on the ready queue of its class; waking it from another thread
//!    goes through the executor's inbox, which wakes a sleeping shard.
//! 3. A backend calls `fire_timers` and `drain_inbox`, then `poll_one_if` until no task is ready or the slice is over.
//!
//! Invariants: a slot is in a ready queue at most once; a task is never polled re-entrantly.

use crate::class::{CLASSES, Class};
use crate::context;
use crate::counts::Counts;
use crate::ids::{NodeId, ShardId};
use crate::instant::Instant;
use crate::shares::Shares;
use pin_project_lite::pin_project;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Slot {
    generation: u32,
    class: Class,
    queued: bool,
    future: Option<TaskFuture>,
    live: bool,
}

/// A waker word has 20 bits for the executor, 22 for the slot and 22 for the generation.
const EXECUTOR_BITS: u32 = 20;
const SLOT_BITS: u32 = 22;
const GENERATION_BITS: u32 = 22;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;
/// The most tasks that one shard can have.
pub(crate) const TASKS_MAX: usize = 1 << SLOT_BITS;

/// Wake-ups from other threads for one executor.
pub(crate) struct Inbox {
    words: Mutex<Vec<u64>>,
    filled: AtomicBool,
    rouse: Box<dyn Fn() + Send + Sync>,
}

static INBOXES: RwLock<BTreeMap<u32, Arc<Inbox>>> = RwLock::new(BTreeMap::new());
static NEXT_ID: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Executor {
    id: u32,
    node: NodeId,
    shard: ShardId,
    shard_count: usize,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    ready: RefCell<[VecDeque<u32>; CLASSES]>,
    pub(crate) shares: Shares,
    pub(crate) counts: Counts,
    timers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    next_timer: Cell<u64>,
    inbox: Arc<Inbox>,
    polled: Cell<LastPolled>,
    /// When the running slice ends; `yield_if_needed` compares it with the clock.
    pub(crate) slice_end: Cell<Instant>,
}

impl Executor {
    /// Creates an executor. Other threads call `rouse` after they have left a wake-up in the inbox.
    pub(crate) fn new(
        node: NodeId,
        shard: ShardId,
        shard_count: usize,
        rouse: impl Fn() + Send + Sync + 'static,
    ) -> Executor {
        let inbox = Arc::new(Inbox { words: Mutex::default(), filled: AtomicBool::new(false), rouse: Box::new(rouse) });
        let mut inboxes = INBOXES.write().expect("no panic while registering");
        // Numbers are not reused soon: if a stale waker found a task, a simulation would not be repeatable.
        let first = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut ids = (0..1 << EXECUTOR_BITS).map(|n| first.wrapping_add(n) & ((1 << EXECUTOR_BITS) - 1));
        let id = ids.find(|id| !inboxes.contains_key(id)).expect("fewer than 2^20 executors at once");
        inboxes.insert(id, inbox.clone());
        Executor {
            id,
            node,
            shard,
            shard_count,
            slots: RefCell::default(),
            free: RefCell::default(),
            ready: RefCell::default(),
            shares: Shares::default(),
            counts: Counts::default(),
            timers: RefCell::default(),
            next_timer: Cell::new(0),
            inbox,
            polled: Cell::default(),
            slice_end: Cell::new(Instant(u64::MAX)),
        }
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) fn shard(&self) -> ShardId {
        self.shard
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.shard_count
    }

    pub(crate) fn spawn(&self, class: Class, future: TaskFuture) {
        let mut slots = self.slots.borrow_mut();
        let index = match self.free.borrow_mut().pop() {
            Some(index) => index,
            None => {
                assert!(slots.len() < TASKS_MAX, "more than {TASKS_MAX} tasks on one shard");
                slots.push(Slot { generation: 0, class, queued: false, future: None, live: false });
                (slots.len() - 1) as u32
            }
        };
        let slot = &mut slots[index as usize];
        slot.class = class;
        slot.future = Some(future);
        slot.live = true;
        slot.queued = true;
        self.counts.of(class).begun.increment();
        self.enqueue(class, index);
    }

    fn wake(&self, slot: u32, generation: u32) {
        let mut slots = self.slots.borrow_mut();
        let Some(entry) = slots.get_mut(slot as usize) else { return };
        if entry.generation == generation && entry.live && !entry.queued {
            entry.queued = true;
            self.enqueue(entry.class, slot);
        }
    }

    fn enqueue(&self, class: Class, slot: u32) {
        let queue = &mut self.ready.borrow_mut()[class as usize];
        if queue.is_empty() {
            self.shares.roused(class as usize);
        }
        queue.push_back(slot);
    }

    /// Moves wake-ups from other threads to the ready queues. Cheap when there are none.
    pub(crate) fn drain_inbox(&self) {
        if !self.inbox.filled.load(Ordering::Acquire) {
            return;
        }
        let words = {
            let mut words = self.inbox.words.lock().expect("no panic while pushing");
            self.inbox.filled.store(false, Ordering::Release);
            std::mem::take(&mut *words)
        };
        for word in words {
            self.wake(slot_of(word), generation_of(word));
        }
    }

    /// Whether another thread has left a wake-up. Reads memory only, for a loop that spins or is about to sleep.
    pub(crate) fn inbox_filled(&self) -> bool {
        self.inbox.filled.load(Ordering::Acquire)
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.ready.borrow().iter().any(|queue| !queue.is_empty())
    }

    /// The number of ready tasks, of which the simulator picks one with [`Executor::poll_nth`].
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.borrow().iter().map(VecDeque::len).sum()
    }

    /// The number of ready tasks of a class.
    pub(crate) fn ready_in(&self, class: Class) -> usize {
        self.ready.borrow()[class as usize].len()
    }

    /// Polls the next ready task, of the class whose turn it is; false if none is ready, or if tasks of that class may
    /// not run now. The caller has entered this shard, and afterwards charges the time with [`Executor::charge`].
    pub(crate) fn poll_one_if(&self, may_run: impl FnOnce(Class) -> bool) -> bool {
        let index = {
            let mut ready = self.ready.borrow_mut();
            let class = self.shares.pick(|class| !ready[class].is_empty());
            match class.filter(|class| may_run(Class::ALL[*class])).and_then(|class| ready[class].pop_front()) {
                Some(index) => index,
                None => return false,
            }
        };
        self.poll_slot(index);
        true
    }

    /// Charges the time of the last poll to the class of its task.
    pub(crate) fn charge(&self, nanos: u64) {
        let class = self.polled.get().class;
        self.counts.of(class).nanos.add(nanos);
        self.shares.charge(class, nanos);
    }

    /// Polls the `n`th of all ready tasks.
    pub(crate) fn poll_nth(&self, n: usize) {
        let index = {
            let mut ready = self.ready.borrow_mut();
            let mut n = n;
            let queue = ready
                .iter_mut()
                .find(|queue| {
                    let here = n < queue.len();
                    if !here {
                        n -= queue.len();
                    }
                    here
                })
                .expect("n is below ready_len()");
            queue.remove(n).expect("n is below the queue's length")
        };
        self.poll_slot(index);
    }

    fn poll_slot(&self, index: u32) {
        let (mut future, generation) = {
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[index as usize];
            slot.queued = false;
            match slot.future.take() {
                Some(future) => {
                    self.counts.of(slot.class).polls.increment();
                    self.polled.set(LastPolled { slot: index, class: slot.class });
                    (future, slot.generation)
                }
                None => return,
            }
        };
        let waker = waker(word(self.id, index, generation));
        let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        // A finished future is dropped before the slab is borrowed, because its fields may wake or spawn tasks.
        let pending = if done {
            drop(future);
            None
        } else {
            Some(future)
        };
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        if done {
            self.counts.of(slot.class).completed.increment();
            slot.live = false;
            slot.generation = (slot.generation + 1) & GENERATION_MASK as u32;
            if !slot.queued {
                self.free.borrow_mut().push(index);
            } else {
                // Its own last poll has woken it.
                slot.queued = false;
                self.ready.borrow_mut()[slot.class as usize].retain(|queued| *queued != index);
                self.free.borrow_mut().push(index);
            }
        } else {
            slot.future = pending;
        }
    }

    pub(crate) fn add_timer(&self, deadline: Instant, waker: &Waker) -> u64 {
        let id = self.next_timer.get();
        self.next_timer.set(id + 1);
        self.timers.borrow_mut().insert((deadline, id), waker.clone());
        id
    }

    pub(crate) fn renew_timer(&self, deadline: Instant, id: u64, waker: &Waker) {
        if let Some(old) = self.timers.borrow_mut().get_mut(&(deadline, id)) {
            old.clone_from(waker);
        } else {
            self.timers.borrow_mut().insert((deadline, id), waker.clone());
        }
    }

    pub(crate) fn cancel_timer(&self, deadline: Instant, id: u64) {
        self.timers.borrow_mut().remove(&(deadline, id));
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.borrow().first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Wakes the tasks whose timers are due at `now`.
    pub(crate) fn fire_timers(&self, now: Instant) {
        loop {
            let waker = {
                let mut timers = self.timers.borrow_mut();
                match timers.first_entry() {
                    Some(entry) if entry.key().0 <= now => entry.remove(),
                    _ => return,
                }
            };
            waker.wake();
        }
    }

    /// The task that is being polled or was polled last.
    pub(crate) fn last_polled(&self) -> LastPolled {
        self.polled.get()
    }

    /// The number of tasks that have not finished.
    pub(crate) fn live_tasks(&self) -> usize {
        self.slots.borrow().iter().filter(|slot| slot.live).count()
    }

    /// Drops all tasks and timers. The caller has left the shard, so that destructors cannot reach the runtime.
    pub(crate) fn drop_tasks(&self) {
        // One at a time and outside the borrow: dropping a future may wake other tasks.
        for index in 0.. {
            let future = match self.slots.borrow_mut().get_mut(index) {
                Some(slot) => {
                    slot.live = false;
                    slot.future.take()
                }
                None => break,
            };
            drop(future);
        }
        for queue in self.ready.borrow_mut().iter_mut() {
            queue.clear();
        }
        let timers = std::mem::take(&mut *self.timers.borrow_mut());
        drop(timers);
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.drop_tasks();
        if let Ok(mut inboxes) = INBOXES.write() {
            inboxes.remove(&self.id);
        }
    }
}

/// The last polled task, as logs name it.
#[derive(Clone, Copy, Default)]
pub(crate) struct LastPolled {
    slot: u32,
    class: Class,
}

impl LastPolled {
    pub(crate) fn class(self) -> Class {
        self.class
    }
}

impl fmt::Display for LastPolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} ({:?})", self.slot, self.class)
    }
}

fn word(executor: u32, slot: u32, generation: u32) -> u64 {
    (executor as u64) << (SLOT_BITS + GENERATION_BITS) | (slot as u64) << GENERATION_BITS | generation as u64
}

fn executor_of(word: u64) -> u32 {
    (word >> (SLOT_BITS + GENERATION_BITS)) as u32
}

fn slot_of(word: u64) -> u32 {
    (word >> GENERATION_BITS & SLOT_MASK) as u32
}

fn generation_of(word: u64) -> u32 {
    (word & GENERATION_MASK) as u32
}

#[expect(unsafe_code, reason = "a waker that is a plain word needs a raw vtable")]
fn waker(word: u64) -> Waker {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| RawWaker::new(data, &VTABLE),
        |data| wake_word(data as usize as u64),
        |data| wake_word(data as usize as u64),
        |_| {},
    );
    // SAFETY: the data pointer is the word itself and never dereferenced; clone copies it, drop does nothing, and
    // waking works on any thread, because it looks the word up in the registry of executors, where a stale one finds
    // nothing.
    unsafe { Waker::from_raw(RawWaker::new(word as usize as *const (), &VTABLE)) }
}

fn wake_word(word: u64) {
    let local = context::try_with(|c| {
        let here = c.executor.id == executor_of(word);
        if here {
            c.executor.wake(slot_of(word), generation_of(word));
        }
        here
    });
    if local == Some(true) {
        return;
    }
    let inbox = INBOXES.read().ok().and_then(|inboxes| inboxes.get(&executor_of(word)).cloned());
    if let Some(inbox) = inbox {
        if let Ok(mut words) = inbox.words.lock() {
            words.push(word);
            inbox.filled.store(true, Ordering::Release);
        }
        (inbox.rouse)();
    }
}

/// Sets a class's shares of the current core's time, from [`SHARES_MIN`] to [`SHARES_MAX`].
///
/// [`SHARES_MIN`]: crate::shares::SHARES_MIN
/// [`SHARES_MAX`]: crate::shares::SHARES_MAX
pub fn set_shares(class: Class, shares: u32) {
    context::with(|c| c.executor.shares.set(class, shares));
}

/// A class's shares of the current core's time.
pub fn shares_of(class: Class) -> u32 {
    context::with(|c| c.executor.shares.get(class))
}

/// Starts `future` on the current shard as a foreground task. The task goes on if the handle is dropped.
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    spawn_in(Class::Foreground, future)
}

/// Starts `future` on the current shard as a task of `class`, see [`spawn`].
pub fn spawn_in<T: 'static>(class: Class, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    let state = Rc::new(JoinState { value: RefCell::new(None), waiter: RefCell::new(None) });
    let task = Box::pin(Task { future: Some(future), state: state.clone() });
    context::with(|c| c.executor.spawn(class, task));
    JoinHandle { state }
}

pin_project! {
    /// A spawned future, polled in place, and where its result goes.
    struct Task<F: Future> {
        #[pin]
        future: Option<F>,
        state: Rc<JoinState<F::Output>>,
    }
}

impl<F: Future> Future for Task<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Ready(()) };
        let Poll::Ready(value) = future.poll(cx) else { return Poll::Pending };
        // What the future has is free before anybody hears that it has ended.
        this.future.set(None);
        *this.state.value.borrow_mut() = Some(value);
        let waiter = this.state.waiter.borrow_mut().take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        Poll::Ready(())
    }
}

struct JoinState<T> {
    value: RefCell<Option<T>>,
    waiter: RefCell<Option<Waker>>,
}

/// A future that returns the result of a spawned task.
pub struct JoinHandle<T> {
    state: Rc<JoinState<T>>,
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.state.value.borrow_mut().take() {
            return Poll::Ready(value);
        }
        *self.state.waiter.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Lets every other ready task run once.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Yields if the current slice (0.5 ms) is over. Long loops call this every 64 KiB or 128 rows.
pub async fn yield_if_needed() {
    if context::with(|c| c.monotonic() >= c.executor.slice_end.get()) {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs an executor for `millis` milliseconds of virtual time, in slices of half a millisecond. Each poll sets
    /// `cost` to the nanoseconds that it takes. `at_turn` is called with the time before every slice.
    fn run(executor: &Executor, millis: u64, cost: &Cell<u64>, mut at_turn: impl FnMut(u64)) {
        let mut now = 0;
        while now < millis * 1_000_000 {
            at_turn(now);
            executor.drain_inbox();
            let end = now + 500_000;
            executor.slice_end.set(Instant(end));
            while now < end {
                cost.set(0);
                if !executor.poll_one_if(|_| true) {
                    now = end;
                    break;
                }
                executor.charge(cost.get());
                now += cost.get();
                executor.drain_inbox();
            }
        }
    }

    /// Starts a task that is always ready and takes `nanos` per poll; returns the time that it has had.
    fn busy(executor: &Executor, class: Class, nanos: u64, cost: &Rc<Cell<u64>>) -> Rc<Cell<u64>> {
        let (counted, cost) = (Rc::new(Cell::new(0)), cost.clone());
        let shared = counted.clone();
        let task = async move {
            loop {
                cost.set(nanos);
                shared.set(shared.get() + nanos);
                yield_now().await;
            }
        };
        executor.spawn(class, Box::pin(task));
        counted
    }

    fn executor() -> Executor {
        Executor::new(NodeId(1), ShardId(0), 1, || {})
    }

    #[test]
    fn background_work_gets_what_its_shares_say_beside_busy_requests() {
        let mut parts = Vec::new();
        for shares in [100, 400, 1000] {
            let (executor, cost) = (executor(), Rc::new(Cell::new(0)));
            let requests = busy(&executor, Class::Foreground, 5_000, &cost);
            let compaction = busy(&executor, Class::Background, 500_000, &cost);
            executor.shares.set(Class::Background, shares);
            run(&executor, 10_000, &cost, |_| {});
            parts.push(compaction.get() * 1000 / (compaction.get() + requests.get()));
        }
        assert_eq!(parts, [90, 285, 499], "per mille: less the head start of requests");
    }

    #[test]
    fn polls_and_their_time_are_counted_by_class() {
        let (executor, cost) = (executor(), Rc::new(Cell::new(0)));
        let requests = busy(&executor, Class::Foreground, 5_000, &cost);
        let compaction = busy(&executor, Class::Background, 500_000, &cost);
        for _ in 0..3 {
            executor.spawn(Class::Flush, Box::pin(async {}));
        }
        assert_eq!(Class::ALL.map(|class| executor.ready_in(class)), [1, 0, 3, 0, 1]);
        run(&executor, 1_000, &cost, |_| {});
        let counted = |class: Class| {
            let counts = executor.counts.of(class);
            [&counts.nanos, &counts.polls, &counts.begun, &counts.completed].map(crate::counts::Counter::get)
        };
        assert_eq!(counted(Class::Foreground), [requests.get(), requests.get() / 5_000, 1, 0]);
        assert_eq!(counted(Class::Background), [compaction.get(), compaction.get() / 500_000, 1, 0]);
        assert_eq!(counted(Class::Flush), [0, 3, 3, 3]);
        assert_eq!(counted(Class::Streaming), [0; 4]);
        assert_eq!(Class::ALL.map(|class| executor.ready_in(class)), [1, 0, 0, 0, 1]);
    }

    #[test]
    fn a_request_that_comes_runs_next_whatever_else_is_busy() {
        let (executor, cost) = (executor(), Rc::new(Cell::new(0)));
        executor.shares.set(Class::Background, 1000);
        for class in [Class::Flush, Class::Streaming, Class::Background, Class::Background] {
            busy(&executor, class, 500_000, &cost);
        }
        let served = Rc::new(Cell::new(0));
        let mut asked = 0;
        run(&executor, 2_000, &cost, |now| {
            assert_eq!(served.get(), asked, "a request of the slice before waits at {now}");
            asked += 1;
            let (served, cost) = (served.clone(), cost.clone());
            let request = async move {
                cost.set(5_000);
                served.set(served.get() + 1);
            };
            executor.spawn(Class::Foreground, Box::pin(request));
        });
        assert!(asked > 1000);
    }
}
