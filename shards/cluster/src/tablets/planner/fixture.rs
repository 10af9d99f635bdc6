//! Clusters for the planner's tests, and what becomes of them when its changes are made.

use super::{Limits, PlannedNode, TableView, TabletFigures};
use crate::tablets::{TabletMap, TabletsUpdate};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

pub(super) fn id(number: usize) -> Uuid {
    Uuid::from_u128(number as u128)
}

/// A node of one core in data centre 1.
pub(super) fn node(number: usize, rack: usize) -> PlannedNode {
    PlannedNode {
        host_id: id(number),
        data_center: "dc1".to_string(),
        rack: format!("r{rack}"),
        weight: 1,
        may_gain: true,
        leaves: false,
    }
}

pub(super) fn factors(of: &[(&str, u32)]) -> BTreeMap<String, u32> {
    of.iter().map(|(name, factor)| (name.to_string(), *factor)).collect()
}

/// Nodes of one or two data centres, of one to four racks each, of one to eight cores.
pub(super) fn random_nodes(random: &mut Random, most: u64) -> Vec<PlannedNode> {
    let (count, data_centers, racks) = (1 + random.below(most) as usize, 1 + random.below(2), 1 + random.below(4));
    let random_node = |number: usize| PlannedNode {
        data_center: format!("dc{}", 1 + random.below(data_centers)),
        weight: 1 + random.below(8) as u32,
        ..node(number, random.below(racks) as usize)
    };
    (1..=count).map(random_node).collect()
}

/// A table of a cluster under test.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) id: [u8; 16],
    pub(super) map: TabletMap,
    pub(super) figures: Vec<TabletFigures>,
}

impl Table {
    pub(super) fn new(number: usize, map: TabletMap, bytes: impl FnMut(usize) -> u64) -> Table {
        let figures = (0..map.tablets.len()).map(bytes).map(|bytes| TabletFigures { bytes, ..Default::default() });
        Table { id: id(number).into_bytes(), figures: figures.collect(), map }
    }
}

pub(super) fn views<'a>(tables: &'a [Table]) -> Vec<TableView<'a>> {
    let view = |table: &'a Table| {
        let Table { id, map, figures } = table;
        TableView { id: *id, map, figures, limits: Limits::default() }
    };
    tables.iter().map(view).collect()
}

/// Sets goals, and ends the operation that reaches them. Returns how many tablets changed their replicas.
pub(super) fn make(updates: &[TabletsUpdate], tables: &mut [Table]) -> usize {
    let mut moves = 0;
    for update in updates {
        let table = tables.iter_mut().find(|table| table.id == update.table).expect("a table");
        table.map = update.applied(Some(&table.map)).expect("changes that fit").expect("it stays");
        moves += reach(&mut table.map);
    }
    moves
}

/// Makes goals the replicas.
pub(super) fn reach(map: &mut TabletMap) -> usize {
    let mut moves = 0;
    for tablet in &mut map.tablets {
        if let Some(goal) = tablet.goal.take() {
            moves += 1;
            tablet.replicas = goal;
        }
    }
    moves
}

/// What each node has: bytes and tablets.
pub(super) fn loads(tables: &[Table]) -> BTreeMap<Uuid, (u64, u64)> {
    let mut loads = BTreeMap::new();
    for table in tables {
        for (tablet, figures) in table.map.tablets.iter().zip(&table.figures) {
            for host_id in &tablet.replicas {
                let load: &mut (u64, u64) = loads.entry(*host_id).or_default();
                *load = (load.0 + figures.bytes, load.1 + 1);
            }
        }
    }
    loads
}

/// The number of replicas of a tablet in a data centre, and of their racks.
pub(super) fn spread(nodes: &[PlannedNode], replicas: &[Uuid], data_center: &str) -> (usize, usize) {
    let there = nodes.iter().filter(|node| replicas.contains(&node.host_id) && node.data_center == data_center);
    (there.clone().count(), there.map(|node| &node.rack).collect::<BTreeSet<_>>().len())
}

/// The number of nodes in a data centre that satisfy a condition, and of their racks.
pub(super) fn room(
    nodes: &[PlannedNode],
    data_center: &str,
    mut is_open: impl FnMut(&PlannedNode) -> bool,
) -> (usize, usize) {
    let open: Vec<Uuid> = nodes.iter().filter(|node| is_open(node)).map(|node| node.host_id).collect();
    spread(nodes, &open, data_center)
}
