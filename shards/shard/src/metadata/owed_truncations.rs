//! Truncations of tables while members are down: Cassandra refuses them, here such members owe them.
//!
//! 1. The coordinator of a TRUNCATE has the cluster agree on who owes it, and waits until all who are alive know
//!    ([`owe`]). From then on they take these members for down: they send them nothing, and keep hints.
//! 2. A member that owes a truncation hears of it when it starts again, before it serves clients, or when it is no
//!    longer cut off. It removes what it has of the table ([`make`]) when it applies the entry, or the snapshot that
//!    has it.
//! 3. Then it tells the cluster that it has ([`keep_told`]), and counts as alive again.
//!
//! Invariants: if the stored metadata of a member say that it owes a truncation, it has made it, and only the others do
//! not know yet. A member that was cut off instead of down loses what it took by itself meanwhile, as a coordinator.

use crate::definitions::truncate;
use crate::messages::admin::OwedTruncation;
use crate::messages::{Reply, Request};
use crate::shard_state::Shard;
use cluster::metadata::{Command, Metadata};
use cluster::plan::TruncatePlan;
use cluster::topology::NodeIndex;
use model::{Failure, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long the cluster may take to agree: `request_timeout`.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a member tells once more that it has made its truncations.
const PAUSE: Duration = Duration::from_secs(1);

/// Has the cluster agree that members owe the truncation of a table. Returns when all that are alive know, on shard 0.
pub(crate) async fn owe(shard: &Shard, owed: OwedTruncation) -> Result<(), Failure> {
    let OwedTruncation { table, host_ids, deadline } = owed;
    if !may_agree(shard) {
        return Err(TruncatePlan::refused());
    }
    let command = Command::OweTruncation { table: table.0, host_ids };
    let agreed = shard.metadata().propose(&command, deadline.min(runtime::now().after(AGREEMENT_TIMEOUT))).await;
    let epoch = agreed.map_err(|error| {
        tracing::warn!(?error, %table, "a truncation is refused, because nodes are down");
        TruncatePlan::refused()
    })?;
    match shard.confirm(epoch, deadline).await.first() {
        None => Ok(()),
        Some(unconfirmed) => {
            tracing::warn!(%table, "{unconfirmed}");
            Err(TruncatePlan::refused().unknown())
        }
    }
}

/// Whether most of those who vote on the metadata are alive; else a proposal waits for them in vain.
fn may_agree(shard: &Shard) -> bool {
    let voters = shard.metadata().group().map(|group| group.status().voters).unwrap_or_default();
    let topology = shard.topology();
    let nodes = topology.nodes().iter().zip((0..).map(NodeIndex));
    let live = nodes.filter(|(node, at)| voters.contains(&node.host_id) && topology.live().contains(*at)).count();
    live * 2 > voters.len()
}

/// Makes the truncations that this node owes after an epoch, on shard 0.
pub(super) async fn make(shard: &Shard, metadata: &Metadata, epoch: u64) -> Result<(), Failure> {
    let Some(owed) = metadata.owed_truncations.get(&shard.host_id()) else { return Ok(()) };
    for (table, truncated_at) in owed {
        let table = TableId(*table);
        if *truncated_at > epoch && shard.schema().table_by_id(table).is_some() {
            tracing::info!(%table, "a table is truncated, because it was while this node was down");
            truncate::truncate(shard, table).await?;
        }
    }
    Ok(())
}

/// Tells all cores who owes truncations, if that has changed.
pub(super) async fn announce(shard: &Shard, before: &Metadata, after: &Metadata) -> Result<(), Failure> {
    let owing = |metadata: &Metadata| -> BTreeSet<Uuid> { metadata.owed_truncations.keys().copied().collect() };
    if owing(before) == owing(after) {
        return Ok(());
    }
    let owing = Arc::new(owing(after));
    let replies = shard.call_all(|| Request::SwitchOwingNodes(owing.clone())).await;
    replies.into_iter().try_for_each(Reply::done)
}

/// Tells the cluster, as often as it must, that this node has made the truncations that it owed.
pub(super) async fn keep_told(shard: Shard) {
    let host_id = shard.host_id();
    loop {
        shard.metadata().wait_until(|metadata| metadata.owed_truncations.contains_key(&host_id)).await;
        let command = Command::FinishTruncations { host_id, epoch: shard.metadata().current().epoch };
        if shard.metadata().propose(&command, runtime::now().after(AGREEMENT_TIMEOUT)).await.is_err() {
            runtime::sleep(PAUSE).await;
        }
    }
}
