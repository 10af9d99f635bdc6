//! INSERT JSON of a bound text: its values follow the bound ones.

use crate::execute::values::binding::Values;
use cql::plan::{JsonInsert, JsonValue, json_values};
use model::value::BoundValue;
use model::{Failure, Table};

/// The values of all columns in the bound text.
pub(in crate::execute) fn values(
    table: &Table,
    json: &JsonInsert,
    values: &Values<'_>,
) -> Result<Vec<JsonValue>, Failure> {
    match values.bound.get(usize::from(json.marker)) {
        Some(BoundValue::Bytes(text)) => json_values(table, &String::from_utf8_lossy(text), json.default_unset),
        // An unset text is an empty one.
        Some(BoundValue::Unset) => json_values(table, "", json.default_unset),
        Some(BoundValue::Null) | None => Err(Failure::invalid("Got null for INSERT JSON values")),
    }
}

/// What was bound, then the text's values.
pub(in crate::execute) fn bound<'v>(values: &'v Values<'_>, parts: &'v [JsonValue]) -> Vec<BoundValue<'v>> {
    let parts = parts.iter().map(|part| match part {
        JsonValue::Unset => BoundValue::Unset,
        JsonValue::Null => BoundValue::Null,
        JsonValue::Bytes(bytes) => BoundValue::Bytes(bytes),
    });
    values.bound.iter().copied().chain(parts).collect()
}
