//! Features of Cassandra's schema that are not served here: a node that ignored them would give wrong answers or let
//! their data go stale, so it must not start.

use super::Error;
use super::cells::{RowReader, StoredRow};
use model::Table;
use model::schema::is_system_keyspace;

/// The tables of `system_schema` that must have no rows for user keyspaces, and what a row of each is called in the
/// error.
pub(super) const TABLES: [(&str, &str); 4] = [
    ("views", "the materialized view"),
    ("functions", "the function"),
    ("aggregates", "the aggregate"),
    ("triggers", "a trigger on"),
];

/// Fails if `rows` of a table of `system_schema` belong to a user keyspace.
pub(super) fn refuse(table: &Table, what: &str, rows: &[StoredRow]) -> Result<(), Error> {
    for row in rows {
        let keyspace = String::from_utf8_lossy(&row.key);
        if !is_system_keyspace(&keyspace) {
            let name = row.clustering.first().map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
            debug_assert!(table.clustering_len > 0, "{} has a name in its clustering", table.name);
            return Err(Error::Unsupported { what: format!("{what} {keyspace}.{name}") });
        }
    }
    Ok(())
}

/// Fails if a user table has an index of a kind that is not kept in a table of its own.
pub(super) fn refuse_indexes(table: &Table, rows: &[StoredRow]) -> Result<(), Error> {
    for row in rows {
        let reader = RowReader::new(table, row);
        if !matches!(reader.text("kind")?.as_str(), "COMPOSITES" | "KEYS") {
            refuse(table, "a custom index on", std::slice::from_ref(row))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::rows::system_table;
    use crate::schema::system_schema;

    fn row(keyspace: &str, name: &str) -> StoredRow {
        StoredRow { key: keyspace.into(), clustering: vec![name.into()], cells: Vec::new() }
    }

    #[test]
    fn what_is_not_served_is_named() {
        let schema = system_schema(model::Partitioner::Murmur3);
        for (name, what) in TABLES {
            let table = system_table(&schema, "system_schema", name);
            assert!(refuse(table, what, &[row("system", "paxos"), row("system_auth", "roles")]).is_ok());
            let refused = refuse(table, what, &[row("system", "paxos"), row("ks", "x")]).expect_err("refused");
            let text = format!(
                "the schema has {what} ks.x, which is not supported yet: drop it in Cassandra before this data directory \
                 is used"
            );
            assert_eq!(refused.to_string(), text);
        }
    }
}
