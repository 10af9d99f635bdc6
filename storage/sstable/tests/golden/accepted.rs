//! What is written here, given to real Cassandra.

#![expect(clippy::disallowed_methods, reason = "the files are for another program")]

use super::archive::Archive;
use super::sstables::sstables;
use super::written::written;
use model::ShardMap;
use sstable::Version;

/// With `HELENUS_SSTABLE_CHECK` naming a script, it is run on a directory of what is written here of each version
/// (`schema.cql` and `golden/<table>-<id>/` with components and `rows.json`): to have real Cassandra verify, import and
/// read it. `HELENUS_SSTABLE_VERSION` selects one version.
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
            for sstable in &sstables(files) {
                let (finished, _) = written(name, sstable, Some((1, ShardMap::new(2))));
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
