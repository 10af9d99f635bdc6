//! The options that the file and `-D` give, each under its present name.
//!
//! 1. An older name is replaced by the present one, and its plain number gets its unit.
//! 2. `group.option: value` becomes `group: {option: value}`; a class given by name alone becomes `{class_name: name}`.
//! 3. Every value is checked against its row of the table (`options`). The methods return typed values.

use super::options::kind::{self, Kind};
use super::options::{self, Key, Unused};
use super::{ConfigError, FILE_BYTES_MAX, error, units, yaml};
use serde_norway::{Mapping, Value};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Cassandra's own lower bound for time-outs of requests.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);

/// The given options by name. The options of a group are a mapping under the group's name. Methods return `None` for
/// an option that is not given.
#[derive(Default)]
pub(super) struct Given {
    pub(super) values: BTreeMap<String, Value>,
}

impl Given {
    /// Reads the options of `file`, the text of a `cassandra.yaml`; it may be empty.
    pub(super) fn parse(file: &str) -> Result<Given, ConfigError> {
        if file.len() > FILE_BYTES_MAX {
            return error(format!("the configuration has {} bytes, at most {FILE_BYTES_MAX}", file.len()));
        }
        let mut given = Given::default();
        let document = match file.trim() {
            "" => Value::Null,
            _ => yaml::parse(file).or_else(|e| error(format!("the configuration is not YAML: {e}")))?,
        };
        match document {
            Value::Null => {}
            Value::Mapping(mapping) => {
                let mut names = BTreeMap::new();
                for (name, value) in mapping {
                    let Value::String(name) = name else { return error(format!("{name:?} is not an option's name")) };
                    let present = given.put(&name, value)?;
                    if let Some(other) = names.insert(present, name.clone()) {
                        let older = if other == present { name } else { other };
                        return error(format!("{older}: {present}, its present name, is given too"));
                    }
                }
            }
            _ => return error("the configuration is not a mapping of options"),
        }
        Ok(given)
    }

    /// Sets an option from `name=value`, in place of what was given before.
    pub(super) fn set(&mut self, option: &str) -> Result<(), ConfigError> {
        let Some((name, value)) = option.split_once('=') else {
            return error(format!("-D {option}: name=value is needed"));
        };
        let value = match yaml::parse(value) {
            Ok(value) => value,
            Err(_) => Value::String(value.into()),
        };
        // As a property of Cassandra's JVM: `-Dcassandra.join_ring=false`.
        self.put(name.strip_prefix("cassandra.").unwrap_or(name), value)?;
        Ok(())
    }

    /// Stores a value under the present name of the option `name`. Returns that name.
    fn put(&mut self, name: &str, value: Value) -> Result<&'static str, ConfigError> {
        if let Some((key, older)) = options::find(name) {
            let value = match older {
                Some(older) => older.to_new(name, value)?,
                None => value,
            };
            nest(&mut self.values, key.name, normal(key, value)?);
            return Ok(key.name);
        }
        // The parts of a class have no rows of their own.
        match name.rsplit_once('.').and_then(|(class, part)| Some((options::find(class)?.0, part))) {
            Some((key, "class_name" | "parameters")) if key.kind == Kind::Class => {
                nest(&mut self.values, name, value);
                Ok(key.name)
            }
            _ => options::unknown(name),
        }
    }

    /// Checks every value against its row. Returns the options without effect here whose value is not the default.
    pub(super) fn check(&self, guardrails_hold: bool) -> Result<Vec<Unused>, ConfigError> {
        fn check(name: &str, value: &Value, hold: bool, unused: &mut Vec<Unused>) -> Result<(), ConfigError> {
            let Some((key, _)) = options::find(name) else { return options::unknown(name) };
            key.check(value, hold, unused)?;
            if let (Kind::Group, Value::Mapping(options)) = (key.kind, value) {
                for (option, value) in options {
                    let option = option.as_str().unwrap_or_default();
                    check(&format!("{name}.{option}"), value, hold, unused)?;
                }
            }
            Ok(())
        }
        let mut unused = Vec::new();
        for (name, value) in &self.values {
            check(name, value, guardrails_hold, &mut unused)?;
        }
        Ok(unused)
    }

    /// The value of an option; null counts as not given.
    pub(super) fn take(&self, name: &'static str) -> Option<&Value> {
        let mut parts = name.split('.');
        let first = self.values.get(parts.next()?)?;
        parts.try_fold(first, |group, part| group.get(part)).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<String>, ConfigError> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match kind::scalar(value) {
                Some(text) => Ok(Some(text)),
                None => error(format!("{name}: one value is needed")),
            },
        }
    }

    pub(super) fn number(&self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.replace('_', "").parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => error(format!("{name}: {text} is not a number from {min} to {max}")),
        }
    }

    pub(super) fn port(&self, name: &'static str) -> Result<Option<u16>, ConfigError> {
        Ok(self.number(name, 0, u16::MAX as u64)?.map(|port| port as u16))
    }

    /// A number from 1 to `max`; `None` also for -1, which leaves the built-in limit.
    pub(super) fn count(&self, name: &'static str, max: usize) -> Result<Option<usize>, ConfigError> {
        if self.text(name)?.as_deref() == Some("-1") {
            return Ok(None);
        }
        Ok(self.number(name, 1, max as u64)?.map(|count| count as usize))
    }

    pub(super) fn duration(&self, name: &'static str) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match units::duration(&text) {
            Some(duration) => Ok(Some(duration)),
            None => error(format!("{name}: {text} is not a duration such as 10s or 500ms")),
        }
    }

    /// A duration of at least 10 ms.
    pub(super) fn timeout(&self, name: &'static str) -> Result<Option<Duration>, ConfigError> {
        match self.duration(name)? {
            Some(duration) if duration < TIMEOUT_MIN => error(format!("{name}: at least {TIMEOUT_MIN:?}")),
            duration => Ok(duration),
        }
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<Option<bool>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match kind::flag(&text) {
            Some(flag) => Ok(Some(flag)),
            None => error(format!("{name}: {text} is neither true nor false")),
        }
    }

    /// A duration of at least a second, in days, hours, minutes or seconds.
    pub(super) fn whole_seconds(&self, name: &'static str) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match units::duration(&text) {
            Some(duration) if duration.subsec_nanos() == 0 && !duration.is_zero() => Ok(Some(duration)),
            _ => error(format!("{name}: {text} is not a duration such as 30d or 12h")),
        }
    }

    pub(super) fn address(&self, name: &'static str) -> Result<Option<IpAddr>, ConfigError> {
        match self.text(name)?.as_deref() {
            None => Ok(None),
            Some("localhost") => Ok(Some(IpAddr::V4(Ipv4Addr::LOCALHOST))),
            Some(text) => match text.parse() {
                Ok(address) => Ok(Some(address)),
                Err(_) => error(format!("{name}: {text} is not an IP address")),
            },
        }
    }

    /// A size in bytes.
    pub(super) fn bytes(&self, name: &'static str) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match units::bytes(&text) {
            Some(bytes) => Ok(Some(bytes)),
            None => error(format!("{name}: {text} is not a size such as 5KiB")),
        }
    }
}

/// The value in normal form: in groups every option has its present name, and a class is a mapping.
fn normal(key: &Key, value: Value) -> Result<Value, ConfigError> {
    match (key.kind, value) {
        (Kind::Group, Value::Mapping(given)) => {
            let mut options = Mapping::new();
            for (name, value) in given {
                let name = format!("{}.{}", key.name, name.as_str().unwrap_or_default());
                let Some((key_of_name, older)) = options::find(&name) else { return options::unknown(&name) };
                let value = match older {
                    Some(older) => older.to_new(&name, value)?,
                    None => value,
                };
                let own_name = key_of_name.name.get(key.name.len() + 1..).unwrap_or_default();
                options.insert(own_name.into(), normal(key_of_name, value)?);
            }
            Ok(Value::Mapping(options))
        }
        (Kind::Class, Value::String(name)) => {
            Ok(Value::Mapping(Mapping::from_iter([("class_name".into(), Value::String(name))])))
        }
        (Kind::Class, Value::Sequence(mut items)) if items.len() == 1 => normal(key, items.pop().unwrap_or_default()),
        (_, value) => Ok(value),
    }
}

/// Puts a value under a name with dots, creating mappings for its parts.
fn nest(values: &mut BTreeMap<String, Value>, name: &str, value: Value) {
    let mut parts = name.split('.');
    let mut at = values.entry(parts.next().unwrap_or_default().into()).or_insert(Value::Null);
    for part in parts {
        if !at.is_mapping() {
            *at = Value::Mapping(Mapping::new());
        }
        let Value::Mapping(mapping) = at else { return };
        at = mapping.entry(part.into()).or_insert(Value::Null);
    }
    *at = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(file: &str) -> String {
        let given = Given::parse(file).expect("valid");
        serde_norway::to_string(&given.values).expect("YAML").trim().replace('\n', "; ")
    }

    #[test]
    fn names_and_forms_become_one() {
        for (file, expected) in [
            ("read_request_timeout_in_ms: 700", "read_request_timeout: 700ms"),
            ("enable_drop_compact_storage: true", "drop_compact_storage_enabled: true"),
            ("credentials_update_interval_in_ms: -1", "credentials_update_interval: null"),
            ("authenticator: A", "authenticator:;   class_name: A"),
            ("authenticator: [{class_name: A}]", "authenticator:;   class_name: A"),
            ("authenticator.class_name: A", "authenticator:;   class_name: A"),
            ("client_encryption_options.enabled: true", "client_encryption_options:;   enabled: true"),
            (
                "server_encryption_options: {enable_legacy_ssl_storage_port: true}",
                "server_encryption_options:;   legacy_ssl_storage_port_enabled: true",
            ),
            (
                "transparent_data_encryption_options: {key_provider: [{class_name: K}]}",
                "transparent_data_encryption_options:;   key_provider:;     class_name: K",
            ),
        ] {
            assert_eq!(values(file), expected);
        }
        let text = |file| Given::parse(file).err().expect("refused").0;
        assert_eq!(
            text("read_request_timeout_in_ms: 700\nread_request_timeout: 1s"),
            "read_request_timeout_in_ms: read_request_timeout, its present name, is given too"
        );
        assert_eq!(
            text("client_encryption_options: {enable: true}"),
            "client_encryption_options.enable: unknown option; did you mean client_encryption_options.enabled?"
        );
    }
}
