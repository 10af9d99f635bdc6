//! Runs three hundred seeds of the simulator, and checks that equal seeds give equal runs.

fn break_no_rule(seeds: impl Iterator<Item = u64>) {
    let broken: Vec<_> = seeds.map(sim::run).filter(|report| report.violation.is_some()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

// Two tests, so that two cores can share the work.

#[test]
fn three_hundred_seeds_break_no_rule_the_even_ones() {
    break_no_rule((0..300).step_by(2));
}

#[test]
fn three_hundred_seeds_break_no_rule_the_odd_ones() {
    break_no_rule((1..300).step_by(2));
}

#[test]
fn conditional_changes_alone_have_one_order() {
    let broken: Vec<_> =
        (0..6).map(|seed| sim::run_registers(seed, false)).filter(|report| report.violation.is_some()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn decisions_that_a_node_forgets_are_missed() {
    let found: Vec<_> = (0..6).filter_map(|seed| sim::run_registers(seed, true).violation).collect();
    let missed = found.iter().filter(|text| text.contains("registers of")).count();
    assert!(missed >= 3, "of six runs in which crashes take the end of the commit log: {found:#?}");
}

#[test]
fn equal_seeds_give_equal_traces() {
    for seed in [3, 17] {
        let (first, second) = (sim::run(seed), sim::run(seed));
        assert_eq!(first, second);
        assert_ne!(first.trace_hash, sim::run(seed + 1000).trace_hash);
    }
}
