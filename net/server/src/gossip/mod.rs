//! Gossip of a node, on shard 0: the clock, the network, the log and the cores around [`cluster::gossip`].
//!
//! 1. The node describes itself (`own_state`).
//! 2. Once a second it begins a round ([`Gossip::run`]); messages go over the links of shard 0, and
//!    those of others come by [`Gossip::received`].
//! 3. What changes is logged in Cassandra's words. Who lives is told to all cores, and to clients that have registered
//!    for it (`client_events`).
//!
//! Invariants: gossip changes who is asked, never who owns what; a round never waits for a core or a client.

mod first_contact;
mod own_state;
mod stored_bytes;

use crate::client_events::{ClientEvents, ClusterChange, ClusterEvent, NodeView};
use crate::config::{Config, FILE_BYTES_MAX};
use crate::control::{Control, ControlPort};
use crate::cql::registry::ConnectionRegistry;
use cluster::gossip::message::Body;
use cluster::gossip::{ApplicationState, Clocks, Departure, EndpointState, Event, Gossiper, Message, Options, Removal};
use cluster::topology::Node;
use runtime::ShardId;
use runtime::sync::{Condition, Either, Latch, race};
use shard::{Shard, Verb};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The time between two rounds.
pub(crate) const ROUND: Duration = Duration::from_secs(1);
/// `cassandra.ring_delay_ms`.
pub(crate) const RING_DELAY: Duration = Duration::from_secs(30);
/// The longest that a node which starts waits for the others to be known as live.
const SETTLE_MAX: Duration = Duration::from_secs(3);
/// How often it looks.
const SETTLE_STEP: Duration = Duration::from_millis(20);
/// The load is told this often.
const LOAD_EVERY: Duration = Duration::from_secs(60);
/// What keyspaces store is told this often, if it is limited.
const STORED_EVERY: Duration = Duration::from_secs(5);

/// The way of gossip to other nodes.
pub(crate) trait GossipPort {
    /// Sends a message to the node that listens at `to`; it may be lost.
    fn post(&self, to: SocketAddr, verb: Verb, body: Vec<u8>);

    /// Dials the nodes that are known by the first addresses at the second ones.
    fn dial_at(&self, addresses: &Arc<BTreeMap<SocketAddr, SocketAddr>>);
}

/// The way of events to the clients of all cores.
pub(crate) struct ClientPort {
    pub(crate) registry: Rc<ConnectionRegistry>,
    pub(crate) control: Rc<ControlPort>,
}

impl ClientPort {
    async fn tell(&self, events: Vec<ClusterEvent>) {
        for event in events {
            self.registry.cluster_changed(event);
            self.control.broadcast(ShardId(0), || Control::ClusterEvent(event)).await;
        }
    }
}

/// Gossip as this node takes part in it.
pub(crate) struct Gossip {
    config: Arc<Config>,
    shard: Shard,
    gossiper: Rc<RefCell<Gossiper>>,
    port: Rc<dyn GossipPort>,
    clients: ClientPort,
    client_events: RefCell<ClientEvents>,
    /// The addresses at which nodes of this data centre are dialled, by those by which they are known.
    dialled_at: RefCell<Arc<BTreeMap<SocketAddr, SocketAddr>>>,
    is_running: Cell<bool>,
    /// Whether this node serves clients.
    is_rpc_ready: Cell<bool>,
    /// Whether this node has left the ring.
    has_left: Cell<bool>,
    /// Whether something has changed that cores or clients have not been told.
    is_dirty: Cell<bool>,
    changed: Condition,
}

impl Gossip {
    /// Gossip of the node whose shard 0 this is; it knows nobody yet.
    pub(crate) fn new(config: Arc<Config>, shard: Shard, clients: ClientPort, port: Rc<dyn GossipPort>) -> Rc<Gossip> {
        let stored = u32::try_from(shard.generation()).unwrap_or_default();
        let options = Options {
            cluster_name: config.node.cluster_name.clone(),
            partitioner: config.node.partitioner.class_name().into(),
            address: config.gossip_address(),
            seeds: config.node.seeds.clone(),
            phi_convict_threshold: config.phi_convict_threshold,
            ring_delay: RING_DELAY,
            generation: stored,
        };
        let mut gossiper = Gossiper::new(options, clocks());
        own_state::describe(&mut gossiper, &config, &shard);
        let gossiper = Rc::new(RefCell::new(gossiper));
        clients.registry.set_gossiper(&gossiper);
        Rc::new(Gossip {
            config,
            shard,
            gossiper,
            port,
            clients,
            client_events: RefCell::default(),
            dialled_at: RefCell::default(),
            is_running: Cell::new(true),
            is_rpc_ready: Cell::new(false),
            has_left: Cell::new(false),
            is_dirty: Cell::new(true),
            changed: Condition::default(),
        })
    }

    /// Until `closing` is set, begins a round every second, greets nodes that join, and tells cores and clients what
    /// changes.
    pub(crate) async fn run(self: Rc<Self>, closing: Latch) {
        let told = runtime::spawn(self.clone().tell(closing.clone()));
        let greeted = runtime::spawn(self.clone().greet(closing.clone()));
        let (mut next_load, mut next_stored) = (runtime::now(), runtime::now());
        let mut next = runtime::now();
        loop {
            next = next.after(ROUND).max(runtime::now());
            if let Either::Left(()) = race(closing.wait(), runtime::sleep_until(next)).await {
                break;
            }
            if !self.is_running.get() {
                continue;
            }
            if runtime::now() >= next_load {
                next_load = runtime::now().after(LOAD_EVERY);
                let this = self.clone();
                runtime::spawn(async move { own_state::measure_load(&this.shard, &this.gossiper).await });
            }
            if runtime::now() >= next_stored {
                next_stored = runtime::now().after(STORED_EVERY);
                let this = self.clone();
                runtime::spawn(async move { stored_bytes::measure(&this.shard, &this.gossiper).await });
            }
            self.round();
        }
        self.changed.notify();
        told.await;
        greeted.await;
    }

    /// Greets members that are not known to live whenever the members change: a node that joins is known to all at once
    /// then, and knows them. If it is this node that has changed, all others hear of it.
    async fn greet(self: Rc<Self>, closing: Latch) {
        let (mut epoch, mut own) = (self.shard.topology().epoch(), self.shard.member_state());
        while let Either::Right(()) = race(closing.wait(), self.shard.members_changed(epoch)).await {
            let now = self.shard.member_state();
            if now != own {
                self.announce();
            } else if self.is_running.get() {
                let mut unknown = self.members();
                unknown.retain(|member| !self.gossiper.borrow().is_alive(*member));
                let messages = self.gossiper.borrow().greet(clocks(), unknown);
                self.post(messages);
            }
            (epoch, own) = (self.shard.topology().epoch(), now);
        }
    }

    /// Tells all members at once what has changed about this node.
    fn announce(&self) {
        if !self.is_running.get() {
            return;
        }
        let messages = {
            let mut gossiper = self.gossiper.borrow_mut();
            own_state::refresh(&mut gossiper, &self.shard);
            gossiper.greet(clocks(), self.members())
        };
        self.post(messages);
    }

    /// The addresses of the members.
    fn members(&self) -> Vec<SocketAddr> {
        self.shard.topology().nodes().iter().map(|node| node.address).collect()
    }

    /// Begins a round and waits until all other members are known to live, at most for [`SETTLE_MAX`]. A node that
    /// serves clients before it knows who lives tells them that replicas are missing. Alone it does not wait.
    pub(crate) async fn settle(&self) {
        let own = self.config.gossip_address();
        let everybody_lives = || {
            let (topology, gossiper) = (self.shard.topology(), self.gossiper.borrow());
            topology.nodes().iter().all(|node| node.address == own || gossiper.is_alive(node.address))
        };
        if everybody_lives() {
            return;
        }
        self.round();
        let end = runtime::now().after(SETTLE_MAX);
        while !everybody_lives() && runtime::now() < end {
            runtime::sleep(SETTLE_STEP).await;
        }
        let warning = {
            let (topology, gossiper) = (self.shard.topology(), self.gossiper.borrow());
            let nodes = topology.nodes().iter().map(|node| node.address);
            let live: Vec<SocketAddr> = nodes.filter(|node| gossiper.is_alive(*node)).collect();
            first_contact::warning(own, &self.config.node.seeds, &live)
        };
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        if let Err(failure) = self.shard.switch_live_nodes(self.live_nodes()).await {
            tracing::warn!(%failure, "not all cores know who is alive");
        }
    }

    fn round(&self) {
        self.mark_left();
        let messages = {
            let mut gossiper = self.gossiper.borrow_mut();
            let topology = self.shard.topology();
            gossiper.set_members(topology.nodes().iter().map(|node| node.address), clocks());
            own_state::refresh(&mut gossiper, &self.shard);
            gossiper.tick(clocks(), &mut runtime::rng::u64)
        };
        self.post(messages);
        self.handle_events();
    }

    /// Takes note of the nodes that the metadata say have left: in every round, when the members change, and when
    /// somebody asks.
    pub(crate) fn mark_left(&self) {
        let mut gossiper = self.gossiper.borrow_mut();
        let metadata = self.shard.cluster_metadata();
        let is_new = |state: &EndpointState| {
            !state.has_left() && host_id(state).is_some_and(|host_id| metadata.left.contains(&host_id))
        };
        let own = gossiper.address();
        let others = gossiper.states().filter(|(address, state)| *address != own && is_new(state));
        let departure = |state: &EndpointState| match host_id(state) {
            Some(host_id) if self.shard.has_departed(host_id) => Departure::Left,
            _ => Departure::Removed,
        };
        let gone: Vec<(SocketAddr, Departure)> = others.map(|(address, state)| (address, departure(state))).collect();
        gone.into_iter().for_each(|(address, departure)| gossiper.mark_gone(address, departure, clocks()));
    }

    /// Takes a message of the node that others reach at `from`. Bytes that are none are counted by the log alone.
    pub(crate) fn received(&self, from: SocketAddr, body: &[u8]) {
        if !self.is_running.get() {
            return;
        }
        match Message::decode(body) {
            Ok(message) => {
                let messages = self.gossiper.borrow_mut().received(clocks(), from, message);
                self.post(messages);
                self.handle_events();
            }
            Err(error) => tracing::debug!(%from, %error, "gossip"),
        }
    }

    fn post(&self, messages: Vec<(SocketAddr, Message)>) {
        for (to, message) in messages {
            self.port.post(to, verb(&message.body), message.encode());
        }
    }

    fn handle_events(&self) {
        let members_changed = self.client_events.borrow().knows(&self.shard.topology()) != Some(true);
        if members_changed {
            self.mark_left();
        }
        let events = self.gossiper.borrow_mut().events();
        for event in events {
            log(&event, &self.config);
            let matters = match event {
                Event::Up(_) | Event::Down(_) | Event::Restarted(_) | Event::Removed { .. } => true,
                Event::Changed { state, .. } => {
                    matches!(state, ApplicationState::RPC_READY | ApplicationState::INTERNAL_ADDRESS_AND_PORT)
                }
                _ => false,
            };
            if matters {
                self.is_dirty.set(true);
            }
        }
        if members_changed {
            self.is_dirty.set(true);
        }
        if self.is_dirty.get() {
            self.changed.notify();
        }
    }

    /// Tells cores and clients who lives, whenever that changes.
    async fn tell(self: Rc<Self>, closing: Latch) {
        loop {
            let dirty = self.changed.wait(|| (closing.is_set() || self.is_dirty.take()).then_some(()));
            dirty.await;
            if closing.is_set() {
                return;
            }
            self.prefer_local().await;
            let live = self.live_nodes();
            if let Err(failure) = self.shard.switch_live_nodes(live).await {
                tracing::warn!(%failure, "not all cores know who is alive");
            }
            let events = {
                let topology = self.shard.topology();
                let gossiper = self.gossiper.borrow();
                let view = |address: SocketAddr| NodeView {
                    is_up: gossiper.is_alive(address),
                    is_ready: gossiper
                        .state(address)
                        .is_some_and(|state| state.value(ApplicationState::RPC_READY) == Some("true")),
                    native: native_address(gossiper.state(address)),
                };
                self.client_events.borrow_mut().update(&topology, view)
            };
            for event in events.iter().filter(|event| event.change.has_tokens()) {
                tracing::info!("Node /{} state jump to NORMAL", event.node);
            }
            self.clients.tell(events).await;
        }
    }

    /// Has the nodes of this data centre dialled at the addresses that they have told for it, if the snitch wants it.
    async fn prefer_local(&self) {
        if !self.config.prefers_local {
            return;
        }
        let told: BTreeMap<SocketAddr, SocketAddr> = {
            let topology = self.shard.topology();
            let here = topology.here();
            let gossiper = self.gossiper.borrow();
            let local = |node: &Node| {
                let state = gossiper.state(node.address)?;
                let address = state.value(ApplicationState::INTERNAL_ADDRESS_AND_PORT)?.parse().ok()?;
                Some((node.address, address))
            };
            let others = topology.nodes().iter().filter(|node| node.host_id != topology.node(here).host_id);
            others.filter(|node| node.data_center == topology.node(here).data_center).filter_map(local).collect()
        };
        let told = Arc::new(told);
        let before = self.dialled_at.replace(told.clone());
        if before == told {
            return;
        }
        self.port.dial_at(&told);
        self.clients.control.broadcast(ShardId(0), || Control::DialAt(told.clone())).await;
        for (node, local) in told.iter().filter(|(node, local)| before.get(node) != Some(local)) {
            tracing::debug!("Initiated reconnect to an Internal IP /{local} for the /{node}");
            if let Err(failure) = self.shard.note_preferred_address(*node, *local).await {
                tracing::warn!(%failure, "system.peers does not have the preferred address of /{node}");
            }
        }
    }

    /// Host ids of the nodes that live, this one among them.
    fn live_nodes(&self) -> BTreeSet<Uuid> {
        let gossiper = self.gossiper.borrow();
        let live = gossiper.states().filter(|(address, _)| gossiper.is_alive(*address));
        live.filter_map(|(_, state)| host_id(state)).collect()
    }

    /// Says that clients are served, or no longer. What clients are told begins here: members of now are not new.
    pub(crate) fn set_rpc_ready(&self, is_ready: bool) {
        self.is_rpc_ready.set(is_ready);
        self.client_events.take();
        self.is_dirty.set(true);
        self.changed.notify();
        self.set(ApplicationState::RPC_READY, ready_text(is_ready));
        self.announce();
    }

    /// Sets a value of this node, for instance its status.
    pub(crate) fn set(&self, state: ApplicationState, value: &str) {
        if !self.gossiper.borrow_mut().set(state, value) {
            tracing::warn!(state = state.name(), "the value is too long to be told");
        }
    }

    /// Says to the others that this node stops, and to its own clients as well. Nothing is sent or taken afterwards
    /// until [`Gossip::enable`].
    pub(crate) async fn stop(&self) {
        if self.is_running.replace(false) {
            tracing::info!("Announcing shutdown");
            let messages = self.gossiper.borrow_mut().shutdown(clocks());
            self.post(messages);
            // Clients of a node that has left know that already.
            if !self.has_left.get() {
                self.tell_own(ClusterChange::Down).await;
            }
        }
    }

    /// Tells the clients of this node what happens to it.
    async fn tell_own(&self, change: ClusterChange) {
        let node = self.config.gossip_address();
        let own = native_address(self.gossiper.borrow().state(node));
        self.clients.tell(own.map(|address| ClusterEvent { change, node, address }).into_iter().collect()).await;
    }

    /// Says that this node has left the ring for good, to its own clients too. The others know it from the metadata of
    /// the cluster.
    pub(crate) async fn leave(&self) {
        self.has_left.set(true);
        let status = Gossiper::left_status(&own_state::first_token(&self.shard), clocks());
        self.set(ApplicationState::STATUS_WITH_PORT, &status);
        self.tell_own(ClusterChange::RemovedNode).await;
    }

    /// Takes the node at an address for dead, so that clients hear of it before they hear that it is no member.
    pub(crate) fn convict(&self, address: IpAddr) {
        let known = self.view(|gossiper| gossiper.states().map(|(known, _)| known).find(|known| known.ip() == address));
        if let Some(address) = known {
            self.gossiper.borrow_mut().convict_now(address, clocks());
            self.handle_events();
        }
    }

    /// Ends the state of the node at an address for all nodes. `token` is its first one.
    pub(crate) fn assassinate(&self, address: SocketAddr, token: &str) {
        tracing::warn!("Assassinating /{address} via gossip");
        self.gossiper.borrow_mut().assassinate(address, token, clocks());
        tracing::warn!("Finished assassinating /{address}");
        self.handle_events();
    }

    /// `nodetool disablegossip`.
    pub(crate) fn disable(&self) {
        if self.is_running.replace(false) {
            tracing::warn!("Stopping gossip by operator request");
            let messages = self.gossiper.borrow_mut().shutdown(clocks());
            self.post(messages);
        }
    }

    /// `nodetool enablegossip`: begins a generation of its own.
    pub(crate) fn enable(&self) {
        if !self.is_running.replace(true) {
            tracing::warn!("Starting gossip by operator request");
            let mut gossiper = self.gossiper.borrow_mut();
            let seconds = u64::try_from(runtime::wall_micros().div_euclid(1_000_000)).unwrap_or_default();
            let generation = Gossiper::next_generation(seconds, Some(gossiper.own().generation));
            gossiper.restart(generation);
            own_state::describe(&mut gossiper, &self.config, &self.shard);
            gossiper.set(ApplicationState::RPC_READY, ready_text(self.is_rpc_ready.get()));
        }
    }

    /// Whether gossip runs.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.get()
    }

    /// Looks at what is known of all nodes.
    pub(crate) fn view<T>(&self, look: impl FnOnce(&Gossiper) -> T) -> T {
        look(&self.gossiper.borrow())
    }

    /// `nodetool reloadseeds`: reads the seeds from the configuration file again. Without a file they stay.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn reload_seeds(&self) -> Result<(), String> {
        let Some(path) = &self.config.file else { return Ok(()) };
        let text = runtime::machine::read_text(path, FILE_BYTES_MAX as u64).map_err(|error| error.to_string())?;
        let mut read = Config::read(&text, &[]).map_err(|error| error.0)?;
        read.node.storage_port = self.config.node.storage_port;
        read.resolve_seeds(&runtime::machine::resolve).map_err(|error| error.0)?;
        self.gossiper.borrow_mut().set_seeds(read.node.seeds);
        Ok(())
    }
}

/// The value of RPC_READY.
fn ready_text(is_ready: bool) -> &'static str {
    if is_ready { "true" } else { "false" }
}

fn clocks() -> Clocks {
    Clocks { monotonic: Duration::from_nanos(runtime::now().0), wall: runtime::wall_micros() }
}

/// The host id that a node tells.
pub(crate) fn host_id(state: &EndpointState) -> Option<Uuid> {
    state.value(ApplicationState::HOST_ID)?.parse().ok()
}

/// Where a node serves clients.
fn native_address(state: Option<&EndpointState>) -> Option<SocketAddr> {
    state?.value(ApplicationState::NATIVE_ADDRESS_AND_PORT)?.parse().ok()
}

fn verb(body: &Body) -> Verb {
    match body {
        Body::Syn { .. } => Verb::GossipSyn,
        Body::Ack { .. } => Verb::GossipAck,
        Body::Ack2 { .. } => Verb::GossipAck2,
        Body::Echo => Verb::Echo,
        Body::EchoReply { .. } => Verb::EchoReply,
        Body::Shutdown { .. } => Verb::GossipShutdown,
    }
}

/// Logs an event in Cassandra's words.
fn log(event: &Event, config: &Config) {
    match event {
        Event::Discovered(node) => tracing::info!("Node /{node} is now part of the cluster"),
        Event::Restarted(node) => tracing::info!("Node /{node} has restarted, now UP"),
        Event::Up(node) => tracing::info!("InetAddress /{node} is now UP"),
        Event::Down(node) => tracing::info!("InetAddress /{node} is now DOWN"),
        Event::Changed { address, state } => {
            tracing::debug!("/{address} has changed {}", state.name().unwrap_or("an unknown state"));
        }
        Event::Left(node) => tracing::info!("Node /{node} state jump to LEFT"),
        Event::Removed { address, reason: Removal::Silent(after) } => {
            let millis = after.as_millis();
            tracing::info!("FatClient /{address} has been silent for {millis}ms, removing from gossip");
        }
        Event::Removed { address, .. } => tracing::info!("removed /{address} from gossip"),
        Event::LocalPause(pause) => {
            let (nanos, max) = (pause.as_nanos(), cluster::gossip::failure_detector::LOCAL_PAUSE_MAX.as_nanos());
            tracing::warn!("Not marking nodes down due to local pause of {nanos}ns > {max}ns");
        }
        Event::ClockSkewed { address, offset } => {
            tracing::warn!("the clock of /{address} is {} ms ahead of this node's", offset.micros / 1000);
        }
        Event::ClockAgrees(node) => tracing::info!("the clock of /{node} agrees with this node's again"),
        Event::ClusterNameMismatch { from, theirs } => {
            tracing::warn!("ClusterName mismatch from /{from} {theirs}!={}", config.node.cluster_name);
        }
        Event::PartitionerMismatch { from, theirs } => {
            let own = config.node.partitioner.class_name();
            tracing::warn!("Partitioner mismatch from /{from} {theirs}!={own}");
        }
        Event::InvalidGeneration { address, generation } => {
            let local = runtime::wall_micros().div_euclid(1_000_000);
            tracing::warn!(
                "received an invalid gossip generation for peer /{address}; local time = {local}, received generation = \
                 {generation}"
            );
        }
        Event::GenerationRaised(generation) => {
            tracing::warn!("other nodes know a later generation of this node: it goes on with {generation}");
        }
        Event::Expelled => tracing::warn!("other nodes say that this node has left the ring"),
    }
}
