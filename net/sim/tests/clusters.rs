//! Runs a few seeds of clusters, and checks that equal seeds give equal runs.

use sim::clusters::run_cluster;

#[test]
fn clusters_agree_on_every_change_of_the_schema() {
    let broken: Vec<_> = (0..12).map(run_cluster).filter(|report| report.violation.is_some()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn equal_seeds_give_equal_clusters() {
    let (first, second) = (run_cluster(5), run_cluster(5));
    assert_eq!(first, second);
    assert_ne!(first.trace_hash, run_cluster(6).trace_hash);
}
