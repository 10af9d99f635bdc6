//! What is written here, given to real Cassandra.

#![expect(clippy::disallowed_methods, reason = "the files are for another program")]

use super::archive::Archive;
use super::schema;
use super::sstables::sstables;
use super::written::written;
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

/// With `HELENUS_SSTABLE_CHECK` naming a script, it is run on a directory of what is written here of each version
/// (`schema.cql` and `golden/<table>-<id>/` with components and `rows.json`), with each table's own compressor: to have
/// real Cassandra verify, import and read it. `HELENUS_SSTABLE_VERSION` selects one version.
#[test]
fn cassandra_accepts_what_is_written() {
    let Ok(script) = std::env::var("HELENUS_SSTABLE_CHECK") else { return };
    let only = std::env::var("HELENUS_SSTABLE_VERSION").ok();
    for version in [Version::Da, Version::Oa, Version::Nb] {
        if only.as_ref().is_some_and(|only| only != version.name()) {
            continue;
        }
        let directory = std::env::temp_dir().join(format!("helenus-sstables-{}", version.name()));
        let mut schemas = Vec::new();
        for (name, files) in &Archive::load(version) {
            // A boolean without a value breaks the original's own tools.
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
            // A table of old has columns that CQL does not show.
            let own = (!schema.contains("COMPACT STORAGE")).then(|| Arc::new(own));
            for sstable in &opened {
                let (finished, _) = written(name, sstable, Some((1, ShardMap::new(2))), own.clone());
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
        let status = std::process::Command::new(&script).arg(&directory).status().expect("runs");
        assert!(status.success(), "{version:?} in {}", directory.display());
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
