//! Checks the `compaction` map of a table: a known strategy whose options are known and in range.

use super::table_options::OptionMap;
use crate::errors::unsupported;
use model::Failure;
use model::compaction::size_bytes as size;
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, Failure>;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const THRESHOLDS: [(&str, &str); 2] = [("max_threshold", "32"), ("min_threshold", "4")];

/// Options of every strategy.
const COMMON: [&str; 8] = [
    "class",
    "enabled",
    "log_all",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
    "tombstone_compaction_interval",
    "tombstone_threshold",
    "unchecked_tombstone_compaction",
];
const SIZE_TIERED: [&str; 5] = ["bucket_high", "bucket_low", "max_threshold", "min_sstable_size", "min_threshold"];
const LEVELED: [&str; 3] = ["fanout_size", "single_sstable_uplevel", "sstable_size_in_mb"];
const TIME_WINDOW: [&str; 5] = [
    "compaction_window_size",
    "compaction_window_unit",
    "expired_sstable_check_frequency_seconds",
    "timestamp_resolution",
    "unsafe_aggressive_sstable_expiration",
];
const UNIFIED: [&str; 10] = [
    "base_shard_count",
    "expired_sstable_check_frequency_seconds",
    "flush_size_override",
    "max_sstables_to_compact",
    "min_sstable_size",
    "overlap_inclusion_method",
    "scaling_parameters",
    "sstable_growth",
    "target_sstable_size",
    "unsafe_aggressive_sstable_expiration",
];

const TIME_UNITS: [&str; 7] = ["DAYS", "HOURS", "MINUTES", "SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"];

/// The options as written.
struct Options<'a>(&'a OptionMap);

impl<'a> Options<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn integer(&self, name: &str) -> Result<Option<i64>> {
        let parse = |text: &str| {
            let not = |_| Failure::config(format!("{text} is not a parsable int (base10) for {name}"));
            text.parse::<i64>().map_err(not)
        };
        self.get(name).map(parse).transpose()
    }

    fn integer32(&self, name: &str) -> Result<Option<i32>> {
        let parse = |text: &str| {
            let not = |_| Failure::config(format!("{text} is not a parsable int (base10) for {name}"));
            text.parse::<i32>().map_err(not)
        };
        self.get(name).map(parse).transpose()
    }

    fn float(&self, name: &str, shown: &str) -> Result<Option<f64>> {
        let parse = |text: &str| {
            let not = |_| Failure::config(format!("{text} is not a parsable {shown} for {name}"));
            text.parse::<f64>().map_err(not)
        };
        self.get(name).map(parse).transpose()
    }

    /// Parses a boolean option; `error` makes the text for anything else.
    fn boolean(&self, name: &str, error: impl FnOnce(&str) -> String) -> Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(text) => Err(Failure::config(error(text))),
        }
    }
}

/// Checks the map as written and returns it in the form that Cassandra stores.
///
/// # Errors
/// Those of CREATE TABLE: no class, an unknown class or option, a value out of range.
pub fn check(written: &[(String, String)]) -> Result<BTreeMap<String, String>> {
    let options = Options(written);
    let Some(class) = options.get("class") else {
        return Err(Failure::config("Missing sub-option 'class' for the 'compaction' option"));
    };
    let class = if class.contains('.') { class.to_owned() } else { format!("{PACKAGE}{class}") };
    let strategy = class.strip_prefix(PACKAGE).unwrap_or(&class).to_owned();
    let known: &[&[&str]] = match strategy.as_str() {
        "SizeTieredCompactionStrategy" => &[&COMMON, &SIZE_TIERED],
        "LeveledCompactionStrategy" => &[&COMMON, &SIZE_TIERED, &LEVELED],
        "TimeWindowCompactionStrategy" => &[&COMMON, &SIZE_TIERED, &TIME_WINDOW],
        "UnifiedCompactionStrategy" => &[&COMMON, &UNIFIED],
        _ => return Err(Failure::config(format!("Unable to find compaction strategy class '{class}'"))),
    };
    let unified = strategy == "UnifiedCompactionStrategy";
    check_overlapping(&options)?;
    check_common(&options)?;
    match strategy.as_str() {
        "UnifiedCompactionStrategy" => check_unified(&options)?,
        "LeveledCompactionStrategy" => {
            check_leveled(&options)?;
            check_size_tiered(&options)?;
        }
        "TimeWindowCompactionStrategy" => {
            check_time_window(&options)?;
            check_size_tiered(&options)?;
        }
        _ => check_size_tiered(&options)?,
    }
    let mut unknown: Vec<&str> = written.iter().map(|(name, _)| name.as_str()).collect();
    unknown.retain(|name| !known.iter().any(|names| names.contains(name)));
    if !unknown.is_empty() {
        unknown.sort_unstable();
        let names = unknown.join(", ");
        return Err(Failure::config(format!("Properties specified [{names}] are not understood by {strategy}")));
    }
    if !unified {
        check_thresholds(&options)?;
    }
    let mut stored: BTreeMap<String, String> = written.iter().cloned().collect();
    stored.insert("class".to_owned(), class);
    if !unified {
        for (name, default) in THRESHOLDS {
            stored.entry(name.to_owned()).or_insert_with(|| default.to_owned());
        }
    }
    Ok(stored)
}

fn check_overlapping(options: &Options<'_>) -> Result<()> {
    let Some(text) = options.get("provide_overlapping_tombstones") else { return Ok(()) };
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "NONE" => return Ok(()),
        "ROW" | "CELL" => return Err(unsupported(&format!("provide_overlapping_tombstones = '{upper}'"))),
        _ => {}
    }
    Err(Failure::config(format!(
        "Invalid value {upper} for 'provide_overlapping_tombstones' compaction sub-option - must be one of the following \
         [NONE, ROW, CELL]."
    )))
}

fn check_thresholds(options: &Options<'_>) -> Result<()> {
    let threshold = |name: &str, default: i32| match options.get(name) {
        None => Ok(default),
        Some(text) => match text.parse::<i32>() {
            Ok(value) if value >= 0 => Ok(value),
            _ => Err(Failure::config(format!(
                "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
            ))),
        },
    };
    let min = threshold("min_threshold", 4)?;
    let max = threshold("max_threshold", 32)?;
    if min == 0 || max == 0 {
        return Err(Failure::config(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option \
             'enabled' to false instead.",
        ));
    }
    if min < 2 {
        return Err(Failure::config(format!("Min compaction threshold cannot be less than 2 (got {min})")));
    }
    if min > max {
        return Err(Failure::config(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        )));
    }
    Ok(())
}

fn check_common(options: &Options<'_>) -> Result<()> {
    if let Some(threshold) = options.float("tombstone_threshold", "int (base10)")?
        && threshold < 0.0
    {
        return Err(Failure::config(format!("tombstone_threshold must be greater than 0, but was {threshold:.6}")));
    }
    if let Some(interval) = options.integer("tombstone_compaction_interval")?
        && interval < 0
    {
        return Err(Failure::config(format!(
            "tombstone_compaction_interval must be greater than 0, but was {interval}"
        )));
    }
    options.boolean("unchecked_tombstone_compaction", |text| {
        format!("'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{text}'")
    })?;
    options.boolean("log_all", |text| format!("'log_all' should either be 'true' or 'false', not {text}"))?;
    options.boolean("enabled", |text| format!("enabled should either be 'true' or 'false', not {text}"))?;
    Ok(())
}

fn check_size_tiered(options: &Options<'_>) -> Result<()> {
    if let Some(size) = options.integer("min_sstable_size")?
        && size < 0
    {
        return Err(Failure::config(format!("min_sstable_size must be non negative: {size}")));
    }
    let low = options.float("bucket_low", "float")?.unwrap_or(0.5);
    let high = options.float("bucket_high", "float")?.unwrap_or(1.5);
    if high <= low {
        return Err(Failure::config(format!(
            "bucket_high value ({high:?}) is less than or equal to the bucket_low value ({low:?})"
        )));
    }
    Ok(())
}

fn check_leveled(options: &Options<'_>) -> Result<()> {
    for name in ["sstable_size_in_mb", "fanout_size"] {
        if let Some(value) = options.integer32(name)?
            && value < 1
        {
            return Err(Failure::config(format!("{name} must be larger than 0, but was {value}")));
        }
    }
    Ok(())
}

fn check_time_window(options: &Options<'_>) -> Result<()> {
    if let Some(unit) = options.get("timestamp_resolution")
        && !TIME_UNITS.contains(&unit)
    {
        return Err(Failure::config(format!("{unit} is not valid for timestamp_resolution")));
    }
    if let Some(unit) = options.get("compaction_window_unit")
        && !matches!(unit, "DAYS" | "HOURS" | "MINUTES")
    {
        return Err(Failure::config(format!("{unit} is not valid for compaction_window_unit")));
    }
    if let Some(size) = options.integer32("compaction_window_size")?
        && size < 1
    {
        return Err(Failure::config(format!("{size} must be greater than 1 for compaction_window_size")));
    }
    if let Some(seconds) = options.integer("expired_sstable_check_frequency_seconds")?
        && seconds < 0
    {
        return Err(Failure::config(format!(
            "expired_sstable_check_frequency_seconds must not be negative, but was {seconds}"
        )));
    }
    check_expiration(options, |text| format!("unsafe_aggressive_sstable_expiration is not 'true' or 'false' ({text})"))
}

fn check_expiration(options: &Options<'_>, error: impl FnOnce(&str) -> String) -> Result<()> {
    if options.boolean("unsafe_aggressive_sstable_expiration", error)? == Some(true) {
        return Err(Failure::config(
            "unsafe_aggressive_sstable_expiration is requested but not allowed, restart cassandra with \
             -Dcassandra.allow_unsafe_aggressive_sstable_expiration=true to allow it",
        ));
    }
    Ok(())
}

fn check_unified(options: &Options<'_>) -> Result<()> {
    const TARGET_DEFAULT: f64 = 1024.0 * MIB;
    for parameter in options.get("scaling_parameters").into_iter().flat_map(|list| list.split(',')) {
        check_scaling(parameter.trim())?;
    }
    if let Some(count) = options.integer32("base_shard_count")?
        && count <= 0
    {
        return Err(Failure::config(format!("Invalid configuration, base_shard_count should be positive: {count}")));
    }
    let mut target = TARGET_DEFAULT;
    for name in ["target_sstable_size", "flush_size_override"] {
        let Some(text) = options.get(name) else { continue };
        let Some(bytes) = size(text) else {
            let reason = if text.ends_with('B') { "null".to_owned() } else { format!("{text} does not end in unit B") };
            return Err(Failure::config(format!("{name} {text} is not a valid size in bytes: {reason}")));
        };
        if bytes < MIB {
            return Err(Failure::config(format!("{name} {text} is not acceptable, size must be at least 1.000MiB")));
        }
        if name == "target_sstable_size" {
            target = bytes;
        }
    }
    if let Some(text) = options.get("expired_sstable_check_frequency_seconds") {
        let name = "expired_sstable_check_frequency_seconds";
        match text.parse::<i64>() {
            Ok(seconds) if seconds > 0 => {}
            Ok(_) => return Err(Failure::config(format!("Invalid configuration, {name} should be positive: {text}"))),
            Err(_) => return Err(Failure::config(format!("{text} is not a parsable long (base10) for {name}"))),
        }
    }
    options.integer32("max_sstables_to_compact")?;
    check_expiration(options, |text| {
        format!("unsafe_aggressive_sstable_expiration should either be 'true' or 'false', not {text}")
    })?;
    if let Some(method) = options.get("overlap_inclusion_method")
        && !matches!(method.to_ascii_uppercase().as_str(), "NONE" | "SINGLE" | "TRANSITIVE")
    {
        return Err(Failure::config(format!(
            "Invalid overlap inclusion method {method}. The valid options are [NONE, SINGLE, TRANSITIVE]."
        )));
    }
    if let Some(text) = options.get("min_sstable_size") {
        let Some(bytes) = size(text) else {
            return Err(Failure::config(format!("{text} is not a valid size in bytes for min_sstable_size")));
        };
        if bytes > target * 0.7 {
            return Err(Failure::config(format!(
                "Invalid configuration, min_sstable_size ({}) should be less than 70% of the targetSSTableSize ({})",
                shown_size(bytes),
                shown_size(target)
            )));
        }
    }
    if let Some(text) = options.get("sstable_growth") {
        match text.parse::<f64>() {
            Ok(growth) if (0.0..=1.0).contains(&growth) => {}
            Ok(_) => return Err(Failure::config(format!("sstable_growth {text} must be between 0 and 1"))),
            Err(_) => {
                return Err(Failure::config(format!(
                    "sstable_growth is not a valid number between 0 and 1: For input string: \"{text}\""
                )));
            }
        }
    }
    Ok(())
}

/// Checks a scaling parameter: `N`, `T4`, `L10` or a number.
fn check_scaling(text: &str) -> Result<()> {
    let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    let fan = text.strip_prefix(['T', 'L']);
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    if text != "N" && !fan.is_some_and(digits) && !digits(number) {
        return Err(Failure::config(format!("Scaling parameter {text} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+")));
    }
    if fan.is_some_and(|fan| fan.parse::<i32>().is_ok_and(|fan| fan < 2)) {
        return Err(Failure::config(format!("Fan factor cannot be lower than 2 in {text}")));
    }
    Ok(())
}

const MIB: f64 = 1_048_576.0;

fn shown_size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut at = 0;
    while value >= 1024.0 && at + 1 < units.len() {
        value /= 1024.0;
        at += 1;
    }
    format!("{value:.3}{}", units[at])
}
