//! Runs a few seeds of clusters with replicated tables, and checks that the judges find planted bugs.

use sim::clusters::{Planted, run_replicated, run_replicated_planted};

#[test]
fn replicated_tables_keep_what_they_acknowledged() {
    let reports: Vec<_> = [0, 2, 4].into_iter().map(run_replicated).collect();
    for report in &reports {
        assert!(report.violation.is_none(), "{report:#?}");
        assert!(report.reads_checked > 0 && report.decisions > 0, "{report:#?}");
        assert!(report.batches > 0, "{report:#?}");
    }
    assert!(reports.iter().any(|report| report.deletions > 0), "{reports:#?}");
    assert!(reports.iter().any(|report| report.converged > 0), "{reports:#?}");
    assert!(reports.iter().any(|report| report.damaged > 0), "{reports:#?}");
    assert!(reports.iter().any(|report| report.repairs > 0), "{reports:#?}");
}

/// Whether a judge says `what` in one of these runs with a bug. The first seed is known to find it; the others are for
/// the day on which the timing of nodes changes.
fn is_found(planted: Planted, first: u64, what: &str) -> bool {
    let seeds = std::iter::once(first).chain((0..16).filter(|seed| *seed != first));
    let mut told = seeds.filter_map(|seed| run_replicated_planted(seed, planted).violation);
    told.any(|told| told.contains(what))
}

#[test]
fn answers_that_are_counted_twice_are_found() {
    assert!(is_found(Planted::CountedTwice, 0, ""));
}

#[test]
fn acknowledgements_before_the_log_are_found() {
    assert!(is_found(Planted::AcksBeforeLog, 0, "Acknowledged"));
}

#[test]
fn hints_that_are_left_out_are_found() {
    assert!(is_found(Planted::NoHints, 0, "after what was missed was delivered: the replicas of"));
}

#[test]
fn hints_that_come_after_deletions_are_forgotten_are_found() {
    assert!(is_found(Planted::LateHints, 5, "deleted on all replicas"));
}
