//! One shard's part in serving clients and operators, and in stopping.
//!
//! Shard 0 leads: it binds the ports, opens those for operators, hands connections to the shards, and decides when the
//! node drains and stops. The others follow: they serve the connections that it hands over, and drain when it says so.

use crate::admin;
use crate::auto_repair;
use crate::client_admin::{ClientAdmin, PortOrder};
use crate::client_ports::{PortKind, ShardAwarePorts};
use crate::config::{Config, Encryption, SHARD_AWARE_PORT, SSL_STORAGE_PORT};
use crate::control::{Control, ControlPort};
use crate::cql::connections::Connections;
use crate::cql::context::Context;
use crate::cql::receiver::HANDSHAKE_CLASS;
use crate::cql::registry::ConnectionRegistry;
use crate::disk_policy::{self, Consequence};
use crate::encryption::{self, Contexts, Files};
use crate::exit::{Exit, StopReason};
use crate::first_superuser;
use crate::gossip::{ClientPort, Gossip};
use crate::heartbeat;
use crate::http;
use crate::internode::{NodeLinks, listener};
use crate::keys::Keys;
use crate::node_state::{LeavingState, NodeState};
use runtime::sync::{Either, Latch, race};
use runtime::{JoinHandle, Listener, ShardId};
use shard::Shard;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

/// What a node reports when it begins to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Where the node listens for clients; `None` if `start_native_transport` is false.
    pub listening: Option<Listening>,
    /// How many shards serve.
    pub shards: usize,
}

/// The addresses of a node for clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listening {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where clients connect that encrypt, if that is another port.
    pub encrypted: Option<SocketAddr>,
    /// Where shard-aware clients connect that do not encrypt.
    pub shard_aware: Option<SocketAddr>,
    /// Where shard-aware clients connect that encrypt.
    pub shard_aware_encrypted: Option<SocketAddr>,
}

/// One shard's part in serving.
pub(crate) struct Service {
    context: Rc<Context>,
    connections: Rc<Connections>,
    registry: Rc<ConnectionRegistry>,
    control: Rc<ControlPort>,
    links: NodeLinks,
}

impl Service {
    pub(crate) fn new(
        config: Arc<Config>,
        shard: Shard,
        registry: Rc<ConnectionRegistry>,
        control: Rc<ControlPort>,
        links: NodeLinks,
        contexts: &Contexts,
        simulated: bool,
    ) -> Service {
        let context =
            Rc::new(Context::new(config, shard, registry.metrics.clone(), registry.limiter.clone(), simulated));
        context.set_keys(contexts);
        let connections = Connections::new(context.clone(), registry.clone(), control.clone());
        Service { context, connections, registry, control, links }
    }

    /// Shard 0: listens for other nodes. Returns the tasks that accept their connections.
    async fn accept_peers(&self, closing: &Latch) -> Result<Vec<JoinHandle<()>>, StopReason> {
        let shard = &self.context.shard;
        let config = shard.node_config();
        let encryption = &self.context.config.server_encryption;
        let mut ports = vec![(config.storage_port, encryption.inbound())];
        let legacy_port = encryption.legacy_port.unwrap_or(SSL_STORAGE_PORT);
        if encryption.has_legacy_port && legacy_port != config.storage_port {
            ports.push((legacy_port, Encryption::Required));
        }
        let mut serving = Vec::new();
        for (port, encryption) in ports {
            let address = SocketAddr::new(config.listen_address, port);
            match listener::listen(address).await {
                Ok(listener) => {
                    let (links, control) = (self.links.clone(), self.control.clone());
                    let accepted = listener::serve(listener, encryption, links, control, closing.clone());
                    serving.push(runtime::spawn(accepted));
                }
                Err(text) if shard.is_alone() && shard.other_seeds().is_empty() => {
                    tracing::warn!("no other node can join this one: {text}");
                }
                Err(text) => return Err(StopReason { text, exit: Exit::Misconfigured }),
            }
        }
        Ok(serving)
    }

    /// Shard 0: becomes a member of the cluster.
    async fn join(&self) -> Result<(), StopReason> {
        let shard = &self.context.shard;
        shard.join_cluster().await?;
        if let Some(cluster_id) = shard.cluster_id() {
            self.links.joined(cluster_id);
            self.control.broadcast(ShardId(0), || Control::Joined(cluster_id)).await;
        }
        Ok(())
    }

    /// Shard 0, before clients are served: waits for a fault of the disk after which the node must end.
    async fn fatal_fault(&self) -> StopReason {
        loop {
            let consequence = match race(self.control.recv(), self.context.shard.next_fault()).await {
                Either::Left((_, Control::Failed(consequence))) => consequence,
                Either::Left(_) => continue,
                Either::Right(fault) => disk_policy::decide(&self.context.config, &fault),
            };
            // A node that is to serve no clients any more has not begun to.
            if consequence != Consequence::Errors {
                return disk_failed();
            }
        }
    }

    /// Shard 0: serves until the node is asked to stop and all shards have drained. Calls `ready` once the ports are
    /// open.
    pub(crate) async fn lead(&self, files: Files, ready: impl FnOnce(&Ready)) -> Result<(), StopReason> {
        let context = &self.context;
        let me = ShardId(0);
        heartbeat::check(&context.config, &context.shard.schema()).await?;
        let stopping = Latch::default();
        let clients = ClientPort { registry: self.registry.clone(), control: self.control.clone() };
        let gossip = Gossip::new(context.config.clone(), context.shard.clone(), clients, Rc::new(self.links.clone()));
        self.links.serve_gossip(&gossip);
        let rounds = runtime::spawn(gossip.clone().run(stopping.clone()));
        let mut terminated = pin!(runtime::signal::terminated());
        let peers_accepting = self.accept_peers(&stopping).await?;
        // An operator may look at a node that joins.
        let (config, control) = (context.config.clone(), self.control.clone());
        let keys = Keys::new(config.clone(), control, context.clone(), self.links.clone(), files);
        let watching = runtime::spawn(keys.clone().watch(stopping.clone()));
        let clients = ClientAdmin::new(self.control.clone(), context.clone(), self.registry.clone());
        let node = NodeState::new(config, context.shard.clone(), gossip.clone(), keys, clients, context.simulated);
        let listener = admin::listener::listen(&node).await;
        let commands =
            listener.map(|listener| runtime::spawn(admin::listener::serve(node.clone(), listener, stopping.clone())));
        match race(self.join(), race(terminated.as_mut(), self.fatal_fault())).await {
            Either::Left(joined) => joined?,
            Either::Right(Either::Right(reason)) => return Err(reason),
            Either::Right(Either::Left(())) => {
                tracing::info!("asked to stop before the node had joined");
                gossip.stop().await;
                stopping.set();
                node.clients.close();
                for task in commands.into_iter().chain(peers_accepting).chain([watching]) {
                    task.await;
                }
                rounds.await;
                self.control.broadcast(me, || Control::Stop).await;
                self.links.close().await;
                return Ok(());
            }
        }
        if context.config.audit_log.enabled {
            let started = node.clients.set_audit(Some(context.config.audit_log.clone())).await;
            started.map_err(|text| StopReason { text, exit: Exit::Misconfigured })?;
        }
        let (mut accepting, mut listening) = (None, None);
        if context.config.start_native_transport {
            gossip.settle().await;
            first_superuser::provide(&context.shard, &context.config, &stopping).await;
            let (found, tasks) = self.listen_for_clients().await?;
            listening = Some(found);
            accepting = Some(tasks);
        }
        // Who waits for the node to be ready may ask for metrics at once.
        let listener = http::listen(&node).await;
        let scrapes = listener.map(|listener| runtime::spawn(http::serve(node.clone(), listener, stopping.clone())));
        let repairs = runtime::spawn(auto_repair::keep(node.clone(), stopping.clone()));
        let beats = runtime::spawn(heartbeat::keep(context.config.clone(), stopping.clone()));
        let leaving = runtime::spawn(stop_when_left(node.clone(), stopping.clone()));
        node.serves_clients.set(listening.is_some());
        gossip.set_rpc_ready(listening.is_some());
        tracing::info!("Startup complete");
        ready(&Ready { listening, shards: runtime::shard_count() });

        let mut drain = pin!(node.drain.wait());
        let mut is_drained = false;
        loop {
            let drain_requested = async {
                match is_drained {
                    false => drain.as_mut().await,
                    true => std::future::pending().await,
                }
            };
            let reported = race(self.control.recv(), context.shard.next_fault());
            let asked = race(drain_requested, node.clients.next_order());
            let consequence = match race(race(terminated.as_mut(), asked), reported).await {
                Either::Left(Either::Left(())) => break,
                Either::Left(Either::Right(Either::Left(()))) => {
                    gossip.stop().await;
                    node.serves_clients.set(false);
                    self.drain_all(accepting.take(), false).await;
                    is_drained = true;
                    node.drained.set();
                    continue;
                }
                Either::Left(Either::Right(Either::Right(given))) => {
                    let outcome = match given.order {
                        PortOrder::Open if is_drained => {
                            Err("Unable to start native transport because the node was drained.".into())
                        }
                        PortOrder::Open if accepting.is_some() => Ok(()),
                        PortOrder::Open => match self.reopen(&stopping).await {
                            Ok(tasks) => {
                                accepting = Some(tasks);
                                Ok(())
                            }
                            Err(reason) => Err(reason.text),
                        },
                        PortOrder::Close { by_force } => {
                            gossip.set_rpc_ready(false);
                            node.serves_clients.set(false);
                            if let Some(tasks) = accepting.take() {
                                self.drain_all(Some(tasks), by_force).await;
                            }
                            Ok(())
                        }
                    };
                    node.serves_clients.set(accepting.is_some());
                    if accepting.is_some() {
                        gossip.set_rpc_ready(true);
                    }
                    node.clients.answer(&given, outcome);
                    continue;
                }
                Either::Right(Either::Left((shard, Control::Closed(address)))) => {
                    self.connections.closed(shard, address);
                    continue;
                }
                Either::Right(Either::Left((_, Control::Failed(consequence)))) => consequence,
                Either::Right(Either::Left(_)) => continue,
                Either::Right(Either::Right(fault)) => disk_policy::decide(&context.config, &fault),
            };
            match consequence {
                Consequence::Errors => {}
                Consequence::StopServing => node.drain.set(),
                Consequence::Die => return Err(disk_failed()),
            }
        }
        gossip.stop().await;
        stopping.set();
        node.clients.close();
        for task in
            commands.into_iter().chain(scrapes).chain(peers_accepting).chain([repairs, beats, watching, leaving])
        {
            task.await;
        }
        rounds.await;
        if !is_drained {
            self.drain_all(accepting, false).await;
        }
        self.control.broadcast(me, || Control::Stop).await;
        self.close_logs().await;
        self.links.close().await;
        Ok(())
    }

    /// Writes what the logs of requests have queued.
    async fn close_logs(&self) {
        self.context.query_logs.set_audit(None).await;
        self.context.query_logs.set_full(None).await;
    }

    /// Shard 0: serves clients again, or for the first time if the node did not listen at its start. Returns the tasks
    /// that accept connections.
    async fn reopen(&self, stopping: &Latch) -> Result<Vec<JoinHandle<()>>, StopReason> {
        let context = &self.context;
        first_superuser::provide(&context.shard, &context.config, stopping).await;
        self.connections.reopen();
        self.control.broadcast(ShardId(0), || Control::Reopen).await;
        Ok(self.listen_for_clients().await?.1)
    }

    /// Shard 0: ends the tasks that accept connections and drains all shards, without waiting for requests under way if
    /// `by_force`.
    async fn drain_all(&self, accepting: Option<Vec<JoinHandle<()>>>, by_force: bool) {
        tracing::info!("no more connections, finishing requests under way");
        self.connections.close();
        for task in accepting.into_iter().flatten() {
            task.await;
        }
        self.control.broadcast(ShardId(0), || Control::Drain { by_force }).await;
        self.connections.drain(by_force).await;
        let mut waiting = runtime::shard_count() - 1;
        while waiting > 0 {
            match self.control.recv().await {
                (_, Control::Drained) => waiting -= 1,
                (shard, Control::Closed(address)) => self.connections.closed(shard, address),
                _ => {}
            }
        }
    }

    /// Any other shard: serves what shard 0 hands over until all shards have drained.
    pub(crate) async fn follow(&self) -> Result<(), Exit> {
        let context = &self.context;
        loop {
            let message = match race(self.control.recv(), context.shard.next_fault()).await {
                Either::Left((_, message)) => message,
                Either::Right(fault) => {
                    let consequence = disk_policy::decide(&context.config, &fault);
                    self.control.send(ShardId(0), Control::Failed(consequence)).await;
                    continue;
                }
            };
            match message {
                Control::Connection(accepted, port, shard_aware_ports) => {
                    context.shard_aware_ports.set(shard_aware_ports);
                    self.connections.open(accepted, port);
                }
                Control::Keys(contexts) => {
                    context.set_keys(&contexts);
                    self.links.set_keys(&contexts);
                }
                Control::PeerConnection(accepted, encryption) => self.links.attach(accepted, encryption),
                Control::Joined(cluster_id) => self.links.joined(cluster_id),
                Control::DialAt(addresses) => self.links.dial_at(&addresses),
                Control::Drain { by_force } => {
                    self.connections.close();
                    self.connections.drain(by_force).await;
                    self.control.send(ShardId(0), Control::Drained).await;
                }
                Control::Reopen => self.connections.reopen(),
                Control::OlderProtocols(allowed) => context.allows_older_protocols.set(allowed),
                Control::ClearClientHistory => self.registry.clear_history(),
                Control::RoleCaches(options) => context.shard.limit_role_caches(&options),
                Control::AuditLog(options) => context.query_logs.set_audit(options).await,
                Control::FullQueryLog(options) => context.query_logs.set_full(options).await,
                Control::Stop => {
                    self.close_logs().await;
                    self.links.close().await;
                    return Ok(());
                }
                Control::Abort(exit) => return Err(exit),
                Control::ClusterEvent(event) => self.registry.cluster_changed(event),
                Control::Begin(_) | Control::Closed(_) | Control::Drained | Control::Failed(_) => {}
            }
        }
    }

    /// Logs what this shard has counted.
    pub(crate) fn report(&self) {
        let metrics = &self.context.metrics;
        tracing::info!(
            shard = %runtime::current_shard(),
            connections = metrics.connections.get(),
            requests = metrics.requests.get(),
            errors = metrics.errors.get(),
            evictions = metrics.evictions.get(),
            messages_to_other_cores = self.context.shard.messages_sent(),
            "served"
        );
    }

    /// Shard 0: opens the ports for clients and accepts their connections.
    async fn listen_for_clients(&self) -> Result<(Listening, Vec<JoinHandle<()>>), StopReason> {
        let context = &self.context;
        let (config, options) = (&context.config, &context.config.client_encryption);
        let encryption = encryption::of_clients(options, &context.keys.borrow());
        let main_port = config.node.native_port;
        let encrypted_port = options.port.filter(|port| *port != main_port && encryption != Encryption::Off);
        // With a port of its own for encryption, the other one is for those who do not encrypt.
        let on_main = match (encryption, encrypted_port) {
            (Encryption::Required, Some(_)) => Encryption::Off,
            (encryption, _) => encryption,
        };
        let mut ports = vec![(main_port, PortKind { is_shard_aware: false, encryption: on_main })];
        if let Some(port) = encrypted_port {
            ports.push((port, PortKind { is_shard_aware: false, encryption: Encryption::Required }));
        }
        if on_main != Encryption::Required {
            ports.push((config.shard_aware_port, PortKind { is_shard_aware: true, encryption: Encryption::Off }));
        }
        if encryption != Encryption::Off {
            let kind = PortKind { is_shard_aware: true, encryption: Encryption::Required };
            ports.push((options.shard_aware_port, kind));
        }
        let mut opened = Vec::new();
        for (port, kind) in ports {
            match self.bind(port).await {
                Ok(listener) => opened.push((listener, kind)),
                // Nodes with one address for clients and different ports are usual, and nobody has chosen this port.
                Err(reason) if kind.is_shard_aware && port == SHARD_AWARE_PORT => {
                    tracing::warn!("{}: drivers cannot choose their core", reason.text);
                }
                Err(reason) => return Err(reason),
            }
        }
        let address_of = |is_shard_aware: bool, of: &[Encryption]| {
            let is_wanted = |kind: &PortKind| kind.is_shard_aware == is_shard_aware && of.contains(&kind.encryption);
            opened.iter().find(|(_, kind)| is_wanted(kind)).map(|(listener, _)| listener.local_address())
        };
        let listening = Listening {
            address: opened[0].0.local_address(),
            encrypted: encrypted_port.and_then(|_| address_of(false, &[Encryption::Required])),
            shard_aware: address_of(true, &[Encryption::Off]),
            shard_aware_encrypted: address_of(true, &[Encryption::Required]),
        };
        context.shard_aware_ports.set(ShardAwarePorts {
            plain: listening.shard_aware.map(|address| address.port()),
            encrypted: listening.shard_aware_encrypted.map(|address| address.port()),
        });
        for (listener, kind) in opened.iter().filter(|(_, kind)| !kind.is_shard_aware) {
            let how = match kind.encryption {
                Encryption::Off => "unencrypted",
                Encryption::Optional => "optionally encrypted",
                Encryption::Required => "encrypted",
            };
            tracing::info!("Starting listening for CQL clients on /{} ({how})...", listener.local_address());
        }
        let accept =
            |(listener, kind)| runtime::spawn_in(HANDSHAKE_CLASS, self.connections.clone().accept(listener, kind));
        Ok((listening, opened.into_iter().map(accept).collect()))
    }

    async fn bind(&self, port: u16) -> Result<Listener, StopReason> {
        let address = SocketAddr::new(self.context.config.node.rpc_address, port);
        Listener::bind(address)
            .await
            .map_err(|e| StopReason { text: format!("cannot listen on {address}: {e}"), exit: Exit::Misconfigured })
    }
}

fn disk_failed() -> StopReason {
    StopReason { text: "the disk failed".into(), exit: Exit::DiskFailed }
}

/// Lets the node stop serving clients once it has left the ring, also if it goes on with that after a restart. While
/// `decommission` is under way, the command does that itself.
async fn stop_when_left(node: Rc<NodeState>, stopping: Latch) {
    race(node.shard.left(), stopping.wait()).await;
    if !node.has_left() || node.leaving.get() == LeavingState::UnderWay {
        return;
    }
    if node.shard.has_departed(node.shard.host_id()) {
        node.gossip.leave().await;
    }
    tracing::info!("DECOMMISSIONED");
    node.drain.set();
}
