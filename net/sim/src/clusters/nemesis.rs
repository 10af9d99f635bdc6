//! Faults of a cluster: one at a time or several, each with an end.

use runtime::NodeId;
use runtime::rng::Rng;
use runtime::sim::Sim;
use std::time::Duration;

/// Longest pause of a node's process.
const PAUSE_MILLIS_MAX: u64 = 8_000;
/// Furthest that a wall clock jumps, either way.
const CLOCK_STEP_MICROS_MAX: u64 = 2_000_000;

/// Something that goes wrong, and what undoes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The node crashes; it is started again.
    Crash(NodeId),
    /// Nothing passes between two nodes.
    Cut(NodeId, NodeId),
    /// Nothing passes from the first node to the second.
    CutOneWay(NodeId, NodeId),
    /// Nothing passes between the node and any other.
    Isolate(NodeId),
}

impl Fault {
    /// A random fault of these nodes.
    pub(super) fn random(rng: &mut Rng, nodes: &[NodeId]) -> Fault {
        let mut node = || nodes[rng.below(nodes.len() as u64) as usize];
        let (a, b) = (node(), node());
        match rng.below(5) {
            0 if a != b => Fault::Cut(a, b),
            1 if a != b => Fault::CutOneWay(a, b),
            2 if nodes.len() > 1 => Fault::Isolate(a),
            _ => Fault::Crash(a),
        }
    }

    /// Lets it happen. A crash is the caller's.
    pub(super) fn begin(self, sim: &mut Sim, nodes: &[NodeId]) {
        self.set(sim, nodes, true);
    }

    /// Undoes it. Starting a crashed node again is the caller's.
    pub(super) fn end(self, sim: &mut Sim, nodes: &[NodeId]) {
        self.set(sim, nodes, false);
    }

    fn set(self, sim: &mut Sim, nodes: &[NodeId], cut: bool) {
        match self {
            Fault::Crash(_) => {}
            Fault::Cut(a, b) => sim.partition(a, b, cut),
            Fault::CutOneWay(from, to) => sim.partition_one_way(from, to, cut),
            Fault::Isolate(node) => {
                nodes.iter().filter(|other| **other != node).for_each(|other| sim.partition(node, *other, cut));
            }
        }
    }
}

/// Small things that need no end: a pause of a process, a jump of a clock, or nothing.
pub(super) fn disturb(sim: &mut Sim, rng: &mut Rng, nodes: &[NodeId]) {
    let node = nodes[rng.below(nodes.len() as u64) as usize];
    match rng.below(4) {
        0 if sim.is_running(node) => sim.pause(node, Duration::from_millis(rng.below(PAUSE_MILLIS_MAX))),
        1 => {
            let micros = rng.below(2 * CLOCK_STEP_MICROS_MAX) as i64 - CLOCK_STEP_MICROS_MAX as i64;
            sim.step_wall_clock(node, micros);
        }
        _ => {}
    }
}
