//! Where a limit counts what a request costs.

use super::Demand;
use cluster::placement::TablePlacement;
use cluster::topology::{NodeIndex, Topology};
use cluster::units::limits::{Limit, Measure, Scope};
use model::Token;
use model::capacity::{Capacity, Distribution};

/// The scopes of a limit that a request concerns, and what it costs in each.
pub(super) fn scopes(
    topology: &Topology,
    placement: &TablePlacement,
    capacity: &Capacity,
    demand: &Demand<'_>,
    limit: &Limit,
) -> Vec<(Scope, u64)> {
    let whole = demand.cost.of(limit.measure);
    let parts = (demand.keys.len() as u64).max(1);
    let is_counted = matches!(limit.measure, Measure::Reads | Measure::Writes);
    let part = if is_counted { whole } else { whole.div_ceil(parts) };
    if limit.is_of_key {
        return demand.keys.iter().map(|(token, _)| (Scope::Key(token.0), part)).collect();
    }
    if capacity.distribution == Distribution::Demand {
        return vec![(Scope::Table, whole)];
    }
    let here = Scope::Physical { host_id: topology.node(topology.here()).host_id, core: 0 };
    let of_key = |(token, key): &(Token, &[u8])| {
        let is_local = |node: NodeIndex| topology.data_center_of(node) == topology.data_center_of(topology.here());
        let first = placement.replicas(*token, key).natural().find(|replica| is_local(replica.node));
        first.map_or(here, |replica| Scope::Physical {
            host_id: topology.node(replica.node).host_id,
            core: replica.shard,
        })
    };
    if demand.keys.is_empty() {
        // A scan visits all physical partitions; each of them pays its part.
        let nodes = topology.nodes().iter().enumerate();
        let local = nodes.filter(|(at, _)| {
            topology.data_center_of(NodeIndex(*at as u16)) == topology.data_center_of(topology.here())
        });
        let all: Vec<Scope> = local
            .flat_map(|(_, node)| (0..node.shards.shards).map(|core| Scope::Physical { host_id: node.host_id, core }))
            .collect();
        let part = whole.div_ceil(all.len().max(1) as u64);
        return all.into_iter().map(|scope| (scope, part)).collect();
    }
    demand.keys.iter().map(|key| (of_key(key), part)).collect()
}

/// The cores of this node's data centre, whether its nodes are alive or not.
pub(super) fn cores_of(topology: &Topology) -> u64 {
    let here = topology.data_center_of(topology.here());
    let nodes = topology.nodes().iter().enumerate();
    let local = nodes.filter(|(at, _)| topology.data_center_of(NodeIndex(*at as u16)) == here);
    local.map(|(_, node)| u64::from(node.shards.shards)).sum::<u64>().max(1)
}
