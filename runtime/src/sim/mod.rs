//! The deterministic simulator: many nodes and shards on one thread, virtual time, one seed.
//!
//! A run is a queue of events ordered by virtual time; the seeded generator breaks ties and picks among ready tasks.
//! Every event and every completed operation goes into a trace hash: runs with equal seeds have equal hashes.
#![doc = include_str!("../../docs/simulation.md")]

mod connection;
pub(crate) mod disk;
mod files;
mod inode;
pub(crate) mod mesh;
pub(crate) mod network;
mod node;
mod scheduler;
mod world;

pub use node::PollThrough;
pub(crate) use node::{Shard, Terminated};

use crate::generator::Rng;
use crate::ids::{NodeId, ShardId};
use crate::instant::Instant;
use files::{Entry, Name};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use world::{End, World};

/// Latencies and faults of a run. Probabilities are per operation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Latency of a disk operation, uniform between the two.
    pub disk_latency: (Duration, Duration),
    /// Latency of the network, one way, uniform between the two.
    pub network_latency: (Duration, Duration),
    /// Latency of a message between shards of a node.
    pub mesh_latency: (Duration, Duration),
    /// Chance that a read, write or sync fails with EIO.
    pub disk_error: f64,
    /// Bytes of disk per node; writes beyond that fail with ENOSPC.
    pub disk_bytes: u64,
    /// Chance that a connection is reset at a segment.
    pub network_reset: f64,
    /// Whether `buggify` sites may fire.
    pub buggify: bool,
    /// How far a node's wall clock may be off, either way.
    pub clock_skew: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            disk_latency: (Duration::from_micros(20), Duration::from_millis(2)),
            network_latency: (Duration::from_micros(20), Duration::from_millis(2)),
            mesh_latency: (Duration::ZERO, Duration::from_micros(50)),
            disk_error: 0.0,
            disk_bytes: 1 << 30,
            network_reset: 0.0,
            buggify: true,
            clock_skew: Duration::from_secs(1),
        }
    }
}

impl Options {
    /// The options of the run of `seed`: a random subset of the faults, so that a sweep over seeds also combines good
    /// disks with a bad network and the other way round.
    pub fn of_seed(seed: u64) -> Options {
        let mut rng = Rng::new(seed ^ 0x6f70_7469_6f6e_7321);
        let mut latency = |most_micros: u64| {
            let most = 1 + rng.below(most_micros);
            (Duration::from_micros(rng.below(most)), Duration::from_micros(most))
        };
        let (disk_latency, network_latency, mesh_latency) = (latency(10_000), latency(50_000), latency(500));
        let mut sometimes = |chance: f64| if rng.below(2) == 0 { 0.0 } else { chance };
        let (disk_error, network_reset) = (sometimes(0.001), sometimes(0.001));
        let buggify = rng.below(4) > 0;
        let clock_skew = Duration::from_millis(rng.below(30_000));
        let base = Options::default();
        Options { disk_latency, network_latency, mesh_latency, disk_error, network_reset, buggify, clock_skew, ..base }
    }
}

/// How [`Sim::run_until`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The condition became true.
    Condition,
    /// Virtual time reached the limit.
    Deadline,
    /// No event is left.
    Idle,
}

/// Spreads the numbers of images over all bits of a seed.
const IMAGE_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A kind of call on a disk, for [`Sim::set_disk_fault`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskCall {
    /// Opening or creating a file.
    Open = 1,
    /// A read.
    Read,
    /// A write that is not durable.
    Write,
    /// A durable write.
    WriteDurable,
    /// A sync of a file.
    Sync,
    /// A rename; the path is the new one.
    Rename,
    /// A removal.
    Remove,
    /// The creation of a directory.
    CreateDir,
    /// A sync of a directory.
    SyncDir,
    /// Listing a directory.
    List,
    /// A hard link; the path is the new name.
    Link,
    /// The removal of a directory.
    RemoveDir,
}

impl DiskCall {
    /// Whether the call changes what is on the disk, or makes it durable. Opening counts as no change, even if it
    /// creates the file.
    pub fn writes(self) -> bool {
        !matches!(self, DiskCall::Open | DiskCall::Read | DiskCall::List)
    }
}

/// A simulated world. It is not `Send`: a run stays on the thread that created it.
pub struct Sim {
    world: Rc<World>,
}

impl Sim {
    /// Creates the world of `seed`.
    pub fn new(seed: u64, options: Options) -> Sim {
        Sim { world: World::new(seed, options) }
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.world.seed
    }

    /// Starts node `id` (at most 65535) with `shards` shards, each running `main`. The node's disk outlives the node;
    /// a second start after a crash or a stop finds what was durable. `address_of(id)` is the node's only IP address
    /// (besides 127.0.0.1 for itself). The node stops when every `main` has returned. Panics if it runs already.
    pub fn start_node<F, Fut>(&mut self, id: NodeId, shards: usize, main: F)
    where
        F: Fn(ShardId) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        assert!(id.0 <= u32::from(u16::MAX), "node ids fit 16 bits");
        self.world.start(id, shards, main);
    }

    /// The IPv4 address of a node's sockets: 127.1.x.y of its id.
    pub fn address_of(id: NodeId) -> IpAddr {
        let [_, _, high, low] = id.0.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(127, 1, high, low))
    }

    /// Kills a node at once as a power failure does: unsynced writes are lost, torn or kept by the seed, connections
    /// break at the peers after a while. A node that has stopped or was killed loses its unsynced writes too.
    pub fn crash(&mut self, id: NodeId) {
        self.world.end(id, End::Crash);
    }

    /// Crashes a node like [`Sim::crash`]; each `image` leaves another of the disks that the crash may leave.
    pub fn crash_to(&mut self, id: NodeId, image: u64) {
        self.world.scheduler.with_rng(|rng| *rng = Rng::new(rng.next_u64() ^ image.wrapping_mul(IMAGE_STEP)));
        self.crash(id);
    }

    /// Kills a node's process at once (`kill -9`): its writes stay on the disk, though they are not durable, and
    /// operations in flight still complete.
    pub fn kill(&mut self, id: NodeId) {
        self.world.end(id, End::Exit);
    }

    /// Asks a node to stop: [`crate::signal::terminated`] completes there.
    pub fn terminate(&mut self, id: NodeId) {
        self.world.terminate(id);
    }

    /// Whether any shard of the node still runs its `main`.
    pub fn is_running(&self, id: NodeId) -> bool {
        self.world.is_running(id)
    }

    /// The number of unfinished tasks of a node, for tests that look for leaks.
    pub fn tasks(&self, id: NodeId) -> usize {
        self.world.tasks(id)
    }

    /// The number of messages that a node's shards have sent each other since it started; 0 if it does not run.
    pub fn messages(&self, id: NodeId) -> u64 {
        self.world.node(id).map_or(0, |node| node.messages.get())
    }

    /// The bytes that node `from` has sent to node `to` since `from` started; 0 if it does not run.
    pub fn bytes(&self, from: NodeId, to: NodeId) -> u64 {
        let node = self.world.node(from);
        node.and_then(|node| node.sent.borrow().get(&to).map(|sent| sent.bytes)).unwrap_or(0)
    }

    /// How often the nodes of `among` have handed bytes to the network for another one of them, each since it started.
    /// What a node writes in one turn of its loop on one connection counts once, if the window has room for it.
    pub fn sends(&self, among: &[NodeId]) -> u64 {
        let of_node = |from: &NodeId| {
            let node = self.world.node(*from)?;
            let sent = node.sent.borrow();
            let to_others = among.iter().filter(|to| *to != from).filter_map(|to| sent.get(to));
            Some(to_others.map(|sent| sent.sends).sum::<u64>())
        };
        among.iter().filter_map(of_node).sum()
    }

    /// From now on polls the tasks of a node that runs through `polling`, so that profilers show under the name of that
    /// function what the node does.
    pub fn poll_through(&mut self, id: NodeId, polling: PollThrough) {
        if let Some(node) = self.world.node(id) {
            node.polling.set(polling);
        }
    }

    /// Starts node `id` with one shard that runs `main`, and runs until that has returned. Panics if it has not within
    /// `limit`, virtual.
    pub fn run_node<T: 'static, F>(&mut self, id: NodeId, limit: Duration, main: impl FnOnce() -> F + 'static) -> T
    where
        F: Future<Output = T> + 'static,
    {
        let result = Rc::new(RefCell::new(None));
        let (slot, main) = (result.clone(), RefCell::new(Some(main)));
        self.start_node(id, 1, move |_| {
            let (slot, main) = (slot.clone(), main.borrow_mut().take().expect("there is one shard"));
            async move {
                let value = main().await;
                *slot.borrow_mut() = Some(value);
            }
        });
        self.run_until(limit, || result.borrow().is_some());
        let value = result.borrow_mut().take();
        value.expect("the node has ended in time")
    }

    /// Runs until `done` is true, virtual time has advanced by `limit`, or no event is left. `done` is asked before the
    /// first and after every event.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut() -> bool) -> Stop {
        let end = self.now().after(limit).0;
        loop {
            if done() {
                return Stop::Condition;
            }
            match self.world.next_at() {
                None => return Stop::Idle,
                Some(at) if at > end => {
                    self.world.scheduler.advance(end);
                    return Stop::Deadline;
                }
                Some(_) => self.world.run_next(),
            }
        }
    }

    /// Runs one event (a poll, a completion, a delivery, a timer), so that a test can crash between any two steps;
    /// false if none is left.
    pub fn step(&mut self) -> bool {
        let any = self.world.next_at().is_some();
        if any {
            self.world.run_next();
        }
        any
    }

    /// The number of events so far.
    pub fn steps(&self) -> u64 {
        self.world.scheduler.steps()
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        Instant(self.world.scheduler.now())
    }

    /// The hash of everything that happened so far.
    pub fn trace_hash(&self) -> u64 {
        self.world.scheduler.trace()
    }

    /// Cuts (true) or heals (false) the network between two nodes, both ways. Connections stay open, but their bytes
    /// wait.
    pub fn partition(&mut self, a: NodeId, b: NodeId, cut: bool) {
        self.partition_one_way(a, b, cut);
        self.partition_one_way(b, a, cut);
    }

    /// Cuts or heals the way from one node to another only.
    pub fn partition_one_way(&mut self, from: NodeId, to: NodeId, cut: bool) {
        self.world.scheduler.fold(u64::from(from.0) << 33 | u64::from(to.0) << 1 | u64::from(cut));
        let healed = self.world.network.borrow_mut().cut(from, to, cut);
        healed.into_iter().for_each(|connection| connection.healed(&self.world));
    }

    /// Pauses all shards of a node for `d`: no task is polled there, everything else goes on.
    pub fn pause(&mut self, id: NodeId, d: Duration) {
        self.world.pause(id, self.now().after(d));
    }

    /// Moves a running node's wall clock by `micros`. The node never sees it go back: it stands still instead.
    pub fn step_wall_clock(&mut self, id: NodeId, micros: i64) {
        if let Some(node) = self.world.node(id) {
            node.wall_offset_micros.set(node.wall_offset_micros.get().saturating_add(micros));
        }
    }

    /// Changes the options for the rest of the run.
    pub fn set_options(&mut self, options: Options) {
        *self.world.options.borrow_mut() = options;
    }

    /// Wipes a node's disk (the node must not run).
    pub fn wipe(&mut self, id: NodeId) {
        assert!(!self.is_running(id), "node {} runs", id.0);
        self.world.wipe(id);
    }

    /// The sites that [`crate::fault::reached`] recorded so far.
    pub fn reached(&self) -> BTreeSet<&'static str> {
        self.world.reached.borrow().clone()
    }

    /// Forgets the sites that were recorded so far.
    pub fn forget_reached(&mut self) {
        self.world.reached.borrow_mut().clear();
    }

    /// How the first node that contradicted another one did so, by [`crate::fault::believe`]; `None` if none has.
    pub fn contradiction(&self) -> Option<String> {
        self.world.contradiction.borrow().clone()
    }

    /// Makes the next sync or durable write on a node's disk fail; each call adds one failure.
    pub fn fail_next_sync(&mut self, id: NodeId) {
        self.world.disk(id).borrow_mut().failing_syncs += 1;
    }

    /// Calls `fault` for every call on a node's disk when it completes; if it returns an error, the call fails. A
    /// failed write may have written a part.
    pub fn set_disk_fault(&mut self, id: NodeId, fault: impl FnMut(DiskCall, &Path) -> Option<io::Error> + 'static) {
        self.world.disk(id).borrow_mut().fault = Some(Box::new(fault));
    }

    /// Removes the function that [`Sim::set_disk_fault`] set.
    pub fn clear_disk_fault(&mut self, id: NodeId) {
        self.world.disk(id).borrow_mut().fault = None;
    }

    /// From now on, calls on disks take between these two times instead of [`Options::disk_latency`].
    pub fn set_disk_latency(&mut self, between: (Duration, Duration)) {
        self.world.options.borrow_mut().disk_latency = between;
    }

    /// From now on, calls on a node's disk take between these two times; with `None`, as long as on other disks again.
    /// Calls under way end when they would have.
    pub fn slow_disk(&mut self, id: NodeId, between: Option<(Duration, Duration)>) {
        self.world.disk(id).borrow_mut().latency = between;
    }

    /// The files on a node's disk as programs see them, with their lengths, sorted by path.
    pub fn files(&self, id: NodeId) -> Vec<(PathBuf, u64)> {
        let disk = self.world.disk(id);
        let disk = disk.borrow();
        let mut files: Vec<_> = disk.visible.files().map(|(path, file)| (path, file.borrow().len())).collect();
        files.sort();
        files
    }

    /// The bytes used on a node's disk. A removed file counts until its removal is durable and no handle is open.
    pub fn disk_used(&self, id: NodeId) -> u64 {
        self.world.disk(id).borrow().used.get()
    }

    /// Sets the size of a node's disk that [`crate::file::space`] reports. Writes beyond it do not fail.
    pub fn set_disk_size(&mut self, id: NodeId, bytes: u64) {
        self.world.disk(id).borrow_mut().size = bytes;
    }

    /// The content of a file; `None` if there is none.
    pub fn read_file(&self, id: NodeId, path: &Path) -> Option<Vec<u8>> {
        let disk = self.world.disk(id);
        let disk = disk.borrow();
        match disk.visible.get(&Name::of(path)?)? {
            Entry::File(file) => Some(file.borrow().contents()),
            Entry::Directory => None,
        }
    }

    /// Lets `f` change the content of a file durably, as bit rot or an operator would; false if there is no such file.
    pub fn mutate_file(&mut self, id: NodeId, path: &Path, f: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(mut contents) = self.read_file(id, path) else { return false };
        f(&mut contents);
        let disk = self.world.disk(id);
        let disk = disk.borrow();
        match Name::of(path).and_then(|name| disk.visible.get(&name).cloned()) {
            Some(Entry::File(file)) => file.borrow_mut().replace(&contents),
            _ => return false,
        }
        true
    }
}

impl Drop for Sim {
    #[expect(clippy::print_stderr, reason = "a failed run names its seed, whoever runs it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Tasks are not dropped, because one that panics again would hide the first panic.
            eprintln!("simulation of seed {} failed at step {}, {} ns", self.seed(), self.steps(), self.now().0);
            return;
        }
        self.world.close();
    }
}
