//! Nodes in the simulator that share a network in memory and know each other.

use super::network::{Network, PAUSE};
use cluster::topology::Node;
use model::value::TupleElements;
use model::{BatchEntry, BatchKind, BatchStatement, Consistency, Failure, QueryParameters, RingToken};
use runtime::mesh::{Mesh, NodeId, ShardId};
use runtime::sim::{Options, Sim, Stop};
use shard::{Answer, Config, Notifier, Response, SchemaChange, Session, Shard};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// The epoch before the first that nodes are told of. It is above those of their own logs, in which each is alone.
const FIRST_EPOCH: u64 = 1 << 40;

type Job = Box<dyn FnOnce(Shard) -> Pin<Box<dyn Future<Output = ()>>>>;
/// A row as bytes.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

struct Silent;

impl Notifier for Silent {
    fn schema_changed(&self, _: &SchemaChange) {}
}

/// One core, as the test communicates with it.
#[derive(Clone, Default)]
struct Core {
    jobs: Rc<RefCell<VecDeque<Job>>>,
    serving: Rc<Cell<bool>>,
}

/// A request with what may vary.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) text: String,
    pub(crate) consistency: Consistency,
    pub(crate) page_size: Option<i32>,
    pub(crate) paging_state: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn new(text: &str) -> Request {
        Request { text: text.into(), consistency: Consistency::One, page_size: None, paging_state: None }
    }

    fn parameters(&self) -> QueryParameters<'_> {
        QueryParameters {
            page_size: self.page_size,
            paging_state: self.paging_state.as_deref(),
            ..QueryParameters::new(self.consistency)
        }
    }
}

/// Running nodes.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) network: Network,
    nodes: Vec<Vec<Core>>,
    members: Vec<Node>,
    pub(crate) epoch: u64,
}

pub(crate) fn address(node: usize) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, node as u8 + 1).into()
}

fn config(node: usize, tweak: fn(&mut Config)) -> Config {
    let mut config = Config {
        directories: "/data".into(),
        listen_address: address(node),
        num_tokens: 4,
        segment_bytes: 8 << 20,
        log_bytes: 4 << 30,
        memory_bytes: 256 << 20,
        compaction_bytes_per_second: 0,
        ..Config::default()
    };
    // What replicas miss stays missed in most tests.
    config.hints.enabled = false;
    tweak(&mut config);
    config
}

impl World {
    /// Starts a node for each number of cores. They know each other in the epoch after [`FIRST_EPOCH`].
    pub(crate) fn start(cores: &[usize], tweak: fn(&mut Config)) -> World {
        let sim = Sim::new(cores.len() as u64, Options { clock_skew: Duration::ZERO, ..Options::default() });
        let nodes = cores.iter().map(|cores| (0..*cores).map(|_| Core::default()).collect()).collect();
        let mut world = World { sim, network: Network::default(), nodes, members: Vec::new(), epoch: FIRST_EPOCH };
        for (node, cores) in cores.iter().enumerate() {
            world.start_node(node, *cores, tweak);
        }
        for node in 0..cores.len() {
            let member = world.on(node, 0, |shard| async move {
                let topology = shard.topology();
                topology.node(topology.here()).clone()
            });
            world.members.push(member);
        }
        world.members.sort_by_key(|member| member.host_id);
        let all: Vec<usize> = (0..cores.len()).collect();
        world.announce(&all);
        let members = world.members.clone();
        world.switch(&all, members);
        world
    }

    fn start_node(&mut self, node: usize, cores: usize, tweak: fn(&mut Config)) {
        let mesh = Mesh::simulated(cores, shard::MAILBOX_MESSAGES_MAX);
        self.network.connect(address(node), cores);
        let (states, network) = (self.nodes[node].clone(), self.network.clone());
        self.sim.start_node(NodeId(node as u32 + 1), cores, move |id: ShardId| {
            let (core, mesh, network) = (states[usize::from(id.0)].clone(), mesh.clone(), network.clone());
            async move {
                let peers = Rc::new(network.clone());
                let shard = Shard::start(config(node, tweak), mesh, Rc::new(Silent), peers).await;
                let shard = shard.expect("a shard that starts");
                core.serving.set(true);
                loop {
                    let job = core.jobs.borrow_mut().pop_front();
                    if let Some(job) = job {
                        runtime::spawn(job(shard.clone()));
                    }
                    while let Some(envelope) = network.take(address(node), id.0) {
                        runtime::spawn(envelope.serve(shard.clone()));
                    }
                    runtime::sleep(PAUSE).await;
                }
            }
        });
        let states = self.nodes[node].clone();
        let stop = self.sim.run_until(LIMIT, || states.iter().all(|core| core.serving.get()));
        assert_eq!(stop, Stop::Condition, "the node serves");
    }

    /// The nodes, in the order of their host ids.
    pub(crate) fn members(&self) -> Vec<Node> {
        self.members.clone()
    }

    /// The nodes as members that have one token each, `tokens` in the order of the nodes' numbers.
    pub(crate) fn members_at(&self, tokens: [i64; 3]) -> Vec<Node> {
        let mut members = self.members();
        for member in &mut members {
            let node = (0..3).find(|node| member.address.ip() == address(*node)).expect("a node");
            member.tokens = vec![RingToken::Murmur3(tokens[node])];
        }
        members
    }

    /// Tells some nodes of the next epoch, in which the cluster has these members.
    pub(crate) fn switch(&mut self, nodes: &[usize], members: Vec<Node>) {
        self.epoch += 1;
        for node in nodes {
            let (members, epoch) = (members.clone(), self.epoch);
            let done = self.on(*node, 0, move |shard| async move { shard.switch_topology(members, epoch).await });
            done.expect("the nodes are replaced");
        }
    }

    /// Tells all nodes that these ones are alive.
    pub(crate) fn announce(&mut self, alive: &[usize]) {
        let is_alive = |member: &&Node| alive.iter().any(|node| address(*node) == member.address.ip());
        let live: BTreeSet<_> = self.members.iter().filter(is_alive).map(|member| member.host_id).collect();
        for node in alive {
            let live = live.clone();
            self.on(*node, 0, move |shard| async move { shard.switch_live_nodes(live).await }).expect("announced");
        }
    }

    /// Kills a node. The others do not know.
    pub(crate) fn crash(&mut self, node: usize) {
        self.sim.crash(NodeId(node as u32 + 1));
        self.network.disconnect(address(node));
    }

    /// Starts a node that was killed. All those that are alive learn of a new epoch with the same members.
    pub(crate) fn restart(&mut self, node: usize, alive: &[usize]) {
        let cores = self.nodes[node].len();
        self.nodes[node].iter().for_each(|core| core.serving.set(false));
        self.start_node(node, cores, |_| {});
        self.announce(alive);
        let members = self.members.clone();
        self.switch(alive, members);
    }

    /// Starts a node that has crashed, with so many cores. It knows the others again, but not that they are alive.
    pub(crate) fn restart_with(&mut self, node: usize, cores: usize, tweak: fn(&mut Config)) {
        self.nodes[node] = (0..cores).map(|_| Core::default()).collect();
        self.start_node(node, cores, tweak);
        let members = self.members.clone();
        self.epoch -= 1;
        self.switch(&[node], members);
    }

    /// Runs a job on a core and returns its result.
    pub(crate) fn on<T: 'static, Fut: Future<Output = T> + 'static>(
        &mut self,
        node: usize,
        core: usize,
        job: impl FnOnce(Shard) -> Fut + 'static,
    ) -> T {
        let result = self.begin(node, core, job);
        let stop = self.sim.run_until(LIMIT, || result.borrow().is_some());
        assert_eq!(stop, Stop::Condition, "the job ends");
        result.borrow_mut().take().expect("a result")
    }

    /// Begins a job on a core; its result comes when the simulation goes on.
    pub(crate) fn begin<T: 'static, Fut: Future<Output = T> + 'static>(
        &mut self,
        node: usize,
        core: usize,
        job: impl FnOnce(Shard) -> Fut + 'static,
    ) -> Rc<RefCell<Option<T>>> {
        let result = Rc::new(RefCell::new(None));
        let given = result.clone();
        let job: Job = Box::new(move |shard| {
            Box::pin(async move {
                let value = job(shard).await;
                *given.borrow_mut() = Some(value);
            })
        });
        self.nodes[node][core].jobs.borrow_mut().push_back(job);
        result
    }

    pub(crate) fn cores(&self, node: usize) -> usize {
        self.nodes[node].len()
    }

    /// Runs a QUERY on a core of a node.
    pub(crate) fn query(&mut self, node: usize, core: usize, request: &Request) -> Result<Answer, Failure> {
        let request = request.clone();
        self.on(node, core, |shard| async move {
            shard.query(&Session::default(), &request.text, &request.parameters()).await
        })
    }

    /// Lets the clocks of all nodes go on.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.sim.run_until(time, || false);
    }

    /// Runs a statement on every node, for DDL.
    pub(crate) fn everywhere(&mut self, text: &str) {
        for node in 0..self.nodes.len() {
            self.query(node, 0, &Request::new(text)).unwrap_or_else(|failure| panic!("{text}: {failure}"));
        }
    }

    /// Runs a BATCH of texts on a core.
    pub(crate) fn batch(
        &mut self,
        node: usize,
        core: usize,
        kind: BatchKind,
        texts: &[String],
    ) -> Result<Answer, Failure> {
        let texts = texts.to_vec();
        self.on(node, core, move |shard| async move {
            let entry = |text| BatchEntry { statement: BatchStatement::Text(text), values: Vec::new() };
            let entries: Vec<BatchEntry<'_>> = texts.iter().map(|text| entry(text)).collect();
            shard.batch(&Session::default(), kind, &entries, &QueryParameters::new(Consistency::One)).await
        })
    }
}

/// The rows of an answer, and the state of the next page; other answers have no rows.
pub(crate) fn rows_of(answer: Answer) -> (Vec<Row>, Option<Vec<u8>>) {
    let Response::Rows(rows) = answer.response else { return (Vec::new(), None) };
    let cells: Row = TupleElements::new(&rows.block.bytes).map(|cell| cell.map(<[u8]>::to_vec)).collect();
    let decoded = cells.chunks(rows.columns.len().max(1)).map(<[_]>::to_vec).collect();
    (decoded, rows.paging_state)
}
