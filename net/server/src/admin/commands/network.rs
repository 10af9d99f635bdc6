//! `netstats`: where the node is in its life, what is streamed, and what it has said to other nodes.

use crate::admin::error::CommandError;
use crate::admin::number_format::file_size;
use crate::admin::protocol::Request;
use crate::node_state::{LeavingState, NodeState};
use cluster::metadata::MemberState;
use cluster::topology::Topology;
use shard::{LaneCounts, PeerLane, PeerTraffic, StreamOperation, StreamProgress};
use std::fmt::Write;

/// `netstats`. Cassandra 5 counts neither attempts of read repair nor what is
/// repaired in the background, because it repairs nothing there; it prints them nevertheless.
pub(crate) async fn statistics(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let mut traffic = PeerTraffic::default();
    let mut mismatches = 0;
    for shard in node.shard.all_metrics().await? {
        traffic.add(&shard.peers);
        mismatches += shard.digests_differed;
    }
    let _ = writeln!(out, "Mode: {}", mode(node));
    let mut running = node.shard.stream_progress().await?;
    running.retain(|stream| !stream.is_done);
    let now_millis = runtime::wall_micros().div_euclid(1000);
    streams(&running, &node.shard.topology(), request.has("-H"), now_millis, out);
    let _ = write!(
        out,
        "Read Repair Statistics:\nAttempted: 0\nMismatch (Blocking): {mismatches}\nMismatch (Background): 0\n",
    );
    pools(&traffic, out);
    Ok(())
}

/// What is streamed now, plan by plan and node by node. How long it will still take is what Cassandra does not tell.
fn streams(running: &[StreamProgress], topology: &Topology, is_human: bool, now_millis: i64, out: &mut String) {
    if running.is_empty() {
        out.push_str("Not sending any streams.\n");
    }
    let bytes = |bytes: u64, unit: &str| if is_human { file_size(bytes) } else { format!("{bytes}{unit}") };
    let mut shown = Vec::new();
    for first in running {
        if shown.contains(&first.plan) {
            continue;
        }
        shown.push(first.plan);
        let operation = StreamOperation::of(first.operation).map_or("Stream", StreamOperation::text);
        let _ = writeln!(out, "{operation} {}", first.plan);
        let mut of_plan: Vec<&StreamProgress> = running.iter().filter(|stream| stream.plan == first.plan).collect();
        of_plan.sort_by_key(|stream| (stream.peer, !stream.is_incoming));
        for of_peer in of_plan.chunk_by(|a, b| a.peer == b.peer) {
            let peer = topology.nodes().iter().find(|node| node.host_id == of_peer[0].peer);
            let peer = peer.map_or_else(|| of_peer[0].peer.to_string(), |node| format!("/{}", node.address.ip()));
            let _ = writeln!(out, "    {peer}");
            for stream in of_peer {
                let (verb, past, way) = match stream.is_incoming {
                    true => ("Receiving", "received", "received from"),
                    false => ("Sending", "sent", "sent to"),
                };
                let percent = |done: u64, all: u64| if all == 0 { 100.0 } else { done as f64 / all as f64 * 100.0 };
                let (files, bytes_all) = (stream.files.max(stream.files_done), stream.bytes.max(stream.bytes_done));
                let _ = writeln!(
                    out,
                    "        {verb} {files} files, {} total. Already {past} {} files ({:.2}%), {} total ({:.2}%)",
                    bytes(bytes_all, " bytes"),
                    stream.files_done,
                    percent(stream.files_done, files),
                    bytes(stream.bytes_done, " bytes"),
                    percent(stream.bytes_done, bytes_all),
                );
                if let Some(left) = stream.time_left(now_millis) {
                    let _ = writeln!(
                        out,
                        "            About {} s left at {}/s",
                        left.as_secs(),
                        file_size(stream.rate(now_millis))
                    );
                }
                for (name, done, all) in &stream.current {
                    let whole = percent(*done, *all) as u64;
                    let _ = writeln!(out, "            {name} {done}/{all} bytes ({whole}%) {way} idx:0{peer}");
                }
            }
        }
    }
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
            Some(MemberState::Moving) => "MOVING",
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
    use cluster::topology::{Node, NodeIndex};
    use std::net::SocketAddr;
    use uuid::Uuid;

    #[test]
    fn streams_are_shown_as_cassandra_shows_them() {
        let node = |last: u8| Node {
            host_id: Uuid::from_u128(last.into()),
            address: SocketAddr::from(([127, 0, 0, last], 7000)),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            shards: model::ShardMap::new(model::Partitioner::Murmur3, 1),
            tokens: Vec::new(),
            features: 0,
        };
        let topology = Topology::new(vec![node(1), node(32)], NodeIndex(0), 1);
        let mut out = String::new();
        streams(&[], &topology, false, 0, &mut out);
        assert_eq!(out, "Not sending any streams.\n");
        let mut stream = StreamProgress {
            plan: Uuid::from_u128(7),
            operation: StreamOperation::Bootstrap as u8,
            peer: Uuid::from_u128(32),
            is_incoming: false,
            began_at: 0,
            changed_at: 0,
            files_done: 134,
            files: 135,
            bytes_done: 6_363_375,
            bytes: 6_813_363,
            is_done: false,
            failure: None,
            current: vec![("/d/da-1-bti-Data.db".into(), 94, 94)],
        };
        out.clear();
        streams(std::slice::from_ref(&stream), &topology, false, 0, &mut out);
        let id = Uuid::from_u128(7);
        let expected = "    /127.0.0.32\n        Sending 135 files, 6813363 bytes total. Already sent 134 files (99.26%), \
                        6363375 bytes total (93.40%)\n            /d/da-1-bti-Data.db 94/94 bytes (100%) sent to \
                        idx:0/127.0.0.32\n";
        assert_eq!(out, format!("Bootstrap {id}\n{expected}"));
        (stream.is_incoming, stream.current) = (true, Vec::new());
        out.clear();
        streams(&[stream.clone()], &topology, true, 0, &mut out);
        let expected = "    /127.0.0.32\n        Receiving 135 files, 6.5 MiB total. Already received 134 files \
                        (99.26%), 6.07 MiB total (93.40%)\n";
        assert_eq!(out, format!("Bootstrap {id}\n{expected}"));
        out.clear();
        streams(&[stream], &topology, true, 10_000, &mut out);
        assert_eq!(out, format!("Bootstrap {id}\n{expected}            About 0 s left at 621.42 KiB/s\n"));
    }

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
