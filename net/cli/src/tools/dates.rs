//! Times in the notations of Java: `Instant`, `SimpleDateFormat`, and the durations in words of Commons Lang.
//!
//! The time zone is always UTC.

use model::text::calendar;

const DAY_SECONDS: i64 = 86_400;
/// The first day of the Gregorian calendar, 1582-10-15, in days since 1970.
const GREGORIAN_DAY: i64 = -141_427;

/// The unit of a time since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Microseconds,
    Milliseconds,
    Seconds,
}

/// Formats a time as `2023-11-14T22:13:20.000001Z`. Times before 1970 are as wrong as Cassandra's: their seconds are
/// rounded towards 1970, but the fraction counts upwards.
pub(crate) fn instant(time: i64, unit: Unit) -> String {
    let (seconds, nanoseconds) = match unit {
        Unit::Microseconds => (time / 1_000_000, time.saturating_mul(1000)),
        Unit::Milliseconds => (time / 1000, time.saturating_mul(1_000_000)),
        Unit::Seconds => (time, time.saturating_mul(1_000_000_000)),
    };
    let fraction = nanoseconds.rem_euclid(1_000_000_000);
    let (year, month, day) = calendar::date(seconds.div_euclid(DAY_SECONDS));
    let year = match year {
        ..0 => format!("-{:04}", -year),
        0..10_000 => format!("{year:04}"),
        _ => format!("+{year}"),
    };
    let fraction = if fraction == 0 {
        String::new()
    } else if fraction % 1_000_000 == 0 {
        format!(".{:03}", fraction / 1_000_000)
    } else if fraction % 1000 == 0 {
        format!(".{:06}", fraction / 1000)
    } else {
        format!(".{fraction:09}")
    };
    format!("{year}-{month:02}-{day:02}T{}{fraction}Z", clock(seconds))
}

fn clock(seconds: i64) -> String {
    let second = seconds.rem_euclid(DAY_SECONDS);
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Formats a time as `11/14/2023 22:13:20`: in the Julian calendar before 1582, and years BC without a sign.
pub(crate) fn american(time: i64, unit: Unit) -> String {
    let milliseconds = match unit {
        Unit::Microseconds => time / 1000,
        Unit::Milliseconds => time,
        Unit::Seconds => time.saturating_mul(1000),
    };
    let seconds = milliseconds.div_euclid(1000);
    let day_number = seconds.div_euclid(DAY_SECONDS);
    let (year, month, day) = if day_number < GREGORIAN_DAY { julian(day_number) } else { calendar::date(day_number) };
    let year = if year <= 0 { 1 - year } else { year };
    format!("{month:02}/{day:02}/{year:04} {}", clock(seconds))
}

/// Returns year (0 is 1 BC), month and day in the Julian calendar of a day counted from 1970.
fn julian(day_number: i64) -> (i64, u32, u32) {
    // Counted from March 1st of the year 0, after the leap day, in spans of four years.
    let days = day_number + 719_470;
    let span = days.div_euclid(1461);
    let day_of_span = days.rem_euclid(1461);
    let year_of_span = (day_of_span / 365).min(3);
    let day_of_year = day_of_span - 365 * year_of_span;
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = 4 * span + year_of_span + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

/// Formats a duration as `3472 days 5 hours 20 minutes`, without zeros at the beginning and the end.
pub(crate) fn words(seconds: i64) -> String {
    let parts = [
        (seconds / DAY_SECONDS, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let first = parts.iter().position(|(count, _)| *count != 0).unwrap_or(parts.len() - 1);
    let last = parts.iter().rposition(|(count, _)| *count != 0).unwrap_or(parts.len() - 1);
    let part = |(count, name): &(i64, &str)| format!("{count} {name}{}", if *count == 1 { "" } else { "s" });
    parts[first..=last].iter().map(part).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_java_s() {
        assert_eq!(instant(1_700_000_000_000_001, Unit::Microseconds), "2023-11-14T22:13:20.000001Z");
        assert_eq!(instant(1_700_000_000_100, Unit::Milliseconds), "2023-11-14T22:13:20.100Z");
        assert_eq!(instant(-1, Unit::Microseconds), "1970-01-01T00:00:00.999999Z");
        assert_eq!(american(1_700_000_000, Unit::Seconds), "11/14/2023 22:13:20");
        assert_eq!(american(-9_223_372_036_854_775_807, Unit::Microseconds), "12/10/290303 19:59:05");
        assert_eq!(american(9_223_372_036_854_775_807, Unit::Microseconds), "01/10/294247 04:00:54");
        assert_eq!((julian(GREGORIAN_DAY - 1), calendar::date(GREGORIAN_DAY)), ((1582, 10, 4), (1582, 10, 15)));
        assert_eq!(words(300_000_000), "3472 days 5 hours 20 minutes");
        assert_eq!((words(1), words(86_401)), ("1 second".into(), "1 day 0 hours 0 minutes 1 second".into()));
    }
}
