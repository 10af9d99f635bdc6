//! SSTables that Cassandra wrote under other partitioners than Murmur3: read, found by key, and written again.
//!
//! Each directory of the archive is named `PARTITIONER.VERSION.TABLE`.

use super::sstables::sstables;
use super::unpack::{Tables, by_table};
use super::{schema, written};
use model::Partitioner;
use sstable::Version;
use std::sync::Arc;

fn tables() -> Tables {
    by_table(include_bytes!("partitioners.tar.zst"))
}

/// The partitioner, the version and the name of a table, from the name of its directory.
fn parts(directory: &str) -> (Partitioner, Version, &str) {
    let mut parts = directory.splitn(3, '.');
    let partitioner = parts.next().and_then(|name| Partitioner::named(&format!("{name}Partitioner"))).expect("known");
    let version = if parts.next() == Some("da") { Version::Da } else { Version::Nb };
    (partitioner, version, parts.next().expect("a table"))
}

#[test]
fn tables_of_all_partitioners_are_read_to_cassandras_rows() {
    let tables = tables();
    assert_eq!(tables.len(), 3 * 2 * 9);
    let mut failures = Vec::new();
    for (directory, files) in &tables {
        crate::read_table(directory, files, &mut failures);
        let opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        for sstable in &opened {
            assert_eq!(sstable.open(&table).partitioner(), parts(directory).0, "{directory}");
        }
    }
    assert!(failures.is_empty(), "{} tables\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn tables_of_all_partitioners_are_found_by_key() {
    for (directory, files) in &tables() {
        let opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        opened.iter().for_each(|sstable| crate::find_in(directory, sstable, &table));
    }
}

#[test]
fn tables_of_all_partitioners_are_written_again() {
    let mut failures = Vec::new();
    for (directory, files) in &tables() {
        let (_, version, name) = parts(directory);
        written::check_again(name, files, version, &mut failures);
    }
    assert!(failures.is_empty(), "{} differences\n{}", failures.len(), failures.join("\n"));
}
