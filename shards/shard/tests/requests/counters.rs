//! Counters: changes from all cores add up, even across restarts and when no client waits for their end.

use super::world::{Request, Value, World, int, plain, values};
use model::BatchKind;
use model::failure::{Detail, Outcome};
use model::{Consistency, ErrorCode};
use runtime::sim::Options;
use std::time::Duration;

fn world(shards: usize) -> World {
    let mut world = World::start(shards);
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.n (p int, c int, s counter static, v counter, PRIMARY KEY (p, c))");
    world
}

/// Runs a statement `times` times concurrently on a core.
fn at_once(world: &mut World, core: usize, text: &'static str, times: usize) {
    world.on(core, move |shard, session| async move {
        let run = |_| {
            let (shard, session) = (shard.clone(), session.clone());
            runtime::spawn(async move { shard.query(&session, text, &plain()).await.map(drop) })
        };
        let tasks: Vec<_> = (0..times).map(run).collect();
        for task in tasks {
            task.await.expect("counted");
        }
    });
}

#[test]
fn changes_of_all_cores_add_up_over_restarts() {
    let mut world = world(3);
    for (round, shards) in [2, 1, 4, 3].into_iter().enumerate() {
        for core in 0..[3, 2, 1, 4][round] {
            at_once(&mut world, core, "UPDATE k.n SET v += 3, s -= 1 WHERE p = 1 AND c = 1", 20);
            at_once(&mut world, core, "UPDATE k.n SET v = v - 1 WHERE p IN (1, 2, 3) AND c = 1", 5);
        }
        let cores = [3, 5, 6, 10][round];
        assert_eq!(
            world.ints("SELECT p, s, v FROM k.n WHERE p IN (1, 2, 3)"),
            [[1, -20 * cores, 55 * cores], [2, -1, -5 * cores], [3, -1, -5 * cores]],
            "round {round}"
        );
        if round % 2 == 0 {
            world.crash()
        } else {
            world.stop()
        }
        world.run(shards);
    }
    assert_eq!(world.ints("SELECT v FROM k.n WHERE p = 1"), [[550]]);
}

#[test]
fn a_change_that_takes_too_long_is_unknown_and_comes_to_its_end() {
    let mut world = world(2);
    world.run_query("UPDATE k.n SET v += 1 WHERE p = 1 AND c = 1");
    let slow = Options { disk_latency: (Duration::from_secs(8), Duration::from_secs(9)), ..Options::default() };
    world.sim.set_options(slow);
    for core in 0..2 {
        let failure = world
            .try_query(core, "UPDATE k.n SET v += 10 WHERE p = 1 AND c = 1", Request::default())
            .expect_err("too slow");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
        let detail =
            Detail::WriteTimeout { consistency: Consistency::One, received: 0, block_for: 1, write_type: "COUNTER" };
        assert_eq!(failure.detail, detail);
    }
    let batch = ["UPDATE k.n SET v += 100 WHERE p = 1 AND c = 1", "UPDATE k.n SET v += 100 WHERE p = 2 AND c = 1"];
    let failure = world.batch(0, BatchKind::Counter, &batch.map(str::to_owned)).expect_err("too slow");
    assert!(matches!(failure.detail, Detail::WriteTimeout { write_type: "COUNTER", .. }), "{:?}", failure.detail);
    world.sim.set_options(Options::default());
    world.on(0, |_, _| runtime::sleep(Duration::from_secs(45)));
    assert_eq!(world.ints("SELECT v FROM k.n WHERE p IN (1, 2)"), [[121], [100]]);
    world.crash();
    world.run(1);
    world.run_query("UPDATE k.n SET v += 1000 WHERE p = 1 AND c = 1");
    assert_eq!(world.ints("SELECT v FROM k.n WHERE p IN (1, 2)"), [[1121], [100]]);
}

#[test]
fn batches_add_up_and_do_not_mix() {
    let mut world = world(2);
    world.run_query("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    let counted =
        ["UPDATE k.n SET v += 1 WHERE p = 1 AND c = 1", "UPDATE k.n SET v += 2, s += 5 WHERE p = 1 AND c = 1"];
    let counted = counted.map(str::to_owned);
    world.batch(0, BatchKind::Counter, &counted).expect("counted");
    world.batch(1, BatchKind::Unlogged, &counted).expect("counted");
    assert_eq!(world.ints("SELECT s, v FROM k.n WHERE p = 1"), [[10, 6]]);
    let other = vec![counted[0].clone(), "INSERT INTO k.t (p, v) VALUES (1, 1)".to_owned()];
    for (kind, statements, text) in [
        (BatchKind::Logged, counted.to_vec(), "Cannot include a counter statement in a logged batch"),
        (BatchKind::Counter, other.clone(), "Cannot include non-counter statement in a counter batch"),
        (BatchKind::Unlogged, other.clone(), "Counter and non-counter mutations cannot exist in the same batch"),
        (BatchKind::Logged, other, "Counter and non-counter mutations cannot exist in the same batch"),
    ] {
        let failure = world.batch(0, kind, &statements).expect_err("refused");
        assert_eq!((failure.code, &*failure.text), (ErrorCode::Invalid, text));
    }
    assert_eq!(world.ints("SELECT s, v FROM k.n WHERE p = 1"), [[10, 6]]);
}

#[test]
fn null_amounts_are_refused_and_unset_ones_change_nothing() {
    let mut world = world(1);
    let update = "UPDATE k.n SET v = v + ?, s = s - ? WHERE p = ? AND c = 1";
    let bigint = |amount: i64| Value::Bytes(amount.to_be_bytes().to_vec());
    world.try_query(0, update, values(&[bigint(5), bigint(-7), int(1)])).expect("counted");
    world.try_query(0, update, values(&[Value::Unset, bigint(1), int(1)])).expect("counted");
    world.try_query(0, update, values(&[Value::Unset, Value::Unset, int(1)])).expect("nothing");
    assert_eq!(world.ints("SELECT s, v FROM k.n WHERE p = 1"), [[6, 5]]);
    assert_eq!(
        world.refusal(update, values(&[Value::Null, bigint(1), int(1)])),
        "Invalid null value for counter increment"
    );
    assert_eq!(
        world.refusal(update, values(&[bigint(1), bigint(i64::MIN), int(1)])),
        "The negation of -9223372036854775808 overflows supported counter precision (signed 8 bytes integer)"
    );
    assert_eq!(world.ints("SELECT s, v FROM k.n WHERE p = 1"), [[6, 5]]);
}
