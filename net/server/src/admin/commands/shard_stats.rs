//! `shardstats`, a command that Cassandra does not have: what each core is busy with, what waits there, and how long
//! operations take.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use crate::operation_names;
use shard::metrics::operations::QUANTILES;
use shard::metrics::{Latency, ShardMetrics};
use std::time::Duration;

const NANOS_PER_MICROSECOND: f64 = 1e3;

/// Runs `shardstats [shard]`.
pub(crate) async fn statistics(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let shards = node.shard.all_metrics().await?;
    let only = match request.arguments.first() {
        None => None,
        Some(word) => match word.parse::<usize>().ok().filter(|shard| *shard < shards.len()) {
            Some(shard) => Some(shard),
            None => return usage(format!("{word} is not a shard: there are 0 to {}", shards.len() - 1)),
        },
    };
    let shown: Vec<(usize, &ShardMetrics)> =
        shards.iter().enumerate().filter(|(shard, _)| only.is_none_or(|only| only == *shard)).collect();
    classes(&shown, out);
    out.push('\n');
    queues(&shown, out);
    out.push('\n');
    latencies(&shown, out);
    Ok(())
}

fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}

fn classes(shards: &[(usize, &ShardMetrics)], out: &mut String) {
    let mut table = TextTable::new(2);
    let disk = ["Disk active", "Disk pending"];
    table.row(
        ["Shard", "Class", "Shares", "CPU (s)", "Polls", "Active", "Pending", "Completed"].into_iter().chain(disk),
    );
    for (shard, metrics) in shards {
        for class in &metrics.classes {
            let alive = class.begun.saturating_sub(class.completed);
            table.row([
                shard.to_string(),
                format!("{:?}", class.class),
                class.shares.to_string(),
                seconds(class.busy),
                class.polls.to_string(),
                alive.saturating_sub(class.ready).to_string(),
                class.ready.to_string(),
                class.completed.to_string(),
                class.disk_under_way.saturating_sub(class.disk_waiting).to_string(),
                class.disk_waiting.to_string(),
            ]);
        }
    }
    table.print(out);
}

fn queues(shards: &[(usize, &ShardMetrics)], out: &mut String) {
    let mut table = TextTable::new(2);
    let heads = ["Shard", "Thread CPU (s)", "Requests", "Calls pending", "Messages queued", "Connections"];
    table.row(heads.into_iter().chain(["Cache hits", "Cache misses", "Cache hit rate"]));
    for (shard, metrics) in shards {
        let cache = &metrics.cache;
        let rate = match cache.requests() {
            0 => "NaN".into(),
            all => format!("{:.3}", cache.hits as f64 / all as f64),
        };
        table.row([
            shard.to_string(),
            metrics.cpu.map_or_else(|| "-".into(), |(ran, _)| seconds(ran)),
            metrics.served.requests.active.to_string(),
            metrics.calls_waiting.to_string(),
            metrics.messages_waiting.iter().sum::<u64>().to_string(),
            metrics.served.connections.to_string(),
            cache.hits.to_string(),
            cache.misses.to_string(),
            rate,
        ]);
    }
    table.print(out);
}

/// Prints the latencies of those classes of operations that occurred.
fn latencies(shards: &[(usize, &ShardMetrics)], out: &mut String) {
    let mut table = TextTable::new(2);
    let parts = QUANTILES.map(|part| match part {
        1.0 => "Max".to_owned(),
        part => format!("{}%", short(part * 100.0)),
    });
    let heads = ["Shard", "Operation", "Count", "Mean (micros)"].map(str::to_owned);
    table.row(heads.into_iter().chain(parts));
    let micros = |nanos: f64| format!("{:.2}", nanos / NANOS_PER_MICROSECOND);
    for (shard, metrics) in shards {
        for (operation, latency) in metrics.latencies.iter().filter(|(_, latency)| latency.count > 0) {
            let Latency { count, total_nanos, quantiles, .. } = latency;
            let first = [
                shard.to_string(),
                operation_names::full_name(*operation),
                count.to_string(),
                micros(*total_nanos as f64 / *count as f64),
            ];
            table.row(first.into_iter().chain(quantiles.map(|nanos| micros(nanos as f64))));
        }
    }
    table.print(out);
}

/// A number with one decimal, or without decimals if that one is zero.
fn short(percent: f64) -> String {
    let text = format!("{percent:.1}");
    text.trim_end_matches(".0").to_owned()
}
