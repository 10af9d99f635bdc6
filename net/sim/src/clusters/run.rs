//! One run of a cluster, from its first start to the verdict.

use super::nemesis::{Fault, disturb};
use super::schema_client::{KEYSPACE, Served, SharedChanges, TABLES, client, served};
use runtime::rng::Rng;
use runtime::sim::{Options, Sim, Stop};
use runtime::{Instant, NodeId, ShardId};
use server::client::{Client, QueryOptions};
use server::{Config, Exit, Node};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CLIENTS: NodeId = NodeId(0);
const CHECKER: NodeId = NodeId(1);
/// The first node of the cluster.
const FIRST: u32 = 10;
const NATIVE_PORT: u16 = 9042;
const STORAGE_PORT: u16 = 7000;
/// Most nodes that start together.
const NODES_MAX: u64 = 5;
/// Most nodes that join later.
const JOINS_MAX: u64 = 2;
/// Most rounds of faults.
const ROUNDS_MAX: u64 = 5;
/// Longest time of a round, virtual.
const ROUND_MILLIS_MAX: u64 = 12_000;
/// Longest a start may take when nothing is broken, virtual time.
const START_MAX: Duration = Duration::from_secs(120);
/// Within this time after the last fault all nodes serve one schema, virtual time.
pub(super) const AGREEMENT_MAX: Duration = Duration::from_secs(30);
/// How long a change that nobody knows about may still come after its client has given up, virtual time.
const LATE_CHANGES: Duration = Duration::from_secs(20);
/// How long the leader may take to let all nodes vote once they are part of the ring.
const VOTERS_CHOSEN: Duration = Duration::from_secs(5);

/// What happened in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterReport {
    /// The seed.
    pub seed: u64,
    /// Nodes at the end.
    pub nodes: usize,
    /// Changes of the schema that were answered as made.
    pub changes: u64,
    /// Changes of which the client does not know whether they were made.
    pub unknown: u64,
    /// How often an answered change was looked for on another node at once.
    pub looked_for: u64,
    /// Crashes of nodes.
    pub crashes: u64,
    /// Cuts of the network.
    pub cuts: u64,
    /// Nodes that joined after the first start.
    pub joins: u64,
    /// From the end of the faults until all nodes served one schema, virtual milliseconds.
    pub agreed_in: u64,
    /// Simulator events.
    pub events: u64,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// The first broken rule, if any.
    pub violation: Option<String>,
}

/// A node of the cluster.
struct Member {
    id: NodeId,
    ready: Arc<AtomicBool>,
    exit: Rc<Cell<Option<Exit>>>,
}

struct ClusterRun {
    sim: Sim,
    rng: Rng,
    members: Vec<Member>,
    changes: SharedChanges,
    clients: usize,
    report: ClusterReport,
}

/// A change of the schema that a node misses because it is down, and that it must serve once it is back, with the
/// version that all others have. The error says what is broken.
pub fn run_missed_change(seed: u64) -> Result<(), String> {
    let mut run = ClusterRun::new(seed);
    (0..3).for_each(|_| run.add_node());
    run.all_ready("the first start")?;
    // Until all three vote, the two that stay may be no majority.
    run.sim.run_until(VOTERS_CHOSEN, || false);
    run.sim.crash(run.members[2].id);
    run.create_keyspace()?;
    run.start(2);
    run.all_ready("the restart")?;
    let began = run.sim.now();
    run.check_agreement(began).map(|_| ())
}

/// Runs one seed to its verdict.
pub fn run_cluster(seed: u64) -> ClusterReport {
    let mut run = ClusterRun::new(seed);
    let violation = run.play().err().or_else(|| run.changes.borrow().violation.clone());
    let changes = run.changes.borrow();
    ClusterReport {
        nodes: run.members.len(),
        changes: changes.made,
        unknown: changes.unknown,
        looked_for: changes.looked_for,
        events: run.sim.steps(),
        trace_hash: run.sim.trace_hash(),
        violation,
        ..run.report.clone()
    }
}

impl ClusterRun {
    fn new(seed: u64) -> ClusterRun {
        let mut rng = Rng::new(seed);
        ClusterRun {
            sim: Sim::new(rng.next_u64(), Options::default()),
            rng,
            members: Vec::new(),
            changes: SharedChanges::default(),
            clients: 0,
            report: ClusterReport { seed, ..ClusterReport::default() },
        }
    }

    fn play(&mut self) -> Result<(), String> {
        for _ in 0..1 + self.rng.below(NODES_MAX) {
            self.add_node();
        }
        self.all_ready("the first start")?;
        self.create_keyspace()?;
        self.start_clients();
        for _ in 0..1 + self.rng.below(ROUNDS_MAX) {
            self.round()?;
        }
        self.all_ready("the last fault")?;
        let began = self.sim.now();
        self.changes.borrow_mut().stop = true;
        let (changes, clients) = (self.changes.clone(), self.clients);
        let left = self.sim.run_until(START_MAX, move || changes.borrow().left == clients);
        if left != Stop::Condition {
            return Err(format!("the clients did not leave: {left:?}"));
        }
        self.check_agreement(began)?;
        // A change that nobody knows about may still come.
        self.sim.run_until(LATE_CHANGES, || false);
        let comments = self.check_agreement(self.sim.now())?;
        (0..TABLES).try_for_each(|table| self.changes.borrow_mut().check_end(table, comments[table]))
    }

    /// Some faults, time for them to bite, and their end.
    fn round(&mut self) -> Result<(), String> {
        let nodes: Vec<NodeId> = self.members.iter().map(|member| member.id).collect();
        let mut faults = Vec::new();
        self.count_faults(1);
        for _ in 0..1 + self.rng.below(2) {
            let fault = Fault::random(&mut self.rng, &nodes);
            fault.begin(&mut self.sim, &nodes);
            match fault {
                Fault::Crash(node) if self.sim.is_running(node) => {
                    self.sim.crash(node);
                    self.report.crashes += 1;
                }
                Fault::Crash(_) => {}
                _ => self.report.cuts += 1,
            }
            faults.push(fault);
        }
        self.pass_time()?;
        disturb(&mut self.sim, &mut self.rng, &nodes);
        if self.report.joins < JOINS_MAX && self.rng.below(4) == 0 {
            self.add_node();
            self.report.joins += 1;
        }
        self.pass_time()?;
        faults.iter().for_each(|fault| fault.end(&mut self.sim, &nodes));
        for at in 0..self.members.len() {
            if !self.sim.is_running(self.members[at].id) {
                self.start(at);
            }
        }
        self.all_ready("a round")?;
        self.count_faults(0);
        self.pass_time()
    }

    fn count_faults(&mut self, faults: u64) {
        let mut changes = self.changes.borrow_mut();
        changes.faults = faults;
        changes.fault_count += 1;
    }

    fn pass_time(&mut self) -> Result<(), String> {
        let time = Duration::from_millis(self.rng.below(ROUND_MILLIS_MAX));
        let changes = self.changes.clone();
        self.sim.run_until(time, move || changes.borrow().violation.is_some());
        self.changes.borrow().violation.clone().map_or(Ok(()), Err)
    }

    /// Starts one more node.
    fn add_node(&mut self) {
        let id = NodeId(FIRST + self.members.len() as u32);
        self.members.push(Member { id, ready: Arc::default(), exit: Rc::default() });
        self.start(self.members.len() - 1);
    }

    /// Starts a node with a random number of cores.
    fn start(&mut self, at: usize) {
        let shards = 1 + self.rng.below(2) as usize;
        let member = &mut self.members[at];
        let address = Sim::address_of(member.id);
        let options = [
            format!("listen_address={address}"),
            format!("rpc_address={address}"),
            "commitlog_segment_size=1MiB".to_string(),
        ];
        let mut config = Config::read("", &options).expect("options that exist");
        config.node.directories = "/data".into();
        // The first two nodes are seeds; the second one only once it knows the first, as an operator would have it.
        let seeds = [FIRST, FIRST + 1].map(|seed| SocketAddr::new(Sim::address_of(NodeId(seed)), STORAGE_PORT));
        config.node.seeds = if at == 0 { seeds[..1].to_vec() } else { seeds.to_vec() };
        member.ready = Arc::default();
        member.exit = Rc::default();
        let (ready, exit) = (member.ready.clone(), member.exit.clone());
        let node = Node::simulated(config, shards, move |_| ready.store(true, Ordering::Relaxed));
        self.sim.start_node(member.id, shards, move |shard: ShardId| {
            let (node, exit) = (node.clone(), exit.clone());
            async move {
                let ended = node.run(shard).await;
                if ended != Exit::Stopped {
                    exit.set(Some(ended));
                }
            }
        });
    }

    /// Waits until every node serves.
    fn all_ready(&mut self, when: &str) -> Result<(), String> {
        let states: Vec<_> = self.members.iter().map(|member| (member.ready.clone(), member.exit.clone())).collect();
        let watched = states.clone();
        let stop = self.sim.run_until(START_MAX, move || {
            watched.iter().all(|(ready, _)| ready.load(Ordering::Relaxed))
                || watched.iter().any(|(_, exit)| exit.get().is_some())
        });
        let ready = states.iter().all(|(ready, exit)| ready.load(Ordering::Relaxed) && exit.get().is_none());
        match (stop, ready) {
            (Stop::Condition, true) => Ok(()),
            (stop, _) => {
                let states: Vec<_> =
                    states.iter().map(|(ready, exit)| (ready.load(Ordering::Relaxed), exit.get())).collect();
                Err(format!("not all nodes serve after {when}: {stop:?} {states:?}"))
            }
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| SocketAddr::new(Sim::address_of(member.id), NATIVE_PORT)).collect()
    }

    /// Runs a task outside the cluster until it ends.
    fn outside<T: 'static, F: Future<Output = T> + 'static>(
        &mut self,
        limit: Duration,
        task: impl Fn() -> F + 'static,
    ) -> Result<T, String> {
        let result = Rc::new(RefCell::new(None));
        let written = result.clone();
        self.sim.start_node(CHECKER, 1, move |_| {
            let (task, written) = (task(), written.clone());
            async move {
                let value = task.await;
                *written.borrow_mut() = Some(value);
            }
        });
        let seen = result.clone();
        let stop = self.sim.run_until(limit, move || seen.borrow().is_some());
        self.sim.kill(CHECKER);
        result.take().ok_or_else(|| format!("a check did not end: {stop:?}"))
    }

    fn create_keyspace(&mut self) -> Result<(), String> {
        let server = self.addresses()[0];
        let text = format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        );
        self.outside(START_MAX, move || {
            let text = text.clone();
            async move {
                let mut client = Client::connect(server, None, 4).await.map_err(|error| error.to_string())?;
                client.query(&text, &QueryOptions::default()).await.map_err(|error| format!("{error:?}"))
            }
        })?
        .map(|_| ())
    }

    fn start_clients(&mut self) {
        let (servers, changes) = (self.addresses(), self.changes.clone());
        self.clients = servers.len();
        self.sim.start_node(CLIENTS, 1, move |_| {
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
        let servers = self.addresses();
        let agreed = self.outside(AGREEMENT_MAX, move || agreed(servers.clone()));
        let comments = match agreed {
            Ok(comments) => comments,
            Err(stop) => {
                let servers = self.addresses();
                let views = self.outside(AGREEMENT_MAX, move || {
                    let servers = servers.clone();
                    async move { runtime::sync::join_all(servers.into_iter().map(served).collect()).await }
                });
                return Err(format!("the nodes do not agree ({stop}): {views:?}"));
            }
        };
        self.report.agreed_in = self.report.agreed_in.max(self.sim.now().since(began).as_millis() as u64);
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
