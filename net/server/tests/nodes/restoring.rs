//! Snapshots of a whole cluster, and their restoring into one of another size.

use super::*;
use model::Consistency;
use runtime::file;
use std::collections::BTreeSet;
use std::path::PathBuf;

const FOUR: NodeId = NodeId(4);
const FIVE: NodeId = NodeId(5);
const SIX: NodeId = NodeId(6);
const KEYS: i32 = 150;

/// Runs a command with options that have values. Returns its exit code, output and error.
async fn command(node: NodeId, name: &str, options: &[(&str, &str)], arguments: &[&str]) -> (u8, String, String) {
    let request = Request {
        command: name.into(),
        options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
    };
    let answer = admin::ask(Sim::address_of(node), &request).await.expect("it is answered");
    (answer.exit, answer.out, answer.err)
}

/// The files of the snapshots with a name on a node, and what is in them.
fn snapshot_files(sim: &Sim, node: NodeId, tag: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let within = format!("/snapshots/{tag}/");
    let paths = sim.files(node).into_iter().map(|(path, _)| path);
    let paths = paths.filter(|path| path.to_string_lossy().contains(&within));
    paths.map(|path| (path.clone(), sim.read_file(node, &path).expect("it is there"))).collect()
}

/// The versions of the schema that the descriptions of the cluster in a snapshot tell.
fn schema_versions(sim: &Sim, node: NodeId, tag: &str) -> BTreeSet<String> {
    let files = snapshot_files(sim, node, tag).into_iter();
    let descriptions = files.filter(|(path, _)| path.ends_with("cluster.json"));
    let version = |json: Vec<u8>| {
        let described: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        described["schema_version"].as_str().expect("a text").to_owned()
    };
    descriptions.map(|(_, json)| version(json)).collect()
}

async fn all_at(node: NodeId, text: &str) -> Vec<Vec<Option<Vec<u8>>>> {
    let options = QueryOptions { consistency: Consistency::All, ..QueryOptions::default() };
    let mut client = client(node).await;
    let mut rows = client.query(text, &options).await.unwrap_or_else(|error| panic!("{text}: {error:?}")).rows;
    rows.sort();
    rows
}

async fn fill(node: NodeId) {
    let mut client = client(node).await;
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE k.pair (a int, b text)",
        "CREATE TABLE k.t (k int, c int, v text, p frozen<pair>, gone int, PRIMARY KEY (k, c)) WITH comment = 'a;b'",
        "CREATE INDEX by_v ON k.t (v)",
        "CREATE TABLE k.counters (k int PRIMARY KEY, n counter)",
    ] {
        query(&mut client, statement).await;
    }
    for key in 0..KEYS {
        let row = format!("({key}, 1, 'v{}', {{a: {key}, b: 'x'}}, 1)", key % 10);
        query(&mut client, &format!("INSERT INTO k.t (k, c, v, p, gone) VALUES {row}")).await;
        query(&mut client, &format!("INSERT INTO k.t (k, c, v) VALUES ({key}, 2, 'second')")).await;
        query(&mut client, &format!("UPDATE k.counters SET n = n + {key} WHERE k = {key}")).await;
    }
    for key in (0..KEYS).step_by(3) {
        query(&mut client, &format!("DELETE FROM k.t WHERE k = {key} AND c = 2")).await;
    }
    query(&mut client, "ALTER TABLE k.t DROP gone").await;
}

#[test]
fn a_snapshot_of_two_nodes_is_restored_into_three_others() {
    let mut sim = Sim::new(51, Options { buggify: false, ..Options::default() });
    for (node, shards) in [(ONE, 1), (TWO, 2)] {
        assert_eq!(start(&mut sim, node, shards, config(node)), []);
    }
    let before = Rc::<RefCell<Vec<_>>>::default();
    let told = before.clone();
    run(&mut sim, move || {
        let told = told.clone();
        async move {
            fill(ONE).await;
            let taken = command(TWO, "snapshot", &[("--cluster", ""), ("-t", "s")], &["k"]).await;
            assert_eq!((taken.0, &*taken.2), (0, ""), "{}", taken.1);
            let rows = [
                all_at(ONE, "SELECT k, c, v, p, writetime(v) FROM k.t").await,
                all_at(ONE, "SELECT * FROM k.counters").await,
            ];
            told.borrow_mut().extend(rows);
            // Not in the snapshot.
            query(&mut client(ONE).await, "INSERT INTO k.t (k, c, v) VALUES (9999, 1, 'late')").await;
        }
    });
    let before = before.borrow().clone();
    assert_eq!((before[0].len(), before[1].len()), (KEYS as usize * 2 - (KEYS as usize).div_ceil(3), KEYS as usize));

    // As a copy of each node's directories, laid out as Cassandra's.
    let mut copies = Vec::new();
    for node in [ONE, TWO] {
        for (path, bytes) in snapshot_files(&sim, node, "s") {
            let path = path.to_string_lossy().into_owned();
            let within = path.find("/k/").expect("of the keyspace");
            copies.push((PathBuf::from(format!("/copies/{}{}", node.0, &path[within..])), bytes));
        }
    }
    let is_of = |node: u32, ending: &str| {
        let begin = format!("/copies/{node}/k/t-");
        copies.iter().any(|(path, _)| {
            let path = path.to_string_lossy();
            path.starts_with(&begin) && path.ends_with(ending)
        })
    };
    for node in [1, 2] {
        assert!(["-Data.db", "manifest.json", "schema.cql", "cluster.json"].iter().all(|ending| is_of(node, ending)));
    }
    sim.run_node(FOUR, LIMIT, move || async move {
        for (path, bytes) in copies {
            file::create_dir_all(path.parent().expect("a directory")).await.expect("made");
            file::replace_small(&path, &bytes).await.expect("written");
        }
    });
    for (node, shards) in [(FOUR, 2), (FIVE, 1), (SIX, 3)] {
        let mut config = config(node);
        config.node.seeds = vec![at(FOUR, 7000)];
        assert_eq!(start(&mut sim, node, shards, config), []);
    }
    run(&mut sim, move || {
        let before = before.clone();
        async move {
            let both = ["/copies/1", "/copies/2"];
            let (exit, out, error) = command(FOUR, "restore", &[("-t", "s")], &both).await;
            assert_eq!((exit, &*error), (0, ""), "{out}");
            assert!(out.contains("Restored k.t; other nodes fetched "), "{out}");
            for _ in 0..2 {
                let rows = [
                    all_at(FIVE, "SELECT k, c, v, p, writetime(v) FROM k.t").await,
                    all_at(FIVE, "SELECT * FROM k.counters").await,
                ];
                assert!(rows[..] == before[..], "{} and {} rows", rows[0].len(), rows[1].len());
                let found = all_at(SIX, "SELECT k FROM k.t WHERE v = 'v3'").await;
                assert_eq!(found.len(), KEYS as usize / 10, "by the index");
                // Given again it changes nothing.
                let (exit, out, error) = command(FOUR, "restore", &[("-t", "s"), ("-k", "k")], &both).await;
                assert_eq!((exit, &*error), (0, ""), "{out}");
            }
            for node in [FOUR, FIVE, SIX] {
                let size = tool(node, "status", &[], &["k"]).await;
                assert!(size.contains("UN"), "{size}");
            }
            // Half of it.
            let (exit, out, error) = command(FIVE, "restore", &[("-t", "s")], &["/copies/2"]).await;
            assert_eq!(
                (exit, &*error),
                (2, "error: there is no snapshot s to be restored in these directories\n"),
                "{out}"
            );
            query(&mut client(FOUR).await, "DROP KEYSPACE k").await;
            let (exit, out, error) = command(FOUR, "restore", &[("-t", "s")], &both[1..]).await;
            assert_eq!((exit, &*error), (0, ""), "{out}");
            assert!(out.starts_with("Nothing of node ") && out.contains("Restored k.counters"), "{out}");
            let rows = all_at(SIX, "SELECT k FROM k.counters").await.len();
            assert!(0 < rows && rows < KEYS as usize, "{rows}");
        }
    });
}

#[test]
fn all_nodes_take_a_snapshot_or_none_keeps_one() {
    let mut sim = Sim::new(52, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    let cluster = [("--cluster", ""), ("-t", "s")];
    run(&mut sim, move || async move {
        let mut one = client(ONE).await;
        query(&mut one, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
            .await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY)").await;
        query(&mut one, "INSERT INTO k.t (a) VALUES (1)").await;
        assert_eq!(command(TWO, "snapshot", &[("-t", "s")], &["k"]).await.0, 0);
        let (exit, _, error) = command(ONE, "snapshot", &cluster, &["k"]).await;
        let expected = format!("error: /{}: Snapshot s already exists.\n", at(TWO, 7000));
        assert_eq!((exit, error), (2, expected));
        let (exit, out, _) = command(ONE, "snapshot", &cluster, &["system"]).await;
        assert!(exit == 1 && out.contains("each node has tables of its own in keyspace system"), "{out}");
    });
    let has = |sim: &Sim, node: NodeId| !snapshot_files(sim, node, "s").is_empty();
    assert_eq!([ONE, TWO, THREE].map(|node| has(&sim, node)), [false, true, false], "the one of before stays");
    run(&mut sim, move || async move {
        assert_eq!(
            command(THREE, "clearsnapshot", &cluster, &[]).await,
            (0, "Requested clearing snapshot(s) for [all keyspaces] with snapshot name [s]\n".into(), String::new())
        );
        let (exit, out, error) = command(THREE, "snapshot", &cluster, &["k"]).await;
        assert_eq!((exit, &*error), (0, ""), "{out}");
    });
    assert_eq!([ONE, TWO, THREE].map(|node| has(&sim, node)), [true; 3]);
    sim.kill(THREE);
    run(&mut sim, move || async move {
        while !tool(ONE, "status", &[], &[]).await.contains(&format!("DN  {}", Sim::address_of(THREE))) {
            runtime::sleep(Duration::from_millis(500)).await;
        }
        let (exit, _, error) = command(ONE, "snapshot", &[("--cluster", ""), ("-t", "u")], &["k"]).await;
        assert_eq!((exit, error), (2, format!("error: /{} is down\n", at(THREE, 7000))));
    });
    assert!(snapshot_files(&sim, ONE, "u").is_empty());
}

#[test]
fn all_nodes_take_a_snapshot_of_the_same_schema() {
    let mut sim = Sim::new(53, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
            .await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY)").await;
        let changing = runtime::spawn(async {
            let mut two = client(TWO).await;
            for number in 0..30 {
                query(&mut two, &format!("CREATE TABLE k.t{number} (a int PRIMARY KEY)")).await;
            }
        });
        for number in 0..6 {
            let tag = format!("s{number}");
            let (exit, _, error) = command(ONE, "snapshot", &[("--cluster", ""), ("-t", &tag)], &["k"]).await;
            let changes = "error: the schema or the ring changes all the time, so there is no point for a snapshot\n";
            assert!(exit == 0 || error == changes, "{error}");
        }
        changing.await;
        let (exit, _, error) = command(ONE, "snapshot", &[("--cluster", ""), ("-t", "last")], &["k"]).await;
        assert_eq!((exit, &*error), (0, ""), "once nothing changes");
    });
    let mut seen = BTreeSet::new();
    for tag in ["s0", "s1", "s2", "s3", "s4", "s5", "last"] {
        let of_each = [ONE, TWO].map(|node| schema_versions(&sim, node, tag));
        assert_eq!(of_each[0], of_each[1], "{tag}");
        assert!(of_each[0].len() <= 1, "one point");
        seen.extend(of_each[0].clone());
    }
    assert!(!seen.is_empty());
}
