//! The failure of a request that was not admitted.

use super::Demand;
use crate::metrics::QuotaOwner;
use crate::shard_state::quotas::QuotaMeter;
use cluster::placement::TablePlacement;
use cluster::units::HUNDREDTHS;
use cluster::units::keeper::ASK_AGAIN_MICROS;
use cluster::units::limits::{Limit, Measure};
use model::failure::Detail;
use model::{ErrorCode, Failure};
use std::time::Duration;

/// The failure of a request that was not admitted, in the words of the service whose limit it is.
pub(super) fn refusal(
    placement: &TablePlacement,
    demand: &Demand<'_>,
    limit: &Limit,
    retry_after: Duration,
) -> Failure {
    let name = demand.table.full_name();
    let throttled = |code, text: String, as_told| throttled(code, text, retry_after, as_told);
    let consistency = demand.consistency;
    let block_for = placement.keyspace().levels().required(consistency).block_for as i32;
    match limit.measure {
        Measure::Reads | Measure::Writes => {
            let word = if demand.is_write { "writes" } else { "reads" };
            let text = format!("Per-partition rate limit reached for {word} in table {name}, rejected by coordinator");
            throttled(ErrorCode::RateLimit, text, Detail::RateLimit { is_write: demand.is_write, by_coordinator: true })
        }
        Measure::ReadUnits => throttled(
            ErrorCode::ReadTimeout,
            "Operation timed out - received only 0 responses.".to_owned(),
            Detail::ReadTimeout { consistency, received: 0, block_for, data_present: false },
        ),
        Measure::WriteUnits => throttled(
            ErrorCode::WriteTimeout,
            "Operation timed out - received only 0 responses.".to_owned(),
            Detail::WriteTimeout { consistency, received: 0, block_for, write_type: "SIMPLE" },
        ),
        Measure::Units => {
            let rate = limit.rate / HUNDREDTHS;
            let of = if limit.is_of_key { format!("one partition key of {name}") } else { name };
            throttled(ErrorCode::Overloaded, rate_text(retry_after, &of, rate), Detail::None)
        }
    }
}

/// The failure of a request over the quota of a keyspace or role, which has a rate in hundredths a second.
pub(super) fn quota_refusal(quota: &QuotaMeter, rate: u64, retry_after: Duration) -> Failure {
    let text = rate_text(retry_after, &owner(quota), rate / HUNDREDTHS);
    throttled(ErrorCode::Overloaded, text, retry_after, Detail::None)
}

/// The failure of a request that is one too many at once.
pub(super) fn count_refusal(quota: &QuotaMeter, most: u32) -> Failure {
    // When one of them ends is not known; most take no longer.
    let retry_after = Duration::from_micros(ASK_AGAIN_MICROS);
    let (millis, owner) = (millis(retry_after), owner(quota));
    let text = format!("Too many requests. RetryAfterMs={millis}, {owner} may have {most} at once on a node");
    throttled(ErrorCode::Overloaded, text, retry_after, Detail::None)
}

/// Whose quota it is, in words.
fn owner(quota: &QuotaMeter) -> String {
    let kind = match quota.owner {
        QuotaOwner::Keyspace => "keyspace",
        QuotaOwner::Role => "role",
    };
    format!("the {kind} {}", quota.name)
}

fn rate_text(retry_after: Duration, of: &str, rate: u64) -> String {
    let millis = millis(retry_after);
    format!("Request rate is large. RetryAfterMs={millis}, {of} may use {rate} units a second")
}

fn throttled(code: ErrorCode, text: String, retry_after: Duration, as_told: Detail) -> Failure {
    let mut failure = Failure::new(code, text);
    failure.detail = Detail::Throttled { retry_after_millis: millis(retry_after), as_told: Box::new(as_told) };
    failure
}

fn millis(retry_after: Duration) -> u32 {
    u32::try_from(retry_after.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX)
}
