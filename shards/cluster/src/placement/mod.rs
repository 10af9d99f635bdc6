//! Who owns what: the replicas of each token of each table, and the cores that have it.
//!
//! A [`Placement`] is derived from the nodes and the schema, and replaced by another one when either changes. A request
//! looks up its table once ([`Placement::table`]) and each of its tokens in the answer ([`TablePlacement::replicas`]);
//! there is no other way to ask.
//!
//! 1. The ring of tokens is cut into ranges, and the strategy of a keyspace chooses the natural replicas of each
//!    (`ring`). Neighbouring ranges with the same replicas become one: on a single node one range is left.
//! 2. A lookup finds the range of a key by its end, with a binary search over the first 64 bits of the ends' tokens.
//! 3. A replica's core follows from the table and the node's number of cores ([`Home`], [`model::ShardMap`]).
//!
//! Tables of LocalStrategy have one replica, this node.
//!
//! Invariants: all tokens of a range have the same natural replicas; they are in the order of the ring, the owner of
//! the range first.

mod network_topology;
mod ring;
mod simple;

use crate::consistency::Levels;
use crate::replication::Strategy;
use crate::topology::{LiveNodes, NodeIndex, Topology};
use model::schema::Replication;
use model::{Home, IdMap, RingToken, Schema, TableId, Token, TokenRange};
use ring::Ranges;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

pub use ring::RingRange;

/// A node that has a range, and the core of it that has the token asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Replica {
    /// The node.
    pub node: NodeIndex,
    /// The core of the node.
    pub shard: u16,
}

/// Where the data of each table is, at one version of nodes and schema. One for each core.
#[derive(Debug)]
pub struct Placement {
    topology: Rc<Topology>,
    tables: IdMap<TableId, Rc<TablePlacement>>,
    keyspaces: BTreeMap<String, Rc<KeyspacePlacement>>,
}

impl Placement {
    /// Where the data of `schema` is on the nodes of `topology`.
    pub fn new(topology: Rc<Topology>, schema: &Schema) -> Placement {
        let mut known: Vec<(&Replication, Rc<KeyspacePlacement>)> = Vec::new();
        let mut placement = Placement { topology, tables: IdMap::default(), keyspaces: BTreeMap::new() };
        placement.tables.reserve(schema.tables.len());
        for keyspace in schema.keyspaces.values() {
            // Most keyspaces are replicated like another one.
            let placed = match known.iter().find(|(replication, _)| **replication == keyspace.replication) {
                Some((_, placed)) => placed.clone(),
                None => {
                    let placed = KeyspacePlacement::new(placement.topology.clone(), &keyspace.replication);
                    let placed = Rc::new(placed);
                    known.push((&keyspace.replication, placed.clone()));
                    placed
                }
            };
            for table in keyspace.tables.values() {
                let home = keyspace.home_of(&table.name);
                placement.tables.insert(table.id, Rc::new(TablePlacement { home, keyspace: placed.clone() }));
            }
            placement.keyspaces.insert(keyspace.name.clone(), placed);
        }
        placement
    }

    /// The nodes.
    pub fn topology(&self) -> &Rc<Topology> {
        &self.topology
    }

    /// Where the partitions of a table are; `None` if there is no such table.
    #[inline]
    pub fn table(&self, id: TableId) -> Option<&Rc<TablePlacement>> {
        self.tables.get(&id)
    }

    /// Where the partitions of a keyspace are; `None` if there is no such keyspace.
    pub fn keyspace(&self, name: &str) -> Option<&KeyspacePlacement> {
        self.keyspaces.get(name).map(|placed| &**placed)
    }
}

/// The nodes that have the data of a keyspace.
#[derive(Debug)]
pub struct KeyspacePlacement {
    topology: Rc<Topology>,
    levels: Levels,
    ranges: Ranges,
}

impl KeyspacePlacement {
    pub(crate) fn new(topology: Rc<Topology>, replication: &Replication) -> KeyspacePlacement {
        let strategy = Strategy::of(replication);
        let ranges = match &strategy {
            Strategy::Local => Ranges::everything_on(vec![topology.here()]),
            Strategy::Everywhere => Ranges::everything_on((0..topology.nodes().len() as u16).map(NodeIndex).collect()),
            Strategy::Simple { factor } => simple::ranges(&topology, *factor),
            Strategy::NetworkTopology { factors } => network_topology::ranges(&topology, factors),
        };
        KeyspacePlacement { levels: Levels::of(&strategy, &replication.class, &topology), topology, ranges }
    }

    /// The nodes.
    pub fn topology(&self) -> &Rc<Topology> {
        &self.topology
    }

    /// What each consistency level needs.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// The nodes that have a token, the owner of its range first.
    pub fn nodes_of(&self, token: &RingToken) -> &[NodeIndex] {
        self.ranges.of_token(token)
    }

    /// The ranges of the ring that contain keys of `limits`, in ascending order. The one that wraps around the end of
    /// the ring comes as two.
    pub fn ranges(&self, limits: &TokenRange) -> impl Iterator<Item = RingRange<'_>> {
        self.ranges.overlapping(limits)
    }

    /// The part of the ring that each node has replicas of, 0 to 1.
    pub fn shares(&self) -> Vec<f64> {
        // Token prefixes as numbers: the ring has 2^64 of them.
        let ring = (u64::MAX as f64) + 1.0;
        let end = |token: Option<&RingToken>, none: Token| token.map_or(none, RingToken::token).prefix();
        let mut shares = vec![0.0; self.topology.nodes().len()];
        for range in self.ranges(&TokenRange::FULL) {
            let size = match range.after {
                Some(after) => (end(range.until, Token::MAX) - after.token().prefix()) as f64,
                None => end(range.until, Token::MAX) as f64 + 1.0,
            };
            range.nodes.iter().for_each(|node| shares[usize::from(node.0)] += size / ring);
        }
        shares
    }
}

/// Where the partitions of one table are.
#[derive(Debug)]
pub struct TablePlacement {
    home: Home,
    keyspace: Rc<KeyspacePlacement>,
}

impl TablePlacement {
    /// Where the partitions of the table's keyspace are.
    #[inline]
    pub fn keyspace(&self) -> &KeyspacePlacement {
        &self.keyspace
    }

    /// The nodes that are believed to be alive now.
    #[inline]
    pub fn live(&self) -> &LiveNodes {
        self.keyspace.topology.live()
    }

    /// How the partitions are spread over the cores of a node.
    #[inline]
    pub fn home(&self) -> Home {
        self.home
    }

    /// The replicas of a key, given with the first 64 bits of its token.
    #[inline]
    pub fn replicas(&self, token: Token, key: &[u8]) -> Replicas<'_> {
        Replicas { placement: self, token, natural: self.keyspace.ranges.of_key(token, key) }
    }

    /// The replicas of a range. Their cores are those of one of its tokens.
    pub(crate) fn replicas_of<'p>(&'p self, range: &RingRange<'p>) -> Replicas<'p> {
        let token = range.until.map_or(Token::MAX, RingToken::token);
        Replicas { placement: self, token, natural: range.nodes }
    }

    /// The core of a node that has a token of the table, if the node has it at all.
    #[inline]
    pub fn shard_of(&self, node: NodeIndex, token: Token) -> u16 {
        self.home.owner(self.keyspace.topology.node(node).shards, token)
    }

    /// The cores of a node that have partitions of the table.
    pub fn shards_of(&self, node: NodeIndex) -> Range<u16> {
        match self.home {
            Home::Shard0 => 0..1,
            Home::ByToken => 0..self.keyspace.topology.node(node).shards.shards,
        }
    }
}

/// The replicas of one key or range of one table.
#[derive(Clone, Copy, Debug)]
pub struct Replicas<'p> {
    placement: &'p TablePlacement,
    token: Token,
    natural: &'p [NodeIndex],
}

impl<'p> Replicas<'p> {
    /// The replicas that the strategy chose, each with its core; the owner of the range first.
    #[inline]
    pub fn natural(&self) -> impl ExactSizeIterator<Item = Replica> + use<'p> {
        let (placement, token) = (self.placement, self.token);
        self.natural.iter().map(move |node| Replica { node: *node, shard: placement.shard_of(*node, token) })
    }

    /// The only replica, if there is no more than that one.
    #[inline]
    pub fn only(&self) -> Option<Replica> {
        let [node] = *self.natural else { return None };
        Some(Replica { node, shard: self.placement.shard_of(node, self.token) })
    }

    /// The nodes of the natural replicas.
    #[inline]
    pub(crate) fn nodes(&self) -> &'p [NodeIndex] {
        self.natural
    }

    /// The levels and nodes of the table's keyspace.
    #[inline]
    pub(crate) fn keyspace(&self) -> &'p KeyspacePlacement {
        &self.placement.keyspace
    }
}

#[cfg(test)]
pub(crate) mod tests;
