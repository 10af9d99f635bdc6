//! A whole data directory of Cassandra: a node that starts on it keeps the identity and the data.

use super::archive::{self, Files};
use super::world::World;
use super::{NOW, plain};
use server::client::{Outcome, QueryOptions};
use std::path::PathBuf;

/// The host id of the node that wrote the directory.
const HOST_ID: &str = "3b079a67-7015-4dd4-81e7-23ac25b66920";

pub(super) fn text(cell: &Option<Vec<u8>>) -> String {
    String::from_utf8(cell.clone().expect("a value")).expect("text")
}

pub(super) fn one(world: &mut World, statement: &str) -> Outcome {
    let options = QueryOptions { now_in_seconds: Some(NOW), ..QueryOptions::default() };
    let answer = world.query(vec![(statement.to_owned(), options)]).remove(0);
    answer.unwrap_or_else(|error| panic!("{statement}: {error:?}"))
}

/// Files of the directory, placed under `root`.
pub(super) fn placed(files: &Files, from: &str, root: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let under = files.iter().filter_map(|(name, bytes)| Some((name.strip_prefix(from)?, bytes)));
    under.map(|(name, bytes)| (PathBuf::from(format!("{root}{name}")), bytes.clone())).collect()
}

fn check(world: &mut World, files: &Files, when: &str) {
    for (name, bytes) in files {
        let Some(table) = name.strip_prefix("rows/").and_then(|name| name.strip_suffix(".json")) else { continue };
        let expected: Vec<&str> = std::str::from_utf8(bytes)
            .expect("text")
            .lines()
            .map(|line| line.split_once("\"row\": ").and_then(|(_, row)| row.strip_suffix('}')).expect("a row"))
            .collect();
        let outcome = one(world, &format!("SELECT JSON * FROM golden.{table}"));
        let rows: Vec<String> = outcome.rows.iter().map(|row| text(&row[0])).collect();
        if table == "dropped" {
            // Of when columns were dropped Cassandra keeps milliseconds, so that a restart shows cells that were
            // hidden; Cassandra itself then fails to read the table.
            assert_eq!(rows.len(), expected.len(), "{table}, {when}");
            continue;
        }
        assert_eq!(rows, expected, "{table}, {when}");
    }
    assert_eq!(one(world, "SELECT * FROM other.t").rows.len(), 100, "{when}");
    let local = one(world, "SELECT CAST(host_id AS text), tokens FROM system.local").rows.remove(0);
    assert_eq!(text(&local[0]), HOST_ID, "{when}");
    let tokens = local[1].as_ref().and_then(|set| set.first_chunk().map(|count| i32::from_be_bytes(*count)));
    assert_eq!(tokens, Some(16), "{when}");
}

#[test]
fn a_data_directory_of_cassandra_is_served() {
    let files = archive::directory();
    let mut world = World::new(1, &[]);
    let all = placed(&files, "data/", "data/").into_iter().chain(placed(&files, "commitlog/", "commitlog/")).collect();
    world.put(all);
    assert!(world.start(2));
    check(&mut world, &files, "at first");
    for statement in [
        "INSERT INTO other.t (k, v) VALUES (5, 'new') USING TIMESTAMP 1900000000000000",
        "CREATE TABLE other.t2 (k int PRIMARY KEY)",
        "ALTER TABLE golden.statics ADD more int",
        "ALTER TABLE golden.statics DROP more",
        "TRUNCATE golden.wide_text",
    ] {
        world.query(vec![plain(statement)]).remove(0).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    world.crash();
    assert!(world.start(3));
    check(&mut world, &files, "after a crash");
    assert_eq!(text(&one(&mut world, "SELECT v FROM other.t WHERE k = 5").rows[0][0]), "new");
    assert!(one(&mut world, "SELECT * FROM other.t2").rows.is_empty());
    world.stop();
}

#[test]
fn a_log_that_was_not_drained_and_keyspaces_in_the_wrong_place_are_refused() {
    let files = archive::directory();
    let mut world = World::new(1, &[]);
    let mut log = placed(&files, "commitlog/", "commitlog/");
    log[0].1[1000] = 1;
    world.put(placed(&files, "data/", "data/").into_iter().chain(log).collect());
    assert!(!world.start(1));
    let mut world = World::new(2, &[]);
    world.put(placed(&files, "data/", ""));
    assert!(!world.start(1));
    assert!(!world.files().iter().any(|path| path.starts_with("data")), "nothing was made");
}
