//! `internode_inbound` and `internode_outbound`: what this node and each other member of the cluster have exchanged,
//! summed over all cores.

use super::VirtualRows;
use super::contents::{bigint, int, text};
use crate::ports::{PeerTraffic, TrafficCounts};
use crate::schema::local::inet;
use crate::shard_state::Shard;
use model::Failure;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Adds a row for each node that there are counts of in one direction.
pub(super) async fn fill(
    shard: &Shard,
    rows: &mut VirtualRows<'_>,
    direction: fn(&PeerTraffic) -> &BTreeMap<SocketAddr, TrafficCounts>,
) -> Result<(), Failure> {
    let mut sum = PeerTraffic::default();
    shard.all_metrics().await?.iter().for_each(|metrics| sum.add(&metrics.peers));
    for node in shard.topology().nodes() {
        let Some(counts) = direction(&sum).get(&node.address) else { continue };
        let key = [
            ("address", Some(inet(node.address.ip()))),
            ("port", int(i32::from(node.address.port()))),
            ("dc", text(&node.data_center)),
            ("rack", text(&node.rack)),
        ];
        rows.push(key.into_iter().chain(counts.iter().map(|(column, count)| (*column, bigint(*count)))));
    }
    Ok(())
}
