//! Runs a few seeds of clusters in which nodes join, leave and are replaced, and crashes nodes at some of the messages
//! of each operation on the ring.

use sim::clusters::{ElasticSweep, SweptOperation, run_elastic, sweep_operation};

#[test]
fn operations_on_the_ring_lose_nothing() {
    let reports: Vec<_> = (0..2).map(run_elastic).collect();
    for report in &reports {
        assert!(report.violation.is_none(), "{report:#?}");
    }
    let operations = reports.iter().map(|report| report.joins + report.leaves + report.replaced + report.replicated);
    assert!(operations.sum::<u64>() > 0, "{reports:#?}");
}

/// Crashes one node after the other at messages of an operation that are evenly spread over it.
fn survives_crashes(seed: u64, operation: SweptOperation, every: u64) {
    let first = 1 + every / 2;
    let plan = ElasticSweep { seed, operation, first, every, count: u64::MAX, one_victim: true };
    let swept = sweep_operation(plan);
    assert!(swept.broken.is_empty(), "{:#?}", swept.broken);
    assert!(swept.crashes.len() > 1 && swept.reads_checked > 100, "{swept:?}");
}

#[test]
fn d8_a_crash_at_any_message_of_a_join_loses_nothing() {
    survives_crashes(0, SweptOperation::Join, 40);
}

#[test]
fn d8_a_crash_at_any_message_of_a_decommission_loses_nothing() {
    survives_crashes(0, SweptOperation::Decommission, 110);
}

#[test]
fn d8_a_crash_at_any_message_of_a_replacement_loses_nothing() {
    survives_crashes(0, SweptOperation::Replace, 20);
}

#[test]
fn d8_a_crash_at_any_message_of_a_change_of_replication_loses_nothing() {
    survives_crashes(0, SweptOperation::Replicate, 110);
}
