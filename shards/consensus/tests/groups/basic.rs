//! What a group does while nothing fails.

use crate::world::{Faults, Order, Run, TIMINGS, host, hosts};
use consensus::testing::MemoryStore;
use consensus::{Config, Group, StateMachine, StoreError, Transport, Unreachable};
use runtime::mesh::NodeId;
use runtime::sim::{Options, Sim, Stop};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// No other member can be reached.
struct Nobody;

impl Transport for Nobody {
    async fn call(&self, _: Uuid, _: Vec<u8>) -> Result<Vec<u8>, Unreachable> {
        Err(Unreachable::NotSent)
    }
}

/// Counts commands, and takes its time for each.
#[derive(Default)]
struct Counter {
    applied: Rc<Cell<u64>>,
    takes: Duration,
}

impl StateMachine for Counter {
    async fn apply(&self, _: u64, _: &[u8]) -> Result<Vec<u8>, StoreError> {
        if !self.takes.is_zero() {
            runtime::sleep(self.takes).await;
        }
        self.applied.set(self.applied.get() + 1);
        Ok(Vec::new())
    }

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    async fn restore(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
}

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
fn a_group_of_one_without_work_does_nothing_at_all() {
    let mut sim = Sim::new(1, Options::default());
    let (leads, decided) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let (told, counted) = (leads.clone(), decided.clone());
    sim.start_node(NodeId(1), 1, move |_| {
        let (told, counted) = (told.clone(), counted.clone());
        async move {
            let config = Config { me: host(1), timings: TIMINGS };
            let store = MemoryStore::new(Duration::from_millis(3));
            let group = Group::start(config, store, Nobody, Counter { applied: counted, ..Counter::default() })
                .await
                .expect("it starts");
            group.create().await.expect("it leads");
            told.set(true);
            runtime::sleep(Duration::from_secs(3_600)).await;
            let deadline = runtime::now().after(Duration::from_secs(1));
            let (index, _) = group.propose(b"late".to_vec(), deadline).await.expect("it still leads");
            assert_eq!(group.read_index(deadline).await, Ok(index));
            std::future::pending::<()>().await;
        }
    });
    assert_eq!(sim.run_until(Duration::from_secs(1), || leads.get()), Stop::Condition);
    sim.run_until(Duration::from_millis(500), || false);
    let before = sim.steps();
    sim.run_until(Duration::from_secs(3_500), || false);
    assert_eq!(sim.steps(), before, "no timer runs");
    assert_eq!(sim.run_until(Duration::from_secs(3_600), || decided.get() == 1), Stop::Condition);
    assert_eq!(sim.run_until(Duration::from_secs(3_600), || false), Stop::Idle);
}

#[test]
fn a_member_is_waited_for_as_long_as_it_advances() {
    const PATIENCE: Duration = Duration::from_secs(10);
    for (step, follows) in [(Duration::from_secs(9), true), (Duration::from_secs(11), false)] {
        let mut sim = Sim::new(1, Options::default());
        let done = sim.run_node(NodeId(1), Duration::from_secs(600), move || async move {
            let config = Config { me: host(1), timings: TIMINGS };
            let store = MemoryStore::new(Duration::from_millis(3));
            let group = Group::start(config, store, Nobody, Counter { takes: step, ..Counter::default() })
                .await
                .expect("it starts");
            group.create().await.expect("it leads");
            let before = group.applied();
            for command in 0..5 {
                let group = group.clone();
                runtime::spawn(async move {
                    group.propose(vec![command], runtime::now().after(Duration::from_secs(100))).await
                });
            }
            group.follow(before + 5, PATIENCE).await
        });
        assert_eq!(done, follows, "{step:?}");
    }
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
