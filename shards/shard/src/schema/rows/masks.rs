//! The rows of `system_schema.column_masks`: a mask as the name of its function, and types, plain texts and nullness of
//! the arguments after the first.
//!
//! Invariants: [`load`] of what [`write`] wrote gives an equal mask. A row whose table or column does not exist means
//! nothing: Cassandra leaves rows behind.

use super::{frozen_list, load::type_in, system_table};
use crate::schema::Error;
use crate::schema::cells::{RowReader, RowWriter, StoredRow};
use model::text::{from_quoted, to_plain};
use model::value::{elements, push_element};
use model::{ColumnMask, Keyspace, MutationBuilder, Schema};

/// The table's name.
pub(super) const TABLE: &str = "column_masks";
const SYSTEM: &str = "system";

/// Adds the row of a mask to a mutation.
pub(super) fn write(
    schema: &Schema,
    [table, column]: [&str; 2],
    mask: &ColumnMask,
    timestamp: i64,
    mutation: &mut MutationBuilder,
) {
    let description = system_table(schema, "system_schema", TABLE);
    let types: Vec<String> = mask.arguments.iter().map(|(cql_type, _)| cql_type.to_string()).collect();
    let plain = |(cql_type, value): &(_, Option<Vec<u8>>)| match value {
        Some(bytes) => to_plain(cql_type, bytes),
        None => String::new(),
    };
    let values: Vec<String> = mask.arguments.iter().map(plain).collect();
    let mut nulls = (mask.arguments.len() as i32).to_be_bytes().to_vec();
    mask.arguments.iter().for_each(|(_, value)| push_element(&mut nulls, Some(&[u8::from(value.is_none())])));
    RowWriter::new(description, &[table.as_bytes(), column.as_bytes()], timestamp)
        .set("function_argument_nulls", nulls)
        .set("function_argument_types", frozen_list(&types))
        .set("function_argument_values", frozen_list(&values))
        .set("function_keyspace", SYSTEM)
        .set("function_name", mask.function.as_str())
        .finish(mutation.table(description.id));
}

/// A mask that a row describes, with the names of its keyspace, table and column; `None` if the keyspace does not
/// exist.
///
/// # Errors
/// A function of users, which there are none of; arguments that are not of their types.
pub(super) fn load<'k>(
    schema: &Schema,
    row: &StoredRow,
    keyspace_of: impl for<'n> Fn(&'n str) -> Option<&'k Keyspace>,
) -> Result<Option<([String; 3], ColumnMask)>, Error> {
    let row = RowReader::new(system_table(schema, "system_schema", TABLE), row);
    let owner = [row.text("keyspace_name")?, row.text("table_name")?, row.text("column_name")?];
    let Some(keyspace) = keyspace_of(&owner[0]) else { return Ok(None) };
    if row.text("function_keyspace")? != SYSTEM {
        let [keyspace, table, column] = owner;
        let what = format!("a mask by a function of users on the column {keyspace}.{table}.{column}");
        return Err(Error::Unsupported { what });
    }
    let types = row.text_list("function_argument_types")?;
    let values = row.text_list("function_argument_values")?;
    let nulls = row.bytes("function_argument_nulls")?.unwrap_or_default();
    let nulls: Vec<bool> = elements(nulls, false).map(|flag| flag.first().is_some_and(|byte| *byte != 0)).collect();
    if types.len() != values.len() || types.len() != nulls.len() {
        return Err(row.malformed("function_argument_values"));
    }
    let mut arguments = Vec::with_capacity(types.len());
    for ((name, text), is_null) in types.iter().zip(&values).zip(nulls) {
        let cql_type = type_in(keyspace, name).ok_or_else(|| row.malformed("function_argument_types"))?;
        let value = match is_null {
            true => None,
            false => Some(from_quoted(&cql_type, text).map_err(|_| row.malformed("function_argument_values"))?),
        };
        arguments.push((cql_type, value));
    }
    Ok(Some((owner, ColumnMask { function: row.text("function_name")?, arguments })))
}
