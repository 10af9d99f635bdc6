//! TRUNCATE on all nodes: those that are alive truncate, those that are down owe it (`metadata::owed_truncations`).

use super::remote::Asked;
use crate::messages::admin::OwedTruncation;
use crate::messages::{Reply, Request};
use crate::shard_state::Shard;
use cluster::plan::TruncatePlan;
use cluster::topology::{NodeIndex, Topology};
use model::{Failure, TableId};
use runtime::sync::join_all;
use runtime::{Instant, ShardId};
use std::rc::Rc;
use std::time::Duration;

/// Truncates a table on every node that is alive within `timeout`; the others owe it.
///
/// # Errors
/// A node is alive and has not truncated it, or the cluster does not agree on who owes it; its rows are being copied.
pub(crate) async fn on_all_nodes(shard: &Shard, table: TableId, timeout: Duration) -> Result<(), Failure> {
    let placement = shard.placement().table(table).cloned();
    if placement.is_some_and(|placement| placement.sub_partitions().is_some_and(|map| map.is_copied())) {
        // What a copy has read before would be written after it.
        return Err(Failure::invalid(
            "Cannot truncate a table whose rows move to more sub-partitions; system_views.sub_partitions shows when they have",
        ));
    }
    let (topology, deadline) = (shard.topology(), runtime::now().after(timeout));
    let mut plan = TruncatePlan::new(&topology, topology.live())?;
    // Before anything is truncated, because a minority cannot agree on it.
    owe(shard, &topology, table, plan.take_absent(), deadline).await?;
    let nodes = plan.targets().to_vec();
    let calls = nodes.iter().map(|node| on_node(shard, &topology, *node, table, deadline));
    let answers = join_all(calls.collect()).await;
    let mut told = None;
    for (node, answer) in nodes.into_iter().zip(answers) {
        told = match answer {
            Some(Ok(())) => plan.truncated(node, &topology),
            Some(Err(failure)) => plan.failed(node, failure, &topology),
            None => return Err(plan.expired()),
        };
    }
    // The answer of the last node decides.
    told.unwrap_or(Ok(()))?;
    owe(shard, &topology, table, plan.take_absent(), deadline).await.map_err(Failure::unknown)
}

/// Truncates a table on one node; `None` if that takes too long.
async fn on_node(
    shard: &Shard,
    topology: &Rc<Topology>,
    node: NodeIndex,
    table: TableId,
    deadline: Instant,
) -> Option<Result<(), Failure>> {
    let timeout = deadline.since(runtime::now());
    if node != topology.here() {
        return Some(Asked::new(topology, node, timeout).truncate(shard, table).await);
    }
    let call = Box::pin(shard.call(ShardId(0), Request::Truncate(table)));
    runtime::timeout(timeout, call).await.map(Reply::done)
}

/// Has the cluster agree on who owes the truncation.
async fn owe(
    shard: &Shard,
    topology: &Topology,
    table: TableId,
    absent: Vec<NodeIndex>,
    deadline: Instant,
) -> Result<(), Failure> {
    if absent.is_empty() {
        return Ok(());
    }
    let host_ids = absent.into_iter().map(|node| topology.node(node).host_id).collect();
    let owed = OwedTruncation { table, host_ids, deadline };
    Box::pin(shard.call(ShardId(0), Request::OweTruncation(Box::new(owed)))).await.done()
}
