//! Commands about hints: `statushandoff`, `disablehandoff`, `enablehandoff`, `pausehandoff`, `resumehandoff`,
//! `truncatehints`, `listpendinghints`, `disablehintsfordc`, `enablehintsfordc`, `setmaxhintwindow`,
//! `getmaxhintwindow`, `sethintedhandoffthrottlekb`. Texts are Cassandra's.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use cluster::topology::{Node, NodeIndex, Topology};
use model::text::instant;
use shard::{HintChange, PendingHints};
use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;
use uuid::Uuid;

/// `statushandoff`.
pub(crate) fn status(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let options = node.shard.hint_options();
    let _ = writeln!(out, "Hinted handoff is {}running", if options.enabled { "" } else { "not " });
    for name in options.disabled_centers {
        let _ = writeln!(out, "Data center {name} is disabled");
    }
    Ok(())
}

/// `disablehandoff`, `enablehandoff`, `pausehandoff`, `resumehandoff`.
pub(crate) async fn change(node: &NodeState, change: HintChange) -> Result<(), CommandError> {
    Ok(node.shard.change_hints(change).await?)
}

/// `disablehintsfordc` and `enablehintsfordc`; any name is taken.
pub(crate) async fn set_center(node: &NodeState, request: &Request, enabled: bool) -> Result<(), CommandError> {
    let [name] = request.arguments.as_slice() else {
        return usage(format!("{} requires exactly one data center", request.command));
    };
    change(node, HintChange::Center { name: name.clone(), enabled }).await
}

/// `getmaxhintwindow`.
pub(crate) fn window(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let _ = writeln!(out, "Current max hint window: {} ms", node.shard.hint_options().window.as_millis());
    Ok(())
}

/// `setmaxhintwindow`.
pub(crate) async fn set_window(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let millis = number(request, "max_hint_window", "Invalid duration: value must be non-negative")?;
    change(node, HintChange::Window(Duration::from_millis(millis))).await
}

/// `sethintedhandoffthrottlekb`.
pub(crate) async fn set_throttle(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let kibibytes = number(request, "throttle_in_kb", "Invalid data storage: value must be non-negative")?;
    change(node, HintChange::Throttle(kibibytes << 10)).await
}

/// The only argument, which is a number.
fn number(request: &Request, name: &str, negative: &str) -> Result<u64, CommandError> {
    let text = match request.arguments.as_slice() {
        [] => return usage(format!("Required parameters are missing: {name}")),
        [text] => text,
        [_, more @ ..] => return usage(format!("Found unexpected parameters: [{}]", more.join(", "))),
    };
    match text.parse::<i32>() {
        Ok(number) => u64::try_from(number).or_else(|_| usage(negative)),
        Err(_) => usage(format!("{name}: can not convert \"{text}\" to a Integer")),
    }
}

/// `truncatehints`: of all nodes, or of that at an address; of several addresses the last one counts.
pub(crate) async fn truncate(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let Some(text) = request.arguments.last() else { return Ok(node.shard.delete_hints(None).await?) };
    let Ok(address) = text.parse::<IpAddr>() else {
        return usage(format!("java.net.UnknownHostException: {text}: Name or service not known"));
    };
    let topology = node.shard.topology();
    let found = topology.nodes().iter().find(|node| node.address.ip() == address).map(|node| node.host_id);
    let Some(host_id) = found else {
        let port = node.shard.node_config().storage_port;
        return usage(format!("Can't delete hints for unknown address /{address}:{port}"));
    };
    Ok(node.shard.delete_hints(Some(host_id)).await?)
}

/// `listpendinghints`.
pub(crate) async fn list(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let pending = node.shard.pending_hints().await?;
    if pending.is_empty() {
        out.push_str("This node does not have any pending hints\n");
        return Ok(());
    }
    let topology = node.shard.topology();
    let mut table = TextTable::new(1);
    table.row(["Host ID", "Address", "Rack", "DC", "Status", "Total files", "Newest", "Oldest"]);
    pending.iter().for_each(|(host_id, pending)| table.row(row(&topology, *host_id, pending)));
    table.print(out);
    out.push('\n');
    Ok(())
}

fn row(topology: &Topology, host_id: Uuid, pending: &PendingHints) -> [String; 8] {
    let at = topology.nodes().iter().position(|node| node.host_id == host_id);
    let is_live = at.is_some_and(|at| topology.live().contains(NodeIndex(at as u16)));
    let known = at.map(|at| &topology.nodes()[at]);
    let told = |of: fn(&Node) -> String| known.map_or_else(|| "Unknown".to_owned(), of);
    [
        host_id.to_string(),
        told(|node| node.address.to_string()),
        told(|node| node.rack.clone()),
        told(|node| node.data_center.clone()),
        if known.is_none() {
            "Unknown"
        } else if is_live {
            "UP"
        } else {
            "DOWN"
        }
        .into(),
        pending.files.to_string(),
        moment(pending.newest),
        moment(pending.oldest),
    ]
}

/// A time in milliseconds since 1970 as Cassandra shows it, in UTC: `2026-11-23 02:13:36,551`.
fn moment(millis: u64) -> String {
    let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX / 1000);
    let text = instant::format(seconds.saturating_mul(1000));
    format!("{},{:03}", text.trim_end_matches('Z').replace('T', " "), millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_cassandra_shows_them() {
        assert_eq!(moment(1_795_400_016_551), "2026-11-23 02:13:36,551");
        assert_eq!(moment(1_795_399_980_007), "2026-11-23 02:13:00,007");
    }
}
