//! Instants in UTC as Java's `Instant` formats and parses them: `2022-12-03T10:15:30.250Z`.

use super::calendar;

const DAY_MILLIS: i64 = 86_400_000;

/// Formats milliseconds since 1970: without a fraction for a whole second, else with three decimals.
pub fn format(millis: i64) -> String {
    let (day, of_day) = (millis.div_euclid(DAY_MILLIS), millis.rem_euclid(DAY_MILLIS));
    let (year, month, day) = calendar::date(day);
    let (seconds, fraction) = (of_day / 1000, of_day % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:03}") };
    format!("{}T{hours:02}:{minutes:02}:{seconds:02}{fraction}Z", calendar::format_date(year, month, day))
}

/// Parses such a text to milliseconds since 1970. Up to nine decimals are accepted, and those below a millisecond cut
/// off; `None` for anything else.
pub fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix(['Z', 'z'])?.split_once(['T', 't'])?;
    let (year, month, day) = calendar::parse_date(date)?;
    if day == 0 || day > calendar::days_of_month(year, month) {
        return None;
    }
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.split(':');
    let mut part = |max: u64| {
        let digits = parts.next().filter(|digits| digits.len() == 2)?;
        super::digits(digits).filter(|number| *number <= max).map(|number| number as i64)
    };
    let (hours, minutes, seconds) = (part(23)?, part(59)?, part(59)?);
    if parts.next().is_some() || fraction.len() > 9 || (fraction.is_empty() && text.contains('.')) {
        return None;
    }
    let fraction = match fraction {
        "" => 0,
        digits => (super::digits(digits)? * 10u64.pow(9 - digits.len() as u32) / 1_000_000) as i64,
    };
    let days = calendar::day_number(year, month, day);
    let millis = ((hours * 60 + minutes) * 60 + seconds) * 1000 + fraction;
    days.checked_mul(DAY_MILLIS)?.checked_add(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_java_does_and_come_back() {
        let cases = [
            (1_795_265_527_402, "2026-11-21T12:52:07.402Z"),
            (1_670_062_530_000, "2022-12-03T10:15:30Z"),
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_709_210_096_001, "2024-02-29T12:34:56.001Z"),
        ];
        for (millis, text) in cases {
            assert_eq!(format(millis), text);
            assert_eq!(parse(text), Some(millis));
        }
        assert_eq!(parse("2022-12-03T10:15:30.123456789Z"), Some(1_670_062_530_123));
        assert_eq!(parse("2022-12-03t10:15:30.5z"), Some(1_670_062_530_500));
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "",
            "2022-12-03",
            "2022-12-03T10:15Z",
            "2022-12-03T10:15:30",
            "2022-12-03T10:15:30.Z",
            "2022-12-03T10:15:30.1234567890Z",
            "2022-12-03T24:00:00Z",
            "2022-12-03T10:15:60Z",
            "2022-02-29T10:15:30Z",
            "2022-12-00T10:15:30Z",
            "2022-13-01T10:15:30Z",
            "2022-12-03T+1:15:30Z",
            "yesterday",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
