//! This node among others: the links of each core, and what serves the messages of other nodes.
//!
//! 1. Every core makes its [`NodeLinks`] before its actor starts, because the actor asks other nodes through them; they
//!    work from [`NodeLinks::open`] on, when the node's host id is known.
//! 2. Shard 0 listens on the storage port ([`listener`]) and hands each connection to the core that its source port
//!    names.
//! 3. Once the node belongs to a cluster, connections name its id ([`NodeLinks::joined`]).

mod binding;
pub(crate) mod listener;

use crate::config::{Config, InternodeEncryption};
use crate::encryption::Contexts;
use crate::gossip::{Gossip, GossipPort};
use crate::internode::binding::CertificateBinding;
use cluster::topology::features;
use internode::{
    Call, CallError, FailureReason, Handler, Identity, InboundMetrics, Keys, Lane, Links, Options, OutboundMetrics,
    PeerIdentity, Refusal, RefusalReason, Replier, Versions,
};
use model::key::IGNORE_MSB;
use runtime::{Accepted, Instant};
use shard::{
    LaneCounts, PeerCall, PeerFailure, PeerLane, PeerTraffic, Peers, Presence, PresenceCheck, Shard, TrafficCounts,
    Verb, WeakShard,
};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tls::Encryption;
use uuid::Uuid;

/// The versions of messages between nodes that this program speaks.
const VERSIONS: Versions = Versions { min: 1, max: 1 };
/// How long a message that nobody answers may wait to be sent.
const POST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a node that stops waits until others have taken what it has sent.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// The links of one core. Cloning shares them.
#[derive(Clone, Default)]
pub(crate) struct NodeLinks {
    links: Rc<OnceCell<Links>>,
    /// Gossip, on shard 0.
    gossip: Rc<OnceCell<Weak<Gossip>>>,
    /// What certificates prove about the nodes that show them.
    binding: Rc<CertificateBinding>,
}

impl NodeLinks {
    /// Begins to talk to other nodes, on behalf of `shard`, as the configuration says.
    pub(crate) fn open(&self, node: &Config, contexts: &Contexts, shard: &Shard) {
        let (config, options) = (shard.node_config(), &node.internode);
        let identity = Identity {
            cluster_name: config.cluster_name.clone(),
            cluster_id: None,
            host_id: shard.host_id(),
            address: config.storage_address(),
            data_center: config.data_center.clone(),
            rack: config.rack.clone(),
            shard: runtime::current_shard(),
            shards: runtime::shard_count() as u16,
            ignore_msb: IGNORE_MSB,
            versions: VERSIONS,
            features: features::ALL,
        };
        let options = Options { source: Some(config.listen_address), ..options.clone() };
        let requests = Requests {
            shard: shard.downgrade(),
            gossip: self.gossip.clone(),
            encryption: node.server_encryption.internode,
            binding: self.binding.clone(),
        };
        self.binding.require(&node.server_encryption);
        let links = Links::new(options, identity, Rc::new(requests));
        links.set_keys(keys(contexts));
        let is_first = self.links.set(links).is_ok();
        debug_assert!(is_first, "links are opened once");
    }

    /// Gives gossip the messages that are for it. To be called on shard 0.
    pub(crate) fn serve_gossip(&self, gossip: &Rc<Gossip>) {
        let _ = self.gossip.set(Rc::downgrade(gossip));
    }

    /// Names the cluster on connections made from now on.
    pub(crate) fn joined(&self, cluster_id: Uuid) {
        if let Some(links) = self.links.get() {
            let identity = Identity::clone(&links.identity());
            links.set_identity(Identity { cluster_id: Some(cluster_id), ..identity });
        }
    }

    /// Serves a connection that another node has made to a port that is encrypted like this.
    pub(crate) fn attach(&self, accepted: Accepted, encryption: Encryption) {
        if let Some(links) = self.links.get() {
            links.attach(accepted, encryption);
        }
    }

    /// Encrypts connections with `contexts` from now on. Nodes may show certificates with other subjects than before.
    pub(crate) fn set_keys(&self, contexts: &Contexts) {
        self.binding.forget();
        if let Some(links) = self.links.get() {
            links.set_keys(keys(contexts));
        }
    }

    /// Dials the nodes that are known by the first addresses at the second ones.
    pub(crate) fn dial_at(&self, addresses: &Arc<BTreeMap<SocketAddr, SocketAddr>>) {
        if let Some(links) = self.links.get() {
            links.dial_at(addresses.clone());
        }
    }

    /// Closes all connections to and from other nodes, once they have taken what was sent: that this node stops, for
    /// one thing.
    pub(crate) async fn close(&self) {
        if let Some(links) = self.links.get() {
            links.flush(FLUSH_MAX).await;
            links.close();
        }
    }
}

fn keys(contexts: &Contexts) -> Keys {
    Keys { inbound: contexts.inbound.clone(), outbound: contexts.outbound.clone() }
}

fn inbound(metrics: &InboundMetrics) -> TrafficCounts {
    // A damaged frame ends its connection, so none is recovered.
    [
        ("corrupt_frames_recovered", 0),
        ("corrupt_frames_unrecovered", metrics.corrupt_frames),
        ("error_bytes", metrics.error.bytes),
        ("error_count", metrics.error.count),
        ("expired_bytes", metrics.expired.bytes),
        ("expired_count", metrics.expired.count),
        ("processed_bytes", metrics.processed.bytes),
        ("processed_count", metrics.processed.count),
        ("received_bytes", metrics.received.bytes),
        ("received_count", metrics.received.count),
        ("scheduled_bytes", metrics.scheduled.bytes),
        ("scheduled_count", metrics.scheduled.count),
        ("throttled_count", metrics.throttled_count),
        ("throttled_nanos", metrics.throttled_nanos),
        ("using_bytes", metrics.using_bytes),
        ("using_reserve_bytes", metrics.using_reserve_bytes),
    ]
    .into()
}

fn outbound(metrics: &OutboundMetrics) -> TrafficCounts {
    [
        ("active_connections", metrics.active_connections),
        ("connection_attempts", metrics.connection_attempts),
        ("error_bytes", metrics.error.bytes),
        ("error_count", metrics.error.count),
        ("expired_bytes", metrics.expired.bytes),
        ("expired_count", metrics.expired.count),
        ("overload_bytes", metrics.overload.bytes),
        ("overload_count", metrics.overload.count),
        ("pending_bytes", metrics.pending.bytes),
        ("pending_count", metrics.pending.count),
        ("sent_bytes", metrics.sent.bytes),
        ("sent_count", metrics.sent.count),
        ("successful_connection_attempts", metrics.successful_connection_attempts),
        ("using_bytes", metrics.using_bytes),
        ("using_reserve_bytes", metrics.using_reserve_bytes),
    ]
    .into()
}

/// What was sent over a lane to all nodes.
fn sent(links: &Links, over: PeerLane) -> LaneCounts {
    let metrics = links.outbound_of(lane(over));
    LaneCounts {
        pending: metrics.pending.count,
        sent: metrics.sent.count,
        dropped: metrics.expired.count + metrics.overload.count + metrics.error.count,
    }
}

fn lane(lane: PeerLane) -> Lane {
    match lane {
        PeerLane::Urgent => Lane::Urgent,
        PeerLane::Requests => Lane::Requests,
        PeerLane::Bulk => Lane::Bulk,
    }
}

impl Peers for NodeLinks {
    fn call(
        &self,
        to: &cluster::topology::Node,
        over: PeerLane,
        verb: Verb,
        body: &[u8],
        deadline: Instant,
    ) -> PeerCall {
        answered(self.begin(to, over, verb, body, deadline))
    }

    fn ask(
        &self,
        to: &cluster::topology::Node,
        over: PeerLane,
        verb: Verb,
        body: &[u8],
        deadline: Instant,
    ) -> PeerCall {
        answered(self.begin(to, over, verb, body, deadline).map(Call::without_timer))
    }

    fn post(&self, to: &cluster::topology::Node, over: PeerLane, verb: Verb, body: Vec<u8>) {
        if let Some(links) = self.links.get() {
            // A message that is not sent is counted by the links; nobody waits for it.
            let _ = links.post(to.address, lane(over), verb as u8, &body, runtime::now().after(POST_TIMEOUT));
        }
    }

    fn forget(&self, address: SocketAddr) {
        if let Some(links) = self.links.get() {
            links.forget(address);
        }
    }

    fn unreachable_for(&self, to: &cluster::topology::Node) -> Duration {
        self.links.get().map_or(Duration::ZERO, |links| links.unreachable_for(to.address, Lane::Urgent))
    }

    fn says_left(&self, to: &cluster::topology::Node) -> bool {
        let refusal = self.links.get().and_then(|links| links.refusal(to.address, Lane::Urgent));
        refusal.is_some_and(|refusal| refusal.reason == RefusalReason::Left)
    }

    fn presence(&self, to: &cluster::topology::Node) -> PresenceCheck {
        let (links, address) = (self.links.get().cloned(), to.address);
        Box::pin(async move {
            match links {
                Some(links) => match links.presence(address).await {
                    internode::Presence::Listening => Presence::Listening,
                    internode::Presence::Gone => Presence::Gone,
                    internode::Presence::Silent => Presence::Silent,
                },
                None => Presence::Silent,
            }
        })
    }

    fn traffic(&self) -> PeerTraffic {
        let Some(links) = self.links.get() else { return PeerTraffic::default() };
        let (dropped, closed, handshakes) = (links.drops(), links.strangers(), links.handshakes());
        PeerTraffic {
            inbound: links.inbound().iter().map(|(node, metrics)| (*node, inbound(metrics))).collect(),
            outbound: links.outbound().iter().map(|(node, metrics)| (*node, outbound(metrics))).collect(),
            lanes: [PeerLane::Urgent, PeerLane::Requests, PeerLane::Bulk].map(|of| (of, sent(links, of))).into(),
            dropped: dropped.into_iter().filter_map(|(verb, count)| Some((Verb::of(verb)?, count))).collect(),
            refused: [
                ("stranger", closed.strangers),
                ("refused", closed.refused),
                ("crowded_out", closed.crowded_out),
                ("tls_failed", handshakes.failed),
                ("tls_crowded_out", handshakes.crowded_out),
            ]
            .into(),
        }
    }
}

impl GossipPort for NodeLinks {
    fn dial_at(&self, addresses: &Arc<BTreeMap<SocketAddr, SocketAddr>>) {
        NodeLinks::dial_at(self, addresses);
    }

    fn post(&self, to: SocketAddr, verb: Verb, body: Vec<u8>) {
        if let Some(links) = self.links.get() {
            // A message that is not sent is counted by the links; a later round makes up for it.
            let _ = links.post(to, Lane::Urgent, verb as u8, &body, runtime::now().after(POST_TIMEOUT));
        }
    }
}

impl NodeLinks {
    /// Sends a request; `None` before there are links.
    fn begin(
        &self,
        to: &cluster::topology::Node,
        over: PeerLane,
        verb: Verb,
        body: &[u8],
        deadline: Instant,
    ) -> Option<Call> {
        Some(self.links.get()?.call(to.address, lane(over), verb as u8, body, deadline))
    }
}

/// A call, whose errors are what a shard makes of them. One that was not begun was not sent.
fn answered(call: Option<Call>) -> PeerCall {
    let Some(call) = call else { return Box::pin(std::future::ready(Err(PeerFailure::NotSent))) };
    Box::pin(async move {
        call.await.map_err(|error| match error {
            CallError::Overloaded => PeerFailure::Overloaded,
            CallError::Failed(FailureReason::NotUnderstood) => PeerFailure::Refused,
            error if error.is_definite() => PeerFailure::NotSent,
            _ => PeerFailure::NoAnswer,
        })
    })
}

fn is_gossip(verb: u8) -> bool {
    Verb::of(verb).is_some_and(Verb::is_gossip)
}

/// What serves the messages of other nodes on one core.
struct Requests {
    /// The shard owns the links, and these own this.
    shard: WeakShard,
    gossip: Rc<OnceCell<Weak<Gossip>>>,
    encryption: InternodeEncryption,
    binding: Rc<CertificateBinding>,
}

impl Handler for Requests {
    fn encrypts_to(&self, to: SocketAddr) -> bool {
        let Some(shard) = self.shard.upgrade() else { return self.encryption != InternodeEncryption::None };
        let topology = shard.topology();
        // Where a node is that is not known yet, a seed for one, counts as elsewhere.
        let peer = topology.nodes().iter().find(|node| node.address == to);
        let config = shard.node_config();
        let is_in_center = peer.is_some_and(|node| node.data_center == config.data_center);
        let is_in_rack = is_in_center && peer.is_some_and(|node| node.rack == config.rack);
        match self.encryption {
            InternodeEncryption::None => false,
            InternodeEncryption::Rack => !is_in_rack,
            InternodeEncryption::DataCenter => !is_in_center,
            InternodeEncryption::All => true,
        }
    }

    fn accept_peer(&self, peer: &PeerIdentity) -> Result<(), Refusal> {
        let host_id = peer.identity.host_id;
        let Some(shard) = self.shard.upgrade() else {
            return Err(Refusal { reason: RefusalReason::Other, text: "this node is stopping".into() });
        };
        if host_id == shard.host_id() {
            let text = format!("/{} has host id {host_id} of the node that it talks to", peer.identity.address);
            return Err(Refusal { reason: RefusalReason::Other, text });
        }
        // Whoever is dialled is to be the member that has the address. A connection that comes in tells nothing by its
        // socket: that of a node that joins in the place of a member must be answered.
        let topology = shard.topology();
        let expected = topology.nodes().iter().find(|node| node.address == peer.socket);
        if let Some(expected) = expected.filter(|node| node.host_id != host_id) {
            let text = format!("/{} has host id {host_id}, not {}", peer.socket, expected.host_id);
            return Err(Refusal { reason: RefusalReason::Other, text });
        }
        let member = topology.nodes().iter().find(|node| node.host_id == host_id);
        self.binding.check(&peer.identity, &peer.certificates, member.map(|node| node.address))?;
        if shard.has_left(host_id) {
            let text = format!("node {host_id} has left the cluster");
            return Err(Refusal { reason: RefusalReason::Left, text });
        }
        Ok(())
    }

    fn serve(&self, from: &Rc<PeerIdentity>, _lane: Lane, verb: u8, body: &[u8], reply: Replier) {
        if let Some(gossip) = self.gossip.get().filter(|_| is_gossip(verb)).and_then(Weak::upgrade) {
            // In a task of its own, because it answers over the links that call this.
            let (from, body) = (from.identity.address, body.to_vec());
            runtime::spawn(async move { gossip.received(from, &body) });
            return;
        }
        let Some(shard) = self.shard.upgrade() else { return reply.refuse() };
        let (from, body) = (from.identity.host_id, body.to_vec());
        runtime::spawn(async move {
            match shard.serve_peer(from, verb, body).await {
                Ok(answer) => reply.send(&answer),
                Err(shard::Unreadable) => reply.refuse(),
            }
        });
    }
}
