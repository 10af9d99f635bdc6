//! Truncations on several nodes.

use super::*;
use crate::topology::tests::topology;
use model::failure::Detail;

/// Three nodes, the last of which has these features.
fn three_with(features: u64) -> Topology {
    let mut nodes = topology(&[("dc1", "r1", &[0]), ("dc1", "r1", &[1]), ("dc2", "r1", &[])], 1).nodes().to_vec();
    nodes[2].features = features;
    Topology::new(nodes, NodeIndex(1), 1)
}

fn three() -> Topology {
    three_with(features::ALL)
}

fn all(topology: &Topology) -> LiveNodes {
    LiveNodes::of(topology, |_| true)
}

#[test]
fn a_node_that_is_down_owes_the_truncation() {
    let topology = three();
    let mut plan = TruncatePlan::new(&topology, &LiveNodes::of(&topology, |node| node.0 < 2)).expect("it can owe it");
    assert_eq!(plan.targets(), [0, 1].map(NodeIndex));
    assert_eq!(plan.take_absent(), [NodeIndex(2)]);
    assert_eq!(plan.truncated(NodeIndex(0), &topology), None);
    let down = Failure::overloaded("gone").with(Detail::Replica { reason: FailureReason::NodeDown });
    assert_eq!(plan.failed(NodeIndex(1), down, &topology), Some(Ok(())));
    assert_eq!((plan.take_absent(), plan.take_absent()), (vec![NodeIndex(1)], vec![]));
}

#[test]
fn all_nodes_must_be_alive_if_one_cannot_owe_a_truncation() {
    let topology = three_with(features::RELAYED_WRITES);
    let failure = TruncatePlan::new(&topology, &LiveNodes::of(&topology, |node| node.0 < 2)).expect_err("one is down");
    assert_eq!(failure.code, ErrorCode::Truncate);
    assert_eq!(failure.text, "Error during truncate: Cannot achieve consistency level ALL");
    assert_eq!(failure.outcome, Outcome::NotApplied);
}

#[test]
fn it_is_done_when_all_nodes_have_done_it() {
    let topology = three();
    let mut plan = TruncatePlan::new(&topology, &all(&topology)).expect("alive");
    assert_eq!(plan.targets(), [0, 1, 2].map(NodeIndex));
    assert_eq!(plan.truncated(NodeIndex(1), &topology), None);
    assert_eq!(plan.truncated(NodeIndex(1), &topology), None, "a repeated answer counts once");
    assert_eq!(plan.truncated(NodeIndex(0), &topology), None);
    let failure = plan.expired();
    assert_eq!(failure.text, "Error during truncate: Truncate timed out - received only 2 responses");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Truncate, Outcome::Unknown));
    assert_eq!(plan.truncated(NodeIndex(2), &topology), Some(Ok(())));
}

#[test]
fn nodes_that_failed_are_named() {
    let topology = three();
    let refused = |reason| Failure::overloaded("full").with(Detail::Replica { reason });
    let run = |reasons: [Option<FailureReason>; 3]| {
        let mut plan = TruncatePlan::new(&topology, &all(&topology)).expect("alive");
        let mut told = None;
        for (node, reason) in (0..).map(NodeIndex).zip(reasons) {
            told = match reason {
                None => plan.truncated(node, &topology),
                Some(reason) => plan.failed(node, refused(reason), &topology),
            };
        }
        told.expect("all have answered").expect_err("not all did it")
    };
    let failure = run([None, Some(FailureReason::Unknown), Some(FailureReason::IncompatibleSchema)]);
    assert_eq!(
        failure.text,
        "Truncate failed on replica /127.0.0.2:7000 -> UNKNOWN, replica /127.0.0.3:7000 -> INCOMPATIBLE_SCHEMA"
    );
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Truncate, Outcome::Unknown));
    assert_eq!(run([Some(FailureReason::Unknown); 3]).outcome, Outcome::NotApplied, "no node has done it");
    let late = run([None, None, Some(FailureReason::Timeout)]);
    assert_eq!(late.text, "Error during truncate: Truncate timed out - received only 2 responses");
}

#[test]
fn the_refusal_of_the_only_node_is_passed_on() {
    let topology = topology(&[("dc1", "r1", &[0])], 1);
    let mut plan = TruncatePlan::new(&topology, &all(&topology)).expect("alive");
    let refused = Failure::overloaded("full");
    assert_eq!(plan.failed(NodeIndex(0), refused.clone(), &topology), Some(Err(refused)));
}
