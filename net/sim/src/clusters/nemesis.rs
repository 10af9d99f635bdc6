//! Faults of a cluster: one at a time or several, each with an end.

use runtime::NodeId;
use runtime::rng::Rng;
use runtime::sim::{DiskCall, Options, Sim};
use std::io;
use std::time::Duration;

/// Longest pause of a node's process.
const PAUSE_MILLIS_MAX: u64 = 8_000;
/// Furthest that a wall clock is moved from where it was at the node's start, either way. Two nodes then differ by less
/// than what makes one of them unfit to join.
const CLOCK_STEP_MICROS_MAX: u64 = 3_000_000;
/// Calls on a disk before it fails, at most.
const DISK_CALLS_MAX: u64 = 40;

/// Something that goes wrong, and what undoes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The node crashes; it is started again.
    Crash(NodeId),
    /// The node loses its disk: it is removed from the ring, and comes back as a new node.
    Wipe(NodeId),
    /// Nothing that the node writes becomes durable after this many calls; it is started again with a new disk
    /// controller.
    FailingDisk(NodeId, u64),
    /// Nothing passes between two nodes.
    Cut(NodeId, NodeId),
    /// Nothing passes from the first node to the second.
    CutOneWay(NodeId, NodeId),
    /// Nothing passes between the node and any other.
    Isolate(NodeId),
    /// All messages take long, and overtake each other on different connections.
    SlowNetwork,
    /// Connections break all the time.
    LossyNetwork,
    /// All disks are slow.
    SlowDisks,
}

impl Fault {
    /// A random fault of these nodes. Those of `lasting` are never wiped.
    pub(super) fn random(rng: &mut Rng, nodes: &[NodeId], lasting: &[NodeId]) -> Fault {
        let mut node = || nodes[rng.below(nodes.len() as u64) as usize];
        let (a, b) = (node(), node());
        match rng.below(12) {
            0 | 1 if a != b => Fault::Cut(a, b),
            2 | 3 if a != b => Fault::CutOneWay(a, b),
            4 | 5 if nodes.len() > 1 => Fault::Isolate(a),
            6 => Fault::SlowNetwork,
            7 => Fault::LossyNetwork,
            8 => Fault::SlowDisks,
            9 => Fault::FailingDisk(a, rng.below(DISK_CALLS_MAX)),
            10 if !lasting.contains(&a) => Fault::Wipe(a),
            _ => Fault::Crash(a),
        }
    }

    /// Lets it happen. Crashes are the caller's.
    pub(super) fn begin(self, sim: &mut Sim, nodes: &[NodeId]) {
        let calm = Options::default();
        let millis = Duration::from_millis;
        match self {
            Fault::SlowNetwork => sim.set_options(Options { network_latency: (millis(1), millis(300)), ..calm }),
            Fault::LossyNetwork => sim.set_options(Options { network_reset: 0.02, ..calm }),
            Fault::SlowDisks => sim.set_options(Options { disk_latency: (millis(1), millis(100)), ..calm }),
            Fault::FailingDisk(node, calls) => {
                let mut seen = 0;
                sim.set_disk_fault(node, move |call, _| {
                    let is_durable = matches!(call, DiskCall::Sync | DiskCall::WriteDurable);
                    seen += u64::from(is_durable);
                    (is_durable && seen > calls).then(|| io::ErrorKind::Other.into())
                });
            }
            _ => self.set_cuts(sim, nodes, true),
        }
    }

    /// Undoes it. Starting nodes again is the caller's.
    pub(super) fn end(self, sim: &mut Sim, nodes: &[NodeId]) {
        match self {
            Fault::SlowNetwork | Fault::LossyNetwork | Fault::SlowDisks => sim.set_options(Options::default()),
            Fault::FailingDisk(node, _) => sim.clear_disk_fault(node),
            _ => self.set_cuts(sim, nodes, false),
        }
    }

    fn set_cuts(self, sim: &mut Sim, nodes: &[NodeId], cut: bool) {
        match self {
            Fault::Cut(a, b) => sim.partition(a, b, cut),
            Fault::CutOneWay(from, to) => sim.partition_one_way(from, to, cut),
            Fault::Isolate(node) => {
                nodes.iter().filter(|other| **other != node).for_each(|other| sim.partition(node, *other, cut));
            }
            _ => {}
        }
    }
}

/// A small thing that needs no end.
pub(super) enum Disturbance {
    /// A node's process stands still for this long.
    Pause(Duration),
    /// A node's wall clock jumped to this many microseconds from where it was at the node's start.
    Clock(i64),
}

/// Disturbs a node whose wall clock has been moved by `moved` microseconds so far, or not.
pub(super) fn disturb(sim: &mut Sim, rng: &mut Rng, node: NodeId, moved: i64) -> Option<Disturbance> {
    match rng.below(4) {
        0 if sim.is_running(node) => {
            let pause = Duration::from_millis(rng.below(PAUSE_MILLIS_MAX));
            sim.pause(node, pause);
            Some(Disturbance::Pause(pause))
        }
        1 => {
            let to = rng.below(2 * CLOCK_STEP_MICROS_MAX) as i64 - CLOCK_STEP_MICROS_MAX as i64;
            sim.step_wall_clock(node, to - moved);
            Some(Disturbance::Clock(to))
        }
        _ => None,
    }
}
