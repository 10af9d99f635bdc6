//! `blob_as_int` and its like.

use super::Function;
use model::Failure;
use model::value::validate;

/// The bytes, if they are a value of the result's type.
pub(super) fn from_blob(function: &Function, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(bytes) = arguments.first() else { return Ok(None) };
    match validate(&function.result, bytes) {
        Ok(()) => Ok(Some(bytes.to_vec())),
        Err(_) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Err(Failure::invalid(format!(
                "In call to function {}, value 0x{hex} is not a valid binary representation for type {}",
                function.name, function.result
            )))
        }
    }
}
