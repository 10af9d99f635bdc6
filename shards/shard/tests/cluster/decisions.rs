//! Conditional changes and reads at SERIAL with three replicas.

use super::replicas::stored;
use super::world::{Request, World, address, rows_of};
use cluster::topology::features;
use model::failure::{Detail, Outcome};
use model::{Consistency, ErrorCode, Failure};
use shard::{Config, Verb};
use std::time::Duration;

fn three_nodes() -> World {
    let mut world = World::start(&[2, 1, 2], |_| {});
    world.everywhere("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}");
    let table = "CREATE TABLE k.t (a int PRIMARY KEY, b int) WITH id = 00000001-0000-1000-8000-000000000000";
    world.everywhere(table);
    world
}

fn insert(key: i32, level: Consistency) -> Request {
    let text = format!("INSERT INTO k.t (a, b) VALUES ({key}, 1) IF NOT EXISTS");
    Request { consistency: level, ..Request::new(&text) }
}

fn serial_read(key: i32) -> Request {
    let text = format!("SELECT b FROM k.t WHERE a = {key}");
    Request { consistency: Consistency::Serial, ..Request::new(&text) }
}

/// Whether a change was applied.
fn applied(world: &mut World, node: usize, request: &Request) -> bool {
    let answer = world.query(node, 0, request).unwrap_or_else(|failure| panic!("{}: {failure}", request.text));
    rows_of(answer).0[0][0] == Some(vec![1])
}

fn failure(world: &mut World, request: &Request) -> Failure {
    match world.query(0, 0, request) {
        Err(failure) => failure,
        Ok(_) => panic!("{} succeeded", request.text),
    }
}

#[test]
fn a_majority_decides_and_all_replicas_get_the_change() {
    let mut world = three_nodes();
    for key in 0..6 {
        let node = key as usize % 3;
        assert!(applied(&mut world, node, &insert(key, Consistency::One)), "{key}");
        for other in 0..3 {
            assert!(!applied(&mut world, other, &insert(key, Consistency::One)), "{key} on {other}");
        }
    }
    world.wait(Duration::from_millis(100));
    for key in 0..6 {
        let have = [0, 1, 2].map(|node| stored(&mut world, node, "t", key).0);
        assert_eq!(have, [1, 1, 1], "{key}");
    }
    assert_eq!(world.network.sent(Verb::PaxosSettle), 0, "no replica decides alone");
}

#[test]
fn decisions_with_replicas_that_are_down() {
    let mut world = three_nodes();
    world.crash(2);
    world.announce(&[0, 1]);
    assert!(applied(&mut world, 0, &insert(1, Consistency::Quorum)));
    let told = failure(&mut world, &insert(2, Consistency::All));
    let unavailable = |consistency, required, alive| Detail::Unavailable { consistency, required, alive };
    assert_eq!(told.detail, unavailable(Consistency::All, 3, 2));
    world.wait(Duration::from_millis(100));
    let have = |world: &mut World, key| [0, 1].map(|node| stored(world, node, "t", key).0);
    assert_eq!(have(&mut world, 2), [0, 0], "it was not proposed");
    assert_eq!(have(&mut world, 1), [1, 1]);
    world.crash(1);
    world.announce(&[0]);
    for request in [insert(3, Consistency::Any), serial_read(1)] {
        assert_eq!(failure(&mut world, &request).detail, unavailable(Consistency::Serial, 2, 1), "{}", request.text);
    }
}

#[test]
fn decisions_with_silent_replicas() {
    let mut world = three_nodes();
    world.network.set_silent(address(2), true);
    let before = world.sim.now();
    assert!(applied(&mut world, 0, &insert(1, Consistency::Quorum)));
    assert!(world.sim.now().since(before) < Duration::from_secs(1), "a majority is enough");
    let told = failure(&mut world, &insert(2, Consistency::All));
    let detail = |consistency, received, block_for, write_type| Detail::CasWriteTimeout {
        consistency,
        received,
        block_for,
        write_type,
        contentions: 0,
    };
    assert_eq!((told.code, told.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
    assert_eq!(told.detail, detail(Consistency::All, 2, 3, "SIMPLE"));
    assert!(!applied(&mut world, 1, &insert(2, Consistency::Quorum)), "it is decided");
    world.network.set_silent(address(1), true);
    let before = world.sim.now();
    let told = failure(&mut world, &insert(3, Consistency::One));
    assert_eq!(told.detail, detail(Consistency::Serial, 1, 2, "CAS"));
    assert!(world.sim.now().since(before) >= Config::default().write_timeout);
    let told = failure(&mut world, &serial_read(1));
    let (consistency, block_for) = (Consistency::Serial, 2);
    let detail = Detail::ReadTimeout { consistency, received: 0, block_for, data_present: false };
    assert_eq!((told.code, told.detail), (ErrorCode::ReadTimeout, detail));
    for node in [1, 2] {
        world.network.set_silent(address(node), false);
    }
    assert!(applied(&mut world, 1, &insert(3, Consistency::Quorum)), "nothing was proposed");
}

/// A round that first sends the last decision to a replica that lacks it must not write with that one's timestamp, at
/// which a deletion wins.
#[test]
fn a_change_is_later_than_the_decision_that_a_replica_lacked() {
    let mut world = three_nodes();
    assert!(applied(&mut world, 0, &insert(1, Consistency::Quorum)));
    world.network.set_silent(address(2), true);
    let delete = "DELETE FROM k.t WHERE a = 1 IF EXISTS";
    assert!(applied(&mut world, 0, &Request { consistency: Consistency::Quorum, ..Request::new(delete) }));
    world.network.set_silent(address(2), false);
    world.network.set_silent(address(1), true);
    assert!(applied(&mut world, 0, &insert(1, Consistency::Quorum)));
    let answer = world.query(0, 0, &serial_read(1)).expect("two replicas answer");
    assert_eq!(rows_of(answer).0.len(), 1);
}

/// Leaves the insertion of a row accepted: the answers to the proposal are lost, so nobody knows whether it was
/// accepted, and it is not committed.
fn leave_accepted(world: &mut World, key: i32) {
    let started = world.begin(0, 0, move |shard| async move {
        let request = insert(key, Consistency::One);
        let parameters = model::QueryParameters::new(request.consistency);
        shard.query(&shard::Session::default(), &request.text, &parameters).await.map(drop)
    });
    let sent = world.network.sent.clone();
    let before = world.network.sent(Verb::PaxosPropose);
    let proposed = || sent.borrow().get(&Verb::PaxosPropose).is_some_and(|count| *count >= before + 2);
    world.sim.run_until(Duration::from_secs(1), proposed);
    world.network.answers_lost.set(2);
    world.sim.run_until(Duration::from_secs(10), || started.borrow().is_some());
    let told = started.borrow_mut().take().expect("an end").expect_err("no answer came");
    assert_eq!((told.code, told.outcome), (ErrorCode::CasWriteUnknown, Outcome::Unknown));
    assert!(matches!(told.detail, Detail::CasWriteUnknown { received: 1, block_for: 2, .. }), "{told:?}");
}

#[test]
fn what_an_earlier_round_left_accepted_is_finished_by_a_serial_read() {
    let mut world = three_nodes();
    leave_accepted(&mut world, 7);
    assert_eq!(rows_of(world.query(2, 0, &serial_read(7)).expect("read")).0.len(), 1);
    assert!(!applied(&mut world, 1, &insert(7, Consistency::One)));
}

/// How many partitions of `k.t` had something unfinished that a node, with the others, has finished.
fn finish_all(world: &mut World, node: usize) -> Result<u64, Failure> {
    world.on(node, 0, |shard| async move {
        let table = shard.schema().table("k", "t").expect("a table").id;
        let topology = shard.topology();
        let others: Vec<_> =
            topology.nodes().iter().map(|node| node.host_id).filter(|id| *id != shard.host_id()).collect();
        shard.finish_proposals(table, &[model::TokenRange::FULL], &others).await
    })
}

#[test]
fn what_rounds_left_accepted_is_finished_by_a_repair() {
    let mut world = three_nodes();
    for key in 0..3 {
        leave_accepted(&mut world, key);
    }
    assert!(applied(&mut world, 1, &insert(3, Consistency::Quorum)));
    let have = |world: &mut World, key| [0, 1, 2].map(|node| stored(world, node, "t", key).0);
    assert_eq!([0, 1, 2].map(|key| have(&mut world, key)), [[0; 3]; 3], "nothing is committed");
    assert_eq!(finish_all(&mut world, 2).expect("finished"), 3);
    world.wait(Duration::from_millis(100));
    assert_eq!([0, 1, 2, 3].map(|key| have(&mut world, key)), [[1; 3]; 4]);
    assert_eq!(finish_all(&mut world, 0).expect("finished"), 0, "nothing is left");
}

#[test]
fn more_than_a_list_takes_is_finished_part_by_part() {
    let mut world = three_nodes();
    // Proposals reach this node alone.
    for node in [1, 2] {
        world.network.faults.borrow_mut().insert((address(node), Verb::PaxosPropose), super::network::Fault::Refused);
    }
    for key in 0..150 {
        world.query(0, 0, &insert(key, Consistency::One)).expect_err("two replicas refuse");
    }
    world.network.faults.borrow_mut().clear();
    // A client is told as soon as a majority cannot accept any more; the only acceptor may not be so far.
    world.wait(Duration::from_millis(100));
    assert_eq!(finish_all(&mut world, 1).expect("finished"), 150);
    world.wait(Duration::from_millis(100));
    // What fewer than a majority have accepted happens or does not: but everywhere the same, and once and for all.
    let have =
        |world: &mut World| [0, 1, 2].map(|node| (0..150).map(|key| stored(world, node, "t", key).0).sum::<u32>());
    let found = have(&mut world);
    assert!(found[0] > 0 && found == [found[0]; 3], "{found:?}");
    assert_eq!(finish_all(&mut world, 1).expect("finished"), 0, "nothing is left");
    assert_eq!(have(&mut world), found);
}

#[test]
fn nothing_is_said_to_be_finished_while_a_replica_is_down() {
    let mut world = three_nodes();
    leave_accepted(&mut world, 7);
    world.crash(2);
    world.announce(&[0, 1]);
    let failed = finish_all(&mut world, 0).expect_err("a replica is down").text.to_string();
    assert!(failed.starts_with(&format!("Endpoint /{}:", address(2))) && failed.ends_with(" died"), "{failed}");
    let mut members = world.members();
    members[1].features &= !features::PAXOS_REPAIRS;
    world.switch(&[0, 1], members);
    let failed = finish_all(&mut world, 0).expect_err("a node cannot").text.to_string();
    assert_eq!(failed, "Some nodes run a version without repair of Paxos; update them first");
}

/// What one node asks the two others for while it decides a request: prepares, prepares with a read, reads, proposals
/// and commits.
fn asked(world: &mut World, text: &str) -> [u64; 5] {
    let verbs =
        [Verb::PaxosPrepare, Verb::PaxosPrepareRead, Verb::ReadFragments, Verb::PaxosPropose, Verb::PaxosCommit];
    let before = verbs.map(|verb| world.network.sent(verb));
    assert!(applied(world, 0, &Request { consistency: Consistency::Quorum, ..Request::new(text) }), "{text}");
    world.wait(Duration::from_millis(100));
    let mut counts = verbs.map(|verb| world.network.sent(verb));
    counts.iter_mut().zip(before).for_each(|(count, before)| *count -= before);
    counts
}

#[test]
fn a_change_without_contention_takes_three_rounds() {
    let mut world = three_nodes();
    let change = |key| format!("UPDATE k.t SET b = 2 WHERE a = {key} IF b = null");
    assert_eq!(asked(&mut world, &change(1)), [0, 2, 0, 2, 2]);
    // Once one node cannot give rows with its promises, these are read in a round of their own.
    let mut members = world.members();
    members[0].features &= !features::READS_WITH_PROMISES;
    world.switch(&[0, 1, 2], members);
    assert_eq!(asked(&mut world, &change(2)), [2, 0, 2, 2, 2]);
    assert!(!applied(&mut world, 1, &insert(2, Consistency::Quorum)));
}

#[test]
fn what_a_promise_has_no_room_for_is_read_afterwards() {
    let mut world = three_nodes();
    world.everywhere(
        "CREATE TABLE k.c (a int, b int, c text, PRIMARY KEY (a, b)) WITH id = 00000002-0000-1000-8000-000000000000",
    );
    // The block of a promise ends with the row with which it reaches 64 KiB.
    for (key, first, reads) in [(1, 60_000, 0), (2, 70_000, 2)] {
        for (row, bytes) in [(1, first), (2, 10)] {
            let text = format!("INSERT INTO k.c (a, b, c) VALUES ({key}, {row}, '{}')", "x".repeat(bytes));
            let insert = Request { consistency: Consistency::All, ..Request::new(&text) };
            world.query(0, 0, &insert).expect("written");
        }
        let batch = |condition| {
            format!(
                "BEGIN BATCH UPDATE k.c SET c = 'y' WHERE a = {key} AND b = 1 IF c > 'a'; \
                 UPDATE k.c SET c = 'z' WHERE a = {key} AND b = 2 IF c = '{condition}'; APPLY BATCH"
            )
        };
        assert_eq!(asked(&mut world, &batch("xxxxxxxxxx")), [0, 2, reads, 2, 2], "{first}");
        assert!(!applied(&mut world, 1, &Request { consistency: Consistency::Quorum, ..Request::new(&batch("w")) }));
    }
}

/// Lets clients of all nodes change one row `turns` times each, all at once. Returns how many rounds that took, and how
/// many changes may have been applied or not.
fn contend(world: &mut World, clients: usize, turns: usize) -> (u64, usize) {
    let text = "UPDATE k.t SET b = 2 WHERE a = 1 IF b IN (1, 2)";
    let before = world.network.sent(Verb::PaxosPrepareRead);
    let running: Vec<_> = (0..clients)
        .map(|client| {
            world.begin(client % 3, 0, move |shard| async move {
                let mut unknown = 0;
                for _ in 0..turns {
                    let parameters = model::QueryParameters::new(Consistency::Quorum);
                    match shard.query(&shard::Session::default(), text, &parameters).await {
                        Ok(answer) => assert_eq!(rows_of(answer).0[0][0], Some(vec![1]), "applied"),
                        Err(failure) if failure.code == ErrorCode::CasWriteUnknown => unknown += 1,
                        Err(failure) => return Err(failure),
                    }
                }
                Ok::<usize, Failure>(unknown)
            })
        })
        .collect();
    world.sim.run_until(Duration::from_secs(60), || running.iter().all(|one| one.borrow().is_some()));
    let unknown = running.iter().map(|one| one.borrow_mut().take().expect("all end").expect("no other failure")).sum();
    // Each round asks both other nodes.
    ((world.network.sent(Verb::PaxosPrepareRead) - before) / 2, unknown)
}

#[test]
fn clients_of_one_row_make_progress_in_few_rounds() {
    let mut world = three_nodes();
    assert!(applied(&mut world, 0, &insert(1, Consistency::Quorum)));
    let (clients, turns) = (8, 6);
    assert_eq!(contend(&mut world, 1, turns), (turns as u64, 0), "nobody is in the way");
    let (rounds, unknown) = contend(&mut world, clients, turns);
    let decisions = (clients * turns) as u64;
    // A proposal that another ballot overtakes at some of the acceptors has an unknown end. That is rare.
    assert!(unknown <= 1, "{unknown} of {decisions}");
    assert!(rounds <= 2 * decisions, "{rounds} rounds for {decisions} decisions");
}
