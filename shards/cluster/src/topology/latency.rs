//! How fast nodes have answered reads of late, by which those that are slow are asked after the others: what Cassandra
//! calls a dynamic snitch.
//!
//! 1. Every answer to a read of one partition is a sample. A node that was not waited for to the end has taken at least
//!    as long as it was waited for.
//! 2. A node's latency is a moving average of its samples.
//! 3. A node is slow if its latency exceeds that of the fastest other one in its data centre by the threshold, and by
//!    [`SLOWER_MIN`].
//! 4. To see whether a slow node still is, one read may ask it again after [`PROBE_FIRST`]; each time in vain doubles
//!    the wait, up to [`PROBE_LAST`].
//!
//! Times are those of one clock that never goes back, from any beginning.

use super::{DataCenter, NodeIndex};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A node is not slow whose answers come this little later than those of the fastest.
pub const SLOWER_MIN: Duration = Duration::from_millis(5);
/// How long a node that became slow stays so.
pub const PROBE_FIRST: Duration = Duration::from_secs(1);
/// How long it stays so at most, once it was found slow again and again.
pub const PROBE_LAST: Duration = Duration::from_secs(8);
/// The newest sample counts as one part of this many in a node's latency.
const SAMPLE_PARTS: u32 = 4;

/// The options of Cassandra's that begin with `dynamic_snitch`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DynamicSnitch {
    /// `dynamic_snitch_badness_threshold`: by how much a slow node is slower than the fastest, 1.0 for twice as slow.
    pub badness_threshold: f64,
    /// `dynamic_snitch_update_interval`: how long nodes are taken for fast, however their latencies change, after the
    /// last look at them. A sample that may make a node slow is looked at at once.
    pub update_interval: Duration,
    /// `dynamic_snitch_reset_interval`: after this time everything is forgotten.
    pub reset_interval: Duration,
}

impl Default for DynamicSnitch {
    fn default() -> DynamicSnitch {
        DynamicSnitch {
            badness_threshold: 1.0,
            update_interval: Duration::from_millis(100),
            reset_interval: Duration::from_secs(600),
        }
    }
}

/// The latencies of the nodes of a topology, as one core has seen them.
#[derive(Clone, Debug)]
pub struct NodeLatencies {
    /// The data centre of each node.
    located: Vec<DataCenter>,
    /// `None`: nothing is measured, and no node is slow.
    options: Option<DynamicSnitch>,
    nodes: RefCell<Vec<NodeLatency>>,
    /// Which nodes are slow: one for each of them.
    slow: Vec<Cell<bool>>,
    /// When it was last found out which nodes are slow.
    looked_at: Cell<Duration>,
    /// When everything was last forgotten.
    reset_at: Cell<Duration>,
}

#[derive(Clone, Copy, Default, Debug)]
struct NodeLatency {
    /// `None` without samples.
    average: Option<Duration>,
    /// Until when the node is slow, if it is.
    slow_until: Duration,
    /// For how long it was slow last; zero if it was found fast since.
    slow_for: Duration,
    /// Whether the next read may ask it, though it has been slow.
    is_tried: bool,
}

impl NodeLatencies {
    /// Of nodes in these data centres; nothing is measured.
    pub(crate) fn new(located: Vec<DataCenter>) -> NodeLatencies {
        let nodes = located.len();
        NodeLatencies {
            located,
            options: None,
            nodes: RefCell::new(vec![NodeLatency::default(); nodes]),
            slow: vec![Cell::new(false); nodes],
            looked_at: Cell::new(Duration::ZERO),
            reset_at: Cell::new(Duration::ZERO),
        }
    }

    /// Begins to measure.
    pub(crate) fn measure(&mut self, options: DynamicSnitch) {
        self.options = Some(options);
    }

    /// Whether a node is to be asked after the others of its data centre.
    #[inline]
    pub fn is_slow(&self, node: NodeIndex) -> bool {
        self.slow[usize::from(node.0)].get()
    }

    /// Notes that a node is asked at `now`. If that is to see whether it is still slow, no other read asks it
    /// meanwhile.
    pub fn asked(&self, node: NodeIndex, now: Duration) {
        let at = usize::from(node.0);
        if self.options.is_none() || self.slow[at].get() {
            return;
        }
        let node = &mut self.nodes.borrow_mut()[at];
        if node.is_tried {
            self.slow[at].set(true);
            node.slow_until = now + PROBE_LAST;
        }
    }

    /// Takes the time in which a node has answered, at `now`.
    pub fn answered(&self, node: NodeIndex, took: Duration, now: Duration) {
        self.sample(node, |_| true, took, now);
    }

    /// Takes the time for which a node was waited for in vain, at `now`.
    pub fn unanswered(&self, node: NodeIndex, waited: Duration, now: Duration) {
        self.sample(node, |average| waited > average, waited, now);
    }

    fn sample(&self, node: NodeIndex, counts: impl Fn(Duration) -> bool, took: Duration, now: Duration) {
        let Some(options) = self.options else { return };
        if now.saturating_sub(self.reset_at.get()) >= options.reset_interval {
            self.reset_at.set(now);
            self.nodes.borrow_mut().fill(NodeLatency::default());
            self.slow.iter().for_each(|slow| slow.set(false));
        }
        let mut nodes = self.nodes.borrow_mut();
        let own = &mut nodes[usize::from(node.0)];
        if own.average.is_some_and(|average| !counts(average)) {
            return;
        }
        if std::mem::take(&mut own.is_tried) {
            self.slow[usize::from(node.0)].set(false);
        }
        let average = own.average.map_or(took, |average| (average * (SAMPLE_PARTS - 1) + took) / SAMPLE_PARTS);
        own.average = Some(average);
        let others = (0..nodes.len()).filter(|at| *at != usize::from(node.0));
        let fastest = others.filter_map(|at| nodes[at].average).min();
        let may_be_slow = !self.is_slow(node) && fastest.is_some_and(|fastest| average > fastest + SLOWER_MIN);
        if may_be_slow || now.saturating_sub(self.looked_at.get()) >= options.update_interval {
            self.looked_at.set(now);
            self.look(&mut nodes, options.badness_threshold, now);
        }
    }

    /// Finds out which nodes are slow.
    fn look(&self, nodes: &mut [NodeLatency], badness_threshold: f64, now: Duration) {
        for at in 0..nodes.len() {
            if self.slow[at].get() {
                if now >= nodes[at].slow_until {
                    self.slow[at].set(false);
                    (nodes[at].average, nodes[at].is_tried) = (None, true);
                }
                continue;
            }
            let Some(average) = nodes[at].average else { continue };
            let others = (0..nodes.len()).filter(|other| *other != at && self.located[*other] == self.located[at]);
            let fastest = others.filter_map(|other| nodes[other].average).min();
            let is_slow = fastest.is_some_and(|fastest| {
                average > fastest + SLOWER_MIN && average > fastest.mul_f64(1.0 + badness_threshold.max(0.0))
            });
            let node = &mut nodes[at];
            node.slow_for = if is_slow { (node.slow_for * 2).clamp(PROBE_FIRST, PROBE_LAST) } else { Duration::ZERO };
            node.slow_until = now + node.slow_for;
            self.slow[at].set(is_slow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(500);
    const LATE: Duration = Duration::from_millis(40);

    /// Three nodes of one data centre, and a far one.
    fn latencies() -> NodeLatencies {
        let mut latencies = NodeLatencies::new([0, 0, 0, 1].map(DataCenter).to_vec());
        latencies.measure(DynamicSnitch::default());
        latencies
    }

    fn slow(latencies: &NodeLatencies) -> Vec<u16> {
        (0..4).filter(|node| latencies.is_slow(NodeIndex(*node))).collect()
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_node_that_does_not_answer_is_slow_after_some_reads() {
        let latencies = latencies();
        for at in 0..200 {
            (0..3).for_each(|node| latencies.answered(NodeIndex(node), FAST, millis(at)));
            latencies.answered(NodeIndex(3), LATE, millis(at));
        }
        assert!(slow(&latencies).is_empty(), "the far node is the only one in its data centre");
        let mut reads = 0;
        while slow(&latencies).is_empty() {
            latencies.unanswered(NodeIndex(1), millis(15), millis(200 + reads));
            reads += 1;
        }
        assert_eq!((slow(&latencies), reads), (vec![1], 2));
    }

    #[test]
    fn a_slow_node_is_tried_less_and_less_often_until_it_is_fast() {
        let latencies = latencies();
        let mut tried = Vec::new();
        let mut was_slow = false;
        for at in 0..20_000 {
            let now = millis(at);
            [0, 2].iter().for_each(|node| latencies.answered(NodeIndex(*node), FAST, now));
            let is_slow = latencies.is_slow(NodeIndex(1));
            if was_slow && !is_slow {
                tried.push(at / 1_000);
            }
            was_slow = is_slow;
            if !is_slow {
                let took = if at < 12_000 { LATE } else { FAST };
                latencies.answered(NodeIndex(1), took, now);
            }
        }
        assert_eq!(tried, [1, 3, 7, 15], "after one second, then two, four and eight");
        assert!(slow(&latencies).is_empty());
    }

    #[test]
    fn one_read_tries_a_slow_node() {
        let latencies = latencies();
        let others = |now| [0, 2].iter().for_each(|node| latencies.answered(NodeIndex(*node), FAST, now));
        others(millis(1));
        latencies.answered(NodeIndex(1), LATE, millis(2));
        assert_eq!(slow(&latencies), [1]);
        others(millis(1_100));
        assert!(slow(&latencies).is_empty(), "it may be tried");
        latencies.asked(NodeIndex(0), millis(1_100));
        latencies.asked(NodeIndex(1), millis(1_100));
        assert_eq!(slow(&latencies), [1], "by one read");
        others(millis(1_300));
        assert_eq!(slow(&latencies), [1], "as long as that has no answer");
        latencies.answered(NodeIndex(1), FAST, millis(1_400));
        assert!(slow(&latencies).is_empty());
        latencies.asked(NodeIndex(1), millis(1_500));
        assert!(slow(&latencies).is_empty(), "it is asked like the others");
    }

    #[test]
    fn small_differences_do_not_count() {
        let latencies = latencies();
        for at in 0..1_000 {
            latencies.answered(NodeIndex(0), FAST, millis(at));
            latencies.answered(NodeIndex(1), FAST * 10, millis(at));
            latencies.answered(NodeIndex(2), FAST, millis(at));
        }
        assert!(slow(&latencies).is_empty(), "4.5 ms are less than the least that counts");
        let mut lenient = self::latencies();
        lenient.measure(DynamicSnitch { badness_threshold: 9.0, ..DynamicSnitch::default() });
        for at in 0..1_000 {
            lenient.answered(NodeIndex(0), millis(10), millis(at));
            lenient.answered(NodeIndex(1), millis(90), millis(at));
            lenient.answered(NodeIndex(2), millis(101), millis(at));
        }
        assert_eq!(slow(&lenient), [2], "more than ten times as slow");
    }

    #[test]
    fn everything_is_forgotten_in_the_end() {
        let latencies = latencies();
        latencies.answered(NodeIndex(0), FAST, millis(1));
        latencies.answered(NodeIndex(1), LATE, millis(2));
        assert_eq!(slow(&latencies), [1]);
        latencies.answered(NodeIndex(0), FAST, DynamicSnitch::default().reset_interval);
        assert!(slow(&latencies).is_empty());
    }

    #[test]
    fn without_measuring_no_node_is_slow() {
        let latencies = NodeLatencies::new([0, 0].map(DataCenter).to_vec());
        latencies.answered(NodeIndex(0), FAST, millis(1));
        latencies.answered(NodeIndex(1), LATE, millis(200));
        assert!((0..2).all(|node| !latencies.is_slow(NodeIndex(node))));
    }
}
