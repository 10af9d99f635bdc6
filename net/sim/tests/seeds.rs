//! A hundred seeds of the simulator, and equal seeds give equal runs.

#[test]
fn a_hundred_seeds_break_no_rule() {
    let broken: Vec<_> = (0..100).map(sim::run).filter(|report| report.violation.is_some()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn equal_seeds_give_equal_traces() {
    for seed in [3, 17] {
        let (first, second) = (sim::run(seed), sim::run(seed));
        assert_eq!(first, second);
        assert_ne!(first.trace_hash, sim::run(seed + 1000).trace_hash);
    }
}
