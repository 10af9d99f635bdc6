//! The nodes of a cluster: starting them, waiting for them, and tasks outside the cluster that ask them.

use super::report::ClusterReport;
use super::schema_client::KEYSPACE;
use crate::workload::world::DataCentres;
use runtime::rng::Rng;
use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, ShardId};
use server::client::{Client, QueryOptions};
use server::{Config, Exit, Node};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The node of the tasks that look at the cluster from outside.
const CHECKER: NodeId = NodeId(1);
/// The first node of the cluster.
pub(super) const FIRST: u32 = 10;
/// How many of the first nodes are seeds at most. They never leave.
pub(super) const SEEDS_MAX: usize = 2;
const NATIVE_PORT: u16 = 9042;
const STORAGE_PORT: u16 = 7000;
/// Most cores of a node, unless a run has nodes of its own kind.
const CORES_MAX: u64 = 4;
/// Longest a start may take when nothing is broken, virtual time.
pub(super) const START_MAX: Duration = Duration::from_secs(120);

/// Within this time after the last fault all nodes serve one schema and say the same of the ring, virtual time.
pub(super) const AGREEMENT_MAX: Duration = Duration::from_secs(30);

/// A node of the cluster.
pub(super) struct Member {
    pub(super) id: NodeId,
    ready: Arc<AtomicBool>,
    pub(super) exit: Rc<Cell<Option<Exit>>>,
    /// Whether it has served since it got its disk.
    has_served: bool,
    /// Its disk was wiped: it must be removed from the ring before it starts again.
    pub(super) is_wiped: bool,
    /// Where its wall clock is, microseconds from where it was at its start.
    pub(super) clock_moved: i64,
    cores: usize,
    /// Options that it has besides those of all nodes, `name=value`.
    options: Vec<String>,
}

impl Member {
    pub(super) fn address(&self) -> IpAddr {
        Sim::address_of(self.id)
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

/// Nodes in a simulated world.
pub(super) struct Cluster {
    pub(super) sim: Sim,
    pub(super) rng: Rng,
    pub(super) members: Vec<Member>,
    /// How many nodes have ever been started.
    started: u32,
    /// How many of the first nodes are seeds. A seed that cannot reach the other ones when it starts for the first time
    /// makes a cluster, so these are nodes of the first start.
    pub(super) seeds: usize,
    /// Most cores of a node.
    pub(super) cores_max: u64,
    /// Options of cassandra.yaml that all nodes have, `name=value`.
    pub(super) options: Vec<String>,
    pub(super) centres: DataCentres,
    pub(super) report: ClusterReport,
}

impl Cluster {
    /// No nodes, in the world of `seed`.
    pub(super) fn new(seed: u64) -> Cluster {
        let mut rng = Rng::new(seed);
        let sim = Sim::new(rng.next_u64(), Options::default());
        let report = ClusterReport { seed, ..ClusterReport::default() };
        Cluster {
            sim,
            rng,
            members: Vec::new(),
            started: 0,
            seeds: SEEDS_MAX,
            cores_max: CORES_MAX,
            options: Vec::new(),
            centres: DataCentres::One,
            report,
        }
    }

    /// Starts one more node.
    pub(super) fn add_node(&mut self) {
        self.add_node_with(Vec::new());
    }

    /// Starts one more node, with options of its own.
    pub(super) fn add_node_with(&mut self, options: Vec<String>) {
        let id = NodeId(FIRST + self.started);
        self.started += 1;
        self.members.push(Member {
            id,
            ready: Arc::default(),
            exit: Rc::default(),
            has_served: false,
            is_wiped: false,
            clock_moved: 0,
            cores: 0,
            options,
        });
        self.start(self.members.len() - 1);
    }

    /// Starts a node with a random number of cores.
    pub(super) fn start(&mut self, at: usize) {
        let cores = 1 + self.rng.below(self.cores_max) as usize;
        let member = &mut self.members[at];
        self.report.other_cores += u64::from(member.cores > 0 && member.cores != cores);
        let address = member.address();
        let mut options = vec![
            format!("listen_address={address}"),
            format!("rpc_address={address}"),
            "commitlog_segment_size=1MiB".to_string(),
        ];
        options.extend(self.options.iter().chain(&member.options).cloned());
        if self.centres == DataCentres::Two {
            options.push("endpoint_snitch=GossipingPropertyFileSnitch".to_owned());
        }
        let mut config = Config::read("", &options).expect("options that exist");
        if self.centres == DataCentres::Two {
            let place = format!("dc=dc{}\nrack=rack1", 1 + member.id.0 % 2);
            let file = |_: &str| Ok(Some(place.clone()));
            config.discover(&file, &|_| None, &|_, _| Err("no cloud".into())).expect("a place");
        }
        config.node.directories = "/data".into();
        // The second seed starts only once it knows the first, as an operator would have it.
        let seeds = if member.id.0 == FIRST { 1 } else { self.seeds as u32 };
        let seeds = (FIRST..FIRST + seeds).map(|seed| SocketAddr::new(Sim::address_of(NodeId(seed)), STORAGE_PORT));
        config.node.seeds = seeds.collect();
        member.ready = Arc::default();
        member.exit = Rc::default();
        member.cores = cores;
        member.clock_moved = 0;
        let (ready, exit) = (member.ready.clone(), member.exit.clone());
        let node = Node::simulated(config, cores, move |_| ready.store(true, Ordering::Relaxed));
        self.sim.start_node(member.id, cores, move |shard: ShardId| {
            let (node, exit) = (node.clone(), exit.clone());
            async move {
                let ended = node.run(shard).await;
                if ended != Exit::Stopped {
                    exit.set(Some(ended));
                }
            }
        });
    }

    /// Starts the nodes that do not run, as an operator does when nothing is broken any more.
    pub(super) fn start_all(&mut self) {
        for at in 0..self.members.len() {
            if !self.members[at].is_wiped && !self.sim.is_running(self.members[at].id) {
                self.start(at);
            }
        }
    }

    /// Waits until every node serves. One that has never served may have given up looking for its cluster, and is
    /// started again; while the disk of another one is lost it may have to wait, because what it needs had its only
    /// replica there.
    pub(super) fn all_ready(&mut self, when: &str) -> Result<(), String> {
        let deadline = self.sim.now().after(START_MAX);
        loop {
            let is_any_lost = self.members.iter().any(|member| member.is_wiped);
            let is_awaited = |member: &&Member| !member.is_wiped && (member.has_served || !is_any_lost);
            let awaited = || self.members.iter().filter(is_awaited);
            let states: Vec<_> = awaited().map(|member| (member.ready.clone(), member.exit.clone())).collect();
            let stop = self.sim.run_until(deadline.since(self.sim.now()), move || {
                states.iter().all(|(ready, _)| ready.load(Ordering::Relaxed))
                    || states.iter().any(|(_, exit)| exit.get().is_some())
            });
            let gave_up = |member: &Member| !member.has_served && member.exit.get() == Some(Exit::Misconfigured);
            let has_failed = |member: &Member| member.exit.get().is_some() && !gave_up(member);
            if stop != Stop::Condition || awaited().any(has_failed) {
                let states: Vec<_> =
                    awaited().map(|member| (member.id.0, member.is_ready(), member.exit.get())).collect();
                return Err(format!("not all nodes serve after {when}: {stop:?} {states:?}"));
            }
            if awaited().all(|member| member.exit.get().is_none()) {
                self.members.iter_mut().filter(|member| member.is_ready()).for_each(|member| member.has_served = true);
                return Ok(());
            }
            for at in 0..self.members.len() {
                if self.members[at].exit.get().is_some() && !self.members[at].is_wiped {
                    self.sim.crash(self.members[at].id);
                    self.start(at);
                }
            }
        }
    }

    /// Takes the disk of a node that does not run.
    pub(super) fn wipe(&mut self, at: usize) {
        let member = &mut self.members[at];
        self.sim.wipe(member.id);
        (member.is_wiped, member.has_served, member.cores) = (true, false, 0);
    }

    /// Where the nodes serve clients.
    pub(super) fn servers(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| SocketAddr::new(member.address(), NATIVE_PORT)).collect()
    }

    /// Runs a task outside the cluster until it ends.
    pub(super) fn outside<T: 'static, F: Future<Output = T> + 'static>(
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

    /// Creates the keyspace of the tables, through the first node.
    pub(super) fn create_keyspace(&mut self) -> Result<(), String> {
        let server = self.servers()[0];
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
}
