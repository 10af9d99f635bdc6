//! `streaming`: what is streamed to and from this node, and was lately; a row for each plan.

use super::contents::{bigint, text};
use super::{Named, VirtualRows};
use crate::messages::streams::StreamProgress;
use crate::shard_state::Shard;
use crate::stream::{self, StreamOperation};
use model::{Failure, value};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Adds the rows. A plan that this node leads is not its follower's.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let topology = shard.topology();
    let mut plans: BTreeMap<Uuid, Vec<StreamProgress>> = BTreeMap::new();
    for progress in stream::progress(shard).await? {
        plans.entry(progress.plan).or_default().push(progress);
    }
    let now = runtime::wall_micros().div_euclid(1000);
    for (plan, streams) in plans {
        let address = |of: &StreamProgress| {
            let node = topology.nodes().iter().find(|node| node.host_id == of.peer);
            node.map_or_else(|| of.peer.to_string(), |node| format!("/{}", node.address))
        };
        let mut peers: Vec<String> = streams.iter().map(address).collect();
        peers.sort_unstable();
        peers.dedup();
        let mut list = (peers.len() as i32).to_be_bytes().to_vec();
        peers.iter().for_each(|peer| value::push_element(&mut list, Some(peer.as_bytes())));
        let sum = |is_incoming: bool, of: fn(&StreamProgress) -> u64| {
            bigint(streams.iter().filter(|stream| stream.is_incoming == is_incoming).map(of).sum())
        };
        let began = streams.iter().map(|stream| stream.began_at).min().unwrap_or(now);
        let changed = streams.iter().map(|stream| stream.changed_at).max().unwrap_or(now);
        let (done, all) = streams.iter().fold((0, 0), |(done, all), of| (done + of.bytes_done, all + of.bytes));
        let is_done = streams.iter().all(|stream| stream.is_done);
        let failure = streams.iter().find_map(|stream| stream.failure.clone());
        let status = match (&failure, is_done) {
            (Some(_), _) => "failure",
            (None, true) => "success",
            (None, false) => "start",
        };
        let percentage = match (is_done && failure.is_none(), all) {
            (true, _) => 100.0,
            (false, 0) => 0.0,
            (false, all) => (done as f32 / all as f32 * 100.0).min(100.0),
        };
        let millis = |at: i64| Some(at.to_be_bytes().to_vec());
        let operation = streams.first().and_then(|stream| StreamOperation::of(stream.operation));
        let duration = if is_done { changed - began } else { now - began };
        let row: Vec<Named<'_>> = vec![
            ("id", Some(plan.as_bytes().to_vec())),
            ("follower", Some(vec![u8::from(!streams.iter().any(|stream| stream.is_incoming))])),
            ("operation", operation.and_then(|operation| text(operation.text()))),
            ("peers", Some(list)),
            ("status", text(status)),
            ("progress_percentage", Some(percentage.to_be_bytes().to_vec())),
            ("last_updated_at", millis(changed)),
            ("duration_millis", millis(duration.max(0))),
            ("failure_cause", failure.as_deref().and_then(text)),
            ("bytes_to_receive", sum(true, |of| of.bytes)),
            ("bytes_received", sum(true, |of| of.bytes_done)),
            ("files_to_receive", sum(true, |of| of.files)),
            ("files_received", sum(true, |of| of.files_done)),
            ("bytes_to_send", sum(false, |of| of.bytes)),
            ("bytes_sent", sum(false, |of| of.bytes_done)),
            ("files_to_send", sum(false, |of| of.files)),
            ("files_sent", sum(false, |of| of.files_done)),
            ("status_init_timestamp", millis(began)),
            ("status_start_timestamp", millis(began)),
            ("status_success_timestamp", (status == "success").then(|| changed.to_be_bytes().to_vec())),
            ("status_failure_timestamp", (status == "failure").then(|| changed.to_be_bytes().to_vec())),
        ];
        rows.push(row);
    }
    Ok(())
}
