//! What a node says about itself.

use crate::config::Config;
use crate::config::RELEASE_VERSION;
use cluster::gossip::{ApplicationState, Gossiper};
use cluster::metadata::MemberState;
use model::RingToken;
use shard::{Shard, TableStatistics, Version};
use std::cell::RefCell;
use std::net::SocketAddr;

/// The version of messages between nodes that Cassandra 5.0 tells.
const NET_VERSION: &str = "13";

/// Sets what does not change while the node runs, in the order in which Cassandra does.
pub(super) fn describe(gossiper: &mut Gossiper, config: &Config, shard: &Shard) {
    let node = &config.node;
    let versions = match node.sstables.version {
        Version::Da => "bti-da",
        Version::Nb => "big-nb",
        _ => "big-oa",
    };
    for (state, value) in [
        (ApplicationState::NET_VERSION, NET_VERSION.into()),
        (ApplicationState::HOST_ID, shard.host_id().to_string()),
        (ApplicationState::NATIVE_ADDRESS_AND_PORT, node.native_address().to_string()),
        (ApplicationState::RELEASE_VERSION, RELEASE_VERSION.into()),
        (ApplicationState::SSTABLE_VERSIONS, versions.into()),
        (ApplicationState::DC, node.data_center.clone()),
        (ApplicationState::RACK, node.rack.clone()),
        (ApplicationState::SHARDS, runtime::shard_count().to_string()),
        // The tokens themselves are in the metadata of the cluster; operators see that there are some.
        (ApplicationState::TOKENS, shard.tokens().len().to_string()),
    ] {
        gossiper.set(state, &value);
    }
    if let Some(address) = config.internal_address {
        let told = SocketAddr::new(address, node.storage_port).to_string();
        gossiper.set(ApplicationState::INTERNAL_ADDRESS_AND_PORT, &told);
    }
    refresh(gossiper, shard);
}

/// Sets what changes with the schema, the cluster's metadata and the clocks.
pub(super) fn refresh(gossiper: &mut Gossiper, shard: &Shard) {
    if let Some(status) = status(shard) {
        gossiper.set(ApplicationState::STATUS_WITH_PORT, &status);
    }
    gossiper.set(ApplicationState::SCHEMA, &shard.schema().version.to_string());
    gossiper.set(ApplicationState::EPOCH, &shard.topology().epoch().to_string());
    let offsets = gossiper.live().filter_map(|node| gossiper.clock_offset(node));
    // Whole tenths of seconds, so that noise is no change.
    let most = offsets.map(|offset| offset.micros.unsigned_abs() / 100_000 * 100).max();
    if let Some(millis) = most {
        gossiper.set(ApplicationState::CLOCK, &millis.to_string());
    }
}

/// Where the node is on its way into or out of the ring, in Cassandra's words; `None` while it is no member.
fn status(shard: &Shard) -> Option<String> {
    let metadata = shard.cluster_metadata();
    let state = match metadata.members.get(&shard.host_id())?.state {
        MemberState::Joining => "BOOT",
        MemberState::Normal => "NORMAL",
        MemberState::Leaving => "LEAVING",
        MemberState::Moving => "MOVING",
    };
    Some(format!("{state},{}", first_token(shard)))
}

/// The token that a status names: the first one in the order of texts, as in Cassandra, which takes its tokens from a
/// set of texts.
pub(super) fn first_token(shard: &Shard) -> String {
    shard.tokens().iter().map(RingToken::to_string).min().unwrap_or_default()
}

/// Sets the load: the bytes of all tables on disk.
pub(super) async fn measure_load(shard: &Shard, gossiper: &RefCell<Gossiper>) {
    let schema = shard.schema();
    let mut sum = TableStatistics::default();
    for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual()) {
        for table in keyspace.tables.values() {
            match shard.statistics(table.id).await {
                Ok(statistics) => sum.add(&statistics),
                Err(failure) => {
                    tracing::debug!(%failure, "the load is not known");
                    return;
                }
            }
        }
    }
    gossiper.borrow_mut().set(ApplicationState::LOAD, &format!("{:?}", sum.disk_bytes as f64));
}
