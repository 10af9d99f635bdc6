//! Incremental repair: what is set apart, compared, made equal and repaired, and what becomes of it when nodes crash.

use super::reads::{ALL, configured, write_on};
use super::replicas::stored;
use super::world::World;
use cluster::repair::session::SessionState;
use model::{Failure, TokenRange};
use shard::{RepairAction, RepairOrder, RepairOutcome, RepairSet, RepairTerms, Shard, Verb};
use std::time::Duration;
use uuid::Uuid;

const REPAIRED_AT: i64 = 1_700_000_000_000;
/// A time UUID.
const SESSION: Uuid = Uuid::from_u128(1 << 76 | 1 << 63);

fn world(cores: &[usize]) -> World {
    configured(cores, " AND read_repair = 'NONE' AND speculative_retry = 'NEVER'", |_| {})
}

fn others(shard: &Shard) -> Vec<Uuid> {
    let topology = shard.topology();
    topology.nodes().iter().map(|node| node.host_id).filter(|id| *id != shard.host_id()).collect()
}

async fn begin(shard: &Shard, session: Uuid) -> Result<(), Failure> {
    let table = shard.schema().table("k", "t").expect("a table").id;
    shard.begin_incremental(session, &others(shard), &[table], &[TokenRange::FULL], REPAIRED_AT).await
}

/// Compares one set of SSTables, and makes it equal if that is the action.
async fn compare(shard: &Shard, set: RepairSet, action: RepairAction) -> Result<RepairOutcome, Failure> {
    let table = shard.schema().table("k", "t").expect("a table").id;
    let terms = RepairTerms { action, order: RepairOrder::Parallel, rest: 0, set: Some(set) };
    shard.repair(table, &[TokenRange::FULL], &others(shard), terms).await
}

/// A whole session, led by a node.
fn repair(world: &mut World, node: usize) -> Result<RepairOutcome, String> {
    let done = world.on(node, 0, |shard| async move {
        let session = shard.time_uuid();
        begin(&shard, session).await?;
        let outcome = compare(&shard, RepairSet::Pending(*session.as_bytes()), RepairAction::Repair).await?;
        shard.finish_incremental(session).await?;
        Ok::<_, Failure>(outcome)
    });
    done.map_err(|failure| failure.text.to_string())
}

/// How many partitions of repaired data differ.
fn out_of_sync(world: &mut World) -> u64 {
    let found =
        world.on(0, 0, |shard| async move { compare(&shard, RepairSet::Repaired, RepairAction::Preview).await });
    found.expect("compared").differing
}

/// On a node: bytes that are repaired, SSTables that are set apart, and the states of sessions in their order.
fn sets(world: &mut World, node: usize) -> (bool, u64, Vec<SessionState>) {
    world.on(node, 0, |shard| async move {
        let table = shard.schema().table("k", "t").expect("a table").id;
        let found = shard.statistics(table).await.expect("statistics");
        let states = shard.repair_sessions().all().values().map(|session| session.state).collect();
        (found.repaired_bytes > 0, found.pending_repair_sstables, states)
    })
}

fn contents(world: &mut World) -> Vec<Vec<(u32, Vec<u8>)>> {
    ALL.map(|node| (0..60).map(|key| stored(world, node, "t", key)).collect()).to_vec()
}

fn write_some(world: &mut World, keys: std::ops::Range<i32>) {
    for key in keys {
        let nodes: &[usize] = match key % 10 {
            3 => &[0, 2],
            5 => &[0],
            7 => &[1, 2],
            _ => &ALL,
        };
        write_on(world, nodes, &format!("INSERT INTO k.t (a, b, c) VALUES ({key}, 1, {key})"));
    }
}

#[test]
fn what_was_compared_once_is_not_compared_again() {
    let mut world = world(&[1, 2, 3]);
    write_some(&mut world, 0..40);
    let done = repair(&mut world, 1).expect("repaired");
    assert_eq!((done.differing, done.mutations), (12, 16));
    let after = contents(&mut world);
    assert!(after[0] == after[1] && after[1] == after[2]);
    for node in ALL {
        assert_eq!(sets(&mut world, node), (true, 0, vec![SessionState::Finalized]), "node {node}");
    }
    assert_eq!(out_of_sync(&mut world), 0);
    // Rows that are found by an index are found where they were brought.
    let found = world.query(2, 0, &super::world::Request::new("SELECT a FROM k.t WHERE c = 5")).expect("found");
    assert_eq!(super::world::rows_of(found).0.len(), 1);
    write_some(&mut world, 40..50);
    let again = repair(&mut world, 0).expect("repaired");
    assert!(again.partitions <= 10 && again.differing == 3, "the others are repaired already: {again:?}");
    assert_eq!(out_of_sync(&mut world), 0);
    let nothing = repair(&mut world, 2).expect("repaired");
    assert_eq!((nothing.partitions, nothing.differing), (0, 0));
    let after = contents(&mut world);
    assert!(after[0] == after[1] && after[1] == after[2]);
}

#[test]
fn a_session_that_fails_leaves_everything_unrepaired() {
    let mut world = world(&[1, 2, 1]);
    write_some(&mut world, 0..20);
    let session = SESSION;
    world.on(0, 0, move |shard| async move { begin(&shard, session).await }).expect("begun");
    for node in ALL {
        let (repaired, pending, states) = sets(&mut world, node);
        assert!(!repaired && pending > 0 && states == [SessionState::Prepared], "node {node}");
    }
    // Another one may not have the same data.
    let other = repair(&mut world, 1).expect_err("data is set apart");
    assert!(other.contains("intersecting sstables belonging to another incremental repair session"), "{other}");
    world.on(0, 0, move |shard| async move { shard.fail_incremental(session).await });
    for node in ALL {
        let (repaired, pending, states) = sets(&mut world, node);
        assert_eq!((repaired, pending), (false, 0), "node {node}");
        assert!(states.iter().all(|state| *state == SessionState::Failed));
    }
    assert_eq!(repair(&mut world, 2).expect("repaired").differing, 6);
}

#[test]
fn a_participant_that_restarts_before_its_promise_fails_the_session() {
    let mut world = world(&[1, 1, 2]);
    write_some(&mut world, 0..20);
    let session = SESSION;
    world.on(0, 0, move |shard| async move {
        begin(&shard, session).await.expect("begun");
        let set = RepairSet::Pending(*session.as_bytes());
        compare(&shard, set, RepairAction::Repair).await.expect("made equal");
    });
    world.crash(2);
    world.restart(2, &ALL);
    world.announce(&ALL);
    let failed = world.on(0, 0, move |shard| async move { shard.finish_incremental(session).await });
    let text = failed.expect_err("it has lost what it was brought").text.to_string();
    assert!(text.contains("has failed on a participant"), "{text}");
    world.wait(Duration::from_secs(30));
    for node in ALL {
        assert_eq!(sets(&mut world, node), (false, 0, vec![SessionState::Failed]), "node {node}");
    }
    repair(&mut world, 0).expect("repaired");
    let after = contents(&mut world);
    assert!(after[0] == after[1] && after[1] == after[2]);
}

#[test]
fn a_participant_that_has_missed_the_end_asks_the_others() {
    let mut world = world(&[1, 1, 2]);
    write_some(&mut world, 0..20);
    let session = SESSION;
    world.on(0, 0, move |shard| async move {
        begin(&shard, session).await.expect("begun");
        let set = RepairSet::Pending(*session.as_bytes());
        compare(&shard, set, RepairAction::Repair).await.expect("made equal");
    });
    let promises = world.network.sent(Verb::RepairSession);
    let finished = world.begin(0, 0, move |shard| async move { shard.finish_incremental(session).await });
    let network = world.network.clone();
    // Both promises are on their way; the second node crashes when it has promised.
    world.sim.run_until(Duration::from_secs(60), || network.sent(Verb::RepairSession) >= promises + 2);
    let mut states = Vec::new();
    while !states.contains(&SessionState::FinalizePromised) {
        world.wait(Duration::from_micros(200));
        states = sets(&mut world, 2).2;
    }
    world.crash(2);
    world.wait(Duration::from_secs(5));
    world.announce(&[0, 1]);
    world.wait(Duration::from_secs(5));
    let ended = finished.borrow_mut().take().expect("it has ended");
    let expected = if ended.is_ok() { SessionState::Finalized } else { SessionState::Failed };
    world.restart(2, &ALL);
    world.announce(&ALL);
    world.wait(Duration::from_secs(120));
    for node in ALL {
        let (repaired, pending, states) = sets(&mut world, node);
        assert_eq!((repaired, pending, states), (ended.is_ok(), 0, vec![expected]), "node {node}");
    }
    assert_eq!(out_of_sync(&mut world), 0);
}

#[test]
fn a_coordinator_that_crashes_gives_its_session_up() {
    let mut world = world(&[1, 1, 1]);
    write_some(&mut world, 0..20);
    let session = SESSION;
    world.on(0, 0, move |shard| async move { begin(&shard, session).await }).expect("begun");
    world.crash(0);
    world.announce(&[1, 2]);
    world.wait(Duration::from_secs(90));
    assert_eq!(sets(&mut world, 1).2, [SessionState::Prepared], "only the coordinator decides");
    world.restart(0, &ALL);
    world.announce(&ALL);
    world.wait(Duration::from_secs(90));
    for node in ALL {
        assert_eq!(sets(&mut world, node), (false, 0, vec![SessionState::Failed]), "node {node}");
    }
}
