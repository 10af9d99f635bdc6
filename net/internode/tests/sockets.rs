//! Links on real sockets: two nodes in one process, each with its own threads and rings.

use internode::{CallError, Handler, Identity, Lane, Links, Options, PeerIdentity, Refusal, Replier, Versions, route};
use runtime::{Accepted, Backend, Listener, Mesh, ShardId, start};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;
use tls::Encryption;
use uuid::Uuid;

const SECOND: Duration = Duration::from_secs(1);
const ECHO: u8 = 1;
const WHERE: u8 = 2;

/// Answers with the body, or with the number of the core.
struct Service;

impl Handler for Service {
    fn encrypts_to(&self, _: SocketAddr) -> bool {
        false
    }

    fn accept_peer(&self, _: &PeerIdentity) -> Result<(), Refusal> {
        Ok(())
    }

    fn serve(&self, _: &Rc<PeerIdentity>, _: Lane, verb: u8, body: &[u8], reply: Replier) {
        match verb {
            WHERE => reply.send(&runtime::current_shard().0.to_le_bytes()),
            _ => reply.send(body),
        }
    }
}

fn links(address: SocketAddr) -> Links {
    let identity = Identity {
        cluster_name: "Test Cluster".into(),
        cluster_id: None,
        host_id: Uuid::from_u128(u128::from(address.port())),
        address,
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        shard: runtime::current_shard(),
        shards: runtime::shard_count() as u16,
        ignore_msb: 12,
        versions: Versions { min: 1, max: 1 },
        features: 0,
    };
    Links::new(Options { source: Some(address.ip()), ..Options::default() }, identity, Rc::new(Service))
}

/// What the threads of a test tell each other.
#[derive(Default)]
struct Board {
    port: AtomicU16,
    finished: AtomicUsize,
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        runtime::sleep(Duration::from_millis(1)).await;
    }
}

/// Serves on each core until `callers` have finished.
async fn serve(shard: ShardId, mesh: Mesh<Accepted>, board: Arc<Board>, callers: usize) {
    let endpoint = mesh.attach();
    let links = links(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 7000));
    let attaching = links.clone();
    if shard == ShardId(0) {
        let listener = Listener::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).await.expect("a free port");
        board.port.store(listener.local_address().port(), Ordering::Release);
        runtime::spawn(async move {
            while let Ok(accepted) = listener.accept().await {
                match route(accepted.peer(), runtime::shard_count()) {
                    ShardId(0) => attaching.attach(accepted, Encryption::Off),
                    other => endpoint.send(other, accepted).await,
                }
            }
        });
    } else {
        runtime::spawn(async move {
            loop {
                attaching.attach(endpoint.recv().await.1, Encryption::Off);
            }
        });
    }
    until(|| board.finished.load(Ordering::Acquire) == callers).await;
    links.close();
}

/// Calls the other node from one core.
async fn call(shard: ShardId, board: Arc<Board>, cores: u16) {
    until(|| board.port.load(Ordering::Acquire) != 0).await;
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), board.port.load(Ordering::Acquire));
    let links = links(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 7000));
    let deadline = || runtime::now().after(20 * SECOND);
    for lane in Lane::ALL {
        let core = links.call(to, lane, WHERE, b"", deadline()).await.expect("an answer");
        assert_eq!(core, (shard.0 % cores).to_le_bytes());
        let calls: Vec<_> = (0..200_u32)
            .map(|n| {
                let body = vec![n as u8; [0, 10, 5000, 400_000][n as usize % 4]];
                (links.call(to, lane, ECHO, &body, deadline()), body)
            })
            .collect();
        let mut overloaded = 0;
        for (call, body) in calls {
            match call.await {
                Ok(answer) => assert_eq!(answer, body),
                Err(CallError::Overloaded) => overloaded += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(overloaded, 0, "the reserves take them");
    }
    links.ping(to, Lane::Urgent, deadline()).await.expect("an answer");
    assert_eq!(links.outbound()[0].1.active_connections, 3);
    links.close();
    board.finished.fetch_add(1, Ordering::Release);
}

fn between(callers: usize, servers: usize) {
    let board = Arc::new(Board::default());
    let mesh = Mesh::new(servers, 64);
    let options = |shards| runtime::Options { shards, ..runtime::Options::default() };
    std::thread::scope(|threads| {
        let serving = board.clone();
        threads.spawn(move || {
            let serve = move |shard| serve(shard, mesh.clone(), serving.clone(), callers);
            start(Backend::Uring, options(servers), serve).expect("a ring")
        });
        let calling = move |shard| call(shard, board.clone(), servers as u16);
        start(Backend::Uring, options(callers), calling).expect("a ring");
    });
}

#[test]
fn nodes_with_one_core_each() {
    between(1, 1);
}

#[test]
fn nodes_with_different_numbers_of_cores() {
    between(2, 3);
    between(3, 2);
}
