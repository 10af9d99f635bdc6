//! Keyspaces of ManagedStrategy: as many replicas as there are nodes for, up to four, and others for those on nodes
//! that are dead.

use super::elastic::{FOUR, all, down, normal, shown};
use super::tablets::{settled, tablets};
use super::*;
use model::Consistency;

const FIVE: NodeId = NodeId(5);
const ROWS: i32 = 60;

fn patient(node: NodeId) -> Config {
    let mut config = config(node);
    config.node.replica_replacement_after = Duration::from_secs(30);
    // A row of two mebibytes is written at once.
    config.node.segment_bytes = 8 << 20;
    config
}

/// Starts these nodes of one core, and creates and fills a table in a managed keyspace through the first. All writes
/// are at ONE.
fn filled(seed: u64, nodes: &[NodeId]) -> Sim {
    let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
    for node in nodes {
        assert_eq!(start(&mut sim, *node, 1, patient(*node)), []);
    }
    run(&mut sim, move || async move {
        let mut client = client(ONE).await;
        let tablets = "AND tablets = {'initial': 8}";
        let create = format!("CREATE KEYSPACE k WITH replication = {{'class': 'ManagedStrategy'}} {tablets}");
        query(&mut client, &create).await;
        query(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        for key in 0..ROWS {
            query(&mut client, &format!("INSERT INTO k.t (a, b) VALUES ({key}, {key})")).await;
        }
    });
    sim
}

/// What a write at a level needs and has, if it is unavailable.
async fn written(through: NodeId, level: Consistency) -> Result<(), String> {
    let mut client = client(through).await;
    let text = format!("INSERT INTO k.t (a, b) VALUES ({}, 1)", ROWS / 2);
    let options = QueryOptions { consistency: level, ..QueryOptions::default() };
    match client.query(&text, &options).await {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error:?}")),
    }
}

#[test]
fn replicas_become_four_as_nodes_come() {
    let mut sim = filled(90, &[ONE]);
    for (count, node) in [(2, TWO), (3, THREE), (4, FOUR), (4, FIVE)] {
        assert_eq!(start(&mut sim, node, 1, patient(node)), []);
        run(&mut sim, move || async move {
            settled(node, |tablets| tablets.iter().all(|tablet| tablet.replicas.len() == count)).await;
            // A majority has every write, whatever its level, so two show all of them.
            assert_eq!(shown(node, Consistency::Two).await, all());
            assert_eq!(written(node, Consistency::One).await, Ok(()));
        });
    }
}

#[test]
fn a_write_needs_a_majority_at_any_level_and_a_read_what_it_names() {
    let mut sim = filled(91, &[ONE, TWO, THREE, FOUR]);
    sim.crash(FOUR);
    run(&mut sim, || async {
        down(ONE, FOUR).await;
        assert_eq!(written(ONE, Consistency::One).await, Ok(()));
        let refused = written(ONE, Consistency::All).await.expect_err("one is down");
        assert!(refused.contains("Cannot achieve consistency level ALL"), "{refused}");
    });
    sim.crash(THREE);
    run(&mut sim, || async {
        down(ONE, THREE).await;
        let refused = written(ONE, Consistency::One).await.expect_err("two are down");
        assert!(refused.contains("Cannot achieve consistency level ONE"), "{refused}");
        assert_eq!(shown(ONE, Consistency::Two).await, all());
    });
}

#[test]
fn replicas_of_a_dead_node_are_rebuilt_and_it_is_cleaned_when_it_returns() {
    let mut sim = filled(92, &[ONE, TWO, THREE, FOUR, FIVE]);
    sim.crash(FOUR);
    let fourth = || Sim::address_of(FOUR).to_string();
    run(&mut sim, move || async move {
        down(ONE, FOUR).await;
        settled(ONE, |tablets| {
            let is_elsewhere = |replicas: &[String]| replicas.len() == 4 && !replicas.contains(&fourth());
            tablets.iter().all(|tablet| is_elsewhere(&tablet.replicas))
        })
        .await;
        assert_eq!(shown(ONE, Consistency::All).await, all());
        let mut client = client(ONE).await;
        for key in 0..ROWS {
            query(&mut client, &format!("DELETE FROM k.t WHERE a = {key}")).await;
        }
    });
    assert_eq!(start(&mut sim, FOUR, 1, patient(FOUR)), []);
    run(&mut sim, move || async move {
        normal(FOUR, &[ONE, TWO, THREE, FOUR, FIVE]).await;
        // It gets tablets again because it is empty, and shows nothing of what it had.
        settled(FOUR, |tablets| tablets.iter().any(|tablet| tablet.replicas.contains(&fourth()))).await;
        for (key, consistency) in (0..ROWS).flat_map(|key| [(key, Consistency::One), (key, Consistency::All)]) {
            let options = QueryOptions { consistency, ..QueryOptions::default() };
            let text = format!("SELECT b FROM k.t WHERE a = {key}");
            let found = client(FOUR).await.query(&text, &options).await.expect("an answer");
            assert!(found.rows.is_empty(), "{key} at {consistency:?}");
        }
    });
}

/// The services' limits of partition keys and rows; an ordinary keyspace has none.
#[test]
fn keys_and_rows_are_limited() {
    let mut sim = filled(95, &[ONE]);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        let ordinary = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        query(&mut client, &format!("CREATE KEYSPACE ordinary WITH replication = {ordinary}")).await;
        for keyspace in ["k", "ordinary"] {
            query(&mut client, &format!("CREATE TABLE {keyspace}.s (a text PRIMARY KEY, b blob)")).await;
        }
        let mut insert = async |keyspace: &str, key: usize, value: usize| {
            let values = format!("('{}', 0x{})", "k".repeat(key), "00".repeat(value));
            let text = format!("INSERT INTO {keyspace}.s (a, b) VALUES {values}");
            client.query(&text, &QueryOptions::default()).await.map(|outcome| outcome.warnings.len())
        };
        // Fits, and so does what is above four fifths of the limit, with a warning.
        for ((key, value), warnings) in
            [((1_636, 1), 0), ((1_637, 1), 1), ((2_048, 1), 1), ((1, 1 << 20), 0), ((1, (2 << 20) - 100), 1)]
        {
            assert_eq!(insert("k", key, value).await.expect("fits"), warnings, "{key} {value}");
        }
        for (key, value) in [(2_049, 1), (1, (2 << 20) + 1)] {
            let refused = insert("k", key, value).await.expect_err("too large");
            assert!(format!("{refused:?}").contains("exceeds the failure threshold"), "{refused:?}");
            assert_eq!(insert("ordinary", key, value).await.expect("no limit"), 0);
        }
    });
}

/// With three nodes there is nobody else, and a replica less would be less safe.
#[test]
fn a_replica_that_nobody_can_take_stays_where_it_is() {
    let mut sim = filled(93, &[ONE, TWO, THREE]);
    sim.crash(THREE);
    run(&mut sim, || async {
        down(ONE, THREE).await;
        runtime::sleep(Duration::from_secs(60)).await;
        assert!(tablets(ONE).await.iter().all(|tablet| tablet.replicas.len() == 3));
        assert_eq!(shown(ONE, Consistency::Two).await, all());
        assert_eq!(written(ONE, Consistency::One).await, Ok(()));
    });
    assert_eq!(start(&mut sim, THREE, 1, patient(THREE)), []);
    run(&mut sim, || async {
        // It must have heard of the others too.
        normal(THREE, &[ONE, TWO, THREE]).await;
        assert_eq!(shown(THREE, Consistency::All).await, all());
    });
}

#[test]
fn an_ordinary_keyspace_keeps_its_dead_replicas() {
    let mut sim = filled(94, &[ONE, TWO, THREE, FOUR, FIVE]);
    run(&mut sim, || async {
        let ordinary = "ALTER KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 4}";
        query(&mut client(ONE).await, ordinary).await;
    });
    sim.crash(FOUR);
    run(&mut sim, || async {
        down(ONE, FOUR).await;
        runtime::sleep(Duration::from_secs(60)).await;
        let fourth = Sim::address_of(FOUR).to_string();
        assert!(tablets(ONE).await.iter().any(|tablet| tablet.replicas.contains(&fourth)));
        assert_eq!(written(ONE, Consistency::One).await, Ok(()));
    });
}
