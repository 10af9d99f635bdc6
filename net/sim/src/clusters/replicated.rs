//! One run of a cluster with replicated tables: reads and writes of all kinds at QUORUM, through every node, while one
//! node after the other has a fault.
//!
//! 1. Three to five nodes start; every partition has three replicas, so a majority of them is whole at any time.
//! 2. Clients send what those of a single node send (`workload`), through a random node on each connection. Every
//!    answer is judged as if there were one node: what a read at QUORUM shows is what writes at QUORUM have left.
//! 3. When the faults have ended and what was missed has been delivered, all partitions are read at QUORUM through
//!    every node, then at ALL, which leaves the replicas equal, then from one replica alone.

use super::members::{Cluster, SEEDS_MAX, START_MAX};
use super::nemesis::Fault;
use crate::judges::history::History;
use crate::seeds::SeedReport;
use crate::workload::tables::TestTable;
use crate::workload::world::{Replicas, SharedWorld};
use crate::workload::{checker, client};
use model::Consistency;
use runtime::NodeId;
use runtime::sim::Stop;
use server::client::{Client, QueryOptions};
use std::net::SocketAddr;
use std::time::Duration;

const CLIENTS: NodeId = NodeId(0);
/// Replicas of every partition.
const FACTOR: u32 = 3;
/// Most nodes.
const NODES_MAX: u64 = 5;
/// Most clients.
const CLIENTS_MAX: u64 = 4;
/// Most rounds of faults.
const ROUNDS_MAX: u64 = 4;
/// Longest time of a fault, and of the quiet after it, virtual.
const ROUND_MILLIS_MAX: u64 = 25_000;
/// Longest pause of a node's process.
const PAUSE_MILLIS_MAX: u64 = 25_000;
/// After this time without faults, hints and logged batches have reached every replica, virtual.
const DELIVERY: Duration = Duration::from_secs(90);
/// Longer than any message between nodes lives, virtual.
const LATE_MESSAGES: Duration = Duration::from_secs(15);
/// Longest time of a check, virtual.
const CHECK_MAX: Duration = Duration::from_secs(300);

/// What happened in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplicatedReport {
    /// The seed.
    pub seed: u64,
    /// The nodes.
    pub nodes: u64,
    /// Statements answered.
    pub answered: u64,
    /// Reads checked.
    pub reads_checked: u64,
    /// Conditional changes and SERIAL reads answered.
    pub decisions: u64,
    /// Crashes of nodes.
    pub crashes: u64,
    /// Cuts and disturbances of the network, slow disks, pauses of processes.
    pub faults: u64,
    /// The faults in their order, each with when it began, virtual milliseconds.
    pub struck: Vec<String>,
    /// Simulator events.
    pub events: u64,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// The first broken rule, if any.
    pub violation: Option<String>,
}

impl SeedReport for ReplicatedReport {
    fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    fn add(&mut self, other: &ReplicatedReport) {
        for (sum, count) in [
            (&mut self.nodes, other.nodes),
            (&mut self.answered, other.answered),
            (&mut self.reads_checked, other.reads_checked),
            (&mut self.decisions, other.decisions),
            (&mut self.crashes, other.crashes),
            (&mut self.faults, other.faults),
            (&mut self.events, other.events),
        ] {
            *sum += count;
        }
    }

    fn totals(&self) -> String {
        let ReplicatedReport { nodes, answered, reads_checked, decisions, crashes, faults, events, .. } = self;
        format!(
            "{nodes} nodes in all; {answered} statements, {reads_checked} reads checked, {decisions} decisions, {crashes} \
             crashes, {faults} other faults; {events} events"
        )
    }
}

struct ReplicatedRun {
    cluster: Cluster,
    world: SharedWorld,
    clients: u8,
    report: ReplicatedReport,
}

/// Runs one seed to its verdict.
pub fn run_replicated(seed: u64) -> ReplicatedReport {
    run_replicated_at(seed, Consistency::Quorum)
}

/// Runs one seed to its verdict with clients that read and write at `level`. The judges take it for QUORUM: with ONE
/// they are to find coordinators that answer as if they had counted an answer twice.
pub fn run_replicated_at(seed: u64, level: Consistency) -> ReplicatedReport {
    let mut cluster = Cluster::new(seed);
    let world = SharedWorld::default();
    {
        let mut world = world.borrow_mut();
        world.reads_are_durable = true;
        world.history = History::replicated();
        world.replicas = Replicas { factor: FACTOR, level };
    }
    let clients = 1 + cluster.rng.below(CLIENTS_MAX) as u8;
    let mut run = ReplicatedRun { cluster, world, clients, report: ReplicatedReport::default() };
    let violation = run.play().err().or_else(|| run.world.borrow().violation.clone());
    let world = run.world.borrow();
    ReplicatedReport {
        seed,
        answered: world.answered,
        reads_checked: world.reads_checked,
        decisions: world.registers.answered,
        events: run.cluster.sim.steps(),
        trace_hash: run.cluster.sim.trace_hash(),
        violation,
        ..run.report.clone()
    }
}

impl ReplicatedRun {
    fn play(&mut self) -> Result<(), String> {
        self.report.nodes = u64::from(FACTOR) + self.cluster.rng.below(NODES_MAX - u64::from(FACTOR) + 1);
        self.cluster.seeds = SEEDS_MAX;
        (0..self.report.nodes).for_each(|_| self.cluster.add_node());
        self.cluster.all_ready("the first start")?;
        self.create_schema()?;
        self.start_clients();
        for _ in 0..1 + self.cluster.rng.below(ROUNDS_MAX) {
            self.round()?;
        }
        self.leave()?;
        self.cluster.sim.run_until(DELIVERY, || false);
        for server in self.cluster.servers() {
            self.check(server, Consistency::Quorum, false)?;
        }
        let servers = self.cluster.servers();
        self.check(servers[0], Consistency::All, false)?;
        for server in servers {
            self.check(server, Consistency::One, false)?;
        }
        Ok(())
    }

    /// A fault of one node, or of the network, and a time without any.
    fn round(&mut self) -> Result<(), String> {
        let nodes: Vec<NodeId> = self.cluster.members.iter().map(|member| member.id).collect();
        let rng = &mut self.cluster.rng;
        let victim = nodes[rng.below(nodes.len() as u64) as usize];
        let is_pause = rng.below(5) == 0;
        // No node may lose its disk: what it had is not copied to it again.
        let fault = Fault::random(rng, &nodes, &nodes);
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
            return self.settle();
        }
        fault.begin(&mut self.cluster.sim, &nodes);
        match fault {
            Fault::Crash(node) => {
                self.cluster.sim.crash(node);
                self.report.crashes += 1;
            }
            _ => self.report.faults += 1,
        }
        self.pass_time()?;
        fault.end(&mut self.cluster.sim, &nodes);
        if let Fault::FailingDisk(node, _) = fault
            && self.cluster.sim.is_running(node)
        {
            self.cluster.sim.crash(node);
        }
        self.cluster.start_all();
        self.cluster.all_ready("a round")?;
        self.pass_time()?;
        self.settle()
    }

    /// Lets every message and request of the clients end, then reads all registers at SERIAL: after that no earlier
    /// conditional change can take effect any more.
    fn settle(&mut self) -> Result<(), String> {
        self.world.borrow_mut().paused = true;
        let world = self.world.clone();
        let stop = self.cluster.sim.run_until(START_MAX, move || world.borrow().busy == 0);
        if stop != Stop::Condition {
            return Err(format!("the requests of clients did not end: {stop:?}"));
        }
        self.cluster.sim.run_until(LATE_MESSAGES, || false);
        self.check(self.cluster.servers()[0], Consistency::Quorum, true)?;
        let mut world = self.world.borrow_mut();
        world.registers.restarted();
        world.paused = false;
        Ok(())
    }

    fn pass_time(&mut self) -> Result<(), String> {
        let time = Duration::from_millis(self.cluster.rng.below(ROUND_MILLIS_MAX));
        let world = self.world.clone();
        self.cluster.sim.run_until(time, move || world.borrow().violation.is_some());
        self.verdict()
    }

    fn verdict(&self) -> Result<(), String> {
        self.world.borrow().violation.clone().map_or(Ok(()), Err)
    }

    fn create_schema(&mut self) -> Result<(), String> {
        let (server, clients) = (self.cluster.servers()[0], self.clients);
        self.cluster.outside(START_MAX, move || async move {
            let mut client = Client::connect(server, None, 5).await.map_err(|error| format!("connect: {error}"))?;
            let created = checker::create_schema(&mut client, clients, FACTOR).await;
            created.map_err(|error| format!("schema: {error:?}"))?;
            // A replica may miss a deletion for longer than the tables of a single node keep tombstones.
            let tables = (0..2 + clients).map(|index| TestTable { index }.name()).chain(["s.registers".to_owned()]);
            for table in tables {
                let text = format!("ALTER TABLE {table} WITH gc_grace_seconds = 864000");
                let altered = client.query(&text, &QueryOptions::default()).await;
                altered.map_err(|error| format!("schema: {error:?}"))?;
            }
            Ok(())
        })?
    }

    fn start_clients(&mut self) {
        let (servers, world, clients) = (self.cluster.servers(), self.world.clone(), self.clients);
        self.cluster.sim.start_node(CLIENTS, 1, move |_| {
            let (servers, world) = (servers.clone(), world.clone());
            async move {
                let client = |number| runtime::spawn(client::client(number, servers.clone(), world.clone()));
                let tasks: Vec<_> = (0..clients).map(client).collect();
                for task in tasks {
                    task.await;
                }
            }
        });
    }

    /// Lets the clients finish their requests and leave.
    fn leave(&mut self) -> Result<(), String> {
        self.world.borrow_mut().stop = true;
        let (world, clients) = (self.world.clone(), usize::from(self.clients));
        let left = move || {
            let world = world.borrow();
            world.left == clients || world.violation.is_some()
        };
        match self.cluster.sim.run_until(START_MAX, left) {
            Stop::Condition => self.verdict(),
            stop => Err(format!("the clients did not leave: {stop:?}")),
        }
    }

    /// Reads everything through a node, or all registers.
    fn check(&mut self, server: SocketAddr, level: Consistency, registers: bool) -> Result<(), String> {
        let usual = std::mem::replace(&mut self.world.borrow_mut().replicas.level, level);
        let (world, clients) = (self.world.clone(), self.clients);
        let told = |error: String| format!("a check through {server} at {}: {error}", level.name());
        let checked = self.cluster.outside(CHECK_MAX, move || {
            let world = world.clone();
            async move {
                let mut client = Client::connect(server, None, 5).await.map_err(|error| format!("connect: {error}"))?;
                match registers {
                    true => checker::check_registers(&mut client, &world).await,
                    false => checker::check_all(&mut client, clients, &world).await,
                }
            }
        });
        self.world.borrow_mut().replicas.level = usual;
        checked.and_then(|checked| checked).map_err(told)?;
        self.verdict().map_err(told)
    }
}
