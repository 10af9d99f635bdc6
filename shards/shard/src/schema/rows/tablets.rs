//! Tablets in `system_schema`: keyspaces that have them are rows of the hidden table `scylla_keyspaces`, ScyllaDB's name
//! and columns, which its drivers read. The other tables of `system_schema` stay Cassandra's.
//!
//! Invariants: a keyspace without tablets has no row, and a change of it does not mention the table: nodes of a version
//! without tablets do not know it.

use super::system_table;
use crate::schema::Error;
use crate::schema::cells::{RowReader, RowWriter};
use model::schema::KeyspaceTablets;
use model::{MutationBuilder, Schema};

/// The table's name.
pub(crate) const TABLE: &str = "scylla_keyspaces";

/// Adds the row of a keyspace with tablets to a mutation.
pub(super) fn write(schema: &Schema, tablets: KeyspaceTablets, timestamp: i64, mutation: &mut MutationBuilder) {
    let description = system_table(schema, "system_schema", TABLE);
    RowWriter::new(description, &[], timestamp)
        .set("initial_tablets", (tablets.initial as i32).to_be_bytes())
        .finish(mutation.table(description.id));
}

/// The tablets of a row.
///
/// # Errors
/// A number that is none of tablets.
pub(super) fn load(row: RowReader<'_>) -> Result<KeyspaceTablets, Error> {
    let initial = u32::try_from(row.int("initial_tablets")?).map_err(|_| row.malformed("initial_tablets"))?;
    Ok(KeyspaceTablets { initial })
}
