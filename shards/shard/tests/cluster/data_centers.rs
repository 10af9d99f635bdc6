//! Writes in two data centres: a mutation crosses the distance once, and each replica answers the coordinator itself.

use super::network::Fault;
use super::replicas::stored;
use super::world::{Request, World, address};
use model::failure::Detail;
use model::{Consistency, ErrorCode};
use shard::{Config, Verb};
use std::collections::BTreeMap;
use std::time::Duration;

/// The nodes of the second data centre; the first has the two before.
const FAR: [usize; 3] = [2, 3, 4];

fn located(config: &mut Config) {
    let is_far = FAR.iter().any(|node| config.listen_address == address(*node));
    config.data_center = if is_far { "dc2" } else { "dc1" }.into();
}

fn five_nodes(tweak: fn(&mut Config)) -> World {
    let mut world = World::start(&[2, 1, 2, 1, 1], tweak);
    world.everywhere("CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 2, 'dc2': 3}");
    for table in [
        "CREATE TABLE k.t (a int PRIMARY KEY, b int) WITH id = 00000001-0000-1000-8000-000000000000",
        "CREATE TABLE k.n (a int PRIMARY KEY, b counter) WITH id = 00000002-0000-1000-8000-000000000000",
    ] {
        world.everywhere(table);
    }
    world
}

fn request(text: &str, consistency: Consistency) -> Request {
    Request { consistency, ..Request::new(text) }
}

/// How many requests of each verb that writes are sent while a statement runs on a node.
fn sent(world: &mut World, (node, core): (usize, usize), text: &str, level: Consistency) -> BTreeMap<Verb, u64> {
    const VERBS: [Verb; 5] =
        [Verb::Mutation, Verb::MutationRelay, Verb::MutationRelayed, Verb::MutationRelayedAnswer, Verb::PaxosCommit];
    let counts = |world: &World| VERBS.map(|verb| world.network.sent(verb));
    let before = counts(world);
    world.query(node, core, &request(text, level)).unwrap_or_else(|failure| panic!("{text}: {failure}"));
    world.wait(Duration::from_millis(20));
    let counts = VERBS.into_iter().zip(counts(world)).zip(before);
    counts.map(|((verb, after), before)| (verb, after - before)).filter(|(_, count)| *count > 0).collect()
}

/// Which nodes have a key.
fn having(world: &mut World, key: i32) -> Vec<usize> {
    (0..5).filter(|node| stored(world, *node, "t", key).0 > 0).collect()
}

#[test]
fn one_replica_of_the_other_data_center_passes_a_write_on() {
    let mut world = five_nodes(located);
    let through = |near, relayed| -> BTreeMap<Verb, u64> {
        [
            (Verb::Mutation, near),
            (Verb::MutationRelay, 1),
            (Verb::MutationRelayed, relayed),
            (Verb::MutationRelayedAnswer, relayed),
        ]
        .into()
    };
    // At ALL, every answer is needed.
    for (key, core) in [(1, 0), (2, 1)] {
        let text = format!("INSERT INTO k.t (a, b) VALUES ({key}, 1)");
        assert_eq!(sent(&mut world, (0, core), &text, Consistency::All), through(1, 2));
        assert_eq!(having(&mut world, key), [0, 1, 2, 3, 4]);
    }
    let far: BTreeMap<Verb, u64> =
        [(Verb::Mutation, 2), (Verb::MutationRelay, 1), (Verb::MutationRelayed, 1), (Verb::MutationRelayedAnswer, 1)]
            .into();
    assert_eq!(sent(&mut world, (3, 0), "INSERT INTO k.t (a, b) VALUES (3, 1)", Consistency::All), far);
    let batch = "BEGIN BATCH INSERT INTO k.t (a, b) VALUES (4, 1); INSERT INTO k.t (a, b) VALUES (4, 2); APPLY BATCH";
    assert_eq!(sent(&mut world, (0, 0), batch, Consistency::EachQuorum), through(1, 2));
    let logged = "BEGIN BATCH INSERT INTO k.t (a, b) VALUES (5, 1); INSERT INTO k.t (a, b) VALUES (6, 2); APPLY BATCH";
    let twice = through(1, 2).into_iter().map(|(verb, count)| (verb, 2 * count)).collect();
    assert_eq!(sent(&mut world, (0, 0), logged, Consistency::All), twice);
    let counter = "UPDATE k.n SET b = b + 1 WHERE a = 1";
    assert_eq!(sent(&mut world, (0, 0), counter, Consistency::All), through(1, 2), "what its leader has added up");
    // As in Cassandra, decisions go to each replica.
    let decision = "INSERT INTO k.t (a, b) VALUES (7, 1) IF NOT EXISTS";
    assert_eq!(sent(&mut world, (0, 0), decision, Consistency::All), [(Verb::PaxosCommit, 4)].into());
}

#[test]
fn replicas_are_late_if_the_one_that_passes_on_dies() {
    let mut world = five_nodes(|config| {
        located(config);
        config.hints.enabled = true;
        config.hints.flush_period = Duration::from_millis(100);
    });
    for node in FAR {
        world.network.faults.borrow_mut().insert((address(node), Verb::MutationRelay), Fault::Lost);
    }
    let insert = "INSERT INTO k.t (a, b) VALUES (1, 1)";
    world.query(0, 0, &request(insert, Consistency::LocalQuorum)).expect("the near replicas are enough");
    let told = world.query(0, 0, &request(insert, Consistency::EachQuorum)).expect_err("nobody answers");
    let (consistency, write_type) = (Consistency::EachQuorum, "SIMPLE");
    let detail = Detail::WriteTimeout { consistency, received: 2, block_for: 4, write_type };
    assert_eq!((told.code, told.detail), (ErrorCode::WriteTimeout, detail));
    assert_eq!(having(&mut world, 1), [0, 1]);
    // The coordinator keeps it for all of them.
    world.wait(Duration::from_secs(4));
    assert_eq!(having(&mut world, 1), [0, 1, 2, 3, 4]);
}

#[test]
fn a_replica_that_cannot_pass_on_is_passed_by() {
    let mut world = five_nodes(located);
    for node in FAR {
        world.network.faults.borrow_mut().insert((address(node), Verb::MutationRelay), Fault::Refused);
    }
    let insert = "INSERT INTO k.t (a, b) VALUES (1, 1)";
    let expected = [(Verb::Mutation, 1 + 2), (Verb::MutationRelay, 1)].into();
    assert_eq!(sent(&mut world, (0, 0), insert, Consistency::EachQuorum), expected);
    assert_eq!(having(&mut world, 1).len(), 4);
}

#[test]
fn nothing_is_passed_on_while_some_node_does_not_know_how() {
    let mut world = five_nodes(located);
    let mut members = world.members();
    members[1].features = 0;
    world.switch(&[0, 1, 2, 3, 4], members);
    let insert = "INSERT INTO k.t (a, b) VALUES (1, 1)";
    assert_eq!(sent(&mut world, (0, 0), insert, Consistency::All), [(Verb::Mutation, 4)].into());
    assert_eq!(having(&mut world, 1), [0, 1, 2, 3, 4]);
}
