//! Conversions between blobs and other types: `blob_as_int` and the like.

use super::Function;
use model::Failure;
use model::value::validate;

/// The bytes of the argument, if they are a value of the result type.
pub(super) fn from_blob(function: &Function, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(bytes) = arguments.first() else { return Ok(None) };
    match validate(&function.result, bytes) {
        Ok(()) => Ok(Some(bytes.to_vec())),
        Err(_) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            // The only place where `text` is shown as `varchar`.
            let wanted = match function.name.ends_with("varchar") {
                true => "varchar".to_owned(),
                false => function.result.to_string(),
            };
            Err(Failure::invalid(format!(
                "In call to function {}, value 0x{hex} is not a valid binary representation for type {wanted}",
                function.name
            )))
        }
    }
}
