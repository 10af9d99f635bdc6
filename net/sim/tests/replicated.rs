//! Runs a few seeds of clusters with replicated tables, and checks that the judges find a planted bug.

use sim::clusters::{Planted, run_replicated, run_replicated_planted};

#[test]
fn replicated_tables_keep_what_they_acknowledged() {
    for report in (0..3).map(run_replicated) {
        assert!(report.violation.is_none(), "{report:#?}");
        assert!(report.reads_checked > 0 && report.decisions > 0, "{report:#?}");
    }
}

#[test]
fn answers_that_are_counted_twice_are_found() {
    let mut runs = (0..4).map(|seed| run_replicated_planted(seed, Planted::CountedTwice));
    assert!(runs.any(|report| report.violation.is_some()));
}
