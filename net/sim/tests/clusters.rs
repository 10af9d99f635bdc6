//! Runs a few seeds of clusters, and checks that equal seeds give equal runs.

use sim::clusters::{run_cluster, run_missed_change};

#[test]
fn clusters_agree_on_every_change_of_the_schema() {
    let broken: Vec<_> = (0..12).map(run_cluster).filter(|report| report.violation.is_some()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_node_that_was_down_names_the_version_of_the_others() {
    (0..4).for_each(|seed| run_missed_change(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}")));
}

#[test]
fn equal_seeds_give_equal_clusters() {
    let (first, second) = (run_cluster(5), run_cluster(5));
    assert_eq!(first, second);
    assert_ne!(first.trace_hash, run_cluster(6).trace_hash);
}
