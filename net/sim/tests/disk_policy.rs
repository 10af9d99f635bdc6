//! What a node does when its disk fails, under each policy of cassandra.yaml, as a client and an operator see it.

use runtime::sim::{DiskCall, Options, Sim, Stop};
use runtime::{NodeId, ShardId};
use server::admin::{self, protocol::Request};
use server::client::{Client, QueryOptions};
use server::{Config, Exit, Node};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);
const PATIENCE: Duration = Duration::from_secs(600);

/// How a node of two cores behaves after its disk has begun to fail.
#[derive(Default, Debug, PartialEq)]
struct Outcome {
    /// Whether a read, and in `writes` a write, is answered without an error.
    reads: bool,
    writes: bool,
    /// Whether nodetool is answered.
    commands: bool,
    /// How the node ended, if it ended by itself.
    exit: Option<Exit>,
}

/// Runs a node. Once a row is written, the calls that `fails` selects fail, and the node is asked to flush.
fn run(policies: &[&str], fails: fn(DiskCall, &Path) -> bool) -> Outcome {
    let mut sim = Sim::new(7, Options { buggify: false, ..Options::default() });
    let address = Sim::address_of(SERVER);
    let mut options = vec![format!("listen_address={address}"), format!("rpc_address={address}")];
    options.extend(policies.iter().map(|policy| (*policy).to_owned()));
    let mut config = Config::read("", &options).expect("a configuration");
    config.node.directories = "/data".into();
    let node = Node::simulated(config, 2, |_| {});
    let exit = Rc::new(Cell::new(None));
    let ended = exit.clone();
    sim.start_node(SERVER, 2, move |shard: ShardId| {
        let (node, ended) = (node.clone(), ended.clone());
        async move { ended.set(ended.get().max(Some(node.run(shard).await))) }
    });
    let broken = Rc::new(Cell::new(false));
    let is_broken = broken.clone();
    sim.set_disk_fault(SERVER, move |call, path| {
        (is_broken.get() && fails(call, path)).then(|| io::Error::other("a disk that fails"))
    });
    let found: Rc<RefCell<Option<Outcome>>> = Rc::default();
    let (told, ends) = (found.clone(), exit.clone());
    sim.start_node(CLIENT, 1, move |_| {
        let (told, broken, ends) = (told.clone(), broken.clone(), ends.clone());
        async move {
            let server = SocketAddr::new(address, 9042);
            let mut client = connected(server).await;
            for text in [
                "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                "CREATE TABLE k.t (a int PRIMARY KEY, b int)",
                "INSERT INTO k.t (a, b) VALUES (1, 1)",
            ] {
                client.query(text, &QueryOptions::default()).await.expect(text);
            }
            broken.set(true);
            let flush = Request { command: "flush".into(), options: Vec::new(), arguments: vec!["k".into()] };
            let _ = runtime::timeout(Duration::from_secs(5), admin::ask(address, &flush)).await;
            let _ = ask(server, "INSERT INTO k.t (a, b) VALUES (2, 2)").await;
            runtime::sleep(Duration::from_secs(20)).await;
            let version = Request { command: "version".into(), ..Request::default() };
            let commands = runtime::timeout(Duration::from_secs(5), admin::ask(address, &version)).await;
            *told.borrow_mut() = Some(Outcome {
                reads: ask(server, "SELECT b FROM k.t WHERE a = 1").await,
                writes: ask(server, "INSERT INTO k.t (a, b) VALUES (3, 3)").await,
                commands: commands.is_some_and(|answer| answer.is_ok_and(|answer| answer.exit == 0)),
                exit: ends.get(),
            });
        }
    });
    let seen = found.clone();
    assert_eq!(sim.run_until(PATIENCE, || seen.borrow().is_some()), Stop::Condition);
    found.take().expect("an outcome")
}

async fn connected(server: SocketAddr) -> Client {
    loop {
        match Client::connect(server, None, 5).await {
            Ok(client) => return client,
            Err(_) => runtime::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Whether a new client gets an answer that is not an error.
async fn ask(server: SocketAddr, text: &str) -> bool {
    let asked = async {
        let mut client = Client::connect(server, None, 5).await.ok()?;
        client.query(text, &QueryOptions::default()).await.ok()
    };
    runtime::timeout(Duration::from_secs(5), asked).await.flatten().is_some()
}

fn of_tables(call: DiskCall, path: &Path) -> bool {
    call == DiskCall::Sync && path.starts_with("/data/data/k")
}

fn of_log(call: DiskCall, path: &Path) -> bool {
    matches!(call, DiskCall::Write | DiskCall::WriteDurable | DiskCall::Sync) && path.starts_with("/data/commitlog")
}

const SERVES: Outcome = Outcome { reads: true, writes: true, commands: true, exit: None };
const STOPPED: Outcome = Outcome { reads: false, writes: false, commands: true, exit: None };
const DEAD: Outcome = Outcome { reads: false, writes: false, commands: false, exit: Some(Exit::DiskFailed) };

#[test]
fn a_failed_sync_of_a_table_has_the_consequence_that_disk_failure_policy_names() {
    assert_eq!(run(&[], |_, _| false), SERVES);
    assert_eq!(run(&[], of_tables), STOPPED);
    assert_eq!(run(&["disk_failure_policy=stop_paranoid"], of_tables), STOPPED);
    assert_eq!(run(&["disk_failure_policy=ignore"], of_tables), SERVES);
    assert_eq!(run(&["disk_failure_policy=die"], of_tables), DEAD);
}

#[test]
fn a_failed_log_has_the_consequence_that_commit_failure_policy_names() {
    let readable = Outcome { writes: false, ..SERVES };
    assert_eq!(run(&[], of_log), STOPPED);
    assert_eq!(run(&["commit_failure_policy=stop_commit", "disk_failure_policy=ignore"], of_log), readable);
    assert_eq!(run(&["commit_failure_policy=ignore", "disk_failure_policy=ignore"], of_log), readable);
    assert_eq!(run(&["commit_failure_policy=die"], of_log), DEAD);
}
