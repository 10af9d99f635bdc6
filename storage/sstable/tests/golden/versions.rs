//! The SSTables of each version, with the schema of each table and the rows that Cassandra reads from them. The tests
//! of other crates include this file beside `unpack`.

use super::unpack::{Tables, by_table, unpack};

const DA: &[u8] = include_bytes!("da.tar.zst");
const OA: &[u8] = include_bytes!("oa.tar.zst");
const NB: &[u8] = include_bytes!("nb.tar.zst");

/// Files of Cassandra 3.0.4 (`ma`), 3.7 (`mb`), 3.0.14 (`mc`), 3.11.6 (`md`), 3.11.19 (`me`) and 4.0-rc1 (`na`), in a
/// directory for each version.
const BEFORE_NB: &[u8] = include_bytes!("before-nb.tar.zst");

/// Returns the tables of a version, with schemas and rows. Those that several versions share are in the archive of `da`
/// or `nb` alone.
pub(crate) fn tables(version: &str) -> Tables {
    let (mut tables, shared) = match version {
        "da" => return by_table(DA),
        "oa" => (by_table(OA), by_table(DA)),
        "nb" => (by_table(NB), by_table(DA)),
        _ => (before_nb(version), self::tables("nb")),
    };
    for (name, table) in &mut tables {
        for file in ["schema.cql", "rows.json"] {
            if let Some(bytes) = shared.get(name).and_then(|files| files.get(file)) {
                table.entry(file.to_owned()).or_insert_with(|| bytes.clone());
            }
        }
    }
    tables
}

fn before_nb(version: &str) -> Tables {
    let mut tables = Tables::new();
    for (path, bytes) in unpack(BEFORE_NB) {
        let mut parts = path.splitn(3, '/');
        let (Some(of), Some(table), Some(file)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if of == version {
            tables.entry(table.to_owned()).or_default().insert(file.to_owned(), bytes);
        }
    }
    tables
}
