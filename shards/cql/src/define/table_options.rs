//! The WITH clause of CREATE and ALTER TABLE: checks every option and gives it the form in which Cassandra stores it.
//!
//! Class names get their package, `speculative_retry` its canonical form, and missing options their defaults. Options
//! that storage does not use are checked and stored too; options that would change answers but are not implemented are
//! refused.

use super::write_sharding::WrittenSharding;
use super::{DefinitionContext, capacity_options, compaction_options, compression_options, table_id};
use crate::ast::{Property, PropertyValue, WRITE_SHARDING};
use crate::errors::{syntax, unsupported};
use model::memtable::DEFAULT_MEMTABLE;
use model::schema::TableOptions;
use model::tablets::TableTablets;
use model::tombstone_gc::{GcMode, TombstoneGc};
use model::{Failure, TableId};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, Failure>;

/// A map as written: names and values.
pub(crate) type OptionMap = [(String, String)];

const TTL_SECONDS_MAX: i32 = 630_720_000;
/// The smallest false-positive chance that a bloom filter can be built for.
const BLOOM_CHANCE_MIN: f64 = 6.71e-5;

/// Options that have been parsed but not yet checked against each other.
pub(crate) struct ParsedOptions {
    options: TableOptions,
    /// The false-positive chance as written, or that of the table before the change.
    bloom: Option<f64>,
    /// Whether this is for a new table.
    is_new: bool,
    /// The name of an unknown property.
    unknown: Option<String>,
    /// The id given by WITH ID, which Cassandra checks last.
    pub(crate) id: Option<Result<TableId>>,
    /// The option `write_sharding` as written.
    pub(crate) sharding: Option<WrittenSharding>,
}

/// Parses all properties. Missing ones are as in `before`, or have their defaults.
pub(crate) fn parse(
    properties: &[Property],
    before: Option<&TableOptions>,
    site: &DefinitionContext<'_>,
) -> Result<ParsedOptions> {
    let mut options = before.cloned().unwrap_or_default();
    if let (None, Some(compaction)) = (before, site.default_compaction) {
        options.compaction = compaction.clone();
    }
    let mut id = None;
    let mut bloom = None;
    let mut unknown = None;
    let mut sharding = None;
    let mut names: Vec<&str> = properties.iter().map(|property| property.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(syntax(format!("Multiple definitions for property '{}'", twice[0])));
    }
    for property in properties {
        match property.name.as_str() {
            "additional_write_policy" => options.additional_write_policy = retry_policy(text_of(property)?)?,
            // The default is stored as not set.
            "allow_auto_snapshot" => options.allow_auto_snapshot = Some(boolean_of(property)?).filter(|on| !on),
            "incremental_backups" => options.incremental_backups = Some(boolean_of(property)?).filter(|on| !on),
            "bloom_filter_fp_chance" => bloom = Some(double_of(property)?),
            "caching" => options.caching = caching(map_of(property)?)?,
            "cdc" => {
                if boolean_of(property)? {
                    return Err(unsupported("cdc = true"));
                }
            }
            "comment" => options.comment = text_of(property)?.to_owned(),
            "compaction" => options.compaction = compaction_options::check(map_of(property)?)?,
            "compression" => options.compression = compression_options::check(map_of(property)?)?,
            "crc_check_chance" => options.crc_check_chance = double_of(property)?,
            "default_time_to_live" => options.default_time_to_live = integer_of(property)?,
            // Cassandra accepts any value and stores none.
            "extensions" => {}
            "gc_grace_seconds" => options.gc_grace_seconds = integer_of(property)?,
            "id" => id = Some(text_of(property).and_then(table_id)),
            "max_index_interval" => options.max_index_interval = integer_of(property)?,
            "memtable" => {
                let name = text_of(property)?;
                if site.memtables.get(name).is_none() {
                    return Err(Failure::config(format!("Memtable configuration \"{name}\" not found.")));
                }
                options.memtable = Some(name.to_owned()).filter(|name| name != DEFAULT_MEMTABLE);
            }
            "memtable_flush_period_in_ms" => options.memtable_flush_period_in_ms = integer_of(property)?,
            "min_index_interval" => options.min_index_interval = integer_of(property)?,
            "read_repair" => {
                let strategy = text_of(property)?.to_ascii_uppercase();
                if !matches!(strategy.as_str(), "BLOCKING" | "NONE") {
                    return Err(Failure::config(format!(
                        "Invalid value {strategy} for option 'read_repair': must be BLOCKING or NONE"
                    )));
                }
                options.read_repair = strategy;
            }
            "speculative_retry" => options.speculative_retry = retry_policy(text_of(property)?)?,
            "tablets" => {
                let pairs = map_of(property)?.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                options.tablets = TableTablets::of_map(pairs).map_err(Failure::config)?;
            }
            "tombstone_gc" => {
                let pairs = map_of(property)?.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                options.tombstone_gc = TombstoneGc::of_map(pairs).map_err(Failure::config)?;
                if options.tombstone_gc.mode != GcMode::Timeout && !site.has_repair_proofs {
                    return Err(Failure::invalid("Some nodes run a version without tombstone_gc; update them first"));
                }
            }
            WRITE_SHARDING => sharding = Some(WrittenSharding::parse(property)?),
            name if capacity_options::is_one(name) => capacity_options::apply(property, &mut options.capacity)?,
            other => unknown = unknown.or_else(|| Some(other.to_owned())),
        }
    }
    capacity_options::check(properties)?;
    Ok(ParsedOptions { options, bloom, is_new: before.is_none(), unknown, id, sharding })
}

impl ParsedOptions {
    /// Checks that each option is in its range, and returns them.
    pub(crate) fn finish(self) -> Result<TableOptions> {
        let ParsedOptions { mut options, bloom, is_new, unknown, .. } = self;
        if let Some(name) = unknown {
            return Err(syntax(format!("Unknown property '{name}'")));
        }
        // Reads of leveled tables touch few SSTables, whose filters may be smaller.
        let class = options.compaction.get("class");
        let leveled = class.is_some_and(|class| class.ends_with(".LeveledCompactionStrategy"));
        let default = if leveled { 0.1 } else { 0.01 };
        match bloom {
            Some(-1.0) => options.bloom_filter_fp_chance = default,
            Some(chance) => options.bloom_filter_fp_chance = chance,
            None if is_new => options.bloom_filter_fp_chance = default,
            None => {}
        }
        check_ranges(&options)?;
        Ok(options)
    }
}

fn check_ranges(options: &TableOptions) -> Result<()> {
    let at_least = |name: &str, value: i32, least: i32| match value {
        value if value >= least => Ok(()),
        _ => Err(Failure::config(format!("{name} must be greater than or equal to {least} (got {value})"))),
    };
    let chance = options.bloom_filter_fp_chance;
    if !(chance > BLOOM_CHANCE_MIN && chance <= 1.0) {
        return Err(Failure::config(format!(
            "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {})",
            java_double(chance)
        )));
    }
    if !(0.0..=1.0).contains(&options.crc_check_chance) {
        return Err(Failure::config(format!(
            "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {})",
            java_double(options.crc_check_chance)
        )));
    }
    at_least("default_time_to_live", options.default_time_to_live, 0)?;
    if options.default_time_to_live > TTL_SECONDS_MAX {
        return Err(Failure::config(format!(
            "default_time_to_live must be less than or equal to {TTL_SECONDS_MAX} (got {})",
            options.default_time_to_live
        )));
    }
    at_least("gc_grace_seconds", options.gc_grace_seconds, 0)?;
    at_least("min_index_interval", options.min_index_interval, 1)?;
    if options.max_index_interval < options.min_index_interval {
        return Err(Failure::config(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({}) (got {})",
            options.min_index_interval, options.max_index_interval
        )));
    }
    at_least("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms, 0)
}

/// The text of a property that is not a map.
pub(crate) fn text_of(property: &Property) -> Result<&str> {
    match &property.value {
        PropertyValue::Text(text) => Ok(text),
        PropertyValue::Map(_) => {
            Err(syntax(format!("Invalid value for property '{}'. It should be a string", property.name)))
        }
    }
}

/// The pairs of a property that is a map.
pub(crate) fn map_of(property: &Property) -> Result<&OptionMap> {
    match &property.value {
        PropertyValue::Map(pairs) => Ok(pairs),
        PropertyValue::Text(_) => {
            Err(syntax(format!("Invalid value for property '{}'. It should be a map.", property.name)))
        }
    }
}

/// The value of a boolean property.
pub(crate) fn boolean_of(property: &Property) -> Result<bool> {
    let text = text_of(property)?;
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(syntax(format!(
            "Invalid boolean value {text} for '{}'. Positive values can be '1', 'true' or 'yes'. Negative values can be \
             '0', 'false' or 'no'.",
            property.name
        ))),
    }
}

fn integer_of(property: &Property) -> Result<i32> {
    let text = text_of(property)?;
    text.parse().map_err(|_| syntax(format!("Invalid integer value {text} for '{}'", property.name)))
}

fn double_of(property: &Property) -> Result<f64> {
    let text = text_of(property)?;
    // Rust parses words that Java does not: `inf`, `nan`.
    let number = text.parse::<f64>().ok().filter(|value| value.is_finite() || text == "NaN");
    number.ok_or_else(|| syntax(format!("Invalid double value {text} for '{}'", property.name)))
}

/// Formats a double as Java does: `1.0`, `1.0E-9`.
pub(crate) fn java_double(value: f64) -> String {
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) || !value.is_finite() {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

fn caching(written: &OptionMap) -> Result<BTreeMap<String, String>> {
    let mut caching: BTreeMap<String, String> =
        [("keys", "NONE"), ("rows_per_partition", "NONE")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    for (name, value) in written {
        let upper = value.to_ascii_uppercase();
        let constant = matches!(upper.as_str(), "ALL" | "NONE");
        let number = value.parse::<i32>().is_ok_and(|rows| rows >= 0);
        match name.as_str() {
            "keys" if constant => {}
            "keys" => {
                return Err(Failure::config(format!(
                    "Invalid value '{value}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
                )));
            }
            "rows_per_partition" if constant || number => {}
            "rows_per_partition" => {
                return Err(Failure::config(format!(
                    "Invalid value '{value}' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and \
                     integer values are allowed"
                )));
            }
            _ => {
                let mut unknown: Vec<&str> = written.iter().map(|(name, _)| name.as_str()).collect();
                unknown.retain(|name| !matches!(*name, "keys" | "rows_per_partition"));
                unknown.sort_unstable();
                return Err(Failure::config(format!(
                    "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
                    unknown.join(", ")
                )));
            }
        }
        caching.insert(name.clone(), upper);
    }
    Ok(caching)
}

/// The canonical form of a speculative retry policy: `99p`, `50ms`, `ALWAYS`, `NEVER`, `MIN(99p,50ms)`. Errors name
/// `speculative_retry` whichever option it is for, as Cassandra's do.
fn retry_policy(written: &str) -> Result<String> {
    let lower = written.to_ascii_lowercase();
    let invalid = || Failure::config(format!("Invalid value {written} for option 'speculative_retry'"));
    match lower.as_str() {
        "always" => return Ok("ALWAYS".to_owned()),
        "never" | "none" => return Ok("NEVER".to_owned()),
        _ => {}
    }
    for function in ["min", "max"] {
        let Some(inner) = lower.strip_prefix(function).and_then(|rest| rest.strip_prefix('(')) else { continue };
        let inner = inner.strip_suffix(')').ok_or_else(invalid)?;
        let (left, right) = inner.split_once(',').ok_or_else(invalid)?;
        let part = |text: &str| simple_policy(text.trim()).and_then(Result::ok).ok_or_else(invalid);
        let (left, right) = (part(left)?, part(right)?);
        let kind = |policy: &str| if policy.ends_with('p') { "PERCENTILE" } else { "FIXED" };
        if kind(&left) == kind(&right) {
            return Err(Failure::config(format!(
                "Invalid value {written} for option 'speculative_retry': MIN()/MAX() arguments should be of different \
                 types, but both are of type {}",
                kind(&left)
            )));
        }
        return Ok(format!("{}({left},{right})", function.to_ascii_uppercase()));
    }
    simple_policy(&lower).ok_or_else(invalid)?.map_err(|failure| {
        // The error shows the value as written.
        Failure::config(failure.text.replacen(&lower, written, 1))
    })
}

/// Parses `99p`, `99percentile` or `50ms`, in lower case; `None` if it is neither.
fn simple_policy(lower: &str) -> Option<Result<String>> {
    let number = |digits: &str| -> Option<f64> {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if plain { digits.parse().ok() } else { None }
    };
    if let Some(digits) = lower.strip_suffix("ms") {
        return Some(Ok(format!("{}ms", number(digits)? as i32)));
    }
    let percent = number(lower.strip_suffix("percentile").or_else(|| lower.strip_suffix('p'))?)?;
    if !(percent > 0.0 && percent < 100.0) {
        return Some(Err(Failure::config(format!(
            "Invalid value {lower} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
        ))));
    }
    let digits = format!("{percent:.4}");
    Some(Ok(format!("{}p", digits.trim_end_matches('0').trim_end_matches('.'))))
}
