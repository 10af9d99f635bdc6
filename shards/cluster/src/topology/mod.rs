//! The nodes of a cluster: where each one is, its tokens, and which of its cores owns a token.

pub mod latency;

use latency::{DynamicSnitch, NodeLatencies};
use model::{RingToken, ShardMap};
use std::cell::Cell;
use std::net::SocketAddr;
use uuid::Uuid;

/// A node's position in [`Topology::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u16);

/// A data centre's position in [`Topology::data_centers`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DataCenter(pub u16);

/// What a node can do that not all versions of this program could, a bit each. It is used once all nodes can.
pub mod features {
    /// It passes mutations on to other replicas of its data centre, and answers those that were passed on to it.
    pub const RELAYED_WRITES: u64 = 1;
    /// It truncates tables that were truncated while it was down.
    pub const OWED_TRUNCATIONS: u64 = 2;
    /// Its acceptors of Paxos answer a read together with their promise.
    pub const READS_WITH_PROMISES: u64 = 4;
    /// It takes part in operations that move data.
    pub const OPERATIONS: u64 = 8;
    /// It gives its SSTables to nodes that fetch them.
    pub const STREAMS: u64 = 32;
    /// It hashes what it has, so that replicas are compared and made equal.
    pub const REPAIRS: u64 = 64;
    /// It understands that a member is in another data centre or rack than before.
    pub const RELOCATIONS: u64 = 256;
    /// It takes out several members that are down at once, and does not read again from those that it has begun to take
    /// out. What an entry of the metadata log does depends on whether all members have this.
    pub const JOINT_REMOVALS: u64 = 1 << 12;
    /// It shows masked columns by their masks.
    pub const COLUMN_MASKS: u64 = 1 << 13;
    /// It sets data apart for incremental repairs, and compares sets of SSTables alone.
    pub const INCREMENTAL_REPAIRS: u64 = 1 << 14;
    /// It finishes what rounds of Paxos have left unfinished in a range.
    pub const PAXOS_REPAIRS: u64 = 1 << 15;
    /// It keeps what is known to be repaired on all replicas, and deletions by that.
    pub const REPAIR_PROOFS: u64 = 1 << 16;
    /// It shares out units of tables whose throughput is limited.
    pub const UNIT_LEASES: u64 = 1 << 17;
    /// It takes snapshots at a point of the metadata log, and fetches tables that another node hands out.
    pub const CLUSTER_SNAPSHOTS: u64 = 1 << 18;
    /// It places tables by tablets.
    pub const TABLETS: u64 = 1 << 19;
    /// It knows tables whose partition keys are spread over several partitions.
    pub const WRITE_SHARDING: u64 = 1 << 20;
    /// It knows that a member is to have no tablets.
    pub const EMPTIED_NODES: u64 = 1 << 21;
    /// It keeps to quotas of keyspaces and roles, and shares out their units.
    pub const QUOTAS: u64 = 1 << 22;
    /// It finds rows of tables whose number of sub-partitions grows.
    pub const SUB_PARTITION_GROWTH: u64 = 1 << 23;
    /// It tells what keyspaces store, and keeps to quotas of that.
    pub const STORED_QUOTAS: u64 = 1 << 24;
    /// It removes what it has of ranges that it lost, when it is about to gain ranges.
    pub const STALE_DATA: u64 = 1 << 25;
    /// It knows tables whose keys grow by themselves, and tells how large and how busy these are.
    pub const KEY_GROWTH: u64 = 1 << 26;
    /// All features of this program.
    pub const ALL: u64 = RELAYED_WRITES
        | OWED_TRUNCATIONS
        | READS_WITH_PROMISES
        | OPERATIONS
        | STREAMS
        | REPAIRS
        | RELOCATIONS
        | JOINT_REMOVALS
        | COLUMN_MASKS
        | INCREMENTAL_REPAIRS
        | PAXOS_REPAIRS
        | REPAIR_PROOFS
        | UNIT_LEASES
        | CLUSTER_SNAPSHOTS
        | TABLETS
        | WRITE_SHARDING
        | EMPTIED_NODES
        | QUOTAS
        | SUB_PARTITION_GROWTH
        | STORED_QUOTAS
        | STALE_DATA
        | KEY_GROWTH;
}

/// A member of the cluster, as it describes itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its id, never reused.
    pub host_id: Uuid,
    /// Address and port for other nodes.
    pub address: SocketAddr,
    /// The name of its data centre.
    pub data_center: String,
    /// The name of its rack, unique within the data centre.
    pub rack: String,
    /// Which of its cores owns a token.
    pub shards: ShardMap,
    /// Its tokens. The node owns, for each of them, the range that ends there.
    pub tokens: Vec<RingToken>,
    /// Its [`features`].
    pub features: u64,
}

fn all_have(nodes: &[Node], features: u64) -> bool {
    nodes.iter().all(|node| node.features & features == features)
}

/// Tokens in ascending order, each with the node that owns the range ending there.
pub type Ring = [(RingToken, NodeIndex)];

/// All nodes, which of them this one is, which are believed to be alive, and which have been slow. It stays as it is
/// but for the last two: other nodes make another topology, whose positions may differ. So whoever holds a
/// [`NodeIndex`] must hold its topology too.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The version of the cluster's metadata that it was made from.
    epoch: u64,
    nodes: Vec<Node>,
    here: NodeIndex,
    /// Names in alphabetical order.
    data_centers: Vec<String>,
    /// The data centre of each node.
    located: Vec<DataCenter>,
    /// All tokens in ascending order, with their nodes.
    ring: Vec<(RingToken, NodeIndex)>,
    /// The ring once all operations under way have ended, if that is another one.
    next_ring: Option<Vec<(RingToken, NodeIndex)>>,
    live: LiveNodes,
    latencies: NodeLatencies,
    relays_writes: bool,
    reads_with_promises: bool,
}

impl Topology {
    /// The topology of `nodes`, of which this one is `here`, in an epoch of the cluster's metadata. All nodes are alive
    /// until [`Topology::set_live`] says otherwise. If two nodes have the same token, it belongs to the one that comes
    /// first.
    ///
    /// # Panics
    /// If `here` is not one of the nodes, or there are more than 65535.
    pub fn new(nodes: Vec<Node>, here: NodeIndex, epoch: u64) -> Topology {
        assert!(
            usize::from(here.0) < nodes.len() && nodes.len() <= usize::from(u16::MAX),
            "{here:?} of {}",
            nodes.len()
        );
        let mut data_centers: Vec<String> = nodes.iter().map(|node| node.data_center.clone()).collect();
        data_centers.sort_unstable();
        data_centers.dedup();
        let located = nodes.iter().map(|node| position(&data_centers, &node.data_center).unwrap_or(DataCenter(0)));
        let located: Vec<DataCenter> = located.collect();
        let ring = ring_of(nodes.iter().map(|node| &node.tokens[..]));
        let live = LiveNodes::all(nodes.len());
        let latencies = NodeLatencies::new(located.clone());
        let relays_writes = all_have(&nodes, features::RELAYED_WRITES) && data_centers.len() > 1;
        let reads_with_promises = all_have(&nodes, features::READS_WITH_PROMISES);
        Topology {
            epoch,
            nodes,
            here,
            data_centers,
            located,
            ring,
            next_ring: None,
            live,
            latencies,
            relays_writes,
            reads_with_promises,
        }
    }

    /// Whether every node has these of the [`features`].
    pub fn all_have(&self, features: u64) -> bool {
        all_have(&self.nodes, features)
    }

    /// The same topology while operations on the ring are under way, after which the nodes have these tokens, in the
    /// order of [`Topology::nodes`].
    ///
    /// # Panics
    /// If there are not as many lists of tokens as nodes.
    pub fn becoming(mut self, next_tokens: &[Vec<RingToken>]) -> Topology {
        assert_eq!(next_tokens.len(), self.nodes.len(), "every node has its next tokens");
        let next = ring_of(next_tokens.iter().map(Vec::as_slice));
        self.next_ring = (next != self.ring).then_some(next);
        self
    }

    /// Begins to measure how fast nodes answer, so that reads ask slow ones after the others.
    pub fn measure_latencies(&mut self, options: DynamicSnitch) {
        self.latencies.measure(options);
    }

    /// How fast nodes have answered this core.
    #[inline]
    pub fn latencies(&self) -> &NodeLatencies {
        &self.latencies
    }

    /// The version of the cluster's metadata that it was made from.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether a mutation is sent to one node of each other data centre, which passes it on.
    #[inline]
    pub fn relays_writes(&self) -> bool {
        self.relays_writes
    }

    /// Whether acceptors of Paxos are asked for promises and rows together.
    #[inline]
    pub fn reads_with_promises(&self) -> bool {
        self.reads_with_promises
    }

    /// The nodes that are believed to be alive.
    #[inline]
    pub fn live(&self) -> &LiveNodes {
        &self.live
    }

    /// Changes which nodes are believed to be alive to those for which `is_live` says so. This node always is.
    pub fn set_live(&self, is_live: impl Fn(&Node) -> bool) {
        let live = LiveNodes::of(self, |at| is_live(self.node(at)));
        for (word, new) in self.live.words.iter().zip(live.words) {
            word.set(new.get());
        }
    }

    /// This node.
    pub fn here(&self) -> NodeIndex {
        self.here
    }

    /// All nodes; a [`NodeIndex`] is a position in this slice.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node at a position.
    #[inline]
    pub fn node(&self, at: NodeIndex) -> &Node {
        &self.nodes[usize::from(at.0)]
    }

    /// The names of all data centres in alphabetical order; a [`DataCenter`] is a position in this slice.
    pub fn data_centers(&self) -> &[String] {
        &self.data_centers
    }

    /// The data centre with this name, if it has nodes.
    pub fn data_center(&self, name: &str) -> Option<DataCenter> {
        position(&self.data_centers, name)
    }

    /// The data centre of a node.
    #[inline]
    pub fn data_center_of(&self, node: NodeIndex) -> DataCenter {
        self.located[usize::from(node.0)]
    }

    /// All tokens in ascending order, each with the node that owns the range ending there.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The ring once all operations under way have ended; `None` if none changes it.
    pub fn next_ring(&self) -> Option<&Ring> {
        self.next_ring.as_deref()
    }
}

/// The ring of nodes with these tokens. A token that two nodes have belongs to the one that comes first.
fn ring_of<'t>(tokens: impl Iterator<Item = &'t [RingToken]>) -> Vec<(RingToken, NodeIndex)> {
    let mut ring: Vec<(RingToken, NodeIndex)> = Vec::new();
    for (at, tokens) in tokens.enumerate() {
        ring.extend(tokens.iter().map(|token| (token.clone(), NodeIndex(at as u16))));
    }
    ring.sort_unstable();
    ring.dedup_by(|(later, _), (token, _)| later == token);
    ring
}

fn position(names: &[String], name: &str) -> Option<DataCenter> {
    names.binary_search_by(|other| other.as_str().cmp(name)).ok().map(|at| DataCenter(at as u16))
}

/// Nodes of a topology that are believed to be alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveNodes {
    /// One bit per node. What is believed changes while requests use the topology.
    words: Vec<Cell<u64>>,
}

impl LiveNodes {
    fn all(nodes: usize) -> LiveNodes {
        LiveNodes { words: vec![Cell::new(u64::MAX); nodes.div_ceil(64)] }
    }

    /// Of the nodes of `topology` those for which `is_live` says so. This node is always alive to itself.
    pub fn of(topology: &Topology, is_live: impl Fn(NodeIndex) -> bool) -> LiveNodes {
        let mut words = vec![Cell::new(0); topology.nodes.len().div_ceil(64)];
        for at in (0..topology.nodes.len() as u16).map(NodeIndex) {
            if at == topology.here || is_live(at) {
                *words[usize::from(at.0 / 64)].get_mut() |= 1 << (at.0 % 64);
            }
        }
        LiveNodes { words }
    }

    /// Whether a node is believed to be alive.
    #[inline]
    pub fn contains(&self, node: NodeIndex) -> bool {
        self.words[usize::from(node.0 / 64)].get() >> (node.0 % 64) & 1 == 1
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use model::Partitioner;

    /// Nodes given as data centre, rack and tokens; this node is the first. Each has `shards` cores.
    pub(crate) fn topology(nodes: &[(&str, &str, &[i64])], shards: u16) -> Topology {
        let node = |(at, (data_center, rack, tokens)): (usize, &(&str, &str, &[i64]))| Node {
            host_id: Uuid::from_u128(at as u128 + 1),
            address: SocketAddr::from(([127, 0, (at / 250) as u8, (at % 250) as u8 + 1], 7000)),
            data_center: (*data_center).into(),
            rack: (*rack).into(),
            shards: ShardMap::new(Partitioner::Murmur3, shards),
            tokens: tokens.iter().copied().map(RingToken::Murmur3).collect(),
            features: features::ALL,
        };
        Topology::new(nodes.iter().enumerate().map(node).collect(), NodeIndex(0), 0)
    }

    #[test]
    fn tokens_of_all_nodes_make_one_ring() {
        let topology = topology(&[("b", "r", &[30, 10]), ("a", "r", &[20, 10]), ("b", "q", &[])], 1);
        let ring: Vec<(i64, u16)> = topology.ring().iter().map(|(token, node)| (token.token().0, node.0)).collect();
        assert_eq!(ring, [(10, 0), (20, 1), (30, 0)]);
        assert_eq!(topology.data_centers(), ["a", "b"]);
        assert_eq!([0, 1, 2].map(|node| topology.data_center_of(NodeIndex(node)).0), [1, 0, 1]);
        assert_eq!((topology.data_center("b"), topology.data_center("c")), (Some(DataCenter(1)), None));
    }

    #[test]
    fn this_node_is_always_alive() {
        let many: Vec<(&str, &str, &[i64])> = (0..130).map(|_| ("a", "r", &[][..])).collect();
        let topology = topology(&many, 1);
        let live = LiveNodes::of(&topology, |node| node.0 % 3 == 1);
        assert!((0..130).all(|at| live.contains(NodeIndex(at)) == (at == 0 || at % 3 == 1)));
        assert!((0..130).all(|at| topology.live().contains(NodeIndex(at))), "until something else is known");
        topology.set_live(|node| node.host_id.as_u128() % 3 == 2);
        assert_eq!(topology.live(), &live);
    }
}
