//! Reads SSTables that Cassandra wrote, and writes those of the versions that are written.
//!
//! `golden/*.tar.zst` have one directory per table, with the components, `schema.cql`, and `rows.json`, the answer of
//! Cassandra 5.0.9 to `SELECT JSON *`. Schemas and rows that are the same in all versions are in the archive of `da`
//! alone. `golden/before-nb.tar.zst` has them for versions of Cassandra 3 and the candidates of 4.0.
//! `golden/partitioners.tar.zst` has tables of nodes with other partitioners than Murmur3, `golden/classes.tar.zst`
//! tables of types that CQL writes as classes.

mod golden {
    mod accepted;
    pub(crate) mod archive;
    mod classes;
    pub(crate) mod database;
    mod disorder;
    mod flips;
    mod partitioners;
    mod reversed;
    mod round_trip;
    mod scans;
    pub(crate) mod schema;
    pub(crate) mod sstables;
    pub(crate) mod unpack;
    mod versions;
    mod written;
}

use golden::archive::{Archive, Files};
use golden::database::Database;
use golden::schema;
use golden::sstables::{Sstable, sstables};
use model::query::Slice;
use model::token::{RingPosition, TokenRange};
use sstable::Version;
use sstable::filter::{Filter, KeyHash};
use sstable::statistics::Metadata;
use std::sync::Arc;

/// Tables whose rows CQL cannot show: those of compact tables, and that with a boolean without a value.
const NO_ROWS: [&str; 4] = ["compact_static", "compact_storage", "compact_wide", "empty_boolean"];
/// The versions that are only read.
const BEFORE_NB: [Version; 6] = [Version::Ma, Version::Mb, Version::Mc, Version::Md, Version::Me, Version::Na];

fn read_all(version: Version) {
    let tables = Archive::load(version);
    let expected = if version.is_written() { 82 } else { 23 };
    assert!(tables.len() >= expected, "{} tables", tables.len());
    let mut failures = Vec::new();
    tables.iter().for_each(|(name, files)| read_table(name, files, &mut failures));
    assert!(failures.is_empty(), "{version:?}: {} tables\n{}", failures.len(), failures.join("\n"));
}

/// Checks that a table is read to the rows that Cassandra reads from it.
fn read_table(name: &str, files: &Files, failures: &mut Vec<String>) {
    let opened = sstables(files);
    let table = Arc::new(schema::table(files, &opened));
    let mut database = Database::default();
    let mut rows = 0;
    for sstable in &opened {
        let reader = sstable.try_open(&table).unwrap_or_else(|error| panic!("{name}: {error} {table:?}"));
        rows += database.read(&mut sstable.driver(reader.scan(TokenRange::FULL))).expect("reads");
        assert!(rows > 0);
    }
    if NO_ROWS.contains(&name) {
        return;
    }
    let expected = std::str::from_utf8(&files["rows.json"]).expect("text");
    let found = database.json(&table);
    if let Some((expected, found)) = expected.lines().zip(&found).find(|(expected, found)| expected != found) {
        failures.push(format!("{name}:\n  expected {expected:.400}\n  found    {found:.400}"));
    } else if expected.lines().count() != found.len() {
        failures.push(format!("{name}: {} rows, expected {}", found.len(), expected.lines().count()));
    }
}

#[test]
fn da_is_read_to_cassandras_rows() {
    read_all(Version::Da);
}

#[test]
fn oa_is_read_to_cassandras_rows() {
    read_all(Version::Oa);
}

#[test]
fn nb_is_read_to_cassandras_rows() {
    read_all(Version::Nb);
}

#[test]
fn versions_before_nb_are_read_to_cassandras_rows() {
    BEFORE_NB.into_iter().for_each(read_all);
}

/// Checks that filter and indexes find every partition, and every row, by its key.
fn find_all(version: Version) {
    for (name, files) in &Archive::load(version) {
        let opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        for sstable in &opened {
            find_in(name, sstable, &table);
        }
    }
}

fn find_in(name: &str, sstable: &Sstable<'_>, table: &Arc<model::Table>) {
    let reader = sstable.open(table);
    let mut all = Database::default();
    all.read(&mut sstable.driver(reader.scan(TokenRange::FULL))).expect("reads");
    // Of large tables some keys are enough: all are found in the same way.
    let step = all.partitions.len().div_ceil(50);
    for (key, partition) in all.partitions.iter().step_by(step.max(1)) {
        assert!(reader.may_contain(&key.key), "{name}: {key:?} passes the filter");
        let mut one = Database::default();
        let cursor = reader.partition(key.clone(), [Slice::all()].into(), false);
        one.read(&mut sstable.driver(cursor)).expect("reads");
        assert_eq!(one.partitions.get(key), Some(partition), "{name}: {key:?}");
        let step = partition.rows.len().div_ceil(40);
        for (comparable, row) in partition.rows.iter().step_by(step.max(1)) {
            let end = [comparable, &[0xff][..]].concat();
            let slice = Slice { start: comparable[..].into(), end: end.into() };
            let mut one = Database::default();
            let mut driver = sstable.driver(reader.partition(key.clone(), [slice].into(), false));
            one.read(&mut driver).expect("reads");
            let found = &one.partitions[key];
            assert_eq!(found.rows.get(comparable), Some(row), "{name}: {key:?}");
            assert_eq!(found.rows.len(), 1, "{name}: {key:?}");
            let open = |p: &golden::database::Partition| p.deletion_at(comparable);
            assert_eq!(open(found), open(partition), "{name}: {key:?}");
        }
        // A scan from a token on begins with the partition of that token.
        let token = reader.partitioner().ring_token(&key.key);
        let position = |is_after| Some(RingPosition { token: token.clone(), is_after });
        let range = TokenRange { start: position(false), end: position(true) };
        let mut one = Database::default();
        one.read(&mut sstable.driver(reader.scan(range))).expect("reads");
        assert_eq!(one.partitions.get(key), Some(partition), "{name}: {key:?}");
    }
}

#[test]
fn da_is_found_by_key() {
    find_all(Version::Da);
}

#[test]
fn oa_is_found_by_key() {
    find_all(Version::Oa);
}

#[test]
fn nb_is_found_by_key() {
    find_all(Version::Nb);
}

#[test]
fn versions_before_nb_are_found_by_key() {
    BEFORE_NB.into_iter().for_each(find_all);
}

#[test]
fn statistics_and_filters_are_written_again() {
    for version in [Version::Da, Version::Oa, Version::Nb] {
        for (name, files) in &Archive::load(version) {
            let opened = sstables(files);
            let table = Arc::new(schema::table(files, &opened));
            for sstable in &opened {
                let reader = sstable.open(&table);
                let statistics = sstable.part("Statistics.db").expect("there");
                {
                    let written = reader.metadata().write(version);
                    let at = written.iter().zip(statistics).position(|(a, b)| a != b);
                    let lens = (written.len(), statistics.len());
                    assert!(written == statistics, "{name}: Statistics.db of {version:?} differs at {at:?}, {lens:?}");
                }
                // The filter of `scrubbed` was made for an estimated number of partitions.
                if let Some(bytes) = sstable.part("Filter.db")
                    && name != "scrubbed"
                {
                    let mut all = Database::default();
                    all.read(&mut sstable.driver(reader.scan(TokenRange::FULL))).expect("reads");
                    let chance = reader.metadata().filter_chance;
                    let mut filter = Filter::new(all.partitions.len() as u64, chance).expect("a filter");
                    all.partitions.keys().for_each(|key| filter.add(KeyHash::of(&key.key)));
                    assert!(filter.write() == bytes, "{name}: Filter.db of {version:?}");
                }
                if let (Some(info), Some(bytes)) = (reader.compression(), sstable.part("CompressionInfo.db")) {
                    assert!(info.write() == bytes, "{name}: CompressionInfo.db");
                }
            }
        }
    }
}

/// An import changes Statistics.db of the files that it takes in, of whatever version they are.
#[test]
fn statistics_of_versions_before_nb_are_written_again() {
    for version in BEFORE_NB {
        for (name, files) in &Archive::load(version) {
            for sstable in &sstables(files) {
                let bytes = sstable.part("Statistics.db").expect("there");
                let written = Metadata::open(&sstable.descriptor, bytes).expect("opens").write(version);
                assert!(written == bytes, "{version:?} {name}");
            }
        }
    }
}
