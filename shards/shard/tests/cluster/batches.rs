//! Logged batches of three nodes: the two others keep them, and make them whole when their coordinator cannot.

use super::replicas::stored;
use super::world::{Request, Row, World, address, rows_of};
use model::failure::{Detail, Outcome};
use model::{Consistency, ErrorCode, Failure};
use shard::Verb;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}";
/// After this time the nodes that keep a batch have applied it.
const REPLAYED: Duration = Duration::from_secs(30);
/// `gc_grace_seconds` of the tables.
const GRACE: Duration = Duration::from_secs(60);

fn three_nodes() -> World {
    let mut world = World::start(&[2, 1, 2], |_| {});
    world.everywhere(KEYSPACE);
    for (table, id) in [("t", 1), ("u", 2)] {
        world.everywhere(&format!(
            "CREATE TABLE k.{table} (a int PRIMARY KEY, b int) \
             WITH id = 0000000{id}-0000-1000-8000-000000000000 AND gc_grace_seconds = {}",
            GRACE.as_secs()
        ));
    }
    // The clocks of the nodes differ, and a batch of before a table was created with its id is left out of it.
    world.wait(Duration::from_secs(2));
    world
}

/// A batch over both tables.
fn batch(key: i32, level: Consistency) -> Request {
    let text = format!(
        "BEGIN BATCH INSERT INTO k.t (a, b) VALUES ({key}, 1); INSERT INTO k.u (a, b) VALUES ({}, 1); APPLY BATCH",
        key + 1
    );
    Request { consistency: level, ..Request::new(&text) }
}

/// How many of the rows of a batch a node has.
fn rows(world: &mut World, node: usize, key: i32) -> u32 {
    stored(world, node, "t", key).0 + stored(world, node, "u", key + 1).0
}

/// The batches that a node keeps.
fn kept(world: &mut World, node: usize) -> Vec<Row> {
    rows_of(world.query(node, 0, &Request::new("SELECT id FROM system.batches")).expect("rows")).0
}

type Outcomes = Rc<RefCell<Option<Result<(), Failure>>>>;

/// Lets the first node begin a batch of which the two others get no mutation until it is stored there.
fn begin_without_mutations(world: &mut World, key: i32, level: Consistency) -> Outcomes {
    world.network.lost.borrow_mut().insert(Verb::Mutation);
    let outcome = world.begin(0, 0, move |shard| async move {
        let parameters = model::QueryParameters::new(level);
        shard.query(&shard::Session::default(), &batch(key, level).text, &parameters).await.map(drop)
    });
    let network = world.network.clone();
    world.sim.run_until(Duration::from_secs(1), || network.sent(Verb::Mutation) == 4);
    assert_eq!((world.network.sent(Verb::BatchStore), world.network.sent(Verb::Mutation)), (2, 4));
    outcome
}

#[test]
fn two_other_nodes_keep_a_batch_until_it_is_applied() {
    let mut world = three_nodes();
    for (node, key) in [(0, 1), (1, 11), (2, 21)] {
        for core in 0..world.cores(node) {
            world.query(node, core, &batch(key, Consistency::All)).expect("written");
        }
    }
    world.wait(Duration::from_millis(100));
    assert_eq!((world.network.sent(Verb::BatchStore), world.network.sent(Verb::BatchRemove)), (10, 10));
    for node in 0..3 {
        assert_eq!([1, 11, 21].map(|key| rows(&mut world, node, key)), [2, 2, 2]);
        assert_eq!(kept(&mut world, node), Vec::<Row>::new());
    }
    // Mutations of one partition need no batch log.
    let one = "BEGIN BATCH INSERT INTO k.t (a, b) VALUES (1, 1); UPDATE k.t SET b = 2 WHERE a = 1; APPLY BATCH";
    world.query(0, 0, &Request::new(one)).expect("written");
    assert_eq!(world.network.sent(Verb::BatchStore), 10);
}

#[test]
fn a_batch_whose_coordinator_dies_becomes_whole() {
    let mut world = three_nodes();
    begin_without_mutations(&mut world, 1, Consistency::Quorum);
    world.crash(0);
    world.announce(&[1, 2]);
    world.network.lost.borrow_mut().clear();
    assert_eq!([1, 2].map(|node| rows(&mut world, node, 1)), [0, 0]);
    assert_eq!([1, 2].map(|node| kept(&mut world, node).len()), [1, 1]);
    world.wait(REPLAYED);
    assert_eq!([1, 2].map(|node| rows(&mut world, node, 1)), [2, 2]);
    // The first node has it as well, or it is kept for it.
    world.restart(0, &[0, 1, 2]);
    world.wait(REPLAYED);
    assert_eq!([0, 1, 2].map(|node| kept(&mut world, node).len()), [0, 0, 0]);
}

#[test]
fn one_of_the_nodes_that_keep_a_batch_is_enough() {
    let mut world = three_nodes();
    begin_without_mutations(&mut world, 1, Consistency::Quorum);
    world.crash(0);
    world.crash(2);
    world.announce(&[1]);
    world.network.lost.borrow_mut().clear();
    await_rows(&mut world, 1, 1);
    // The other one finds its batch when it is started again.
    world.crash(1);
    world.restart(2, &[2]);
    await_rows(&mut world, 2, 1);
}

/// Waits until a node has the rows of a batch, which it has to before the batch is older than [`GRACE`].
fn await_rows(world: &mut World, node: usize, key: i32) {
    for _ in 0..GRACE.as_secs() {
        if rows(world, node, key) == 2 {
            return;
        }
        world.wait(Duration::from_secs(1));
    }
    panic!("node {node} has {} of 2 rows", rows(world, node, key));
}

#[test]
fn a_batch_that_could_not_be_applied_is_applied_later() {
    let mut world = three_nodes();
    let outcome = begin_without_mutations(&mut world, 1, Consistency::Quorum);
    world.sim.run_until(Duration::from_secs(5), || outcome.borrow().is_some());
    let told = outcome.borrow_mut().take().expect("an answer").expect_err("one replica has it");
    let (consistency, write_type) = (Consistency::Quorum, "BATCH");
    assert_eq!(told.detail, Detail::WriteTimeout { consistency, received: 1, block_for: 2, write_type });
    world.network.lost.borrow_mut().clear();
    world.wait(REPLAYED);
    for node in 0..3 {
        assert_eq!((rows(&mut world, node, 1), kept(&mut world, node).len()), (2, 0));
    }
}

#[test]
fn a_batch_that_cannot_be_kept_is_not_applied_by_its_coordinator() {
    let mut world = three_nodes();
    let timed_out = |world: &mut World, received| {
        let told = world.query(0, 0, &batch(1, Consistency::One)).expect_err("two nodes must keep it");
        let (consistency, write_type) = (Consistency::Two, "BATCH_LOG");
        assert_eq!((told.code, told.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
        assert_eq!(told.detail, Detail::WriteTimeout { consistency, received, block_for: 2, write_type });
    };
    for node in [1, 2] {
        world.network.slow.borrow_mut().insert(address(node), Duration::from_secs(3));
    }
    timed_out(&mut world, 0);
    world.network.slow.borrow_mut().remove(&address(1));
    timed_out(&mut world, 1);
    world.network.slow.borrow_mut().clear();
    world.crash(2);
    let before = world.sim.now();
    timed_out(&mut world, 1);
    assert!(world.sim.now().since(before) < Duration::from_millis(100), "a closed connection is not waited for");
    assert_eq!(world.network.sent(Verb::Mutation), 0);
    world.announce(&[0, 1]);
    world.query(0, 0, &batch(1, Consistency::Two)).expect("one node keeps it alone");
    world.crash(1);
    world.announce(&[0]);
    let told = world.query(0, 0, &batch(1, Consistency::One)).expect_err("no other node is left");
    let detail = Detail::Unavailable { consistency: Consistency::Two, required: 2, alive: 0 };
    assert_eq!((told.code, told.detail), (ErrorCode::Unavailable, detail));
}

#[test]
fn a_batch_loses_what_belongs_to_a_table_that_was_dropped() {
    let mut world = three_nodes();
    begin_without_mutations(&mut world, 1, Consistency::Quorum);
    world.everywhere("DROP TABLE k.u");
    world.network.lost.borrow_mut().clear();
    world.wait(REPLAYED);
    for node in 0..3 {
        assert_eq!((stored(&mut world, node, "t", 1).0, kept(&mut world, node).len()), (1, 0));
    }
    assert_eq!(world.network.sent(Verb::BatchRemove), 0, "those who kept it have removed it");
}

#[test]
fn a_batch_older_than_the_grace_of_its_tables_is_given_up() {
    let mut world = three_nodes();
    begin_without_mutations(&mut world, 1, Consistency::Quorum);
    [1, 2].into_iter().for_each(|node| world.crash(node));
    world.network.lost.borrow_mut().clear();
    world.wait(GRACE);
    world.restart(1, &[1]);
    world.wait(REPLAYED);
    assert_eq!((rows(&mut world, 1, 1), kept(&mut world, 1).len()), (0, 0));
    let metrics = world.on(1, 0, |shard| async move { shard.all_metrics().await.expect("metrics") });
    assert_eq!(metrics.iter().map(|metrics| metrics.batches_expired).sum::<u64>(), 1);
}
