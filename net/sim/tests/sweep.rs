//! A crash at every 37th write of the disk of a run with every command, each to four disks that it may leave.

use sim::sweep::{Sweep, sweep};

fn break_no_rule(first: u64) {
    let swept = sweep(Sweep { seed: 32, first, last: 2_400, every: 74, images: 4 });
    assert!(swept.broken.is_empty(), "{:#?}", swept.broken);
    assert!(swept.crashes > 100 && swept.reads_checked > 10_000, "{swept:?}");
    let commands: Vec<&str> = swept.commands.keys().map(String::as_str).collect();
    assert!(
        ["compact", "flush", "import", "snapshot"].iter().all(|command| commands.contains(command)),
        "{commands:?}"
    );
}

// Two tests, for two cores.

#[test]
fn s1_a_crash_at_any_write_breaks_no_rule_the_odd_ones() {
    break_no_rule(1);
}

#[test]
fn s1_a_crash_at_any_write_breaks_no_rule_the_even_ones() {
    break_no_rule(38);
}
