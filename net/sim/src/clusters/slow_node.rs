//! A run in which one node of a cluster is slow for a while: what becomes of requests that can do without it, and of
//! those that cannot.
//!
//! 1. Three to five nodes of one or two cores start, with three replicas of a table.
//! 2. Clients send requests to all nodes but one, at a steady pace, first in calm times.
//! 3. That node is slow: its process stands still, its disk stalls, or its disk is slow. From a moment after that on,
//!    requests at QUORUM must be about as fast as before and must not fail ([`slowness`]); those at ALL must end in
//!    time, and nodes must not send each other much more than before for each request ([`patience`]).

use super::members::{Cluster, SEEDS_MAX, START_MAX};
use super::planted::Planted;
use crate::judges::history::Violation;
use crate::judges::patience::{self, Load};
use crate::judges::slowness;
use crate::seeds::SeedReport;
use crate::workload::steady::{self, Kind, Shared};
use runtime::NodeId;
use runtime::sim::Stop;
use server::client::{Client, QueryOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const CLIENTS: NodeId = NodeId(0);
/// Clients.
const CLIENT_COUNT: u64 = 18;
/// Nodes: at least, and at most.
const NODES: (u64, u64) = (3, 5);
const CORES_MAX: u64 = 2;
/// How long there is load before anything is measured, virtual.
const WARM_UP: Duration = Duration::from_secs(5);
/// How long the calm times are that are measured, virtual.
const CALM: Duration = Duration::from_secs(20);
/// How long the node is slow, virtual: at least, and at most so much more.
const SLOW: (Duration, u64) = (Duration::from_secs(15), 30_000);
/// How long the slow node may slow others down, virtual.
const TURNING: Duration = Duration::from_secs(2);
/// How many times its calm value the 99th percentile of latencies may have.
const TIMES_MAX: u32 = 2;
/// The same of reads beside a node whose disk stands still. It answers what it had before, so that a read which asks it
/// asks again for what differs, and writes that to a further replica when the slow one does not acknowledge it in time.
const TIMES_OF_READS_MAX: u32 = 4;
/// The timeouts of reads and writes, as nodes have them by default.
const TIMEOUTS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(2));

/// How a node is slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slowness {
    /// Its process stands still.
    Paused,
    /// Each call on its disk takes as long as this.
    Disk(Duration, Duration),
}

/// What happened in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlowNodeReport {
    /// The seed.
    pub seed: u64,
    /// The nodes.
    pub nodes: u64,
    /// Runs with a paused process, and with a slow disk.
    pub slow: [u64; 2],
    /// Requests that ended.
    pub requests: u64,
    /// Requests at ALL that failed.
    pub failed: u64,
    /// 99% of reads at QUORUM took up to this: in calm times, and beside the slow node.
    pub read_p99: [Duration; 2],
    /// The same of writes.
    pub write_p99: [Duration; 2],
    /// The same of conditional changes.
    pub decision_p99: [Duration; 2],
    /// Bytes sent between nodes for a request, likewise.
    pub bytes: [u64; 2],
    /// The longest time that a request took.
    pub longest: Duration,
    /// The first broken rule, if any.
    pub violation: Option<String>,
}

impl SeedReport for SlowNodeReport {
    fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    fn add(&mut self, other: &SlowNodeReport) {
        self.nodes += other.nodes;
        (0..2).for_each(|at| self.slow[at] += other.slow[at]);
        self.requests += other.requests;
        self.failed += other.failed;
        for at in 0..2 {
            self.read_p99[at] = self.read_p99[at].max(other.read_p99[at]);
            self.write_p99[at] = self.write_p99[at].max(other.write_p99[at]);
            self.decision_p99[at] = self.decision_p99[at].max(other.decision_p99[at]);
            self.bytes[at] = self.bytes[at].max(other.bytes[at]);
        }
        self.longest = self.longest.max(other.longest);
    }

    fn totals(&self) -> String {
        let SlowNodeReport { nodes, slow: [paused, disks], requests, failed, longest, .. } = self;
        let SlowNodeReport { read_p99, write_p99, decision_p99, bytes, .. } = self;
        format!(
            "{nodes} nodes in all, {paused} paused, {disks} with slow disks; {requests} requests, {failed} at ALL failed, \
             longest {longest:?}; highest p99 in calm times and beside a slow node: reads {read_p99:?}, writes \
             {write_p99:?}, conditional changes {decision_p99:?}; most bytes between nodes for a request {bytes:?}"
        )
    }
}

/// Runs one seed to its verdict.
pub fn run_slow_node(seed: u64) -> SlowNodeReport {
    run(seed, None)
}

/// Runs one seed with a bug to its verdict.
pub fn run_slow_node_planted(seed: u64, planted: Planted) -> SlowNodeReport {
    run(seed, Some(planted))
}

fn run(seed: u64, planted: Option<Planted>) -> SlowNodeReport {
    let mut cluster = Cluster::new(seed);
    cluster.cores_max = CORES_MAX;
    match planted {
        Some(Planted::PatientNodes) => {
            let timeouts = ["read_request_timeout=30s", "write_request_timeout=30s", "native_transport_timeout=30s"];
            cluster.options.extend(timeouts.map(str::to_owned));
        }
        Some(Planted::SlowReplicas) => cluster.options.push("dynamic_snitch=false".to_owned()),
        _ => {}
    }
    let mut run = SlowNodeRun {
        cluster,
        planted,
        shared: Rc::default(),
        report: SlowNodeReport { seed, ..SlowNodeReport::default() },
    };
    let violation = run.play().err();
    SlowNodeReport { violation, ..run.report }
}

struct SlowNodeRun {
    cluster: Cluster,
    planted: Option<Planted>,
    shared: Rc<RefCell<Shared>>,
    report: SlowNodeReport,
}

impl SlowNodeRun {
    fn play(&mut self) -> Result<(), String> {
        self.report.nodes = NODES.0 + self.cluster.rng.below(NODES.1 - NODES.0 + 1);
        self.cluster.seeds = SEEDS_MAX;
        (0..self.report.nodes).for_each(|_| self.cluster.add_node());
        self.cluster.all_ready("the first start")?;
        self.create_schema()?;
        let at = self.cluster.rng.below(self.report.nodes) as usize;
        let victim = self.cluster.members[at].id;
        self.start_clients(at);
        self.cluster.sim.run_until(WARM_UP, || false);
        let calm = self.measure(victim, CALM);
        let rng = &mut self.cluster.rng;
        let time = SLOW.0 + Duration::from_millis(rng.below(SLOW.1));
        let slowness = match rng.below(3) {
            0 => Slowness::Paused,
            1 => Slowness::Disk(Duration::from_secs(3), Duration::from_secs(9)),
            _ => Slowness::Disk(Duration::from_millis(100), Duration::from_millis(400)),
        };
        self.report.slow[usize::from(slowness != Slowness::Paused)] += 1;
        match slowness {
            Slowness::Paused => self.cluster.sim.pause(victim, TURNING + time),
            Slowness::Disk(from, to) => self.cluster.sim.slow_disk(victim, Some((from, to))),
        }
        self.cluster.sim.run_until(TURNING, || false);
        let slow = self.measure(victim, time);
        self.cluster.sim.slow_disk(victim, None);
        self.leave()?;
        self.judge(&calm, &slow, slowness).map_err(|Violation(text)| format!("{slowness:?} of node {at}: {text}"))
    }

    /// Lets time pass. Returns when that was, and what was sent for the requests that began in it.
    fn measure(&mut self, victim: NodeId, time: Duration) -> Measured {
        let (began, sent) = (self.cluster.sim.now().0, self.bytes_sent(victim));
        self.cluster.sim.run_until(time, || false);
        let ended = self.cluster.sim.now().0;
        Measured { within: began..ended, bytes: self.bytes_sent(victim) - sent }
    }

    /// Bytes that all nodes but one have sent to other nodes.
    fn bytes_sent(&self, victim: NodeId) -> u64 {
        let nodes = || self.cluster.members.iter().map(|member| member.id);
        let from = nodes().filter(|node| *node != victim);
        from.flat_map(|from| nodes().map(move |to| (from, to))).map(|(from, to)| self.cluster.sim.bytes(from, to)).sum()
    }

    fn judge(&mut self, calm: &Measured, slow: &Measured, slowness: Slowness) -> Result<(), Violation> {
        let shared = self.shared.clone();
        let shared = shared.borrow();
        let report = &mut self.report;
        report.requests = shared.ended.len() as u64;
        report.longest = shared.ended.iter().map(|ended| ended.took).max().unwrap_or_default();
        let failed = shared.ended.iter().filter(|ended| ended.error.is_some());
        report.failed = failed.filter(|ended| matches!(ended.kind, Kind::ReadAll | Kind::WriteAll)).count() as u64;
        let load = |measured: &Measured| {
            let requests = shared.ended.iter().filter(|ended| measured.within.contains(&ended.began)).count() as u64;
            Load { bytes: measured.bytes, requests }
        };
        let loads = [load(calm), load(slow)];
        report.bytes = loads.map(|load| load.bytes / load.requests.max(1));
        let latencies = |kind| [calm, slow].map(|measured| shared.latencies(kind, measured.within.clone()));
        let kinds = [Kind::Read, Kind::Write, Kind::Decision].map(latencies);
        let percentiles = |at: usize| [kinds[at][0].p99(), kinds[at][1].p99()];
        (report.read_p99, report.write_p99, report.decision_p99) = (percentiles(0), percentiles(1), percentiles(2));
        for ended in &shared.ended {
            let timeout = if matches!(ended.kind, Kind::Read | Kind::ReadAll) { TIMEOUTS.0 } else { TIMEOUTS.1 };
            patience::check_wait(&format!("{:?}", ended.kind), timeout, ended.took)?;
        }
        patience::check_load(loads[0], loads[1])?;
        for ended in &shared.ended {
            let can_do_without = !matches!(ended.kind, Kind::ReadAll | Kind::WriteAll);
            if let (Some(error), true) = (&ended.error, can_do_without && slow.within.contains(&ended.began)) {
                return Err(Violation(format!("{:?} at {} failed: {error}", ended.kind, ended.began)));
            }
        }
        let of_reads = if slowness == Slowness::Paused { TIMES_MAX } else { TIMES_OF_READS_MAX };
        for ([before, during], times_max) in kinds.iter().zip([of_reads, TIMES_MAX, TIMES_MAX]) {
            slowness::check_latencies(before, during, times_max)?;
        }
        Ok(())
    }

    fn create_schema(&mut self) -> Result<(), String> {
        let server = self.cluster.servers()[0];
        let speculative_retry = if self.planted == Some(Planted::SlowReplicas) { "NEVER" } else { "99p" };
        self.cluster.outside(START_MAX, move || async move {
            let mut client = Client::connect(server, None, 5).await.map_err(|error| format!("connect: {error}"))?;
            for text in steady::create(speculative_retry) {
                let created = client.query(&text, &QueryOptions::default()).await;
                created.map_err(|error| format!("schema: {error:?}"))?;
            }
            Ok(())
        })?
    }

    /// Starts clients of all nodes but one.
    fn start_clients(&mut self, without: usize) {
        let mut servers = self.cluster.servers();
        servers.remove(without);
        let shared = self.shared.clone();
        self.cluster.sim.start_node(CLIENTS, 1, move |_| {
            let (servers, shared) = (servers.clone(), shared.clone());
            async move {
                let client = |number: u64| {
                    let server = servers[number as usize % servers.len()];
                    runtime::spawn(steady::client(number, server, shared.clone()))
                };
                let tasks: Vec<_> = (0..CLIENT_COUNT).map(client).collect();
                for task in tasks {
                    task.await;
                }
            }
        });
    }

    /// Lets the clients finish their requests and leave.
    fn leave(&mut self) -> Result<(), String> {
        self.shared.borrow_mut().stop = true;
        let shared = self.shared.clone();
        let left = move || shared.borrow().left as u64 == CLIENT_COUNT;
        match self.cluster.sim.run_until(START_MAX, left) {
            Stop::Condition => Ok(()),
            stop => Err(format!("the clients did not leave: {stop:?}")),
        }
    }
}

/// A time that was measured.
struct Measured {
    /// Virtual nanoseconds.
    within: std::ops::Range<u64>,
    /// Bytes that the nodes which are not slow sent to others.
    bytes: u64,
}
