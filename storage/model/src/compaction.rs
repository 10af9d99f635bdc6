//! The `compaction` map of a table as typed options, with Cassandra's defaults.
//!
//! Crate `cql` checks a map, with Cassandra's error texts, before it is stored. A value that makes no sense here is
//! therefore replaced by the default instead of being an error.

use std::collections::BTreeMap;

/// One mebibyte in bytes.
const MIB: u64 = 1 << 20;
/// Most scaling parameters that are read; further ones are ignored.
pub const SCALING_PARAMETERS_MAX: usize = 32;

/// Options that every strategy has.
#[derive(Clone, PartialEq, Debug)]
pub struct CommonOptions {
    /// Whether compactions start automatically.
    pub enabled: bool,
    /// `tombstone_threshold`: the share of droppable cells above which a single SSTable is compacted by itself.
    pub tombstone_threshold: f64,
    /// `tombstone_compaction_interval`: how old such an SSTable must be, in seconds.
    pub tombstone_interval_seconds: i64,
    /// `unchecked_tombstone_compaction`: whether it is compacted even if other SSTables overlap it.
    pub unchecked_tombstones: bool,
    /// Whether single SSTables are compacted for their tombstones at all.
    pub tombstone_compactions: bool,
    /// `only_purge_repaired_tombstones`.
    pub only_repaired: bool,
}

/// Options of `SizeTieredCompactionStrategy`; other strategies use it for some of their SSTables.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeTieredOptions {
    /// `bucket_low`: an SSTable joins a bucket if its size is at least this factor of the bucket's mean.
    pub bucket_low: f64,
    /// `bucket_high`: and at most this factor.
    pub bucket_high: f64,
    /// `min_sstable_size`: SSTables below this many bytes share one bucket.
    pub min_sstable_bytes: u64,
    /// `min_threshold`: fewest SSTables of a compaction.
    pub min_threshold: usize,
    /// `max_threshold`: most SSTables of a compaction.
    pub max_threshold: usize,
}

/// Options of `LeveledCompactionStrategy`.
#[derive(Clone, PartialEq, Debug)]
pub struct LeveledOptions {
    /// `sstable_size_in_mb`, in bytes.
    pub sstable_bytes: u64,
    /// `fanout_size`: how many times larger each level is than the one before.
    pub fanout: u64,
    /// `single_sstable_uplevel`: whether an SSTable that overlaps nothing moves up a level without being rewritten.
    pub single_uplevel: bool,
    /// Used for level 0 when it has too many SSTables.
    pub size_tiered: SizeTieredOptions,
}

/// A unit of timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as they are")]
pub enum Resolution {
    Days,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Resolution {
    /// The seconds of a timestamp in this unit, rounded towards 1970.
    pub fn seconds(self, timestamp: i64) -> i64 {
        match self {
            Resolution::Days => timestamp.saturating_mul(86_400),
            Resolution::Hours => timestamp.saturating_mul(3600),
            Resolution::Minutes => timestamp.saturating_mul(60),
            Resolution::Seconds => timestamp,
            Resolution::Milliseconds => timestamp / 1000,
            Resolution::Microseconds => timestamp / 1_000_000,
            Resolution::Nanoseconds => timestamp / 1_000_000_000,
        }
    }
}

/// Options of `TimeWindowCompactionStrategy`.
#[derive(Clone, PartialEq, Debug)]
pub struct TimeWindowOptions {
    /// Length of a window in seconds.
    pub window_seconds: i64,
    /// `timestamp_resolution`.
    pub resolution: Resolution,
    /// `expired_sstable_check_frequency_seconds`.
    pub expired_check_seconds: i64,
    /// `unsafe_aggressive_sstable_expiration`: whether expired SSTables are dropped even if others overlap them.
    pub ignore_overlaps: bool,
    /// Used within the current window.
    pub size_tiered: SizeTieredOptions,
}

/// `overlap_inclusion_method`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverlapInclusion {
    /// Only the SSTables that overlap.
    None,
    /// Also SSTables that overlap those.
    Single,
    /// All SSTables connected by overlaps.
    Transitive,
}

/// Options of `UnifiedCompactionStrategy`.
#[derive(Clone, PartialEq, Debug)]
pub struct UnifiedOptions {
    /// `scaling_parameters`, one per level; the last one also counts for all higher levels. Negative is leveled,
    /// positive tiered. Never empty.
    pub scaling: Vec<i32>,
    /// `target_sstable_size`, bytes.
    pub target_sstable_bytes: u64,
    /// `base_shard_count`.
    pub base_shards: u32,
    /// `sstable_growth`, 0 to 1.
    pub sstable_growth: f64,
    /// `min_sstable_size`, bytes; 0 for none.
    pub min_sstable_bytes: u64,
    /// `flush_size_override`, bytes, if given.
    pub flush_bytes: Option<u64>,
    /// `max_sstables_to_compact`.
    pub sstables_max: usize,
    /// `expired_sstable_check_frequency_seconds`.
    pub expired_check_seconds: i64,
    /// `unsafe_aggressive_sstable_expiration`.
    pub ignore_overlaps: bool,
    /// Which overlapping SSTables a compaction takes in.
    pub overlap_inclusion: OverlapInclusion,
}

/// A strategy with its own options.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "named as their classes")]
pub enum Strategy {
    SizeTiered(SizeTieredOptions),
    Leveled(LeveledOptions),
    TimeWindow(TimeWindowOptions),
    Unified(UnifiedOptions),
}

/// All options of a table's compaction.
#[derive(Clone, PartialEq, Debug)]
pub struct CompactionOptions {
    /// Options that every strategy has.
    pub common: CommonOptions,
    /// The strategy.
    pub strategy: Strategy,
}

struct OptionMap<'m>(&'m BTreeMap<String, String>);

impl OptionMap<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> T {
        self.text(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    fn is(&self, name: &str, default: bool) -> bool {
        self.text(name).map_or(default, |text| text.eq_ignore_ascii_case("true"))
    }

    fn size(&self, name: &str, default: u64) -> u64 {
        self.text(name).and_then(size_bytes).map_or(default, |bytes| bytes as u64)
    }
}

impl CompactionOptions {
    /// Reads a stored map. An unknown class counts as SizeTiered.
    pub fn of(map: &BTreeMap<String, String>) -> CompactionOptions {
        let map = OptionMap(map);
        let class = map.text("class").unwrap_or_default();
        let class = class.rsplit('.').next().unwrap_or_default();
        let tombstone_names =
            ["unchecked_tombstone_compaction", "tombstone_compaction_interval", "tombstone_threshold"];
        let asked = tombstone_names.iter().any(|name| map.text(name).is_some_and(|text| text != "false"));
        let common = CommonOptions {
            enabled: map.is("enabled", true),
            tombstone_threshold: map.number("tombstone_threshold", 0.2),
            tombstone_interval_seconds: map.number("tombstone_compaction_interval", 86_400),
            unchecked_tombstones: map.is("unchecked_tombstone_compaction", false),
            // Windows go as a whole: there it has to be asked for.
            tombstone_compactions: class != "TimeWindowCompactionStrategy" || asked,
            only_repaired: map.is("only_purge_repaired_tombstones", false),
        };
        let strategy = match class {
            "LeveledCompactionStrategy" => Strategy::Leveled(LeveledOptions {
                sstable_bytes: map.number("sstable_size_in_mb", 160u64).max(1) * MIB,
                fanout: map.number("fanout_size", 10u64).max(1),
                single_uplevel: map.is("single_sstable_uplevel", true),
                size_tiered: size_tiered(&map),
            }),
            "TimeWindowCompactionStrategy" => Strategy::TimeWindow(time_window(&map)),
            "UnifiedCompactionStrategy" => Strategy::Unified(unified(&map)),
            _ => Strategy::SizeTiered(size_tiered(&map)),
        };
        CompactionOptions { common, strategy }
    }
}

fn size_tiered(map: &OptionMap<'_>) -> SizeTieredOptions {
    SizeTieredOptions {
        bucket_low: map.number("bucket_low", 0.5),
        bucket_high: map.number("bucket_high", 1.5),
        min_sstable_bytes: map.number("min_sstable_size", 50 * MIB),
        min_threshold: map.number("min_threshold", 4usize).max(2),
        max_threshold: map.number("max_threshold", 32usize).max(2),
    }
}

fn time_window(map: &OptionMap<'_>) -> TimeWindowOptions {
    let unit = match map.text("compaction_window_unit") {
        Some("MINUTES") => 60,
        Some("HOURS") => 3600,
        _ => 86_400,
    };
    TimeWindowOptions {
        window_seconds: unit * map.number("compaction_window_size", 1i64).clamp(1, i32::MAX.into()),
        resolution: match map.text("timestamp_resolution") {
            Some("DAYS") => Resolution::Days,
            Some("HOURS") => Resolution::Hours,
            Some("MINUTES") => Resolution::Minutes,
            Some("SECONDS") => Resolution::Seconds,
            Some("MILLISECONDS") => Resolution::Milliseconds,
            Some("NANOSECONDS") => Resolution::Nanoseconds,
            _ => Resolution::Microseconds,
        },
        expired_check_seconds: map.number("expired_sstable_check_frequency_seconds", 600),
        ignore_overlaps: map.is("unsafe_aggressive_sstable_expiration", false),
        size_tiered: size_tiered(map),
    }
}

fn unified(map: &OptionMap<'_>) -> UnifiedOptions {
    let listed = map.text("scaling_parameters").unwrap_or("T4").split(',').take(SCALING_PARAMETERS_MAX);
    let scaling: Vec<i32> = listed.map(|text| scaling_parameter(text.trim()).unwrap_or(2)).collect();
    let flush = map.size("flush_size_override", 0);
    let most = map.number("max_sstables_to_compact", 0i32);
    UnifiedOptions {
        scaling,
        target_sstable_bytes: map.size("target_sstable_size", 1024 * MIB).max(1),
        base_shards: map.number("base_shard_count", 4u32).max(1),
        sstable_growth: map.number("sstable_growth", 0.333),
        min_sstable_bytes: map.size("min_sstable_size", 100 * MIB),
        flush_bytes: (flush > 0).then_some(flush),
        sstables_max: usize::try_from(most).ok().filter(|most| *most > 0).unwrap_or(usize::MAX),
        expired_check_seconds: map.number("expired_sstable_check_frequency_seconds", 600),
        ignore_overlaps: map.is("unsafe_aggressive_sstable_expiration", false),
        overlap_inclusion: match map.text("overlap_inclusion_method").map(str::to_ascii_uppercase).as_deref() {
            Some("NONE") => OverlapInclusion::None,
            Some("SINGLE") => OverlapInclusion::Single,
            _ => OverlapInclusion::Transitive,
        },
    }
}

/// Reads a scaling parameter, `N`, `T4`, `L10` or a number: 0 for `N`, positive for tiered, negative for leveled.
pub fn scaling_parameter(text: &str) -> Option<i32> {
    let fan = |digits: &str| digits.parse::<i32>().ok().filter(|fan| *fan >= 2);
    match text.split_at_checked(1)? {
        ("N", "") => Some(0),
        ("T", digits) => Some(fan(digits)? - 2),
        ("L", digits) => Some(2 - fan(digits)?),
        _ => text.parse().ok(),
    }
}

/// Reads a size such as `100MiB` or `1.5GB`: a number, an optional binary or decimal prefix, then `B`. Gives bytes.
pub fn size_bytes(text: &str) -> Option<f64> {
    let rest = text.trim().strip_suffix('B')?;
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &rest[digits.len()..] {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(digits.trim().parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> CompactionOptions {
        CompactionOptions::of(&pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn defaults_are_cassandra_s() {
        let options = of(&[("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy")]);
        let Strategy::SizeTiered(tiered) = options.strategy else { panic!("{options:?}") };
        assert_eq!((tiered.bucket_low, tiered.bucket_high, tiered.min_sstable_bytes), (0.5, 1.5, 50 << 20));
        assert_eq!((tiered.min_threshold, tiered.max_threshold, options.common.enabled), (4, 32, true));
        let options = of(&[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "5"), ("enabled", "false")]);
        let Strategy::Leveled(leveled) = options.strategy else { panic!("{options:?}") };
        assert_eq!((leveled.sstable_bytes, leveled.fanout, options.common.enabled), (5 << 20, 10, false));
        let options = of(&[("class", "TimeWindowCompactionStrategy"), ("compaction_window_unit", "HOURS")]);
        assert!(!options.common.tombstone_compactions);
        let Strategy::TimeWindow(window) = options.strategy else { panic!("{options:?}") };
        assert_eq!((window.window_seconds, window.expired_check_seconds), (3600, 600));
        let asked = of(&[("class", "TimeWindowCompactionStrategy"), ("tombstone_threshold", "0.5")]);
        assert!(asked.common.tombstone_compactions);
        let options = of(&[("class", "UnifiedCompactionStrategy"), ("scaling_parameters", "T4, N,L10,-3")]);
        let Strategy::Unified(unified) = options.strategy else { panic!("{options:?}") };
        assert_eq!((unified.scaling, unified.base_shards), (vec![2, 0, -8, -3], 4));
        assert_eq!((unified.target_sstable_bytes, unified.min_sstable_bytes), (1 << 30, 100 << 20));
    }

    #[test]
    fn sizes_and_parameters() {
        assert_eq!((size_bytes("1.5KiB"), size_bytes("2GB"), size_bytes("7B")), (Some(1536.0), Some(2e9), Some(7.0)));
        assert_eq!((size_bytes("7"), size_bytes("xB"), size_bytes("1QiB")), (None, None, None));
        assert_eq!((scaling_parameter("T1"), scaling_parameter(""), scaling_parameter("+3")), (None, None, Some(3)));
        let many = vec!["T4"; SCALING_PARAMETERS_MAX + 1].join(",");
        let Strategy::Unified(unified) =
            of(&[("class", "UnifiedCompactionStrategy"), ("scaling_parameters", &many)]).strategy
        else {
            panic!("unified")
        };
        assert_eq!(unified.scaling.len(), SCALING_PARAMETERS_MAX);
        assert_eq!(Resolution::Milliseconds.seconds(61_000), 61);
    }
}
