//! Guardrails: limits set by the operator, beyond which users are warned or refused. Names, defaults and texts are
//! Cassandra's.
//!
//! Invariants: nothing is limited by default; a threshold is the largest value that is still accepted.
//!
//! What is not here: reading the limits and deciding whom they apply to (crate `server`); the checks themselves
//! (`define/guardrail_checks.rs`, crate `shard`).

use crate::ast::{Body, Modify, Statement, TableName};
use crate::restrictions::NEEDS_FILTERING;
use model::schema::is_system_keyspace;
use model::{Consistency, Failure};
use std::collections::BTreeSet;
use std::fmt::Display;

type Result<T> = std::result::Result<T, Failure>;

/// A threshold: more than `warn` gives a warning, more than `fail` is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "told above")]
pub struct Threshold {
    pub warn: Option<u64>,
    pub fail: Option<u64>,
}

impl Threshold {
    /// The warning if `value` is above the warning threshold. `warning` and `refusal` make the texts for the threshold
    /// that was exceeded.
    ///
    /// # Errors
    /// `value` is above the failure threshold.
    pub fn check(
        self,
        name: &str,
        value: u64,
        warning: impl FnOnce(u64) -> String,
        refusal: impl FnOnce(u64) -> String,
    ) -> Result<Option<String>> {
        if let Some(limit) = self.fail.filter(|limit| value > *limit) {
            return Err(violated(name, refusal(limit)));
        }
        Ok(self.warn.filter(|limit| value > *limit).map(|limit| text(name, warning(limit))))
    }

    /// [`Threshold::check`] with texts that begin with `what` and then say how it exceeds which threshold.
    pub fn check_size(self, name: &str, value: u64, what: impl Display) -> Result<Option<String>> {
        let exceeds = |kind: &str, limit: u64| format!("{what}, this exceeds the {kind} threshold of {limit}.");
        self.check(name, value, |limit| exceeds("warning", limit), |limit| exceeds("failure", limit))
    }
}

/// Values that give a warning, are ignored, or are refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "told above")]
pub struct Values<T: Ord> {
    pub warned: BTreeSet<T>,
    pub ignored: BTreeSet<T>,
    pub disallowed: BTreeSet<T>,
}

impl<T: Ord> Default for Values<T> {
    fn default() -> Values<T> {
        Values { warned: BTreeSet::new(), ignored: BTreeSet::new(), disallowed: BTreeSet::new() }
    }
}

impl<T: Ord + Copy> Values<T> {
    /// The warnings about `given`. The caller skips ignored values.
    ///
    /// # Errors
    /// One of the values is disallowed.
    pub fn check(&self, name: &str, what: &str, given: &[T], shown: impl Fn(&T) -> String) -> Result<Vec<String>> {
        let list = |values: &mut dyn Iterator<Item = &T>| values.map(&shown).collect::<Vec<String>>().join(", ");
        let found = |set: &BTreeSet<T>| {
            let found: BTreeSet<T> = given.iter().filter(|value| set.contains(value)).copied().collect();
            (!found.is_empty()).then(|| (list(&mut found.iter()), list(&mut set.iter())))
        };
        if let Some((found, all)) = found(&self.disallowed) {
            return Err(violated(
                name,
                format!("Provided values [{found}] are not allowed for {what} (disallowed values are: [{all}])"),
            ));
        }
        let ignored = found(&self.ignored).map(|(found, all)| {
            format!(
                "Ignoring provided values [{found}] as they are not supported for {what} (ignored values are: [{all}])"
            )
        });
        let warned = found(&self.warned).map(|(found, all)| {
            format!("Provided values [{found}] are not recommended for {what} (warned values are: [{all}])")
        });
        Ok(ignored.into_iter().chain(warned).map(|told| text(name, told)).collect())
    }
}

/// All guardrails.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "named as in cassandra.yaml, switches without `_enabled`")]
pub struct Guardrails {
    pub keyspaces: Threshold,
    pub tables: Threshold,
    pub columns_per_table: Threshold,
    pub secondary_indexes_per_table: Threshold,
    pub fields_per_udt: Threshold,
    pub vector_dimensions: Threshold,
    /// Fewer replicas than these give a warning or are refused.
    pub minimum_replication_factor: Threshold,
    pub maximum_replication_factor: Threshold,
    pub table_properties: Values<&'static str>,
    pub page_size: Threshold,
    pub partition_keys_in_select: Threshold,
    pub in_select_cartesian_product: Threshold,
    pub read_consistency_levels: Values<Consistency>,
    pub write_consistency_levels: Values<Consistency>,
    pub collection_size: Threshold,
    pub items_per_collection: Threshold,
    pub column_value_size: Threshold,
    /// Not in Cassandra: bytes of a partition key that is written to.
    pub partition_key_size: Threshold,
    /// Not in Cassandra: bytes of the values that a statement writes into a row.
    pub row_size: Threshold,
    /// How far timestamps may be behind the clock, microseconds.
    pub minimum_timestamp: Threshold,
    pub maximum_timestamp: Threshold,
    pub allow_filtering: bool,
    pub alter_table: bool,
    pub compact_tables: bool,
    pub drop_keyspace: bool,
    pub drop_truncate_table: bool,
    pub group_by: bool,
    pub read_before_write_list_operations: bool,
    pub secondary_indexes: bool,
    pub simplestrategy: bool,
    pub uncompressed_tables: bool,
    pub user_timestamps: bool,
    pub vector_type: bool,
    pub zero_ttl_on_twcs: bool,
    pub zero_ttl_on_twcs_warned: bool,
}

/// Bytes of a partition key above which the managed services refuse a write.
const SERVICE_KEY_MAX: u64 = 2 << 10;
/// Bytes of a row above which they do.
const SERVICE_ROW_MAX: u64 = 2 << 20;

impl Guardrails {
    /// The same, and where nothing is said of partition keys and rows, the limits of the managed services: a warning
    /// above four fifths of them.
    pub fn or_of_services(self) -> Guardrails {
        let or = |said: Threshold, fail: u64| match said == Threshold::default() {
            true => Threshold { warn: Some(fail / 5 * 4), fail: Some(fail) },
            false => said,
        };
        Guardrails {
            partition_key_size: or(self.partition_key_size, SERVICE_KEY_MAX),
            row_size: or(self.row_size, SERVICE_ROW_MAX),
            ..self
        }
    }
}

impl Default for Guardrails {
    fn default() -> Guardrails {
        let none = Threshold::default();
        Guardrails {
            keyspaces: none,
            tables: none,
            columns_per_table: none,
            secondary_indexes_per_table: none,
            fields_per_udt: none,
            vector_dimensions: none,
            minimum_replication_factor: none,
            maximum_replication_factor: none,
            table_properties: Values::default(),
            page_size: none,
            partition_keys_in_select: none,
            in_select_cartesian_product: none,
            read_consistency_levels: Values::default(),
            write_consistency_levels: Values::default(),
            collection_size: none,
            items_per_collection: none,
            column_value_size: none,
            partition_key_size: none,
            row_size: none,
            minimum_timestamp: none,
            maximum_timestamp: none,
            allow_filtering: true,
            alter_table: true,
            compact_tables: true,
            drop_keyspace: true,
            drop_truncate_table: true,
            group_by: true,
            read_before_write_list_operations: true,
            secondary_indexes: true,
            simplestrategy: true,
            uncompressed_tables: true,
            user_timestamps: true,
            vector_type: true,
            zero_ttl_on_twcs: true,
            zero_ttl_on_twcs_warned: true,
        }
    }
}

impl Guardrails {
    /// Checks what a statement asks for, whatever its values. System tables are exempt.
    ///
    /// # Errors
    /// A feature that it uses is disabled.
    pub fn check_text(&self, statement: &Statement, keyspace: Option<&str>) -> Result<()> {
        let is_exempt =
            |table: &TableName| is_system_keyspace(table.keyspace.as_deref().or(keyspace).unwrap_or_default());
        let timestamp = |modify: &Modify| match modify.using.timestamp.is_some() && !is_exempt(&modify.table) {
            true => ensure(self.user_timestamps, "user_timestamps", "User provided timestamps (USING TIMESTAMP)"),
            false => Ok(()),
        };
        match &statement.body {
            Body::Select(select) if !is_exempt(&select.table) => {
                if select.allow_filtering && !self.allow_filtering {
                    return Err(violated(
                        "allow_filtering",
                        "Querying with ALLOW FILTERING is not allowed. ALLOW FILTERING can potentially visit all the data \
                         in the table and have unpredictable performance.",
                    ));
                }
                match select.group.is_empty() {
                    true => Ok(()),
                    false => ensure(self.group_by, "group_by", "GROUP BY functionality"),
                }
            }
            Body::Modify(modify) => timestamp(modify),
            Body::Batch(batch) => batch.statements.iter().try_for_each(timestamp),
            _ => Ok(()),
        }
    }
}

impl Guardrails {
    /// Replaces the error if it recommends a feature that is disabled.
    pub fn explained(&self, failure: Failure) -> Failure {
        match !self.allow_filtering && failure.text == NEEDS_FILTERING {
            true => Failure::invalid(
                "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. \
                 Executing this query despite the performance unpredictability with ALLOW FILTERING has been disabled by \
                 the allow_filtering_enabled property in cassandra.yaml",
            ),
            false => failure,
        }
    }

    /// The warnings about a change of `table` with this timestamp, at `now`; both in microseconds.
    ///
    /// # Errors
    /// The timestamp is too far from `now`.
    pub fn check_timestamp(&self, table: &str, timestamp: i64, now: i64) -> Result<Option<String>> {
        let behind = u64::try_from(now.saturating_sub(timestamp)).unwrap_or(0);
        let ahead = u64::try_from(timestamp.saturating_sub(now)).unwrap_or(0);
        let of = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
        let early = |kind: &str, limit: u64| {
            format!(
                "The modification to table {table} has a timestamp {timestamp} before the minimum allowable {kind} \
                 threshold {}. Timestamps too far in the past can cause writes can be unexpectedly lost",
                now.saturating_sub(of(limit))
            )
        };
        let late = |kind: &str, limit: u64| {
            format!(
                "The modification to table {table} has a timestamp {timestamp} after the maximum allowable {kind} \
                 threshold {}. Timestamps too far in the future can lead to data that can't be easily overwritten",
                now.saturating_add(of(limit))
            )
        };
        let told = self.maximum_timestamp.check(
            "maximum_timestamp",
            ahead,
            |limit| late("warning", limit),
            |limit| late("failure", limit),
        )?;
        let earlier = self.minimum_timestamp.check(
            "minimum_timestamp",
            behind,
            |limit| early("warning", limit),
            |limit| early("failure", limit),
        )?;
        Ok(told.or(earlier))
    }

    /// The warning about one more index on a table, which then has `count`.
    ///
    /// # Errors
    /// These are too many indexes.
    pub fn check_index(&self, index: &str, table: &str, count: u64) -> Result<Option<String>> {
        self.secondary_indexes_per_table.check(
            "secondary_indexes_per_table",
            count,
            |limit| {
                format!(
                    "Creating secondary index {index} on table {table}, current number of indexes {count} exceeds warning \
                     threshold of {limit}."
                )
            },
            |limit| {
                format!(
                    "Tables cannot have more than {limit} secondary indexes, aborting the creation of secondary index \
                     {index} on table {table}"
                )
            },
        )
    }
}

/// The text of a warning by a guardrail.
pub fn text(name: &str, what: impl Display) -> String {
    format!("Guardrail {name} violated: {what}")
}

/// The failure of a guardrail.
pub fn violated(name: &str, what: impl Display) -> Failure {
    Failure::invalid(text(name, what))
}

/// Fails if a feature is disabled.
pub fn ensure(enabled: bool, name: &str, what: &str) -> Result<()> {
    if enabled { Ok(()) } else { Err(violated(name, format!("{what} is not allowed"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_still_fine() {
        let threshold = Threshold { warn: Some(3), fail: Some(5) };
        let check = |value| threshold.check_size("x", value, format!("{value} things"));
        assert_eq!(check(3), Ok(None));
        let warned = "Guardrail x violated: 4 things, this exceeds the warning threshold of 3.";
        assert_eq!(check(4), Ok(Some(warned.to_owned())));
        assert!(check(5).is_ok_and(|warning| warning.is_some()));
        let refused = check(6).expect_err("refused");
        assert_eq!(refused.text, "Guardrail x violated: 6 things, this exceeds the failure threshold of 5.");
        assert_eq!(Threshold::default().check_size("x", u64::MAX, ""), Ok(None));
    }

    #[test]
    fn values_are_warned_about_passed_over_and_refused() {
        let values = Values {
            warned: BTreeSet::from(["comment"]),
            ignored: BTreeSet::from(["gc_grace_seconds"]),
            disallowed: BTreeSet::from(["cdc", "memtable"]),
        };
        let check = |given: &[&'static str]| values.check("p", "Properties", given, |name| name.to_string());
        assert_eq!(check(&["caching"]), Ok(Vec::new()));
        assert_eq!(
            check(&["comment"]),
            Ok(vec![
                "Guardrail p violated: Provided values [comment] are not recommended for Properties (warned values are: \
                 [comment])"
                    .to_owned()
            ])
        );
        let refused = check(&["memtable", "comment"]).expect_err("refused");
        assert_eq!(
            refused.text,
            "Guardrail p violated: Provided values [memtable] are not allowed for Properties (disallowed values are: [cdc, \
             memtable])"
        );
        assert_eq!(check(&["comment", "gc_grace_seconds"]).map(|told| told.len()), Ok(2));
    }

    #[test]
    fn timestamps_may_be_so_far_from_now() {
        let threshold = |warn, fail| Threshold { warn: Some(warn), fail: Some(fail) };
        let (minimum_timestamp, maximum_timestamp) = (threshold(10, 20), threshold(5, 6));
        let guardrails = Guardrails { minimum_timestamp, maximum_timestamp, ..Guardrails::default() };
        let check = |timestamp| guardrails.check_timestamp("t", timestamp, 100).map(|told| told.is_some());
        for (timestamp, warned) in [(90, false), (89, true), (80, true), (105, false), (106, true)] {
            assert_eq!(check(timestamp), Ok(warned), "{timestamp}");
        }
        for (timestamp, text) in [
            (
                79,
                "Guardrail minimum_timestamp violated: The modification to table t has a timestamp 79 before the minimum \
                 allowable failure threshold 80. Timestamps too far in the past can cause writes can be unexpectedly lost",
            ),
            (
                107,
                "Guardrail maximum_timestamp violated: The modification to table t has a timestamp 107 after the maximum \
                 allowable failure threshold 106. Timestamps too far in the future can lead to data that can't be easily \
                 overwritten",
            ),
        ] {
            let refused = guardrails.check_timestamp("t", timestamp, 100).expect_err(text);
            assert_eq!(refused.text, text);
        }
    }

    #[test]
    fn what_is_switched_off_is_refused() {
        assert!(ensure(true, "group_by", "GROUP BY functionality").is_ok());
        let refused = ensure(false, "group_by", "GROUP BY functionality").expect_err("refused");
        assert_eq!(refused.text, "Guardrail group_by violated: GROUP BY functionality is not allowed");
    }
}
