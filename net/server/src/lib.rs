//! A node: the one place where the parts meet, and the only crate that opens ports.
//!
//! [`Node::run`] is the main of every shard, on any backend:
//! 1. Shard 0 claims the data directory and lets the others begin.
//! 2. Every shard starts its actor ([`shard::Shard::start`]) and returns from that when all are ready.
//! 3. Shard 0 binds the ports, calls `ready`, accepts and hands connections to the shards.
//! 4. On the signal to stop: no more connections, requests under way are finished and answered, connections close,
//!    shards stop together.
//!
//! Invariants: a failure on one shard stops all of them; what cannot be trusted on disk ends with [`Exit::Corrupt`].

pub mod admin;
pub mod client;
pub mod config;
pub mod cql;
pub mod data_dir;
mod disk_policy;
pub mod http;
pub mod metrics;

pub use config::Config;

use crate::cql::Control;
use crate::data_dir::{DataDir, Refused};
use runtime::sync::{Either, race};
use runtime::{Mesh, ShardId};
use shard::{Shard, StartError};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// How a node ended, and the process's exit code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Orderly stop.
    Stopped = 0,
    /// A wrong option, a busy port or directory, a failing disk at start.
    Misconfigured = 1,
    /// Data on disk cannot be trusted.
    Corrupt = 3,
    /// The disk failed under a node that serves, and a policy is `die`: Cassandra's code.
    DiskFailed = 100,
}

/// What a node that serves tells about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where shard-aware clients connect.
    pub shard_aware: SocketAddr,
    /// How many shards serve.
    pub shards: usize,
}

/// Control messages queued from one core to another.
const CONTROL_MESSAGES_MAX: usize = 1024;

/// A node's shared parts, made before its shards start. Cloning shares them.
#[derive(Clone)]
pub struct Node {
    config: Arc<Config>,
    mesh: Mesh<shard::Message>,
    control: Mesh<Control>,
    ready: Arc<dyn Fn(&Ready) + Send + Sync>,
    simulated: bool,
    /// Every option with its value.
    settings: Arc<BTreeMap<String, Option<String>>>,
}

impl Node {
    /// A node of `shards` shards of a real machine; `ready` is called on shard 0 when it serves.
    pub fn new(config: Config, shards: usize, ready: impl Fn(&Ready) + Send + Sync + 'static) -> Node {
        Node {
            settings: Arc::new(config.all_settings()),
            config: Arc::new(config),
            mesh: Mesh::new(shards, shard::MAILBOX_MESSAGES_MAX),
            control: Mesh::new(shards, CONTROL_MESSAGES_MAX),
            ready: Arc::new(ready),
            simulated: false,
        }
    }

    /// The same in the simulator. Panics of pure stages are not caught there: they fail the run.
    pub fn simulated(config: Config, shards: usize, ready: impl Fn(&Ready) + Send + Sync + 'static) -> Node {
        Node {
            mesh: Mesh::simulated(shards, shard::MAILBOX_MESSAGES_MAX),
            control: Mesh::simulated(shards, CONTROL_MESSAGES_MAX),
            simulated: true,
            ..Node::new(config, 1, ready)
        }
    }

    /// The main of shard `me`; every shard of the node runs it once.
    pub async fn run(self, me: ShardId) -> Exit {
        let control = Rc::new(ControlPort::new(self.control.attach()));
        let directory = if me == ShardId(0) {
            for config::Unused { option, reason } in &self.config.unused {
                tracing::warn!(%option, reason, "has no effect here");
            }
            match DataDir::claim(&self.config.directory).await {
                Ok(directory) => Some(directory),
                Err(refused) => return abort(&control, me, refused).await,
            }
        } else {
            None
        };
        if me == ShardId(0) {
            control.broadcast(me, || Control::Begin).await;
        } else if let Control::Abort(exit) = control.recv().await.1 {
            return exit;
        }

        let events = Rc::new(cql::events::Events::default());
        let start = Shard::start(self.shard_config(), self.mesh.clone(), events.clone());
        let shard = match race(start, control.aborted()).await {
            Either::Left(Ok(shard)) => shard,
            Either::Left(Err(error)) => return abort(&control, me, start_failure(error)).await,
            Either::Right(exit) => return exit,
        };
        let simulated = self.simulated;
        let service = cql::Service::new(self.config.clone(), shard.clone(), events, control.clone(), simulated);
        if let Some(directory) = directory {
            let marked = directory.mark(shard.host_id(), runtime::shard_count()).await;
            let served = match marked {
                Ok(()) => service.lead(|ready| (self.ready)(ready)).await,
                Err(refused) => Err(refused),
            };
            if let Err(refused) = served {
                return abort(&control, me, refused).await;
            }
        } else if let Err(exit) = service.follow().await {
            return exit;
        }
        let stopped = shard.stop().await;
        service.report();
        match stopped {
            Ok(()) => Exit::Stopped,
            Err(failure) => {
                tracing::error!(%failure, "the shard did not stop in order");
                Exit::Misconfigured
            }
        }
    }

    fn shard_config(&self) -> shard::Config {
        let config = &*self.config;
        shard::Config {
            directory: config.directory.clone(),
            cluster_name: config.cluster_name.clone(),
            num_tokens: config.num_tokens,
            listen_address: config.listen_address,
            rpc_address: config.rpc_address,
            storage_port: config.storage_port,
            native_port: config.native_port,
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            sync: config.sync,
            segment_bytes: config.segment_bytes,
            log_bytes: config.log_bytes / runtime::shard_count() as u64,
            sstables: config.sstables,
            memtables: config.memtables.clone(),
            memory_bytes: config.memory_bytes / runtime::shard_count(),
            read_timeout: config.read_timeout,
            range_timeout: config.range_timeout,
            write_timeout: config.write_timeout,
            counter_write_timeout: config.counter_write_timeout,
            cas_contention_timeout: config.cas_contention_timeout,
            truncate_timeout: config.truncate_timeout,
            auto_snapshot: config.auto_snapshot,
            auto_snapshot_ttl: config.auto_snapshot_ttl,
            drop_compact_storage: config.drop_compact_storage,
            use_statements: config.use_statements,
            tombstones: config.tombstones,
            batches: config.batches,
            disk: config.disk,
            guardrails: config.guardrails.clone(),
            compaction_bytes_per_second: config.compaction_bytes_per_second,
            settings: self.settings.clone(),
        }
    }
}

fn start_failure(error: StartError) -> Refused {
    match error {
        StartError::Corrupt(text) => Refused { text, exit: Exit::Corrupt },
        StartError::Failed(text) => Refused { text, exit: Exit::Misconfigured },
        other => Refused { text: format!("{other:?}"), exit: Exit::Misconfigured },
    }
}

/// A shard's end of the control mesh.
struct ControlPort {
    endpoint: runtime::Endpoint<Control>,
    /// What arrived while only [`Control::Abort`] was of interest.
    early: RefCell<VecDeque<(ShardId, Control)>>,
}

impl ControlPort {
    fn new(endpoint: runtime::Endpoint<Control>) -> ControlPort {
        ControlPort { endpoint, early: RefCell::default() }
    }

    async fn send(&self, to: ShardId, message: Control) {
        self.endpoint.send(to, message).await;
    }

    async fn broadcast(&self, me: ShardId, message: impl Fn() -> Control) {
        for shard in (0..runtime::shard_count()).map(|shard| ShardId(shard as u16)).filter(|shard| *shard != me) {
            self.send(shard, message()).await;
        }
    }

    async fn recv(&self) -> (ShardId, Control) {
        let early = self.early.borrow_mut().pop_front();
        match early {
            Some(message) => message,
            None => self.endpoint.recv().await,
        }
    }

    /// Completes when another shard has given up.
    async fn aborted(&self) -> Exit {
        loop {
            match self.endpoint.recv().await {
                (_, Control::Abort(exit)) => return exit,
                other => self.early.borrow_mut().push_back(other),
            }
        }
    }
}

/// Logs why the node cannot go on, once, and tells the other shards.
async fn abort(control: &ControlPort, me: ShardId, refused: Refused) -> Exit {
    tracing::error!(shard = %me, "{}", refused.text);
    control.broadcast(me, || Control::Abort(refused.exit)).await;
    refused.exit
}
