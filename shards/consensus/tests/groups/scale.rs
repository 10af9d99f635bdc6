//! A group of many members that starts, agrees, loses a third and heals: how long each takes, and what it costs.
//!
//! The gate runs a hundred members. `HELENUS_GROUP_NODES` chooses another number; with `--nocapture` the figures are
//! shown.

use crate::chaos::number;
use crate::world::{Faults, Order, Run, World, hosts};
use consensus::{Timings, VOTERS_OF_MANY_MAX};
use std::time::Duration;

/// Longest until all members have what was decided, virtual time.
const AGREEMENT_MAX: Duration = Duration::from_secs(10);

/// The index of the last command, if all of the first `nodes` members have it.
fn agreed(world: &World, nodes: u32) -> Option<u64> {
    let last = *world.history.borrow().last_key_value()?.0;
    let states = world.states.borrow();
    let has_last = |n| states.get(&n).is_some_and(|state| state.keys().next_back() == Some(&last));
    (1..=nodes).all(has_last).then_some(last)
}

/// Proposes a command through a member and returns how long it takes until all of the first `nodes` have it.
fn decide(run: &mut Run, through: u32, command: &str, nodes: u32) -> Duration {
    let before = run.sim.now();
    run.obey(through, Order::Propose(command.into())).expect("decided");
    run.wait("all members have it", |world| agreed(world, nodes).is_some());
    let took = run.sim.now().since(before);
    assert!(took <= AGREEMENT_MAX, "{command}: {took:?}");
    took
}

#[test]
#[expect(clippy::print_stdout, reason = "figures for a document")]
fn many_members_agree_lose_a_third_and_heal() {
    let nodes = number("HELENUS_GROUP_NODES", 100) as u32;
    let resident = || runtime::machine::resident_memory_bytes().unwrap_or_default();
    let memory = resident();
    let mut run = Run::with_timings(12, Faults::default(), Timings::default());
    (1..=nodes).for_each(|n| run.start(n));
    run.wait("the first node leads", |world| world.leader() == Some(1));
    let before = run.sim.now();
    run.obey(1, Order::AddLearners(hosts(1..=nodes))).expect("added");
    run.obey(1, Order::SetVoters(hosts(1..=VOTERS_OF_MANY_MAX as u32))).expect("voters");
    decide(&mut run, 1, "first", nodes);
    let formed = run.sim.now().since(before);
    let memory = resident().saturating_sub(memory) / u64::from(nodes);

    let sent = run.world.sent.get();
    run.pass(Duration::from_secs(10));
    let idle = run.world.sent.get();
    let per_second = |counts: fn(&(u64, u64)) -> u64| (counts(&idle) - counts(&sent)) as f64 / 10.0 / f64::from(nodes);
    let (messages, bytes) = (per_second(|sent| sent.0), per_second(|sent| sent.1));
    let through_a_learner = decide(&mut run, nodes, "through a learner", nodes);

    // A third of the members, with three of the seven voters and the leader among them.
    let lost: Vec<u32> = (1..=3).chain(nodes - nodes / 3 + 4..=nodes).collect();
    lost.iter().for_each(|n| run.crash(*n));
    let before = run.sim.now();
    run.obey(4, Order::Propose("without a third".into())).expect("four of seven voters decide");
    let elected = run.sim.now().since(before);
    assert!(elected <= AGREEMENT_MAX, "{elected:?}");
    lost.iter().for_each(|n| run.start(*n));
    let before = run.sim.now();
    run.wait("all members have it", |world| agreed(world, nodes).is_some());
    let healed = run.sim.now().since(before);
    assert!(healed <= AGREEMENT_MAX, "{healed:?}");
    println!(
        "{nodes} members: formed in {formed:?}; idle {messages:.2} messages and {bytes:.0} bytes per member and second; \
         decided through a learner and known to all in {through_a_learner:?}; decided without a third, the leader among \
         it, in {elected:?}; all have it {healed:?} after the third is back; {} KiB of memory per member",
        memory >> 10
    );
}
