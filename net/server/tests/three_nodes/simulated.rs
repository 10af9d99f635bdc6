//! Three nodes of Helenus in the simulator.

use crate::layout::{Layout, NODES, tokens_yaml};
use crate::play::{Change, Cluster, Work};
use runtime::NodeId;
use runtime::sim::{Options, Sim, Stop};
use server::{Config, Exit, Node};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CLIENT: NodeId = NodeId(9);
/// The longest that a start, a stop or a client program may take, in virtual time.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long a node stands still: longer than any statement takes, shorter than it takes until others call it down.
const PAUSE: Duration = Duration::from_secs(15);

/// The nodes have one, two and three cores.
pub(crate) struct SimulatedCluster {
    sim: Sim,
    layout: Layout,
}

fn id(node: usize) -> NodeId {
    NodeId(node as u32)
}

impl SimulatedCluster {
    /// Starts the nodes one after the other, and lets gossip tell all of them that the others serve clients: of a node
    /// that was never told as up, nobody is told that it is down.
    pub(crate) fn start(layout: Layout) -> SimulatedCluster {
        // The nodes that the answers were recorded from ran on one machine: a deletion through one of them is later
        // than the row that another one wrote before it.
        let options = Options { buggify: false, clock_skew: Duration::ZERO, ..Options::default() };
        let sim = Sim::new(1, options);
        let mut cluster = SimulatedCluster { sim, layout };
        (1..=NODES).for_each(|node| cluster.start_node(node));
        cluster.settle();
        cluster
    }

    fn config(&self, node: usize) -> Config {
        let (address, seed) = (Sim::address_of(id(node)), Sim::address_of(id(1)));
        let (data_center, rack) = self.layout.place(node);
        let yaml = format!(
            "listen_address: {address}\nrpc_address: {address}\nendpoint_snitch: GossipingPropertyFileSnitch\n\
             commitlog_segment_size: 2MiB\nseed_provider:\n  - class_name: SimpleSeedProvider\n    parameters:\n      \
             - seeds: \"{seed}\"\n{}",
            tokens_yaml(node)
        );
        let mut config = Config::read(&yaml, &[]).expect("a configuration");
        let file = |_: &str| Ok(Some(format!("dc={data_center}\nrack={rack}")));
        config.discover(&file, &|_| None, &|_, _| Err("no cloud".into())).expect("a place");
        config.node.directories = "/data".into();
        config
    }

    fn start_node(&mut self, node: usize) {
        let ready = Arc::new(AtomicBool::new(false));
        let told = ready.clone();
        let exits = Rc::<RefCell<Vec<Exit>>>::default();
        let kept = exits.clone();
        let server = Node::simulated(self.config(node), node, move |_| told.store(true, Ordering::Relaxed));
        self.sim.start_node(id(node), node, move |shard| {
            let (server, kept) = (server.clone(), kept.clone());
            async move {
                let exit = server.run(shard).await;
                kept.borrow_mut().push(exit);
            }
        });
        let stop = self.sim.run_until(PATIENCE, || ready.load(Ordering::Relaxed) || !exits.borrow().is_empty());
        assert!(stop == Stop::Condition && exits.borrow().is_empty(), "node {node} did not start: {exits:?}");
    }

    /// Starts a client program. The result is there when it has ended.
    fn begin(&mut self, work: Work) -> Rc<RefCell<Option<Vec<String>>>> {
        let result = Rc::<RefCell<Option<Vec<String>>>>::default();
        let put = result.clone();
        self.sim.start_node(CLIENT, 1, move |_| {
            let (work, put) = (work.clone(), put.clone());
            async move {
                let lines = work().await;
                *put.borrow_mut() = Some(lines);
            }
        });
        result
    }

    fn end(&mut self, result: Rc<RefCell<Option<Vec<String>>>>) -> Vec<String> {
        let stop = self.sim.run_until(PATIENCE, || result.borrow().is_some());
        assert_eq!(stop, Stop::Condition, "the client did not end");
        self.sim.kill(CLIENT);
        self.sim.wipe(CLIENT);
        result.take().expect("just seen")
    }
}

impl Cluster for SimulatedCluster {
    fn address(&self, node: usize) -> IpAddr {
        Sim::address_of(id(node))
    }

    fn run(&mut self, work: Work) -> Vec<String> {
        let result = self.begin(work);
        self.end(result)
    }

    fn run_beside(&mut self, work: Work, is_ready: Arc<AtomicBool>, change: Change) -> Vec<String> {
        let result = self.begin(work);
        assert_eq!(self.sim.run_until(PATIENCE, || is_ready.load(Ordering::Relaxed)), Stop::Condition);
        self.change(change);
        self.end(result)
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Stop(node) => {
                self.sim.terminate(id(node));
                while self.sim.is_running(id(node)) {
                    assert!(self.sim.step(), "node {node} does not stop");
                }
            }
            Change::Start(node) => self.start_node(node),
            Change::Pause(node) => self.sim.pause(id(node), PAUSE),
            Change::Resume(_) => {}
        }
    }

    fn settle(&mut self) {
        self.sim.run_until(PAUSE * 2, || false);
    }
}
