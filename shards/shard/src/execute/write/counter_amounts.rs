//! The amounts that statements change counters by.

use cql::plan::Value;
use model::Failure;

/// The amount by which a counter changes; `None` if it is unset, which changes nothing.
pub(super) fn amount(value: Value<'_>) -> Result<Option<i64>, Failure> {
    match value {
        Value::Unset => Ok(None),
        Value::Null => Err(Failure::invalid("Invalid null value for counter increment")),
        Value::Bytes(bytes) => match <[u8; 8]>::try_from(&*bytes) {
            Ok(bytes) => Ok(Some(i64::from_be_bytes(bytes))),
            Err(_) => Err(Failure::invalid("Invalid null value for counter increment")),
        },
    }
}

/// The amount to add in order to subtract `amount`.
pub(super) fn negated(amount: i64) -> Result<i64, Failure> {
    amount.checked_neg().ok_or_else(|| {
        Failure::invalid(format!(
            "The negation of {amount} overflows supported counter precision (signed 8 bytes integer)"
        ))
    })
}
