//! Runs clusters of which one node is slow, and checks that the judges find planted bugs.

use sim::clusters::{Planted, run_slow_node, run_slow_node_planted};

#[test]
fn one_slow_node_slows_nobody_down() {
    let report = run_slow_node(0);
    assert!(report.violation.is_none(), "{report:#?}");
    assert!(report.requests > 1000 && report.failed > 0, "{report:#?}");
}

#[test]
fn nodes_that_wait_for_longer_than_they_should_are_found() {
    let report = run_slow_node_planted(0, Planted::PatientNodes);
    assert!(report.violation.as_ref().is_some_and(|text| text.contains("its timeout is")), "{report:#?}");
}

#[test]
fn replicas_that_are_asked_however_slow_they_are_are_found() {
    let report = run_slow_node_planted(0, Planted::SlowReplicas);
    assert!(report.violation.as_ref().is_some_and(|text| text.contains("timed out")), "{report:#?}");
}
