//! Runs with random faults: crashes, failing disks, cuts, pauses, bad connections, changes of voters, all while clients
//! propose. The promises are checked during the run and after it, see `world.rs`.
//!
//! The gate runs a hundred seeds. `HELENUS_GROUP_FIRST` and `HELENUS_GROUP_COUNT` choose others.

use crate::world::{Faults, Order, PAUSE_MAX, Run, hosts};
use runtime::mesh::NodeId;
use runtime::rng::Rng;
use std::time::Duration;

/// How often each thing happened in a run.
#[derive(Default, Debug)]
struct Counts {
    crashes: u64,
    failures: u64,
    cuts: u64,
    pauses: u64,
    changes: u64,
    acknowledged: u64,
    unknown: u64,
    refused: u64,
    restored: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.cuts += other.cuts;
        self.pauses += other.pauses;
        self.changes += other.changes;
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.restored += other.restored;
    }
}

/// A run of `seed`, its counts and the hash of its trace.
fn run(seed: u64) -> (Counts, u64) {
    let mut rng = Rng::new(seed ^ 0x0067_726f_7570);
    let mut chance = |most: f64| rng.below(1_000) as f64 / 1_000.0 * most;
    let faults = if seed.is_multiple_of(3) {
        Faults::default()
    } else {
        Faults { lost: chance(0.1), repeated: chance(0.1), delayed: chance(0.1) }
    };
    let mut run = Run::new(seed, Faults::default());
    let nodes = 3 + rng.below(3) as u32;
    let all: Vec<u32> = (1..=nodes).collect();
    run.group(nodes);
    run.world.faults.set(faults);
    run.world.busy.set(true);
    let mut counts = Counts::default();
    for _ in 0..6 {
        run.pass(Duration::from_millis(rng.below(1_500)));
        let mut any = || 1 + rng.below(nodes.into()) as u32;
        let (a, b) = (any(), any());
        match rng.below(7) {
            0 | 1 => {
                counts.crashes += 1;
                if run.sim.is_running(NodeId(a)) {
                    run.crash(a);
                }
            }
            2 => {
                counts.failures += 1;
                run.world.stores.borrow()[&a].fail_after(rng.below(20));
            }
            3 if a != b => {
                counts.cuts += 1;
                run.sim.partition(NodeId(a), NodeId(b), true);
            }
            4 if a != b => {
                counts.cuts += 1;
                run.sim.partition_one_way(NodeId(a), NodeId(b), true);
            }
            5 => {
                counts.pauses += 1;
                run.sim.pause(NodeId(a), Duration::from_millis(rng.below(PAUSE_MAX.as_millis() as u64)));
            }
            _ => {
                counts.changes += 1;
                let voters: Vec<u32> = all.iter().copied().filter(|n| *n == b || rng.below(3) > 0).collect();
                run.order(a, Order::SetVoters(hosts(voters)));
            }
        }
        // Most of the time a majority can be reached, or nothing would be decided.
        if rng.below(2) == 0 {
            for n in &all {
                if !run.sim.is_running(NodeId(*n)) {
                    run.start(*n);
                }
                all.iter().filter(|m| *m != n).for_each(|m| run.sim.partition(NodeId(*n), NodeId(*m), false));
            }
        }
    }
    run.pass(Duration::from_millis(500));
    run.settle(&all);
    counts.acknowledged = run.world.acknowledged.borrow().len() as u64;
    counts.unknown = run.world.unknown.get();
    counts.refused = run.world.refused.get();
    counts.restored = run.world.restored.get();
    (counts, run.sim.trace_hash())
}

pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
#[expect(clippy::print_stdout, reason = "a long sweep tells what it did")]
fn a_group_keeps_its_promises_under_faults() {
    let (first, count) = (number("HELENUS_GROUP_FIRST", 0), number("HELENUS_GROUP_COUNT", 100));
    let mut sum = Counts::default();
    for seed in first..first + count {
        sum.add(&run(seed).0);
    }
    println!("{count} runs: {sum:?}");
    if count >= 100 {
        let Counts { crashes, failures, cuts, pauses, changes, acknowledged, unknown, refused, restored } = sum;
        for seen in [crashes, failures, cuts, pauses, changes, acknowledged, unknown, refused, restored] {
            assert!(seen > 0, "something never happened");
        }
    }
}

#[test]
fn equal_seeds_give_equal_traces() {
    for seed in [4, 5] {
        assert_eq!(run(seed).1, run(seed).1, "seed {seed}");
    }
}
