//! Timestamps as text: milliseconds since 1970, or one of
//! ```text
//! yyyy-MM-dd[zone]
//! y-M-d('T'|' ')H:m[:s[.fraction]][zone]
//! ```
//! Zones are in `text/zone.rs`. A day beyond the end of its month is the last day of the month; `24:00` is the next
//! midnight; without a zone the time is in UTC; digits below milliseconds are dropped.

use super::calendar;
use super::zone::Zone;
use crate::value::ValueError;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;
/// The last year that a timestamp reaches.
const YEAR_MAX: i64 = 292_278_994;

pub(super) fn parse(text: &str) -> Result<i64, ValueError> {
    if super::is_raw_number(text) {
        return text.parse().map_err(|_| ValueError(format!("Unable to make long (for date) from: '{text}'")));
    }
    parse_date_time(text)
        .or_else(|| parse_date(text))
        .ok_or_else(|| ValueError(format!("Unable to parse a date/time from '{text}'")))
}

fn parse_date(text: &str) -> Option<i64> {
    // The zone starts at the first character after the year's sign that a date cannot have, or at the third minus.
    let third_minus = text.get(1..)?.match_indices('-').nth(2).map(|(at, _)| at + 1);
    let other = text.get(1..)?.find(|c: char| !c.is_ascii_digit() && c != '-').map(|at| at + 1);
    let end = third_minus.into_iter().chain(other).min().unwrap_or(text.len());
    let (date, zone) = text.split_at_checked(end)?;
    let (year, month, day) = calendar::parse_date(date)?;
    assemble(year, month, day, 0, &Zone::parse(zone)?)
}

fn parse_date_time(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let mut date = date.split('-').map(super::digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if date.next().is_some() || year == 0 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (hour, rest) = leading_digits(rest);
    let (minute, rest) = leading_digits(rest.strip_prefix(':')?);
    let (second, fraction, rest) = match rest.strip_prefix(':') {
        None => ("0", "", rest),
        Some(rest) => {
            let (second, rest) = leading_digits(rest);
            let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
            (second, fraction, rest)
        }
    };
    let nanoseconds = super::time::parse_fraction(fraction)?;
    let (hour, minute, second) = (super::digits(hour)?, super::digits(minute)?, super::digits(second)?);
    let midnight = hour == 24 && minute == 0 && second == 0 && nanoseconds == 0;
    if (hour > 23 && !midnight) || minute > 59 || second > 59 {
        return None;
    }
    let milliseconds = ((hour * 60 + minute) * 60 + second) as i64 * 1000 + nanoseconds / 1_000_000;
    assemble(i64::try_from(year).ok()?, month as u32, day as u32, milliseconds, &Zone::parse(rest)?)
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn assemble(year: i64, month: u32, day: u32, milliseconds: i64, zone: &Zone) -> Option<i64> {
    if year.abs() > YEAR_MAX {
        return None;
    }
    let day = day.min(calendar::days_of_month(year, month));
    let midnight = calendar::day_number(year, month, day).checked_mul(DAY)?;
    let local = midnight.checked_add(milliseconds)?;
    local.checked_sub(zone.offset_seconds(local)? * 1000)
}

/// Formats a timestamp as Cassandra does: years before 1 without a sign, counted backwards from 1.
pub(super) fn format(milliseconds: i64) -> String {
    let (date, time) = format_parts(milliseconds);
    format!("{date}T{time}Z")
}

/// Formats a timestamp as Cassandra does in JSON.
pub(crate) fn format_json(milliseconds: i64) -> String {
    let (date, time) = format_parts(milliseconds);
    format!("{date} {time}Z")
}

fn format_parts(milliseconds: i64) -> (String, String) {
    let (year, month, day) = calendar::date(milliseconds.div_euclid(DAY));
    let rest = milliseconds.rem_euclid(DAY);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    let date = calendar::format_date(if year < 1 { 1 - year } else { year }, month, day);
    (date, format!("{hour:02}:{minute:02}:{second:02}.{:03}", rest % 1000))
}
