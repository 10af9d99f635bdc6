//! Writes to three replicas, some of which are down, silent, slow or know other things than the others.

use super::replicas::stored;
use super::world::{Request, World, address, rows_of};
use model::failure::{Detail, FailureReason, Outcome};
use model::{BatchKind, Consistency, ErrorCode, Failure};
use shard::{Config, Verb};
use std::time::Duration;

const SIMPLE: &str = "{'class': 'SimpleStrategy', 'replication_factor': 3}";
const NETWORK: &str = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}";
const TABLE: &str = "CREATE TABLE k.t (a int PRIMARY KEY, b int) WITH id = 00000001-0000-1000-8000-000000000000";

/// Three nodes of several cores with a keyspace of three replicas.
fn three_nodes(replication: &str) -> World {
    let mut world = World::start(&[2, 1, 2], |_| {});
    world.everywhere(&format!("CREATE KEYSPACE k WITH replication = {replication}"));
    world.everywhere(TABLE);
    world
}

fn insert(key: i32, level: Consistency) -> Request {
    Request { consistency: level, ..Request::new(&format!("INSERT INTO k.t (a, b) VALUES ({key}, 1)")) }
}

fn rows(world: &mut World, node: usize, key: i32) -> u32 {
    stored(world, node, "t", key).0
}

fn failure(world: &mut World, node: usize, request: &Request) -> Failure {
    match world.query(node, 0, request) {
        Err(failure) => failure,
        Ok(_) => panic!("{} at {:?} succeeded", request.text, request.consistency),
    }
}

const LEVELS: [Consistency; 10] = [
    Consistency::Any,
    Consistency::One,
    Consistency::LocalOne,
    Consistency::Two,
    Consistency::Quorum,
    Consistency::LocalQuorum,
    Consistency::EachQuorum,
    Consistency::Three,
    Consistency::All,
    // The level that a request has when a client names none.
    Consistency::One,
];

/// How many of three replicas a level needs.
fn needed(level: Consistency) -> i32 {
    match level {
        Consistency::Any | Consistency::One | Consistency::LocalOne => 1,
        Consistency::Three | Consistency::All => 3,
        _ => 2,
    }
}

#[test]
fn every_replica_gets_what_any_core_writes() {
    let mut world = three_nodes(SIMPLE);
    let mut key = 0;
    for node in 0..3 {
        for core in 0..world.cores(node) {
            for _ in 0..4 {
                key += 1;
                world.query(node, core, &insert(key, Consistency::One)).expect("inserted");
            }
        }
    }
    world.wait(Duration::from_millis(100));
    for key in 1..=key {
        let all = [0, 1, 2].map(|node| stored(&mut world, node, "t", key));
        assert_eq!(all[0].0, 1, "{key}");
        assert!(all[1] == all[0] && all[2] == all[0], "{key}: {all:?}");
    }
}

#[test]
fn each_level_with_replicas_that_are_down() {
    for replication in [SIMPLE, NETWORK] {
        let mut world = three_nodes(replication);
        for down in 0..3 {
            if down > 0 {
                world.crash(3 - down);
                let alive: Vec<usize> = (0..3 - down).collect();
                world.announce(&alive);
            }
            let alive = 3 - down as i32;
            for (key, level) in LEVELS.into_iter().enumerate() {
                let (key, request) = (key as i32, insert(key as i32, level));
                if alive >= needed(level) {
                    world.query(0, 0, &request).unwrap_or_else(|failure| panic!("{level:?}, {down} down: {failure}"));
                    // Another replica may have answered first.
                    world.wait(Duration::from_millis(20));
                    assert_eq!(rows(&mut world, 0, key), 1);
                    continue;
                }
                let told = failure(&mut world, 0, &request);
                let each = level == Consistency::EachQuorum && replication == NETWORK;
                let (text, alive) = match each {
                    true => ("Cannot achieve consistency level EACH_QUORUM in DC datacenter1".to_owned(), 0),
                    false => (format!("Cannot achieve consistency level {}", level.name()), alive),
                };
                let detail = Detail::Unavailable { consistency: level, required: needed(level), alive };
                assert_eq!((told.code, &*told.text, told.detail), (ErrorCode::Unavailable, &*text, detail));
            }
        }
    }
}

#[test]
fn each_level_with_silent_replicas() {
    let mut world = three_nodes(NETWORK);
    for silent in 1..3 {
        world.network.set_silent(address(3 - silent), true);
        let answers = 3 - silent as i32;
        for (key, level) in LEVELS.into_iter().enumerate() {
            let (key, request) = (key as i32, insert(key as i32, level));
            let before = world.sim.now();
            if answers >= needed(level) {
                world.query(0, 0, &request).unwrap_or_else(|failure| panic!("{level:?}, {silent} silent: {failure}"));
                assert!(world.sim.now().since(before) < Duration::from_millis(100), "nobody waits for the others");
                continue;
            }
            let told = failure(&mut world, 0, &request);
            let waited = world.sim.now().since(before);
            let timeout = Config::default().write_timeout;
            assert!(waited >= timeout && waited < timeout + Duration::from_millis(100), "{waited:?}");
            let text = format!("Operation timed out - received only {answers} responses.");
            assert_eq!((told.code, &*told.text, told.outcome), (ErrorCode::WriteTimeout, &*text, Outcome::Unknown));
            let block_for = needed(level);
            let detail =
                Detail::WriteTimeout { consistency: level, received: answers, block_for, write_type: "SIMPLE" };
            assert_eq!(told.detail, detail);
            assert_eq!(rows(&mut world, 0, key), 1, "what was written stays");
        }
        let texts: Vec<String> = (0..3).map(|key| insert(key, Consistency::All).text).collect();
        let batch = format!("BEGIN UNLOGGED BATCH {}; APPLY BATCH", texts.join("; "));
        let told = failure(&mut world, 0, &Request { consistency: Consistency::All, ..Request::new(&batch) });
        assert!(
            matches!(told.detail, Detail::WriteTimeout { received, block_for: 3, write_type: "UNLOGGED_BATCH", .. }
            if received == answers)
        );
    }
}

#[test]
fn a_replica_that_answers_late_has_the_write() {
    let mut world = three_nodes(SIMPLE);
    world.network.slow.borrow_mut().insert(address(2), Duration::from_millis(700));
    let before = world.sim.now();
    world.query(0, 1, &insert(1, Consistency::Quorum)).expect("two are enough");
    assert!(world.sim.now().since(before) < Duration::from_millis(100));
    world.query(0, 1, &insert(2, Consistency::All)).expect("it is waited for");
    assert!(world.sim.now().since(before) >= Duration::from_millis(700));
    assert_eq!((rows(&mut world, 2, 1), rows(&mut world, 2, 2)), (1, 1));
}

#[test]
fn a_stop_waits_for_replicas_that_are_late() {
    let mut world = three_nodes(SIMPLE);
    world.network.set_silent(address(2), true);
    world.query(1, 0, &insert(1, Consistency::One)).expect("one is enough");
    let stopped = world.begin(1, 0, |shard| async move { shard.stop().await });
    world.wait(Duration::from_secs(1));
    assert!(stopped.borrow().is_none(), "the third replica has time left");
    world.sim.run_until(Duration::from_secs(3), || stopped.borrow().is_some());
    assert_eq!(stopped.borrow_mut().take(), Some(Ok(())));
}

#[test]
fn failures_count_as_soon_as_the_level_is_out_of_reach() {
    let mut world = three_nodes(SIMPLE);
    let create = TABLE.replace("k.t", "k.u").replace("00000001", "00000009");
    for node in [0, 1] {
        world.query(node, 0, &Request::new(&create)).expect("created");
    }
    let of_u = |level| Request { text: insert(1, level).text.replace("k.t", "k.u"), ..insert(1, level) };
    let told = failure(&mut world, 0, &of_u(Consistency::All));
    let text = format!(
        "Operation failed - received 2 responses and 1 failures: INCOMPATIBLE_SCHEMA from /{}:7000",
        address(2)
    );
    assert_eq!((told.code, &*told.text), (ErrorCode::WriteFailure, &*text));
    assert_eq!(told.outcome, Outcome::Unknown, "two have it");
    let failures = vec![(address(2), FailureReason::IncompatibleSchema)];
    let detail = Detail::WriteFailure {
        consistency: Consistency::All,
        received: 2,
        block_for: 3,
        failures,
        write_type: "SIMPLE",
    };
    assert_eq!(told.detail, detail);
    world.query(0, 0, &of_u(Consistency::Quorum)).expect("two are enough");
    // Nodes that are dead, but not yet known to be, fail at once too.
    world.crash(1);
    let before = world.sim.now();
    let told = failure(&mut world, 0, &insert(2, Consistency::All));
    assert!(matches!(&told.detail, Detail::WriteFailure { failures, .. }
        if *failures == [(address(1), FailureReason::NodeDown)]));
    assert!(world.sim.now().since(before) < Duration::from_millis(100));
    world.query(0, 0, &insert(2, Consistency::Quorum)).expect("two are enough");
}

#[test]
fn a_write_planned_before_data_moved_goes_where_it_is_now() {
    let mut world = World::start(&[1, 1, 1], |_| {});
    world.everywhere("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}");
    world.everywhere(TABLE);
    // By a ring of one token a node, the owner of a key and the next one have it.
    let before = world.members_at([i64::MIN + 1, 0, i64::MAX]);
    world.switch(&[0, 1, 2], before);
    // The token of 1 lies below 0: nodes 1 and 2 have it, and then nodes 2 and 0.
    let after = world.members_at([0, -1 << 63 | 7, i64::MAX]);
    world.switch(&[1, 2], after.clone());
    let sent = world.network.sent(Verb::Mutation);
    let waiting = world.begin(0, 0, |shard| async move {
        let request = insert(1, Consistency::All);
        let parameters = model::QueryParameters::new(request.consistency);
        shard.query(&shard::Session::default(), &request.text, &parameters).await.map(drop)
    });
    let all_sent = world.network.sent.clone();
    let asked = || all_sent.borrow().get(&Verb::Mutation).is_some_and(|now| *now >= sent + 2);
    world.sim.run_until(Duration::from_millis(100), asked);
    world.wait(Duration::from_millis(50));
    assert_eq!(*waiting.borrow(), None, "it waits for the epoch");
    world.epoch -= 1;
    world.switch(&[0], after);
    world.sim.run_until(Duration::from_secs(1), || waiting.borrow().is_some());
    assert_eq!(waiting.borrow_mut().take(), Some(Ok(())));
    let have: Vec<u32> = (0..3).map(|node| rows(&mut world, node, 1)).collect();
    assert_eq!((have[0], have[2]), (1, 1), "{have:?}");
}

#[test]
fn batches_and_deletions_reach_all_replicas() {
    let mut world = three_nodes(SIMPLE);
    let texts: Vec<String> = (0..20).map(|key| insert(key, Consistency::One).text).collect();
    world.batch(1, 0, BatchKind::Logged, &texts).expect("applied");
    // The clocks of nodes drift apart a little.
    world.wait(Duration::from_millis(100));
    world.query(2, 1, &Request::new("DELETE FROM k.t WHERE a IN (1, 3, 5)")).expect("deleted");
    world.wait(Duration::from_millis(100));
    for node in 0..3 {
        let have: u32 = (0..20).map(|key| rows(&mut world, node, key)).sum();
        assert_eq!(have, 17, "node {node}");
    }
}

#[test]
fn a_batch_that_reads_two_lists_of_a_row_finds_both() {
    let mut world = three_nodes(SIMPLE);
    let id = "00000002-0000-1000-8000-000000000000";
    world.everywhere(&format!("CREATE TABLE k.l (a int PRIMARY KEY, l list<int>, m list<int>) WITH id = {id}"));
    world.query(0, 0, &Request::new("INSERT INTO k.l (a, l, m) VALUES (1, [1], [2])")).expect("inserted");
    world.wait(Duration::from_millis(100));
    let texts = ["UPDATE k.l SET l[0] = 8 WHERE a = 1", "UPDATE k.l SET m[0] = 9 WHERE a = 1"];
    world.batch(1, 0, BatchKind::Unlogged, &texts.map(String::from)).expect("both lists are found");
    world.wait(Duration::from_millis(100));
    let rows = rows_of(world.query(2, 0, &Request::new("SELECT l, m FROM k.l WHERE a = 1")).expect("read")).0;
    let list = |element: u8| Some(vec![0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, element]);
    assert_eq!(rows, [[list(8), list(9)]]);
}
