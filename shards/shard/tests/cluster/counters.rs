//! Counters with several replicas: each node that leads a change has its own shard of the counter.

use super::replicas::stored;
use super::world::{Request, World, address, rows_of};
use model::failure::{Detail, Outcome};
use model::{Consistency, ErrorCode};
use runtime::NodeId;
use shard::{Config, Verb};
use std::time::Duration;

fn three_nodes(factor: u8) -> World {
    configured(factor, |_| {})
}

fn configured(factor: u8, tweak: fn(&mut Config)) -> World {
    let mut world = World::start(&[2, 1, 2], tweak);
    world.everywhere(&format!(
        "CREATE KEYSPACE k WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"
    ));
    let table = "CREATE TABLE k.n (a int PRIMARY KEY, c counter) WITH id = 00000002-0000-1000-8000-000000000000";
    world.everywhere(table);
    world
}

fn add(key: i32, amount: i32, level: Consistency) -> Request {
    Request { consistency: level, ..Request::new(&format!("UPDATE k.n SET c = c + {amount} WHERE a = {key}")) }
}

#[test]
fn all_replicas_have_the_sum_of_what_all_nodes_added() {
    let mut world = three_nodes(3);
    for turn in 1..=10 {
        for node in 0..3 {
            let core = turn as usize % world.cores(node);
            world.query(node, core, &add(1, turn, Consistency::One)).expect("added");
            let batch = "BEGIN COUNTER BATCH UPDATE k.n SET c = c + 1 WHERE a = 2; UPDATE k.n SET c = c - 1 WHERE a = 3; \
                         APPLY BATCH";
            world.query(node, core, &Request::new(batch)).expect("added");
        }
    }
    world.wait(Duration::from_millis(100));
    for (key, sum) in [(1, 165_i64), (2, 30), (3, -30)] {
        let all = [0, 1, 2].map(|node| stored(&mut world, node, "n", key));
        assert!(all[0].0 == 1 && all[1] == all[0] && all[2] == all[0], "{key}: {all:?}");
        let select = Request::new(&format!("SELECT c FROM k.n WHERE a = {key}"));
        let rows = rows_of(world.query(1, 0, &select).expect("read")).0;
        assert_eq!(rows, [[Some(sum.to_be_bytes().to_vec())]]);
    }
}

#[test]
fn nodes_without_a_replica_have_another_one_lead() {
    let mut world = three_nodes(1);
    for key in 0..12 {
        world.query(0, 0, &add(key, 5, Consistency::One)).expect("added");
        world.query(1, 0, &add(key, 6, Consistency::All)).expect("added");
    }
    assert!(world.network.sent(Verb::CounterMutation) > 0);
    for key in 0..12 {
        let have: u32 = (0..3).map(|node| stored(&mut world, node, "n", key).0).sum();
        assert_eq!(have, 1, "{key}");
        let select = Request::new(&format!("SELECT c FROM k.n WHERE a = {key}"));
        let rows = rows_of(world.query(2, 0, &select).expect("read")).0;
        assert_eq!(rows, [[Some(11_i64.to_be_bytes().to_vec())]]);
    }
}

#[test]
fn levels_count_at_the_leader() {
    let mut world = three_nodes(3);
    world.network.set_silent(address(2), true);
    world.query(0, 0, &add(1, 1, Consistency::Quorum)).expect("two are enough");
    let before = world.sim.now();
    let told = world.query(0, 0, &add(1, 1, Consistency::All)).map(drop).expect_err("one is silent");
    let waited = world.sim.now().since(before);
    let timeout = Config::default().write_timeout;
    assert!(waited >= timeout && waited < timeout + Duration::from_millis(200), "{waited:?}");
    assert_eq!((told.code, told.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
    let (consistency, write_type) = (Consistency::All, "COUNTER");
    assert_eq!(told.detail, Detail::WriteTimeout { consistency, received: 2, block_for: 3, write_type });
    world.announce(&[0, 1]);
    let told = world.query(0, 0, &add(1, 1, Consistency::All)).map(drop).expect_err("one is down");
    assert_eq!(told.detail, Detail::Unavailable { consistency, required: 3, alive: 2 });
}

#[test]
fn a_leader_that_does_not_answer_is_told_as_one() {
    let mut world = three_nodes(1);
    for node in [1, 2] {
        world.network.set_silent(address(node), true);
    }
    let mut timeouts = 0;
    for key in 0..6 {
        let before = world.sim.now();
        let Err(told) = world.query(0, 0, &add(key, 1, Consistency::Quorum)) else { continue };
        timeouts += 1;
        assert!(world.sim.now().since(before) >= Config::default().counter_write_timeout);
        let (consistency, write_type) = (Consistency::One, "COUNTER");
        assert_eq!(told.detail, Detail::WriteTimeout { consistency, received: 0, block_for: 1, write_type });
    }
    assert!(timeouts > 0, "another node has some of the keys");
}

#[test]
fn p8_what_a_leader_has_counted_too_late_for_its_client_reaches_the_other_replicas() {
    let mut world = configured(3, |config| config.counter_write_timeout = Duration::from_millis(300));
    for node in 0..3 {
        let (leader, slow) = (NodeId(node as u32 + 1), Duration::from_secs(1));
        world.sim.slow_disk(leader, Some((slow, slow)));
        let told = world.query(node, 0, &add(1, 1 << node, Consistency::One)).map(drop).expect_err("it takes longer");
        assert_eq!((told.code, told.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
        world.sim.slow_disk(leader, None);
    }
    world.wait(Duration::from_secs(5));
    let all = [0, 1, 2].map(|node| stored(&mut world, node, "n", 1));
    assert!(all[0].0 == 1 && all[1] == all[0] && all[2] == all[0], "{all:?}");
    let rows = rows_of(world.query(1, 0, &Request::new("SELECT c FROM k.n WHERE a = 1")).expect("read")).0;
    assert_eq!(rows, [[Some(7_i64.to_be_bytes().to_vec())]]);
}
