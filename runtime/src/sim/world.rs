//! The state of a run: nodes, shards, disks and the network, and how an event changes them.
//!
//! Invariants:
//! * A shard's context is entered only for its polls and wake-ups.
//! * A node is marked dead before its tasks are dropped, and they are dropped with no context entered.
//! * No user code runs while a field of the world is borrowed.

use super::Options;
use super::connection;
use super::files::Disk;
use super::network::Network;
use super::node::{Node, Shard};
use super::scheduler::{Event, Scheduler};
use crate::context::{self, BackendContext, ShardContext};
use crate::executor::Executor;
use crate::generator::Rng;
use crate::ids::{NodeId, ShardId};
use crate::instant::Instant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// Wall clock at the start of a run, in microseconds since 1970.
const WALL_START_MICROS: i64 = 1_700_000_000_000_000;
/// The least virtual time of a poll, in nanoseconds; at random it takes up to twice as long.
const POLL_COST_NANOS: u64 = 500;
/// In one of this many polls the slice is over at once.
const SHORT_SLICES: u64 = 4;
/// The longest slice, in nanoseconds that pass while the clock is read.
const SLICE_NANOS: u64 = 2_000;
/// The largest drift of a wall clock, in parts per million.
const DRIFT_PPM: u64 = 100;

/// How the life of a node ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Power is lost: the disk loses what is not durable.
    Crash,
    /// The process ends, while the operating system goes on.
    Exit,
}

/// Shards for which another executor has left a wake-up.
#[derive(Default)]
struct Roused {
    any: AtomicBool,
    shards: Mutex<Vec<u32>>,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) options: RefCell<Options>,
    pub(crate) scheduler: Scheduler,
    pub(crate) network: RefCell<Network>,
    pub(crate) reached: RefCell<BTreeSet<&'static str>>,
    /// By history and place: who believed something first, and what.
    pub(crate) beliefs: RefCell<BTreeMap<(u128, u64), (NodeId, u64)>>,
    pub(crate) contradiction: RefCell<Option<String>>,
    nodes: RefCell<BTreeMap<NodeId, Rc<Node>>>,
    disks: RefCell<BTreeMap<NodeId, Rc<RefCell<Disk>>>>,
    shards: RefCell<Vec<Option<Rc<ShardContext>>>>,
    lives: Cell<u64>,
    roused: Arc<Roused>,
}

fn shard_of(context: &ShardContext) -> &Shard {
    match &context.backend {
        BackendContext::Sim(shard) => shard,
        _ => unreachable!("the world holds simulated shards"),
    }
}

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> Rc<World> {
        Rc::new(World {
            seed,
            options: RefCell::new(options),
            scheduler: Scheduler::new(seed),
            network: RefCell::default(),
            reached: RefCell::default(),
            beliefs: RefCell::default(),
            contradiction: RefCell::default(),
            nodes: RefCell::default(),
            disks: RefCell::default(),
            shards: RefCell::default(),
            lives: Cell::new(0),
            roused: Arc::default(),
        })
    }

    /// The disk of a node; a new one is empty.
    pub(crate) fn disk(&self, id: NodeId) -> Rc<RefCell<Disk>> {
        self.disks.borrow_mut().entry(id).or_default().clone()
    }

    pub(crate) fn wipe(&self, id: NodeId) {
        self.disks.borrow_mut().remove(&id);
    }

    /// The node's latest life.
    pub(crate) fn node(&self, id: NodeId) -> Option<Rc<Node>> {
        self.nodes.borrow().get(&id).cloned()
    }

    pub(crate) fn is_running(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| node.alive.get())
    }

    pub(crate) fn start<F, Fut>(self: &Rc<World>, id: NodeId, shards: usize, main: F)
    where
        F: Fn(ShardId) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        assert!(shards > 0 && shards <= usize::from(u16::MAX), "a node has 1 to 65535 shards");
        assert!(!self.is_running(id), "node {} runs already", id.0);
        self.scheduler.fold(0x5747 << 32 | u64::from(id.0));
        let life = self.lives.get();
        self.lives.set(life + 1);
        let skew = self.options.borrow().clock_skew.as_micros() as i64;
        let skew = self.scheduler.below(2 * skew as u64 + 1) as i64 - skew;
        let first = self.shards.borrow().len() as u32;
        let powered = self.node(id).map(|before| before.powered.clone()).filter(|powered| powered.get());
        let node = Rc::new(Node {
            id,
            life,
            first_shard: first,
            alive: Cell::new(true),
            powered: powered.unwrap_or_else(|| Rc::new(Cell::new(true))),
            mains: Cell::new(shards),
            terminating: Cell::new(false),
            termination_waiters: RefCell::default(),
            wall_offset_micros: Cell::new(WALL_START_MICROS + skew),
            wall_drift_ppm: self.scheduler.below(2 * DRIFT_PPM + 1) as i64 - DRIFT_PPM as i64,
            wall_shown_micros: Cell::new(i64::MIN),
            messages: Cell::new(0),
            sent: RefCell::default(),
            polling: Cell::new(|poll| poll()),
        });
        self.nodes.borrow_mut().insert(id, node.clone());
        let main = Rc::new(main);
        for number in 0..shards {
            let index = first + number as u32;
            let roused = self.roused.clone();
            let executor = Executor::new(id, ShardId(number as u16), shards, move || roused.add(index));
            let shard = Shard {
                world: self.clone(),
                node: node.clone(),
                index,
                rng: RefCell::new(Rng::new(self.scheduler.random())),
                elapsed: Cell::new(0),
                busy_until: Cell::new(0),
                run_scheduled: Cell::new(false),
                timers_scheduled: RefCell::default(),
                dirty: RefCell::default(),
            };
            let context = Rc::new(ShardContext { executor, backend: BackendContext::Sim(shard) });
            self.shards.borrow_mut().push(Some(context.clone()));
            let (main, node) = (main.clone(), node.clone());
            let entered = context::enter(Some(context.clone()));
            crate::executor::spawn(async move {
                main(ShardId(number as u16)).await;
                node.mains.set(node.mains.get() - 1);
            });
            drop(entered);
            self.settle(&context);
        }
    }

    /// Ends the life of a node, if it runs. A crash takes the disk's volatile state in any case.
    pub(crate) fn end(self: &Rc<World>, id: NodeId, end: End) {
        self.scheduler.fold((0x454e << 32 | u64::from(id.0)) << 1 | u64::from(end == End::Crash));
        let Some(node) = self.node(id) else { return };
        let was_alive = node.alive.replace(false);
        let had_power = if end == End::Crash { node.powered.replace(false) } else { node.powered.get() };
        if end == End::Crash && had_power {
            let disk = self.disk(id);
            let kept = self.scheduler.with_rng(|rng| disk.borrow_mut().crash(self.scheduler.now(), rng));
            self.scheduler.fold(kept);
        }
        if !was_alive {
            return;
        }
        self.disk(id).borrow_mut().locks.clear();
        node.termination_waiters.borrow_mut().clear();
        let contexts: Vec<Rc<ShardContext>> = {
            let mut shards = self.shards.borrow_mut();
            let own = |context: &ShardContext| shard_of(context).node.life == node.life;
            let mine = shards[node.first_shard as usize..].iter_mut().take_while(|slot| match slot {
                Some(context) => own(context),
                None => false,
            });
            mine.filter_map(Option::take).collect()
        };
        connection::break_all(self, &node, end);
        let outside = context::enter(None);
        for context in &contexts {
            shard_of(context).dirty.borrow_mut().clear();
            context.executor.drop_tasks();
        }
        drop(contexts);
        drop(outside);
    }

    /// Ends the run and the lives of all nodes.
    pub(crate) fn close(self: &Rc<World>) {
        let ids: Vec<NodeId> = self.nodes.borrow().keys().copied().collect();
        ids.into_iter().for_each(|id| self.end(id, End::Exit));
        self.scheduler.clear();
        *self.network.borrow_mut() = Network::default();
        self.nodes.borrow_mut().clear();
    }

    pub(crate) fn terminate(self: &Rc<World>, id: NodeId) {
        let Some(node) = self.node(id) else { return };
        let shared = node.clone();
        self.call(&node, self.scheduler.now(), false, move |world| {
            shared.terminating.set(true);
            let waiters = std::mem::take(&mut *shared.termination_waiters.borrow_mut());
            waiters.into_iter().for_each(|(shard, waker)| world.wake(shard, waker));
        });
    }

    /// Pauses all shards of a node until `until`.
    pub(crate) fn pause(&self, id: NodeId, until: Instant) {
        let Some(node) = self.node(id) else { return };
        for context in self.shards.borrow()[node.first_shard as usize..].iter().flatten() {
            let shard = shard_of(context);
            if shard.node.life == node.life {
                shard.busy_until.set(shard.busy_until.get().max(until.0));
            }
        }
    }

    /// The number of unfinished tasks of a node.
    pub(crate) fn tasks(&self, id: NodeId) -> usize {
        let Some(node) = self.node(id) else { return 0 };
        let shards = self.shards.borrow();
        let own = shards[node.first_shard as usize..].iter().flatten().filter(|c| shard_of(c).node.life == node.life);
        own.map(|context| context.executor.live_tasks()).sum()
    }

    /// Calls `run` at `at`, unless the node is dead by then or, with `outlives`, has lost power.
    pub(crate) fn call(&self, node: &Rc<Node>, at: u64, outlives: bool, run: impl FnOnce(&Rc<World>) + 'static) {
        self.scheduler.push(at, Event::Call { node: node.clone(), outlives, run: Box::new(run) });
    }

    /// Wakes a task of a shard from outside its polls. Does nothing if the shard is dead.
    pub(crate) fn wake(&self, shard: u32, waker: Waker) {
        let Some(context) = self.context(shard) else { return };
        let entered = context::enter(Some(context.clone()));
        waker.wake();
        drop(entered);
        self.settle(&context);
    }

    fn context(&self, shard: u32) -> Option<Rc<ShardContext>> {
        self.shards.borrow().get(shard as usize)?.clone()
    }

    /// Schedules the events of a shard's ready tasks and next timer.
    fn settle(&self, context: &ShardContext) {
        let shard = shard_of(context);
        if !shard.run_scheduled.get() && context.executor.has_ready() {
            shard.run_scheduled.set(true);
            self.scheduler.push(shard.busy_until.get(), Event::Run(shard.index));
        }
        if let Some(deadline) = context.executor.next_deadline() {
            let at = deadline.0.max(self.scheduler.now());
            if shard.timers_scheduled.borrow_mut().insert(at) {
                self.scheduler.push(at, Event::Timers(shard.index));
            }
        }
    }

    /// The time of the next event; drops events that have become void.
    pub(crate) fn next_at(self: &Rc<World>) -> Option<u64> {
        loop {
            let (at, valid) = self.scheduler.peek(|at, event| (at, self.is_valid(at, event)))?;
            if valid {
                return Some(at);
            }
            if let Some((at, Event::Timers(shard))) = self.scheduler.pop()
                && let Some(context) = self.context(shard)
            {
                shard_of(&context).timers_scheduled.borrow_mut().remove(&at);
                self.settle(&context);
            }
        }
    }

    fn is_valid(&self, at: u64, event: &Event) -> bool {
        match event {
            Event::Run(shard) => self.context(*shard).is_some(),
            Event::Timers(shard) => self
                .context(*shard)
                .and_then(|context| context.executor.next_deadline())
                .is_some_and(|deadline| deadline.0 <= at),
            Event::Call { node, outlives, .. } => {
                if *outlives {
                    node.powered.get()
                } else {
                    node.alive.get()
                }
            }
            Event::Deliver(..) | Event::Window(..) => true,
        }
    }

    /// Runs the next event, after `next_at` has dropped void ones.
    pub(crate) fn run_next(self: &Rc<World>) {
        let Some((at, event)) = self.scheduler.pop() else { return };
        self.scheduler.begin(at, &event);
        match event {
            Event::Run(shard) => self.run(shard),
            Event::Timers(shard) => self.fire_timers(shard, at),
            Event::Deliver(connection, side) => connection.deliver(self, side),
            Event::Window(connection, side) => connection.window(self, side),
            Event::Call { run, .. } => run(self),
        }
        if self.roused.any.load(Ordering::Relaxed) {
            for shard in self.roused.take() {
                if let Some(context) = self.context(shard) {
                    context.executor.drain_inbox();
                    self.settle(&context);
                }
            }
        }
    }

    fn fire_timers(&self, index: u32, at: u64) {
        let Some(context) = self.context(index) else { return };
        let entered = context::enter(Some(context.clone()));
        context.executor.fire_timers(Instant(at));
        drop(entered);
        shard_of(&context).timers_scheduled.borrow_mut().remove(&at);
        self.settle(&context);
    }

    /// Polls one ready task of a shard, which the seed picks.
    fn run(self: &Rc<World>, index: u32) {
        let Some(context) = self.context(index) else { return };
        let shard = shard_of(&context);
        shard.run_scheduled.set(false);
        if shard.busy_until.get() > self.scheduler.now() {
            self.settle(&context);
            return;
        }
        let entered = context::enter(Some(context.clone()));
        let ready = context.executor.ready_len() as u64;
        if ready > 0 {
            let chosen = self.scheduler.below(ready);
            self.scheduler.fold(ready << 32 | chosen);
            let dice = self.scheduler.random();
            let slice = if dice.is_multiple_of(SHORT_SLICES) { 0 } else { (dice >> 8) % SLICE_NANOS };
            context.executor.slice_end.set(Instant(self.scheduler.now() + slice));
            shard.elapsed.set(0);
            shard.node.polling.get()(&mut || context.executor.poll_nth(chosen as usize));
            let dirty = std::mem::take(&mut *shard.dirty.borrow_mut());
            for (connection, side) in dirty {
                connection.turn_ended(self, side);
            }
            let cost = shard.elapsed.replace(0) + POLL_COST_NANOS + (dice >> 32) % POLL_COST_NANOS;
            shard.busy_until.set(self.scheduler.now() + cost);
        }
        drop(entered);
        if shard.node.mains.get() == 0 {
            self.end(shard.node.id, End::Exit);
        } else {
            self.settle(&context);
        }
    }
}

impl Roused {
    fn add(&self, shard: u32) {
        if let Ok(mut shards) = self.shards.lock() {
            shards.push(shard);
            self.any.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self) -> Vec<u32> {
        self.any.store(false, Ordering::Relaxed);
        self.shards.lock().map(|mut shards| std::mem::take(&mut *shards)).unwrap_or_default()
    }
}
