//! What becomes of tablets when the schema changes or an operation on the ring begins: the planner's answers for the
//! cluster as this node knows it, as parts of the entry that is proposed.

use crate::shard_state::Shard;
use cluster::metadata::{Command, Member, MemberState, Metadata, OperationKind};
use cluster::placement::{KeyspacePlacement, RingRange};
use cluster::replication::Strategy;
use cluster::tablets::planner::{self, Factors, PlannedNode};
use cluster::tablets::{TABLETS_MAX, Tablet, TabletChange, TabletMap, TabletsUpdate};
use cluster::topology::Topology;
use model::schema::KeyspaceTablets;
use model::tablets::TableTablets;
use model::{Keyspace, RingToken, Schema, TableId, TokenRange};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// How many tablets a new table has for each node that it may be on, unless its keyspace says otherwise.
const TABLETS_PER_NODE: usize = 2;

/// The entry of a change that goes with `updates` of tablets.
pub(crate) fn joined(command: Command, updates: Vec<TabletsUpdate>, seen: &Metadata) -> Command {
    match updates.is_empty() {
        true => command,
        false => Command::Tablets { with: Some(Box::new(command)), updates, members_epoch: seen.members_epoch },
    }
}

/// What becomes of the tablets of a keyspace by a change of the schema: those of new tables, dropped ones, and of all
/// if the replication changes.
pub(crate) fn of_schema(
    shard: &Shard,
    metadata: &Metadata,
    keyspace: &str,
    (before, after): (&Schema, &Schema),
) -> Vec<TabletsUpdate> {
    let tables = |schema: &Schema| -> BTreeMap<TableId, _> {
        let tables = schema.keyspace(keyspace).into_iter().flat_map(|keyspace| keyspace.tables.values().cloned());
        tables.map(|table| (table.id, table)).collect()
    };
    let (old, new) = (tables(before), tables(after));
    let mut updates = Vec::new();
    for id in old.keys().filter(|id| !new.contains_key(id) && metadata.tablets.contains_key(&id.0)) {
        updates.push(TabletsUpdate { table: id.0, changes: vec![TabletChange::Drop] });
    }
    let Some(keyspace) = after.keyspace(keyspace) else { return updates };
    let stay = || new.keys().filter(|id| old.contains_key(id));
    if keyspace.tablets.is_none() {
        let have_some = stay().filter(|id| metadata.tablets.contains_key(&id.0));
        updates.extend(have_some.map(|id| TabletsUpdate { table: id.0, changes: vec![TabletChange::ToRing] }));
        return updates;
    }
    let placement = shard.placement();
    let follow_the_ring = stay().filter(|id| !metadata.tablets.contains_key(&id.0));
    updates.extend(follow_the_ring.filter_map(|id| {
        let map = as_on_the_ring(placement.topology(), placement.keyspace(&keyspace.name)?)?;
        Some(TabletsUpdate { table: id.0, changes: vec![TabletChange::Set(map)] })
    }));
    let (Some(tablets), Some(factors)) = (keyspace.tablets, factors(keyspace)) else { return updates };
    let nodes = nodes(shard, metadata);
    // Better on a node that is emptied than with too few replicas.
    let last = |node: &PlannedNode| !node.may_gain || metadata.emptied.contains(&node.host_id);
    let chosen: Vec<PlannedNode> =
        nodes.iter().map(|node| PlannedNode { may_gain: !last(node), ..node.clone() }).collect();
    for id in new.keys().filter(|id| !old.contains_key(id)) {
        let (least, most) = counts_wanted(shard, (tablets, &new[id].options.tablets), (&nodes, &factors));
        let count = least.min(most) as usize;
        if let Some(map) = planner::initial(&chosen, &factors, count, &counts(metadata)) {
            updates.push(TabletsUpdate { table: id.0, changes: vec![TabletChange::Set(map)] });
        }
    }
    let is_other = before.keyspace(&keyspace.name).is_some_and(|old| old.replication != keyspace.replication);
    for id in new.keys().filter(|_| is_other) {
        let Some(map) = metadata.tablets.get(&id.0) else { continue };
        let changes = planner::refactored(&nodes, map, &factors);
        if !changes.is_empty() {
            updates.push(TabletsUpdate { table: id.0, changes });
        }
    }
    updates
}

/// Tablets that are where the ring has a table: the ranges of the ring with the same replicas.
fn as_on_the_ring(topology: &Topology, placed: &KeyspacePlacement) -> Option<TabletMap> {
    let tablet = |range: RingRange<'_>| {
        let until = match range.until {
            Some(RingToken::Murmur3(until)) => Some(*until),
            Some(_) => return None,
            None => None,
        };
        let replicas = range.nodes.iter().map(|node| topology.node(*node).host_id).collect();
        Some(Tablet { until: until.filter(|until| *until < i64::MAX), replicas, goal: None })
    };
    let tablets: Option<Vec<Tablet>> = placed.ranges(&TokenRange::FULL).map(tablet).collect();
    tablets.filter(|tablets| tablets.len() <= TABLETS_MAX).map(|tablets| TabletMap { tablets })
}

/// The fewest and the most tablets that a table is to have. A new one has the fewest: as many as its keyspace says, or
/// some for each node that it may be on; more if its options say so, or if it needs them for the size that it is
/// expected to get.
pub(crate) fn counts_wanted(
    shard: &Shard,
    (keyspace, table): (KeyspaceTablets, &TableTablets),
    (nodes, factors): (&[PlannedNode], &Factors),
) -> (u32, u32) {
    let most = table.max.unwrap_or(TABLETS_MAX as u32);
    let candidates = nodes.iter().filter(|node| factors.contains_key(&node.data_center)).count();
    let by_default = u32::try_from((candidates * TABLETS_PER_NODE).next_power_of_two()).unwrap_or(u32::MAX);
    let initial = if keyspace.initial == 0 { by_default } else { keyspace.initial };
    let expected_bytes = u64::from(table.expected_gb.unwrap_or(0)) << 30;
    let expected = expected_bytes.div_ceil(shard.config().physical_partition_size);
    let least = initial.max(table.min.unwrap_or(1)).max(u32::try_from(expected).unwrap_or(u32::MAX));
    (least.clamp(1, most), most)
}

/// Where the tablets go that are on the nodes that an operation takes out of the ring. `begun` are the metadata in
/// which it is under way.
pub(crate) fn of_operation(shard: &Shard, begun: &Metadata, kind: &OperationKind) -> Vec<TabletsUpdate> {
    if begun.tablets.is_empty() {
        return Vec::new();
    }
    let substitute = match kind {
        OperationKind::Leave { .. } | OperationKind::Remove { .. } => None,
        OperationKind::Replace { host_id, replaced } => Some((*replaced, *host_id)),
        _ => return Vec::new(),
    };
    let mut nodes = nodes(shard, begun);
    // One that replaces another is joining, and takes exactly that one's place.
    let joining = substitute.and_then(|(_, new)| begun.members.get(&new).map(|member| planned(new, member)));
    nodes.extend(joining);
    let maps: Vec<([u8; 16], &TabletMap)> = begun.tablets.iter().map(|(id, map)| (*id, &**map)).collect();
    planner::replaced(&nodes, &maps, &leaving(begun), substitute)
}

/// The nodes that the operations under way take out of the ring.
fn leaving(metadata: &Metadata) -> BTreeSet<Uuid> {
    let goes = |kind: &OperationKind| match kind {
        OperationKind::Leave { host_id } | OperationKind::Remove { host_id } => Some(*host_id),
        OperationKind::Replace { replaced, .. } => Some(*replaced),
        _ => None,
    };
    metadata.operations.values().filter_map(|operation| goes(&operation.kind)).collect()
}

/// The members that have or may have tablets, as the planner sees them.
pub(crate) fn nodes(shard: &Shard, metadata: &Metadata) -> Vec<PlannedNode> {
    let leaving = leaving(metadata);
    let normal = metadata.members.iter().filter(|(_, member)| member.state != MemberState::Joining);
    let planned = normal.map(|(id, member)| PlannedNode {
        may_gain: *id == shard.host_id() || shard.is_live(*id),
        leaves: leaving.contains(id),
        ..planned(*id, member)
    });
    planned.collect()
}

/// The same as they are to be filled: those that are emptied give what they have to others.
pub(crate) fn nodes_to_fill(nodes: &[PlannedNode], metadata: &Metadata) -> Vec<PlannedNode> {
    let to_fill = |node: &PlannedNode| PlannedNode {
        leaves: node.leaves || metadata.emptied.contains(&node.host_id),
        ..node.clone()
    };
    nodes.iter().map(to_fill).collect()
}

fn planned(host_id: Uuid, member: &Member) -> PlannedNode {
    PlannedNode {
        host_id,
        data_center: member.data_center.clone(),
        rack: member.rack.clone(),
        weight: u32::from(member.shards.max(1)),
        may_gain: true,
        leaves: false,
    }
}

/// How many tablets each node has.
fn counts(metadata: &Metadata) -> BTreeMap<Uuid, u64> {
    let mut counts = BTreeMap::new();
    let tablets = metadata.tablets.values().flat_map(|map| &map.tablets);
    tablets.flat_map(|tablet| &tablet.replicas).for_each(|node| *counts.entry(*node).or_default() += 1);
    counts
}

/// How many replicas a keyspace has in each data centre; `None` if its strategy says it otherwise.
pub(crate) fn factors(keyspace: &Keyspace) -> Option<Factors> {
    match Strategy::of(&keyspace.replication) {
        Strategy::NetworkTopology { factors } => Some(factors),
        _ => None,
    }
}
