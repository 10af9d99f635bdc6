//! Bodies of the requests for control, and of their answers: values in postcard's encoding.

use serde::{Deserialize, Serialize};

/// The bytes of a value.
pub(crate) fn encoded(value: &impl Serialize) -> Vec<u8> {
    // Only a type that says it cannot be serialised makes this fail, and none here does.
    postcard::to_extend(value, Vec::new()).unwrap_or_default()
}

/// What [`encoded`] gave, checked to its end.
pub(crate) fn decoded<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().and_then(|(value, rest)| rest.is_empty().then_some(value))
}
