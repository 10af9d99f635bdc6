//! Commands about compaction: `getcompactionthroughput`, `setcompactionthroughput`, `enableautocompaction`,
//! `disableautocompaction`, `compactionstats`. `compact` and `compactionhistory` have files of their own.

use super::table_names;
use crate::admin::error::{CommandError, usage};
use crate::admin::number_format::{double, file_size};
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use shard::compaction_history::name_of;
use shard::{CompactionStatistics, RunningCompaction, TableAnswer, TableVerb};
use std::fmt::Write;

/// The current limit of compaction, MiB read per second.
fn mebibytes(node: &NodeState) -> f64 {
    node.compaction_throughput.get() as f64 / f64::from(1 << 20)
}

/// `getcompactionthroughput`.
pub(crate) fn throughput(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let mebibytes = mebibytes(node);
    let _ = match request.has("-d") {
        true => writeln!(out, "Current compaction throughput: {} MiB/s", double(mebibytes)),
        false if mebibytes.fract() != 0.0 => {
            let text = "Use the -d flag to quiet this error and get the exact throughput in MiB/s";
            return Err(CommandError::Failed(text.into()));
        }
        false => writeln!(out, "Current compaction throughput: {mebibytes:.0} MB/s"),
    };
    Ok(())
}

/// `setcompactionthroughput`.
pub(crate) async fn set_throughput(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let text = match request.arguments.as_slice() {
        [] => return usage("Required parameters are missing: compaction_throughput"),
        [text] => text,
        [_, more @ ..] => return usage(format!("Found unexpected parameters: [{}]", more.join(", "))),
    };
    let Ok(mebibytes) = text.parse::<i32>() else {
        return usage(format!("compaction_throughput: can not convert \"{text}\" to a Integer"));
    };
    let Ok(mebibytes) = u32::try_from(mebibytes) else {
        return usage("Invalid data rate: value must be non-negative");
    };
    let bytes_per_second = u64::from(mebibytes) << 20;
    node.shard.on_every_shard(TableVerb::SetThroughput(bytes_per_second)).await?;
    node.compaction_throughput.set(bytes_per_second);
    Ok(())
}

/// `enableautocompaction` and `disableautocompaction`.
pub(crate) async fn set_auto(node: &NodeState, request: &Request, on: bool) -> Result<(), CommandError> {
    for table in table_names::tables(node, &request.arguments)? {
        node.shard.on_every_shard(TableVerb::SetAutoCompaction { table: table.id, on }).await?;
    }
    Ok(())
}

/// `compactionstats`.
pub(crate) async fn statistics(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let mut sum = CompactionStatistics::default();
    let answers = node.shard.on_every_shard(TableVerb::Compactions).await?;
    let shards = answers.len();
    for answer in answers {
        if let TableAnswer::Compactions(statistics) = answer {
            sum.add(&statistics);
        }
    }
    let human = request.has("-H");
    let bytes = |bytes: u64| if human { file_size(bytes) } else { bytes.to_string() };
    let schema = node.shard.schema();
    let name = |id| match schema.table_by_id(id) {
        Some(table) => (table.keyspace.clone(), table.name.clone()),
        None => (String::new(), String::new()),
    };
    let mut table = TextTable::new(1);
    table.row(["concurrent compactors".to_owned(), shards.to_string()]);
    table.row(["pending tasks".to_owned(), sum.pending.values().sum::<usize>().to_string()]);
    for (id, count) in &sum.pending {
        let (keyspace, table_name) = name(*id);
        table.row([keyspace, table_name, count.to_string()]);
    }
    let throughput = node.compaction_throughput.get();
    table.row(["compactions completed".to_owned(), sum.completed.to_string()]);
    table.row(["data compacted".to_owned(), bytes(sum.data_bytes)]);
    table.row(["compressed data compacted".to_owned(), bytes(sum.stored_bytes)]);
    // No compaction is aborted or reduced when the disk is full.
    table.row(["compactions aborted", "0"]);
    table.row(["compactions reduced", "0"]);
    table.row(["sstables dropped from compaction", "0"]);
    table.row(["15 minute rate".to_owned(), format!("{:.2}/minute", sum.recent_rate * 60.0)]);
    table.row(["mean rate".to_owned(), format!("{:.2}/hour", sum.mean_rate * 3600.0)]);
    let shown = if throughput == 0 { "throttling disabled (0)".to_owned() } else { double(mebibytes(node)) };
    table.row(["compaction throughput (MiB/s)".to_owned(), shown]);
    if sum.running.is_empty() {
        table.print(out);
        return Ok(());
    }
    let rows = sum.running.iter().map(|running| {
        let (keyspace, table) = name(running.table);
        let (done, total) = (bytes(running.read_bytes), bytes(running.total_bytes));
        let (id, kind, unit) = (running.id.to_string(), name_of(running.kind).to_owned(), "bytes".to_owned());
        match request.has("-V") {
            false => vec![id, kind, keyspace, table, done, total, unit, percent(running)],
            true => {
                let target = running.directory.display().to_string();
                let (sstables, stored) = (running.sstables.to_string(), bytes(running.stored_bytes));
                vec![keyspace, table, id, percent(running), kind, done, sstables, total, stored, unit, target]
            }
        }
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let head: &[&str] = match request.has("-V") {
        false => &["id", "compaction type", "keyspace", "table", "completed", "total", "unit", "progress"],
        true => &[
            "keyspace",
            "table",
            "task id",
            "completion ratio",
            "kind",
            "progress",
            "sstables",
            "total",
            "total compressed",
            "unit",
            "target directory",
        ],
    };
    table.row(head.iter().copied());
    rows.into_iter().for_each(|row| table.row(row));
    let left: u64 = sum.running.iter().map(|running| running.total_bytes - running.read_bytes).sum();
    table.row(["active compaction remaining time".to_owned(), remaining(left, throughput)]);
    table.print(out);
    Ok(())
}

fn percent(running: &RunningCompaction) -> String {
    match running.total_bytes {
        0 => "n/a".into(),
        total => format!("{:.2}%", running.read_bytes as f64 / total as f64 * 100.0),
    }
}

/// How long compacting `bytes` takes at the limit.
fn remaining(bytes: u64, bytes_per_second: u64) -> String {
    match bytes.checked_div(bytes_per_second) {
        None => "n/a".into(),
        Some(seconds) => format!("{}h{:02}m{:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_told_in_hours() {
        assert_eq!(remaining(1, 0), "n/a");
        assert_eq!(remaining(3_725 * 1000 + 999, 1000), "1h02m05s");
    }
}
