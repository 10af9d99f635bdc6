//! CAST between native types.

use super::Function;
use super::numbers::Number;
use super::times;
use model::text::to_literal;
use model::{CqlType, Failure};

/// Converts the argument to the result type; an empty value becomes null.
pub(super) fn cast(function: &Function, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let (Some(bytes), Some(from)) = (arguments.first(), function.arguments.first()) else { return Ok(None) };
    match &function.result {
        CqlType::Text | CqlType::Ascii => Ok(text(from, bytes)),
        CqlType::Date | CqlType::Timestamp => times::convert_to(from, &function.result, bytes),
        to => Number::read(from, bytes).map(|number| number.write(to)).transpose(),
    }
}

/// The text of a value without quotes.
fn text(from: &CqlType, bytes: &[u8]) -> Option<Vec<u8>> {
    if *from == CqlType::Ascii {
        return Some(bytes.to_vec());
    }
    if bytes.is_empty() {
        return None;
    }
    let literal = to_literal(from, bytes);
    let bare = literal.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(&literal);
    Some(bare.as_bytes().to_vec())
}
