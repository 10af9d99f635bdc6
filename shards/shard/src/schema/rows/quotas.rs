//! Quotas of keyspaces in `system_schema`: a keyspace that has one is a row of the hidden table `helenus_quotas`, with
//! the map of the statement.
//!
//! Invariants: a keyspace without a quota has no row, and a change of it does not mention the table: nodes of a version
//! without quotas do not know it.

use super::{Changes, frozen_text_map, system_table};
use crate::schema::Error;
use crate::schema::cells::{RowReader, RowWriter};
use model::Keyspace;
use model::quota::Quota;

/// The table's name.
pub(crate) const TABLE: &str = "helenus_quotas";
const COLUMN: &str = "quota";

/// Adds what changes if a keyspace with the quota `before` becomes `after`.
pub(super) fn write(before: Quota, after: &Keyspace, changes: &mut Changes<'_>) {
    if after.quota == before {
        return;
    }
    if after.quota.is_empty() {
        return changes.delete(TABLE, &[]);
    }
    let description = system_table(changes.schema, "system_schema", TABLE);
    RowWriter::new(description, &[], changes.timestamp)
        .set(COLUMN, frozen_text_map(&after.quota.to_map()))
        .finish(changes.mutation.table(description.id));
}

/// The quota of a row.
///
/// # Errors
/// A map that is none of quotas.
pub(super) fn load(row: RowReader<'_>) -> Result<Quota, Error> {
    let map = row.text_map(COLUMN)?;
    let quota = Quota::of_map(map.iter().map(|(name, value)| (&**name, &**value)));
    quota.ok().filter(|quota| !quota.is_empty()).ok_or_else(|| row.malformed(COLUMN))
}
