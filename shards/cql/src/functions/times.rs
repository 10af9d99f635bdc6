//! Functions of dates and times: the current ones, conversions, bounds of timeuuids, `floor`.
//!
//! Dates are days with 1970-01-01 as 2^31, times nanoseconds since midnight, timestamps milliseconds since 1970;
//! timeuuids hold units of 100 ns since 1582-10-15. All are in UTC.

use super::{Function, Scalar};
use model::text::calendar;
use model::text::to_literal;
use model::value::Duration;
use model::{CqlType, Failure};

const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
/// Units of 100 ns from 1582-10-15 to 1970-01-01.
const UUID_EPOCH: i64 = 0x01b2_1dd2_1381_4000;
/// 1970-01-01 as a date.
const EPOCH_DAY: i64 = 1 << 31;

/// The value of `current_date()` and the like at `now`, microseconds since 1970.
pub(super) fn current(what: Scalar, now: i64) -> Vec<u8> {
    match what {
        Scalar::CurrentDate => date_of(now.div_euclid(1000)),
        Scalar::CurrentTime => (now.rem_euclid(NANOS_PER_DAY / 1000) * 1000).to_be_bytes().to_vec(),
        _ => now.div_euclid(1000).to_be_bytes().to_vec(),
    }
}

/// The date of a timestamp. Java rounds towards zero: everything within the day before 1970 becomes 1970-01-01.
fn date_of(millis: i64) -> Vec<u8> {
    ((millis / MILLIS_PER_DAY + EPOCH_DAY) as u32).to_be_bytes().to_vec()
}

/// The milliseconds since 1970 of a timeuuid, timestamp or date; `None` for an empty value.
fn millis_of(cql_type: &CqlType, bytes: &[u8]) -> Option<i64> {
    match cql_type {
        CqlType::Timeuuid => {
            let uuid: [u8; 16] = bytes.try_into().ok()?;
            let [a, b, c, d, e, f, g, h, ..] = uuid;
            let ticks = u64::from_be_bytes([g & 0x0f, h, e, f, a, b, c, d]) as i64;
            Some((ticks - UUID_EPOCH) / 10_000)
        }
        CqlType::Timestamp => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Date => {
            let day = u32::from_be_bytes(bytes.try_into().ok()?);
            Some((i64::from(day) - EPOCH_DAY) * MILLIS_PER_DAY)
        }
        _ => None,
    }
}

/// Evaluates `to_date`, `to_timestamp` and `to_unix_timestamp`.
pub(super) fn convert(function: &Function, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    match (arguments.first(), function.arguments.first()) {
        (Some(bytes), Some(from)) => convert_to(from, &function.result, bytes),
        _ => Ok(None),
    }
}

/// Converts a timeuuid, timestamp or date to a date, timestamp or bigint.
pub(super) fn convert_to(from: &CqlType, to: &CqlType, bytes: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let millis = millis_of(from, bytes);
    Ok(millis.map(|millis| match to {
        CqlType::Date => date_of(millis),
        _ => millis.to_be_bytes().to_vec(),
    }))
}

/// The smallest or largest timeuuid of a millisecond.
pub(super) fn bound_timeuuid(which: Scalar, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(millis) = arguments.first().and_then(|bytes| millis_of(&CqlType::Timestamp, bytes)) else {
        return Ok(None);
    };
    let (offset, rest) = if which == Scalar::MinTimeuuid { (0, 0x80) } else { (9_999, 0x7f) };
    let ticks = millis.wrapping_mul(10_000).wrapping_add(offset).wrapping_add(UUID_EPOCH);
    let [g, h, e, f, a, b, c, d] = ticks.to_be_bytes();
    let mut uuid = vec![a, b, c, d, e, f, (g & 0x0f) | 0x10, h];
    uuid.extend_from_slice(&[rest; 8]);
    Ok(Some(uuid))
}

/// Evaluates `floor(time, duration [, start])`: the last `start + n * duration` that is not after the time.
pub(super) fn floor(function: &Function, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let (Some(time), Some(duration_bytes), Some(time_type)) =
        (arguments.first(), arguments.get(1), function.arguments.first())
    else {
        return Ok(None);
    };
    let Some(duration) = Duration::read(duration_bytes) else { return Ok(None) };
    let shown = || to_literal(&CqlType::Duration, duration_bytes);
    if *time_type == CqlType::Time {
        let Ok(nanos) = <[u8; 8]>::try_from(*time).map(i64::from_be_bytes) else { return Ok(None) };
        refuse_negative(&duration)?;
        if duration.months != 0 || duration.days != 0 || duration.nanoseconds > NANOS_PER_DAY {
            return Err(Failure::invalid(
                "For time values, the floor can only be computed for durations smaller that a day",
            ));
        }
        let floor = if duration.nanoseconds == 0 { nanos } else { nanos - nanos % duration.nanoseconds };
        return Ok(Some(floor.to_be_bytes().to_vec()));
    }
    if *time_type == CqlType::Date && duration.nanoseconds != 0 {
        return Err(Failure::invalid(format!(
            "The floor on date values cannot be computed for the {} duration as precision is below 1 day",
            shown()
        )));
    }
    if duration.nanoseconds % NANOS_PER_MILLI != 0 {
        return Err(Failure::invalid(format!(
            "The floor cannot be computed for the {} duration as precision is below 1 millisecond",
            shown()
        )));
    }
    let start = match (arguments.get(2), function.arguments.get(2)) {
        (Some(bytes), Some(start_type)) => millis_of(start_type, bytes),
        _ => Some(0),
    };
    let (Some(millis), Some(start)) = (millis_of(time_type, time), start) else { return Ok(None) };
    let floor = floor_millis(millis, &duration, start)?;
    Ok(Some(match function.result {
        CqlType::Date => date_of(floor),
        _ => floor.to_be_bytes().to_vec(),
    }))
}

fn refuse_negative(duration: &Duration) -> Result<(), Failure> {
    if duration.months < 0 || duration.days < 0 || duration.nanoseconds < 0 {
        return Err(Failure::invalid("Negative durations are not supported by the floor function"));
    }
    Ok(())
}

fn floor_millis(millis: i64, duration: &Duration, start: i64) -> Result<i64, Failure> {
    if start > millis {
        return Err(Failure::invalid("The floor function starting time is greater than the provided time"));
    }
    refuse_negative(duration)?;
    let fixed = i64::from(duration.days) * MILLIS_PER_DAY + duration.nanoseconds / NANOS_PER_MILLI;
    if duration.months == 0 {
        return Ok(if fixed == 0 { millis } else { millis - millis.saturating_sub(start) % fixed });
    }
    let month = |millis: i64| {
        let (year, month, _) = calendar::date(millis.div_euclid(MILLIS_PER_DAY));
        year * 12 + i64::from(month)
    };
    let mut times = (month(millis) - month(start)) / i64::from(duration.months);
    loop {
        let floor = plus_months(start, times * i64::from(duration.months)).saturating_add(times.saturating_mul(fixed));
        // As in Cassandra, a duration of only months is not corrected.
        if fixed == 0 || floor <= millis || times == 0 {
            return Ok(floor);
        }
        times -= 1;
    }
}

/// The same day and time of day some months later, or the last day of that month.
fn plus_months(millis: i64, months: i64) -> i64 {
    let (day, time) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY));
    let (year, month, day_of_month) = calendar::date(day);
    let total = year * 12 + i64::from(month) - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    let day_of_month = day_of_month.min(calendar::days_of_month(year, month));
    calendar::day_number(year, month, day_of_month) * MILLIS_PER_DAY + time
}

/// A date or timestamp moved by `duration`, or by its negative with `back`; null for an empty one. Fails with a text if
/// the type cannot represent a component of the duration.
pub(super) fn shifted(
    cql_type: &CqlType,
    time: &[u8],
    duration_bytes: &[u8],
    back: bool,
) -> Result<Option<Vec<u8>>, String> {
    let (Some(millis), Some(duration)) = (millis_of(cql_type, time), Duration::read(duration_bytes)) else {
        return Ok(None);
    };
    let shown = || to_literal(&CqlType::Duration, duration_bytes);
    if *cql_type == CqlType::Date && duration.nanoseconds != 0 {
        return Err(format!("The duration must have a day precision. Was: {}", shown()));
    }
    if duration.nanoseconds % NANOS_PER_MILLI != 0 {
        return Err(format!("The duration must have a millisecond precision. Was: {}", shown()));
    }
    let sign = if back { -1 } else { 1 };
    let month = match duration.months {
        0 => millis,
        months => plus_months(millis, sign * i64::from(months)),
    };
    let fixed = i64::from(duration.days) * MILLIS_PER_DAY + duration.nanoseconds / NANOS_PER_MILLI;
    let moved = month.wrapping_add(sign * fixed);
    Ok(Some(match cql_type {
        CqlType::Date => date_of(moved),
        _ => moved.to_be_bytes().to_vec(),
    }))
}
