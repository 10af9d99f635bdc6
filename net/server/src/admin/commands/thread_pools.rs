//! `tpstats`: how busy pools of tasks are and how many tasks wait, as text, JSON or YAML with Cassandra's layout.
//!
//! Pools are those of Cassandra's stages that exist here, followed by the classes of tasks, summed over all cores:
//! tasks that wait for an event count as active, tasks that wait for the core as pending. `shardstats` shows each core.
//!
//! Dropped messages between nodes are shown by verb, those verbs that dropped any. How long they had waited is not
//! measured.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use runtime::Class;
use shard::metrics::{ShardMetrics, stages};
use shard::{Activity, PeerTraffic, Verb};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Messages between nodes that were dropped.
type Dropped = BTreeMap<Verb, u64>;

/// Runs the command.
pub(crate) async fn statistics(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let format = request.option("-F").unwrap_or_default();
    if !matches!(format, "" | "json" | "yaml") {
        return usage("arguments for -F are json,yaml only.");
    }
    let metrics = node.shard.all_metrics().await?;
    let mut traffic = PeerTraffic::default();
    metrics.iter().for_each(|shard| traffic.add(&shard.peers));
    let (pools, dropped) = (pools(&metrics), traffic.dropped);
    match format {
        "" => text(&pools, &dropped, out),
        "json" => json(&pools, &dropped, out),
        _ => yaml(&pools, &dropped, out),
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

fn text(pools: &[(String, Activity)], dropped: &Dropped, out: &mut String) {
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
    for (verb, count) in dropped {
        let unknown = ["N/A"; 4].map(str::to_owned);
        table.row([verb.name().to_owned(), count.to_string()].into_iter().chain(unknown));
    }
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

fn json(pools: &[(String, Activity)], dropped: &Dropped, out: &mut String) {
    let pools: Vec<String> = pools
        .iter()
        .map(|(name, activity)| {
            let numbers = members(activity).map(|(name, number)| format!("      \"{name}\" : {number}"));
            format!("    \"{name}\" : {{\n{}\n    }}", numbers.join(",\n"))
        })
        .collect();
    let dropped: Vec<String> =
        dropped.iter().map(|(verb, count)| format!("    \"{}\" : {count}", verb.name())).collect();
    let dropped = if dropped.is_empty() { " ".to_owned() } else { format!("\n{}\n  ", dropped.join(",\n")) };
    let _ = writeln!(
        out,
        "{{\n  \"ThreadPools\" : {{\n{}\n  }},\n  \"WaitLatencies\" : {{ }},\n  \"DroppedMessage\" : {{{dropped}}}\n}}",
        pools.join(",\n")
    );
}

fn yaml(pools: &[(String, Activity)], dropped: &Dropped, out: &mut String) {
    out.push_str("ThreadPools:\n");
    for (name, activity) in pools {
        let _ = writeln!(out, "  {name}:");
        for (name, number) in members(activity) {
            let _ = writeln!(out, "    {name}: {number}");
        }
    }
    out.push_str("WaitLatencies: {}\n");
    if dropped.is_empty() {
        out.push_str("DroppedMessage: {}\n");
    } else {
        out.push_str("DroppedMessage:\n");
        for (verb, count) in dropped {
            let _ = writeln!(out, "  {}: {count}", verb.name());
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_messages_are_shown_by_verb() {
        let dropped: Dropped = [(Verb::Echo, 3), (Verb::GossipSyn, 12)].into();
        let mut out = String::new();
        text(&[], &dropped, &mut out);
        let lines: Vec<&str> = out.lines().skip_while(|line| !line.starts_with("Message type")).skip(1).collect();
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["GOSSIP_DIGEST_SYN", "12", "N/A", "N/A", "N/A", "N/A"]
        );
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["ECHO_REQ", "3", "N/A", "N/A", "N/A", "N/A"]);
        let mut out = String::new();
        json(&[], &dropped, &mut out);
        assert!(
            out.contains("\"DroppedMessage\" : {\n    \"GOSSIP_DIGEST_SYN\" : 12,\n    \"ECHO_REQ\" : 3\n  }"),
            "{out}"
        );
        let mut out = String::new();
        yaml(&[], &dropped, &mut out);
        assert!(out.ends_with("DroppedMessage:\n  GOSSIP_DIGEST_SYN: 12\n  ECHO_REQ: 3\n\n"), "{out}");
        let mut out = String::new();
        json(&[], &Dropped::new(), &mut out);
        assert!(out.contains("\"DroppedMessage\" : { }"), "{out}");
    }
}
