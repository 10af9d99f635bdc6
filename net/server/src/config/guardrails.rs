//! Reads the guardrails of `cassandra.yaml`.
//!
//! As in Cassandra, guardrails apply to ordinary users only, and a client that is not authenticated is not one. There
//! is no authentication, so guardrails are read and checked but not applied, and the log warns that they have no
//! effect. The option `guardrails_apply_to_anonymous`, which Cassandra does not have, applies them to everybody.

use super::{ConfigError, Given, error, units};
use cql_guardrails::{Threshold, Values};
use model::Consistency;
use serde_norway::Value;
use shard::DiskThresholds;
use shard::guardrails as cql_guardrails;
use shard::{Guardrails, LoggedThreshold, LoggedThresholds};
use std::collections::BTreeSet;

/// The option that applies guardrails to clients that are not authenticated.
const ANONYMOUS: &str = "guardrails_apply_to_anonymous";
/// The largest count that a threshold can name: Cassandra's numbers have 32 bits.
const COUNT_MAX: u64 = i32::MAX as u64;

/// The properties of tables that `table_properties_warned` and its siblings may name.
const TABLE_PROPERTIES: [&str; 25] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "cosmosdb_autoscale_max_throughput",
    "cosmosdb_provisioned_throughput",
    "crc_check_chance",
    "custom_properties",
    "default_time_to_live",
    "extensions",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "per_partition_rate_limit",
    "read_repair",
    "speculative_retry",
    "throughput_options",
];

impl Given {
    /// Whether guardrails apply to clients, none of which is authenticated.
    pub(super) fn guardrails_hold(&self) -> Result<bool, ConfigError> {
        Ok(self.flag(ANONYMOUS)?.unwrap_or(false))
    }

    /// The guardrails; `None` if they apply to nobody.
    pub(super) fn guardrails(&self) -> Result<Option<Guardrails>, ConfigError> {
        let found = self.all_guardrails()?;
        Ok(self.guardrails_hold()?.then_some(found))
    }

    /// The guardrails in keyspaces of ManagedStrategy: those for clients, and limits of partition keys and rows in any
    /// case.
    pub(super) fn managed_guardrails(&self) -> Result<Guardrails, ConfigError> {
        let Guardrails { partition_key_size, row_size, .. } = self.all_guardrails()?;
        let sizes = Guardrails { partition_key_size, row_size, ..Guardrails::default() };
        Ok(self.guardrails()?.unwrap_or(sizes).or_of_services())
    }

    fn all_guardrails(&self) -> Result<Guardrails, ConfigError> {
        let default = Guardrails::default();
        Ok(Guardrails {
            keyspaces: self.threshold("keyspaces_warn_threshold", "keyspaces_fail_threshold")?,
            tables: self.threshold("tables_warn_threshold", "tables_fail_threshold")?,
            columns_per_table: self
                .threshold("columns_per_table_warn_threshold", "columns_per_table_fail_threshold")?,
            secondary_indexes_per_table: self.threshold(
                "secondary_indexes_per_table_warn_threshold",
                "secondary_indexes_per_table_fail_threshold",
            )?,
            fields_per_udt: self.threshold("fields_per_udt_warn_threshold", "fields_per_udt_fail_threshold")?,
            vector_dimensions: self
                .threshold("vector_dimensions_warn_threshold", "vector_dimensions_fail_threshold")?,
            minimum_replication_factor: self
                .least("minimum_replication_factor_warn_threshold", "minimum_replication_factor_fail_threshold")?,
            maximum_replication_factor: self
                .threshold("maximum_replication_factor_warn_threshold", "maximum_replication_factor_fail_threshold")?,
            table_properties: Values {
                warned: self.table_properties("table_properties_warned")?,
                ignored: self.table_properties("table_properties_ignored")?,
                disallowed: self.table_properties("table_properties_disallowed")?,
            },
            page_size: self.threshold("page_size_warn_threshold", "page_size_fail_threshold")?,
            partition_keys_in_select: self
                .threshold("partition_keys_in_select_warn_threshold", "partition_keys_in_select_fail_threshold")?,
            in_select_cartesian_product: self.threshold(
                "in_select_cartesian_product_warn_threshold",
                "in_select_cartesian_product_fail_threshold",
            )?,
            read_consistency_levels: Values {
                warned: self.levels("read_consistency_levels_warned")?,
                ignored: BTreeSet::new(),
                disallowed: self.levels("read_consistency_levels_disallowed")?,
            },
            write_consistency_levels: Values {
                warned: self.levels("write_consistency_levels_warned")?,
                ignored: BTreeSet::new(),
                disallowed: self.levels("write_consistency_levels_disallowed")?,
            },
            collection_size: self.sizes("collection_size_warn_threshold", "collection_size_fail_threshold")?,
            items_per_collection: self
                .threshold("items_per_collection_warn_threshold", "items_per_collection_fail_threshold")?,
            column_value_size: self.sizes("column_value_size_warn_threshold", "column_value_size_fail_threshold")?,
            partition_key_size: self.sizes("partition_key_size_warn_threshold", "partition_key_size_fail_threshold")?,
            row_size: self.sizes("row_size_warn_threshold", "row_size_fail_threshold")?,
            minimum_timestamp: self.spans("minimum_timestamp_warn_threshold", "minimum_timestamp_fail_threshold")?,
            maximum_timestamp: self.spans("maximum_timestamp_warn_threshold", "maximum_timestamp_fail_threshold")?,
            allow_filtering: self.flag("allow_filtering_enabled")?.unwrap_or(default.allow_filtering),
            alter_table: self.flag("alter_table_enabled")?.unwrap_or(default.alter_table),
            compact_tables: self.flag("compact_tables_enabled")?.unwrap_or(default.compact_tables),
            drop_keyspace: self.flag("drop_keyspace_enabled")?.unwrap_or(default.drop_keyspace),
            drop_truncate_table: self.flag("drop_truncate_table_enabled")?.unwrap_or(default.drop_truncate_table),
            group_by: self.flag("group_by_enabled")?.unwrap_or(default.group_by),
            read_before_write_list_operations: self
                .flag("read_before_write_list_operations_enabled")?
                .unwrap_or(default.read_before_write_list_operations),
            secondary_indexes: self.flag("secondary_indexes_enabled")?.unwrap_or(default.secondary_indexes),
            simplestrategy: self.flag("simplestrategy_enabled")?.unwrap_or(default.simplestrategy),
            uncompressed_tables: self.flag("uncompressed_tables_enabled")?.unwrap_or(default.uncompressed_tables),
            user_timestamps: self.flag("user_timestamps_enabled")?.unwrap_or(default.user_timestamps),
            vector_type: self.flag("vector_type_enabled")?.unwrap_or(default.vector_type),
            zero_ttl_on_twcs: self.flag("zero_ttl_on_twcs_enabled")?.unwrap_or(default.zero_ttl_on_twcs),
            zero_ttl_on_twcs_warned: self.flag("zero_ttl_on_twcs_warned")?.unwrap_or(default.zero_ttl_on_twcs_warned),
        })
    }

    /// The thresholds about which the log warns, whether or not guardrails apply to clients.
    pub(super) fn logged_thresholds(&self) -> Result<LoggedThresholds, ConfigError> {
        let told = |Threshold { warn, fail }| LoggedThreshold { warn, fail };
        Ok(LoggedThresholds {
            partition_size: told(self.sizes("partition_size_warn_threshold", "partition_size_fail_threshold")?),
            partition_tombstones: told(
                self.threshold("partition_tombstones_warn_threshold", "partition_tombstones_fail_threshold")?,
            ),
            collection_size: told(self.sizes("collection_size_warn_threshold", "collection_size_fail_threshold")?),
            items_per_collection: told(
                self.threshold("items_per_collection_warn_threshold", "items_per_collection_fail_threshold")?,
            ),
        })
    }

    /// The thresholds of disk usage. They refuse writes only where guardrails apply; the log warns in any case.
    pub(super) fn disk_thresholds(&self) -> Result<DiskThresholds, ConfigError> {
        let warn = "data_disk_usage_percentage_warn_threshold";
        let fail = "data_disk_usage_percentage_fail_threshold";
        let percentage = self.threshold(warn, fail)?;
        for (name, percent) in [(warn, percentage.warn), (fail, percentage.fail)] {
            if let Some(percent) = percent.filter(|percent| *percent > 100) {
                return error(format!("Invalid value {percent} for {name}: maximum allowed value is 100"));
            }
        }
        const SIZE: &str = "data_disk_usage_max_disk_size";
        let bytes_max = match self.text(SIZE)? {
            None => None,
            Some(text) => match units::bytes(&text) {
                None => return error(format!("{SIZE}: {text} is not a size such as 5KiB")),
                Some(0) => {
                    return error(format!(
                        "Invalid value for {SIZE}: 0 is not allowed; if attempting to disable use an empty value"
                    ));
                }
                bytes => bytes,
            },
        };
        Ok(DiskThresholds { percentage, bytes_max })
    }

    /// The count that the option `name` gives, at least 1; `None` if it is -1, which switches it off, or is not given.
    fn limit(&self, name: &'static str) -> Result<Option<u64>, ConfigError> {
        if self.text(name)?.as_deref() == Some("-1") {
            return Ok(None);
        }
        self.number(name, 1, COUNT_MAX)
    }

    fn threshold(&self, warn: &'static str, fail: &'static str) -> Result<Threshold, ConfigError> {
        let threshold = Threshold { warn: self.limit(warn)?, fail: self.limit(fail)? };
        ordered(threshold, warn, fail)
    }

    fn sizes(&self, warn: &'static str, fail: &'static str) -> Result<Threshold, ConfigError> {
        let threshold = Threshold { warn: self.size(warn)?, fail: self.size(fail)? };
        ordered(threshold, warn, fail)
    }

    /// A threshold of durations, in microseconds.
    fn spans(&self, warn: &'static str, fail: &'static str) -> Result<Threshold, ConfigError> {
        let span = |name: &'static str| -> Result<Option<u64>, ConfigError> {
            let Some(text) = self.text(name)? else { return Ok(None) };
            match units::duration(&text) {
                Some(span) => Ok(Some(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))),
                None => error(format!("{name}: {text} is not a duration such as 1d")),
            }
        };
        ordered(Threshold { warn: span(warn)?, fail: span(fail)? }, warn, fail)
    }

    /// A threshold for numbers that are too small: the node warns below `warn` and fails below `fail`, so `warn` must
    /// not be the smaller one.
    fn least(&self, warn: &'static str, fail: &'static str) -> Result<Threshold, ConfigError> {
        let threshold = Threshold { warn: self.limit(warn)?, fail: self.limit(fail)? };
        match threshold {
            Threshold { warn: Some(least), fail: Some(last) } if least < last => {
                error(format!("The warn threshold {least} for {warn} should be greater than the fail threshold {last}"))
            }
            threshold => Ok(threshold),
        }
    }

    fn names(&self, name: &'static str) -> Result<Vec<String>, ConfigError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Sequence(items)) => {
                let text = |item: &Value| match item {
                    Value::String(text) => Ok(text.clone()),
                    _ => error(format!("{name}: a list of names is needed")),
                };
                items.iter().map(text).collect()
            }
            Some(_) => error(format!("{name}: a list is needed")),
        }
    }

    fn table_properties(&self, name: &'static str) -> Result<BTreeSet<&'static str>, ConfigError> {
        let known = |text: String| match TABLE_PROPERTIES.iter().find(|known| text.eq_ignore_ascii_case(known)) {
            Some(known) => Ok(*known),
            None => error(format!("{name}: {text} is not a property of tables")),
        };
        self.names(name)?.into_iter().map(known).collect()
    }

    fn levels(&self, name: &'static str) -> Result<BTreeSet<Consistency>, ConfigError> {
        let known = |text: String| {
            let levels = (0..).map_while(Consistency::from_code);
            match levels.into_iter().find(|level| text.eq_ignore_ascii_case(level.name())) {
                Some(level) => Ok(level),
                None => error(format!("{name}: {text} is not a consistency level")),
            }
        };
        self.names(name)?.into_iter().map(known).collect()
    }
}

/// Checks that the number above which the node warns is at most the one above which it fails.
fn ordered(threshold: Threshold, warn: &str, fail: &str) -> Result<Threshold, ConfigError> {
    match threshold {
        Threshold { warn: Some(least), fail: Some(most) } if least > most => {
            error(format!("{warn}: {least} is more than {fail}, {most}"))
        }
        threshold => Ok(threshold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    const FILE: &str = "keyspaces_warn_threshold: 2\nkeyspaces_fail_threshold: -1\ntable_properties_warned: [comment]\n\
                        read_consistency_levels_disallowed: [ALL, each_quorum]\ncollection_size_warn_threshold: 100B\n\
                        group_by_enabled: false\nminimum_replication_factor_warn_threshold: 3\n\
                        minimum_replication_factor_fail_threshold: 2\n";

    #[test]
    fn guardrails_hold_nobody_without_authentication() {
        let config = Config::read(FILE, &[]).expect("valid");
        assert_eq!(config.node.guardrails, None);
        // `collection_size_warn_threshold` has an effect on the log, and -1 is the default.
        assert_eq!(config.unused.len(), 6, "{:?}", config.unused);
    }

    #[test]
    fn guardrails_hold_everybody_if_that_is_said() {
        let config = Config::read(FILE, &["guardrails_apply_to_anonymous=true".into()]).expect("valid");
        assert!(config.unused.is_empty(), "{:?}", config.unused);
        let guardrails = config.node.guardrails.expect("there");
        assert_eq!(guardrails.keyspaces, Threshold { warn: Some(2), fail: None });
        assert_eq!(guardrails.minimum_replication_factor, Threshold { warn: Some(3), fail: Some(2) });
        assert_eq!(guardrails.table_properties.warned, BTreeSet::from(["comment"]));
        let levels = BTreeSet::from([Consistency::All, Consistency::EachQuorum]);
        assert_eq!(guardrails.read_consistency_levels.disallowed, levels);
        assert_eq!(guardrails.collection_size, Threshold { warn: Some(100), fail: None });
        assert!(!guardrails.group_by && guardrails.allow_filtering && guardrails.zero_ttl_on_twcs_warned);
    }

    #[test]
    fn what_the_log_is_told_does_not_need_users() {
        let file = "partition_size_warn_threshold: 1KiB\npartition_size_fail_threshold: 1MiB\n\
                    partition_tombstones_warn_threshold: 7\ncollection_size_fail_threshold: 9B\n\
                    items_per_collection_warn_threshold: 3\n";
        let config = Config::read(file, &[]).expect("valid");
        assert!(config.unused.is_empty(), "{:?}", config.unused);
        let threshold = |warn, fail| LoggedThreshold { warn, fail };
        let logged = LoggedThresholds {
            partition_size: threshold(Some(1 << 10), Some(1 << 20)),
            partition_tombstones: threshold(Some(7), None),
            collection_size: threshold(None, Some(9)),
            items_per_collection: threshold(Some(3), None),
        };
        assert_eq!(config.node.sstables.logged, logged);
        assert!(Config::read("partition_size_warn_threshold: 2KiB\npartition_size_fail_threshold: 1KiB", &[]).is_err());
    }

    #[test]
    fn a_disk_is_full_at_a_percentage() {
        let file = "data_disk_usage_percentage_warn_threshold: 70\ndata_disk_usage_percentage_fail_threshold: 100\n\
                    data_disk_usage_max_disk_size: 4096GiB\n";
        let config = Config::read(file, &[]).expect("valid");
        assert!(config.unused.is_empty(), "{:?}", config.unused);
        let percentage = Threshold { warn: Some(70), fail: Some(100) };
        assert_eq!(config.node.disk, DiskThresholds { percentage, bytes_max: Some(4 << 40) });
        for (wrong, told) in [
            (
                "data_disk_usage_percentage_warn_threshold: 101",
                "Invalid value 101 for data_disk_usage_percentage_warn_threshold: maximum allowed value is 100",
            ),
            (
                "data_disk_usage_max_disk_size: 0B",
                "Invalid value for data_disk_usage_max_disk_size: 0 is not allowed; if attempting to disable use an empty \
                 value",
            ),
        ] {
            assert_eq!(Config::read(wrong, &[]).expect_err("refused").to_string(), told);
        }
    }

    #[test]
    fn what_is_wrong_is_named_in_any_case() {
        for wrong in [
            "tables_warn_threshold: x",
            "tables_warn_threshold: 0",
            "tables_warn_threshold: 5\ntables_fail_threshold: 4",
            "minimum_replication_factor_warn_threshold: 1\nminimum_replication_factor_fail_threshold: 2",
            "table_properties_ignored: [no_such_property]",
            "write_consistency_levels_warned: [SOME]",
            "write_consistency_levels_warned: ALL",
            "compact_tables_enabled: perhaps",
            "column_value_size_fail_threshold: 5",
            "maximum_timestamp_warn_threshold: 5",
            "maximum_timestamp_warn_threshold: 2d\nmaximum_timestamp_fail_threshold: 1d",
        ] {
            let name = wrong.split(':').next().expect("a name");
            let refused = Config::read(wrong, &[]).expect_err(wrong);
            assert!(refused.0.contains(name), "{wrong}: {refused}");
        }
    }
}
