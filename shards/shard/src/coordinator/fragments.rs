//! What this node gives to a read that compares or merges several replicas: an answer of each core that owns some of
//! it.

use crate::messages::data::{DigestReply, FragmentRequest, ReadRequest};
use crate::messages::{Reply, Request};
use crate::shard_state::Shard;
use model::fragment_block::FragmentBlock;
use model::query::{Partitions, ReadCommand};
use model::{Failure, Home, ShardMap};
use runtime::ShardId;
use runtime::sync::join_all;

/// The cores that own what a command reads.
fn owners(shard: &Shard, home: Home, command: &ReadCommand) -> Vec<ShardId> {
    let map = ShardMap::new(shard.partitioner(), runtime::shard_count() as u16);
    match (&command.partitions, home) {
        (Partitions::Key(key), _) => vec![ShardId(home.owner(map, key.token))],
        (Partitions::Range(_), Home::Shard0) => vec![ShardId(0)],
        (Partitions::Range(_), Home::ByToken) => (0..runtime::shard_count() as u16).map(ShardId).collect(),
    }
}

/// Rows and digests, one of each per core. A command with limits stops on each core by itself.
pub(crate) async fn read_digests(
    shard: &Shard,
    home: Home,
    request: &ReadRequest,
) -> Result<Vec<DigestReply>, Failure> {
    let asked = owners(shard, home, &request.command)
        .into_iter()
        .map(|owner| shard.call(owner, Request::ReadDigest(Box::new(request.clone()))));
    join_all(asked.collect()).await.into_iter().map(Reply::digest).collect()
}

/// Fragments, one block per core.
pub(crate) async fn read_fragments(
    shard: &Shard,
    home: Home,
    request: &FragmentRequest,
) -> Result<Vec<FragmentBlock>, Failure> {
    let asked = owners(shard, home, &request.command)
        .into_iter()
        .map(|owner| shard.call(owner, Request::ReadFragments(Box::new(request.clone()))));
    join_all(asked.collect()).await.into_iter().map(Reply::fragments).collect()
}
