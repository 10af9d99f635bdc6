//! A sweep over an operation on the ring: each node crashes at each message of it in turn (P12, P1, P4, P5).
//!
//! 1. A run of a seed is repeated: four nodes, clients that send logged batches, conditional changes, and reads and
//!    writes at levels that overlap. Then the operation begins. The clients pause then in runs of even seeds, so that
//!    every message is the operation's or gossip; in those of odd seeds they go on.
//! 2. A node crashes when the nodes have handed the `n`-th message to the network since the operation began, and the
//!    clients go on. The node comes back after a moment, a few seconds, or so late that the others take it for dead.
//!    The node that the operation is about may also be lost for good: then the operator removes it, and a new node
//!    comes in its place.
//! 3. The operation must end or be undone: all nodes say that the ring is whole, all clean up what they do not own, and
//!    the judges find all that was acknowledged on the replicas of the end, which are equal.

use super::elastic::RingOperation;
use super::members::{Cluster, SEEDS_MAX, START_MAX};
use super::replicated::{CLIENTS, ReplicatedRun};
use crate::judges::history::History;
use crate::workload::world::{DataCentres, Replicas, Work, World};
use crate::workload::{batches, levels, registers};
use clap::ValueEnum;
use model::Consistency;
use runtime::sim::Stop;
use runtime::{NodeId, hash64};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Nodes before the operation.
const NODES: usize = 4;
/// Clients, each of one kind.
const CLIENTS_OF_ONE_KIND: usize = 3;
/// How long clients write before the operation begins, virtual.
const LOAD: Duration = Duration::from_secs(2);
/// After this time without a sign of life a node counts as dead, virtual.
const CONVICTION: Duration = Duration::from_secs(45);
/// How long after an operation messages still count as its, virtual.
const ECHO: Duration = Duration::from_millis(300);
/// For how long a node is away, virtual.
const AWAY: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(4), Duration::from_secs(45)];
/// What the nodes have reached, the last step first, and its name.
const STEPS: [(&str, &str); 5] = [
    ("operation ended", "ended"),
    ("operation settled", "settled"),
    ("operation switched", "switched"),
    ("operation received by some", "received by some"),
    ("operation begun", "begun"),
];
/// The step before any of [`STEPS`].
const ASKED: &str = "asked for";

/// An operation that is swept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum SweptOperation {
    /// A node joins.
    Join,
    /// A node leaves.
    Decommission,
    /// A node takes the place of one that is dead.
    Replace,
    /// A keyspace gets three replicas where it had two.
    Replicate,
}

/// Which crashes to try.
#[derive(Clone, Copy, Debug)]
pub struct ElasticSweep {
    /// The seed of the run that is repeated.
    pub seed: u64,
    /// The operation.
    pub operation: SweptOperation,
    /// The first message to crash at, from 1.
    pub first: u64,
    /// The distance from one message to crash at to the next; 1 for every message.
    pub every: u64,
    /// Most messages to crash at.
    pub count: u64,
    /// Whether one node alone crashes at each message, another one each time.
    pub one_victim: bool,
}

/// The result of a sweep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ElasticSwept {
    /// The messages of the operation when nothing goes wrong.
    pub messages: u64,
    /// Crashes tried, by the step that the operation had reached.
    pub crashes: BTreeMap<&'static str, u64>,
    /// How many of them took the node for good.
    pub lost: u64,
    /// Statements answered.
    pub answered: u64,
    /// Reads checked.
    pub reads_checked: u64,
    /// The crashes after which a rule was broken: message, node and what was wrong.
    pub broken: Vec<(u64, u32, String)>,
}

/// Runs a sweep.
pub fn sweep_operation(plan: ElasticSweep) -> ElasticSwept {
    let mut swept = ElasticSwept::default();
    let mut clean = SweepRun::new(plan);
    match clean.begin().and_then(|()| clean.run_clean()) {
        Ok(messages) => swept.messages = messages,
        Err(text) => swept.broken.push((0, 0, text)),
    }
    let victims: Vec<NodeId> = clean.nodes.clone();
    let messages = (plan.first.max(1)..=swept.messages).step_by(plan.every.max(1) as usize);
    for (at, message) in messages.take(plan.count as usize).enumerate() {
        for (number, victim) in victims.iter().enumerate() {
            if plan.one_victim && at % victims.len() != number {
                continue;
            }
            let mut run = SweepRun::new(plan);
            let ran = run.begin().and_then(|()| run.crash_at(message, *victim)).and_then(|()| run.judge());
            if let Err(text) = ran {
                swept.broken.push((message, victim.0, text));
            }
            let world = run.run.world.borrow();
            swept.answered += world.answered;
            swept.reads_checked += world.reads_checked;
            swept.lost += u64::from(run.is_lost);
            *swept.crashes.entry(run.step).or_default() += 1;
        }
    }
    swept
}

/// A run under way.
struct SweepRun {
    run: ReplicatedRun,
    plan: ElasticSweep,
    /// The nodes that may crash: those that live when the operation begins, and a new one.
    nodes: Vec<NodeId>,
    /// The node that the operation is about.
    subject: Option<NodeId>,
    operation: RingOperation,
    /// What had been sent before the operation began.
    sent_before: u64,
    /// The step that had been reached at the crash.
    step: &'static str,
    /// Whether the node was lost for good.
    is_lost: bool,
}

impl SweepRun {
    fn new(plan: ElasticSweep) -> SweepRun {
        let mut cluster = Cluster::new(plan.seed);
        cluster.cores_max = 1 + plan.seed / 2 % 2;
        let factor = if plan.operation == SweptOperation::Replicate { 2 } else { 3 };
        let world = World {
            work: Work::Registers,
            reads_are_durable: true,
            history: History::replicated(),
            replicas: Replicas { factor, level: Consistency::Quorum, ..Replicas::default() },
            batches_are_logged: true,
            levels: levels::tables(&mut cluster.rng, DataCentres::One),
            ..World::default()
        };
        let mut run = ReplicatedRun::new(cluster, Rc::new(RefCell::new(world)), 0);
        (run.clients_of_one_kind, run.factor) = (CLIENTS_OF_ONE_KIND, factor);
        SweepRun {
            run,
            plan,
            nodes: Vec::new(),
            subject: None,
            operation: RingOperation::Replicate,
            sent_before: 0,
            step: ASKED,
            is_lost: false,
        }
    }

    /// Lets nodes start and clients write, and begins the operation.
    fn begin(&mut self) -> Result<(), String> {
        let run = &mut self.run;
        run.cluster.seeds = SEEDS_MAX;
        (0..NODES).for_each(|_| run.cluster.add_node());
        run.cluster.all_ready("the first start")?;
        run.create_schema()?;
        self.start_clients();
        self.run.cluster.sim.run_until(LOAD, || false);
        if self.plan.seed.is_multiple_of(2) || self.plan.operation == SweptOperation::Replace {
            self.pause()?;
        }
        let run = &mut self.run;
        let mut dead = None;
        if self.plan.operation == SweptOperation::Replace {
            let gone = run.cluster.members.remove(NODES - 1);
            run.cluster.sim.crash(gone.id);
            run.cluster.sim.run_until(CONVICTION, || false);
            dead = Some(gone.address());
            if !self.plan.seed.is_multiple_of(2) {
                run.world.borrow_mut().paused = false;
            }
        }
        self.nodes = run.cluster.members.iter().map(|member| member.id).collect();
        self.sent_before = run.cluster.sim.sends(&self.nodes);
        run.cluster.sim.forget_reached();
        self.operation = match self.plan.operation {
            SweptOperation::Join => {
                run.cluster.add_node();
                RingOperation::Join
            }
            SweptOperation::Decommission => {
                run.cluster.begin_leaving(NODES - 1);
                RingOperation::Leave(run.cluster.members[NODES - 1].id)
            }
            SweptOperation::Replace => {
                let options = dead.map(|address| format!("replace_address_first_boot={address}"));
                run.cluster.add_node_with(options.into_iter().collect());
                RingOperation::Replace
            }
            SweptOperation::Replicate => {
                run.replicate(3)?;
                RingOperation::Replicate
            }
        };
        self.nodes = run.cluster.members.iter().map(|member| member.id).collect();
        self.subject = (self.plan.operation != SweptOperation::Replicate).then(|| self.nodes[self.nodes.len() - 1]);
        Ok(())
    }

    fn start_clients(&mut self) {
        let (servers, world) = (self.run.cluster.servers(), self.run.world.clone());
        self.run.cluster.sim.start_node(CLIENTS, 1, move |_| {
            let (servers, world) = (servers.clone(), world.clone());
            async move {
                let tasks = [
                    runtime::spawn(batches::client(servers.clone(), world.clone())),
                    runtime::spawn(registers::client(servers.clone(), world.clone())),
                    runtime::spawn(levels::client(servers.clone(), world.clone())),
                ];
                for task in tasks {
                    task.await;
                }
            }
        });
    }

    /// Lets clients end their requests, and send none.
    fn pause(&mut self) -> Result<(), String> {
        let world = self.run.world.clone();
        world.borrow_mut().paused = true;
        match self.run.cluster.sim.run_until(START_MAX, move || world.borrow().busy == 0) {
            Stop::Condition => Ok(()),
            stop => Err(format!("the requests of clients did not end: {stop:?}")),
        }
    }

    fn sent(&self) -> u64 {
        self.run.cluster.sim.sends(&self.nodes) - self.sent_before
    }

    /// Lets the operation end without a crash. Returns its messages.
    fn run_clean(&mut self) -> Result<u64, String> {
        let limit = self.run.cluster.sim.now().after(START_MAX);
        while !self.run.cluster.sim.reached().contains("operation ended") {
            if self.run.cluster.sim.now() >= limit || !self.run.cluster.sim.step() {
                return Err("the operation does not end though nothing is wrong".into());
            }
        }
        self.run.cluster.sim.run_until(ECHO, || false);
        let messages = self.sent();
        self.run.world.borrow_mut().paused = false;
        self.judge()?;
        Ok(messages)
    }

    /// Crashes a node at a message of the operation, and lets it come back.
    fn crash_at(&mut self, message: u64, victim: NodeId) -> Result<(), String> {
        let limit = self.run.cluster.sim.now().after(START_MAX);
        while self.sent() < message {
            if self.run.cluster.sim.now() >= limit || !self.run.cluster.sim.step() {
                return Err("the message to crash at did not come".into());
            }
        }
        let reached = self.run.cluster.sim.reached();
        self.step = STEPS.iter().find(|(site, _)| reached.contains(site)).map_or(ASKED, |(_, name)| *name);
        let chance = hash64(&[message.to_le_bytes(), u64::from(victim.0).to_le_bytes()].concat());
        self.run.cluster.sim.crash(victim);
        self.run.keeps_hints = false;
        self.run.world.borrow_mut().paused = false;
        self.is_lost = self.subject == Some(victim) && chance.is_multiple_of(4);
        self.run.cluster.sim.run_until(AWAY[(chance / 4 % 3) as usize], || false);
        let at = self.run.cluster.members.iter().position(|member| member.id == victim);
        if let (true, Some(at)) = (self.is_lost, at) {
            self.run.cluster.wipe(at);
            if let RingOperation::Leave(_) = self.operation {
                self.operation = RingOperation::Join;
                self.run.cluster.stop_asking();
            }
            self.run.cluster.replace_wiped()?;
        }
        self.run.cluster.start_all();
        match self.operation {
            // A node that has left refuses to serve again.
            RingOperation::Leave(id) if id == victim => Ok(()),
            _ => self.run.cluster.all_ready("the crash"),
        }
    }

    /// Checks that the operation has ended or was undone, and that nothing was lost.
    fn judge(&mut self) -> Result<(), String> {
        let operation = std::mem::replace(&mut self.operation, RingOperation::Replicate);
        self.run.finish_operation(operation)?;
        self.run.settle()?;
        self.clean_up()?;
        self.run.leave()?;
        self.run.finish()?;
        let members = &self.run.cluster.members;
        let is_left = |path: &PathBuf| path.to_string_lossy().contains("/streams/in/");
        let files = members.iter().flat_map(|member| self.run.cluster.sim.files(member.id));
        match files.map(|(path, _)| path).find(is_left) {
            Some(path) => Err(format!("{} is left of an operation that has ended", path.display())),
            None => Ok(()),
        }
    }

    /// Lets all nodes remove what they do not own, which they refuse while an operation is under way for them.
    fn clean_up(&mut self) -> Result<(), String> {
        let limit = self.run.cluster.sim.now().after(START_MAX);
        loop {
            match self.run.command_all("cleanup", &[]) {
                Ok(()) => return Ok(()),
                Err(error) if self.run.cluster.sim.now() >= limit => {
                    return Err(format!("the operation does not end: {error}"));
                }
                Err(_) => {
                    self.run.cluster.sim.run_until(Duration::from_secs(1), || false);
                }
            }
        }
    }
}
