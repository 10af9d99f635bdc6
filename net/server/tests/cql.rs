//! Text cases: CQL statements and the answers that real Cassandra gives, in `tests/cql/*.cql`.
//!
//! A file holds cases (`## name`), each run in a fresh keyspace `k`. A statement ends with `;` at the end of a line.
//! Lines with `@` before it set how it is sent:
//! * `@bind v, v, ...`: prepare and execute with these values (literals of the marker's type, `null`, `unset`, `[a, b]`
//!   for a list, `{a, b}` for a set, `{k: v}` for a map or a user type's fields in their order, `(a, b)` for a tuple, a
//!   blob literal as raw bytes);
//! * `@prepare`: only prepare, the answer is the metadata;
//! * `@page n`: rows per page; every page is fetched;
//! * `@detail`: the fields that an error has besides its text follow as a line of their own;
//! * `@built`: try again while it fails: it needs an index that is built in the background;
//! * `@consistency LEVEL`, `@serial LEVEL` (of conditional changes), `@timestamp micros`, `@now seconds` (since 1970).
//!
//! The answer follows as lines that begin with `-> `. A line `-> differs: ...` after the answer holds ours where it
//! differs on purpose, in the same form.
//!
//! 1. `recorded_answers`: a simulated node gives the recorded answers.
//! 2. `recorded_answers_of_three_replicas`: so do three nodes at QUORUM, but for what `cql/replicas.rs` says.
//! 3. `recorded_answers_under_random` and its kin: so do nodes with other partitioners, but for what
//!    `cql/partitioner.rs` says. `recorded_answers_of_another_partitioner_are_cassandras` compares with, or records, a
//!    Cassandra that has the partitioner that `HELENUS_ORACLE_PARTITIONER` names.
//! 4. `recorded_answers_are_cassandras`: so does a real Cassandra. It is ignored unless asked for: `just oracle`, or
//!    with `CASSANDRA` as `cql/cassandra.rs` says `cargo test -p server --test cql -- --ignored
//!    recorded_answers_are_cassandras`. With `HELENUS_ORACLE=record` the files are rewritten with Cassandra's answers;
//!    `HELENUS_ORACLE_FILES` selects files by name without `.cql`, separated by commas.
//! 5. `recorded_answers_to_users`: a simulated node whose clients log in gives the recorded answers of the cases in
//!    `tests/cql/access`, where `@as name password` says who sends a statement and those that follow;
//!    `recorded_answers_to_users_are_cassandras`: so does a real Cassandra with `PasswordAuthenticator`,
//!    `CassandraAuthorizer` and `CassandraNetworkAuthorizer`.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "reads and records case files")]

#[path = "cql/access.rs"]
mod access;
#[path = "cql/access_matrix.rs"]
mod access_matrix;
#[path = "cql/case.rs"]
mod case;
#[path = "cql/cassandra.rs"]
mod cassandra;
#[path = "cql/cidrs.rs"]
mod cidrs;
#[path = "cql/error_detail.rs"]
mod error_detail;
#[path = "cql/node.rs"]
mod node;
#[path = "cql/partitioner.rs"]
mod partitioner;
#[path = "cql/play.rs"]
mod play;
#[path = "cql/replicas.rs"]
mod replicas;
#[path = "cql/step.rs"]
mod step;

use case::{Answers, CaseFile};
use cassandra::Cassandra;
use partitioner::OtherAnswers;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cql");
    case::files_in(&directory)
}

fn load(path: &Path) -> CaseFile {
    CaseFile::parse(&std::fs::read_to_string(path).expect("readable"))
}

/// Plays cases to a real Cassandra, and records its answers or compares them with the recorded ones.
fn ask_cassandra(files: Vec<PathBuf>, play: impl Fn(&CaseFile, IpAddr) -> Answers) {
    let recording = std::env::var("HELENUS_ORACLE").is_ok_and(|mode| mode == "record");
    let cassandra = Cassandra::start();
    let mut wrong = Vec::new();
    for path in files {
        let mut file = load(&path);
        let answers = play(&file, cassandra.address());
        if recording {
            file.record(&answers);
            std::fs::write(&path, file.print()).expect("writable");
        } else {
            wrong.extend(file.differences(&answers, &path, false));
        }
    }
    cassandra.stop();
    assert!(wrong.is_empty(), "{} answers differ from Cassandra's:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn there_are_cases_enough() {
    let cases: usize = files().iter().map(|path| load(path).cases.len()).sum();
    assert!(cases >= 600, "{cases} cases");
}

#[test]
fn a_case_file_survives_parsing_and_printing() {
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("readable");
        assert_eq!(CaseFile::parse(&text).print(), text, "{}", path.display());
    }
}

/// Every case on the simulated node, with one and with three shards.
#[test]
fn recorded_answers() {
    for shards in [1, 3] {
        let mut wrong = Vec::new();
        for path in files() {
            let file = load(&path);
            let answers = play::on_simulated_node(&file, "Murmur3Partitioner", shards);
            wrong.extend(file.differences(&answers, &path, true));
        }
        assert!(wrong.is_empty(), "{} shards, {} answers differ:\n{}", shards, wrong.len(), wrong.join("\n"));
    }
}

fn access_files() -> Vec<PathBuf> {
    case::files_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cql/access"))
}

/// Every case with several users on the simulated node, with one and with three shards.
#[test]
fn recorded_answers_to_users() {
    for shards in [1, 3] {
        let mut wrong = Vec::new();
        for path in access_files() {
            let file = load(&path);
            let answers = play::access_on_simulated_node(&file, shards);
            wrong.extend(file.differences(&answers, &path, true));
        }
        assert!(wrong.is_empty(), "{} shards, {} answers differ:\n{}", shards, wrong.len(), wrong.join("\n"));
    }
}

const MATRIX: &str = "tests/cql/access/matrix.txt";

/// Every statement with every permission on every resource, on a simulated node.
#[test]
fn recorded_matrix_of_grants() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(MATRIX);
    let recorded = std::fs::read_to_string(path).expect("readable");
    assert!(access_matrix::cells() >= 5_000, "{} cells", access_matrix::cells());
    let options = ["authenticator=PasswordAuthenticator", "authorizer=CassandraAuthorizer"].map(str::to_owned);
    let answers = node::with_configured_nodes(&options, &[1], access_matrix::play);
    let wrong: Vec<String> = recorded
        .split("\n\n")
        .zip(answers.split("\n\n"))
        .filter(|(want, got)| want != got)
        .map(|(want, got)| format!("want\n{want}\ngot\n{got}"))
        .collect();
    assert!(wrong.is_empty() && recorded.len() == answers.len(), "{}", wrong.join("\n\n"));
}

/// The same on a real Cassandra whose clients log in.
#[test]
#[ignore = "needs Cassandra: just oracle-access"]
fn recorded_matrix_of_grants_is_cassandras() {
    let cassandra = Cassandra::start();
    let answers = play::matrix_on_server(cassandra.address());
    cassandra.stop();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(MATRIX);
    if std::env::var("HELENUS_ORACLE").is_ok_and(|mode| mode == "record") {
        std::fs::write(&path, &answers).expect("writable");
    }
    let recorded = std::fs::read_to_string(path).expect("readable");
    assert!(recorded == answers, "Cassandra answers\n{answers}");
}

/// The same cases on a real Cassandra whose clients log in.
#[test]
#[ignore = "needs Cassandra: just oracle-access"]
fn recorded_answers_to_users_are_cassandras() {
    let only = std::env::var("HELENUS_ORACLE_FILES").ok();
    ask_cassandra(wanted(access_files(), only.as_deref()), play::access_on_server);
}

/// Every case that is not about the number of nodes on three simulated nodes of one, two and three cores, at QUORUM.
#[test]
fn recorded_answers_of_three_replicas() {
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for path in files() {
        let file = replicas::comparable(load(&path));
        cases += file.cases.len();
        let answers = play::on_simulated_nodes(&replicas::replicated(&file), "Murmur3Partitioner", &[1, 2, 3]);
        wrong.extend(file.differences(&replicas::as_of_one(answers), &path, true));
    }
    assert!(cases >= 600, "{cases} cases");
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every case on a simulated node with a partitioner.
fn other_partitioner(partitioner: &str) {
    let others = OtherAnswers::load(partitioner);
    let mut wrong = Vec::new();
    for path in files() {
        let file = others.applied_to(load(&path), &path);
        let answers = play::on_simulated_node(&file, partitioner, 2);
        wrong.extend(file.differences(&answers, &path, true));
    }
    assert!(wrong.is_empty(), "{partitioner}: {} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn recorded_answers_under_random() {
    other_partitioner("RandomPartitioner");
}

#[test]
fn recorded_answers_under_byte_ordered() {
    other_partitioner("ByteOrderedPartitioner");
}

#[test]
fn recorded_answers_under_order_preserving() {
    other_partitioner("OrderPreservingPartitioner");
}

/// The same cases on a real Cassandra with the partitioner that `HELENUS_ORACLE_PARTITIONER` names.
#[test]
#[ignore = "needs Cassandra: just oracle-partitioner"]
fn recorded_answers_of_another_partitioner_are_cassandras() {
    let partitioner = std::env::var("HELENUS_ORACLE_PARTITIONER").expect("HELENUS_ORACLE_PARTITIONER is set");
    let recording = std::env::var("HELENUS_ORACLE").is_ok_and(|mode| mode == "record");
    let mut others = if recording { OtherAnswers::none() } else { OtherAnswers::load(&partitioner) };
    let cassandra = Cassandra::start();
    let mut wrong = Vec::new();
    for path in files() {
        let file = others.applied_to(load(&path), &path);
        let answers = play::on_server(&file, cassandra.address());
        match recording {
            true => others.record(&file, &path, &answers),
            false => wrong.extend(file.differences(&answers, &path, false)),
        }
    }
    cassandra.stop();
    if recording {
        others.save(&partitioner);
    }
    assert!(wrong.is_empty(), "{} answers differ from Cassandra's:\n{}", wrong.len(), wrong.join("\n"));
}

/// The files that `only`, the value of `HELENUS_ORACLE_FILES`, names; all of them without it.
fn wanted(files: Vec<PathBuf>, only: Option<&str>) -> Vec<PathBuf> {
    let is_wanted = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        only.is_none_or(|only| only.split(',').any(|wanted| wanted == name))
    };
    let wanted: Vec<PathBuf> = files.into_iter().filter(is_wanted).collect();
    assert!(!wanted.is_empty(), "HELENUS_ORACLE_FILES names no file of these");
    wanted
}

/// Every case on a real Cassandra, or those of the files that `HELENUS_ORACLE_FILES` names.
#[test]
#[ignore = "needs Cassandra: just oracle"]
fn recorded_answers_are_cassandras() {
    let only = std::env::var("HELENUS_ORACLE_FILES").ok();
    ask_cassandra(wanted(files(), only.as_deref()), play::on_server);
}
