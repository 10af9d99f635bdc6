//! One run of a cluster, from its first start to the verdict.

use super::members::{AGREEMENT_MAX, Cluster, Member, SEEDS_MAX, START_MAX};
use super::nemesis::{Disturbance, Fault, disturb};
use super::planted::Planted;
use super::report::ClusterReport;
use super::schema_client::{Served, SharedChanges, TABLES, client, served};
use crate::forgetful::forget_end_of_log;
use runtime::sim::Stop;
use runtime::{Instant, NodeId};
use std::net::SocketAddr;
use std::time::Duration;

const CLIENTS: NodeId = NodeId(0);
/// Most nodes that start together: in most runs, and in every eighth.
const NODES_MAX: u64 = 5;
const MANY_NODES_MAX: u64 = 9;
/// Most nodes that join later.
const JOINS_MAX: u64 = 3;
/// Most rounds of faults.
const ROUNDS_MAX: u64 = 5;
/// Longest time of a round, virtual.
const ROUND_MILLIS_MAX: u64 = 12_000;
/// How long a change that nobody knows about may still come after its client has given up, virtual time.
const LATE_CHANGES: Duration = Duration::from_secs(20);

/// How long the leader may take to let all nodes vote once they are part of the ring.
const VOTERS_CHOSEN: Duration = Duration::from_secs(5);

struct ClusterRun {
    cluster: Cluster,
    changes: SharedChanges,
    clients: usize,
    planted: Option<Planted>,
}

/// A change of the schema that a node misses because it is down, and that it must serve once it is back, with the
/// version that all others have. The error says what is broken.
pub fn run_missed_change(seed: u64) -> Result<(), String> {
    let mut run = ClusterRun::new(seed, None);
    (0..3).for_each(|_| run.cluster.add_node());
    run.cluster.all_ready("the first start")?;
    // Until all three vote, the two that stay may be no majority.
    run.cluster.sim.run_until(VOTERS_CHOSEN, || false);
    run.cluster.sim.crash(run.cluster.members[2].id);
    run.cluster.create_keyspace()?;
    run.cluster.start(2);
    run.cluster.all_ready("the restart")?;
    let began = run.cluster.sim.now();
    run.check_agreement(began).map(|_| ())
}

/// A node that crashes at a random moment of its joining becomes part of the ring when it starts again. The error says
/// what is broken.
pub fn run_crash_while_joining(seed: u64) -> Result<(), String> {
    let mut run = ClusterRun::new(seed, None);
    (0..2).for_each(|_| run.cluster.add_node());
    run.cluster.all_ready("the first start")?;
    // A log that takes more than one message to send.
    run.cluster.create_keyspace()?;
    run.start_clients();
    run.cluster.sim.run_until(Duration::from_secs(5), || false);
    run.cluster.add_node();
    let time = Duration::from_millis(run.cluster.rng.below(1_500));
    run.cluster.sim.run_until(time, || false);
    run.cluster.sim.crash(run.cluster.members[2].id);
    run.cluster.start(2);
    run.cluster.all_ready("the restart")?;
    run.changes.borrow_mut().stop = true;
    run.cluster.check_ring(AGREEMENT_MAX)
}

/// Lets one of two nodes leave. The other one, started again alone, must be able to change the schema.
///
/// # Errors
/// It is not.
pub fn run_leave_of_one_of_two(seed: u64) -> Result<(), String> {
    let mut run = ClusterRun::new(seed, None);
    (0..2).for_each(|_| run.cluster.add_node());
    run.cluster.all_ready("the first start")?;
    // Changes of the voters take a while.
    Fault::SlowNetwork.begin(&mut run.cluster.sim, &[]);
    let leaving = run.cluster.members[1].id;
    run.cluster.finish_leaving(leaving)?;
    Fault::SlowNetwork.end(&mut run.cluster.sim, &[]);
    run.cluster.sim.crash(run.cluster.members[0].id);
    run.cluster.start(0);
    run.cluster.all_ready("the restart")?;
    run.cluster.create_keyspace()
}

/// Runs one seed to its verdict.
pub fn run_cluster(seed: u64) -> ClusterReport {
    run_with(seed, None)
}

/// Runs one seed with a bug to its verdict.
pub fn run_planted(seed: u64, planted: Planted) -> ClusterReport {
    run_with(seed, Some(planted))
}

fn run_with(seed: u64, planted: Option<Planted>) -> ClusterReport {
    let mut run = ClusterRun::new(seed, planted);
    let ended = run.play();
    let told = run.cluster.sim.contradiction().or_else(|| run.changes.borrow().violation.clone());
    let changes = run.changes.borrow();
    ClusterReport {
        nodes: run.cluster.members.len() as u64,
        changes: changes.made,
        unknown: changes.unknown,
        looked_for: changes.looked_for,
        events: run.cluster.sim.steps(),
        trace_hash: run.cluster.sim.trace_hash(),
        violation: told.or(ended.err()),
        ..run.cluster.report.clone()
    }
}

impl ClusterRun {
    fn new(seed: u64, planted: Option<Planted>) -> ClusterRun {
        ClusterRun { cluster: Cluster::new(seed), changes: SharedChanges::default(), clients: 0, planted }
    }

    fn play(&mut self) -> Result<(), String> {
        let most = if self.cluster.report.seed % 8 == 7 { MANY_NODES_MAX } else { NODES_MAX };
        let nodes = 1 + self.cluster.rng.below(most) as usize;
        self.cluster.seeds = nodes.min(SEEDS_MAX);
        (0..nodes).for_each(|_| self.cluster.add_node());
        self.cluster.all_ready("the first start")?;
        self.cluster.create_keyspace()?;
        self.start_clients();
        for _ in 0..1 + self.cluster.rng.below(ROUNDS_MAX) {
            self.round()?;
        }
        self.plant();
        let began = self.cluster.sim.now();
        self.changes.borrow_mut().stop = true;
        let (changes, clients) = (self.changes.clone(), self.clients);
        let left = self.cluster.sim.run_until(START_MAX, move || changes.borrow().left == clients);
        if left != Stop::Condition {
            return Err(format!("the clients did not leave: {left:?}"));
        }
        self.check_agreement(began)?;
        self.cluster.check_ring(AGREEMENT_MAX)?;
        // A change that nobody knows about may still come.
        self.cluster.sim.run_until(LATE_CHANGES, || false);
        let comments = self.check_agreement(self.cluster.sim.now())?;
        (0..TABLES).try_for_each(|table| self.changes.borrow_mut().check_end(table, comments[table]))
    }

    /// Lets the bugs begin that the judges of the end are to find.
    fn plant(&mut self) {
        let last = self.cluster.members[self.cluster.members.len() - 1].id;
        match self.planted {
            Some(Planted::LostNode) if self.cluster.members.len() > 1 => {
                self.cluster.sim.crash(last);
                self.cluster.members.pop();
            }
            Some(Planted::LastingCut) => {
                let others = self.cluster.members.iter().filter(|member| member.id != last);
                others.for_each(|other| self.cluster.sim.partition(last, other.id, true));
                self.cluster.sim.run_until(Duration::from_secs(5), || false);
            }
            _ => {}
        }
    }

    /// Some faults, time for them to bite, and their end.
    fn round(&mut self) -> Result<(), String> {
        let nodes: Vec<NodeId> = self.cluster.members.iter().map(|member| member.id).collect();
        let seeds = nodes.len().min(self.cluster.seeds);
        let mut faults: Vec<Fault> = Vec::new();
        self.count_faults(1);
        for _ in 0..1 + self.cluster.rng.below(2) {
            // A majority of the nodes keeps its disks.
            let may_lose_a_disk = nodes.len() > 2 && !faults.iter().any(|fault| matches!(fault, Fault::Wipe(_)));
            let lasting = if may_lose_a_disk { &nodes[..seeds] } else { &nodes[..] };
            let fault = Fault::random(&mut self.cluster.rng, &nodes, lasting);
            fault.begin(&mut self.cluster.sim, &nodes);
            self.strike(fault);
            faults.push(fault);
        }
        self.pass_time()?;
        let mut paused_until = self.cluster.sim.now();
        for _ in 0..2 {
            let at = self.cluster.rng.below(self.cluster.members.len() as u64) as usize;
            let Member { id, clock_moved, .. } = self.cluster.members[at];
            match disturb(&mut self.cluster.sim, &mut self.cluster.rng, id, clock_moved) {
                Some(Disturbance::Pause(pause)) => {
                    self.cluster.report.pauses += 1;
                    paused_until = paused_until.max(self.cluster.sim.now().after(pause));
                }
                Some(Disturbance::Clock(moved)) => {
                    self.cluster.members[at].clock_moved = moved;
                    self.cluster.report.clock_jumps += 1;
                }
                None => {}
            }
        }
        let leaving = self.change_ring();
        self.pass_time()?;
        faults.iter().for_each(|fault| fault.end(&mut self.cluster.sim, &nodes));
        for fault in &faults {
            if let Fault::FailingDisk(node, _) = fault
                && self.cluster.sim.is_running(*node)
            {
                self.cluster.sim.crash(*node);
            }
        }
        self.cluster.start_all();
        self.cluster.all_ready("a round")?;
        // One that leaves may have to give ranges to a lost one, and cannot before that is removed.
        self.cluster.replace_wiped()?;
        if let Some(id) = leaving {
            self.cluster.finish_leaving(id)?;
        }
        self.cluster.all_ready("lost nodes were replaced")?;
        // A node that stands still counts as down, and serves what it knew for a moment when it goes on.
        self.cluster.sim.run_until(paused_until.since(self.cluster.sim.now()), || false);
        self.count_faults(0);
        self.pass_time()
    }

    /// The part of a fault that is about a node's life, and its count.
    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(node) | Fault::Wipe(node) => {
                if self.cluster.sim.is_running(node) {
                    self.cluster.sim.crash(node);
                    self.cluster.report.crashes += 1;
                    if self.planted.is_some_and(Planted::forgets) {
                        forget_end_of_log(&mut self.cluster.sim, node);
                    }
                }
                let at = self.cluster.members.iter().position(|member| member.id == node);
                if let (Fault::Wipe(_), Some(at)) = (fault, at) {
                    self.cluster.wipe(at);
                }
            }
            Fault::FailingDisk(..) => self.cluster.report.disk_failures += 1,
            Fault::Cut(..) | Fault::CutOneWay(..) | Fault::Isolate(_) => self.cluster.report.cuts += 1,
            Fault::SlowNetwork | Fault::LossyNetwork | Fault::SlowDisks => self.cluster.report.slow_times += 1,
        }
    }

    /// Perhaps lets a node join, which may crash while it does, and perhaps lets another one leave. Returns the latter.
    fn change_ring(&mut self) -> Option<NodeId> {
        if self.cluster.report.joins < JOINS_MAX && self.cluster.rng.below(3) == 0 {
            self.cluster.add_node();
            self.cluster.report.joins += 1;
            if self.cluster.rng.below(2) == 0 {
                let time = Duration::from_millis(self.cluster.rng.below(2_000));
                self.cluster.sim.run_until(time, || false);
                self.cluster.sim.crash(self.cluster.members[self.cluster.members.len() - 1].id);
                self.cluster.report.crashes += 1;
            }
        }
        let at = self.cluster.rng.below(self.cluster.members.len() as u64) as usize;
        let may_leave =
            at >= self.cluster.seeds && !self.cluster.members[at].is_wiped && self.cluster.rng.below(2) == 0;
        may_leave.then(|| {
            self.cluster.begin_leaving(at);
            self.cluster.members[at].id
        })
    }

    fn count_faults(&mut self, faults: u64) {
        let mut changes = self.changes.borrow_mut();
        changes.faults = faults;
        changes.fault_count += 1;
    }

    fn pass_time(&mut self) -> Result<(), String> {
        let time = Duration::from_millis(self.cluster.rng.below(ROUND_MILLIS_MAX));
        let changes = self.changes.clone();
        self.cluster.sim.run_until(time, move || changes.borrow().violation.is_some());
        self.changes.borrow().violation.clone().or_else(|| self.cluster.sim.contradiction()).map_or(Ok(()), Err)
    }

    fn start_clients(&mut self) {
        let (servers, changes) = (self.cluster.servers(), self.changes.clone());
        self.clients = servers.len();
        self.cluster.sim.start_node(CLIENTS, 1, move |_| {
            let (servers, changes) = (servers.clone(), changes.clone());
            async move {
                let tasks: Vec<_> = servers
                    .iter()
                    .map(|server| runtime::spawn(client(*server, others_of(&servers, *server), changes.clone())))
                    .collect();
                for task in tasks {
                    task.await;
                }
            }
        });
    }

    /// Waits until all nodes serve one schema, which they must soon after `began`, and returns it.
    fn check_agreement(&mut self, began: Instant) -> Result<[Option<i64>; TABLES], String> {
        let servers = self.cluster.servers();
        let agreed = self.cluster.outside(AGREEMENT_MAX, move || agreed(servers.clone()));
        let comments = match agreed {
            Ok(comments) => comments,
            Err(stop) => {
                let servers = self.cluster.servers();
                let views = self.cluster.outside(AGREEMENT_MAX, move || {
                    let servers = servers.clone();
                    async move { runtime::sync::join_all(servers.into_iter().map(served).collect()).await }
                });
                return Err(format!("the nodes do not agree ({stop}): {views:?}"));
            }
        };
        self.cluster.report.agreed_in =
            self.cluster.report.agreed_in.max(self.cluster.sim.now().since(began).as_millis() as u64);
        Ok(comments)
    }
}

fn others_of(servers: &[SocketAddr], own: SocketAddr) -> Vec<SocketAddr> {
    servers.iter().copied().filter(|other| *other != own).collect()
}

/// Asks all nodes until they serve the same, and returns what that is.
async fn agreed(servers: Vec<SocketAddr>) -> [Option<i64>; TABLES] {
    loop {
        let views = runtime::sync::join_all(servers.iter().map(|server| served(*server)).collect()).await;
        let views: Option<Vec<Served>> = views.into_iter().collect();
        if let Some([first, others @ ..]) = views.as_deref()
            && others.iter().all(|other| other == first)
        {
            return first.comments;
        }
        runtime::sleep(Duration::from_millis(100)).await;
    }
}
