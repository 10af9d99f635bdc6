//! Nodes that are down, silent, or know other things than the node that asks them.

use super::world::{Request, World, address, rows_of};
use cluster::topology::features;
use model::failure::{Detail, FailureReason, Outcome};
use model::{Consistency, ErrorCode, Failure, RingToken, TableId};
use shard::{Config, TombstoneThresholds, Verb};

const TABLE: &str = "CREATE TABLE k.t (a int PRIMARY KEY, b int) WITH id = 00000001-0000-1000-8000-000000000000";
const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Two nodes: the first has the keys with tokens up to 0, the second those above.
fn two_nodes() -> World {
    let mut world = World::start(&[2, 2], |config: &mut Config| {
        config.tombstones = TombstoneThresholds { warn: 1, fail: 2 };
    });
    world.everywhere(KEYSPACE);
    world.everywhere(TABLE);
    split_at(&mut world, 0, &[0, 1]);
    world
}

/// Gives the first node the keys with tokens up to `token` and the second one those above, and tells some nodes of it.
fn split_at(world: &mut World, token: i64, nodes: &[usize]) {
    let mut members = world.members();
    for member in &mut members {
        let is_first = member.address.ip() == address(0);
        member.tokens = vec![RingToken::Murmur3(if is_first { token } else { i64::MAX })];
    }
    world.switch(nodes, members);
}

/// A key of the first node, and one of the second: the tokens of 1 and 3 under Murmur3 lie on either side of 0.
const FIRST: i32 = 1;
const SECOND: i32 = 3;

fn insert(key: i32) -> Request {
    Request::new(&format!("INSERT INTO k.t (a, b) VALUES ({key}, 1)"))
}

fn select(key: i32) -> Request {
    Request::new(&format!("SELECT * FROM k.t WHERE a = {key}"))
}

fn failure(world: &mut World, node: usize, request: &Request) -> Failure {
    match world.query(node, 0, request) {
        Err(failure) => failure,
        Ok(answer) => panic!("{}: {:?}", request.text, rows_of(answer)),
    }
}

fn count(world: &mut World, node: usize, request: &Request) -> usize {
    let answer = world.query(node, 0, request).unwrap_or_else(|failure| panic!("{}: {failure}", request.text));
    rows_of(answer).0.len()
}

#[test]
fn keys_are_on_the_nodes_that_the_tests_say() {
    let mut world = two_nodes();
    for (node, key) in [(0, FIRST), (1, SECOND)] {
        let before = world.network.sent(Verb::Mutation);
        world.query(node, 0, &insert(key)).expect("inserted");
        assert_eq!(world.network.sent(Verb::Mutation), before, "a node writes its own keys without the network");
        world.query(1 - node, 0, &insert(key)).expect("inserted");
        assert_eq!(world.network.sent(Verb::Mutation), before + 1);
    }
}

#[test]
fn what_a_dead_node_has_is_unavailable() {
    let mut world = two_nodes();
    world.query(0, 0, &insert(FIRST)).expect("inserted");
    world.crash(1);
    world.announce(&[0]);
    let unavailable = |consistency| Detail::Unavailable { consistency, required: 1, alive: 0 };
    for text in [
        format!("INSERT INTO k.t (a, b) VALUES ({SECOND}, 1)"),
        format!("SELECT * FROM k.t WHERE a = {SECOND}"),
        "SELECT * FROM k.t".into(),
        "SELECT count(*) FROM k.t".into(),
        format!("BEGIN BATCH INSERT INTO k.t (a) VALUES ({FIRST}); INSERT INTO k.t (a) VALUES ({SECOND}); APPLY BATCH"),
    ] {
        let failure = failure(&mut world, 0, &Request::new(&text));
        assert_eq!((failure.code, failure.detail), (ErrorCode::Unavailable, unavailable(Consistency::One)), "{text}");
    }
    let text = format!("INSERT INTO k.t (a, b) VALUES ({SECOND}, 1) IF NOT EXISTS");
    let told = failure(&mut world, 0, &Request::new(&text));
    assert_eq!((told.code, told.detail), (ErrorCode::Unavailable, unavailable(Consistency::Serial)));
    assert_eq!(count(&mut world, 0, &select(FIRST)), 1, "what this node has is served");
}

#[test]
fn a_truncation_that_a_dead_node_cannot_owe_is_refused() {
    let mut world = two_nodes();
    let mut members = world.members();
    members[1].features &= !features::OWED_TRUNCATIONS;
    world.switch(&[0], members);
    world.crash(1);
    world.announce(&[0]);
    let told = failure(&mut world, 0, &Request::new("TRUNCATE k.t"));
    assert_eq!(told.text, "Error during truncate: Cannot achieve consistency level ALL");
}

#[test]
fn a_node_without_connection_fails_requests_at_once() {
    let mut world = two_nodes();
    world.crash(1);
    let reasons = vec![(address(1), FailureReason::NodeDown)];
    let before = world.sim.now();
    let told = failure(&mut world, 0, &insert(SECOND));
    assert_eq!((told.code, told.outcome), (ErrorCode::WriteFailure, Outcome::NotApplied));
    assert!(matches!(&told.detail, Detail::WriteFailure { failures, .. } if *failures == reasons), "{told:?}");
    let told = failure(&mut world, 0, &select(SECOND));
    assert!(matches!(&told.detail, Detail::ReadFailure { failures, .. } if *failures == reasons), "{told:?}");
    let told = failure(&mut world, 0, &Request::new("SELECT * FROM k.t"));
    assert!(matches!(&told.detail, Detail::ReadFailure { failures, .. } if *failures == reasons), "{told:?}");
    let text = format!("UPDATE k.t SET b = 1 WHERE a = {SECOND} IF b = 2");
    let told = failure(&mut world, 0, &Request::new(&text));
    assert!(matches!(&told.detail, Detail::WriteFailure { write_type: "CAS", failures, .. } if *failures == reasons));
    assert!(world.sim.now().since(before).as_millis() < 100, "nothing was waited for");
}

#[test]
fn a_silent_node_is_waited_for_as_long_as_the_request_lasts() {
    let mut world = two_nodes();
    world.network.set_silent(address(1), true);
    let before = world.sim.now();
    let told = failure(&mut world, 0, &insert(SECOND));
    assert_eq!((told.code, told.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
    assert_eq!(told.text, "Operation timed out - received only 0 responses.");
    let told = failure(&mut world, 0, &select(SECOND));
    assert_eq!((told.code, &*told.text), (ErrorCode::ReadTimeout, "Operation timed out - received only 0 responses."));
    let told = failure(&mut world, 0, &Request::new("SELECT * FROM k.t"));
    assert_eq!(told.code, ErrorCode::ReadTimeout);
    let text = format!("UPDATE k.t SET b = 1 WHERE a = {SECOND} IF b = 2");
    let told = failure(&mut world, 0, &Request::new(&text));
    assert!(matches!(told.detail, Detail::CasWriteTimeout { write_type: "CAS", .. }), "{told:?}");
    let config = Config::default();
    let all = config.write_timeout * 2 + config.read_timeout + config.range_timeout;
    let waited = world.sim.now().since(before);
    assert!(waited >= all && waited < all + std::time::Duration::from_millis(200), "{waited:?} of {all:?}");
    world.network.set_silent(address(1), false);
    assert_eq!(count(&mut world, 0, &select(SECOND)), 0);
}

#[test]
fn a_write_whose_answer_is_lost_is_unknown_and_there() {
    let mut world = two_nodes();
    world.network.answers_lost.set(1);
    let told = failure(&mut world, 0, &insert(SECOND));
    assert_eq!((told.code, told.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
    assert_eq!(count(&mut world, 0, &select(SECOND)), 1);
    // The answer to the promise arrives, that to the proposal does not.
    let set = format!("UPDATE k.t SET b = 2 WHERE a = {SECOND} IF b = 1");
    let lost = world.network.answers_lost.clone();
    let set = world.begin(0, 0, move |shard| async move {
        let parameters = model::QueryParameters::new(Consistency::One);
        shard.query(&shard::Session::default(), &set, &parameters).await.map(rows_of)
    });
    let sent = world.network.sent.clone();
    let proposed = || sent.borrow().contains_key(&Verb::PaxosSettle);
    world.sim.run_until(std::time::Duration::from_secs(1), proposed);
    lost.set(1);
    world.sim.run_until(std::time::Duration::from_secs(10), || set.borrow().is_some());
    let told = set.borrow_mut().take().expect("an end").expect_err("no answer came");
    assert_eq!((told.code, told.outcome), (ErrorCode::CasWriteUnknown, Outcome::Unknown));
    let serial = Request { consistency: Consistency::Serial, ..Request::new("SELECT b FROM k.t WHERE a = 3") };
    let rows = rows_of(world.query(0, 1, &serial).expect("read")).0;
    assert_eq!(rows, [[Some(vec![0, 0, 0, 2])]], "it was decided");
}

#[test]
fn failures_of_the_other_node_keep_what_they_say() {
    let mut world = two_nodes();
    for column in 0..3 {
        let text = format!("DELETE FROM k.t WHERE a = {}", SECOND * (column + 1));
        world.query(0, 0, &Request::new(&text)).expect("deleted");
    }
    let table = "CREATE TABLE k.c (a int, b int, PRIMARY KEY (a, b)) WITH id = 00000002-0000-1000-8000-000000000000";
    world.everywhere(table);
    for b in 0..4 {
        let text = format!("DELETE FROM k.c WHERE a = {SECOND} AND b = {b}");
        world.query(0, 0, &Request::new(&text)).expect("deleted");
    }
    let told = failure(&mut world, 0, &Request::new(&format!("SELECT * FROM k.c WHERE a = {SECOND}")));
    let reasons = vec![(address(1), FailureReason::ReadTooManyTombstones)];
    assert!(matches!(&told.detail, Detail::ReadFailure { failures, .. } if *failures == reasons), "{told:?}");
    let told = failure(&mut world, 0, &Request::new("SELECT * FROM k.c"));
    assert_eq!(told.code, ErrorCode::ReadFailure, "{told:?}");
    let blob = format!("INSERT INTO k.t (a) VALUES ({SECOND}) USING TTL 630720001");
    assert_eq!(failure(&mut world, 0, &Request::new(&blob)).code, ErrorCode::Invalid);
}

#[test]
fn a_table_that_the_other_node_does_not_know_is_an_incompatible_schema() {
    let mut world = two_nodes();
    let create = TABLE.replace("k.t", "k.u").replace("00000001", "00000009");
    world.query(0, 0, &Request::new(&create)).expect("created on one node");
    let reasons = vec![(address(1), FailureReason::IncompatibleSchema)];
    let told = failure(&mut world, 0, &Request::new(&insert(SECOND).text.replace("k.t", "k.u")));
    assert_eq!(told.outcome, Outcome::NotApplied);
    assert!(matches!(&told.detail, Detail::WriteFailure { failures, .. } if *failures == reasons), "{told:?}");
    let told = failure(&mut world, 0, &Request::new("SELECT * FROM k.u"));
    assert!(matches!(&told.detail, Detail::ReadFailure { failures, .. } if *failures == reasons), "{told:?}");
    // A table that comes while the request waits is as good as one that was there before.
    let wait = world.begin(0, 0, |shard| async move {
        let parameters = model::QueryParameters::new(Consistency::One);
        let text = insert(SECOND).text.replace("k.t", "k.u");
        shard.query(&shard::Session::default(), &text, &parameters).await.map(drop)
    });
    world.query(1, 0, &Request::new(&create)).expect("created on the other one");
    world.sim.run_until(std::time::Duration::from_secs(10), || wait.borrow().is_some());
    assert_eq!(wait.borrow_mut().take(), Some(Ok(())));
    let column = |world: &mut World| failure(world, 0, &Request::new("SELECT c FROM k.u WHERE a = 3"));
    world.query(0, 0, &Request::new("ALTER TABLE k.u ADD c int")).expect("altered on one node");
    let told = column(&mut world);
    assert!(matches!(&told.detail, Detail::ReadFailure { failures, .. } if *failures == reasons), "{told:?}");
}

#[test]
fn a_request_of_an_earlier_epoch_is_planned_again() {
    let mut world = two_nodes();
    world.query(0, 0, &insert(SECOND)).expect("inserted");
    // The first node does not know yet that the second one has nothing any more, and the second has told it so.
    split_at(&mut world, i64::MAX - 1, &[1]);
    let waiting = world.begin(0, 0, |shard| async move {
        let parameters = model::QueryParameters::new(Consistency::One);
        shard.query(&shard::Session::default(), &insert(SECOND).text, &parameters).await.map(drop)
    });
    let sent = world.network.sent.clone();
    let before = world.network.sent(Verb::Mutation);
    world.sim.run_until(std::time::Duration::from_millis(100), || sent.borrow()[&Verb::Mutation] > before);
    assert_eq!(*waiting.borrow(), None, "it waits for the epoch");
    world.epoch -= 1;
    split_at(&mut world, i64::MAX - 1, &[0]);
    world.sim.run_until(std::time::Duration::from_secs(10), || waiting.borrow().is_some());
    assert_eq!(waiting.borrow_mut().take(), Some(Ok(())));
    assert_eq!(count(&mut world, 0, &select(SECOND)), 1, "the first node has it now");
    assert_eq!(count(&mut world, 1, &select(SECOND)), 1);
}

#[test]
fn an_epoch_that_the_other_node_does_not_reach_is_not_served() {
    let mut world = two_nodes();
    split_at(&mut world, 0, &[0]);
    let told = failure(&mut world, 0, &insert(SECOND));
    let reasons = vec![(address(1), FailureReason::IncompatibleSchema)];
    assert!(matches!(&told.detail, Detail::WriteFailure { failures, .. } if *failures == reasons), "{told:?}");
    assert_eq!(told.outcome, Outcome::NotApplied);
    // One that it reaches while the request waits is.
    let waiting = world.begin(0, 0, |shard| async move {
        let parameters = model::QueryParameters::new(Consistency::One);
        shard.query(&shard::Session::default(), &insert(SECOND).text, &parameters).await.map(drop)
    });
    world.epoch -= 1;
    split_at(&mut world, 0, &[1]);
    world.sim.run_until(std::time::Duration::from_secs(10), || waiting.borrow().is_some());
    assert_eq!(waiting.borrow_mut().take(), Some(Ok(())));
}

#[test]
fn bytes_that_are_no_request_are_refused() {
    let mut world = two_nodes();
    let serve = |world: &mut World, verb: u8, body: Vec<u8>| {
        world.on(0, 1, move |shard| async move { shard.serve_peer(uuid::Uuid::nil(), verb, body).await })
    };
    assert_eq!(serve(&mut world, Verb::Echo as u8, Vec::new()), Ok(Vec::new()));
    let mut below = model::arbitrary::generator(5);
    // The group judges its own messages, whatever core they come to.
    for verb in (0..=u8::MAX).filter(|verb| *verb != Verb::MetadataLog as u8) {
        assert!(serve(&mut world, verb, vec![1]).is_err(), "{verb:#x}");
        let head = [&[1][..], &world.epoch.to_le_bytes()].concat();
        let table = TableId([0; 16]);
        for _ in 0..4 {
            let tail: Vec<u8> = (0..below(60)).map(|_| below(256) as u8).collect();
            let body = [&head[..], &table.0, &tail].concat();
            // Whatever it is, it ends, and nobody has such a table.
            let answer = serve(&mut world, verb, body);
            assert!(answer.is_err() || answer.is_ok_and(|answer| answer[1] != 0), "{verb:#x}");
        }
    }
}
