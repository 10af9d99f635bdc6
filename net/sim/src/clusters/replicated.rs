//! One run of a cluster with replicated tables: reads and writes of all kinds at QUORUM, through every node, while one
//! node after the other has a fault.
//!
//! 1. Three to five nodes start, or three in each of two data centres; every partition has three replicas, or three in
//!    each data centre, so a majority of them is whole at any time.
//! 2. Clients send what those of a single node send (`workload`), through a random node on each connection. Every
//!    answer is judged as if there were one node: what a read at QUORUM shows is what writes at QUORUM have left.
//!    Three more clients send one kind of requests each: logged batches, deletions, and reads and writes at other
//!    levels that overlap.
//! 3. In an elastic run each round also has an operation on the ring (`elastic`). In a third of the other runs a file
//!    is damaged (`damage`), and in another third an operator repairs (`repairs`).
//! 4. When the faults have ended, the judges look at everything (`verdict`).

use super::members::{Cluster, SEEDS_MAX, START_MAX};
use super::nemesis::Fault;
use super::planted::Planted;
use super::replicated_report::ReplicatedReport;
use crate::forgetful::forget_end_of_log;
use crate::judges::history::History;
use crate::workload::tables::TestTable;
use crate::workload::world::{DataCentres, Replicas, SharedWorld, Work, World};
use crate::workload::{batches, checker, client, deletions, levels};
use model::Consistency;
use runtime::NodeId;
use runtime::sim::Stop;
use server::client::{Client, QueryOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

pub(super) const CLIENTS: NodeId = NodeId(0);
/// Replicas of every partition.
const FACTOR: u32 = 3;
/// Most nodes.
const NODES_MAX: u64 = 5;
/// Most clients.
const CLIENTS_MAX: u64 = 4;
/// Clients that send one kind of requests alone.
const CLIENTS_OF_ONE_KIND: usize = 3;
/// How long a node is cut off that then crashes, if it is not to write hints before, virtual.
const ALONE: Duration = Duration::from_secs(3);
/// Most rounds of faults.
const ROUNDS_MAX: u64 = 4;
/// How many rounds of faults a run has whose clients send conditional changes and SERIAL reads alone.
const DECISION_ROUNDS: u64 = 12;
/// Longest time of a fault, and of the quiet after it, virtual.
const ROUND_MILLIS_MAX: u64 = 25_000;
/// Longest time between the start of the clients and a fault, virtual.
const CALM_MILLIS_MAX: u64 = 3_000;
/// Longest pause of a node's process.
const PAUSE_MILLIS_MAX: u64 = 25_000;
/// Longer than any message between nodes lives, virtual.
const LATE_MESSAGES: Duration = Duration::from_secs(15);

/// A run under way.
pub(super) struct ReplicatedRun {
    pub(super) cluster: Cluster,
    pub(super) world: SharedWorld,
    /// How many clients send requests of all kinds.
    pub(super) clients: u8,
    /// How many clients send requests of one kind.
    pub(super) clients_of_one_kind: usize,
    /// Whether clients send conditional changes and SERIAL reads alone, and no bug is planted.
    only_decides: bool,
    /// Whether nodes join, leave and are replaced.
    is_elastic: bool,
    /// Whether files of nodes are damaged.
    pub(super) damages: bool,
    /// Whether a node has a damaged file.
    pub(super) is_damaged: bool,
    /// Whether an operator repairs.
    pub(super) repairs: bool,
    pub(super) planted: Option<Planted>,
    /// Whether hints are delivered only after the clients have left.
    pub(super) holds_hints_back: bool,
    /// Whether no node has ended or failed with hints that it had not written yet.
    pub(super) keeps_hints: bool,
    pub(super) report: ReplicatedReport,
    /// How many replicas the keyspace has whose number changes.
    pub(super) factor: u32,
}

/// Runs one seed to its verdict.
pub fn run_replicated(seed: u64) -> ReplicatedReport {
    run(seed, Work::Everything, None, Changes::None)
}

/// Runs one seed to its verdict, with an operation on the ring in every round.
pub fn run_elastic(seed: u64) -> ReplicatedReport {
    run(seed, Work::Everything, None, Changes::Ring)
}

/// Runs one seed to its verdict, on tables that are cut into tablets, with an operation on the ring or changes of
/// tablets in every round.
pub fn run_tablets(seed: u64) -> ReplicatedReport {
    run(seed, Work::Everything, None, Changes::RingAndTablets)
}

/// Runs one seed with a bug to its verdict.
pub fn run_replicated_planted(seed: u64, planted: Planted) -> ReplicatedReport {
    let work = if planted == Planted::ForgetfulAcceptors { Work::Registers } else { Work::Everything };
    run(seed, work, Some(planted), Changes::None)
}

/// Runs one seed to its verdict, with as many clients as there may be that send conditional changes and SERIAL reads
/// alone, and more faults.
pub fn run_decisions(seed: u64) -> ReplicatedReport {
    run(seed, Work::Registers, None, Changes::None)
}

/// What moves data during a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    /// Nothing.
    None,
    /// Nodes join, leave and are replaced, and replication changes.
    Ring,
    /// The same, and tables have tablets, which split, merge and move.
    RingAndTablets,
}

/// The size at which tablets are split in a run with tablets: the smallest that there is.
const TABLET_SIZE: &str = "physical_partition_size=64KiB";
/// How long nodes of a run with managed keyspaces are down before their replicas are rebuilt: the shortest that there
/// is.
const REPLACEMENT: &str = "replica_replacement_after=30s";

/// Every partition is hot that a core reads: its equal reads are joined, the others spread over the replicas.
const HOT: &str = "hot_partition_reads_per_second=1";

fn run(seed: u64, work: Work, planted: Option<Planted>, changes: Changes) -> ReplicatedReport {
    let mut cluster = Cluster::new(seed);
    let (is_elastic, by_tablets) = (changes != Changes::None, changes == Changes::RingAndTablets);
    if by_tablets {
        cluster.options.extend([TABLET_SIZE, REPLACEMENT].map(str::to_owned));
    }
    cluster.centres = if cluster.rng.below(4) == 0 && !is_elastic { DataCentres::Two } else { DataCentres::One };
    if planted == Some(Planted::NoHints) {
        cluster.options.push("hinted_handoff_enabled=false".to_owned());
    }
    if seed.is_multiple_of(2) && planted.is_none() {
        cluster.options.push(HOT.to_owned());
    }
    let holds_hints_back = cluster.rng.below(3) == 0 || planted == Some(Planted::LateHints);
    let is_managed = by_tablets && seed % 3 == 1;
    let level = if planted == Some(Planted::CountedTwice) { Consistency::One } else { Consistency::Quorum };
    let world = World {
        work,
        reads_are_durable: true,
        history: History::replicated(),
        replicas: Replicas { factor: FACTOR, level, centres: cluster.centres, by_tablets, is_managed },
        batches_are_logged: planted != Some(Planted::NoBatchLog),
        levels: levels::tables(&mut cluster.rng, cluster.centres),
        ..World::default()
    };
    let clients = 1 + cluster.rng.below(CLIENTS_MAX) as u8;
    let only_decides = work == Work::Registers && planted.is_none();
    let clients = if only_decides { CLIENTS_MAX as u8 } else { clients };
    let world = Rc::new(RefCell::new(world));
    let is_plain = work == Work::Everything && planted.is_none() && !is_elastic;
    let mut run = ReplicatedRun {
        only_decides,
        damages: is_plain && seed % 3 == 1,
        repairs: is_plain && seed % 3 == 2,
        is_elastic,
        planted,
        holds_hints_back,
        // What a node gets as a hint while another fetches its tablet from it, that one does not have before a repair.
        keeps_hints: !by_tablets,
        ..ReplicatedRun::new(cluster, world, clients)
    };
    run.clients_of_one_kind = if work == Work::Everything { CLIENTS_OF_ONE_KIND } else { 0 };
    let violation = run.play().err().or_else(|| run.world.borrow().violation.clone());
    let world = run.world.borrow();
    ReplicatedReport {
        seed,
        answered: world.answered,
        reads_checked: world.reads_checked,
        decisions: world.registers.answered,
        batches: world.batches.count(),
        deletions: world.deletions.keys().len() as u64,
        events: run.cluster.sim.steps(),
        trace_hash: run.cluster.sim.trace_hash(),
        violation,
        ..run.report.clone()
    }
}

impl ReplicatedRun {
    /// A run without anything special.
    pub(super) fn new(cluster: Cluster, world: SharedWorld, clients: u8) -> ReplicatedRun {
        ReplicatedRun {
            cluster,
            world,
            clients,
            clients_of_one_kind: 0,
            only_decides: false,
            is_elastic: false,
            damages: false,
            is_damaged: false,
            repairs: false,
            planted: None,
            holds_hints_back: false,
            keeps_hints: true,
            report: ReplicatedReport::default(),
            factor: FACTOR,
        }
    }

    fn play(&mut self) -> Result<(), String> {
        self.report.nodes = match self.cluster.centres {
            DataCentres::One => u64::from(FACTOR) + self.cluster.rng.below(NODES_MAX - u64::from(FACTOR) + 1),
            DataCentres::Two => 2 * u64::from(FACTOR),
        };
        self.cluster.seeds = SEEDS_MAX;
        (0..self.report.nodes).for_each(|_| self.cluster.add_node());
        self.cluster.all_ready("the first start")?;
        self.create_schema()?;
        self.hold_hints_back()?;
        self.prepare_repairs()?;
        self.start_clients();
        let rounds = if self.only_decides { DECISION_ROUNDS } else { 1 + self.cluster.rng.below(ROUNDS_MAX) };
        for _ in 0..rounds {
            self.round()?;
        }
        self.leave()?;
        self.finish()
    }

    /// A fault of one node, or of the network, and a time without any. In an elastic run an operation on the ring
    /// begins before the fault and ends after it.
    fn round(&mut self) -> Result<(), String> {
        let operation = if self.is_elastic { self.begin_operation()? } else { None };
        let repair = self.begin_repair();
        self.strike()?;
        if let Some(repair) = repair {
            self.finish_repair(&repair)?;
        }
        if let Some(operation) = operation {
            self.finish_operation(operation)?;
        }
        self.settle()
    }

    /// A fault of one node, or of the network, and its end.
    fn strike(&mut self) -> Result<(), String> {
        // Clients were paused, and the fault is to meet requests under way.
        let calm = Duration::from_millis(self.cluster.rng.below(CALM_MILLIS_MAX));
        self.cluster.sim.run_until(calm, || false);
        self.damage()?;
        let nodes: Vec<NodeId> = self.cluster.members.iter().map(|member| member.id).collect();
        let rng = &mut self.cluster.rng;
        let victim = nodes[rng.below(nodes.len() as u64) as usize];
        let is_crash = self.planted.is_some_and(Planted::crashes_only);
        let is_pause = !is_crash && rng.below(5) == 0;
        // No node may lose its disk: what it had is not copied to it again.
        let fault = if is_crash { Fault::Crash(victim) } else { Fault::random(rng, &nodes, &nodes) };
        let began = self.cluster.sim.now().0 / 1_000_000;
        self.report.struck.push(match is_pause {
            true => format!("{began}: Pause({})", victim.0),
            false => format!("{began}: {fault:?}"),
        });
        if is_pause {
            let pause = Duration::from_millis(self.cluster.rng.below(PAUSE_MILLIS_MAX));
            self.cluster.sim.pause(victim, pause);
            self.report.faults += 1;
            self.cluster.sim.run_until(pause, || false);
            return self.pass_time();
        }
        fault.begin(&mut self.cluster.sim, &nodes);
        self.keeps_hints &= !matches!(fault, Fault::Crash(_) | Fault::FailingDisk(..));
        match fault {
            Fault::Crash(node) => {
                if self.planted == Some(Planted::NoBatchLog) {
                    // Until it crashes, it alone gets its own part of each batch.
                    Fault::Isolate(node).begin(&mut self.cluster.sim, &nodes);
                    self.cluster.sim.run_until(ALONE, || false);
                }
                self.crash(node);
                if self.planted.is_some_and(Planted::forgets) {
                    // What two of three replicas have acknowledged is then on one at most.
                    let next = nodes.iter().cycle().skip_while(|other| **other != node).nth(1);
                    next.into_iter().for_each(|next| self.crash(*next));
                }
            }
            _ => self.report.faults += 1,
        }
        self.pass_time()?;
        fault.end(&mut self.cluster.sim, &nodes);
        if self.planted == Some(Planted::NoBatchLog) {
            Fault::Isolate(victim).end(&mut self.cluster.sim, &nodes);
        }
        if let Fault::FailingDisk(node, _) = fault
            && self.cluster.sim.is_running(node)
        {
            self.crash(node);
        }
        self.cluster.start_all();
        self.cluster.all_ready("a round")?;
        self.hold_hints_back()?;
        self.pass_time()
    }

    fn crash(&mut self, node: NodeId) {
        self.cluster.sim.crash(node);
        self.report.crashes += 1;
        if self.planted.is_some_and(Planted::forgets) {
            forget_end_of_log(&mut self.cluster.sim, node);
        }
    }

    /// Lets every message and request of the clients end, then reads all registers at SERIAL: after that no earlier
    /// conditional change can take effect any more.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.world.borrow_mut().paused = true;
        let world = self.world.clone();
        let stop = self.cluster.sim.run_until(START_MAX, move || world.borrow().busy == 0);
        if stop != Stop::Condition {
            return Err(format!("the requests of clients did not end: {stop:?}"));
        }
        self.cluster.sim.run_until(LATE_MESSAGES, || false);
        self.heal()?;
        self.check_registers()?;
        let mut world = self.world.borrow_mut();
        world.registers.restarted();
        world.paused = false;
        Ok(())
    }

    /// Nodes forget at their starts that they are to hold hints back.
    pub(super) fn hold_hints_back(&mut self) -> Result<(), String> {
        if self.holds_hints_back { self.command_all("pausehandoff", &[]) } else { Ok(()) }
    }

    fn pass_time(&mut self) -> Result<(), String> {
        let time = Duration::from_millis(self.cluster.rng.below(ROUND_MILLIS_MAX));
        let world = self.world.clone();
        self.cluster.sim.run_until(time, move || world.borrow().violation.is_some());
        self.verdict()
    }

    /// The first broken rule, if any.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.world.borrow().violation.clone().map_or(Ok(()), Err)
    }

    pub(super) fn create_schema(&mut self) -> Result<(), String> {
        let (server, clients) = (self.cluster.servers()[0], self.clients);
        let replication = self.world.borrow().replicas.usual_options(self.factor);
        let read_repair = if self.planted == Some(Planted::NoReadRepair) { "NONE" } else { "BLOCKING" };
        let world = self.world.clone();
        self.cluster.outside(START_MAX, move || {
            let (world, replication) = (world.clone(), replication.clone());
            async move {
                let mut client = Client::connect(server, None, 5).await.map_err(|error| format!("connect: {error}"))?;
                let created = checker::create_schema(&mut client, clients, &replication).await;
                created.map_err(|error| format!("schema: {error:?}"))?;
                let created = checker::create_replicated(&mut client, &world).await;
                created.map_err(|error| format!("schema: {error:?}"))?;
                // A replica may miss a deletion for longer than the tables of a single node keep tombstones.
                let tables = (0..2 + clients).map(|index| TestTable { index }.name()).chain(["s.registers".to_owned()]);
                for table in tables {
                    let text =
                        format!("ALTER TABLE {table} WITH gc_grace_seconds = 864000 AND read_repair = '{read_repair}'");
                    let altered = client.query(&text, &QueryOptions::default()).await;
                    altered.map_err(|error| format!("schema: {error:?}"))?;
                }
                Ok(())
            }
        })?
    }

    fn start_clients(&mut self) {
        let (servers, world, clients) = (self.cluster.servers(), self.world.clone(), self.clients);
        self.cluster.sim.start_node(CLIENTS, 1, move |_| {
            let (servers, world) = (servers.clone(), world.clone());
            async move {
                let client = |number| runtime::spawn(client::client(number, servers.clone(), world.clone()));
                let mut tasks: Vec<_> = (0..clients).map(client).collect();
                if world.borrow().work == Work::Everything {
                    tasks.push(runtime::spawn(batches::client(servers.clone(), world.clone())));
                    tasks.push(runtime::spawn(deletions::client(servers.clone(), world.clone())));
                    tasks.push(runtime::spawn(levels::client(servers.clone(), world.clone())));
                }
                for task in tasks {
                    task.await;
                }
            }
        });
    }

    /// Lets the clients finish their requests and leave.
    pub(super) fn leave(&mut self) -> Result<(), String> {
        self.world.borrow_mut().stop = true;
        let (world, clients) = (self.world.clone(), usize::from(self.clients) + self.clients_of_one_kind);
        let left = move || {
            let world = world.borrow();
            world.left == clients || world.violation.is_some()
        };
        match self.cluster.sim.run_until(START_MAX, left) {
            Stop::Condition => self.verdict(),
            stop => Err(format!("the clients did not leave: {stop:?}")),
        }
    }
}
