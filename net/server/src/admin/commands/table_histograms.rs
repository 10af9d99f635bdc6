//! `tablehistograms`: distributions of a table's latencies, partition sizes and cell counts.
//!
//! Sizes and counts come from the statistics of the SSTables. Cassandra's column of SSTables per read is left out,
//! because they are not counted here.

use super::table_names::{keyspaces, listed_table, listed_tables};
use super::table_usage::{MEASURES, TableUsage};
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use model::Table;
use shard::Counts;
use std::fmt::Write;
use std::sync::Arc;

const NANOS_PER_MICROSECOND: f64 = 1e3;

/// Runs the command.
pub(crate) async fn histograms(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let schema = node.shard.schema();
    let find = |keyspace: &str, table: &str| {
        let keyspace = keyspaces(&schema).find(|found| found.name == keyspace);
        keyspace.and_then(|keyspace| listed_table(keyspace, table).cloned())
    };
    let tables: Vec<Arc<Table>> = match request.arguments.as_slice() {
        [] => listed_tables(&schema).cloned().collect(),
        [keyspace, table] => match find(keyspace, table) {
            Some(table) => vec![table],
            None => return usage(format!("Unknown table {keyspace}.{table}")),
        },
        [name] if name.split('.').count() == 2 => {
            let (keyspace, table) = name.split_once('.').unwrap_or_default();
            match find(keyspace, table) {
                Some(table) => vec![table],
                None => return usage(format!("Unknown table {name}")),
            }
        }
        _ => return usage("tablehistograms requires keyspace and table name arguments"),
    };
    let used = node.shard.measured(&MEASURES).await?;
    for table in tables {
        let TableUsage([reads, writes, ..]) = &TableUsage::of(&used, &table);
        let statistics = node.shard.statistics(table.id).await?;
        let (sizes, cells) = (&statistics.partition_sizes, &statistics.cell_counts);
        let _ = writeln!(out, "{}/{} histograms", table.keyspace, table.name);
        let mut rest = String::new();
        let mut line = |part: &str, read: u64, write: u64, size: i64, cells: i64| {
            let micros = |nanos: u64| nanos as f64 / NANOS_PER_MICROSECOND;
            let (read, write) = (micros(read), micros(write));
            let _ = writeln!(rest, "{part:<10}{read:>18.2}{write:>18.2}{size:>18}{cells:>18}");
        };
        for part in [50u8, 75, 95, 98, 99] {
            let share = f64::from(part) / 100.0;
            let of = |counts: &Counts| counts.percentile(share);
            line(&format!("{part}%"), reads.percentile(share), writes.percentile(share), of(sizes), of(cells));
        }
        line("Min", reads.min(), writes.min(), sizes.min(), cells.min());
        line("Max", reads.max(), writes.max(), sizes.max(), cells.max());
        let heads = ["Percentile", "Read Latency", "Write Latency", "Partition Size", "Cell Count"];
        let units = ["", "(micros)", "(micros)", "(bytes)", ""];
        for [first, others @ ..] in [heads, units] {
            let _ = write!(out, "{first:<10}");
            others.iter().for_each(|head| {
                let _ = write!(out, "{head:>18}");
            });
            out.push('\n');
        }
        let _ = writeln!(out, "{rest}");
    }
    Ok(())
}
