//! Other replicas fetch what one node has read from a snapshot.

use super::reads::ALL;
use super::replicas::stored;
use super::world::{Request, World, address};
use model::RingToken;
use runtime::NodeId;
use shard::{StreamSummary, TableVerb};
use std::time::Duration;

const ROWS: i32 = 120;

/// Three nodes, of which the first has all rows of `k.t`, as if it had read them from a snapshot, though each should
/// have a part.
fn world(replicas: usize) -> World {
    let mut world = World::start(&[1, 2, 1], |_| {});
    world.everywhere(&format!(
        "CREATE KEYSPACE k WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
    ));
    world.everywhere(
        "CREATE TABLE k.t (a int PRIMARY KEY, b int, c int) WITH id = 00000001-0000-1000-8000-000000000000",
    );
    let places = world.members_at([-(1 << 61), 0, 1 << 61]);
    let mut members = places.clone();
    for member in &mut members {
        member.tokens = if member.address.ip() == address(0) { vec![RingToken::Murmur3(0)] } else { Vec::new() };
    }
    world.switch(&ALL, members);
    for key in 0..ROWS {
        let text = format!("INSERT INTO k.t (a, b, c) VALUES ({key}, 1, {key})");
        world.query(0, 0, &Request::new(&text)).expect("written");
    }
    world.on(0, 0, |shard| async move { shard.on_every_shard(TableVerb::FlushAll).await }).expect("flushed");
    world.switch(&ALL, places);
    world
}

fn hand_out(world: &mut World) -> Result<StreamSummary, String> {
    world.on(0, 0, |shard| async move {
        let table = shard.schema().table("k", "t").expect("a table").clone();
        shard.hand_out(&table).await.map_err(|failure| failure.text.to_string())
    })
}

/// How many rows each node has alone.
fn held(world: &mut World) -> [i32; 3] {
    ALL.map(|node| (0..ROWS).filter(|key| stored(world, node, "t", *key).0 == 1).count() as i32)
}

#[test]
fn every_replica_gets_what_it_should_have() {
    let mut world = world(1);
    assert_eq!(held(&mut world), [ROWS, 0, 0]);
    let fetched = hand_out(&mut world).expect("handed out");
    assert!(fetched.files > 0 && fetched.bytes > 0, "{fetched:?}");
    let [_, second, third] = held(&mut world);
    assert!(second > 0 && third > 0 && second + third < ROWS, "{second} and {third}");
    let cleaned = world.on(0, 0, |shard| async move {
        let table = shard.schema().table("k", "t").expect("a table").id;
        shard.on_every_shard(TableVerb::Clean(table)).await
    });
    cleaned.expect("cleaned");
    assert_eq!(held(&mut world), [ROWS - second - third, second, third], "each row once");
}

#[test]
fn nothing_is_handed_out_while_a_replica_is_down() {
    let mut world = world(3);
    world.announce(&[0, 1]);
    let down = world.members().into_iter().find(|member| member.address.ip() == address(2)).expect("a member");
    assert_eq!(hand_out(&mut world), Err(format!("the replica /{} is down", down.address)));
    assert_eq!(held(&mut world), [ROWS, 0, 0]);
    world.announce(&ALL);
    hand_out(&mut world).expect("handed out");
    assert_eq!(held(&mut world), [ROWS; 3]);
}

#[test]
fn a_replica_that_starts_again_fetches_again() {
    for steps in [20, 200, 600, 1500] {
        let mut world = world(3);
        let handed = world.begin(0, 0, |shard| async move {
            let table = shard.schema().table("k", "t").expect("a table").clone();
            shard.hand_out(&table).await.map_err(|failure| failure.text.to_string())
        });
        (0..steps).for_each(|_| _ = world.sim.step());
        world.crash(1);
        world.restart_with(1, 2, |_| {});
        world.sim.run_until(Duration::from_secs(600), || handed.borrow().is_some());
        let handed = handed.borrow_mut().take().expect("it ends");
        let failed = || format!("/{}", address(1));
        assert!(handed.is_ok() || handed.as_ref().is_err_and(|text| text.starts_with(&failed())), "{handed:?}");
        if handed.is_err() {
            hand_out(&mut world).expect("it can be done again");
        }
        assert_eq!(held(&mut world), [ROWS; 3], "after {steps} steps");
        let staged = world.sim.files(NodeId(2)).into_iter().any(|(path, _)| {
            let path = path.to_string_lossy().into_owned();
            path.contains("/streams/") && path.ends_with(".db")
        });
        assert!(!staged, "nothing of it stays in between");
    }
}
