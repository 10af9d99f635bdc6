//! A crash, and a failed write, at every write of a member's log.

use crate::world::{Faults, Order, Run, hosts};
use std::time::Duration;

/// Writes of the second node from its start to the end of the scenario.
const WRITES: u64 = 60;

/// Three nodes of which the second stops at its `at`th write, after `stop`, and comes back; snapshots are frequent.
fn stopped_at(at: u64, stop: impl Fn(&mut Run, u64)) {
    let mut run = Run::new(at, Faults::default());
    run.start(1);
    run.wait("it leads", |world| world.leader() == Some(1));
    run.world.busy.set(true);
    run.obey(1, Order::AddLearners(hosts([1, 2, 3]))).expect("added");
    run.start(3);
    run.start(2);
    // A voter that is not there yet; the group goes on with the other two.
    run.order(1, Order::SetVoters(hosts([1, 2, 3])));
    stop(&mut run, at);
    run.pass(Duration::from_millis(200));
    if !run.sim.is_running(runtime::mesh::NodeId(2)) {
        run.start(2);
    }
    run.pass(Duration::from_millis(500));
    run.settle(&[1, 2, 3]);
}

#[test]
fn a_crash_at_any_write_loses_nothing() {
    for at in 0..WRITES {
        stopped_at(at, |run, at| {
            let store = run.world.stores.borrow()[&2].clone();
            run.sim.run_until(Duration::from_secs(5), || store.writes() > at);
            run.crash(2);
        });
    }
}

#[test]
fn a_failed_write_stops_the_member_and_loses_nothing() {
    for at in 0..WRITES {
        stopped_at(at, |run, at| {
            run.world.stores.borrow()[&2].fail_after(at);
            let running = |run: &Run| run.sim.is_running(runtime::mesh::NodeId(2));
            for _ in 0..500 {
                run.pass(Duration::from_millis(10));
                if !running(run) {
                    return;
                }
            }
            panic!("node 2 goes on after its write {at} failed");
        });
    }
}

#[test]
fn the_only_voter_may_crash_at_any_write() {
    for at in 0..40 {
        let mut run = Run::new(at, Faults::default());
        run.world.busy.set(true);
        run.start(1);
        let store = run.world.stores.borrow()[&1].clone();
        run.sim.run_until(Duration::from_secs(5), || store.writes() > at);
        run.crash(1);
        run.start(1);
        run.pass(Duration::from_millis(300));
        run.settle(&[1]);
    }
}
