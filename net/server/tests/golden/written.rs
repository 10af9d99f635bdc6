//! SSTables that the engine writes of every kind of table, checked by a real Cassandra. Ignored unless asked for.
//!
//! 1. The statements that made the tables run here in three parts: what the first part wrote is flushed and split
//!    between other cores, after the second part everything is compacted, what the third part writes is flushed beside
//!    it.
//! 2. The rows must be those that Cassandra read.
//! 3. A script has Cassandra verify, import and read the files.
//!
//! `cargo test -p server --test golden -- --ignored cassandra_accepts_what_the_engine_writes` needs two variables:
//! * `HELENUS_SSTABLE_STATEMENTS`: the directory of the statements that made the tables, a file `<table>.cql` or
//!   `<table>.cql.gz` of each;
//! * `HELENUS_SSTABLE_CHECK`: the script. It is called once for each version with a directory that holds `schema.cql`
//!   and `golden/<table>-<id>/` with an SSTable's components and `rows.json`, and exits with 0 if Cassandra accepts
//!   them.
//!
//! Two more make it shorter: `HELENUS_SSTABLE_VERSION` selects a version, `HELENUS_SSTABLE_TABLES` tables, separated by
//! commas.

use super::archive::{Files, Tables};
use super::world::World;
use super::{are_ours, check, directory, is_done, tables, text};
use server::client::QueryOptions;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The last second at which something of `nb` can expire, and by how much long times to live were shorter in it.
const NB_EXPIRATION_MAX: i64 = i32::MAX as i64 - 1;
const NB_TTL_SHORTER: i64 = 330_720_000;
const LONG_TTL: i64 = 600_000_000;

/// A statement of `nb`: with a time to live as it was there, or `None` if there was none.
fn of_nb(statement: &str, now: i64) -> Option<String> {
    let Some((before, after)) = statement.split_once(" TTL ") else { return Some(statement.to_owned()) };
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let ttl: i64 = after[..end].parse().expect("seconds");
    let ttl = if ttl > LONG_TTL { ttl - NB_TTL_SHORTER } else { ttl };
    (now + ttl <= NB_EXPIRATION_MAX).then(|| format!("{before} TTL {ttl}{}", &after[end..]))
}

/// The statements of a table with the second at which each was sent.
fn statements(directory: &Path, table: &str, version: &str) -> Vec<(String, QueryOptions)> {
    let plain = directory.join(format!("{table}.cql"));
    let text = match std::fs::read(&plain) {
        Ok(bytes) => String::from_utf8(bytes).expect("text"),
        Err(_) => {
            let packed = std::fs::read(directory.join(format!("{table}.cql.gz"))).expect("statements");
            let mut text = String::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("text");
            text
        }
    };
    let statement = |statement: &str| {
        let (now, statement) = statement.strip_prefix("/* now ")?.split_once(" */ ")?;
        let now: i32 = now.parse().expect("seconds");
        let statement = if version == "nb" { of_nb(statement, now.into())? } else { statement.to_owned() };
        Some((statement, QueryOptions { now_in_seconds: Some(now), ..QueryOptions::default() }))
    };
    text.split(";\n").filter_map(statement).collect()
}

/// The `CREATE KEYSPACE` and `CREATE TYPE` of a table's schema.
fn surroundings(files: &Files) -> impl Iterator<Item = &str> {
    super::schema(files).filter(|statement| !statement.starts_with("CREATE TABLE") && !statement.starts_with("ALTER"))
}

/// Runs statements. Errors are ignored: Cassandra refused the same ones, or else the rows will differ.
fn run(world: &mut World, statements: &[(String, QueryOptions)]) {
    let used = ("USE golden".to_owned(), QueryOptions::default());
    let answers = world.query(std::iter::once(used).chain(statements.iter().cloned()).collect());
    for (answer, (statement, _)) in answers.iter().skip(1).zip(statements) {
        if !is_done(answer) {
            tracing::info!(statement, ?answer, "refused");
        }
    }
}

fn alter_compaction(world: &mut World, tables: &Tables, options: &str) {
    let alter = |name: &String| {
        let text = format!("ALTER TABLE golden.\"{name}\" WITH compaction = {options}");
        (text, QueryOptions::default())
    };
    for answer in world.query(tables.keys().map(alter).collect()) {
        answer.expect("altered");
    }
}

/// How many SSTables a table has.
fn count(world: &World, name: &str, files: &Files) -> usize {
    let directory = directory(name, files);
    world.files().iter().filter(|path| path.starts_with(&directory) && is_data(path)).count()
}

fn is_data(path: &Path) -> bool {
    path.to_string_lossy().ends_with("-Data.db")
}

/// Writes the tables into a directory of the form that the script takes.
fn lay_out(world: &World, tables: &Tables, to: &Path) {
    let mut schema = String::new();
    for (name, files) in tables {
        let from = directory(name, files);
        let placed = to.join("golden").join(from.file_name().expect("a name"));
        std::fs::create_dir_all(&placed).expect("a directory");
        for path in world.files().iter().filter(|path| path.starts_with(&from)) {
            let file = path.file_name().expect("a name");
            std::fs::write(placed.join(file), world.read(path).expect("there")).expect("written");
        }
        std::fs::write(placed.join("rows.json"), &files["rows.json"]).expect("written");
        schema.push_str(text(files, "schema.cql"));
    }
    std::fs::write(to.join("schema.cql"), schema).expect("written");
}

fn written(version: &str, tables: Tables, from: &Path) -> (World, Tables) {
    let small: Vec<&str> = match version {
        "da" => vec![],
        "oa" => vec!["sstable={selected_format: big}"],
        _ => vec!["sstable={selected_format: big}", "storage_compatibility_mode=CASSANDRA_4"],
    };
    let options: Vec<&str> = small.into_iter().chain(["column_index_size=1KiB"]).collect();
    let mut world = World::new(1, &options);
    assert!(world.start(2));
    let named = |name: &String| (name.clone(), statements(from, name, version));
    let workload: Vec<(String, Vec<(String, QueryOptions)>)> = tables.keys().map(named).collect();
    let setup: Vec<(String, QueryOptions)> = tables
        .values()
        .flat_map(surroundings)
        .map(|statement| (statement.to_owned(), QueryOptions::default()))
        .collect();
    world.query(setup);
    let third = |world: &mut World, number: usize| {
        for (_, statements) in &workload {
            let len = statements.len();
            run(world, &statements[len * number / 3..len * (number + 1) / 3]);
        }
    };
    third(&mut world, 0);
    world.stop();
    assert!(world.start(2));
    world.stop();
    assert!(world.start(3));
    assert!(world.run_until(|world| are_ours(world, 3)), "{:?}", world.files());
    third(&mut world, 1);
    world.stop();
    assert!(world.start(3));
    let strategy = "'class': 'SizeTieredCompactionStrategy'";
    alter_compaction(&mut world, &tables, &format!("{{{strategy}, 'min_threshold': 2}}"));
    world.stop();
    assert!(world.start(3));
    let compacted =
        |world: &World| are_ours(world, 3) && tables.iter().all(|(name, files)| count(world, name, files) <= 3);
    assert!(world.run_until(compacted), "{:?}", world.files());
    alter_compaction(&mut world, &tables, &format!("{{{strategy}, 'enabled': false}}"));
    third(&mut world, 2);
    world.stop();
    assert!(world.start(3));
    check(&mut world, &tables, 5000, "here");
    world.stop();
    (world, tables)
}

#[test]
#[ignore = "needs Cassandra: just sstables-accepted"]
fn cassandra_accepts_what_the_engine_writes() {
    let statements = std::env::var("HELENUS_SSTABLE_STATEMENTS").expect("HELENUS_SSTABLE_STATEMENTS, a directory");
    let script = std::env::var("HELENUS_SSTABLE_CHECK").expect("HELENUS_SSTABLE_CHECK, a script");
    let only_version = std::env::var("HELENUS_SSTABLE_VERSION").ok();
    let only_tables = std::env::var("HELENUS_SSTABLE_TABLES").ok();
    let mut versions = vec!["da", "oa", "nb"];
    versions.retain(|version| only_version.as_ref().is_none_or(|only| only == version));
    assert!(!versions.is_empty(), "HELENUS_SSTABLE_VERSION is da, oa or nb");
    for version in versions {
        let mut tables = tables(version);
        if let Some(only) = &only_tables {
            tables.retain(|name, _| only.split(',').any(|wanted| wanted == name));
        }
        assert!(!tables.is_empty(), "HELENUS_SSTABLE_TABLES names no table of {version}");
        let (world, tables) = written(version, tables, Path::new(&statements));
        let to: PathBuf = std::env::temp_dir().join(format!("helenus-engine-{version}"));
        lay_out(&world, &tables, &to);
        let status = Command::new(&script).arg(&to).status().expect("HELENUS_SSTABLE_CHECK names a script that runs");
        assert!(status.success(), "{version} in {}", to.display());
        std::fs::remove_dir_all(&to).expect("removed");
    }
}
