//! The values of INSERT JSON.

use crate::functions::json::is_duration_error;
use crate::java_order::{bytes_hash, in_hash_order};
use model::json::{Json, from_parsed, unquote_names};
use model::{CqlType, Failure, Table};

/// An INSERT JSON whose text is bound to a marker.
#[derive(Clone, PartialEq, Debug)]
pub struct JsonInsert {
    /// The marker of the text.
    pub marker: u16,
    /// Whether DEFAULT UNSET was given: columns that the text does not name are left alone.
    pub default_unset: bool,
}

/// The value of a column in a JSON text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JsonValue {
    /// The column is not named, with DEFAULT UNSET.
    Unset,
    /// Null, or the column is not named.
    Null,
    /// A value of the column's type.
    Bytes(Vec<u8>),
}

/// The values of all columns of a table in a JSON text, in the order of the columns. The errors are Cassandra's.
pub fn json_values(table: &Table, text: &str, default_unset: bool) -> Result<Vec<JsonValue>, Failure> {
    let parsed = Json::parse(text).map_err(|error| {
        Failure::invalid(format!("Could not decode JSON string as a map: {}. (String was: {text})", error.thrown()))
    })?;
    let mut members = match parsed {
        Json::Object(members) => unquote_names(members),
        Json::Null => return Err(Failure::invalid("Got null for INSERT JSON values")),
        other => {
            return Err(Failure::invalid(format!(
                "Could not decode JSON string as a map: {}. (String was: {text})",
                other.not_a_map(text)
            )));
        }
    };
    let absent = if default_unset { JsonValue::Unset } else { JsonValue::Null };
    let mut values = vec![absent; table.columns.len()];
    // Of several invalid values Cassandra names the first one it meets.
    let columns = table.columns.iter().zip(&mut values);
    for (column, value) in in_hash_order(columns, |(column, _)| bytes_hash(column.name.as_bytes())) {
        if let Some(at) = members.iter().position(|(name, _)| *name == column.name) {
            *value = value_of(&column.name, &column.cql_type, &members.remove(at).1)?;
        }
    }
    match members.first() {
        Some((name, _)) => Err(Failure::invalid(format!("JSON values map contains unrecognized column: {name}"))),
        None => Ok(values),
    }
}

fn value_of(name: &str, cql_type: &CqlType, json: &Json) -> Result<JsonValue, Failure> {
    match from_parsed(cql_type, json) {
        Ok(Some(bytes)) => Ok(JsonValue::Bytes(bytes)),
        Ok(None) => Ok(JsonValue::Null),
        Err(error) if is_duration_error(&error.0) => Err(Failure::invalid(error.0)),
        Err(error) => Err(Failure::invalid(format!("Error decoding JSON value for {name}: {}", error.0))),
    }
}
