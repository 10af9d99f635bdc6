//! The timeout of a request.

use super::binding::Values;
use crate::shard_state::Shard;
use cql::Prepared;
use cql::plan::Value;
use model::{CqlType, Failure};
use std::time::Duration;

/// How long a request may take: USING TIMEOUT or the configured time.
pub(crate) fn timeout_of(
    shard: &Shard,
    prepared: &Prepared,
    values: &Values<'_>,
    configured: Duration,
) -> Result<Duration, Failure> {
    let Some(term) = &prepared.timeout else { return Ok(configured) };
    match values.evaluate(shard, term, &CqlType::Duration)? {
        Value::Bytes(duration) => cql::plan::timeout_of(&duration),
        Value::Null => Err(Failure::invalid("Timeout value cannot be null")),
        Value::Unset => Ok(configured),
    }
}
