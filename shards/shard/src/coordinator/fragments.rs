//! What this node gives to a read that compares or merges several replicas: an answer of each core that owns some of
//! it.

use crate::messages::data::{DigestReply, FragmentRequest, ReadRequest};
use crate::messages::{Reply, Request};
use crate::replica;
use crate::shard_state::Shard;
use engine::RepairSet;
use model::Failure;
use model::fragment_block::FragmentBlock;
use model::query::{Partitions, ReadCommand};
use runtime::ShardId;
use runtime::sync::join_all;

/// The cores that own what a command reads.
async fn owners(shard: &Shard, command: &ReadCommand) -> Result<Vec<ShardId>, Failure> {
    let table = replica::wait_for_table(shard, command.table).await?;
    let placement = shard.placement_of(&table)?;
    let here = placement.keyspace().topology().here();
    Ok(match &command.partitions {
        Partitions::Key(key) => vec![ShardId(placement.shard_of(here, key.token))],
        Partitions::Range(_) => placement.shards_of(here).map(ShardId).collect(),
    })
}

/// Rows and digests, one of each per core. A command with limits stops on each core by itself.
pub(crate) async fn read_digests(shard: &Shard, request: &ReadRequest) -> Result<Vec<DigestReply>, Failure> {
    let asked = owners(shard, &request.command)
        .await?
        .into_iter()
        .map(|owner| shard.call(owner, Request::ReadDigest(Box::new(request.clone()))));
    join_all(asked.collect()).await.into_iter().map(Reply::digest).collect()
}

/// Fragments, one block per core.
pub(crate) async fn read_fragments(shard: &Shard, request: &FragmentRequest) -> Result<Vec<FragmentBlock>, Failure> {
    let asked = owners(shard, &request.command)
        .await?
        .into_iter()
        .map(|owner| shard.call(owner, Request::ReadFragments(Box::new(request.clone()))));
    join_all(asked.collect()).await.into_iter().map(Reply::fragments).collect()
}

/// Fragments of one set of SSTables, one block per core.
pub(crate) async fn read_fragments_of(
    shard: &Shard,
    set: RepairSet,
    request: &FragmentRequest,
) -> Result<Vec<FragmentBlock>, Failure> {
    let asked = owners(shard, &request.command)
        .await?
        .into_iter()
        .map(|owner| shard.call(owner, Request::ReadFragmentsOf(Box::new((set, request.clone())))));
    join_all(asked.collect()).await.into_iter().map(Reply::fragments).collect()
}
