//! What a group does while nothing fails.

use crate::world::{Faults, Order, Run, host, hosts};
use std::time::Duration;

#[test]
fn a_group_of_one_decides_by_itself() {
    let mut run = Run::new(1, Faults::default());
    run.start(1);
    run.wait("it leads", |world| world.leader() == Some(1));
    assert!(run.sim.now().0 < 100_000_000, "within some writes: {} ns", run.sim.now().0);
    run.obey(1, Order::Propose(b"one".to_vec())).expect("decided");
    run.crash(1);
    let before = run.sim.now();
    run.start(1);
    run.wait("it leads again", |world| world.leader() == Some(1));
    assert!(run.sim.now().since(before) < Duration::from_millis(100), "no election timeout passes");
    run.settle(&[1]);
    assert_eq!(run.world.states.borrow()[&1].len(), 2);
}

#[test]
fn three_nodes_agree() {
    let mut run = Run::new(2, Faults::default());
    run.group(3);
    run.world.busy.set(true);
    run.pass(Duration::from_secs(10));
    run.settle(&[1, 2, 3]);
    assert!(run.world.acknowledged.borrow().len() > 500, "{}", run.world.acknowledged.borrow().len());
    assert_eq!((run.world.refused.get(), run.world.unknown.get()), (0, 0));
    let statuses = run.world.statuses.borrow();
    assert!(statuses.values().all(|status| status.voters == [host(1), host(2), host(3)] && !status.changing));
    assert!(statuses[&2].snapshot > 0, "{statuses:?}");
    assert_eq!(hosts([1, 2, 3]).len(), 3);
}
