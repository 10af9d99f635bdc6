//! `to_json` and `from_json`.

use super::Function;
use model::failure::Detail;
use model::json::Json;
use model::{CqlType, ErrorCode, Failure, json};

/// The JSON text of a value; null and meaningless empty values give `null`.
pub(super) fn to_json(function: &Function, value: Option<&[u8]>) -> Vec<u8> {
    match (value, function.arguments.first()) {
        (Some([]), Some(cql_type)) if cql_type.is_empty_meaningless() => b"null".to_vec(),
        (Some(value), Some(cql_type)) => json::to_json(cql_type, value).into_bytes(),
        _ => b"null".to_vec(),
    }
}

/// The value of the result type that a JSON text stands for.
pub(super) fn from_json(function: &Function, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(text) = arguments.first() else { return Ok(None) };
    let text = String::from_utf8_lossy(text);
    // A text that is not JSON fails the function. One with the wrong type fails with the type's error.
    let parsed = Json::parse(&text).map_err(|error| {
        let name = &function.name;
        failed(
            function,
            format!(
                "execution of '{name}[{}]' failed: Could not decode JSON string '{text}': {}",
                CqlType::Text,
                error.thrown()
            ),
        )
    })?;
    json::from_parsed(&function.result, &parsed).map_err(|error| match is_duration_error(&error.0) {
        true => Failure::invalid(error.0),
        false => failed(function, format!("org.apache.cassandra.serializers.MarshalException: {}", error.0)),
    })
}

/// Whether this is Cassandra's error for durations, which it reports directly, with nothing before the text.
pub(crate) fn is_duration_error(text: &str) -> bool {
    text.starts_with("Unable to convert '") && text.ends_with("' to a duration") || text.starts_with("Invalid duration")
}

fn failed(function: &Function, text: String) -> Failure {
    let name = function.name.strip_prefix("system.").unwrap_or(&function.name);
    Failure::new(ErrorCode::FunctionFailure, text).with(Detail::Function {
        keyspace: "system".to_owned(),
        function: name.to_owned(),
        arguments: vec![CqlType::Text.to_string()],
    })
}
