//! Nodes that come and go while a node serves.

use super::world::{Request, World};
use cluster::topology::{Node, NodeIndex};
use model::{ErrorCode, Failure, Partitioner, RingToken, ShardMap};
use shard::Shard;
use std::collections::BTreeSet;
use uuid::Uuid;

/// This node with one token, and another one that owns all tokens but the ring's lower half.
fn two_nodes(shard: &Shard) -> Vec<Node> {
    let topology = shard.topology();
    let here = topology.node(topology.here()).clone();
    let other = Node {
        host_id: Uuid::from_u128(7),
        address: ([127, 0, 0, 7], 7000).into(),
        shards: ShardMap::new(Partitioner::Murmur3, 3),
        tokens: vec![RingToken::Murmur3(i64::MAX)],
        ..here.clone()
    };
    vec![other, Node { tokens: vec![RingToken::Murmur3(0)], ..here }]
}

/// The failures of inserts with the keys 0 to 19, on a core.
fn inserts(world: &mut World, core: usize) -> Vec<Failure> {
    let insert = |world: &mut World, key: i32| {
        world.try_query(core, &format!("INSERT INTO k.t (a, b) VALUES ({key}, 1)"), Request::default())
    };
    (0..20).filter_map(|key| insert(world, key).err()).collect()
}

#[test]
fn nodes_are_replaced_on_all_cores() {
    let mut world = World::start(2);
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.t (a int PRIMARY KEY, b int)");
    let switch = |world: &mut World, epoch: u64| {
        world
            .on(0, move |shard, _| async move { shard.switch_topology(two_nodes(&shard), epoch).await })
            .expect("done");
    };
    switch(&mut world, 5);
    for core in 0..2 {
        let epoch = world.on(core, |shard, _| async move { shard.topology().epoch() });
        assert_eq!(epoch, 5);
        let failures = inserts(&mut world, core);
        assert!((3..18).contains(&failures.len()), "{failures:?}");
        assert!(failures.iter().all(|failure| failure.code == ErrorCode::Unavailable), "{failures:?}");
    }
    let live = BTreeSet::from([Uuid::from_u128(7)]);
    world.on(0, move |shard, _| async move { shard.switch_live_nodes(live).await }).expect("done");
    switch(&mut world, 4);
    for core in 0..2 {
        let topology = world.on(core, |shard, _| async move { shard.topology() });
        assert_eq!(topology.epoch(), 5, "4 came too late");
        assert!([0, 1].into_iter().all(|node| topology.live().contains(NodeIndex(node))));
    }
    switch(&mut world, 6);
    let live = world.on(1, |shard, _| async move { shard.topology().live().clone() });
    assert!(live.contains(NodeIndex(0)), "who is alive is known by host id");
    world.run_query("DROP TABLE k.t");
    world.run_query("CREATE TABLE k.t (a int PRIMARY KEY, b int)");
    assert_eq!(world.on(1, |shard, _| async move { shard.topology().epoch() }), 6, "another schema, the same nodes");
    let missing = world.on(0, |shard, _| async move {
        let others = two_nodes(&shard).into_iter().filter(|node| node.host_id != shard.host_id()).collect();
        shard.switch_topology(others, 7).await
    });
    assert_eq!(missing.expect_err("this node is missing").code, ErrorCode::Server);
}
