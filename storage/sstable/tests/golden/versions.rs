//! The SSTables of each version, with the schema of each table and the rows that Cassandra reads from them. The tests
//! of other crates include this file beside `unpack`.

use super::unpack::{Tables, by_table};

const DA: &[u8] = include_bytes!("da.tar.zst");
const OA: &[u8] = include_bytes!("oa.tar.zst");
const NB: &[u8] = include_bytes!("nb.tar.zst");

/// Returns the tables of a version, with schemas and rows: those that all versions share are in the archive of `da`.
pub(crate) fn tables(version: &str) -> Tables {
    let mut tables = by_table(match version {
        "da" => DA,
        "oa" => OA,
        _ => NB,
    });
    if version != "da" {
        for (name, files) in by_table(DA) {
            let table = tables.entry(name).or_default();
            for (file, bytes) in files {
                if matches!(file.as_str(), "schema.cql" | "rows.json") {
                    table.entry(file).or_insert(bytes);
                }
            }
        }
    }
    tables
}
