//! Text of values, both ways: CQL literals for `DESCRIBE`, errors and (later) JSON and the dump tools.

use crate::types::CqlType;
use crate::value::ValueError;

/// The value as a CQL literal: `'it''s'`, `0xcafe`, `1.50`, `2024-01-31`, `{1, 2}`.
pub fn to_literal(cql_type: &CqlType, bytes: &[u8]) -> String {
    let _ = (cql_type, bytes);
    todo!()
}

/// The value of a quoted literal `'...'` (without quotes) for types written so: ascii, text, inet, date, time,
/// timestamp (all of Cassandra's patterns), duration in ISO 8601.
pub fn from_quoted(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, ValueError> {
    let _ = (cql_type, text);
    todo!()
}

/// The value of a number, duration, uuid, boolean or blob literal as written.
pub fn from_bare(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, ValueError> {
    let _ = (cql_type, text);
    todo!()
}
