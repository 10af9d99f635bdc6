//! NetworkTopologyStrategy: in each data centre the next nodes on the ring, in different racks as far as possible.
//!
//! Once around the ring, from the range's end on, for each data centre by itself:
//! 1. A node in a rack that has no replica yet is taken.
//! 2. A node in a rack that has one is taken if the factor is larger than the number of racks, at most as often as it
//!    is larger.
//!
//! This is what Cassandra does, so that data directories that are taken over have the ranges that they had.

use super::ring::{Ranges, around};
use crate::topology::{DataCenter, NodeIndex, Ring, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// What one data centre still lacks while the replicas of a range are chosen.
struct Demand<'t> {
    data_center: DataCenter,
    /// Replicas to be chosen.
    left: usize,
    /// How many of them may be in racks that have a replica.
    repeats: usize,
    /// Racks that have a replica.
    racks: Vec<&'t str>,
}

/// The ranges of the ring with `factors` replicas by data centre, or as many as the data centre has nodes with tokens.
pub(super) fn ranges(topology: &Topology, ring: &Ring, factors: &BTreeMap<String, u32>) -> Ranges {
    let nodes: BTreeSet<NodeIndex> = ring.iter().map(|(_, node)| *node).collect();
    let rack = |node: NodeIndex| topology.node(node).rack.as_str();
    let demand = |(name, factor): (&String, &u32)| {
        let data_center = topology.data_center(name)?;
        let members = nodes.iter().filter(|node| topology.data_center_of(**node) == data_center);
        let racks: BTreeSet<&str> = members.clone().map(|node| rack(*node)).collect();
        let factor = *factor as usize;
        let repeats = factor.saturating_sub(racks.len());
        Some((data_center, factor.min(members.count()), repeats))
    };
    let demands: Vec<(DataCenter, usize, usize)> = factors.iter().filter_map(demand).collect();
    Ranges::of_ring(ring, |start, chosen| {
        let open = |&(data_center, left, repeats)| Demand { data_center, left, repeats, racks: Vec::new() };
        let mut demands: Vec<Demand<'_>> = demands.iter().map(open).collect();
        for at in around(start, ring.len()) {
            if demands.iter().all(|demand| demand.left == 0) {
                break;
            }
            let node = ring[at].1;
            let data_center = topology.data_center_of(node);
            let wanted = |demand: &&mut Demand<'_>| demand.data_center == data_center && demand.left > 0;
            let Some(demand) = demands.iter_mut().find(wanted) else { continue };
            if chosen.contains(&node) {
                continue;
            }
            if !demand.racks.contains(&rack(node)) {
                demand.racks.push(rack(node));
            } else if demand.repeats > 0 {
                demand.repeats -= 1;
            } else {
                continue;
            }
            demand.left -= 1;
            chosen.push(node);
        }
    })
}
