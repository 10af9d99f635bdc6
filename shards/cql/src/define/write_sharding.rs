//! The option `write_sharding` of CREATE TABLE: `{'shards': N, 'by': ['c', ...]}`, where `by` names clustering columns,
//! or `{'shards': N, 'mode': 'random'}`. What it does is in [`model::write_sharding`].
//!
//! A table keeps what chooses the sub-partitions of its rows. Their number may grow: rows then move, which the cluster
//! does by itself once the schema says so.

use super::{DefinitionContext, Result};
use crate::ast::{Property, PropertyValue, WRITE_SHARDING as NAME};
use crate::errors::syntax;
use model::tombstone_gc::GcMode;
use model::write_sharding::SHARDS_MAX;
use model::{Column, CqlType, Failure, Partitioner, ShardedBy, Table, WriteSharding};

/// Tables that forget deletions sooner cannot grow: a copy of rows could bring back what was deleted meanwhile.
pub const GROWTH_GC_GRACE_SECONDS_MIN: i32 = 3_600;

/// The option as written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WrittenSharding {
    shards: u16,
    /// The columns of `by`; `None` for the mode `random`.
    by: Option<Vec<String>>,
}

impl WrittenSharding {
    /// Reads the property.
    pub(crate) fn parse(property: &Property) -> Result<WrittenSharding> {
        let PropertyValue::Map(pairs) = &property.value else {
            return Err(syntax(format!("Invalid value for property '{NAME}'. It should be a map.")));
        };
        let (mut shards, mut mode, mut by) = (None, None, Vec::new());
        for (name, value) in pairs {
            match name.as_str() {
                "shards" => {
                    let number = value.parse().ok().filter(|number| (1..=SHARDS_MAX).contains(number));
                    let wrong = || format!("shards of {NAME} must be a number from 1 to {SHARDS_MAX} (got {value})");
                    shards = Some(number.ok_or_else(|| Failure::config(wrong()))?);
                }
                "mode" => mode = Some(value.to_ascii_lowercase()),
                "by" => by.push(value.clone()),
                other => return Err(Failure::config(format!("Unknown option '{other}' of {NAME}"))),
            }
        }
        let Some(shards) = shards else { return Err(Failure::config(format!("{NAME} needs the number of shards"))) };
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
        if self.shards == before.shards {
            return Ok(before.clone());
        }
        if self.shards < before.shards {
            return refused(format!("table {name} has {} shards, and there cannot be less", before.shards));
        }
        if !self.shards.is_multiple_of(before.shards) {
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
        if table.is_counter() {
            return refused(format!("table {name} has counters, which cannot be copied while they are counted"));
        }
        let options = &table.options;
        let forgets = options.tombstone_gc.mode == GcMode::Immediate;
        if self.by.is_some() && (forgets || options.gc_grace_seconds < GROWTH_GC_GRACE_SECONDS_MIN) {
            return refused(format!(
                "rows of table {name} would be copied while deletions are forgotten; gc_grace_seconds must be at least \
                 {GROWTH_GC_GRACE_SECONDS_MIN}, and tombstone_gc not immediate"
            ));
        }
        if !site.has_sub_partition_growth {
            return Err(Failure::invalid(format!(
                "Some nodes run a version in which {NAME} does not change; update them first"
            )));
        }
        Ok(WriteSharding { shards: self.shards, by })
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
        let Some(names) = &self.by else { return Ok(WriteSharding { shards: self.shards, by: ShardedBy::Random }) };
        Ok(WriteSharding { shards: self.shards, by: ShardedBy::Clustering(positions(names, table)?) })
    }
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
