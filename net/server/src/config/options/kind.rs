//! Kinds of values of `cassandra.yaml`: how each is written and what it means, so that two spellings of one value
//! compare as equal.
//!
//! The kinds are the types of the fields of Cassandra's `Config`: a duration or a size has a least unit and, counted in
//! that unit, an upper bound of 32 or 64 bits.

use super::super::{ConfigError, error, units};
use serde_norway::{Mapping, Value};
use std::fmt;

/// The type of an option's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::config) enum Kind {
    /// `true` or `false`; as in YAML 1.1 also `yes`, `no`, `on`, `off`, in any case.
    Flag,
    /// A whole number whose absolute value is at most this one.
    Integer(i64),
    Decimal,
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    Duration {
        least: TimeUnit,
        max: u64,
    },
    /// A duration of at least a second, or a plain number of seconds.
    DurationOrSeconds,
    Size {
        least: SizeUnit,
        max: u64,
    },
    /// Bytes per second.
    Rate,
    /// Texts.
    List,
    /// The name of a class, with or without parameters.
    Class,
    /// A group of options, each with a row of its own in the table.
    Group,
    /// A mapping whose names the table does not list.
    Map,
    /// `startup_checks`: checks by name, each with options, one of them `enabled`.
    StartupChecks,
}

/// Units of time, the shortest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::config) enum TimeUnit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Minutes,
}

/// Units of storage, the smallest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::config) enum SizeUnit {
    Bytes,
    Kibibytes,
    Mebibytes,
}

const INT_MAX: u64 = i32::MAX as u64;
const LONG_MAX: u64 = i64::MAX as u64;

pub(super) const FLAG: Kind = Kind::Flag;
pub(super) const INTEGER: Kind = Kind::Integer(i32::MAX as i64);
pub(super) const LONG: Kind = Kind::Integer(i64::MAX);
pub(super) const DECIMAL: Kind = Kind::Decimal;
pub(super) const TEXT: Kind = Kind::Text;
pub(super) const LIST: Kind = Kind::List;
pub(super) const CLASS: Kind = Kind::Class;
pub(super) const GROUP: Kind = Kind::Group;
pub(super) const MAP: Kind = Kind::Map;
pub(super) const RATE: Kind = Kind::Rate;
pub(super) const LONG_NANOSECONDS: Kind = Kind::Duration { least: TimeUnit::Nanoseconds, max: LONG_MAX };
pub(super) const LONG_MICROSECONDS: Kind = Kind::Duration { least: TimeUnit::Microseconds, max: LONG_MAX };
pub(super) const LONG_MILLISECONDS: Kind = Kind::Duration { least: TimeUnit::Milliseconds, max: LONG_MAX };
pub(super) const INT_MILLISECONDS: Kind = Kind::Duration { least: TimeUnit::Milliseconds, max: INT_MAX };
pub(super) const LONG_SECONDS: Kind = Kind::Duration { least: TimeUnit::Seconds, max: LONG_MAX };
pub(super) const INT_SECONDS: Kind = Kind::Duration { least: TimeUnit::Seconds, max: INT_MAX };
pub(super) const INT_MINUTES: Kind = Kind::Duration { least: TimeUnit::Minutes, max: INT_MAX };
pub(super) const LONG_BYTES: Kind = Kind::Size { least: SizeUnit::Bytes, max: LONG_MAX };
pub(super) const INT_BYTES: Kind = Kind::Size { least: SizeUnit::Bytes, max: INT_MAX };
pub(super) const INT_KIBIBYTES: Kind = Kind::Size { least: SizeUnit::Kibibytes, max: INT_MAX };
pub(super) const INT_MEBIBYTES: Kind = Kind::Size { least: SizeUnit::Mebibytes, max: INT_MAX };
pub(super) const LONG_MEBIBYTES: Kind = Kind::Size { least: SizeUnit::Mebibytes, max: LONG_MAX };
/// One consistency level by its name.
pub(super) const CONSISTENCY: Kind = Kind::Choice(&[
    "ANY",
    "ONE",
    "TWO",
    "THREE",
    "QUORUM",
    "ALL",
    "LOCAL_QUORUM",
    "EACH_QUORUM",
    "SERIAL",
    "LOCAL_SERIAL",
    "LOCAL_ONE",
    "NODE_LOCAL",
]);

/// The checks that `startup_checks` may name.
const STARTUP_CHECKS: [&str; 4] = ["check_filesystem_ownership", "check_dc", "check_rack", "check_data_resurrection"];

/// The meaning of a value, whatever its spelling.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::config) enum Meaning {
    Null,
    Flag(bool),
    Integer(i64),
    Decimal(f64),
    Text(String),
    Nanoseconds(u128),
    Bytes(u64),
    List(Vec<String>),
    /// A mapping: whether it has any entries; in `startup_checks`, whether any check is enabled.
    Entries(bool),
}

impl TimeUnit {
    fn nanoseconds(self) -> u128 {
        match self {
            TimeUnit::Nanoseconds => 1,
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Minutes => 60_000_000_000,
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            TimeUnit::Nanoseconds => "ns",
            TimeUnit::Microseconds => "us",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Seconds => "s",
            TimeUnit::Minutes => "m",
        }
    }
}

impl SizeUnit {
    fn bytes(self) -> u64 {
        match self {
            SizeUnit::Bytes => 1,
            SizeUnit::Kibibytes => 1 << 10,
            SizeUnit::Mebibytes => 1 << 20,
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            SizeUnit::Bytes => "B",
            SizeUnit::Kibibytes => "KiB",
            SizeUnit::Mebibytes => "MiB",
        }
    }
}

impl Kind {
    /// The meaning of `value` if it is of this kind; otherwise an error that names the option `name`.
    pub(in crate::config) fn meaning(self, name: &str, value: &Value) -> Result<Meaning, ConfigError> {
        match (self, value) {
            (_, Value::Null) => Ok(Meaning::Null),
            (Kind::List, Value::Sequence(items)) => items
                .iter()
                .map(scalar)
                .collect::<Option<_>>()
                .map(Meaning::List)
                .map_or_else(|| error(format!("{name}: a list of names is needed")), Ok),
            (Kind::List, Value::String(empty)) if empty == "[]" => Ok(Meaning::List(Vec::new())),
            (Kind::List, _) => error(format!("{name}: a list is needed")),
            (Kind::Class, value) => match class_name(value) {
                Some(class) => Ok(Meaning::Text(last_word(&class).to_owned())),
                None => error(format!("{name}: a class_name is needed")),
            },
            (Kind::Group | Kind::Map, Value::Mapping(entries)) => Ok(Meaning::Entries(!entries.is_empty())),
            (Kind::Map, Value::String(empty)) if empty == "{}" => Ok(Meaning::Entries(false)),
            (Kind::StartupChecks, Value::String(empty)) if empty == "{}" => Ok(Meaning::Entries(false)),
            (Kind::StartupChecks, Value::Mapping(checks)) => Ok(Meaning::Entries(is_any_enabled(name, checks)?)),
            (Kind::Group | Kind::StartupChecks, _) => error(format!("{name}: options are needed")),
            // Cassandra accepts a scalar for some fields that are otherwise mappings.
            (Kind::Map, value) => match scalar(value) {
                Some(text) => Ok(Meaning::Text(text)),
                None => error(format!("{name}: names and values are needed")),
            },
            (kind, value) => match scalar(value) {
                Some(text) => kind.meaning_of_text(name, &text),
                None => error(format!("{name}: one value is needed")),
            },
        }
    }

    fn meaning_of_text(self, name: &str, text: &str) -> Result<Meaning, ConfigError> {
        match self {
            Kind::Flag => match flag(text) {
                Some(flag) => Ok(Meaning::Flag(flag)),
                None => error(format!("{name}: {text} is neither true nor false")),
            },
            Kind::Integer(max) => match text.replace('_', "").parse::<i64>() {
                Ok(number) if (-max - 1..=max).contains(&number) => Ok(Meaning::Integer(number)),
                _ => error(format!("{name}: {text} is not a whole number of at most {max}")),
            },
            Kind::Decimal => match text.replace('_', "").parse::<f64>() {
                Ok(number) => Ok(Meaning::Decimal(number)),
                Err(_) => error(format!("{name}: {text} is not a number")),
            },
            Kind::Choice(words) => match words.contains(&text) {
                true => Ok(Meaning::Text(text.to_owned())),
                false => error(format!("{name}: {text} is not one of {}", words.join(", "))),
            },
            Kind::Duration { least, max } => duration(name, text, least, max),
            Kind::DurationOrSeconds => {
                let with_unit = if text.bytes().all(|b| b.is_ascii_digit()) { format!("{text}s") } else { text.into() };
                duration(name, &with_unit, TimeUnit::Seconds, INT_MAX)
            }
            Kind::Size { least, max } => match units::bytes(text) {
                None => error(format!("{name}: {text} is not a size such as 5KiB")),
                Some(_) if least > unit_of_size(text) => {
                    error(format!("{name}: {text}: units from {} on are taken", least.symbol()))
                }
                Some(bytes) if bytes / least.bytes() >= max => {
                    error(format!("{name}: {text} is more than {}{}", max - 1, least.symbol()))
                }
                Some(bytes) => Ok(Meaning::Bytes(bytes)),
            },
            Kind::Rate => match units::rate(text) {
                Some(bytes) => Ok(Meaning::Bytes(bytes)),
                None => error(format!("{name}: {text} is not a rate such as 64MiB/s")),
            },
            Kind::Text => Ok(Meaning::Text(text.to_owned())),
            Kind::List | Kind::Class | Kind::Group | Kind::Map | Kind::StartupChecks => {
                error(format!("{name}: {text} is one value, more are needed"))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Flag => f.write_str("true or false"),
            Kind::Integer(_) => f.write_str("whole number"),
            Kind::Decimal => f.write_str("number"),
            Kind::Text => f.write_str("text"),
            Kind::Choice(_) if *self == CONSISTENCY => f.write_str("consistency level"),
            Kind::Choice(words) => f.write_str(&words.join(", ")),
            Kind::Duration { least, .. } => write!(f, "duration, in {} or longer units", least.symbol()),
            Kind::DurationOrSeconds => f.write_str("duration, or number of seconds"),
            Kind::Size { least, .. } => write!(f, "size, in {} or larger units", least.symbol()),
            Kind::Rate => f.write_str("B/s, KiB/s, MiB/s"),
            Kind::List => f.write_str("list"),
            Kind::Class => f.write_str("class"),
            Kind::Group => f.write_str("options"),
            Kind::Map | Kind::StartupChecks => f.write_str("names and values"),
        }
    }
}

/// Parses `true` or `false` in any spelling of YAML 1.1.
pub(in crate::config) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The text of a value that is neither a list nor a mapping nor null.
pub(in crate::config) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The name of a class: alone, as `class_name` of a mapping, or of a list of one mapping.
pub(in crate::config) fn class_name(value: &Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name.clone()),
        Value::Mapping(mapping) => mapping.get("class_name")?.as_str().map(str::to_owned),
        Value::Sequence(items) => match items.as_slice() {
            [item @ Value::Mapping(_)] => class_name(item),
            _ => None,
        },
        _ => None,
    }
}

/// A class without its package.
pub(in crate::config) fn last_word(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

fn duration(name: &str, text: &str, least: TimeUnit, max: u64) -> Result<Meaning, ConfigError> {
    match units::nanoseconds(text) {
        None => error(format!("{name}: {text} is not a duration such as 10s or 500ms")),
        Some(_) if least > unit_of_time(text) => {
            error(format!("{name}: {text}: units from {} on are taken", least.symbol()))
        }
        Some(nanoseconds) if nanoseconds / least.nanoseconds() >= u128::from(max) => {
            error(format!("{name}: {text} is more than {}{}", max - 1, least.symbol()))
        }
        Some(nanoseconds) => Ok(Meaning::Nanoseconds(nanoseconds)),
    }
}

fn unit_of_time(text: &str) -> TimeUnit {
    match text.trim_start_matches(|c: char| c.is_ascii_digit()) {
        "ns" => TimeUnit::Nanoseconds,
        "us" | "µs" => TimeUnit::Microseconds,
        "ms" => TimeUnit::Milliseconds,
        "s" => TimeUnit::Seconds,
        _ => TimeUnit::Minutes,
    }
}

fn unit_of_size(text: &str) -> SizeUnit {
    match text.trim_start_matches(|c: char| c.is_ascii_digit()) {
        "B" => SizeUnit::Bytes,
        "KiB" => SizeUnit::Kibibytes,
        _ => SizeUnit::Mebibytes,
    }
}

fn is_any_enabled(name: &str, checks: &Mapping) -> Result<bool, ConfigError> {
    let mut is_any = false;
    for (check, options) in checks {
        let Some(check) = check.as_str().filter(|check| STARTUP_CHECKS.contains(check)) else {
            return error(format!("{name}: the checks are {}", STARTUP_CHECKS.join(", ")));
        };
        let enabled = match options {
            Value::Null => None,
            Value::Mapping(options) => options.get("enabled").and_then(scalar),
            _ => return error(format!("{name}.{check}: options are needed")),
        };
        is_any |= enabled.is_some_and(|enabled| flag(&enabled) != Some(false));
    }
    Ok(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(kind: Kind, value: &str) -> Result<Meaning, String> {
        let value: Value = serde_norway::from_str(value).expect("YAML");
        kind.meaning("x", &value).map_err(|error| error.0)
    }

    #[test]
    fn spellings_of_one_value() {
        for (kind, spellings) in [
            (FLAG, &["true", "'true'", "True", "TRUE", "yes", "'on'"][..]),
            (INTEGER, &["1000", "'1000'", "1_000"]),
            (LONG_NANOSECONDS, &["1d", "24h", "1440m", "86400s", "86400000ms", "86400000000us", "86400000000µs"]),
            (INT_BYTES, &["1GiB", "1024MiB", "1048576KiB", "1073741824B"]),
            (RATE, &["2MiB/s", "2048KiB/s", "2097152B/s"]),
            (CLASS, &["A", "x.y.A", "{class_name: A}", "[{class_name: x.A, parameters: [{a: b}]}]"]),
            (LIST, &["[a, '1']", "[a, 1]"]),
            (Kind::DurationOrSeconds, &["14400", "4h", "'14400'"]),
            (MAP, &["{}", "'{}'"]),
            (Kind::StartupChecks, &["{}", "{check_dc: {enabled: false}}", "{check_rack: }"]),
        ] {
            let first = meaning(kind, spellings[0]).expect("a value");
            for spelling in spellings {
                assert_eq!(meaning(kind, spelling).as_ref(), Ok(&first), "{spelling}");
            }
        }
    }

    #[test]
    fn what_cassandra_does_not_take_is_no_value() {
        for (kind, wrong) in [
            (FLAG, &["1", "maybe", "[true]", "''"][..]),
            (INTEGER, &["2147483648", "-2147483649", "1.5", "1s", "x"]),
            (DECIMAL, &["x", "1s"]),
            (LONG_MILLISECONDS, &["10", "-1s", "10 s", "10S", "1us", "10sec", "9223372036854775807ms"]),
            (INT_MILLISECONDS, &["2147483647ms", "25d"]),
            (INT_SECONDS, &["1ms", "1500ms"]),
            (INT_MINUTES, &["60s"]),
            (INT_KIBIBYTES, &["5", "5KB", "5kib", "1024B", "2147483647KiB", "-1KiB", "5 KiB"]),
            (INT_BYTES, &["2GiB"]),
            (RATE, &["64", "64MiB", "64MB/s", "-1MiB/s", "1GiB/s", "64 MiB/s"]),
            (CONSISTENCY, &["quorum", "x"]),
            (CLASS, &["1", "{parameters: {}}", "[A]"]),
            (LIST, &["a", "1", "{a: b}", "[[a]]"]),
            (GROUP, &["a", "1", "[]"]),
            (Kind::StartupChecks, &["{check_x: {}}", "{check_dc: true}", "1"]),
        ] {
            for wrong in wrong {
                assert!(meaning(kind, wrong).is_err(), "{kind:?} {wrong}");
            }
        }
        assert_eq!(meaning(INTEGER, "-1"), Ok(Meaning::Integer(-1)));
        assert_eq!(meaning(Kind::StartupChecks, "{check_dc: {enabled: true}}"), Ok(Meaning::Entries(true)));
        assert!(meaning(INT_MILLISECONDS, "2147483646ms").is_ok());
    }
}
