//! TRUNCATE on all nodes.

use super::remote::Asked;
use crate::messages::{Reply, Request};
use crate::shard_state::Shard;
use cluster::plan::TruncatePlan;
use cluster::topology::{NodeIndex, Topology};
use model::{Failure, TableId};
use runtime::ShardId;
use runtime::sync::join_all;
use std::rc::Rc;
use std::time::Duration;

/// Truncates a table on every node. All must be alive, answer within `timeout` and succeed.
pub(crate) async fn on_all_nodes(shard: &Shard, table: TableId, timeout: Duration) -> Result<(), Failure> {
    let topology = shard.topology();
    let mut plan = TruncatePlan::new(&topology, topology.live())?;
    let nodes = plan.targets().to_vec();
    let calls = nodes.iter().map(|node| on_node(shard, &topology, *node, table, timeout));
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
    told.unwrap_or(Ok(()))
}

/// Truncates a table on one node; `None` if that takes too long.
async fn on_node(
    shard: &Shard,
    topology: &Rc<Topology>,
    node: NodeIndex,
    table: TableId,
    timeout: Duration,
) -> Option<Result<(), Failure>> {
    if node != topology.here() {
        return Some(Asked::new(topology, node, timeout).truncate(shard, table).await);
    }
    let call = Box::pin(shard.call(ShardId(0), Request::Truncate(table)));
    runtime::timeout(timeout, call).await.map(Reply::done)
}
