//! The proleptic Gregorian calendar: conversion between days since 1970-01-01 and year, month, day.
//!
//! Source: Howard Hinnant, "chrono-compatible low-level date algorithms". Years are counted from March, so that the
//! leap day is the last of its year; 400 such years are one era of 146097 days.

/// Days in an era of 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// Days since 1970-01-01 of a date; `month` is 1-12, `day` is from 1.
pub fn day_number(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH_DAYS
}

/// Year, month and day of a number of days since 1970-01-01.
pub fn date(day_number: i64) -> (i64, u32, u32) {
    let days = day_number + EPOCH_DAYS;
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// Number of days of a month; `month` is 1-12.
pub fn days_of_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Parses `yyyy-MM-dd`, the whole text, as in ISO 8601: a year of four digits, or up to ten with a sign. Days up to 31
/// are accepted in every month.
pub fn parse_date(text: &str) -> Option<(i64, u32, u32)> {
    let (signed, minus) = (text.starts_with(['+', '-']), text.starts_with('-'));
    let mut parts = text.get(usize::from(signed)..)?.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let year_ok = match year.len() {
        4 => !text.starts_with('+'),
        5..=10 => signed && !year.starts_with('0'),
        _ => false,
    };
    if !year_ok || month.len() != 2 || day.len() != 2 || parts.next().is_some() {
        return None;
    }
    let year = super::digits(year)? as i64;
    let (month, day) = (super::digits(month)? as u32, super::digits(day)? as u32);
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && !(minus && year == 0);
    in_range.then_some((if minus { -year } else { year }, month, day))
}

/// Formats a date as in ISO 8601.
pub fn format_date(year: i64, month: u32, day: u32) -> String {
    let sign = match year {
        ..0 => "-",
        10_000.. => "+",
        _ => "",
    };
    format!("{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree() {
        assert_eq!(day_number(1970, 1, 1), 0);
        assert_eq!(day_number(2024, 2, 29), 19782);
        assert_eq!(day_number(0, 3, 1), -EPOCH_DAYS);
        let mut previous = date(-800_001);
        for day in -800_000..800_000 {
            let (y, m, d) = date(day);
            assert_eq!(day_number(y, m, d), day);
            let (py, pm, pd) = previous;
            let next = if pd < days_of_month(py, pm) {
                (py, pm, pd + 1)
            } else if pm < 12 {
                (py, pm + 1, 1)
            } else {
                (py + 1, 1, 1)
            };
            assert_eq!((y, m, d), next);
            previous = (y, m, d);
        }
    }
}
