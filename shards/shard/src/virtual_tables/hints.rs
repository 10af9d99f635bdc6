//! `pending_hints`: the closed files of hints, by node.

use super::contents::{int, text};
use super::{Named, VirtualRows};
use crate::schema::local::inet;
use crate::shard_state::Shard;
use cluster::topology::NodeIndex;
use model::Failure;

/// Adds a row for each node that there are files for. Of one that is no member only those are known.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let pending = shard.pending_hints().await?;
    let topology = shard.topology();
    for (host_id, pending) in pending {
        let millis = |at: u64| Some(i64::try_from(at).unwrap_or(i64::MAX).to_be_bytes().to_vec());
        let mut row: Vec<Named<'_>> = vec![
            ("host_id", Some(host_id.as_bytes().to_vec())),
            ("files", int(i32::try_from(pending.files).unwrap_or(i32::MAX))),
            ("newest", millis(pending.newest)),
            ("oldest", millis(pending.oldest)),
        ];
        if let Some(at) = topology.nodes().iter().position(|node| node.host_id == host_id) {
            let node = &topology.nodes()[at];
            let is_live = topology.live().contains(NodeIndex(at as u16));
            row.extend([
                ("address", Some(inet(node.address.ip()))),
                ("port", int(i32::from(node.address.port()))),
                ("dc", text(&node.data_center)),
                ("rack", text(&node.rack)),
                ("status", text(if is_live { "UP" } else { "DOWN" })),
            ]);
        }
        rows.push(row);
    }
    Ok(())
}
