//! What a test body can use, and running it on each backend.

use runtime::sim::{Sim, Stop};
use runtime::{Backend, Mesh, NodeId, Options, ShardId, sim, start};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Messages that a queue between two shards holds.
pub(crate) const MESH_CAPACITY: usize = 8;
/// The virtual time after which a body counts as stuck.
const LIMIT: Duration = Duration::from_secs(600);

/// What a test body can use.
#[derive(Clone)]
pub(crate) struct World {
    /// An empty directory.
    pub(crate) directory: PathBuf,
    /// The node's address.
    pub(crate) ip: IpAddr,
    /// Queues of [`MESH_CAPACITY`] between the shards.
    pub(crate) mesh: Mesh<Message>,
    board: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

/// A message between shards: a number, a connection, or a value that is counted when it is dropped.
pub(crate) enum Message {
    Number(u64),
    Connection(runtime::Accepted),
    Counted(#[expect(dead_code, reason = "held for its Drop")] Counted),
}

/// Adds one to a number on the board when it is dropped.
pub(crate) struct Counted(World, &'static str);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.add(self.1, 1);
    }
}

impl World {
    fn new(directory: PathBuf, ip: IpAddr, mesh: Mesh<Message>) -> World {
        World { directory, ip, mesh, board: Arc::default() }
    }

    pub(crate) fn counted(&self, place: &'static str) -> Counted {
        Counted(self.clone(), place)
    }

    /// A port of the node's address; 0: any free one.
    pub(crate) fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, port)
    }

    /// Writes a number to the board, for other shards.
    pub(crate) fn put(&self, place: &'static str, value: u64) {
        self.board.lock().unwrap().insert(place, value);
    }

    pub(crate) fn add(&self, place: &'static str, value: u64) {
        *self.board.lock().unwrap().entry(place).or_default() += value;
    }

    pub(crate) fn get(&self, place: &'static str) -> Option<u64> {
        self.board.lock().unwrap().get(place).copied()
    }

    /// Waits until the number at `place` is at least `value`.
    pub(crate) async fn wait_for(&self, place: &'static str, value: u64) -> u64 {
        loop {
            if let Some(found) = self.get(place).filter(|found| *found >= value) {
                return found;
            }
            runtime::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Runs `body` on every shard of a node on `uring`.
pub(crate) fn on_uring<F, Fut>(shards: usize, body: F)
where
    F: Fn(World) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    on_machine(Backend::Uring, shards, body);
}

/// Runs `body` on every shard of a node on `glommio`.
#[cfg(feature = "glommio")]
pub(crate) fn on_glommio<F, Fut>(shards: usize, body: F)
where
    F: Fn(World) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    on_machine(Backend::Glommio, shards, body);
}

fn on_machine<F, Fut>(backend: Backend, shards: usize, body: F)
where
    F: Fn(World) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(directory.path().into(), Ipv4Addr::LOCALHOST.into(), Mesh::new(shards, MESH_CAPACITY));
    let options = Options { shards, ..Options::default() };
    let results = start(backend, options, move |_: ShardId| body(world.clone())).unwrap();
    assert_eq!(results.len(), shards);
}

/// Runs `body` on every shard of a simulated node, for a few seeds.
pub(crate) fn on_sim<F, Fut>(shards: usize, body: F)
where
    F: Fn(World) -> Fut + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for seed in 0..3 {
        let node = NodeId(0);
        let options = sim::Options { buggify: false, ..sim::Options::default() };
        let mut sim = Sim::new(seed, options);
        let mesh = Mesh::simulated(shards, MESH_CAPACITY);
        let world = World::new("/data".into(), Sim::address_of(node), mesh);
        let returned = Arc::new(AtomicUsize::new(0));
        let (body, count) = (body.clone(), returned.clone());
        sim.start_node(node, shards, move |_| {
            let (main, count, directory) = (body(world.clone()), count.clone(), world.directory.clone());
            async move {
                runtime::file::create_dir_all(&directory).await.unwrap();
                main.await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let stop = sim.run_until(LIMIT, || returned.load(Ordering::Relaxed) == shards);
        assert_eq!(stop, Stop::Condition, "seed {seed}");
    }
}
