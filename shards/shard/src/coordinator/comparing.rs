//! Reads of one partition that have a choice of replicas, or need several of them.
//!
//! 1. One replica gives rows, with their digest if others are asked for it. Equal digests: the rows are those of all.
//! 2. Different digests: the replicas that answered are read again by merging what they have (`reconciling`).

use super::gathering::{Patience, Unread, gather};
use super::index_candidates;
use super::read::{ReadPlan, read_digest_on, read_on};
use super::reconciling::{Reconciling, begin};
use super::remote::Asked;
use crate::messages::data::{DigestReply, ReadReply, ReadRequest};
use crate::replica::row_sink::RowBlockSink;
use crate::shard_state::Shard;
use cluster::placement::{Replica, TablePlacement};
use cluster::plan::{Form, PartitionReadPlan};
use model::digest::Digest;
use model::{DecoratedKey, Failure};
use runtime::{Instant, ShardId};
use std::rc::Rc;

/// What a replica answers: the rows if it was asked for them, and their digest if it is compared.
type Answer = (Digest, Option<ReadReply>);

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
        match compare(shard, plan, &placement, &mut asked, request, patience).await {
            Ok(reply) => return Ok(reply),
            Err(Unread::Failed(failure)) => return Err(failure),
            Err(Unread::Moved) => {}
        }
        placement = shard.placement_of(&plan.table)?;
        asked = super::asked_replica::plan_of(&placement, plan.terms.consistency, key)?;
    }
}

async fn compare(
    shard: &Shard,
    plan: &ReadPlan,
    placement: &Rc<TablePlacement>,
    asked: &mut PartitionReadPlan,
    request: &ReadRequest,
    patience: Patience,
) -> Result<ReadReply, Unread> {
    let topology = placement.keyspace().topology();
    let is_compared = !asked.asks_one();
    if is_compared && request.index.is_some() {
        return Box::pin(index_candidates::read(shard, plan, placement, asked, request, patience)).await;
    }
    let ask = |replica, form| ask(shard, plan, placement, replica, form, is_compared, request, patience.deadline);
    let answers = gather(shard, asked, &plan.table, topology, patience, ask).await?;
    let first = answers.first().map(|(_, (digest, _))| *digest);
    if answers.iter().all(|(_, (digest, _))| Some(*digest) == first)
        && let Some(rows) = answers.into_iter().find_map(|(_, (_, rows))| rows)
    {
        return Ok(rows);
    }
    let mut sink = RowBlockSink::new(shard.partitioner(), &plan.table, request);
    let mut read = begin(request.command.clone());
    let is_filtered = request.filter.is_some();
    let patience = Patience::of_table(shard, &plan.table, patience.deadline);
    let reconciling = Reconciling { shard, table: &plan.table, placement, patience, is_filtered };
    let end = Box::pin(reconciling.run(asked, &mut read, &mut sink)).await?;
    Ok(sink.finish(end))
}

/// Asks one replica for rows or a digest; for both if the rows are compared with digests of others.
#[expect(clippy::too_many_arguments, reason = "a question and to whom it goes")]
async fn ask(
    shard: &Shard,
    plan: &ReadPlan,
    placement: &Rc<TablePlacement>,
    replica: Replica,
    form: Form,
    is_compared: bool,
    request: &ReadRequest,
    deadline: Instant,
) -> Result<Answer, Failure> {
    let topology = placement.keyspace().topology();
    let with_rows = form == Form::Rows;
    let core = ShardId(replica.shard);
    match (replica.node == topology.here(), is_compared) {
        (true, false) => Ok((Digest::default(), Some(read_on(shard, core, request.clone()).await?))),
        (true, true) => {
            let DigestReply { rows, digest } = read_digest_on(shard, core, request).await?;
            Ok((digest, with_rows.then_some(rows)))
        }
        (false, is_compared) => {
            let asked = Asked::until(topology, replica.node, deadline);
            match is_compared {
                false => Ok((Digest::default(), Some(asked.read(shard, &plan.table, replica, request).await?))),
                true => asked.read_digest(shard, replica, request, with_rows).await,
            }
        }
    }
}
