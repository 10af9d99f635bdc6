//! `to_json` and `from_json`.

use super::Function;
use model::failure::Detail;
use model::{CqlType, ErrorCode, Failure, json};

/// The JSON text of a value; null is `null`.
pub(super) fn to_json(function: &Function, value: Option<&[u8]>) -> Vec<u8> {
    match (value, function.arguments.first()) {
        (Some(value), Some(cql_type)) => json::to_json(cql_type, value).into_bytes(),
        _ => b"null".to_vec(),
    }
}

/// The value that a JSON text is of the result's type.
pub(super) fn from_json(function: &Function, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(text) = arguments.first() else { return Ok(None) };
    let text = String::from_utf8_lossy(text);
    json::from_json(&function.result, &text).map_err(|error| {
        let name = function.name.strip_prefix("system.").unwrap_or(&function.name);
        // A text that is no JSON fails the function; one that is of another type is told by the type.
        let text = match error.0.starts_with("Could not decode JSON") {
            true => format!("execution of '{}[{}]' failed: {}", function.name, CqlType::Text, error.0),
            false => format!("org.apache.cassandra.serializers.MarshalException: {}", error.0),
        };
        let arguments = vec![CqlType::Text.to_string()];
        Failure::new(ErrorCode::FunctionFailure, text).with(Detail::Function {
            keyspace: "system".to_owned(),
            function: name.to_owned(),
            arguments,
        })
    })
}
