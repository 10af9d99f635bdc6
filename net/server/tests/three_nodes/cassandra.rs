//! Three nodes of a real Cassandra for tests that are `#[ignore]`d because they need them.
//!
//! `CASSANDRA` names a script with the verbs `start DIR IP` and `stop DIR IP` that runs Apache Cassandra 5, and that
//! heeds these variables: `SEEDS`, `SNITCH`, `DC`, `RACK`, `YAML` (a file with more lines of cassandra.yaml) and `JMX`
//! (a port); it writes the id of the process to `DIR/pid`. The addresses are 127.0.23.1 to 127.0.23.3, or the first
//! three of the network that `HELENUS_ORACLE_NETWORK` names (`127.0.24`).

use crate::layout::{Layout, NODES, tokens_yaml};
use crate::play::{Change, Cluster, NATIVE_PORT, Work};
use model::Consistency;
use server::client::{Client, QueryOptions};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FIRST_JMX_PORT: usize = 7230;
/// How long a program waits between two looks at what it waits for.
const STEP: Duration = Duration::from_millis(50);
/// How long the running nodes may take until each of them is answered by all others.
const SETTLED_MAX: Duration = Duration::from_secs(60);
/// A read of a table with three replicas that every cluster of Cassandra has.
const OF_ALL_NODES: &str = "SELECT parent_id FROM system_distributed.parent_repair_history LIMIT 1";
/// The keyspaces that the cases make.
const KEYSPACES: [&str; 3] = ["k", "k2", "k3"];

/// A running cluster.
pub(crate) struct CassandraCluster {
    layout: Layout,
    network: String,
    /// What `CASSANDRA` names.
    script: PathBuf,
    running: [bool; NODES],
}

impl CassandraCluster {
    /// Starts the nodes one after the other. Panics if that is not possible.
    pub(crate) fn start(layout: Layout) -> CassandraCluster {
        let network = std::env::var("HELENUS_ORACLE_NETWORK").unwrap_or_else(|_| "127.0.23".into());
        let script = std::env::var_os("CASSANDRA").expect(
            "this test needs Cassandra: CASSANDRA is the path of a script that three_nodes/cassandra.rs describes",
        );
        let mut cluster = CassandraCluster { layout, network, script: script.into(), running: [false; NODES] };
        let _ = std::fs::remove_dir_all(cluster.root());
        (1..=NODES).for_each(|node| cluster.start_node(node));
        cluster
    }

    /// Starts the nodes that are down, and drops what the cases made.
    pub(crate) fn make_new(&mut self) {
        let down: Vec<usize> = (1..=NODES).filter(|node| !self.running[node - 1]).collect();
        down.into_iter().for_each(|node| self.start_node(node));
        let at = SocketAddr::new(self.address(1), NATIVE_PORT);
        self.run(Arc::new(move || {
            Box::pin(async move {
                let version = crate::step::PROTOCOL_VERSION;
                let mut client = Client::connect(at, None, version).await.expect("a connection");
                for keyspace in KEYSPACES {
                    let text = format!("DROP KEYSPACE IF EXISTS {keyspace}");
                    client.query(&text, &Default::default()).await.expect("dropped");
                }
                Vec::new()
            })
        }));
        self.settle();
    }

    /// Stops the nodes.
    pub(crate) fn stop(mut self) {
        let running: Vec<usize> = (1..=NODES).rev().filter(|node| self.running[node - 1]).collect();
        running.into_iter().for_each(|node| self.change(Change::Stop(node)));
    }

    fn root(&self) -> PathBuf {
        std::env::temp_dir().join("helenus-oracle-three-nodes")
    }

    fn directory(&self, node: usize) -> PathBuf {
        self.root().join(format!("n{node}"))
    }

    fn run_script(&self, node: usize, verb: &str) {
        let directory = self.directory(node);
        std::fs::create_dir_all(&directory).expect("writable");
        let yaml = directory.join("tokens.yaml");
        std::fs::write(&yaml, tokens_yaml(node)).expect("writable");
        let (data_center, rack) = self.layout.place(node);
        let status = Command::new(&self.script)
            .args([verb.as_ref(), directory.as_os_str(), self.address(node).to_string().as_ref()])
            .env("SEEDS", self.address(1).to_string())
            .env("SNITCH", "GossipingPropertyFileSnitch")
            .env("DC", data_center)
            .env("RACK", rack)
            .env("YAML", yaml)
            .env("JMX", (FIRST_JMX_PORT + node).to_string())
            .status();
        assert!(status.expect("CASSANDRA names a script that runs").success(), "node {node} does not {verb}");
    }

    fn start_node(&mut self, node: usize) {
        self.run_script(node, "start");
        self.running[node - 1] = true;
    }

    fn signal(&self, node: usize, name: &str) {
        let pid = std::fs::read_to_string(self.directory(node).join("pid")).expect("the script wrote the process id");
        let status = Command::new("kill").args([name, pid.trim()]).status();
        assert!(status.expect("kill runs").success(), "{name} of node {node}");
    }
}

/// Waits until the node at `at` answers a read at this level. Panics if that takes longer than `SETTLED_MAX`.
async fn wait_for_answer(at: SocketAddr, consistency: Consistency) -> Vec<String> {
    let started = std::time::Instant::now();
    while let Err(error) = ask_all(at, consistency).await {
        assert!(started.elapsed() < SETTLED_MAX, "{at} is not answered by all nodes: {error}");
        runtime::sleep(STEP).await;
    }
    Vec::new()
}

async fn ask_all(at: SocketAddr, consistency: Consistency) -> Result<(), String> {
    let client = Client::connect(at, None, crate::step::PROTOCOL_VERSION).await;
    let options = QueryOptions { consistency, ..Default::default() };
    let answer = client.map_err(|error| error.to_string())?.query(OF_ALL_NODES, &options).await;
    answer.map(|_| ()).map_err(|error| format!("{error:?}"))
}

fn run(work: Work) -> Vec<String> {
    let answers = runtime::uring::run(runtime::uring::Options::default(), move |_| work());
    answers.expect("a ring").remove(0)
}

impl Cluster for CassandraCluster {
    fn address(&self, node: usize) -> IpAddr {
        format!("{}.{node}", self.network).parse().expect("HELENUS_ORACLE_NETWORK is three numbers")
    }

    fn run(&mut self, work: Work) -> Vec<String> {
        run(work)
    }

    fn run_beside(&mut self, work: Work, is_ready: Arc<AtomicBool>, change: Change) -> Vec<String> {
        let client = std::thread::spawn(move || run(work));
        while !is_ready.load(Ordering::Relaxed) && !client.is_finished() {
            std::thread::sleep(STEP);
        }
        self.change(change);
        client.join().expect("the client ends")
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Stop(node) => {
                self.run_script(node, "stop");
                self.running[node - 1] = false;
            }
            Change::Start(node) => self.start_node(node),
            Change::Pause(node) => self.signal(node, "-STOP"),
            Change::Resume(node) => self.signal(node, "-CONT"),
        }
    }

    /// Returns once each running node takes all running nodes for alive and they answer it, one that stood still among
    /// them. Panics if that takes longer than `SETTLED_MAX`.
    fn settle(&mut self) {
        let running: Vec<usize> = (1..=NODES).filter(|node| self.running[node - 1]).collect();
        let consistency = match running.len() {
            1 => Consistency::One,
            2 => Consistency::Two,
            _ => Consistency::Three,
        };
        for node in running {
            let at = SocketAddr::new(self.address(node), NATIVE_PORT);
            self.run(Arc::new(move || Box::pin(wait_for_answer(at, consistency))));
        }
    }
}
