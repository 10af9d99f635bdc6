//! Nodes in the simulator with one client program against the last of them.

use runtime::NodeId;
use runtime::sim::{Options, Sim, Stop};
use server::{Config, Node};
use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CLIENT: NodeId = NodeId(0);
/// The longest that a start or a client program may take, in virtual time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Starts nodes of one cluster with a partitioner, each of as many cores as `shards` says, runs `client` with the
/// address of the last one and returns the client's result.
pub(crate) fn with_simulated_nodes<F, Fut, T>(partitioner: &str, shards: &[usize], client: F) -> T
where
    F: Fn(SocketAddr) -> Fut + 'static,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    with_configured_nodes(&[format!("partitioner={partitioner}")], shards, client)
}

/// As [`with_simulated_nodes`], with more options.
pub(crate) fn with_configured_nodes<F, Fut, T>(options: &[String], shards: &[usize], client: F) -> T
where
    F: Fn(SocketAddr) -> Fut + 'static,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    let mut sim = Sim::new(1, Options { buggify: false, ..Options::default() });
    let servers: Vec<NodeId> = (1..).map(NodeId).take(shards.len()).collect();
    let mut address = None;
    for (server, shards) in servers.iter().zip(shards) {
        address = Some(start(&mut sim, *server, options, *shards));
    }
    let address = address.expect("at least one node");
    let result = Rc::new(RefCell::new(None));
    let client = Rc::new(client);
    let put = result.clone();
    sim.start_node(CLIENT, 1, move |_| {
        let (client, put) = (client.clone(), put.clone());
        async move {
            let value = client(address).await;
            *put.borrow_mut() = Some(value);
        }
    });
    assert_eq!(sim.run_until(PATIENCE, || result.borrow().is_some()), Stop::Condition, "the client did not end");
    for id in servers.into_iter().chain([CLIENT]) {
        sim.kill(id);
        sim.wipe(id);
    }
    let value = result.borrow_mut().take();
    value.expect("just seen")
}

/// Starts a node and waits until it serves. Returns where it does.
fn start(sim: &mut Sim, id: NodeId, more: &[String], shards: usize) -> SocketAddr {
    let (ip, seed) = (Sim::address_of(id), Sim::address_of(NodeId(1)));
    let mut options = vec![
        format!("listen_address={ip}"),
        format!("rpc_address={ip}"),
        "drop_compact_storage_enabled=true".into(),
        // Small, for runs that start thousands of nodes.
        "commitlog_segment_size=2MiB".into(),
    ];
    options.extend_from_slice(more);
    let mut config = Config::read("", &options).expect("valid");
    config.node.directories = "/data".into();
    config.node.seeds = vec![SocketAddr::new(seed, config.node.storage_port)];
    let address = SocketAddr::new(ip, config.node.native_port);
    let ready = Arc::new(AtomicBool::new(false));
    let told = ready.clone();
    let node = Node::simulated(config, shards, move |_| told.store(true, Ordering::Relaxed));
    sim.start_node(id, shards, move |shard| {
        let node = node.clone();
        async move {
            node.run(shard).await;
        }
    });
    assert_eq!(sim.run_until(PATIENCE, || ready.load(Ordering::Relaxed)), Stop::Condition, "the node did not start");
    address
}
