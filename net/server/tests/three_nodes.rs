//! Text cases for three nodes: CQL statements and the answers of a real cluster of Cassandra, in
//! `tests/three_nodes/*.cql`.
//!
//! The form is that of `tests/cql.rs`. Each file is played on a new cluster of three nodes with four given tokens each;
//! `layout.rs` says where they are. A statement has a connection of its own, to node 1 unless another one is named. The
//! cases of a file share their keyspaces, and the nodes stay as a statement left them. More lines with `@`:
//! * `@node N`: the statement is sent to this node;
//! * `@use KEYSPACE`: the keyspace in use;
//! * `@stop N`: before the statement this node stops, and the others know;
//! * `@start N`: before the statement this node starts again, and the others know;
//! * `@pause N`: while the statement is answered this node stands still, and the others do not know;
//! * `@any order`: the rows are compared without their order;
//!
//! In answers `node1` is the address of the first node, `host1` its host id, and `schema` the version that all nodes
//! name.
//!
//! 1. `recorded_answers`: three simulated nodes give the recorded answers.
//! 2. `recorded_answers_are_cassandras`: so do three nodes of Cassandra. It is ignored unless asked for: `just
//!    oracle-three-nodes`; `three_nodes/cassandra.rs` says what it needs. With `HELENUS_ORACLE=record` the files are
//!    rewritten with Cassandra's answers; `HELENUS_ORACLE_FILES` selects files by name without `.cql`, separated by
//!    commas.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "reads and records case files")]

#[path = "cql/case.rs"]
mod case;
#[path = "three_nodes/cassandra.rs"]
mod cassandra;
#[path = "cql/error_detail.rs"]
mod error_detail;
#[path = "three_nodes/layout.rs"]
mod layout;
#[path = "three_nodes/names.rs"]
mod names;
#[path = "three_nodes/play.rs"]
mod play;
#[path = "three_nodes/simulated.rs"]
mod simulated;
#[path = "cql/step.rs"]
mod step;

use case::CaseFile;
use cassandra::CassandraCluster;
use layout::Layout;
use play::play;
use simulated::SimulatedCluster;
use std::path::{Path, PathBuf};

fn files(layout: Layout) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/three_nodes").join(layout.folder());
    case::files_in(&directory)
}

fn load(path: &Path) -> CaseFile {
    CaseFile::parse(&std::fs::read_to_string(path).expect("readable"))
}

#[test]
fn a_case_file_survives_parsing_and_printing() {
    for path in Layout::ALL.into_iter().flat_map(files) {
        let text = std::fs::read_to_string(&path).expect("readable");
        assert_eq!(CaseFile::parse(&text).print(), text, "{}", path.display());
    }
}

fn path_of(layout: Layout, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/three_nodes").join(layout.folder()).join(name)
}

/// Plays a file on three simulated nodes.
fn recorded_answers(layout: Layout, name: &str) {
    let path = path_of(layout, name);
    let file = load(&path);
    let answers = play(&mut SimulatedCluster::start(layout), &file);
    let wrong = file.differences(&answers, &path, true);
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A test for each file, so that they run beside one another.
macro_rules! recorded_answers {
    ($($test:ident: $layout:ident, $name:literal;)*) => {
        /// The files that have a test.
        const TESTED: &[(Layout, &str)] = &[$((Layout::$layout, $name)),*];

        mod recorded_answers {
            $(
                #[test]
                fn $test() {
                    super::recorded_answers(super::Layout::$layout, $name);
                }
            )*
        }
    };
}

recorded_answers! {
    data: OneCentre, "data.cql";
    describe: OneCentre, "describe.cql";
    identity: OneCentre, "identity.cql";
    levels_one_replica: OneCentre, "levels_one_replica.cql";
    levels_simple: OneCentre, "levels_simple.cql";
    levels_topology: OneCentre, "levels_topology.cql";
    levels_two_replicas: OneCentre, "levels_two_replicas.cql";
    missed: OneCentre, "missed.cql";
    paused: OneCentre, "paused.cql";
    replication: OneCentre, "replication.cql";
    schema: OneCentre, "schema.cql";
    truncate: OneCentre, "truncate.cql";
    describe_two_centres: TwoCentres, "describe.cql";
    identity_two_centres: TwoCentres, "identity.cql";
    levels_two_centres: TwoCentres, "levels.cql";
    levels_local: TwoCentres, "levels_local.cql";
    replication_two_centres: TwoCentres, "replication.cql";
}

#[test]
fn every_file_has_a_test() {
    let found: Vec<PathBuf> = Layout::ALL.into_iter().flat_map(files).collect();
    let tested: Vec<PathBuf> = TESTED.iter().map(|(layout, name)| path_of(*layout, name)).collect();
    assert_eq!(tested, found);
}

/// The same cases on three nodes of Cassandra.
#[test]
#[ignore = "needs Cassandra: just oracle-three-nodes"]
fn recorded_answers_are_cassandras() {
    let only = std::env::var("HELENUS_ORACLE_FILES").ok();
    let is_wanted = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        only.as_ref().is_none_or(|only| only.split(',').any(|wanted| wanted == name))
    };
    let recording = std::env::var("HELENUS_ORACLE").is_ok_and(|mode| mode == "record");
    let mut wrong = Vec::new();
    for layout in Layout::ALL {
        let wanted: Vec<PathBuf> = files(layout).into_iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            continue;
        }
        let mut cluster = CassandraCluster::start(layout);
        for path in wanted {
            let mut file = load(&path);
            cluster.make_new();
            let answers = play(&mut cluster, &file);
            if recording {
                file.record(&answers);
                std::fs::write(&path, file.print()).expect("writable");
            } else {
                wrong.extend(file.differences(&answers, &path, false));
            }
        }
        cluster.stop();
    }
    assert!(wrong.is_empty(), "{} answers differ from Cassandra's:\n{}", wrong.len(), wrong.join("\n"));
}
