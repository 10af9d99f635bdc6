//! Levels counted by hand, for the tests of the plans.

use crate::topology::{LiveNodes, NodeIndex, Topology};
use model::Consistency;
use std::collections::{BTreeMap, BTreeSet};

/// The levels of plain writes and reads.
pub(super) const LEVELS: [Consistency; 9] = [
    Consistency::Any,
    Consistency::One,
    Consistency::Two,
    Consistency::Three,
    Consistency::Quorum,
    Consistency::All,
    Consistency::LocalQuorum,
    Consistency::EachQuorum,
    Consistency::LocalOne,
];

/// Some nodes alive: mostly all or all but one.
pub(super) fn random_live(topology: &Topology, below: &mut impl FnMut(u64) -> u64) -> LiveNodes {
    let all = topology.nodes().len() as u64;
    let dead: BTreeSet<u64> = match below(3) {
        0 => BTreeSet::new(),
        1 => BTreeSet::from([below(all)]),
        _ => (0..all).filter(|_| below(2) == 0).collect(),
    };
    LiveNodes::of(topology, |node| !dead.contains(&u64::from(node.0)))
}

/// What a level needs, counted from the options of the keyspace.
pub(super) struct ByHand {
    level: Consistency,
    total: usize,
    /// Factors by data centre; `None` for SimpleStrategy.
    centers: Option<BTreeMap<String, usize>>,
}

pub(super) fn by_hand(class: &str, options: &[(&str, String)], level: Consistency) -> ByHand {
    let factors = options.iter().map(|(name, factor)| (name.to_string(), factor.parse().expect("a factor")));
    let factors: BTreeMap<String, usize> = factors.filter(|(_, factor)| *factor > 0).collect();
    let total = factors.values().sum();
    ByHand { level, total, centers: (class != "SimpleStrategy").then_some(factors) }
}

impl ByHand {
    fn local(&self, topology: &Topology) -> usize {
        match &self.centers {
            None => self.total,
            Some(centers) => centers.get(&topology.node(topology.here()).data_center).copied().unwrap_or(0),
        }
    }

    fn center_of(topology: &Topology, node: NodeIndex) -> &str {
        &topology.node(node).data_center
    }

    /// Whether the level needs no answer at all, in a keyspace without replicas.
    pub(super) fn needs_none(&self, topology: &Topology) -> bool {
        self.block_for(topology) == 0
    }

    /// How many of `nodes` count.
    pub(super) fn counted(&self, topology: &Topology, nodes: &BTreeSet<NodeIndex>) -> usize {
        let here = ByHand::center_of(topology, topology.here());
        match self.level {
            Consistency::LocalOne | Consistency::LocalQuorum => {
                nodes.iter().filter(|node| ByHand::center_of(topology, **node) == here).count()
            }
            _ => nodes.len(),
        }
    }

    /// Whether answers of `nodes` are enough.
    pub(super) fn is_met(&self, topology: &Topology, nodes: &BTreeSet<NodeIndex>) -> bool {
        let counted = self.counted(topology, nodes);
        match (self.level, &self.centers) {
            (Consistency::EachQuorum, Some(centers)) => {
                !centers.is_empty()
                    && centers.iter().all(|(name, factor)| {
                        nodes.iter().filter(|node| ByHand::center_of(topology, **node) == name).count() > factor / 2
                    })
            }
            (Consistency::LocalQuorum, _) => counted > self.local(topology) / 2,
            (Consistency::Quorum | Consistency::EachQuorum, _) => counted > self.total / 2,
            (Consistency::All, _) => self.total > 0 && counted >= self.total,
            (Consistency::Two, _) => counted >= 2,
            (Consistency::Three, _) => counted >= 3,
            _ => counted >= 1,
        }
    }

    /// The number that errors give.
    pub(super) fn block_for(&self, topology: &Topology) -> i32 {
        let number = match (self.level, &self.centers) {
            (Consistency::EachQuorum, Some(centers)) => centers.values().map(|factor| factor / 2 + 1).sum(),
            (Consistency::LocalQuorum, _) => self.local(topology) / 2 + 1,
            (Consistency::Quorum | Consistency::EachQuorum, _) => self.total / 2 + 1,
            (Consistency::All, _) => self.total,
            (Consistency::Two, _) => 2,
            (Consistency::Three, _) => 3,
            _ => 1,
        };
        number as i32
    }
}
