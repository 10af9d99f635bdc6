//! What the members and operations that the cluster agrees on mean for the placement of data: the nodes, what changes
//! for them, and who gains something by it.

use crate::messages::admin::RingChanges;
use crate::shard_state::Shard;
use cluster::metadata::Metadata;
use cluster::placement::{PlacedTables, Placement};
use cluster::topology::{Node, NodeIndex, Topology};
use model::{Partitioner, RingToken, Schema, ShardMap};
use std::collections::BTreeSet;
use std::rc::Rc;
use uuid::Uuid;

/// The members as nodes, as this one places data on them. The metadata may still have the number of cores that it had
/// when it ran last, and what it has now is what counts here.
pub(crate) fn nodes_here(metadata: &Metadata, own: Uuid, partitioner: Partitioner) -> Vec<Node> {
    let mut nodes = metadata.nodes();
    if let Some(this) = nodes.iter_mut().find(|node| node.host_id == own) {
        this.shards = ShardMap::new(partitioner, runtime::shard_count() as u16);
    }
    nodes
}

/// What the operations under way are going to change, the tablets and the sub-partitions.
pub(crate) fn changes_of(metadata: &Metadata, partitioner: Partitioner) -> RingChanges {
    let (tablets, sub_partitions) = (metadata.placed_tablets(), metadata.sub_partitions.clone());
    if metadata.operations.is_empty() {
        return RingChanges { tablets, sub_partitions, ..RingChanges::default() };
    }
    let parsed = |tokens: &&[String]| -> Vec<RingToken> {
        tokens.iter().filter_map(|text| partitioner.parse_token(text).ok()).collect()
    };
    RingChanges {
        next_tokens: metadata.next_tokens().iter().map(parsed).collect(),
        replication_before: metadata.replication_before(),
        tablets,
        sub_partitions,
    }
}

/// The tables that more than this node may have, in groups that are placed alike.
pub(crate) fn replicated<'p>(placement: &'p Placement, schema: &Schema) -> Vec<PlacedTables<'p>> {
    let mut groups = placement.groups(schema);
    groups.retain(|group| {
        schema.keyspace(group.keyspace).is_some_and(|keyspace| !keyspace.is_virtual() && !keyspace.is_local())
    });
    groups
}

/// The host ids of the nodes that gain something by the operations of `metadata`.
pub(crate) fn receivers(shard: &Shard, metadata: &Metadata, schema: &Schema) -> BTreeSet<Uuid> {
    let nodes = nodes_here(metadata, shard.host_id(), shard.partitioner());
    let changes = changes_of(metadata, shard.partitioner());
    let here = nodes.iter().position(|node| node.host_id == shard.host_id()).unwrap_or(0);
    if nodes.is_empty() {
        return BTreeSet::new();
    }
    let mut topology = Topology::new(nodes, NodeIndex(here as u16), metadata.members_epoch);
    if !changes.next_tokens.is_empty() {
        topology = topology.becoming(&changes.next_tokens);
    }
    let placement = changes.placement(Rc::new(topology), schema);
    let gains = replicated(&placement, schema).into_iter().flat_map(|group| group.placed.gains());
    gains.map(|gain| placement.topology().node(gain.receiver).host_id).collect()
}
