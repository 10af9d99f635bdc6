//! Runs a few seeds of clusters whose tables are cut into tablets, those among them in which a batch of several tables
//! would go to the replicas of the first if it was not taken apart.

use sim::clusters::run_tablets;

#[test]
fn tables_with_tablets_keep_what_they_acknowledged() {
    let reports: Vec<_> = [3, 16, 23, 25].into_iter().map(run_tablets).collect();
    for report in &reports {
        assert!(report.violation.is_none(), "{report:#?}");
        assert!(report.reads_checked > 0 && report.decisions > 0 && report.tablets > 0, "{report:#?}");
    }
    assert!(reports.iter().any(|report| report.tablet_changes > 0), "{reports:#?}");
    assert!(reports.iter().any(|report| report.joins + report.leaves + report.replaced > 0), "{reports:#?}");
}
