//! Tablets in `system_schema`: keyspaces that have them are rows of the hidden table `scylla_keyspaces`, ScyllaDB's
//! name and columns, which its drivers read, and one of ours. The other tables of `system_schema` stay Cassandra's. The
//! table option `tablets` is an extension of the table: `name=value`, separated by `;`.
//!
//! Invariants: a keyspace without tablets has no row, and a change of it does not mention the table: nodes of a version
//! without tablets do not know it.

use super::system_table;
use crate::schema::Error;
use crate::schema::cells::{RowReader, RowWriter};
use model::schema::KeyspaceTablets;
use model::tablets::TableTablets;
use model::{MutationBuilder, Schema};

/// The table's name.
pub(crate) const TABLE: &str = "scylla_keyspaces";
/// The extension's name.
pub(super) const EXTENSION: &str = "helenus.tablets";

/// Adds the row of a keyspace with tablets to a mutation.
pub(super) fn write(schema: &Schema, tablets: KeyspaceTablets, timestamp: i64, mutation: &mut MutationBuilder) {
    let description = system_table(schema, "system_schema", TABLE);
    RowWriter::new(description, &[], timestamp)
        .set("initial_tablets", (tablets.initial as i32).to_be_bytes())
        .set("managed", [u8::from(tablets.is_managed)])
        .finish(mutation.table(description.id));
}

/// The tablets of a row.
///
/// # Errors
/// A number that is none of tablets.
pub(super) fn load(row: RowReader<'_>) -> Result<KeyspaceTablets, Error> {
    let initial = u32::try_from(row.int("initial_tablets")?).map_err(|_| row.malformed("initial_tablets"))?;
    let is_managed = row.optional_boolean("managed")?.unwrap_or(false);
    Ok(KeyspaceTablets { initial, is_managed })
}

/// The extension's value; `None` for the default.
pub(super) fn encode(option: TableTablets) -> Option<Vec<u8>> {
    let parts: Vec<String> = option.to_map().iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!parts.is_empty()).then(|| parts.join(";").into_bytes())
}

/// The option of an extension's value; `None` if it is malformed.
pub(super) fn decode(bytes: &[u8]) -> Option<TableTablets> {
    let parts = std::str::from_utf8(bytes).ok()?.split(';').map(|part| part.split_once('='));
    TableTablets::of_map(parts.collect::<Option<Vec<_>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_the_option() {
        assert_eq!(encode(TableTablets::default()), None);
        let option = TableTablets { min: Some(8), max: Some(64), expected_gb: Some(500) };
        let bytes = b"expected_data_size_in_gb=500;max_tablet_count=64;min_tablet_count=8";
        assert_eq!(encode(option).as_deref(), Some(&bytes[..]));
        assert_eq!(decode(bytes), Some(option));
        for malformed in [&b""[..], b"min_tablet_count", b"min_tablet_count=x", b"other=1", b"\xff=60"] {
            assert_eq!(decode(malformed), None);
        }
    }

    #[test]
    fn the_schema_and_the_metadata_have_one_limit() {
        assert_eq!(model::tablets::TABLETS_MAX as usize, cluster::tablets::TABLETS_MAX);
    }
}
