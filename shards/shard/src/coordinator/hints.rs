//! Mutations that replicas have missed.

use crate::shard_state::Shard;
use cluster::topology::Node;

/// Notes that a replica was down, failed or late when a mutation was sent to it. Returns whether this node keeps the
/// mutation, to send it again when the replica is back.
pub(crate) fn missed(shard: &Shard, node: &Node, mutation: &[u8]) -> bool {
    tracing::debug!(node = %node.address, bytes = mutation.len(), "a replica missed a mutation");
    shard.metrics().mutations_missed.increment();
    false
}
