//! Runs a few seeds of clusters, and checks that equal seeds give equal runs, and that judges find planted bugs.

use sim::clusters::{
    Planted, Scale, run_agreement, run_cluster, run_crash_while_joining, run_leave_of_one_of_two, run_missed_change,
    run_planted, run_scale, run_with_a_dead_node,
};

#[test]
fn clusters_agree_on_every_change_of_the_schema() {
    let broken: Vec<_> = (0..12).map(run_cluster).filter(|report| report.violation.is_some()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_node_that_left_while_it_was_cut_off_hears_of_it() {
    // The entry that removes the node never reaches it.
    let report = run_cluster(13);
    assert!(report.violation.is_none(), "{report:#?}");
    assert!(report.leaves > 0);
}

#[test]
fn a_node_that_was_down_names_the_version_of_the_others() {
    (0..4).for_each(|seed| run_missed_change(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}")));
}

#[test]
fn a_node_that_crashed_while_it_joined_joins_when_it_starts_again() {
    (0..8).for_each(|seed| run_crash_while_joining(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}")));
}

#[test]
fn the_last_of_two_nodes_goes_on_alone() {
    (0..8).for_each(|seed| run_leave_of_one_of_two(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}")));
}

#[test]
fn a_node_that_has_not_heard_of_its_own_joining_joins_again() {
    let report = run_cluster(903);
    assert!(report.violation.is_none(), "{report:#?}");
    assert!(report.joins > 0 && report.crashes > 0);
}

#[test]
fn equal_seeds_give_equal_clusters() {
    let (first, second) = (run_cluster(5), run_cluster(5));
    assert_eq!(first, second);
    assert_ne!(first.trace_hash, run_cluster(6).trace_hash);
}

/// Whether one of the judges says `what` in one of the first runs with a bug.
fn is_found(planted: Planted, what: &str) -> bool {
    let mut found = (0..12).filter_map(|seed| run_planted(seed, planted).violation);
    found.any(|violation| violation.contains(what))
}

#[test]
fn nodes_that_forget_what_they_agreed_on_are_found() {
    // openraft asserts some of it by itself.
    let found = std::panic::catch_unwind(|| is_found(Planted::ForgetfulDisks, "believe different things"));
    assert!(found.unwrap_or(true));
}

#[test]
fn a_ring_with_a_node_that_is_gone_is_found() {
    assert!(is_found(Planted::LostNode, "the ring is not whole"));
}

#[test]
fn a_node_that_stays_cut_off_is_found() {
    assert!(is_found(Planted::LastingCut, "the nodes do not agree"));
}

#[test]
fn tables_with_names_that_meet_are_created_once() {
    let agreement = run_agreement(1, 60).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(agreement.created + agreement.existed, 60);
    assert!(agreement.existed > 0, "{agreement:?}");
}

#[test]
fn a_node_that_has_just_died_does_not_hold_up_changes_of_the_schema() {
    for seed in 0..2 {
        let [before, after] = run_with_a_dead_node(seed, 9).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        assert!(after.median <= 2 * before.median, "seed {seed}: {before:?} {after:?}");
    }
}

#[test]
fn a_cluster_forms_and_loses_a_third_and_heals() {
    let run = |seed| run_scale(seed, 12).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    // In some seeds the third that is lost has most of the votes.
    let keeps_a_majority = |scale: &Scale| scale.tables_without_a_third.is_some();
    let scale = (2..6).map(run).find(keeps_a_majority).expect("a third that is not a majority");
    assert!(scale.messages > 0.0 && scale.bytes > 0.0, "{scale:?}");
    let without = scale.tables_without_a_third.as_ref();
    assert_eq!((scale.tables.created, without.map(|tables| tables.created)), (10, Some(10)), "{scale:?}");
}
