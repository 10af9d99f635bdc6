//! Members that come, go, fall behind, and a majority that is lost.

use crate::world::{Faults, Order, Run, host, hosts};
use consensus::ProposeError;
use runtime::mesh::NodeId;
use std::time::Duration;

#[test]
fn a_learner_that_is_far_behind_gets_a_snapshot() {
    let mut run = Run::new(1, Faults::default());
    run.group(3);
    run.world.busy.set(true);
    run.pass(Duration::from_secs(3));
    let snapshots = run.world.restored.get();
    assert!(run.world.statuses.borrow()[&1].snapshot > 0);
    run.start(4);
    run.obey(2, Order::AddLearners(hosts([4]))).expect("any member forwards");
    run.wait("the new member has the log", |world| {
        world.statuses.borrow().get(&4).is_some_and(|status| status.applied > 50)
    });
    assert!(run.world.restored.get() > snapshots, "what was purged came as a snapshot");
    run.settle(&[1, 2, 3, 4]);
    let statuses = run.world.statuses.borrow();
    assert_eq!(statuses[&4].learners, [host(4)]);
    assert!(!statuses[&4].is_voter() && statuses[&4].is_member());
}

#[test]
fn members_are_replaced_one_after_another() {
    let mut run = Run::new(2, Faults::default());
    run.group(3);
    run.world.busy.set(true);
    for new in 4..=6 {
        run.start(new);
        run.obey(new - 1, Order::AddLearners(hosts([new]))).expect("added");
        run.obey(new, Order::SetVoters(hosts(new - 2..=new))).expect("voters");
        run.wait("a voter leads", |world| world.leader().is_some_and(|leader| leader + 2 >= new));
        run.obey(new, Order::Remove(hosts([new - 3]))).expect("removed");
        run.obey(new, Order::Remove(hosts([new - 3, 77]))).expect("twice is as once");
        run.crash(new - 3);
    }
    run.settle(&[4, 5, 6]);
    let statuses = run.world.statuses.borrow();
    assert_eq!((statuses[&5].voters.as_slice(), statuses[&5].learners.len()), (&[host(4), host(5), host(6)][..], 0));
}

#[test]
fn changes_that_cannot_be_are_refused_by_name() {
    let mut run = Run::new(3, Faults::default());
    run.group(3);
    assert_eq!(run.obey(2, Order::SetVoters(hosts([1, 9]))), Err(ProposeError::NotAMember(host(9))));
    assert_eq!(run.obey(2, Order::SetVoters(hosts([]))), Err(ProposeError::NoVoter));
    assert_eq!(run.obey(3, Order::Remove(hosts([1, 2, 3]))), Err(ProposeError::NoVoter));
    assert_eq!(run.obey(1, Order::Recover(hosts([9]))), Err(ProposeError::NotAMember(host(9))));
    let long = vec![0; consensus::COMMAND_BYTES_MAX + 1];
    let bytes = long.len();
    assert_eq!(run.obey(1, Order::Propose(long)), Err(ProposeError::TooLong(bytes)));
    run.obey(2, Order::Propose(vec![7; consensus::COMMAND_BYTES_MAX])).expect("as long as can be");
    run.settle(&[1, 2, 3]);
}

#[test]
fn without_a_majority_nothing_is_changed_and_with_it_all_goes_on() {
    let mut run = Run::new(4, Faults::default());
    run.group(3);
    let leader = run.world.leader().expect("one leads");
    let others: Vec<u32> = (1..=3).filter(|n| *n != leader).collect();
    others.iter().for_each(|n| run.sim.partition(NodeId(leader), NodeId(*n), true));
    run.pass(Duration::from_secs(2));
    assert_eq!(run.world.statuses.borrow()[&leader].leader, None, "a leader that nobody hears is none");
    let proposed = Order::Propose(b"in the minority".to_vec());
    assert_eq!(run.obey(leader, proposed), Err(ProposeError::NoMajority));
    run.obey(others[0], Order::Propose(b"in the majority".to_vec())).expect("two of three decide");
    run.settle(&[1, 2, 3]);
    assert!(!run.world.history.borrow().values().any(|command| command == b"in the minority"));
}

#[test]
fn a_leader_that_starts_again_must_be_elected_again() {
    let mut run = Run::new(8, Faults::default());
    run.group(3);
    let leader = run.world.leader().expect("one leads");
    let term = run.world.statuses.borrow()[&leader].term;
    run.crash(leader);
    run.start(leader);
    run.wait("one leads again", |world| world.leader().is_some());
    let statuses = run.world.statuses.borrow();
    assert!(statuses.values().filter(|status| status.leader.is_some()).all(|status| status.term > term));
}

#[test]
fn a_lost_majority_is_replaced_by_an_operator() {
    for seed in 0..10 {
        let mut run = Run::new(seed, Faults::default());
        run.group(5);
        run.world.busy.set(true);
        run.pass(Duration::from_millis(800));
        [1, 2, 3].into_iter().for_each(|n| run.crash(n));
        run.world.busy.set(false);
        run.pass(Duration::from_secs(6));
        assert_eq!(run.world.leader(), None);
        assert!(run.obey(4, Order::Propose(b"too early".to_vec())).is_err());
        let longest = [4, 5].into_iter().max_by_key(|n| run.world.statuses.borrow()[n].last).expect("two");
        run.world.lossy.set(true);
        run.obey(longest, Order::Recover(hosts([4, 5]))).expect("recovered");
        run.wait("one of the two leads", |world| matches!(world.leader(), Some(4 | 5)));
        run.obey(4, Order::Remove(hosts([1, 2, 3]))).expect("the lost ones are removed");
        run.start(6);
        run.obey(5, Order::AddLearners(hosts([6]))).expect("a new one");
        run.obey(6, Order::SetVoters(hosts([4, 5, 6]))).expect("three voters again");
        run.world.busy.set(true);
        run.pass(Duration::from_millis(500));
        run.settle(&[4, 5, 6]);
    }
}

#[test]
fn a_member_of_the_lost_majority_that_comes_back_stops() {
    let mut run = Run::new(7, Faults::default());
    run.group(5);
    let (lost, left) = ([1, 2, 3], [4, 5]);
    lost.iter().for_each(|a| left.iter().for_each(|b| run.sim.partition(NodeId(*a), NodeId(*b), true)));
    for n in 0..30 {
        let leader = run.world.leader().expect("the three have one");
        run.obey(leader, Order::Propose(format!("lost {n}").into_bytes())).expect("decided");
    }
    run.pass(Duration::from_millis(500));
    lost.iter().for_each(|n| run.crash(*n));
    run.world.lossy.set(true);
    run.world.history.borrow_mut().clear();
    run.obey(4, Order::Recover(hosts(left))).expect("recovered");
    lost.iter().for_each(|a| left.iter().for_each(|b| run.sim.partition(NodeId(*a), NodeId(*b), false)));
    run.obey(5, Order::Propose(b"new".to_vec())).expect("decided");
    run.start(1);
    let world = run.world.clone();
    run.pass(Duration::from_secs(5));
    assert!(!run.sim.is_running(NodeId(1)), "{:?}", world.statuses.borrow());
    world.history.borrow_mut().retain(|_, command| !command.starts_with(b"lost"));
    run.settle(&left);
}

#[test]
fn a_member_recovers_alone() {
    let mut run = Run::new(5, Faults::default());
    run.group(3);
    run.obey(2, Order::Propose(b"before".to_vec())).expect("decided");
    run.pass(Duration::from_secs(1));
    run.crash(1);
    run.crash(2);
    run.obey(3, Order::Recover(hosts([3]))).expect("recovered");
    run.obey(3, Order::Propose(b"after".to_vec())).expect("one voter decides");
    run.crash(3);
    run.start(3);
    run.settle(&[3]);
    let states = run.world.states.borrow();
    let commands: Vec<&[u8]> = states[&3].values().map(Vec::as_slice).collect();
    assert_eq!(commands, [&b"before"[..], b"after", b"the last one"]);
    drop(states);
    assert_eq!(run.world.statuses.borrow()[&3].voters, [host(3)]);
}

#[test]
fn a_member_stops_when_it_is_told() {
    let mut run = Run::new(6, Faults::default());
    run.group(3);
    run.obey(2, Order::Stop).expect("stopped");
    run.pass(Duration::from_millis(50));
    run.crash(2);
    run.obey(3, Order::Propose(b"without it".to_vec())).expect("two of three decide");
    run.settle(&[1, 2, 3]);
}
