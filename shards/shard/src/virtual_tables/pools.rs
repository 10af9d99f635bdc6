//! Virtual tables about requests and background work: stages, running requests, batches, prepared statements.

use super::VirtualRows;
use super::contents::{bigint, double, int, text};
use crate::metrics::Distribution;
use crate::metrics::pools::REQUESTS;
use crate::ports::Activity;
use crate::shard_state::Shard;
use model::Failure;

/// The rows of `thread_pools`.
pub(super) async fn thread_pools(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    for (name, activity) in shard.pools().await? {
        push_pool(rows, name, &activity);
    }
    Ok(())
}

fn push_pool(rows: &mut VirtualRows<'_>, name: &str, activity: &Activity) {
    let count = |count: u64| int(i32::try_from(count).unwrap_or(i32::MAX));
    rows.push([
        ("name", text(name)),
        ("active_tasks", count(activity.active)),
        ("active_tasks_limit", count(activity.active_max)),
        ("blocked_tasks", bigint(activity.blocked)),
        ("blocked_tasks_all_time", bigint(activity.blocked_in_all)),
        ("completed_tasks", bigint(activity.completed)),
        ("pending_tasks", count(activity.pending)),
    ]);
}

/// The rows of `queries`. A request's slot in its core's list stands for Cassandra's thread; no request ever waits to
/// start.
pub(super) async fn queries(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    // After waiting once, this request is in the list too and is shown.
    runtime::yield_now().await;
    for (core, metrics) in shard.request_metrics().await?.into_iter().enumerate() {
        for running in metrics.running {
            rows.push([
                ("thread_id", text(&format!("{REQUESTS}-{core}-{}", running.place))),
                ("queued_micros", bigint(0)),
                ("running_micros", bigint(running.running_micros)),
                ("task", text(&running.task)),
            ]);
        }
    }
    Ok(())
}

/// The rows of `batch_metrics`.
pub(super) async fn batch_metrics(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let mut kinds: [Distribution; 3] = Default::default();
    for metrics in shard.request_metrics().await? {
        let of_core = [metrics.counter_batches, metrics.logged_batches, metrics.unlogged_batches];
        kinds.iter_mut().zip(&of_core).for_each(|(sum, part)| sum.add(part));
    }
    for (kind, found) in ["counter", "logged", "unlogged"].iter().zip(&kinds) {
        let percentile = |part| double(found.percentile(part) as f64);
        rows.push([
            ("name", text(&format!("partitions_per_{kind}_batch"))),
            ("max", bigint(found.max())),
            ("p50th", percentile(0.5)),
            ("p999th", percentile(0.999)),
            ("p99th", percentile(0.99)),
        ]);
    }
    Ok(())
}

/// The rows of `cql_metrics`.
pub(super) async fn cql_metrics(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let (mut prepared, mut evicted, mut prepared_runs, mut regular_runs) = (0, 0, 0, 0);
    for metrics in shard.request_metrics().await? {
        prepared = prepared.max(metrics.prepared);
        evicted += metrics.prepared_evicted;
        prepared_runs += metrics.prepared_runs;
        regular_runs += metrics.regular_runs;
    }
    let all = prepared_runs + regular_runs;
    let ratio = if all == 0 { 0.0 } else { prepared_runs as f64 / all as f64 };
    let values = [
        ("prepared_statements_count", prepared as f64),
        ("prepared_statements_evicted", evicted as f64),
        ("prepared_statements_executed", prepared_runs as f64),
        ("prepared_statements_ratio", ratio),
        ("regular_statements_executed", regular_runs as f64),
    ];
    for (name, value) in values {
        rows.push([("name", text(name)), ("value", double(value))]);
    }
    Ok(())
}
