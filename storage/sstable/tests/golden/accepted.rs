//! SSTables that the writer writes, checked by a real Cassandra. Ignored unless asked for.
//!
//! `cargo test -p sstable --test golden -- --ignored cassandra_accepts_what_is_written` needs `HELENUS_SSTABLE_CHECK`:
//! a script that is called once for each version with a directory that holds `schema.cql` and `golden/<table>-<id>/`
//! with an SSTable's components, written with the table's own compressor, and `rows.json`. It has Cassandra verify,
//! import and read them, and exits with 0 if Cassandra accepts them. `HELENUS_SSTABLE_VERSION` selects one version.

#![expect(clippy::disallowed_methods, reason = "the files are for another program")]

use super::archive::Archive;
use super::schema;
use super::sstables::sstables;
use super::written::written;
use model::Partitioner;
use model::ShardMap;
use sstable::Version;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The `compression` option of a table, if it is shown.
fn compression(schema: &str) -> Option<BTreeMap<String, String>> {
    let (_, option) = schema.split_once("AND compression = {")?;
    let (option, _) = option.split_once('}').expect("a map");
    let pair = |pair: &str| {
        let (key, value) = pair.split_once(": ").expect("a pair");
        (key.trim_matches('\'').to_owned(), value.trim_matches('\'').to_owned())
    };
    Some(option.split(", ").map(pair).collect())
}

#[test]
#[ignore = "needs Cassandra: just sstables-accepted"]
fn cassandra_accepts_what_is_written() {
    let script = std::env::var("HELENUS_SSTABLE_CHECK").expect("HELENUS_SSTABLE_CHECK, a script");
    let only = std::env::var("HELENUS_SSTABLE_VERSION").ok();
    let mut versions = vec![Version::Da, Version::Oa, Version::Nb];
    versions.retain(|version| only.as_ref().is_none_or(|only| only == version.name()));
    assert!(!versions.is_empty(), "HELENUS_SSTABLE_VERSION is da, oa or nb");
    for version in versions {
        let directory = std::env::temp_dir().join(format!("helenus-sstables-{}", version.name()));
        let mut schemas = Vec::new();
        for (name, files) in &Archive::load(version) {
            // A boolean without a value breaks Cassandra's own tools.
            if name == "empty_boolean" {
                continue;
            }
            let schema = std::str::from_utf8(&files["schema.cql"]).expect("text");
            let (_, id) = schema.split_once("WITH ID = ").or(schema.split_once(" id = ")).expect("an id");
            let id: String = id.chars().take(36).filter(|c| *c != '-').collect();
            let table = directory.join("golden").join(format!("{name}-{id}"));
            std::fs::create_dir_all(&table).expect("a directory");
            let opened = sstables(files);
            let mut own = schema::table(files, &opened);
            if let Some(compression) = compression(schema) {
                own.options.compression = compression;
            }
            // A compact table has columns that CQL does not show.
            let own = (!schema.contains("COMPACT STORAGE")).then(|| Arc::new(own));
            for sstable in &opened {
                let (finished, _) =
                    written(name, sstable, Some((1, ShardMap::new(Partitioner::Murmur3, 2))), own.clone());
                for (component, bytes) in finished.components {
                    std::fs::write(table.join(sstable.descriptor.file_name(component)), bytes).expect("written");
                }
            }
            if let Some(rows) = files.get("rows.json") {
                std::fs::write(table.join("rows.json"), rows).expect("written");
            }
            schemas.extend_from_slice(schema.as_bytes());
        }
        std::fs::write(directory.join("schema.cql"), schemas).expect("written");
        let status = std::process::Command::new(&script).arg(&directory).status();
        let status = status.expect("HELENUS_SSTABLE_CHECK names a script that runs");
        assert!(status.success(), "{version:?} in {}", directory.display());
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
