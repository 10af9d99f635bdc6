//! Tables that are cut into tablets: nodes come, go, die and are replaced, tablets split and move, replication changes.

use super::elastic::{FOUR, all, down, normal, replacing, shown};
use super::*;
use model::Consistency;

const ROWS: i32 = 60;

/// Starts these nodes of one core, and creates and fills a table of eight tablets with so many replicas.
fn filled(seed: u64, nodes: &[NodeId], factor: u32) -> Sim {
    let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
    for node in nodes {
        assert_eq!(start(&mut sim, *node, 1, config(*node)), []);
    }
    run(&mut sim, move || async move {
        let mut client = client(ONE).await;
        let replication = format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {factor}}}");
        let tablets = "{'enabled': true, 'initial': 8}";
        query(&mut client, &format!("CREATE KEYSPACE k WITH replication = {replication} AND tablets = {tablets}"))
            .await;
        query(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        for key in 0..ROWS {
            query(&mut client, &format!("INSERT INTO k.t (a, b) VALUES ({key}, {key})")).await;
        }
    });
    sim
}

/// A tablet as `system_views.tablets` shows it.
#[derive(Debug)]
pub(super) struct Shown {
    last: i64,
    pub(super) replicas: Vec<String>,
    is_moving: bool,
    bytes: i64,
    units: f64,
}

pub(super) async fn tablets(through: NodeId) -> Vec<Shown> {
    let mut client = client(through).await;
    let text = "SELECT end_token, replicas, goal, bytes, units_per_second FROM system_views.tablets \
                WHERE keyspace_name = 'k' AND table_name = 't' ALLOW FILTERING";
    let rows = query(&mut client, text).await.rows;
    let list = |bytes: &[u8]| -> Vec<String> {
        let elements = model::value::elements(bytes, false);
        elements.map(|element| String::from_utf8_lossy(element).into_owned()).collect()
    };
    let tablet = |row: &Vec<Option<Vec<u8>>>| Shown {
        last: bigint(row, 0),
        replicas: list(row[1].as_deref().expect("replicas")),
        is_moving: row[2].is_some(),
        bytes: bigint(row, 3),
        units: f64::from_bits(bigint(row, 4) as u64),
    };
    rows.iter().map(tablet).collect()
}

/// How many tablets each of these nodes has.
async fn counts(through: NodeId, nodes: &[NodeId]) -> Vec<usize> {
    let tablets = tablets(through).await;
    let has = |node: &NodeId, tablet: &Shown| tablet.replicas.contains(&Sim::address_of(*node).to_string());
    nodes.iter().map(|node| tablets.iter().filter(|tablet| has(node, tablet)).count()).collect()
}

/// Waits until the tablets are as wanted and none moves.
pub(super) async fn settled(through: NodeId, wanted: impl Fn(&[Shown]) -> bool) -> Vec<Shown> {
    loop {
        let tablets = tablets(through).await;
        if tablets.iter().all(|tablet| !tablet.is_moving) && wanted(&tablets) {
            return tablets;
        }
        runtime::sleep(Duration::from_millis(500)).await;
    }
}

#[test]
fn tablets_move_to_a_node_that_joins_and_away_from_one_that_leaves() {
    let mut sim = filled(60, &[ONE, TWO], 1);
    run(&mut sim, || async { assert_eq!(counts(TWO, &[ONE, TWO]).await, [4, 4]) });
    assert_eq!(start(&mut sim, THREE, 2, config(THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        let third = Sim::address_of(THREE).to_string();
        let has = |tablets: &[Shown]| tablets.iter().filter(|tablet| tablet.replicas.contains(&third)).count() >= 3;
        settled(ONE, has).await;
        assert_eq!(shown(ONE, Consistency::One).await, all());
    });
    run(&mut sim, || async {
        tool(THREE, "decommission", &["-f"], &[]).await;
    });
    sim.crash(THREE);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO]).await;
        let counts = counts(ONE, &[ONE, TWO, THREE]).await;
        assert_eq!((counts[0] + counts[1], counts[2]), (8, 0), "{counts:?}");
        assert_eq!(shown(ONE, Consistency::One).await, all());
        assert_eq!(shown(TWO, Consistency::One).await, all());
    });
}

#[test]
fn a_node_is_emptied_for_maintenance_and_filled_again() {
    let mut sim = filled(69, &[ONE, TWO, THREE], 2);
    run(&mut sim, || async {
        let said = tool(THREE, "emptynode", &["--begin", "--wait"], &[]).await;
        assert_eq!(said, "This node is to have no tablets. It has 0.\n");
        assert_eq!(counts(ONE, &[ONE, TWO, THREE]).await, [8, 8, 0]);
        let mut client = client(ONE).await;
        query(&mut client, "CREATE TABLE k.late (a int PRIMARY KEY)").await;
        // The other node alone cannot take them: each has a replica already.
        let said = tool(TWO, "emptynode", &["--begin", "--wait"], &[]).await;
        let left = "16 of them stay until there is another node that can take them.\n";
        assert_eq!(said, format!("This node is to have no tablets. It has 16.\n{left}"));
        tool(TWO, "emptynode", &["--end"], &[]).await;
    });
    // With one node away, everything is there.
    sim.crash(THREE);
    run(&mut sim, || async {
        down(ONE, THREE).await;
        assert_eq!(shown(ONE, Consistency::All).await, all());
    });
    assert_eq!(start(&mut sim, THREE, 1, config(THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        assert_eq!(tool(THREE, "emptynode", &[], &[]).await, "This node is to have no tablets. It has 0.\n");
        tool(THREE, "emptynode", &["--end"], &[]).await;
        let third = Sim::address_of(THREE).to_string();
        settled(ONE, |tablets| tablets.iter().any(|tablet| tablet.replicas.contains(&third))).await;
        assert_eq!(shown(ONE, Consistency::All).await, all());
    });
}

#[test]
fn tablets_of_a_dead_node_are_made_again() {
    let mut sim = filled(61, &[ONE, TWO, THREE], 2);
    sim.crash(THREE);
    run(&mut sim, || async {
        down(ONE, THREE).await;
        assert!(shown(ONE, Consistency::All).await.len() < ROWS as usize);
        let host_id = super::elastic::host_id(ONE, THREE).await;
        tool(ONE, "removenode", &[], &[&host_id]).await;
        normal(TWO, &[ONE, TWO]).await;
        assert_eq!(counts(ONE, &[ONE, TWO]).await, [8, 8]);
        assert_eq!(shown(ONE, Consistency::All).await, all());
    });
}

#[test]
fn a_node_that_replaces_another_has_its_tablets() {
    let mut sim = filled(62, &[ONE, TWO, THREE], 2);
    let before = Rc::new(RefCell::new(Vec::new()));
    let kept = before.clone();
    run(&mut sim, move || {
        let kept = kept.clone();
        async move { *kept.borrow_mut() = counts(ONE, &[ONE, TWO, THREE]).await }
    });
    sim.crash(THREE);
    run(&mut sim, || down(ONE, THREE));
    assert_eq!(start(&mut sim, FOUR, 1, replacing(FOUR, THREE)), []);
    run(&mut sim, move || {
        let before = before.borrow().clone();
        async move {
            normal(ONE, &[ONE, TWO, FOUR]).await;
            assert_eq!(counts(ONE, &[ONE, TWO, FOUR]).await, before);
            assert_eq!(shown(FOUR, Consistency::All).await, all());
        }
    });
}

/// The same key of two tables is on different nodes.
#[test]
fn a_batch_of_several_tables_reaches_the_replicas_of_each() {
    let mut sim = filled(69, &[ONE, TWO, THREE], 1);
    run(&mut sim, || async {
        let mut client = client(TWO).await;
        query(&mut client, "CREATE TABLE k.u (a int PRIMARY KEY, b int) WITH tablets = {'min_tablet_count': 32}").await;
        for (key, kind) in (0..ROWS).zip(["UNLOGGED ", ""].iter().cycle()) {
            let rows =
                format!("INSERT INTO k.t (a, b) VALUES ({key}, {key}) INSERT INTO k.u (a, b) VALUES ({key}, {key})");
            query(&mut client, &format!("BEGIN {kind}BATCH {rows} APPLY BATCH")).await;
        }
        for key in 0..ROWS {
            for table in ["t", "u"] {
                let found = query(&mut client, &format!("SELECT b FROM k.{table} WHERE a = {key}")).await;
                assert_eq!(found.rows.len(), 1, "key {key} of {table}");
            }
        }
    });
}

#[test]
fn replication_of_tablets_changes() {
    let mut sim = filled(63, &[ONE, TWO, THREE], 1);
    run(&mut sim, || async {
        for factor in [3, 2] {
            let replication = format!("{{'class': 'NetworkTopologyStrategy', 'datacenter1': {factor}}}");
            query(&mut client(ONE).await, &format!("ALTER KEYSPACE k WITH replication = {replication}")).await;
            let has = |tablets: &[Shown]| tablets.iter().all(|tablet| tablet.replicas.len() == factor);
            settled(TWO, has).await;
            assert_eq!(shown(TWO, Consistency::All).await, all());
        }
    });
}

#[test]
fn a_table_gets_its_replicas_when_there_are_nodes_for_them() {
    let mut sim = filled(64, &[ONE], 3);
    for node in [TWO, THREE] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        settled(THREE, |tablets| tablets.iter().all(|tablet| tablet.replicas.len() == 3)).await;
        assert_eq!(shown(THREE, Consistency::All).await, all());
    });
}

/// No data moves, and every row is where it was.
#[test]
fn tablets_that_are_too_large_are_split() {
    let mut sim = Sim::new(65, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO] {
        let mut config = config(node);
        config.node.physical_partition_size = 64 << 10;
        assert_eq!(start(&mut sim, node, 1, config), []);
    }
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        let replication = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 2}";
        let options = "{'initial': 1}";
        query(&mut client, &format!("CREATE KEYSPACE k WITH replication = {replication} AND tablets = {options}"))
            .await;
        query(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b int, c blob) WITH compression = {'enabled': false}")
            .await;
        assert_eq!(counts(ONE, &[ONE, TWO]).await, [1, 1]);
        for key in 0..400 {
            let blob = "00".repeat(1024);
            query(&mut client, &format!("INSERT INTO k.t (a, b, c) VALUES ({key}, {key}, 0x{blob})")).await;
        }
        for node in [ONE, TWO] {
            tool(node, "flush", &[], &["k"]).await;
        }
        let is_small = |tablet: &Shown| (1..=64 << 10).contains(&tablet.bytes);
        let split = settled(ONE, |tablets| tablets.len() >= 7 && tablets.iter().all(is_small)).await;
        assert!(split.iter().zip(&split[1..]).all(|(one, next)| one.last < next.last), "{split:?}");
        // They are of about the same size, so there is an end to it.
        assert!(split.len() <= 16, "{split:?}");
        assert_eq!(shown(TWO, Consistency::All).await, all());
    });
}

/// Requests of one tablet make several of it, on all nodes; one key with most of them comes to stand alone. Without
/// them these are merged again.
#[test]
fn tablets_that_are_too_busy_are_split_and_spread() {
    let mut sim = Sim::new(72, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        let mut config = config(node);
        config.node.physical_partition_throughput = 100;
        assert_eq!(start(&mut sim, node, 1, config), []);
    }
    let keys = Rc::new(RefCell::new(Vec::<(i64, i32)>::new()));
    let found = keys.clone();
    run(&mut sim, move || {
        let found = found.clone();
        async move {
            let mut client = client(ONE).await;
            let replication = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}";
            let options = "{'initial': 4}";
            query(&mut client, &format!("CREATE KEYSPACE k WITH replication = {replication} AND tablets = {options}"))
                .await;
            query(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
            let last = tablets(ONE).await[0].last;
            for key in 0..ROWS {
                query(&mut client, &format!("INSERT INTO k.t (a, b) VALUES ({key}, {key})")).await;
                let row = query(&mut client, &format!("SELECT token(a) FROM k.t WHERE a = {key}")).await;
                let token = bigint(&row.rows[0], 0);
                // Those of the first tablet.
                if token <= last {
                    found.borrow_mut().push((token, key));
                }
            }
            found.borrow_mut().sort_unstable();
            assert!(found.borrow().len() >= 8, "{found:?}");
            let stop = Rc::new(Cell::new(false));
            let read: Vec<i32> = found.borrow().iter().map(|(_, key)| *key).collect();
            let loading = runtime::spawn(reading(read, stop.clone()));
            let inside = |tablet: &&Shown| tablet.last <= last;
            let are_spread = |tablets: &[Shown]| {
                let mut units = std::collections::BTreeMap::<&String, f64>::new();
                for tablet in tablets.iter().filter(inside) {
                    *units.entry(&tablet.replicas[0]).or_default() += tablet.units;
                }
                let (all, most) = (units.values().sum::<f64>(), units.values().copied().fold(0.0, f64::max));
                tablets.iter().filter(inside).count() >= 4 && units.len() == 3 && most < 0.6 * all
            };
            let spread = settled(TWO, are_spread).await;
            assert!(spread.iter().any(|tablet| tablet.units > 10.0), "{spread:?}");
            let told = tool(TWO, "tablets", &[], &["k", "t"]).await;
            assert!(told.contains("Units/s"), "{told}");
            let text =
                "SELECT first_token, share_of_throughput, units_per_second FROM system_views.physical_partitions";
            let physical = query(&mut client, text).await.rows;
            let number = |row: &[Option<Vec<u8>>], at: usize| f64::from_bits(bigint(row, at) as u64);
            assert_eq!(bigint(&physical[0], 0), i64::MIN + 1);
            assert!(physical.iter().all(|row| (number(row, 1) - number(row, 2) / 100.0).abs() < 1e-9));
            stop.set(true);
            loading.await;
            assert_eq!(shown(TWO, Consistency::All).await, all());
        }
    });
    run(&mut sim, move || {
        let keys = keys.borrow().clone();
        async move {
            let (token, hot) = keys[keys.len() / 2];
            let stop = Rc::new(Cell::new(false));
            let read = keys.iter().flat_map(|(_, key)| [*key, hot]).collect();
            let loading = runtime::spawn(reading(read, stop.clone()));
            let is_alone =
                |tablets: &[Shown]| tablets.windows(2).any(|pair| (pair[0].last, pair[1].last) == (token - 1, token));
            settled(TWO, is_alone).await;
            stop.set(true);
            loading.await;
            // Idle, they come together again, though their neighbours are on other nodes.
            settled(TWO, |tablets| tablets.len() <= 4).await;
            assert_eq!(shown(TWO, Consistency::All).await, all());
        }
    });
}

/// Reads keys in turn through all nodes, until told to stop.
async fn reading(keys: Vec<i32>, stop: Rc<Cell<bool>>) {
    let through = |node| {
        let (keys, stop) = (keys.clone(), stop.clone());
        Box::pin(async move {
            let mut client = client(node).await;
            for key in keys.iter().cycle() {
                if stop.get() {
                    return;
                }
                query(&mut client, &format!("SELECT b FROM k.t WHERE a = {key}")).await;
                runtime::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    runtime::sync::join_all([ONE, TWO, THREE].map(through).into_iter().collect()).await;
}

#[test]
fn a_keyspace_is_switched_from_the_ring_to_tablets_and_back() {
    let mut sim = Sim::new(68, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        let replication = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 2}";
        query(&mut client, &format!("CREATE KEYSPACE k WITH replication = {replication}")).await;
        query(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        for key in 0..ROWS {
            query(&mut client, &format!("INSERT INTO k.t (a, b) VALUES ({key}, {key})")).await;
        }
        let mut endpoints = Vec::new();
        for key in 0..ROWS {
            endpoints.push(tool(TWO, "getendpoints", &[], &["k", "t", &key.to_string()]).await);
        }
        query(&mut client, "ALTER KEYSPACE k WITH tablets = {'enabled': true}").await;
        assert!(!tablets(THREE).await.is_empty());
        for (key, before) in (0..ROWS).zip(&endpoints) {
            assert_eq!(tool(TWO, "getendpoints", &[], &["k", "t", &key.to_string()]).await, *before, "nothing moves");
        }
        assert_eq!(shown(TWO, Consistency::All).await, all());
    });
    assert_eq!(start(&mut sim, FOUR, 1, config(FOUR)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE, FOUR]).await;
        let fourth = Sim::address_of(FOUR).to_string();
        settled(ONE, |tablets| tablets.iter().any(|tablet| tablet.replicas.contains(&fourth))).await;
        assert_eq!(shown(FOUR, Consistency::All).await, all());
        query(&mut client(TWO).await, "ALTER KEYSPACE k WITH tablets = {'enabled': false}").await;
        while !tablets(ONE).await.is_empty() {
            assert_eq!(shown(TWO, Consistency::Quorum).await, all(), "no reader sees a hole");
        }
        for node in [ONE, TWO, THREE, FOUR] {
            tool(node, "cleanup", &[], &[]).await;
        }
        assert_eq!(shown(FOUR, Consistency::All).await, all());
    });
}

#[test]
fn a_node_knows_the_tablets_after_a_restart() {
    let mut sim = filled(66, &[ONE, TWO], 1);
    for node in [ONE, TWO] {
        sim.crash(node);
    }
    let started = [ONE, TWO].map(|node| begin(&mut sim, node, 1, config(node)));
    until(&mut sim, "both serve", || started.iter().all(Started::serves));
    run(&mut sim, || async {
        normal(TWO, &[ONE, TWO]).await;
        assert_eq!(counts(TWO, &[ONE, TWO]).await, [4, 4]);
        assert_eq!(shown(TWO, Consistency::One).await, all());
        let mut client = client(TWO).await;
        query(&mut client, "DROP TABLE k.t").await;
        assert!(tablets(ONE).await.is_empty());
        query(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        assert_eq!(tablets(ONE).await.len(), 8);
    });
}

#[test]
fn tablets_are_repaired_and_described() {
    let mut sim = filled(67, &[ONE, TWO, THREE], 2);
    run(&mut sim, || async {
        let described = tool(TWO, "describering", &[], &["k", "t"]).await;
        assert!(described.contains("end_token:-1,"), "{described}");
        let status = tool(TWO, "status", &[], &["k"]).await;
        assert!(status.contains("UN"), "{status}");
        let request = Request {
            command: "repair".into(),
            options: [("-full".to_owned(), String::new())].into(),
            arguments: vec!["k".into()],
        };
        let mut answer = admin::ask(Sim::address_of(TWO), &request).await.expect("it is answered");
        while answer.exit == admin::protocol::GOES_ON {
            let arguments = answer.err.split_whitespace().map(str::to_owned).collect();
            let command = admin::protocol::FOLLOW.to_owned();
            let follow = Request { command, options: Default::default(), arguments };
            answer = admin::ask(Sim::address_of(TWO), &follow).await.expect("it is answered");
        }
        assert_eq!((answer.exit, answer.err.as_str()), (0, ""), "{}", answer.out);
        for node in [ONE, TWO, THREE] {
            tool(node, "cleanup", &[], &[]).await;
        }
        assert_eq!(shown(ONE, Consistency::All).await, all());
    });
}
