//! Durations as text: `1y2mo3w4d5h6m7s8ms9us10ns`, ISO 8601 `P1Y2M3DT4H5M6S` or `P2W`, and `P0001-02-03T04:05:06`, each
//! after an optional minus sign.

use crate::value::{Duration, ValueError};

const SECOND: i64 = 1_000_000_000;

/// A component of a duration: months, days or nanoseconds.
#[derive(Clone, Copy, PartialEq)]
enum Component {
    Months,
    Days,
    Nanoseconds,
}
use Component::{Days, Months, Nanoseconds};

/// Units of the plain form in their order: symbol, plural, component, how many of the component.
const UNITS: [(&str, &str, Component, i64); 11] = [
    ("y", "years", Months, 12),
    ("mo", "months", Months, 1),
    ("w", "weeks", Days, 7),
    ("d", "days", Days, 1),
    ("h", "hours", Nanoseconds, 3600 * SECOND),
    ("m", "minutes", Nanoseconds, 60 * SECOND),
    ("s", "seconds", Nanoseconds, SECOND),
    ("ms", "milliseconds", Nanoseconds, 1_000_000),
    ("us", "microseconds", Nanoseconds, 1000),
    ("µs", "microseconds", Nanoseconds, 1000),
    ("ns", "nanoseconds", Nanoseconds, 1),
];

/// Adds up the units of a duration, all positive.
#[derive(Default)]
struct Total {
    months: i32,
    days: i32,
    nanoseconds: i64,
}

impl Total {
    fn add(&mut self, count: &str, part: Component, factor: i64) -> Result<(), ValueError> {
        let (name, before, max) = match part {
            Months => ("months", i64::from(self.months), i64::from(i32::MAX)),
            Days => ("days", i64::from(self.days), i64::from(i32::MAX)),
            Nanoseconds => ("nanoseconds", self.nanoseconds, i64::MAX),
        };
        let count = super::digits(count).and_then(|count| i64::try_from(count).ok());
        let sum = count.and_then(|count| count.checked_mul(factor)?.checked_add(before)).filter(|&sum| sum <= max);
        let sum = sum.ok_or_else(|| {
            ValueError(format!("Invalid duration. The total number of {name} must be less or equal to 2147483647"))
        })?;
        match part {
            Months => self.months = sum as i32,
            Days => self.days = sum as i32,
            Nanoseconds => self.nanoseconds = sum,
        }
        Ok(())
    }
}

pub(super) fn parse(text: &str) -> Result<Duration, ValueError> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let unable = || ValueError(format!("Unable to convert '{text}' to a duration"));
    let mut total = Total::default();
    match text.strip_prefix('P') {
        Some(iso) if iso.contains('-') => parse_alternative(iso, &mut total).unwrap_or_else(|| Err(unable()))?,
        Some(iso) => parse_iso(iso, &mut total).unwrap_or_else(|| Err(unable()))?,
        None => parse_units(text, &mut total).unwrap_or_else(|| Err(unable()))?,
    }
    let Total { months, days, nanoseconds } = total;
    Ok(match negative {
        false => Duration { months, days, nanoseconds },
        true => Duration { months: -months, days: -days, nanoseconds: -nanoseconds },
    })
}

/// Splits off the next number and the text up to the number after it; `None` at the end or without a number.
fn next_count(text: &str) -> Option<(&str, &str, &str)> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, rest) = text.split_at(digits_end);
    let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    (!count.is_empty()).then_some((count, unit, rest))
}

/// The result of parsing one form; the outer `None` says that the text does not have the form.
type Parsed = Option<Result<(), ValueError>>;

fn parse_units(text: &str, total: &mut Total) -> Parsed {
    let mut found = Vec::with_capacity(UNITS.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (count, unit, after) = next_count(rest)?;
        let at = UNITS.iter().position(|(symbol, ..)| symbol.eq_ignore_ascii_case(unit))?;
        if found.len() > UNITS.len() {
            return None;
        }
        found.push((count, at));
        rest = after;
    }
    if found.is_empty() {
        return None;
    }
    let mut previous: Option<usize> = None;
    for (count, at) in found {
        let (_, plural, part, factor) = UNITS[at];
        if let Some(previous) = previous {
            let (_, previous_plural, ..) = UNITS[previous];
            if previous_plural == plural {
                let text = format!("Invalid duration. The {plural} are specified multiple times");
                return Some(Err(ValueError(text)));
            }
            if previous > at {
                let text = format!("Invalid duration. The {previous_plural} should be after {plural}");
                return Some(Err(ValueError(text)));
            }
        }
        previous = Some(at);
        if let Err(error) = total.add(count, part, factor) {
            return Some(Err(error));
        }
    }
    Some(Ok(()))
}

/// Parses what follows the `P`: `nW`, or `[nY][nM][nD][T[nH][nM][nS]]`.
fn parse_iso(text: &str, total: &mut Total) -> Parsed {
    const DATE: [(&str, Component, i64); 3] = [("Y", Months, 12), ("M", Months, 1), ("D", Days, 1)];
    const TIME: [(&str, Component, i64); 3] =
        [("H", Nanoseconds, 3600 * SECOND), ("M", Nanoseconds, 60 * SECOND), ("S", Nanoseconds, SECOND)];
    if let Some(weeks) = text.strip_suffix('W') {
        let digits = !weeks.is_empty() && weeks.bytes().all(|byte| byte.is_ascii_digit());
        return digits.then(|| total.add(weeks, Days, 7));
    }
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let mut found = Vec::with_capacity(DATE.len() + TIME.len());
    for (mut rest, units) in [(date, &DATE), (time, &TIME)] {
        let mut left = units.iter();
        while !rest.is_empty() {
            let (count, unit, after) = next_count(rest)?;
            let (_, part, factor) = left.find(|(symbol, ..)| *symbol == unit)?;
            found.push((count, *part, *factor));
            rest = after;
        }
    }
    Some(found.into_iter().try_for_each(|(count, part, factor)| total.add(count, part, factor)))
}

/// Parses what follows the `P`: `yyyy-MM-ddThh:mm:ss`, without limits on the parts.
fn parse_alternative(text: &str, total: &mut Total) -> Parsed {
    const PARTS: [(usize, &str, Component, i64); 6] = [
        (4, "-", Months, 12),
        (2, "-", Months, 1),
        (2, "T", Days, 1),
        (2, ":", Nanoseconds, 3600 * SECOND),
        (2, ":", Nanoseconds, 60 * SECOND),
        (2, "", Nanoseconds, SECOND),
    ];
    let mut rest = text;
    for (len, separator, part, factor) in PARTS {
        let (count, after) = rest.split_at_checked(len)?;
        super::digits(count)?;
        if let Err(error) = total.add(count, part, factor) {
            return Some(Err(error));
        }
        rest = after.strip_prefix(separator)?;
    }
    rest.is_empty().then_some(Ok(()))
}

/// Appends the plain form without weeks; nothing for a zero duration.
pub(super) fn push(duration: &Duration, out: &mut String) {
    let Duration { months, days, nanoseconds } = *duration;
    if months < 0 || days < 0 || nanoseconds < 0 {
        out.push('-');
    }
    let mut left = [
        (Months, u64::from(months.unsigned_abs())),
        (Days, days.unsigned_abs().into()),
        (Nanoseconds, nanoseconds.unsigned_abs()),
    ];
    for (symbol, _, part, factor) in UNITS {
        for (_, left) in left.iter_mut().filter(|(of, _)| *of == part && symbol != "w") {
            let count = *left / factor as u64;
            *left %= factor as u64;
            if count > 0 {
                super::push(out, format_args!("{count}{symbol}"));
            }
        }
    }
}
