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
//! A table with tablets has ranges of its own, those of its tablets ([`crate::tablets`]), and is looked up as any
//! other.
//!
//! While operations on the ring or changes of replication are under way, some tokens have pending replicas too, and
//! some of their replicas are going to lose them (`pending`).
//!
//! Invariants: all tokens of a range have the same natural replicas; they are in the order of the ring, the owner of
//! the range first.

mod network_topology;
mod pending;
mod ring;
mod simple;

use crate::consistency::{Levels, Requirement};
use crate::replication::{ReplicationBefore, Strategy};
use crate::sub_partitions::SubPartitionMap;
use crate::tablets::{Goals, TabletMap, Tablets};
use crate::topology::{LiveNodes, NodeIndex, Ring, Topology};
use model::schema::Replication;
use model::{HashMap, Home, IdMap, Keyspace, RingToken, Schema, TableId, Token, TokenRange};
use pending::{Change, PendingRanges};
use ring::Ranges;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;

pub use pending::Gain;
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
    /// Whether there is a table of ManagedStrategy.
    has_managed: bool,
    /// The tables that have tablets.
    with_tablets: BTreeMap<TableId, TabletPlacement>,
}

/// Where a table with tablets is.
#[derive(Debug)]
struct TabletPlacement {
    keyspace: String,
    map: Arc<TabletMap>,
    placed: Rc<KeyspacePlacement>,
}

/// Tables of a keyspace that are placed alike.
#[derive(Clone, Debug)]
pub struct PlacedTables<'p> {
    /// The keyspace's name.
    pub keyspace: &'p str,
    /// The tables; `None` if they are all of the keyspace.
    pub tables: Option<Vec<TableId>>,
    /// Where they are.
    pub placed: &'p KeyspacePlacement,
}

impl Placement {
    /// Where the data of `schema` is on the nodes of `topology`.
    pub fn new(topology: Rc<Topology>, schema: &Schema) -> Placement {
        Placement::changing(topology, schema, &BTreeMap::new(), (&Tablets::default(), &BTreeMap::new()))
    }

    /// The same of a cluster with `tablets`, and with sub-partitions by the tables' ids, while the replication of some
    /// keyspaces changes: `before` has what it was, by their names, and the schema what it is going to be.
    pub fn changing(
        topology: Rc<Topology>,
        schema: &Schema,
        before: &BTreeMap<String, ReplicationBefore>,
        (tablets, sub_partitions): (&Tablets, &BTreeMap<[u8; 16], Arc<SubPartitionMap>>),
    ) -> Placement {
        let mut placement = Placement::by_ring(topology, schema, before);
        for (id, map) in &tablets.maps {
            let id = TableId(*id);
            let Some(table) = schema.table_by_id(id) else { continue };
            let Some(keyspace) = schema.keyspace(&table.keyspace) else { continue };
            let goals = (tablets.goals, tablets.to_ring.contains(&id.0));
            let before = before.get(&keyspace.name);
            let placed = KeyspacePlacement::of_tablets(placement.topology.clone(), (before, keyspace), map, goals);
            let placed = Rc::new(placed);
            placement.has_managed |= keyspace.is_managed();
            let home = keyspace.home_of(&table.name);
            placement.tables.insert(id, Rc::new(TablePlacement::new(home, placed.clone())));
            let tablets = TabletPlacement { keyspace: keyspace.name.clone(), map: map.clone(), placed };
            placement.with_tablets.insert(id, tablets);
        }
        for (id, map) in sub_partitions {
            let Some(placed) = placement.tables.get_mut(&TableId(*id)) else { continue };
            let sub_partitions = Some(map.clone());
            *placed =
                Rc::new(TablePlacement { sub_partitions, ..TablePlacement::new(placed.home, placed.keyspace.clone()) });
        }
        placement
    }

    fn by_ring(topology: Rc<Topology>, schema: &Schema, before: &BTreeMap<String, ReplicationBefore>) -> Placement {
        let mut known: Vec<(&Replication, Rc<KeyspacePlacement>)> = Vec::new();
        let (tables, with_tablets) = (IdMap::default(), BTreeMap::new());
        let mut placement =
            Placement { topology, tables, keyspaces: BTreeMap::new(), has_managed: false, with_tablets };
        placement.tables.reserve(schema.tables.len());
        for keyspace in schema.keyspaces.values() {
            let changing = before.get(&keyspace.name).filter(|before| before.replication != keyspace.replication);
            if let Some(before) = changing {
                let topology = placement.topology.clone();
                let (read, other) = match before.is_read {
                    true => (&before.replication, &keyspace.replication),
                    false => (&keyspace.replication, &before.replication),
                };
                let placed = Rc::new(KeyspacePlacement::changing(topology, read, other));
                placement.place(keyspace, placed);
                continue;
            }
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
            placement.place(keyspace, placed);
        }
        placement
    }

    fn place(&mut self, keyspace: &Keyspace, placed: Rc<KeyspacePlacement>) {
        for table in keyspace.tables.values() {
            let home = keyspace.home_of(&table.name);
            self.tables.insert(table.id, Rc::new(TablePlacement::new(home, placed.clone())));
        }
        self.keyspaces.insert(keyspace.name.clone(), placed);
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

    /// All tables of `schema` that are placed by this, in groups that are placed alike.
    pub fn groups<'p>(&'p self, schema: &Schema) -> Vec<PlacedTables<'p>> {
        let mut groups = Vec::new();
        for (name, placed) in &self.keyspaces {
            let all = || schema.keyspace(name).into_iter().flat_map(|keyspace| keyspace.tables.values());
            let by_ring = || all().map(|table| table.id).filter(|id| !self.with_tablets.contains_key(id));
            match all().count() - by_ring().count() {
                0 => groups.push(PlacedTables { keyspace: name, tables: None, placed }),
                _ if by_ring().next().is_none() => {}
                _ => groups.push(PlacedTables { keyspace: name, tables: Some(by_ring().collect()), placed }),
            }
        }
        groups.extend(self.with_tablets.iter().map(|(id, tablets)| PlacedTables {
            keyspace: &tablets.keyspace,
            tables: Some(vec![*id]),
            placed: &tablets.placed,
        }));
        groups
    }

    /// Whether there is a table of ManagedStrategy.
    #[inline]
    pub fn has_managed(&self) -> bool {
        self.has_managed
    }

    /// The tablets of a table; `None` if it has none.
    pub fn tablets(&self, id: TableId) -> Option<&Arc<TabletMap>> {
        self.with_tablets.get(&id).map(|tablets| &tablets.map)
    }

    /// All tables that have tablets.
    pub fn all_tablets(&self) -> impl Iterator<Item = (TableId, &Arc<TabletMap>)> {
        self.with_tablets.iter().map(|(id, tablets)| (*id, &tablets.map))
    }

    /// Where the partitions of a keyspace's tables without tablets are; `None` if there is no such keyspace.
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
    /// Whether the ranges are those of a table's tablets.
    is_by_tablets: bool,
    /// The ranges once all operations under way have ended, and what is pending until then.
    next: Option<Box<Next>>,
}

/// Ranges that a keyspace is going to have.
#[derive(Debug)]
struct Next {
    ranges: Ranges,
    /// What each consistency level is going to need.
    levels: Levels,
    pending: PendingRanges,
}

impl KeyspacePlacement {
    pub(crate) fn new(topology: Rc<Topology>, replication: &Replication) -> KeyspacePlacement {
        KeyspacePlacement::changing(topology, replication, replication)
    }

    /// The placement of a keyspace that is read by the replication `before`, and written by `goal` as well. What levels
    /// need follows from the first.
    fn changing(topology: Rc<Topology>, before: &Replication, goal: &Replication) -> KeyspacePlacement {
        let strategy = Strategy::of(before);
        let ranges = ranges_of(&strategy, &topology, topology.ring());
        let is_changing = before != goal || topology.next_ring().is_some();
        let next = is_changing.then(|| {
            let ring = topology.next_ring().unwrap_or(topology.ring());
            let strategy = Strategy::of(goal);
            (ranges_of(&strategy, &topology, ring), Levels::of(&strategy, &goal.class, &topology))
        });
        let next = next.and_then(|(next, levels)| {
            let pending = PendingRanges::between(&ranges, &next)?;
            Some(Box::new(Next { ranges: next, levels, pending }))
        });
        let levels = Levels::of(&strategy, &before.class, &topology);
        KeyspacePlacement { levels, topology, ranges, is_by_tablets: false, next }
    }

    /// The placement of a table by its tablets, in a keyspace whose replication perhaps was another one before. It may
    /// be going to follow the ring.
    fn of_tablets(
        topology: Rc<Topology>,
        (before, keyspace): (Option<&ReplicationBefore>, &Keyspace),
        map: &TabletMap,
        (goals, to_ring): (Goals, bool),
    ) -> KeyspacePlacement {
        let after = &keyspace.replication;
        let indexes: HashMap<Uuid, NodeIndex> =
            topology.nodes().iter().zip(0..).map(|(node, at)| (node.host_id, NodeIndex(at))).collect();
        let on = |nodes: &[Uuid]| nodes.iter().filter_map(|node| indexes.get(node).copied()).collect();
        let now = || Ranges::of_tablets(map.tablets.iter().map(|tablet| (tablet.until, on(&tablet.replicas))));
        let goal = || match to_ring {
            true => ranges_of(&Strategy::of(after), &topology, topology.ring()),
            false => Ranges::of_tablets(map.tablets.iter().map(|tablet| (tablet.until, on(tablet.next())))),
        };
        let has_goals = to_ring || map.tablets.iter().any(|tablet| tablet.goal.is_some());
        let (ranges, next) = match goals {
            _ if !has_goals => (now(), None),
            Goals::Pending => (now(), Some(goal())),
            Goals::Read => (goal(), Some(now())),
            Goals::Only => (goal(), None),
        };
        let managed = |ranges: &Ranges| Levels::managed(&factors_of(ranges, &topology), &after.class, &topology);
        let levels = |ranges: &Ranges, replication: &Replication| match keyspace.is_managed() {
            true => managed(ranges),
            false => Levels::of(&Strategy::of(replication), &replication.class, &topology),
        };
        let (read, other) = match before {
            None => (after, after),
            Some(before) if before.is_read => (&before.replication, after),
            Some(before) => (after, &before.replication),
        };
        let next = next.and_then(|next| {
            let pending = PendingRanges::between(&ranges, &next)?;
            Some(Box::new(Next { levels: levels(&next, other), ranges: next, pending }))
        });
        KeyspacePlacement { levels: levels(&ranges, read), topology, ranges, is_by_tablets: true, next }
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

    /// The nodes that gain a token by the operations under way.
    pub fn pending_nodes_of(&self, token: &RingToken) -> &[NodeIndex] {
        self.next.as_ref().map_or(&[], |next| &next.pending.of_token(token).gaining)
    }

    /// What each node gains by the operations under way.
    pub fn gains(&self) -> Vec<Gain> {
        self.next.as_ref().map_or_else(Vec::new, |next| {
            pending::gains(&self.ranges, &next.ranges, |node| self.topology.data_center_of(node))
        })
    }

    /// Whether of a range that moves a majority of the other replicas, those that are pending and those that keep it,
    /// is left without some nodes. Else what these refuse, nobody can do.
    pub fn may_be_read_without(&self, is_among: impl Fn(NodeIndex) -> bool) -> bool {
        self.next.as_ref().is_some_and(|next| pending::may_be_read_without(&self.ranges, &next.ranges, is_among))
    }

    /// The ranges of the ring that contain keys of `limits`, in ascending order. The one that wraps around the end of
    /// the ring comes as two.
    pub fn ranges(&self, limits: &TokenRange) -> impl Iterator<Item = RingRange<'_>> {
        self.ranges.overlapping(limits)
    }

    /// The ranges as operators see them, each with the token before it and its last one: those that end at the tokens
    /// of the ring, of which the first goes around its end, or tablets, of which neighbours with the same replicas are
    /// one.
    pub fn listed(&self) -> Vec<(RingToken, RingToken)> {
        if self.is_by_tablets {
            let token = |token: Option<&RingToken>, none: i64| token.cloned().unwrap_or(RingToken::Murmur3(none));
            let ranges = self.ranges(&TokenRange::FULL);
            return ranges.map(|range| (token(range.after, i64::MIN), token(range.until, i64::MAX))).collect();
        }
        let ring = self.topology.ring();
        let before = |at: usize| ring[at.checked_sub(1).unwrap_or(ring.len() - 1)].0.clone();
        ring.iter().enumerate().map(|(at, (end, _))| (before(at), end.clone())).collect()
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

/// How many replicas there are in each data centre: the most of any range, since all of a table have as many.
fn factors_of(ranges: &Ranges, topology: &Topology) -> BTreeMap<String, u32> {
    let mut most = vec![0; topology.data_centers().len()];
    for range in ranges.overlapping(&TokenRange::FULL) {
        let mut here = vec![0; most.len()];
        range.nodes.iter().for_each(|node| here[usize::from(topology.data_center_of(*node).0)] += 1);
        most.iter_mut().zip(here).for_each(|(most, here)| *most = here.max(*most));
    }
    let found = topology.data_centers().iter().zip(most).filter(|(_, factor)| *factor > 0);
    found.map(|(name, factor)| (name.clone(), factor)).collect()
}

/// The ranges that a strategy makes of a ring.
fn ranges_of(strategy: &Strategy, topology: &Topology, ring: &Ring) -> Ranges {
    match strategy {
        Strategy::Local => Ranges::everything_on(vec![topology.here()]),
        Strategy::Everywhere => Ranges::everything_on((0..topology.nodes().len() as u16).map(NodeIndex).collect()),
        Strategy::Simple { factor } => simple::ranges(ring, *factor),
        Strategy::NetworkTopology { factors } => network_topology::ranges(topology, ring, factors),
    }
}

/// Where the partitions of one table are.
#[derive(Debug)]
pub struct TablePlacement {
    home: Home,
    keyspace: Rc<KeyspacePlacement>,
    /// See [`TablePlacement::sub_partitions`].
    sub_partitions: Option<Arc<SubPartitionMap>>,
}

impl TablePlacement {
    fn new(home: Home, keyspace: Rc<KeyspacePlacement>) -> TablePlacement {
        TablePlacement { home, keyspace, sub_partitions: None }
    }

    /// The sub-partitions of the table's keys, if there are not as many as the schema says.
    #[inline]
    pub fn sub_partitions(&self) -> Option<&Arc<SubPartitionMap>> {
        self.sub_partitions.as_ref()
    }

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
        let change = self.keyspace.next.as_ref().map(|next| next.pending.of_key(token, key));
        Replicas { placement: self, token, natural: self.keyspace.ranges.of_key(token, key), change }
    }

    /// The natural replicas of a range. Their cores are those of one of its tokens.
    pub(crate) fn replicas_of<'p>(&'p self, range: &RingRange<'p>) -> Replicas<'p> {
        let token = range.until.map_or(Token::MAX, RingToken::token);
        Replicas { placement: self, token, natural: range.nodes, change: None }
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
    /// How the natural ones are going to change, if operations are under way.
    change: Option<&'p Change>,
}

/// The replicas by which a key is going to be read, once the operations under way have ended.
#[derive(Debug)]
pub(crate) struct NextReplicas<'p> {
    /// The nodes.
    pub(crate) nodes: SmallVec<[NodeIndex; 4]>,
    /// What each level needs of them.
    pub(crate) levels: &'p Levels,
}

impl NextReplicas<'_> {
    /// What a write that needs `now` of the natural replicas also needs of these; `None` if none of them counts, so
    /// that no read at such a level is going to be possible.
    pub(crate) fn needed(&self, now: Requirement, topology: &Topology) -> Option<Requirement> {
        let needed = self.levels.required_by_write(now.level);
        self.nodes.iter().any(|node| needed.counts(topology.data_center_of(*node))).then_some(needed)
    }
}

impl<'p> Replicas<'p> {
    /// The replicas that the strategy chose, each with its core; the owner of the range first.
    #[inline]
    pub fn natural(&self) -> impl ExactSizeIterator<Item = Replica> + use<'p> {
        let (placement, token) = (self.placement, self.token);
        self.natural.iter().map(move |node| Replica { node: *node, shard: placement.shard_of(*node, token) })
    }

    /// The replicas to be, which get writes and are not read, each with its core.
    #[inline]
    pub fn pending(&self) -> impl ExactSizeIterator<Item = Replica> + use<'p> {
        let (placement, token) = (self.placement, self.token);
        self.pending_nodes().iter().map(move |node| Replica { node: *node, shard: placement.shard_of(*node, token) })
    }

    /// The replicas that get writes: the natural ones, then the pending ones.
    #[inline]
    pub fn written(&self) -> impl Iterator<Item = Replica> + use<'p> {
        self.natural().chain(self.pending())
    }

    /// The only replica, natural or pending, if there is no more than that one.
    #[inline]
    pub fn only(&self) -> Option<Replica> {
        let ([node], None) = (self.natural, self.change.filter(|change| !change.is_none())) else { return None };
        let node = *node;
        Some(Replica { node, shard: self.placement.shard_of(node, self.token) })
    }

    /// The nodes of the pending replicas.
    #[inline]
    pub(crate) fn pending_nodes(&self) -> &'p [NodeIndex] {
        self.change.map_or(&[], |change| &change.gaining)
    }

    /// Those by which the key is going to be read, if these are others.
    pub(crate) fn next(&self) -> Option<NextReplicas<'p>> {
        let change = self.change.filter(|change| !change.is_none())?;
        let kept = self.natural.iter().filter(|node| !change.losing.contains(node));
        let levels = &self.placement.keyspace.next.as_ref()?.levels;
        Some(NextReplicas { nodes: kept.chain(&change.gaining).copied().collect(), levels })
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
