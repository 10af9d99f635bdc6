//! SSTables that real Cassandra wrote, read through CQL to the rows that Cassandra reads from them.
//!
//! 1. A node gets the schema and stops; the files are placed beside its own.
//! 2. It starts again, serves the files as they are, and every core rewrites its part of them in the background.
//! 3. A start with another number of cores finds SSTables of both kinds.
//!
//! One table is left out, because Cassandra itself cannot read its rows.
#![allow(clippy::disallowed_methods, reason = "a test")]

#[path = "golden/archive.rs"]
mod archive;
#[path = "golden/column_ids.rs"]
mod column_ids;
#[path = "golden/counters.rs"]
mod counters;
#[path = "golden/directory.rs"]
mod directory_of_cassandra;
#[path = "golden/world.rs"]
mod world;
#[path = "golden/written.rs"]
mod written;

use archive::{Files, Tables};
use server::client::{CallError, Outcome, OutcomeKind, QueryOptions};
use std::path::{Path, PathBuf};
use world::World;

/// When Cassandra read the rows: after everything of 2023 had expired and before anything else expires.
const NOW: i32 = 1_795_220_000;
const LEFT_OUT: [&str; 1] = ["empty_boolean"];

fn text<'f>(files: &'f Files, name: &str) -> &'f str {
    std::str::from_utf8(&files[name]).expect("text")
}

fn tables(version: &str) -> Tables {
    let mut tables = archive::tables(version);
    tables.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    tables
}

fn plain(statement: &str) -> (String, QueryOptions) {
    (statement.to_owned(), QueryOptions::default())
}

/// The statements of a table's schema.
fn schema(files: &Files) -> impl Iterator<Item = &str> {
    text(files, "schema.cql").split(";\n").map(str::trim).filter(|statement| !statement.is_empty())
}

/// Whether the schema has what a definition asks for, because of it or of an earlier one.
fn is_done(answer: &Result<Outcome, CallError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => {
            ["already exists", "Cannot add existing keyspace"].iter().any(|text| format!("{error:?}").contains(text))
        }
    }
}

fn create(world: &mut World, tables: &Tables) {
    let statements: Vec<&str> = tables.values().flat_map(schema).collect();
    let answers = world.query(statements.iter().map(|statement| plain(statement)).collect());
    for (statement, answer) in statements.iter().zip(answers) {
        assert!(is_done(&answer), "{statement}: {answer:?}");
    }
}

/// The directory of a table's SSTables, relative to the node's.
fn directory(name: &str, files: &Files) -> PathBuf {
    let schema = text(files, "schema.cql");
    let at = schema.find(" ID = ").or_else(|| schema.find(" id = ")).expect("an id") + 6;
    let id: String = schema[at..at + 36].replace('-', "");
    Path::new("data/golden").join(format!("{name}-{id}"))
}

fn sstables(tables: &Tables) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for (name, files) in tables {
        let directory = directory(name, files);
        let components = files.iter().filter(|(file, _)| !matches!(file.as_str(), "schema.cql" | "rows.json"));
        let components = components.filter(|(file, _)| file.splitn(4, '-').count() == 4);
        found.extend(components.map(|(file, bytes)| (directory.join(file), bytes.clone())));
    }
    found
}

/// Descriptions of the tables whose rows are not those that Cassandra reads.
fn differences(world: &mut World, tables: &Tables, page_size: i32) -> Vec<String> {
    let quoted = |name: &str| match name.chars().any(char::is_uppercase) {
        true => format!("\"{name}\""),
        false => name.to_owned(),
    };
    let options = QueryOptions { now_in_seconds: Some(NOW), page_size: Some(page_size), ..QueryOptions::default() };
    let select = |name: &String| (format!("SELECT JSON * FROM golden.{}", quoted(name)), options.clone());
    let answers = world.query(tables.keys().map(select).collect());
    let mut wrong = Vec::new();
    for ((name, files), answer) in tables.iter().zip(answers) {
        let expected: Vec<&str> = text(files, "rows.json")
            .lines()
            .map(|line| line.split_once("\"row\": ").and_then(|(_, row)| row.strip_suffix('}')).expect("a row"))
            .collect();
        match answer {
            Ok(outcome) if outcome.kind == OutcomeKind::Rows => {
                let cell =
                    |row: &Vec<Option<Vec<u8>>>| String::from_utf8(row[0].clone().expect("a text")).expect("text");
                let rows: Vec<String> = outcome.rows.iter().map(cell).collect();
                let first = expected.iter().zip(&rows).position(|(expected, row)| expected != row);
                if let Some(at) = first.or((expected.len() != rows.len()).then_some(expected.len().min(rows.len()))) {
                    let (ours, theirs) = (rows.get(at), expected.get(at));
                    wrong.push(format!(
                        "{name}: {} rows of {}, row {at}\n  {ours:?}\n  {theirs:?}",
                        rows.len(),
                        expected.len()
                    ));
                }
            }
            other => wrong.push(format!("{name}: {other:?}")),
        }
    }
    wrong
}

fn check(world: &mut World, tables: &Tables, page_size: i32, when: &str) {
    let wrong = differences(world, tables, page_size);
    assert!(wrong.is_empty(), "{when}: {} tables differ\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether every SSTable of the tables belongs to one core, out of this number, and no transaction is under way.
fn are_ours(world: &World, shards: usize) -> bool {
    let names: Vec<PathBuf> = world.files().into_iter().filter(|path| path.starts_with("data/golden")).collect();
    let names: Vec<&str> = names.iter().filter_map(|path| path.to_str()).collect();
    let owned = |prefix: &str| {
        let sidecar = world.read(Path::new(&format!("{prefix}-Helenus.db")));
        // The cores of the map stand behind magic, version and owner.
        sidecar.is_some_and(|bytes| bytes.get(12..14) == Some(&(shards as u16).to_be_bytes()[..]))
    };
    !names.iter().any(|name| name.ends_with(".log"))
        && names.iter().filter_map(|name| name.strip_suffix("-Data.db")).all(owned)
}

/// Reads foreign SSTables of a version with several numbers of cores.
fn read_foreign(version: &str, shards: [usize; 3]) {
    let tables = tables(version);
    let expected = if ["da", "oa", "nb"].contains(&version) { 79 } else { 23 };
    assert!(tables.len() >= expected, "{} tables", tables.len());
    let mut world = World::new(1, &[]);
    assert!(world.start(shards[0]));
    create(&mut world, &tables);
    world.stop();
    world.put(sstables(&tables));
    assert!(world.start(shards[1]), "{version}");
    check(&mut world, &tables, 5000, "as they are");
    check(&mut world, &tables, 97, "a little later");
    assert!(world.run_until(|world| are_ours(world, shards[1])), "the SSTables stay foreign: {:?}", world.files());
    check(&mut world, &tables, 5000, "rewritten");
    world.crash();
    assert!(world.start(shards[2]), "{version}");
    check(&mut world, &tables, 1000, "on another number of cores");
    assert!(world.run_until(|world| are_ours(world, shards[2])), "the SSTables stay foreign: {:?}", world.files());
    check(&mut world, &tables, 5000, "rewritten again");
    world.stop();
}

/// Columns are dropped and added again under SSTables that are open.
#[test]
fn dropped_columns_of_open_sstables_are_gone() {
    for version in ["da", "oa", "nb"] {
        let mut tables = tables(version);
        tables.retain(|name, _| name == "dropped");
        let (before, after): (Vec<String>, Vec<String>) =
            schema(&tables["dropped"]).map(str::to_owned).partition(|statement| !statement.starts_with("ALTER"));
        assert!(!after.is_empty());
        let mut world = World::new(1, &[]);
        assert!(world.start(2));
        let run = |world: &mut World, statements: &[String]| {
            for answer in world.query(statements.iter().map(|statement| plain(statement)).collect()) {
                answer.expect("done");
            }
        };
        run(&mut world, &before);
        world.stop();
        world.put(sstables(&tables));
        assert!(world.start(2));
        run(&mut world, &after);
        check(&mut world, &tables, 5000, "altered");
        assert!(world.run_until(|world| are_ours(world, 2)));
        check(&mut world, &tables, 5000, "rewritten");
    }
}

#[test]
fn tables_of_da_are_read() {
    read_foreign("da", [1, 3, 2]);
}

#[test]
fn tables_of_oa_are_read() {
    read_foreign("oa", [2, 2, 3]);
}

#[test]
fn tables_of_nb_are_read() {
    read_foreign("nb", [3, 1, 4]);
}

#[test]
fn tables_of_versions_before_nb_are_read() {
    for (version, shards) in [
        ("ma", [1, 2, 1]),
        ("mb", [2, 1, 2]),
        ("mc", [1, 3, 2]),
        ("md", [2, 2, 1]),
        ("me", [1, 1, 2]),
        ("na", [2, 3, 1]),
    ] {
        read_foreign(version, shards);
    }
}

#[test]
fn what_nb_cannot_say_is_refused_in_the_mode_that_writes_it() {
    let text = "Request on table ks.t with ttl of 630720000 seconds exceeds maximum supported expiration date of \
                2038-01-19T03:14:06+00:00. In order to avoid this use a lower TTL, change the expiration date overflow \
                policy or upgrade to a version where this limitation is fixed. See CASSANDRA-14092 and CASSANDRA-14227 \
                for more details.";
    for (mode, refused) in [("CASSANDRA_4", true), ("UPGRADING", false), ("NONE", false)] {
        let mut world = World::new(1, &[&format!("storage_compatibility_mode={mode}")]);
        assert!(world.start(1));
        let statements = [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH default_time_to_live = 630720000",
            "INSERT INTO ks.t (k, v) VALUES (1, 1) USING TTL 630720000",
            "INSERT INTO ks.t (k, v) VALUES (2, 1) USING TTL 300000000",
            "INSERT INTO ks.t (k, v) VALUES (3, 1)",
            "INSERT INTO ks.t (k, v) VALUES (4, 1) USING TTL 0",
        ];
        let answers = world.query(statements.iter().map(|statement| plain(statement)).collect());
        let said = |at: usize| match &answers[at] {
            Ok(_) => String::new(),
            Err(CallError::Failure { text, .. }) => text.clone(),
            Err(error) => panic!("{error:?}"),
        };
        let expected = |text: String| if refused { text } else { String::new() };
        assert_eq!(said(2), expected(text.to_owned()), "{mode}");
        assert_eq!(said(4), expected(text.replace("with ttl", "with default ttl")), "{mode}");
        assert_eq!((said(3), said(5)), (String::new(), String::new()), "{mode}");
        world.stop();
    }
}
