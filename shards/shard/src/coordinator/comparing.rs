//! Reads of one partition that have a choice of replicas, or need several of them.
//!
//! 1. One replica gives rows, with their digest if others are asked for it. Equal digests: the rows are those of all.
//! 2. Different digests: the replicas that answered are read again by merging what they have (`reconciling`).

use super::gathering::{Patience, PlacedRead, Unread, gather};
use super::index_candidates;
use super::read::ReadPlan;
use super::reconciling::{Reconciling, begin};
use super::replica_read::ReplicaRead;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::replica::row_sink::RowBlockSink;
use crate::shard_state::Shard;
use cluster::plan::{Form, PartitionReadPlan};
use model::query::Partitions;
use model::{DecoratedKey, Failure};
use runtime::Instant;

/// Reads the partition `key` as `asked` says, a plan by the placement of `plan`. The request began at `began`.
pub(crate) async fn read(
    shard: &Shard,
    plan: &ReadPlan,
    key: &DecoratedKey,
    mut asked: PartitionReadPlan,
    request: &ReadRequest,
    began: Instant,
) -> Result<ReadReply, Failure> {
    let deadline = began.after(plan.terms.timeout);
    let mut placement = plan.placement.clone();
    loop {
        let patience = Patience::of_table(shard, &plan.table, deadline);
        let read = PlacedRead { shard, plan, placement: &placement, request, patience };
        match compare(&read, &mut asked).await {
            Ok(reply) => return Ok(reply),
            Err(Unread::Failed(failure)) => return Err(failure),
            Err(Unread::Moved) => {}
        }
        placement = shard.placement_of(&plan.table)?;
        asked = super::asked_replica::plan_of(&placement, plan.terms.consistency, key)?;
    }
}

async fn compare(read: &PlacedRead<'_>, asked: &mut PartitionReadPlan) -> Result<ReadReply, Unread> {
    let PlacedRead { shard, plan, placement, request, patience } = *read;
    let is_compared = !asked.asks_one();
    if is_compared && request.index.is_some() {
        return Box::pin(index_candidates::read(read, asked)).await;
    }
    let ask = |replica, form| match is_compared {
        true => ReplicaRead::to_compare(read, replica, form == Form::Rows),
        false => ReplicaRead::for_rows(read, replica),
    };
    let answers = gather(shard, asked, &plan.table, placement.keyspace().topology(), patience, ask).await?;
    let first = answers.first().map(|(_, (digest, _))| *digest);
    if answers.iter().all(|(_, (digest, _))| Some(*digest) == first)
        && let Some(rows) = answers.into_iter().find_map(|(_, (_, rows))| rows)
    {
        return Ok(rows);
    }
    if plan.table.options.read_repair == "BLOCKING" {
        shard.metrics().digests_differed.increment();
    }
    shard.trace(|| mismatch(&request.command.partitions));
    let mut sink = RowBlockSink::new(shard.partitioner(), &plan.table, request);
    let mut reconciled = begin(request.command.clone());
    let filtered = request.filter.is_some().then_some(&plan.filtered);
    let patience = Patience::of_table(shard, &plan.table, patience.deadline);
    let reconciling = Reconciling { shard, table: &plan.table, placement, patience, filtered };
    let end = Box::pin(reconciling.run(asked, &mut reconciled, &mut sink)).await?;
    Ok(sink.finish(end))
}

/// What a trace says of replicas that differ.
fn mismatch(partitions: &Partitions) -> String {
    match partitions {
        Partitions::Key(DecoratedKey { token, key, .. }) => {
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("Digest mismatch: Mismatch for key DecoratedKey({}, {hex})", token.0)
        }
        Partitions::Range(_) => "Digest mismatch".into(),
    }
}
