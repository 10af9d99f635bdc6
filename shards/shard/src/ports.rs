//! The interface to the layer above, the server: what a shard calls there, for its clients and to reach other nodes,
//! and the nouns of both.

pub use cql::define::{ChangeKind, ChangeTarget};

use crate::verbs::Verb;
use cluster::gossip::EndpointState;
use cluster::topology::Node;
use runtime::Instant;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

/// The layer above on one shard: it hears of schema changes after the shard serves the new schema, and describes its
/// clients.
pub trait Notifier {
    /// Called once per effective DDL and shard, in order.
    fn schema_changed(&self, change: &SchemaChange);

    /// This shard's clients now.
    fn observe(&self) -> Observation {
        Observation::default()
    }

    /// What gossip knows of all nodes, this one among them; nothing but on shard 0.
    fn endpoints(&self) -> Vec<(SocketAddr, EndpointState)> {
        Vec::new()
    }

    /// How much this shard has done for its clients.
    fn served(&self) -> Served {
        Served::default()
    }
}

/// The way of one shard to other nodes.
pub trait Peers {
    /// Asks a node and waits for its answer until `deadline`. What the bodies are follows from the verb; `body` is
    /// copied before this returns.
    fn call(&self, to: &Node, lane: PeerLane, verb: Verb, body: &[u8], deadline: Instant) -> PeerCall;

    /// Asks a node as [`Peers::call`] does, for a caller that stops waiting at `deadline` by itself.
    fn ask(&self, to: &Node, lane: PeerLane, verb: Verb, body: &[u8], deadline: Instant) -> PeerCall {
        self.call(to, lane, verb, body, deadline)
    }

    /// Sends a message that is not answered, and that may be lost.
    fn post(&self, to: &Node, lane: PeerLane, verb: Verb, body: Vec<u8>);

    /// Ends the links to the node at an address, because no node of the cluster has that any more.
    fn forget(&self, _address: SocketAddr) {}

    /// For how long every attempt to connect to a node has failed; zero if there is a connection, or if that is not
    /// known.
    fn unreachable_for(&self, _: &Node) -> Duration {
        Duration::ZERO
    }

    /// Whether a node that was called just now has refused to talk, because this one has left the cluster.
    fn says_left(&self, _: &Node) -> bool {
        false
    }

    /// Looks whether the process of a node listens for others at this moment.
    fn presence(&self, _: &Node) -> PresenceCheck {
        Box::pin(std::future::ready(Presence::Listening))
    }

    /// What this shard has exchanged with other nodes since its start.
    fn traffic(&self) -> PeerTraffic {
        PeerTraffic::default()
    }
}

/// Counts by the names of the columns of `system_views.internode_inbound` or `internode_outbound`.
pub type TrafficCounts = BTreeMap<&'static str, u64>;

/// What a shard has exchanged with other nodes. Nodes are named by the address where they listen for others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerTraffic {
    /// Messages from each node.
    pub inbound: BTreeMap<SocketAddr, TrafficCounts>,
    /// Messages to each node.
    pub outbound: BTreeMap<SocketAddr, TrafficCounts>,
    /// Messages to all nodes, by lane.
    pub lanes: BTreeMap<PeerLane, LaneCounts>,
    /// Messages that were dropped in either direction.
    pub dropped: BTreeMap<Verb, u64>,
    /// Connections that never became links, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// What a shard has sent over one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneCounts {
    /// Messages that wait.
    pub pending: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were not: there was no room or no connection for them, or their time ended.
    pub dropped: u64,
}

impl PeerTraffic {
    /// Adds the traffic of another shard.
    pub fn add(&mut self, other: &PeerTraffic) {
        fn add<K: Copy + Ord>(sum: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
            other.iter().for_each(|(key, count)| *sum.entry(*key).or_default() += count);
        }
        for (sums, others) in [(&mut self.inbound, &other.inbound), (&mut self.outbound, &other.outbound)] {
            others.iter().for_each(|(node, counts)| add(sums.entry(*node).or_default(), counts));
        }
        for (lane, counts) in &other.lanes {
            let sum = self.lanes.entry(*lane).or_default();
            sum.pending += counts.pending;
            sum.sent += counts.sent;
            sum.dropped += counts.dropped;
        }
        add(&mut self.dropped, &other.dropped);
        add(&mut self.refused, &other.refused);
    }
}

/// A request under way to another node. Dropping it gives up the answer, not what was asked.
pub type PeerCall = Pin<Box<dyn Future<Output = Result<Vec<u8>, PeerFailure>>>>;

/// A look at another node.
pub type PresenceCheck = Pin<Box<dyn Future<Output = Presence>>>;

/// What a look at another node has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Its process listens for others.
    Listening,
    /// Its machine is there, but its process is not.
    Gone,
    /// Nothing: it is down, slow, or cut off.
    Silent,
}

/// Streams of messages to a node that do not wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PeerLane {
    /// Gossip, the metadata log and checks of liveness.
    Urgent,
    /// On behalf of requests of clients.
    Requests,
    /// What may take long and may wait.
    Bulk,
}

/// Why another node gave no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PeerFailure {
    /// The request did not leave this node: there is no connection, or its time ended before.
    NotSent,
    /// The request did not leave this node, because too much waits for the other one already.
    Overloaded,
    /// No answer came in time, or the connection ended before. The node may have done what it was asked.
    NoAnswer,
    /// The node cannot serve the request: it does not know the verb, or cannot read the body.
    Refused,
}

/// The peers of a node without a network.
pub struct NoPeers;

impl Peers for NoPeers {
    fn call(&self, _: &Node, _: PeerLane, _: Verb, _: &[u8], _: Instant) -> PeerCall {
        Box::pin(std::future::ready(Err(PeerFailure::NotSent)))
    }

    fn post(&self, _: &Node, _: PeerLane, _: Verb, _: Vec<u8>) {}

    fn presence(&self, _: &Node) -> PresenceCheck {
        Box::pin(std::future::ready(Presence::Gone))
    }
}

/// A request of another node that cannot be served: its verb is unknown here, or its body does not decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// What one shard has done for its clients since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Their requests.
    pub requests: Activity,
    /// Requests answered with an error.
    pub errors: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Connections taken over.
    pub connections_in_all: u64,
    /// Connections closed for breaking the protocol, a limit or a deadline.
    pub evictions: u64,
    /// Handshakes of TLS, by how they have ended.
    pub handshakes: [(&'static str, u64); 3],
    /// Panics caught in pure stages.
    pub panics: u64,
}

/// What one shard sees of its clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observation {
    /// Every connection that has begun its session.
    pub clients: Vec<Client>,
    /// When clients were last seen to begin one.
    pub recent: Vec<RecentClient>,
    /// Activity of their requests.
    pub requests: Activity,
}

/// When a client has last begun to speak a version of the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecentClient {
    /// The version, as `5/v5`.
    pub protocol: String,
    /// The client's address.
    pub address: IpAddr,
    /// Milliseconds since 1970.
    pub seen_millis: i64,
}

/// A client's connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// The client's address.
    pub address: IpAddr,
    /// The client's port.
    pub port: u16,
    /// The role with which it has logged in, or `anonymous` if it need not.
    pub user: Option<String>,
    /// The options of its STARTUP.
    pub options: BTreeMap<String, String>,
    /// Whether it has logged in, if it must.
    pub ready: bool,
    /// Version of the protocol.
    pub protocol_version: u8,
    /// The keyspace that USE set.
    pub keyspace: Option<String>,
    /// Messages so far.
    pub requests: u64,
    /// The protocol and cipher suite with which it is encrypted, by their names in Java.
    pub encryption: Option<(&'static str, String)>,
}

/// How busy something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// Tasks under way.
    pub active: u64,
    /// Most of them.
    pub active_max: u64,
    /// Tasks that wait.
    pub pending: u64,
    /// Tasks that wait for room to wait.
    pub blocked: u64,
    /// Tasks that had to wait for room to wait, since the start.
    pub blocked_in_all: u64,
    /// Tasks done since the start.
    pub completed: u64,
}

impl Activity {
    /// Adds the activity of another core.
    pub fn add(&mut self, other: &Activity) {
        self.active += other.active;
        self.active_max += other.active_max;
        self.pending += other.pending;
        self.blocked += other.blocked;
        self.blocked_in_all += other.blocked_in_all;
        self.completed += other.completed;
    }
}

/// An effective DDL statement, as events and results report it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaChange {
    /// Created, updated or dropped.
    pub change: ChangeKind,
    /// What kind of thing.
    pub target: ChangeTarget,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name; empty for a keyspace.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_of_shards_is_summed_by_node_and_name() {
        let (one, two) = (SocketAddr::from(([127, 0, 0, 1], 7000)), SocketAddr::from(([127, 0, 0, 2], 7000)));
        let of = |node, name, count| PeerTraffic {
            inbound: [(node, [(name, count)].into())].into(),
            dropped: [(Verb::Echo, count)].into(),
            lanes: [(PeerLane::Bulk, LaneCounts { pending: 1, sent: count, dropped: 2 })].into(),
            refused: [("stranger", 1)].into(),
            ..PeerTraffic::default()
        };
        let mut sum = of(one, "received_count", 3);
        sum.add(&of(one, "received_count", 4));
        sum.add(&of(one, "received_bytes", 5));
        sum.add(&of(two, "received_count", 6));
        let first: TrafficCounts = [("received_count", 7), ("received_bytes", 5)].into();
        assert_eq!(sum.inbound, [(one, first), (two, [("received_count", 6)].into())].into());
        assert_eq!(sum.dropped, [(Verb::Echo, 18)].into());
        assert_eq!(sum.lanes, [(PeerLane::Bulk, LaneCounts { pending: 4, sent: 18, dropped: 8 })].into());
        assert_eq!((sum.refused, sum.outbound.len()), ([("stranger", 4)].into(), 0));
    }
}
