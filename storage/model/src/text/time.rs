//! Times of day as text: `hh:mm:ss[.fffffffff]`, or nanoseconds since midnight.

use crate::value::ValueError;

/// Nanoseconds of a day.
const DAY: i64 = 86_400_000_000_000;

pub(super) fn parse(text: &str) -> Result<i64, ValueError> {
    if super::is_raw_number(text) {
        let number = text.parse::<i64>().ok().filter(|number| (0..DAY).contains(number));
        return number.ok_or_else(|| ValueError(format!("Unable to make long (for time) from: '{text}'")));
    }
    parse_clock(text.trim())
        .ok_or_else(|| ValueError(format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)")))
}

fn parse_clock(text: &str) -> Option<i64> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, fraction) = match rest.split_once('.') {
        Some((second, fraction)) => (second, parse_fraction(fraction).filter(|_| !fraction.is_empty())?),
        None => (rest, 0),
    };
    let part = |text: &str, end: i64| text.parse::<i64>().ok().filter(|part| (0..end).contains(part));
    let seconds = (part(hour, 24)? * 60 + part(minute, 60)?) * 60 + part(second, 60)?;
    Some(seconds * 1_000_000_000 + fraction)
}

/// Nanoseconds of the digits after the point, of which there are 0 to 9.
pub(super) fn parse_fraction(text: &str) -> Option<i64> {
    let known = if text.is_empty() { 0 } else { super::digits(text)? as i64 };
    let missing = 9usize.checked_sub(text.len())?;
    Some(known * 10i64.pow(missing as u32))
}

/// Formats a time of day. Of a number beyond a day, which Cassandra stores too, it shows the time within that day.
pub(super) fn format(nanoseconds: i64) -> String {
    let nanoseconds = nanoseconds.rem_euclid(DAY);
    let seconds = nanoseconds / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:09}", nanoseconds % 1_000_000_000)
}
