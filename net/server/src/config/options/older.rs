//! Older names of options: their values converted to those of the present names, and back for
//! `system_views.settings`.
//!
//! Before Cassandra 4.1 the unit was part of the name (`read_request_timeout_in_ms`) and the value a plain number.

use super::super::{ConfigError, error, units};
use super::kind::scalar;
use serde_norway::Value;

/// How the value of an older name is written: mostly as a plain number of some unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::config) enum Older {
    /// Written as under the present name.
    Same,
    Milliseconds,
    /// -1 stands for no value.
    MillisecondsOrNone,
    Seconds,
    /// A negative number stands for 0.
    SecondsFromZero,
    /// -1 stands for no value.
    MinutesOrNone,
    Bytes,
    /// -1 stands for no value.
    BytesOrNone,
    Kibibytes,
    Mebibytes,
    /// A negative number stands for no value.
    MebibytesOrNone,
    MebibytesPerSecond,
    MegabitsPerSecond,
    /// A count that includes this many system keyspaces or tables, which the present name leaves out.
    WithSystem(i64),
}

const MEGABIT_BYTES: u64 = 125_000;

impl Older {
    /// Converts `value`, given under the older name `name`, to the value of the present name.
    pub(in crate::config) fn to_new(self, name: &str, value: Value) -> Result<Value, ConfigError> {
        if self == Older::Same || value.is_null() {
            return Ok(value);
        }
        let Some(text) = scalar(&value) else { return error(format!("{name}: one value is needed")) };
        // Cassandra reads `commitlog_sync_group_window_in_ms` as a decimal number.
        let number = text.replace('_', "");
        let number = number.strip_suffix(".0").unwrap_or(&number).parse::<i64>();
        let Ok(number) = number else { return error(format!("{name}: {text} is not a whole number")) };
        let (count, unit) = match self {
            Older::MillisecondsOrNone | Older::MinutesOrNone | Older::BytesOrNone if number == -1 => {
                return Ok(Value::Null);
            }
            Older::MebibytesOrNone if number < 0 => return Ok(Value::Null),
            Older::WithSystem(count) => return Ok(Value::Number((number - count).into())),
            Older::SecondsFromZero => (number.max(0), "s"),
            Older::Milliseconds | Older::MillisecondsOrNone => (number, "ms"),
            Older::Seconds => (number, "s"),
            Older::MinutesOrNone => (number, "m"),
            Older::Bytes | Older::BytesOrNone => (number, "B"),
            Older::Kibibytes => (number, "KiB"),
            Older::Mebibytes | Older::MebibytesOrNone => (number, "MiB"),
            Older::MebibytesPerSecond => (number, "MiB/s"),
            Older::MegabitsPerSecond => (number.saturating_mul(MEGABIT_BYTES as i64), "B/s"),
            Older::Same => return Ok(value),
        };
        if count < 0 {
            return error(format!("{name}: {text} is less than 0"));
        }
        Ok(Value::String(format!("{count}{unit}")))
    }

    /// What `system_views.settings` shows under the older name if it shows `value` under the present one.
    pub(in crate::config) fn shown(self, value: Option<&str>) -> Option<String> {
        let Some(value) = value else {
            return match self {
                Older::MillisecondsOrNone | Older::MinutesOrNone | Older::MebibytesOrNone => Some("-1".into()),
                _ => None,
            };
        };
        let nanoseconds = || units::nanoseconds(value);
        let bytes = || units::bytes(value);
        match self {
            Older::Same => Some(value.into()),
            Older::Milliseconds | Older::MillisecondsOrNone => Some((nanoseconds()? / 1_000_000).to_string()),
            Older::Seconds | Older::SecondsFromZero => Some((nanoseconds()? / 1_000_000_000).to_string()),
            Older::MinutesOrNone => Some((nanoseconds()? / 60_000_000_000).to_string()),
            Older::Bytes | Older::BytesOrNone => Some(bytes()?.to_string()),
            Older::Kibibytes => Some((bytes()? >> 10).to_string()),
            Older::Mebibytes | Older::MebibytesOrNone => Some((bytes()? >> 20).to_string()),
            Older::MebibytesPerSecond => Some((units::rate(value)? >> 20).to_string()),
            Older::MegabitsPerSecond => Some((units::rate(value)? / MEGABIT_BYTES).to_string()),
            Older::WithSystem(count) => Some((value.parse::<i64>().ok()? + count).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_new(older: Older, text: &str) -> Option<Option<String>> {
        let value = serde_norway::from_str(text).expect("YAML");
        older.to_new("x", value).ok().map(|value| scalar(&value))
    }

    #[test]
    fn numbers_get_their_units() {
        let some = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(to_new(Older::Milliseconds, "700"), some("700ms"));
        assert_eq!(to_new(Older::Milliseconds, "700.0"), some("700ms"));
        assert_eq!(to_new(Older::Milliseconds, "-1"), None);
        assert_eq!(to_new(Older::Milliseconds, "7s"), None);
        assert_eq!(to_new(Older::MillisecondsOrNone, "-1"), Some(None));
        assert_eq!(to_new(Older::MebibytesOrNone, "-5"), Some(None));
        assert_eq!(to_new(Older::SecondsFromZero, "-5"), some("0s"));
        assert_eq!(to_new(Older::MegabitsPerSecond, "200"), some("25000000B/s"));
        assert_eq!(to_new(Older::WithSystem(5), "40"), some("35"));
        assert_eq!(to_new(Older::Same, "yes"), some("yes"));
        assert_eq!(to_new(Older::Kibibytes, "null"), Some(None));
    }

    #[test]
    fn older_names_show_numbers() {
        let shown = |older: Older, value| older.shown(value);
        assert_eq!(shown(Older::Milliseconds, Some("4h")).as_deref(), Some("14400000"));
        assert_eq!(shown(Older::Kibibytes, Some("2MiB")).as_deref(), Some("2048"));
        assert_eq!(shown(Older::MebibytesPerSecond, Some("64MiB/s")).as_deref(), Some("64"));
        assert_eq!(shown(Older::MegabitsPerSecond, Some("24MiB/s")).as_deref(), Some("201"));
        assert_eq!(shown(Older::MillisecondsOrNone, None).as_deref(), Some("-1"));
        assert_eq!(shown(Older::Bytes, None), None);
        assert_eq!(shown(Older::WithSystem(5), Some("-1")).as_deref(), Some("4"));
    }
}
