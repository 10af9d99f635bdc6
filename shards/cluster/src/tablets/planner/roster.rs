//! The nodes of a plan by number, with their data centres and racks as numbers.

use super::PlannedNode;
use model::HashMap;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Nodes in the order of their ids, whatever order they came in.
pub(super) struct Roster<'a> {
    /// The nodes; a *place* is a position here.
    pub(super) nodes: Vec<&'a PlannedNode>,
    /// The number of each node's data centre, by place.
    pub(super) data_center: Vec<usize>,
    /// The number of each node's rack, by place; racks of two data centres are different ones.
    pub(super) rack: Vec<usize>,
    /// The names of data centres, in order.
    pub(super) data_centers: Vec<&'a str>,
    /// The number of racks.
    pub(super) racks: usize,
    places: HashMap<Uuid, usize>,
}

impl<'a> Roster<'a> {
    /// # Panics
    /// If a node has no weight.
    pub(super) fn new(nodes: &'a [PlannedNode]) -> Roster<'a> {
        let mut sorted: Vec<&PlannedNode> = nodes.iter().collect();
        sorted.sort_by_key(|node| node.host_id);
        sorted.dedup_by_key(|node| node.host_id);
        assert!(sorted.iter().all(|node| node.weight > 0), "a node without weight");
        let mut data_centers: Vec<&str> = sorted.iter().map(|node| node.data_center.as_str()).collect();
        data_centers.sort_unstable();
        data_centers.dedup();
        let mut racks: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for node in &sorted {
            let next = racks.len();
            racks.entry((&node.data_center, &node.rack)).or_insert(next);
        }
        let number = |node: &&PlannedNode| data_centers.partition_point(|name| *name < node.data_center.as_str());
        Roster {
            data_center: sorted.iter().map(number).collect(),
            rack: sorted.iter().map(|node| racks[&(node.data_center.as_str(), node.rack.as_str())]).collect(),
            places: sorted.iter().enumerate().map(|(place, node)| (node.host_id, place)).collect(),
            racks: racks.len(),
            data_centers,
            nodes: sorted,
        }
    }

    /// The place of a node.
    pub(super) fn place(&self, host_id: Uuid) -> Option<usize> {
        self.places.get(&host_id).copied()
    }

    /// The weight of the node at a place.
    pub(super) fn weight(&self, place: usize) -> f64 {
        f64::from(self.nodes[place].weight)
    }
}
