//! The options of a table that say what throughput it may use: those of Azure Cosmos DB, Amazon Keyspaces and ScyllaDB,
//! and our own `throughput_options`.
//!
//! An option that is named replaces what the table had of it; a new provisioning replaces the one before, whatever kind
//! that was. What takes a limit away: 0 units, an empty map.

use super::table_options::{OptionMap, map_of, text_of};
use crate::ast::{CUSTOM_PROPERTIES, Property};
use crate::errors::{syntax, unsupported};
use model::Failure;
use model::capacity::{Capacity, Distribution, Provisioned, RETRY_MILLIS_MAX};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

const UNITS: &str = "cosmosdb_provisioned_throughput";
const AUTOSCALED: &str = "cosmosdb_autoscale_max_throughput";
const RATE_LIMIT: &str = "per_partition_rate_limit";
const OPTIONS: &str = "throughput_options";

/// The least request units a second, and what they are a multiple of.
const UNITS_STEP: [u32; 2] = [400, 100];
/// The same of a throughput that is scaled.
const AUTOSCALED_STEP: [u32; 2] = [1_000, 1_000];
/// Most units a second of any kind.
const UNITS_MAX: u32 = 1_000_000_000;

/// Whether a property is one of these options.
pub(crate) fn is_one(name: &str) -> bool {
    matches!(name, UNITS | AUTOSCALED | CUSTOM_PROPERTIES | RATE_LIMIT | OPTIONS)
}

/// Takes one of these options over.
pub(crate) fn apply(property: &Property, into: &mut Option<Arc<Capacity>>) -> Result<()> {
    let mut capacity = into.as_deref().cloned().unwrap_or_default();
    match property.name.as_str() {
        UNITS => capacity.provisioned = units(property, false)?,
        AUTOSCALED => capacity.provisioned = units(property, true)?,
        CUSTOM_PROPERTIES => capacity.provisioned = capacity_mode(map_of(property)?)?,
        RATE_LIMIT => rate_limit(map_of(property)?, &mut capacity)?,
        _ => options(map_of(property)?, &mut capacity)?,
    }
    *into = (capacity != Capacity::default()).then(|| Arc::new(capacity));
    Ok(())
}

/// Fails for options that exclude each other.
pub(crate) fn check(properties: &[Property]) -> Result<()> {
    let provisioning = [UNITS, AUTOSCALED, CUSTOM_PROPERTIES];
    let named: Vec<&str> =
        provisioning.into_iter().filter(|name| properties.iter().any(|property| property.name == *name)).collect();
    if let [first, second, ..] = named.as_slice() {
        return Err(Failure::config(format!("{first} and {second} cannot be set together")));
    }
    Ok(())
}

/// Fails for a table with options that have no effect.
pub(crate) fn check_effect(capacity: Option<&Capacity>) -> Result<()> {
    match capacity {
        Some(capacity) if capacity.is_unlimited() => Err(Failure::config(format!(
            "{OPTIONS} has no effect without a throughput or a rate limit; set {OPTIONS} = {{}} as well"
        ))),
        _ => Ok(()),
    }
}

fn units(property: &Property, is_autoscaled: bool) -> Result<Provisioned> {
    let (text, name) = (text_of(property)?, &property.name);
    let per_second = number(name, text)?;
    let [least, step] = if is_autoscaled { AUTOSCALED_STEP } else { UNITS_STEP };
    if per_second == 0 {
        return Ok(Provisioned::Nothing);
    }
    if per_second < least || per_second % step != 0 {
        return Err(Failure::config(format!(
            "{name} must be a multiple of {step} and at least {least}, or 0 for no limit (got {per_second})"
        )));
    }
    Ok(Provisioned::Units { per_second, is_autoscaled })
}

fn number(name: &str, text: &str) -> Result<u32> {
    match text.parse::<u32>() {
        Ok(number) if number <= UNITS_MAX => Ok(number),
        Ok(number) => Err(Failure::config(format!("{name} must be at most {UNITS_MAX} (got {number})"))),
        Err(_) => Err(syntax(format!("Invalid integer value {text} for '{name}'"))),
    }
}

/// `capacity_mode` of the custom properties, whose inner maps the parser has made into names with dots.
fn capacity_mode(pairs: &OptionMap) -> Result<Provisioned> {
    let (mut mode, mut reads, mut writes) = (None, None, None);
    for (name, value) in pairs {
        match name.as_str() {
            "capacity_mode.throughput_mode" => mode = Some(value.to_ascii_uppercase()),
            "capacity_mode.read_capacity_units" => reads = Some(number("read_capacity_units", value)?),
            "capacity_mode.write_capacity_units" => writes = Some(number("write_capacity_units", value)?),
            other => {
                let outer = other
                    .strip_prefix("capacity_mode.")
                    .unwrap_or_else(|| other.split_once('.').map_or(other, |(outer, _)| outer));
                return Err(unsupported(&format!("the custom property '{outer}'")));
            }
        }
    }
    match (mode.as_deref(), reads, writes) {
        (None, None, None) => Ok(Provisioned::Nothing),
        (Some("PAY_PER_REQUEST"), None, None) => Ok(Provisioned::OnDemand),
        (Some("PROVISIONED"), Some(reads @ 1..), Some(writes @ 1..)) => Ok(Provisioned::ReadWrite { reads, writes }),
        (Some("PROVISIONED"), ..) => Err(Failure::config(
            "throughput_mode PROVISIONED needs read_capacity_units and write_capacity_units, at least 1 of each",
        )),
        (Some("PAY_PER_REQUEST"), ..) => {
            Err(Failure::config("throughput_mode PAY_PER_REQUEST has no read_capacity_units nor write_capacity_units"))
        }
        (mode, ..) => Err(Failure::config(format!(
            "throughput_mode must be PROVISIONED or PAY_PER_REQUEST (got {})",
            mode.unwrap_or("nothing")
        ))),
    }
}

fn rate_limit(pairs: &OptionMap, capacity: &mut Capacity) -> Result<()> {
    (capacity.reads_per_key, capacity.writes_per_key) = (None, None);
    for (name, value) in pairs {
        let rate = number(name, value)?;
        match name.as_str() {
            "max_reads_per_second" => capacity.reads_per_key = Some(rate),
            "max_writes_per_second" => capacity.writes_per_key = Some(rate),
            _ => return Err(Failure::config(format!("Unknown option {name} of {RATE_LIMIT}"))),
        }
    }
    Ok(())
}

fn options(pairs: &OptionMap, capacity: &mut Capacity) -> Result<()> {
    (capacity.distribution, capacity.retry_millis) = (Distribution::default(), 0);
    for (name, value) in pairs {
        match (name.as_str(), value.to_ascii_lowercase().as_str()) {
            ("distribution", "demand") => capacity.distribution = Distribution::Demand,
            ("distribution", "equal") => capacity.distribution = Distribution::Equal,
            ("distribution", _) => {
                return Err(Failure::config(format!("distribution must be 'demand' or 'equal' (got '{value}')")));
            }
            ("server_side_retry_in_ms", _) => match number(name, value)? {
                millis @ 0..=RETRY_MILLIS_MAX => capacity.retry_millis = millis,
                millis => {
                    return Err(Failure::config(format!("{name} must be at most {RETRY_MILLIS_MAX} (got {millis})")));
                }
            },
            _ => return Err(Failure::config(format!("Unknown option {name} of {OPTIONS}"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::PropertyValue;

    fn property(name: &str, value: &str) -> Property {
        Property { name: name.into(), value: PropertyValue::Text(value.into()) }
    }

    fn map(name: &str, pairs: &[(&str, &str)]) -> Property {
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Property { name: name.into(), value: PropertyValue::Map(pairs) }
    }

    fn applied(properties: &[Property]) -> std::result::Result<Option<Capacity>, String> {
        let mut capacity = None;
        for property in properties {
            apply(property, &mut capacity).map_err(|failure| failure.text.into_owned())?;
        }
        check(properties).map_err(|failure| failure.text.into_owned())?;
        check_effect(capacity.as_deref()).map_err(|failure| failure.text.into_owned())?;
        Ok(capacity.as_deref().cloned())
    }

    #[test]
    fn options_of_the_services_are_read_and_bounded() {
        let units = |per_second, is_autoscaled| Provisioned::Units { per_second, is_autoscaled };
        let of = |provisioned| Ok(Some(Capacity { provisioned, ..Capacity::default() }));
        assert_eq!(applied(&[property(UNITS, "400")]), of(units(400, false)));
        assert_eq!(applied(&[property(AUTOSCALED, "2000")]), of(units(2_000, true)));
        assert_eq!(applied(&[property(UNITS, "400"), property(UNITS, "0")]), Ok(None), "0 takes the limit away");
        for wrong in ["399", "450", "1000000100"] {
            assert!(applied(&[property(UNITS, wrong)]).is_err(), "{wrong}");
        }
        assert!(applied(&[property(AUTOSCALED, "1500")]).is_err());
        assert!(
            applied(&[property(UNITS, "400"), property(AUTOSCALED, "1000")]).expect_err("both").contains("together")
        );
        let mode = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, &str)> =
                pairs.iter().map(|(name, value)| (format!("capacity_mode.{name}"), *value)).collect();
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            applied(&[map(CUSTOM_PROPERTIES, &pairs)])
        };
        let provisioned =
            [("throughput_mode", "PROVISIONED"), ("read_capacity_units", "7"), ("write_capacity_units", "9")];
        assert_eq!(mode(&provisioned), of(Provisioned::ReadWrite { reads: 7, writes: 9 }));
        assert_eq!(mode(&[("throughput_mode", "PAY_PER_REQUEST")]), of(Provisioned::OnDemand));
        assert!(mode(&provisioned[..2]).is_err());
        assert!(mode(&[("throughput_mode", "FREE")]).is_err());
        let other = applied(&[map(CUSTOM_PROPERTIES, &[("ttl.status", "enabled")])]);
        assert_eq!(other, Err("Helenus does not support the custom property 'ttl' yet".to_owned()));
        assert_eq!(applied(&[map(CUSTOM_PROPERTIES, &[])]), Ok(None));
    }

    #[test]
    fn rates_of_partition_keys_and_our_own_options() {
        let limit = map(RATE_LIMIT, &[("max_reads_per_second", "5"), ("max_writes_per_second", "0")]);
        let found = applied(std::slice::from_ref(&limit)).expect("accepted").expect("a limit");
        assert_eq!((found.reads_per_key, found.writes_per_key), (Some(5), Some(0)));
        assert_eq!(applied(&[limit.clone(), map(RATE_LIMIT, &[])]), Ok(None));
        assert!(applied(&[map(RATE_LIMIT, &[("max_scans_per_second", "5")])]).is_err());
        let ours = |value| map(OPTIONS, &[("distribution", "EQUAL"), ("server_side_retry_in_ms", value)]);
        let found = applied(&[limit.clone(), ours("60000")]).expect("accepted").expect("a limit");
        assert_eq!((found.distribution, found.retry_millis), (Distribution::Equal, 60_000));
        assert!(applied(&[limit.clone(), ours("60001")]).is_err(), "one past the longest");
        assert!(applied(&[ours("5")]).expect_err("nothing is limited").contains("no effect"));
        assert!(applied(&[limit, map(OPTIONS, &[("distribution", "fair")])]).is_err());
    }
}
