//! INSERT JSON with a bound text: the values in the text are appended to the bound values.

use crate::execute::values::binding::Values;
use cql::plan::{JsonInsert, JsonValue, json_values};
use model::value::BoundValue;
use model::{Failure, Table};

/// The values of all columns, taken from the bound text.
pub(in crate::execute) fn values(
    table: &Table,
    json: &JsonInsert,
    values: &Values<'_>,
) -> Result<Vec<JsonValue>, Failure> {
    match values.bound.get(usize::from(json.marker)) {
        Some(BoundValue::Bytes(text)) => json_values(table, &String::from_utf8_lossy(text), json.default_unset),
        // An unset text counts as an empty one.
        Some(BoundValue::Unset) => json_values(table, "", json.default_unset),
        Some(BoundValue::Null) | None => Err(Failure::invalid("Got null for INSERT JSON values")),
    }
}

/// The bound values followed by those of the text.
pub(in crate::execute) fn bound<'v>(values: &'v Values<'_>, parts: &'v [JsonValue]) -> Vec<BoundValue<'v>> {
    let parts = parts.iter().map(|part| match part {
        JsonValue::Unset => BoundValue::Unset,
        JsonValue::Null => BoundValue::Null,
        JsonValue::Bytes(bytes) => BoundValue::Bytes(bytes),
    });
    values.bound.iter().copied().chain(parts).collect()
}
