//! What clients are told about nodes: STATUS_CHANGE and TOPOLOGY_CHANGE, as Cassandra tells them.
//!
//! 1. A node that joins is told as NEW_NODE and UP once it serves clients.
//! 2. A node that starts again is told as UP once it serves clients; one that stops or is convicted as DOWN.
//! 3. A node that is no longer a member is told as REMOVED_NODE. One that others have removed is told as DOWN before,
//!    one that has left by itself once it is.
//! 4. A node that has got other tokens is told as MOVED_NODE, by itself too.
//!
//! Invariants: nothing is told twice; a node that was never told as UP is not told as DOWN. Those that are members when
//! this node starts are known.

use cluster::topology::Topology;
use model::RingToken;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use uuid::Uuid;

/// An event for clients that have registered for its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClusterEvent {
    /// What happened.
    pub(crate) change: ClusterChange,
    /// Where other nodes reach the node.
    pub(crate) node: SocketAddr,
    /// Where it serves clients.
    pub(crate) address: SocketAddr,
}

/// What may happen to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClusterChange {
    NewNode,
    RemovedNode,
    MovedNode,
    Up,
    Down,
}

impl ClusterChange {
    /// The word in an event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClusterChange::NewNode => "NEW_NODE",
            ClusterChange::RemovedNode => "REMOVED_NODE",
            ClusterChange::MovedNode => "MOVED_NODE",
            ClusterChange::Up => "UP",
            ClusterChange::Down => "DOWN",
        }
    }

    /// Whether the node owns new tokens from then on.
    pub(crate) fn has_tokens(self) -> bool {
        matches!(self, ClusterChange::NewNode | ClusterChange::MovedNode)
    }

    /// Whether it is a TOPOLOGY_CHANGE; else it is a STATUS_CHANGE.
    pub(crate) fn is_topology(self) -> bool {
        matches!(self, ClusterChange::NewNode | ClusterChange::RemovedNode | ClusterChange::MovedNode)
    }
}

/// What gossip says of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeView {
    pub(crate) is_up: bool,
    /// Whether it serves clients.
    pub(crate) is_ready: bool,
    /// Where it serves clients.
    pub(crate) native: Option<SocketAddr>,
}

/// A node as clients know it.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Where other nodes reach it.
    address: SocketAddr,
    native: Option<SocketAddr>,
    is_new: bool,
    is_up: bool,
    is_member: bool,
}

/// What clients have been told.
#[derive(Debug, Default)]
pub(crate) struct ClientEvents {
    /// The epoch of the members that are known.
    epoch: Option<u64>,
    nodes: BTreeMap<Uuid, Told>,
    /// The tokens of each member, this node included.
    tokens: BTreeMap<Uuid, Vec<RingToken>>,
}

impl ClientEvents {
    /// Whether the members of `topology` are those that are known; `None` before any are.
    pub(crate) fn knows(&self, topology: &Topology) -> Option<bool> {
        self.epoch.map(|epoch| epoch == topology.epoch())
    }

    /// Takes the members and what gossip says of the nodes at their addresses. Returns what is to be told, in order.
    pub(crate) fn update(&mut self, topology: &Topology, view: impl Fn(SocketAddr) -> NodeView) -> Vec<ClusterEvent> {
        let mut events = Vec::new();
        let mut tell = |change, node, native: Option<SocketAddr>| {
            events.extend(native.map(|address| ClusterEvent { change, node, address }));
        };
        let is_first = self.epoch.replace(topology.epoch()).is_none();
        let here = topology.node(topology.here()).host_id;
        self.nodes.values_mut().for_each(|told| told.is_member = false);
        for node in topology.nodes().iter().filter(|node| node.host_id != here) {
            let unknown =
                Told { address: node.address, native: None, is_new: !is_first, is_up: false, is_member: true };
            let told = self.nodes.entry(node.host_id).or_insert(unknown);
            (told.address, told.is_member) = (node.address, true);
        }
        self.nodes.retain(|_, told| {
            let now = view(told.address);
            told.native = now.native.or(told.native);
            if !now.is_up && std::mem::take(&mut told.is_up) {
                tell(ClusterChange::Down, told.address, told.native);
            }
            if !told.is_member && !told.is_new {
                // Told once: a node that has gone is remembered as new.
                told.is_new = true;
                tell(ClusterChange::RemovedNode, told.address, told.native);
            }
            if told.is_member && now.is_up && now.is_ready && !told.is_up {
                if std::mem::take(&mut told.is_new) {
                    tell(ClusterChange::NewNode, told.address, told.native);
                }
                told.is_up = true;
                tell(ClusterChange::Up, told.address, told.native);
            }
            told.is_member || told.is_up
        });
        let before = std::mem::take(&mut self.tokens);
        for node in topology.nodes() {
            let others = before.get(&node.host_id).filter(|before| **before != node.tokens);
            // A node that leaves gives its tokens up before it is gone.
            if others.is_some_and(|before| !before.is_empty()) && !node.tokens.is_empty() {
                tell(ClusterChange::MovedNode, node.address, view(node.address).native);
            }
            self.tokens.insert(node.host_id, node.tokens.clone());
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::topology::{Node, NodeIndex};
    use model::{Partitioner, ShardMap};

    fn topology(nodes: &[u8], epoch: u64) -> Topology {
        let node = |number: &u8| Node {
            host_id: Uuid::from_u128(u128::from(*number)),
            address: SocketAddr::from(([127, 0, 0, *number], 7000)),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            shards: ShardMap::new(Partitioner::Murmur3, 1),
            tokens: Vec::new(),
            features: 0,
        };
        Topology::new(nodes.iter().map(node).collect(), NodeIndex(0), epoch)
    }

    /// Updates with nodes that are up and ready, and nodes that are up.
    fn update(events: &mut ClientEvents, topology: &Topology, ready: &[u8], up: &[u8]) -> Vec<String> {
        let view = |address: SocketAddr| {
            let SocketAddr::V4(v4) = address else { unreachable!() };
            let number = v4.ip().octets()[3];
            NodeView {
                is_up: ready.contains(&number) || up.contains(&number),
                is_ready: ready.contains(&number),
                native: Some(SocketAddr::new(address.ip(), 9042)),
            }
        };
        let told = events.update(topology, view);
        told.iter().map(|event| format!("{} {}", event.change.name(), event.address)).collect()
    }

    #[test]
    fn joining_stopping_and_leaving_are_told_once_and_in_order() {
        let mut events = ClientEvents::default();
        let (alone, two) = (topology(&[1], 1), topology(&[1, 2], 2));
        assert_eq!(events.knows(&alone), None);
        assert_eq!(update(&mut events, &alone, &[1], &[]), [""; 0]);
        assert_eq!((events.knows(&alone), events.knows(&two)), (Some(true), Some(false)));
        assert_eq!(update(&mut events, &two, &[1], &[]), [""; 0]);
        assert_eq!(update(&mut events, &two, &[1], &[2]), [""; 0], "it does not serve yet");
        assert_eq!(update(&mut events, &two, &[1, 2], &[]), ["NEW_NODE 127.0.0.2:9042", "UP 127.0.0.2:9042"]);
        assert_eq!(update(&mut events, &two, &[1, 2], &[]), [""; 0]);
        assert_eq!(update(&mut events, &two, &[1], &[2]), [""; 0], "clients only are no longer served");
        assert_eq!(update(&mut events, &two, &[1], &[]), ["DOWN 127.0.0.2:9042"]);
        assert_eq!(update(&mut events, &two, &[1, 2], &[]), ["UP 127.0.0.2:9042"]);
        let alone = topology(&[1], 3);
        assert_eq!(update(&mut events, &alone, &[1, 2], &[]), ["REMOVED_NODE 127.0.0.2:9042"]);
        assert_eq!(update(&mut events, &alone, &[1, 2], &[]), [""; 0]);
        assert_eq!(update(&mut events, &alone, &[1], &[]), ["DOWN 127.0.0.2:9042"]);
        assert_eq!(update(&mut events, &alone, &[1], &[]), [""; 0]);
        let two = topology(&[1, 2], 4);
        assert_eq!(update(&mut events, &two, &[1, 2], &[]), ["NEW_NODE 127.0.0.2:9042", "UP 127.0.0.2:9042"]);
        let removed = ["DOWN 127.0.0.2:9042", "REMOVED_NODE 127.0.0.2:9042"];
        assert_eq!(update(&mut events, &topology(&[1], 5), &[1], &[]), removed, "dead and removed at once");
    }

    #[test]
    fn members_at_the_start_are_not_new() {
        let mut events = ClientEvents::default();
        let three = topology(&[1, 2, 3], 7);
        assert_eq!(update(&mut events, &three, &[1, 2], &[]), ["UP 127.0.0.2:9042"]);
        assert_eq!(update(&mut events, &topology(&[1, 2], 8), &[1, 2], &[]), ["REMOVED_NODE 127.0.0.3:9042"]);
    }

    #[test]
    fn other_tokens_are_told_once_and_the_first_ones_are_not() {
        let mut events = ClientEvents::default();
        let at = |tokens: [Option<i64>; 2], epoch| {
            let mut nodes = topology(&[1, 2], epoch).nodes().to_vec();
            for (node, token) in nodes.iter_mut().zip(tokens) {
                node.tokens = token.map(RingToken::Murmur3).into_iter().collect();
            }
            Topology::new(nodes, NodeIndex(0), epoch)
        };
        assert_eq!(update(&mut events, &at([Some(5), None], 1), &[1, 2], &[]), ["UP 127.0.0.2:9042"]);
        assert_eq!(update(&mut events, &at([Some(5), Some(7)], 2), &[1, 2], &[]), [""; 0]);
        let moved = at([Some(6), Some(8)], 3);
        let told = ["MOVED_NODE 127.0.0.1:9042", "MOVED_NODE 127.0.0.2:9042"];
        assert_eq!(update(&mut events, &moved, &[1, 2], &[]), told);
        assert_eq!(update(&mut events, &moved, &[1, 2], &[]), [""; 0]);
        let leaving = at([Some(6), None], 4);
        assert_eq!(update(&mut events, &leaving, &[1, 2], &[]), [""; 0], "it is told once it has gone");
    }
}
