//! The option `write_sharding` of CREATE TABLE: `{'shards': N, 'by': ['c', ...]}`, where `by` names clustering columns,
//! or `{'shards': N, 'mode': 'random'}`. `'shards': 'auto'` has keys grow by themselves; `'initial_shards'` is what
//! they begin with then, `'sub_partition_size'` and `'sub_partition_throughput'` when they grow. What it does is in
//! [`model::write_sharding`].
//!
//! A table keeps what chooses the sub-partitions of its rows. Their number may grow: rows then move, which the cluster
//! does by itself once the schema says so.

use super::{DefinitionContext, Result};
use crate::ast::{Property, PropertyValue, WRITE_SHARDING as NAME};
use crate::errors::syntax;
use model::byte_size;
use model::tombstone_gc::GcMode;
use model::write_sharding::{SHARDS_MAX, SIZE_MAX, SIZE_MIN, THROUGHPUT_MAX};
use model::{Column, CqlType, Failure, KeyGrowth, Partitioner, ShardedBy, Table, WriteSharding};

/// Tables that forget deletions sooner cannot grow: a copy of rows could bring back what was deleted meanwhile.
pub const GROWTH_GC_GRACE_SECONDS_MIN: i32 = 3_600;

const INITIAL_SHARDS: &str = "initial_shards";
const SUB_PARTITION_SIZE: &str = "sub_partition_size";
const SUB_PARTITION_THROUGHPUT: &str = "sub_partition_throughput";

/// The option as written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WrittenSharding {
    shards: WrittenShards,
    /// The columns of `by`; `None` for the mode `random`.
    by: Option<Vec<String>>,
}

/// How many sub-partitions keys have.
#[derive(Clone, Copy, PartialEq, Debug)]
enum WrittenShards {
    Number(u16),
    /// What the cluster finds they need.
    Auto {
        initial: Option<u16>,
        growth: KeyGrowth,
    },
}

impl WrittenSharding {
    /// Reads the property.
    pub(crate) fn parse(property: &Property) -> Result<WrittenSharding> {
        let PropertyValue::Map(pairs) = &property.value else {
            return Err(syntax(format!("Invalid value for property '{NAME}'. It should be a map.")));
        };
        let (mut shards, mut mode, mut by) = (None, None, Vec::new());
        let (mut initial, mut size, mut throughput) = (None, None, None);
        for (name, value) in pairs {
            match name.as_str() {
                "shards" => shards = Some(value),
                "mode" => mode = Some(value.to_ascii_lowercase()),
                "by" => by.push(value.clone()),
                INITIAL_SHARDS => initial = Some(number_of_shards(INITIAL_SHARDS, value)?),
                SUB_PARTITION_SIZE => size = Some(size_of(value)?),
                SUB_PARTITION_THROUGHPUT => throughput = Some(throughput_of(value)?),
                other => return Err(Failure::config(format!("Unknown option '{other}' of {NAME}"))),
            }
        }
        let Some(shards) = shards else {
            return Err(Failure::config(format!("{NAME} needs the number of shards, or 'shards': 'auto'")));
        };
        let by = match (mode.as_deref(), by.is_empty()) {
            (Some("random"), true) => None,
            (Some("random"), false) => {
                return Err(Failure::config(format!("{NAME} with the mode random cannot name columns in by")));
            }
            (None | Some("calculated"), false) => Some(by),
            (None | Some("calculated"), true) => {
                return Err(Failure::config(format!(
                    "{NAME} needs clustering columns in by, such as 'by': ['c'], or 'mode': 'random'"
                )));
            }
            (Some(other), _) => {
                return Err(Failure::config(format!("mode of {NAME} must be calculated or random (got {other})")));
            }
        };
        if by.is_none() && throughput.is_some_and(|limit| limit > 0) {
            return Err(Failure::config(format!(
                "{SUB_PARTITION_THROUGHPUT} of {NAME} cannot be used with the mode random, whose rows are read from all \
                 sub-partitions: more of them would not be less busy"
            )));
        }
        let shards = match shards.eq_ignore_ascii_case("auto") {
            true => {
                let default = KeyGrowth::of_default(by.is_none());
                let growth = KeyGrowth {
                    size_max: size.unwrap_or(default.size_max),
                    throughput_max: throughput.unwrap_or(default.throughput_max),
                };
                WrittenShards::Auto { initial, growth }
            }
            false => {
                let of_auto = [
                    (INITIAL_SHARDS, initial.is_some()),
                    (SUB_PARTITION_SIZE, size.is_some()),
                    (SUB_PARTITION_THROUGHPUT, throughput.is_some()),
                ];
                if let Some((name, _)) = of_auto.into_iter().find(|(_, is_there)| *is_there) {
                    return Err(Failure::config(format!("{name} of {NAME} needs 'shards': 'auto'")));
                }
                WrittenShards::Number(number_of_shards("shards", shards)?)
            }
        };
        Ok(WrittenSharding { shards, by })
    }

    /// The option of a table that exists and is going to have more sub-partitions. Fails if that cannot be; `table` has
    /// its other options already.
    pub(crate) fn grown(&self, table: &Table, site: &DefinitionContext<'_>) -> Result<WriteSharding> {
        let refused = |why: String| Err(Failure::config(format!("{NAME} cannot be changed: {why}")));
        let name = table.full_name();
        let Some(before) = table.write_sharding() else {
            return refused(format!("table {name} was created without it, and its rows are where they were written"));
        };
        let by = match &self.by {
            None => ShardedBy::Random,
            Some(names) => ShardedBy::Clustering(positions(names, table)?),
        };
        if by != before.by {
            return refused(
                "what chooses the sub-partition of a row stays as it was when the table was created".into(),
            );
        }
        let (shards, growth) = match self.shards {
            WrittenShards::Number(shards) => (shards, None),
            WrittenShards::Auto { initial: Some(initial), .. } if initial != before.shards => {
                return refused(format!(
                    "keys of table {name} begin with {} shards, and {INITIAL_SHARDS} cannot be other than that",
                    before.shards
                ));
            }
            WrittenShards::Auto { growth, .. } => (before.shards, Some(growth)),
        };
        if (shards, growth) == (before.shards, before.growth) {
            return Ok(before.clone());
        }
        if let (None, Some(most)) = (growth, site.grown_keys.get(&table.id)) {
            return refused(format!(
                "keys of table {name} have grown by themselves, up to {most} shards, and keep what they have; with \
                 '{SUB_PARTITION_SIZE}': 0 and '{SUB_PARTITION_THROUGHPUT}': 0 no more keys grow"
            ));
        }
        if shards < before.shards {
            return refused(format!("table {name} has {} shards, and there cannot be less", before.shards));
        }
        if !shards.is_multiple_of(before.shards) {
            let most = SHARDS_MAX / before.shards * before.shards;
            return refused(match most == before.shards {
                true => format!("table {name} has {most} shards, and a multiple of that is above {SHARDS_MAX}"),
                false => format!(
                    "shards must be a multiple of those that table {name} has: {}, {} and so on up to {most}",
                    2 * before.shards,
                    (3 * before.shards).min(most)
                ),
            });
        }
        let sharding = WriteSharding { shards, by, growth };
        if shards > before.shards || growth.is_some() {
            check_growth(table, &sharding, "changed", site)?;
        }
        Ok(sharding)
    }

    /// The option of a new table that has all of its columns. Fails if the table cannot have it.
    pub(crate) fn of_table(
        &self,
        table: &Table,
        partitioner: Partitioner,
        site: &DefinitionContext<'_>,
    ) -> Result<WriteSharding> {
        let refused = |why: String| Err(Failure::config(format!("{NAME} cannot be used: {why}")));
        if partitioner != Partitioner::Murmur3 {
            return refused(format!("the partitioner is {}", partitioner.simple_name()));
        }
        if table.is_compact() {
            return refused(format!("table {} has COMPACT STORAGE", table.name));
        }
        if table.clustering_len == 0 {
            return refused(format!("table {} has no clustering columns", table.name));
        }
        if let Some(column) = table.statics().first() {
            return Err(no_statics(&column.name));
        }
        if table.is_counter() && self.by.is_none() {
            return refused("counters are updated, which the mode random does not allow".to_owned());
        }
        if !site.has_write_sharding {
            return Err(Failure::invalid(format!("Some nodes run a version without {NAME}; update them first")));
        }
        let (shards, growth) = match self.shards {
            WrittenShards::Number(shards) => (shards, None),
            WrittenShards::Auto { initial, growth } => (initial.unwrap_or(1), Some(growth)),
        };
        let by = match &self.by {
            None => ShardedBy::Random,
            Some(names) => ShardedBy::Clustering(positions(names, table)?),
        };
        let sharding = WriteSharding { shards, by, growth };
        if growth.is_some() {
            check_growth(table, &sharding, "used", site)?;
        }
        Ok(sharding)
    }
}

/// Fails if the number of sub-partitions of a table cannot grow; `done` says what is to be done with its option.
fn check_growth(table: &Table, sharding: &WriteSharding, done: &str, site: &DefinitionContext<'_>) -> Result<()> {
    let refused = |why: String| Err(Failure::config(format!("{NAME} cannot be {done}: {why}")));
    let name = table.full_name();
    if table.is_counter() {
        return refused(format!("table {name} has counters, which cannot be copied while they are counted"));
    }
    if !sharding.is_random() && forgets_deletions(table) {
        return refused(format!(
            "rows of table {name} would be copied while deletions are forgotten; gc_grace_seconds must be at least \
             {GROWTH_GC_GRACE_SECONDS_MIN}, and tombstone_gc not immediate"
        ));
    }
    let is_known = site.has_sub_partition_growth && (sharding.growth.is_none() || site.has_key_growth);
    if !is_known {
        let what = if sharding.growth.is_none() { "does not change" } else { "has no 'shards': 'auto'" };
        return Err(Failure::invalid(format!("Some nodes run a version in which {NAME} {what}; update them first")));
    }
    Ok(())
}

/// Fails if other options of a table have become such that its keys, which grow by themselves, could not.
pub(super) fn check_kept(table: &Table) -> Result<()> {
    match table.write_sharding() {
        Some(sharding) if sharding.growth.is_some() && !sharding.is_random() && forgets_deletions(table) => {
            Err(Failure::config(format!(
                "Keys of table {} grow by themselves ({NAME}), and rows would be copied while deletions are forgotten; \
                 gc_grace_seconds must be at least {GROWTH_GC_GRACE_SECONDS_MIN}, and tombstone_gc not immediate",
                table.full_name()
            )))
        }
        _ => Ok(()),
    }
}

/// Whether deletions are forgotten while rows are copied.
fn forgets_deletions(table: &Table) -> bool {
    let options = &table.options;
    options.tombstone_gc.mode == GcMode::Immediate || options.gc_grace_seconds < GROWTH_GC_GRACE_SECONDS_MIN
}

fn number_of_shards(name: &str, value: &str) -> Result<u16> {
    let number = value.parse().ok().filter(|number| (1..=SHARDS_MAX).contains(number));
    let wrong = || {
        let or = if name == "shards" { ", or 'auto'" } else { "" };
        format!("{name} of {NAME} must be a number from 1 to {SHARDS_MAX}{or} (got {value})")
    };
    number.ok_or_else(|| Failure::config(wrong()))
}

/// Bytes; 0 for no limit.
fn size_of(value: &str) -> Result<u64> {
    let size = byte_size::parse(value).filter(|size| *size == 0 || (SIZE_MIN..=SIZE_MAX).contains(size));
    size.ok_or_else(|| {
        Failure::config(format!(
            "{SUB_PARTITION_SIZE} of {NAME} must be a size from {} to {}, such as 128MiB, or 0 (got {value})",
            byte_size::text(SIZE_MIN),
            byte_size::text(SIZE_MAX)
        ))
    })
}

/// Requests a second; 0 for no limit.
fn throughput_of(value: &str) -> Result<u32> {
    value.parse().ok().filter(|limit| *limit <= THROUGHPUT_MAX).ok_or_else(|| {
        Failure::config(format!(
            "{SUB_PARTITION_THROUGHPUT} of {NAME} must be requests a second from 1 to {THROUGHPUT_MAX}, or 0 (got \
             {value})"
        ))
    })
}

/// The positions of the clustering columns with these names, ascending. Fails if a table cannot be sharded by them.
fn positions(names: &[String], table: &Table) -> Result<Vec<u16>> {
    let refused = |why: String| Err(Failure::config(format!("{NAME} cannot be used: {why}")));
    let mut positions = Vec::with_capacity(names.len());
    for name in names {
        let Some(column) = table.clustering().iter().find(|column| column.name == *name) else {
            return refused(format!("'{name}' in by is no clustering column of table {}", table.name));
        };
        if !has_one_form(column) {
            return refused(format!(
                "column '{name}' in by has the type {}, whose equal values can have different bytes",
                column.cql_type
            ));
        }
        if positions.contains(&column.position) {
            return refused(format!("by names '{name}' twice"));
        }
        positions.push(column.position);
    }
    positions.sort_unstable();
    Ok(positions)
}

/// The failure for a static column: the sub-partitions of a key would each have their own.
pub(super) fn no_statics(column: &str) -> Failure {
    Failure::config(format!("{NAME} cannot be used: column '{column}' is static"))
}

/// Whether values of a column that are the same clustering are the same bytes, and so have one hash.
fn has_one_form(column: &Column) -> bool {
    matches!(
        column.cql_type,
        CqlType::Ascii
            | CqlType::Bigint
            | CqlType::Blob
            | CqlType::Date
            | CqlType::Inet
            | CqlType::Int
            | CqlType::Smallint
            | CqlType::Text
            | CqlType::Time
            | CqlType::Timestamp
            | CqlType::Timeuuid
            | CqlType::Tinyint
            | CqlType::Uuid
    )
}
