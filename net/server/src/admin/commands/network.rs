//! `netstats`: where the node is in its life, and what it has said to other nodes.

use crate::admin::error::CommandError;
use crate::node_state::{LeavingState, NodeState};
use cluster::metadata::MemberState;
use shard::{LaneCounts, PeerLane, PeerTraffic};
use std::fmt::Write;

/// `netstats`. Nothing is streamed between nodes. Cassandra 5 counts neither attempts of read repair nor what is
/// repaired in the background, because it repairs nothing there; it prints them nevertheless.
pub(crate) async fn statistics(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let mut traffic = PeerTraffic::default();
    let mut mismatches = 0;
    for shard in node.shard.all_metrics().await? {
        traffic.add(&shard.peers);
        mismatches += shard.digests_differed;
    }
    let _ = write!(
        out,
        "Mode: {}\nNot sending any streams.\nRead Repair Statistics:\nAttempted: 0\nMismatch (Blocking): {mismatches}\n\
         Mismatch (Background): 0\n",
        mode(node)
    );
    pools(&traffic, out);
    Ok(())
}

/// Cassandra's word for where a node is in its life.
fn mode(node: &NodeState) -> &'static str {
    if node.has_left() {
        return "DECOMMISSIONED";
    }
    match node.leaving.get() {
        _ if node.drained.is_set() => "DRAINED",
        _ if node.drain.is_set() => "DRAINING",
        LeavingState::UnderWay => "LEAVING",
        LeavingState::Failed => "DECOMMISSION_FAILED",
        LeavingState::None => match node.shard.member_state() {
            Some(MemberState::Normal) => "NORMAL",
            Some(MemberState::Leaving) => "LEAVING",
            Some(MemberState::Joining) => "JOINING",
            None => "STARTING",
        },
    }
}

/// Messages by lane, under the names of Cassandra's connections.
fn pools(traffic: &PeerTraffic, out: &mut String) {
    let mut line = |cells: [&str; 5]| {
        let [name, active, pending, completed, dropped] = cells;
        let _ = writeln!(out, "{name:<25}{active:>10}{pending:>10}{completed:>15}{dropped:>10}");
    };
    line(["Pool Name", "Active", "Pending", "Completed", "Dropped"]);
    for (name, lane) in [
        ("Large messages", PeerLane::Bulk),
        ("Small messages", PeerLane::Requests),
        ("Gossip messages", PeerLane::Urgent),
    ] {
        let LaneCounts { pending, sent, dropped } = traffic.lanes.get(&lane).copied().unwrap_or_default();
        line([name, "n/a", &pending.to_string(), &sent.to_string(), &dropped.to_string()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_told_as_cassandras_connections() {
        let counts = LaneCounts { pending: 27, sent: 1038, dropped: 3 };
        let traffic = PeerTraffic { lanes: [(PeerLane::Urgent, counts)].into(), ..PeerTraffic::default() };
        let mut out = String::new();
        pools(&traffic, &mut out);
        assert_eq!(
            out,
            "Pool Name                    Active   Pending      Completed   Dropped\n\
             Large messages                  n/a         0              0         0\n\
             Small messages                  n/a         0              0         0\n\
             Gossip messages                 n/a        27           1038         3\n"
        );
    }
}
