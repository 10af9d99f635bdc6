//! Failures that several stages of this crate give.

use crate::limits::ERROR_BYTES_MAX;
use model::{ErrorCode, Failure};

/// A syntax error (0x2000) with this text.
pub(crate) fn syntax(text: String) -> Failure {
    Failure::new(ErrorCode::Syntax, text)
}

/// The failure for a missing feature, 0x2200: `Helenus does not support ... yet`.
pub(crate) fn unsupported(feature: &str) -> Failure {
    Failure::invalid(format!("Helenus does not support {feature} yet"))
}

/// The failure (0x2100) for a change of a system keyspace.
pub(crate) fn not_modifiable(keyspace: &str) -> Failure {
    Failure::new(ErrorCode::Unauthorized, format!("{keyspace} keyspace is not user-modifiable."))
}

/// Cuts the text of an error that quotes a long literal or name.
pub(crate) fn shortened(mut failure: Failure) -> Failure {
    if failure.text.len() > ERROR_BYTES_MAX {
        let end = failure.text.floor_char_boundary(ERROR_BYTES_MAX);
        failure.text = format!("{}...", &failure.text[..end]).into();
    }
    failure
}
