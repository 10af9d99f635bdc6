//! The batch log: which nodes keep a logged batch until all of its mutations are written.
//!
//! 1. They are two of this node's data centre: alive, not this one, and of two racks if there are two. Racks other than
//!    this node's come first, unless the strategy says otherwise. If there are several of a kind, chance chooses, or
//!    those come first that have not been slow.
//! 2. If only one such node is alive, that one keeps the batch alone. A node that cannot be connected to counts as one
//!    that is not alive, although nobody is sure of that yet, unless no other can be connected to either.
//! 3. A data centre of one or two nodes has no choice: all of them are asked, alive or not, this one as well.
//!
//! These are the rules of Cassandra's option `batchlog_endpoint_strategy`.
//!
//! Invariants: a node is chosen once; no node of another data centre is.

use super::tally::{OnlyReplica, Tally};
use super::write::{WritePlan, WriteType};
use crate::consistency::{Requirement, Scope, unavailable};
use crate::placement::Replica;
use crate::topology::{Node, NodeIndex, Topology};
use model::{Consistency, Failure};
use smallvec::SmallVec;

/// How many nodes keep a batch, if there are as many.
const HOLDERS: usize = 2;

/// The nodes that keep a batch.
type Holders = SmallVec<[NodeIndex; HOLDERS]>;

/// Which nodes keep batches, by the names of `batchlog_endpoint_strategy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BatchLogStrategy {
    /// Nodes of other racks than this one's, if those have two that are alive.
    #[default]
    RandomRemote,
    /// A node of this node's rack, and one of another.
    PreferLocal,
    /// As `RandomRemote`, but nodes that have been slow come after the others.
    DynamicRemote,
    /// Nodes of all racks; those that have been slow come after the others.
    Dynamic,
}

impl WritePlan {
    /// A write of a batch, which its client wants written at `level`, into the batch log. On this node the core `shard`
    /// has it; which core of another node has it is decided there. `below` gives a random number below its argument,
    /// `is_reachable` whether this node has connections to another one, as far as it knows.
    ///
    /// # Errors
    /// Unavailable if the data centre has more than two nodes, and no other is alive.
    pub fn of_batch_log(
        topology: &Topology,
        shard: u16,
        level: Consistency,
        strategy: BatchLogStrategy,
        below: impl FnMut(usize) -> usize,
        is_reachable: impl Fn(&Node) -> bool,
    ) -> Result<WritePlan, Failure> {
        let holders = holders(topology, strategy, below, is_reachable);
        let replica = |node: NodeIndex| Replica { node, shard: if node == topology.here() { shard } else { 0 } };
        let here = topology.data_center_of(topology.here());
        let requirement = |level, block_for| Requirement { level, block_for, scope: Scope::All, here };
        match holders[..] {
            [] => Err(too_few(level)),
            [node] => {
                let only = OnlyReplica::new(requirement(Consistency::One, 1), replica(node), topology);
                Ok(WritePlan::to_one(only, WriteType::BatchLog))
            }
            _ => {
                let members = holders.into_iter().map(replica);
                let tally = Tally::of(requirement(Consistency::Two, HOLDERS as u32), members, topology);
                Ok(WritePlan::to_all(tally, WriteType::BatchLog))
            }
        }
    }
}

/// The failure of a batch that no other node can keep. At ANY this node would, but one is too few.
fn too_few(level: Consistency) -> Failure {
    let two = Consistency::Two.name();
    let (text, alive) = match level {
        Consistency::Any => (format!("Cannot achieve consistency level {two}"), 1),
        _ => {
            let text = format!(
                "Cannot achieve consistency level {two} for batchlog in local DC, required:{HOLDERS}, available:0"
            );
            (text, 0)
        }
    };
    unavailable(Consistency::Two, text, HOLDERS as u32, alive)
}

fn holders(
    topology: &Topology,
    strategy: BatchLogStrategy,
    mut below: impl FnMut(usize) -> usize,
    is_reachable: impl Fn(&Node) -> bool,
) -> Holders {
    let here = topology.node(topology.here());
    let all = || (0..topology.nodes().len() as u16).map(NodeIndex);
    let center = topology.data_center_of(topology.here());
    let near = || all().filter(|node| topology.data_center_of(*node) == center);
    if near().count() <= HOLDERS {
        return near().collect();
    }
    let rack = |node: NodeIndex| &topology.node(node).rack;
    let is_local = |node: &NodeIndex| *rack(*node) == here.rack;
    let mut alive: Vec<NodeIndex> =
        near().filter(|node| *node != topology.here() && topology.live().contains(*node)).collect();
    if alive.iter().any(|node| is_reachable(topology.node(*node))) {
        alive.retain(|node| is_reachable(topology.node(*node)));
    }
    if alive.len() <= HOLDERS {
        return alive.into_iter().collect();
    }
    let remote = alive.iter().filter(|node| !is_local(node)).count();
    let is_remote = matches!(strategy, BatchLogStrategy::RandomRemote | BatchLogStrategy::DynamicRemote);
    if is_remote && remote >= HOLDERS {
        alive.retain(|node| !is_local(node));
    }
    if matches!(strategy, BatchLogStrategy::Dynamic | BatchLogStrategy::DynamicRemote) {
        (1..alive.len()).for_each(|at| alive.swap(at, below(at + 1)));
        alive.sort_by_key(|node| topology.latencies().is_slow(*node));
        let first = alive[0];
        let second = alive.iter().find(|node| rack(**node) != rack(first)).unwrap_or(&alive[1]);
        return Holders::from([first, *second]);
    }
    let mut names: Vec<&String> = alive.iter().map(|node| rack(*node)).collect();
    names.sort_unstable();
    names.dedup();
    if let [_] = names[..] {
        let first = alive.swap_remove(below(alive.len()));
        let second = alive[below(alive.len())];
        return Holders::from([first, second]);
    }
    let mut chosen: SmallVec<[&String; HOLDERS]> = SmallVec::new();
    if strategy == BatchLogStrategy::PreferLocal
        && let Some(at) = names.iter().position(|name| **name == here.rack)
    {
        chosen.push(names.remove(at));
    }
    while chosen.len() < HOLDERS {
        chosen.push(names.swap_remove(below(names.len())));
    }
    let member = |name: &String| {
        let members = || alive.iter().filter(|node| rack(**node) == name);
        members().nth(below(members().count())).copied()
    };
    chosen.into_iter().filter_map(member).collect()
}

#[cfg(test)]
#[path = "batch_log_tests.rs"]
mod tests;
