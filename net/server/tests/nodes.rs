//! Several whole nodes in the simulator, linked by the network.

#[path = "nodes/auto_growth.rs"]
mod auto_growth;
#[path = "nodes/driver_sessions.rs"]
mod driver_sessions;
#[path = "nodes/elastic.rs"]
mod elastic;
#[path = "nodes/encryption.rs"]
mod encryption;
#[path = "nodes/events.rs"]
mod events;
#[path = "nodes/failures.rs"]
mod failures;
#[path = "nodes/growth.rs"]
mod growth;
#[path = "nodes/joining.rs"]
mod joining;
#[path = "nodes/managed.rs"]
mod managed;
#[path = "nodes/memory.rs"]
mod memory;
#[path = "nodes/quotas.rs"]
mod quotas;
#[path = "../../wire/tests/sessions/records.rs"]
mod records;
#[path = "nodes/repairs.rs"]
mod repairs;
#[path = "nodes/restoring.rs"]
mod restoring;
#[path = "nodes/stuck.rs"]
mod stuck;
#[path = "nodes/tablet_routes.rs"]
mod tablet_routes;
#[path = "nodes/tablets.rs"]
mod tablets;
#[path = "nodes/throughput.rs"]
mod throughput;
#[path = "nodes/transactions.rs"]
mod transactions;
#[path = "nodes/write_sharding.rs"]
mod write_sharding;

use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, ShardId, Stream};
use server::admin::{self, protocol::Request};
use server::client::{Client, Outcome, QueryOptions};
use server::{Config, Exit, Node};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const THREE: NodeId = NodeId(3);
const CLIENT: NodeId = NodeId(9);
const LIMIT: Duration = Duration::from_secs(600);

fn at(node: NodeId, port: u16) -> SocketAddr {
    SocketAddr::new(Sim::address_of(node), port)
}

fn config(node: NodeId) -> Config {
    let address = Sim::address_of(node);
    let mut config = Config::default();
    config.node.listen_address = address;
    config.node.rpc_address = address;
    config.node.seeds = vec![at(ONE, 7000)];
    config.node.segment_bytes = 1 << 20;
    config.node.memory_bytes = 256 << 20;
    config
}

/// A node that has been started.
struct Started {
    id: NodeId,
    ready: Arc<AtomicBool>,
    /// How its shards ended.
    exits: Rc<RefCell<Vec<Exit>>>,
}

impl Started {
    fn serves(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Runs until the node has ended; returns how.
    fn ended(&self, sim: &mut Sim) -> Vec<Exit> {
        let id = self.id;
        let began = sim.now();
        while sim.is_running(id) {
            assert!(sim.now().since(began) < LIMIT && sim.step(), "the node does not end");
        }
        self.exits.borrow().clone()
    }
}

/// Starts a node.
fn begin(sim: &mut Sim, id: NodeId, shards: usize, config: Config) -> Started {
    let ready = Arc::new(AtomicBool::new(false));
    let seen = ready.clone();
    let node = Node::simulated(config, shards, move |_| seen.store(true, Ordering::Relaxed));
    let exits = Rc::<RefCell<Vec<Exit>>>::default();
    let kept = exits.clone();
    sim.start_node(id, shards, move |shard: ShardId| {
        let (node, kept) = (node.clone(), kept.clone());
        async move {
            let exit = node.run(shard).await;
            kept.borrow_mut().push(exit);
        }
    });
    Started { id, ready, exits }
}

/// Starts a node and waits until it serves or ends. Returns how its shards ended.
fn start(sim: &mut Sim, id: NodeId, shards: usize, config: Config) -> Vec<Exit> {
    let started = begin(sim, id, shards, config);
    let is_decided = || started.serves() || started.exits.borrow().len() == shards;
    assert_eq!(sim.run_until(LIMIT, is_decided), Stop::Condition, "the node neither serves nor stops");
    started.exits.borrow().clone()
}

/// What a command of an operator prints.
async fn tool(node: NodeId, command: &str, options: &[&str], arguments: &[&str]) -> String {
    let request = Request {
        command: command.to_owned(),
        options: options.iter().map(|option| ((*option).to_owned(), String::new())).collect(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
    };
    let answer = admin::ask(Sim::address_of(node), &request).await.expect("it is answered");
    assert_eq!((answer.exit, answer.err.as_str()), (0, ""), "{command}: {}", answer.out);
    answer.out
}

/// The letters and addresses of `nodetool status`, in the order of addresses.
async fn letters(node: NodeId) -> Vec<String> {
    let status = tool(node, "status", &[], &[]).await;
    let rows = status.lines().filter(|line| line.starts_with(['U', 'D']) && line.as_bytes().get(2) == Some(&b' '));
    let mut found: Vec<String> =
        rows.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    found.sort_by_key(|row| row[3..].to_owned());
    found
}

/// Runs the simulation until `done`, within the limit.
fn until(sim: &mut Sim, what: &str, done: impl FnMut() -> bool) {
    assert_eq!(sim.run_until(LIMIT, done), Stop::Condition, "{what}");
}

/// Runs `work` on a node of its own.
fn run<F: Future<Output = ()> + 'static>(sim: &mut Sim, work: impl Fn() -> F + 'static) {
    let done = Rc::new(Cell::new(false));
    let (set, work) = (done.clone(), Rc::new(work));
    sim.start_node(CLIENT, 1, move |_| {
        let (set, work) = (set.clone(), work.clone());
        async move {
            work().await;
            set.set(true);
        }
    });
    assert_eq!(sim.run_until(LIMIT, || done.get()), Stop::Condition);
}

async fn client(node: NodeId) -> Client {
    Client::connect(at(node, 9042), None, 4).await.expect("the node serves")
}

async fn query(client: &mut Client, text: &str) -> Outcome {
    client.query(text, &QueryOptions::default()).await.unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn bigint(row: &[Option<Vec<u8>>], at: usize) -> i64 {
    let bytes = row[at].as_deref().expect("a value");
    i64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

#[test]
fn what_nodes_exchange_is_counted_by_node() {
    let mut sim = Sim::new(3, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
    assert_eq!(start(&mut sim, TWO, 3, config(TWO)), []);
    run(&mut sim, || async {
        let (mut one, mut two) = (client(ONE).await, client(TWO).await);
        query(&mut one, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            .await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY)").await;
        for (client, other) in [(&mut one, TWO), (&mut two, ONE)] {
            let columns = "address, port, dc, rack, received_count, received_bytes, expired_count";
            let inbound = query(client, &format!("SELECT {columns} FROM system_views.internode_inbound")).await.rows;
            assert_eq!(inbound.len(), 1, "one row for the other node");
            let row = &inbound[0];
            let [address, port] = [&row[0], &row[1]].map(|cell| cell.clone().expect("a value"));
            assert_eq!(
                (address, port),
                (
                    Sim::address_of(other).to_string().parse::<std::net::Ipv4Addr>().expect("IPv4").octets().to_vec(),
                    7000_i32.to_be_bytes().to_vec()
                )
            );
            assert_eq!((row[2].as_deref(), row[3].as_deref()), (Some(&b"datacenter1"[..]), Some(&b"rack1"[..])));
            assert!(bigint(row, 4) > 0 && bigint(row, 5) > 0 && bigint(row, 6) == 0);
            let columns = "sent_count, active_connections, connection_attempts, successful_connection_attempts";
            let outbound = query(client, &format!("SELECT {columns} FROM system_views.internode_outbound")).await.rows;
            assert_eq!(outbound.len(), 1);
            assert!((0..4).all(|column| bigint(&outbound[0], column) > 0), "{outbound:?}");
        }
        let stream = Stream::connect(at(ONE, 7199), None).await.expect("metrics are served");
        stream.write(|out| {
            out.extend_from_slice(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        });
        let mut answer = Vec::new();
        while let Ok(Some(bytes)) = stream.recv().await {
            answer.extend_from_slice(&bytes);
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        for name in ["helenus_peer_messages_sent_total", "helenus_peer_received_bytes_total"] {
            assert!(text.contains(&format!("{name}{{peer=\"{}\",shard=\"0\"}}", at(TWO, 7000))), "{text}");
        }
        assert!(text.contains("helenus_peer_connections_refused_total{reason=\"stranger\",shard=\"0\"} 0"));
    });
}

#[test]
fn a_stranger_at_the_storage_port_disturbs_nobody() {
    let mut sim = Sim::new(4, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
    run(&mut sim, || async {
        let stream = Stream::connect(at(ONE, 7000), None).await.expect("the port is open");
        stream.write(|out| out.extend_from_slice(b"\x04\0\0\0\x05\0\0\0\0"));
        assert!(!matches!(stream.recv().await, Ok(Some(_))), "closed without a word");
        query(&mut client(ONE).await, "SELECT release_version FROM system.local").await;
    });
}

#[test]
fn a_node_with_another_cluster_s_name_is_refused() {
    let mut sim = Sim::new(5, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 1, config(ONE)), []);
    let mut other = config(TWO);
    other.node.cluster_name = "Foo".into();
    assert_eq!(start(&mut sim, TWO, 1, other), [Exit::Misconfigured]);
}
