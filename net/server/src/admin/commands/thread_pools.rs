//! `tpstats`: how busy pools of tasks are and how many tasks wait, as text, JSON or YAML with Cassandra's layout.
//!
//! Pools are those of Cassandra's stages that exist here, followed by the classes of tasks, summed over all cores:
//! tasks that wait for an event count as active, tasks that wait for the core as pending. `shardstats` shows each core.
//!
//! Dropped messages are not shown, because there are no other nodes to send any.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use runtime::Class;
use shard::Activity;
use shard::metrics::{ShardMetrics, stages};
use std::fmt::Write;

/// Runs the command.
pub(crate) async fn statistics(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let format = request.option("-F").unwrap_or_default();
    if !matches!(format, "" | "json" | "yaml") {
        return usage("arguments for -F are json,yaml only.");
    }
    let pools = pools(&node.shard.all_metrics().await?);
    match format {
        "" => text(&pools, out),
        "json" => json(&pools, out),
        _ => yaml(&pools, out),
    }
    Ok(())
}

fn pools(shards: &[ShardMetrics]) -> Vec<(String, Activity)> {
    let mut pools: Vec<(String, Activity)> = stages(shards).map(|(name, activity)| (name.to_owned(), activity)).into();
    for class in Class::ALL {
        let mut sum = Activity::default();
        for metrics in shards.iter().flat_map(|shard| &shard.classes).filter(|metrics| metrics.class == class) {
            let alive = metrics.begun.saturating_sub(metrics.completed);
            sum.active += alive.saturating_sub(metrics.ready);
            sum.pending += metrics.ready;
            sum.completed += metrics.completed;
        }
        pools.push((format!("{class:?}Tasks"), sum));
    }
    pools
}

fn text(pools: &[(String, Activity)], out: &mut String) {
    let mut table = TextTable::new(1);
    table.row(["Pool Name", "Active", "Pending", "Completed", "Blocked", "All time blocked"]);
    for (name, activity) in pools {
        let numbers =
            [activity.active, activity.pending, activity.completed, activity.blocked, activity.blocked_in_all];
        table.row(std::iter::once(name.clone()).chain(numbers.map(|number| number.to_string())));
    }
    table.print(out);
    out.push_str("\nLatencies waiting in queue (micros) per dropped message types\n");
    let mut table = TextTable::new(1);
    table.row(["Message type", "Dropped    ", "50%     ", "95%     ", "99%     ", "Max"]);
    table.print(out);
}

/// The numbers of a pool with their names, in the order in which Cassandra prints them.
fn members(activity: &Activity) -> [(&'static str, u64); 5] {
    [
        ("TotalBlockedTasks", activity.blocked_in_all),
        ("ActiveTasks", activity.active),
        ("PendingTasks", activity.pending),
        ("CurrentlyBlockedTasks", activity.blocked),
        ("CompletedTasks", activity.completed),
    ]
}

fn json(pools: &[(String, Activity)], out: &mut String) {
    let pools: Vec<String> = pools
        .iter()
        .map(|(name, activity)| {
            let numbers = members(activity).map(|(name, number)| format!("      \"{name}\" : {number}"));
            format!("    \"{name}\" : {{\n{}\n    }}", numbers.join(",\n"))
        })
        .collect();
    let _ = writeln!(
        out,
        "{{\n  \"ThreadPools\" : {{\n{}\n  }},\n  \"WaitLatencies\" : {{ }},\n  \"DroppedMessage\" : {{ }}\n}}",
        pools.join(",\n")
    );
}

fn yaml(pools: &[(String, Activity)], out: &mut String) {
    out.push_str("ThreadPools:\n");
    for (name, activity) in pools {
        let _ = writeln!(out, "  {name}:");
        for (name, number) in members(activity) {
            let _ = writeln!(out, "    {name}: {number}");
        }
    }
    out.push_str("WaitLatencies: {}\nDroppedMessage: {}\n\n");
}
