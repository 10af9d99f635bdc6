//! A node in the simulator whose data directory the test puts together.

use runtime::NodeId;
use runtime::sim::{Options, Sim, Stop};
use server::client::{CallError, Client, Outcome, QueryOptions};
use server::{Config, Node};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);
/// The longest that anything may take, in virtual time.
const PATIENCE: Duration = Duration::from_secs(3600);
const NATIVE_PORT: u16 = 9042;
const DIRECTORY: &str = "/data";

pub(crate) struct World {
    sim: Sim,
    options: Vec<String>,
}

impl World {
    /// A node that is not started yet. `options` are as `-D` takes them.
    pub(crate) fn new(seed: u64, options: &[&str]) -> World {
        let sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        World { sim, options: options.iter().map(|option| (*option).to_owned()).collect() }
    }

    /// Starts the node with this number of cores and returns whether it serves.
    pub(crate) fn start(&mut self, shards: usize) -> bool {
        let ip = Sim::address_of(SERVER);
        let own =
            [format!("listen_address={ip}"), format!("rpc_address={ip}"), "commitlog_segment_size=4MiB".to_owned()];
        let options: Vec<String> = own.into_iter().chain(self.options.iter().cloned()).collect();
        let mut config = Config::read("", &options).expect("valid");
        config.node.directories = DIRECTORY.into();
        let ready = Arc::new(AtomicBool::new(false));
        let told = ready.clone();
        let node = Node::simulated(config, shards, move |_| told.store(true, Ordering::Relaxed));
        self.sim.start_node(SERVER, shards, move |shard| {
            let node = node.clone();
            async move {
                node.run(shard).await;
            }
        });
        let mut steps = 0;
        while !ready.load(Ordering::Relaxed) && self.sim.is_running(SERVER) && steps < 50_000_000 {
            self.sim.step();
            steps += 1;
        }
        ready.load(Ordering::Relaxed)
    }

    /// Stops the node in order.
    pub(crate) fn stop(&mut self) {
        self.sim.terminate(SERVER);
        while self.sim.is_running(SERVER) {
            assert!(self.sim.step(), "the node does not stop");
        }
    }

    /// Ends the node as a power failure would.
    pub(crate) fn crash(&mut self) {
        self.sim.crash(SERVER);
    }

    /// Writes files to the disk of the node, which must not run.
    pub(crate) fn put(&mut self, files: Vec<(PathBuf, Vec<u8>)>) {
        let files = Rc::new(files);
        self.sim.start_node(SERVER, 1, move |_| {
            let files = files.clone();
            async move {
                for (path, bytes) in files.iter() {
                    let path = Path::new(DIRECTORY).join(path);
                    runtime::file::create_dir_all(path.parent().expect("a folder")).await.expect("made");
                    runtime::file::replace_small(&path, bytes).await.expect("written");
                }
            }
        });
        while self.sim.is_running(SERVER) {
            assert!(self.sim.step(), "files are not written");
        }
    }

    /// Paths of the files on the node's disk, under its directory.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let files = self.sim.files(SERVER).into_iter();
        files.filter_map(|(path, _)| Some(path.strip_prefix(DIRECTORY).ok()?.to_owned())).collect()
    }

    /// The content of a file under the node's directory.
    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        self.sim.read_file(SERVER, &Path::new(DIRECTORY).join(path))
    }

    /// Lets the node run until a condition holds, and returns whether it does in time.
    pub(crate) fn run_until(&mut self, done: impl Fn(&World) -> bool) -> bool {
        for _ in 0..2_000 {
            if done(self) {
                return true;
            }
            for _ in 0..5_000 {
                self.sim.step();
            }
        }
        false
    }

    /// Runs statements one after the other and returns their answers.
    pub(crate) fn query(&mut self, statements: Vec<(String, QueryOptions)>) -> Vec<Result<Outcome, CallError>> {
        let address = SocketAddr::new(Sim::address_of(SERVER), NATIVE_PORT);
        let result = Rc::new(RefCell::new(None));
        let (put, statements) = (result.clone(), Rc::new(statements));
        self.sim.start_node(CLIENT, 1, move |_| {
            let (put, statements) = (put.clone(), statements.clone());
            async move {
                let mut client = Client::connect(address, None, 5).await.expect("a connection");
                let mut answers = Vec::new();
                for (statement, options) in statements.iter() {
                    answers.push(ask(&mut client, statement, options).await);
                }
                *put.borrow_mut() = Some(answers);
            }
        });
        assert_eq!(self.sim.run_until(PATIENCE, || result.borrow().is_some()), Stop::Condition, "no answers");
        while self.sim.is_running(CLIENT) {
            self.sim.step();
        }
        let answers = result.borrow_mut().take();
        answers.expect("just seen")
    }
}

/// Runs a statement and fetches all pages.
async fn ask(client: &mut Client, statement: &str, options: &QueryOptions) -> Result<Outcome, CallError> {
    let mut options = options.clone();
    let mut rows = Vec::new();
    loop {
        let mut outcome = client.query(statement, &options).await?;
        rows.append(&mut outcome.rows);
        options.paging_state = outcome.paging_state.take();
        if options.paging_state.is_none() {
            return Ok(Outcome { rows, ..outcome });
        }
    }
}
