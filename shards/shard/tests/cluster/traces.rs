//! Traces of requests that several nodes serve: each node writes what it has done, in the order of Cassandra.

use super::world::{Request, World, address, rows_of};
use model::{Consistency, QueryParameters};
use shard::{Session, Verb};
use std::net::IpAddr;
use std::time::Duration;

/// Three nodes of one core with a table of three replicas.
fn three_nodes() -> World {
    let mut world = World::start(&[1, 1, 1], |_| {});
    world.everywhere("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}");
    world.everywhere(
        "CREATE TABLE k.t (a int PRIMARY KEY, b int) WITH id = 00000001-0000-1000-8000-000000000000 \
         AND speculative_retry = 'NEVER'",
    );
    world
}

/// Runs a statement on the first node, traced or not. Returns what each node has written of it: activities without the
/// sizes of messages.
fn activities(world: &mut World, text: &str, level: Consistency) -> [Vec<String>; 3] {
    let text = text.to_owned();
    let id = world.on(0, 0, move |shard| async move {
        let trace = shard.begin_trace(address(9));
        let (session, parameters) = (Session::default(), QueryParameters::new(level));
        shard.traced(&trace, shard.query(&session, &text, &parameters)).await.expect("answered");
        let id = trace.id();
        shard.end_trace(trace);
        id
    });
    world.wait(Duration::from_secs(1));
    let select =
        format!("SELECT source, activity FROM system_traces.events WHERE session_id = {}", uuid::Uuid::from_bytes(id));
    let select = Request { consistency: Consistency::Two, ..Request::new(&select) };
    let (rows, _) = rows_of(world.query(0, 0, &select).expect("rows"));
    let mut found = [const { Vec::new() }; 3];
    for row in rows {
        let [Some(source), Some(activity)] = &row[..] else { panic!("{row:?}") };
        let source: [u8; 4] = source[..].try_into().expect("an address");
        let node = (0..3).find(|node| address(*node) == IpAddr::from(source)).expect("a node");
        let activity = String::from_utf8(activity.clone()).expect("text");
        found[node].push(activity.split(" message size ").next().unwrap_or_default().to_owned());
    }
    found
}

#[test]
fn replicas_write_what_they_have_done_for_a_write() {
    let mut world = three_nodes();
    let [coordinator, replicas @ ..] = activities(&mut world, "INSERT INTO k.t (a, b) VALUES (1, 1)", Consistency::All);
    for replica in &replicas {
        let expected = [
            "MUTATION_REQ message received from /127.0.0.1:7000",
            "Appending to commitlog",
            "Adding to t memtable",
            "Enqueuing response to /127.0.0.1:7000",
            "Sending MUTATION_RSP message to /127.0.0.1:7000",
        ];
        assert_eq!(replica, &expected);
    }
    let of = |word: &str| coordinator.iter().filter(|activity| activity.contains(word)).cloned().collect::<Vec<_>>();
    let place = |activity: &str| coordinator.iter().position(|other| other == activity).expect("an activity");
    for node in [2, 3] {
        let steps = [
            place("Determining replicas for mutation"),
            place(&format!("Sending MUTATION_REQ message to /127.0.0.{node}:7000")),
            place(&format!("MUTATION_RSP message received from /127.0.0.{node}:7000")),
            place(&format!("Processing response from /127.0.0.{node}:7000")),
        ];
        assert!(steps.is_sorted(), "{coordinator:?}");
    }
    assert_eq!(of("memtable"), ["Adding to t memtable"]);
}

#[test]
fn a_read_tells_whom_it_asks_and_what_differs() {
    let mut world = three_nodes();
    world
        .query(0, 0, &Request { consistency: Consistency::All, ..Request::new("INSERT INTO k.t (a, b) VALUES (6, 1)") })
        .expect("written");
    let read = "SELECT * FROM k.t WHERE a = 6";
    let [coordinator, replicas @ ..] = activities(&mut world, read, Consistency::All);
    for (node, replica) in [2, 3].into_iter().zip(&replicas) {
        assert!(coordinator.contains(&format!("reading digest from /127.0.0.{node}:7000")), "{coordinator:?}");
        assert_eq!(replica[0], "READ_REQ message received from /127.0.0.1:7000");
        let last = ["Enqueuing response to /127.0.0.1:7000", "Sending READ_RSP message to /127.0.0.1:7000"];
        assert!(replica.ends_with(&last.map(str::to_owned)), "{replica:?}");
        assert!(replica.iter().any(|activity| activity == "Executing single-partition query on t"), "{replica:?}");
    }
    // One replica misses a write.
    world.network.set_silent(address(2), true);
    world
        .query(0, 0, &Request { consistency: Consistency::Two, ..Request::new("INSERT INTO k.t (a, b) VALUES (6, 2)") })
        .expect("written");
    world.network.set_silent(address(2), false);
    let [coordinator, _, replica] = activities(&mut world, read, Consistency::All);
    let mismatch = "Digest mismatch: Mismatch for key DecoratedKey(2705480034054113608, 00000006)";
    assert!(coordinator.iter().any(|activity| activity == mismatch), "{coordinator:?}");
    assert!(replica.iter().any(|activity| activity == "READ_REPAIR_REQ message received from /127.0.0.1:7000"));
    let metrics = world.on(0, 0, |shard| async move { shard.all_metrics().await.expect("metrics") });
    assert_eq!(metrics.iter().map(|metrics| metrics.digests_differed).sum::<u64>(), 1);
}

#[test]
fn a_logged_batch_tells_who_keeps_it() {
    let mut world = three_nodes();
    let text = "BEGIN BATCH INSERT INTO k.t (a, b) VALUES (1, 1); INSERT INTO k.t (a, b) VALUES (2, 1); APPLY BATCH";
    let [coordinator, replicas @ ..] = activities(&mut world, text, Consistency::All);
    assert!(coordinator.iter().any(|activity| activity == "Determining replicas for atomic batch"));
    for (node, replica) in [2, 3].into_iter().zip(&replicas) {
        assert!(coordinator.contains(&format!("Sending BATCH_STORE_REQ message to /127.0.0.{node}:7000")));
        let expected = [
            "BATCH_STORE_REQ message received from /127.0.0.1:7000",
            "Appending to commitlog",
            "Adding to batches memtable",
            "Enqueuing response to /127.0.0.1:7000",
            "Sending BATCH_STORE_RSP message to /127.0.0.1:7000",
        ];
        assert_eq!(replica[..5], expected);
    }
}

#[test]
fn what_is_not_traced_leaves_no_trace() {
    let mut world = three_nodes();
    world.query(0, 0, &Request::new("INSERT INTO k.t (a, b) VALUES (1, 1)")).expect("written");
    world.wait(Duration::from_secs(1));
    assert_eq!(world.network.sent(Verb::Mutation), 2);
    let select = Request { consistency: Consistency::Two, ..Request::new("SELECT * FROM system_traces.events") };
    assert_eq!(rows_of(world.query(0, 0, &select).expect("rows")).0.len(), 0);
}
