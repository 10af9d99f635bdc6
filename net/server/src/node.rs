//! [`Node`]: the shared parts of a node, and the main function of each of its shards.
//!
//! 1. Shard 0 claims the data directories and lets the others begin.
//! 2. Every shard starts its actor ([`shard::Shard::start`]), which waits until all are ready.
//! 3. Shard 0 listens for other nodes, joins its cluster, binds the ports for clients, calls `ready`, accepts
//!    connections and hands them to the shards.
//! 4. On the signal to stop, shard 0 accepts no more connections, requests under way are finished and answered,
//!    connections are closed, and the shards stop together.
//!
//! Invariants: a failure on one shard stops all of them; data on disk that cannot be trusted ends the node with
//! [`Exit::Corrupt`].

use crate::config::{Config, Unused};
use crate::control::{CONTROL_MESSAGES_MAX, Control, ControlPort};
use crate::cql::rate::RateLimiter;
use crate::cql::registry::ConnectionRegistry;
use crate::data_dirs::DataDirs;
use crate::encryption;
use crate::exit::{Exit, StopReason};
use crate::internode::NodeLinks;
use crate::service::{Ready, Service};
use runtime::sync::{Either, race};
use runtime::{Mesh, ShardId};
use shard::Shard;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// The parts that a node's shards share, made before these start. Cloning shares them.
#[derive(Clone)]
pub struct Node {
    config: Arc<Config>,
    mesh: Mesh<shard::Message>,
    control: Mesh<Control>,
    ready: Arc<dyn Fn(&Ready) + Send + Sync>,
    /// The rate of requests, if it is limited.
    limiter: Option<Arc<RateLimiter>>,
    simulated: bool,
}

impl Node {
    /// A node of `shards` shards on a real machine. `ready` is called on shard 0 once the node serves.
    pub fn new(mut config: Config, shards: usize, ready: impl Fn(&Ready) + Send + Sync + 'static) -> Node {
        config.node.settings = Arc::new(config.all_settings());
        Node {
            limiter: config.client_limits.requests_per_second_max.map(|rate| Arc::new(RateLimiter::new(rate))),
            config: Arc::new(config),
            mesh: Mesh::new(shards, shard::MAILBOX_MESSAGES_MAX),
            control: Mesh::new(shards, CONTROL_MESSAGES_MAX),
            ready: Arc::new(ready),
            simulated: false,
        }
    }

    /// A node of the simulator. There a panic while a request is decoded is not caught but fails the run.
    pub fn simulated(config: Config, shards: usize, ready: impl Fn(&Ready) + Send + Sync + 'static) -> Node {
        Node {
            mesh: Mesh::simulated(shards, shard::MAILBOX_MESSAGES_MAX),
            control: Mesh::simulated(shards, CONTROL_MESSAGES_MAX),
            simulated: true,
            ..Node::new(config, 1, ready)
        }
    }

    /// Runs shard `me` from start to stop. Every shard of the node calls it once, on its own thread.
    ///
    /// The future is boxed so that a node is compiled with this crate. Otherwise each program and each test binary that
    /// runs one would compile all of it once more.
    pub fn run(self, me: ShardId) -> Pin<Box<dyn Future<Output = Exit>>> {
        Box::pin(self.run_shard(me))
    }

    async fn run_shard(self, me: ShardId) -> Exit {
        let control = Rc::new(ControlPort::new(self.control.attach()));
        let (directories, contexts) = if me == ShardId(0) {
            for Unused { option, reason } in &self.config.unused {
                tracing::warn!(%option, reason, "has no effect here");
            }
            match DataDirs::claim(&self.config.node.directories, runtime::shard_count()).await {
                Ok(directories) => match encryption::load(&self.config).await {
                    Ok((files, contexts)) => {
                        control.broadcast(me, || Control::Begin(contexts.clone())).await;
                        (Some((directories, files)), contexts)
                    }
                    Err(text) => return abort(&control, me, StopReason { text, exit: Exit::Misconfigured }).await,
                },
                Err(reason) => return abort(&control, me, reason).await,
            }
        } else {
            match control.recv().await.1 {
                Control::Begin(contexts) => (None, contexts),
                Control::Abort(exit) => return exit,
                _ => return Exit::Misconfigured,
            }
        };

        let registry = Rc::new(ConnectionRegistry::new(self.limiter.clone()));
        let links = NodeLinks::default();
        let peers = Rc::new(links.clone());
        let start = Shard::start(self.config.node.clone(), self.mesh.clone(), registry.clone(), peers);
        let shard = match race(start, control.aborted()).await {
            Either::Left(Ok(shard)) => shard,
            Either::Left(Err(error)) => return abort(&control, me, error.into()).await,
            Either::Right(exit) => return exit,
        };
        links.open(&self.config, &contexts, &shard);
        let simulated = self.simulated;
        let config = self.config.clone();
        let service = Service::new(config, shard.clone(), registry, control.clone(), links, &contexts, simulated);
        if let Some((mut directories, files)) = directories {
            let marked = directories.mark(shard.host_id(), runtime::shard_count()).await;
            let served = match marked {
                Ok(()) => service.lead(files, |ready| (self.ready)(ready)).await,
                Err(reason) => Err(reason),
            };
            if let Err(reason) = served {
                return abort(&control, me, reason).await;
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
}

/// Logs why the node cannot go on and tells the other shards to end.
async fn abort(control: &ControlPort, me: ShardId, reason: StopReason) -> Exit {
    tracing::error!(shard = %me, "{}", reason.text);
    control.broadcast(me, || Control::Abort(reason.exit)).await;
    reason.exit
}
