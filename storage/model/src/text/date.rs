//! Dates as text: `yyyy-MM-dd`, or the day's number with 2^31 for 1970-01-01.

use super::calendar;
use crate::value::ValueError;

/// The number of 1970-01-01.
const EPOCH: i64 = 1 << 31;

/// The last year; beyond it Cassandra's milliseconds overflow.
const YEAR_MAX: i64 = 292_278_994;

pub(super) fn parse(text: &str) -> Result<u32, ValueError> {
    if super::is_raw_number(text) {
        let number = text.parse::<i64>().ok().and_then(|number| u32::try_from(number).ok());
        return number.ok_or_else(|| ValueError(format!("Unable to make unsigned int (for date) from: '{text}'")));
    }
    let (year, month, day) = calendar::parse_date(text)
        .filter(|&(year, month, day)| day <= calendar::days_of_month(year, month) && year.abs() <= YEAR_MAX)
        .ok_or_else(|| ValueError(format!("Unable to coerce '{text}' to a formatted date (long)")))?;
    let number = calendar::day_number(year, month, day) + EPOCH;
    u32::try_from(number).map_err(|_| {
        ValueError(if number < 0 {
            format!("Input date {text} is less than min supported date -5877641-06-23T00:00Z")
        } else {
            format!("Input date {text} is greater than max supported date +5881580-07-11T00:00Z")
        })
    })
}

pub(super) fn format(number: u32) -> String {
    let (year, month, day) = calendar::date(i64::from(number) - EPOCH);
    calendar::format_date(year, month, day)
}
