//! SSTables of Cassandra with partition keys, clusterings, static and regular columns of types that CQL writes as
//! classes: read, found by key, and written again.
//!
//! Each directory of the archive is named `VERSION.TABLE`. Cassandra has no JSON for values of composite types: where
//! `rows.json` has one, it is the text by which CQL writes it.

use super::unpack::{Tables, by_table};
use super::{schema, sstables::sstables, written};
use sstable::Version;
use std::sync::Arc;

fn tables() -> Tables {
    let tables = by_table(include_bytes!("classes.tar.zst"));
    assert_eq!(tables.len(), 2 * 3);
    tables
}

#[test]
fn tables_of_classes_are_read_to_cassandras_rows() {
    let mut failures = Vec::new();
    tables().iter().for_each(|(directory, files)| crate::read_table(directory, files, &mut failures));
    assert!(failures.is_empty(), "{} tables\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn tables_of_classes_are_found_by_key() {
    for (directory, files) in &tables() {
        let opened = sstables(files);
        let table = Arc::new(schema::table(files, &opened));
        opened.iter().for_each(|sstable| crate::find_in(directory, sstable, &table));
    }
}

#[test]
fn tables_of_classes_are_written_again() {
    let mut failures = Vec::new();
    for (directory, files) in &tables() {
        let (version, name) = directory.split_once('.').expect("a version and a table");
        let version = if version == "da" { Version::Da } else { Version::Oa };
        written::check_again(name, files, version, &mut failures);
    }
    assert!(failures.is_empty(), "{} differences\n{}", failures.len(), failures.join("\n"));
}
