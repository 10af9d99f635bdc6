//! Hashes of what this node has of a segment: those of all its cores together.

use crate::messages::repair::{Validation, ValidationRequest, Wanted};
use crate::messages::{Reply, Request};
use crate::replica;
use crate::shard_state::Shard;
use cluster::repair::partitions::PartitionList;
use cluster::repair::tree::Tree;
use model::Failure;
use runtime::ShardId;
use runtime::sync::join_all;

/// Hashes what the cores of this node have.
pub(crate) async fn validate_here(shard: &Shard, request: &ValidationRequest) -> Result<Validation, Failure> {
    let table = replica::wait_for_table(shard, request.table).await?;
    let placement = shard.placement_of(&table)?;
    let cores = placement.shards_of(placement.keyspace().topology().here());
    let asked = cores.map(|core| shard.call(ShardId(core), Request::Validate(Box::new(request.clone()))));
    let answers = join_all(asked.collect()).await.into_iter().map(Reply::validated);
    match request.wanted {
        Wanted::Tree => {
            let mut sum = Tree::default();
            for answer in answers {
                sum.merge(&answer?.tree()?);
            }
            Ok(Validation::Tree(sum))
        }
        Wanted::Partitions(_) => {
            let lists: Vec<PartitionList> =
                answers.map(|answer| answer?.partitions()).collect::<Result<_, Failure>>()?;
            Ok(Validation::Partitions(PartitionList::merged(lists)))
        }
    }
}
