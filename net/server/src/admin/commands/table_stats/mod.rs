//! `tablestats`: what tables hold and how they are used, as text, JSON or YAML with Cassandra's layout.
//!
//! Cassandra's lines about what is not counted here (false positives of filters, SSTables per read, cells in memtables)
//! are left out rather than shown as zero. Reads and writes are those that `system_views` shows.

mod lines;
mod report;

use super::table_names::{keyspaces, listed_table, listed_tables};
use super::table_usage::{KeyspaceUsage, MEASURES, TableUsage};
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use lines::{Line, Value, lines};
use model::Table;
use report::{Report, TableReport};
use shard::snapshots::Snapshot;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sort keys that `-s` accepts: those of Cassandra's that are counted here.
const SORT_KEYS: &[&str] = &[
    "average_live_cells_per_slice_last_five_minutes",
    "average_tombstones_per_slice_last_five_minutes",
    "bloom_filter_off_heap_memory_used",
    "bloom_filter_space_used",
    "compacted_partition_maximum_bytes",
    "compacted_partition_mean_bytes",
    "compacted_partition_minimum_bytes",
    "compression_metadata_off_heap_memory_used",
    "full_name",
    "index_summary_off_heap_memory_used",
    "local_read_count",
    "local_read_latency_ms",
    "local_write_latency_ms",
    "maximum_live_cells_per_slice_last_five_minutes",
    "maximum_tombstones_per_slice_last_five_minutes",
    "memtable_data_size",
    "memtable_off_heap_memory_used",
    "number_of_partitions_estimate",
    "off_heap_memory_used_total",
    "pending_flushes",
    "percent_repaired",
    "space_used_by_snapshots_total",
    "space_used_live",
    "space_used_total",
    "sstable_compression_ratio",
    "sstable_count",
    "table_name",
    "max_sstable_size",
    "local_read_write_ratio",
];
/// Runs the command.
pub(crate) async fn statistics(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let format = request.option("-F").unwrap_or_default();
    if !matches!(format, "" | "json" | "yaml") {
        return usage("arguments for -F are json,yaml only.");
    }
    let sort = request.option("-s");
    if let Some(key) = sort
        && !SORT_KEYS.contains(&key)
    {
        return usage(format!("argument for sort must be one of: {}", SORT_KEYS.join(", ")));
    }
    let top = match request.option("-t") {
        None => None,
        Some(_) if sort.is_none() => return usage("cannot filter top K tables without specifying a sort key."),
        Some(top) => match top.parse::<usize>() {
            Ok(top) if top > 0 => Some(top),
            Ok(_) => return usage("argument for top must be a positive integer."),
            Err(_) => return usage(format!("top: can not convert \"{top}\" to a Integer")),
        },
    };
    let tables = chosen(node, request)?;
    let table_count = tables.len();
    let mut reports = Vec::with_capacity(table_count);
    let snapshots = node.shard.snapshots().await?;
    let measured = node.shard.measured(&MEASURES).await?;
    for table in tables {
        let statistics = node.shard.statistics(table.id).await?;
        let directories = shard::directories_of(&node.shard.node_config().directories, &table);
        let is_own = |found: &&Snapshot| {
            found.directories.iter().any(|found| directories.iter().any(|directory| found.starts_with(directory)))
        };
        let snapshot_bytes = snapshots.iter().filter(is_own).map(|found| found.sstable_bytes).sum();
        let mut lines = lines(&statistics, &TableUsage::of(&measured, &table), snapshot_bytes);
        if request.has("-l") {
            lines.push(Line {
                key: "sstables_in_correct_location",
                title: "SSTables in correct location",
                value: Value::Flag(statistics.misplaced_sstables == 0),
            });
        }
        reports.push(TableReport { table, lines, flushing: statistics.flushing });
    }
    let mut usage: BTreeMap<String, KeyspaceUsage> = BTreeMap::new();
    for table in listed_tables(&node.shard.schema()) {
        usage.entry(table.keyspace.clone()).or_default().add(&TableUsage::of(&measured, table));
    }
    if let Some(key) = sort {
        reports.sort_by(|a, b| compare(key, a, b));
        reports.truncate(top.unwrap_or(usize::MAX));
    }
    let report = Report { tables: reports, usage, table_count, sort, top, human: request.has("-H") };
    match format {
        "" => report.text(out),
        "json" => report.json(out),
        _ => report.yaml(out),
    }
    Ok(())
}

/// The tables that the arguments select.
fn chosen(node: &NodeState, request: &Request) -> Result<Vec<Arc<Table>>, CommandError> {
    let schema = node.shard.schema();
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for argument in &request.arguments {
        let (keyspace, table) = match argument.split_once('.') {
            Some((keyspace, table)) => (keyspace, Some(table)),
            None => (argument.as_str(), None),
        };
        named.entry(keyspace).or_default().extend(table);
    }
    for (name, tables) in &named {
        let Some(keyspace) = keyspaces(&schema).find(|keyspace| keyspace.name == **name) else {
            return usage(format!("Unknown keyspace: {name}"));
        };
        let is_unknown = |table: &&str| listed_table(keyspace, table).is_none();
        let unknown: Vec<&str> = tables.iter().copied().filter(is_unknown).collect();
        if !unknown.is_empty() {
            return usage(format!("Unknown tables: [{}] in keyspace: {name}", unknown.join(", ")));
        }
    }
    let ignored = request.has("-i");
    let is_named = |table: &Table| {
        named
            .get(table.keyspace.as_str())
            .is_some_and(|tables| tables.is_empty() || tables.contains(&table.name.as_str()))
    };
    Ok(listed_tables(&schema).filter(|table| named.is_empty() || is_named(table) != ignored).cloned().collect())
}

/// The order of two tables by a sort key: names ascend, numbers descend.
fn compare(key: &str, a: &TableReport, b: &TableReport) -> Ordering {
    let number = |report: &TableReport| report.lines.iter().find(|line| line.key == key).map_or(0.0, Line::number);
    let by_name = (&a.table.keyspace, &a.table.name).cmp(&(&b.table.keyspace, &b.table.name));
    match key {
        "full_name" => by_name,
        "table_name" => a.table.name.cmp(&b.table.name).then(by_name),
        _ => number(b).total_cmp(&number(a)).then(by_name),
    }
}
