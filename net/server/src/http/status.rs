//! `/status`: the node's identity, and whether it serves clients.

use crate::config::RELEASE_VERSION;
use crate::node_state::NodeState;
use serde_json::json;

/// The answer to `/status`.
pub(super) fn json(node: &NodeState) -> String {
    let (shard, config) = (&node.shard, node.shard.node_config());
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cassandra_version": RELEASE_VERSION,
        "state": if node.drained.is_set() { "DRAINED" } else { "NORMAL" },
        "uptime_seconds": runtime::now().since(node.started).as_secs(),
        "shards": runtime::shard_count(),
        "cluster_name": config.cluster_name,
        "host_id": shard.host_id().to_string(),
        "data_center": config.data_center,
        "rack": config.rack,
        "listen_address": config.listen_address.to_string(),
        "native_transport_port": config.native_port,
        "schema_version": shard.schema().version.to_string(),
    });
    format!("{status:#}\n")
}
