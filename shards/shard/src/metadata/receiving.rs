//! Fetching what this node gains by operations: the part of each receiver, on shard 0.
//!
//! The metadata say what a node has still to fetch, so it goes on after a crash, whatever the operation.
//!
//! 1. The barrier of the epoch since which the node gains what it gains ([`super::barrier`]): from then on every write
//!    comes here too, and the sources have all that was acknowledged before.
//! 2. For every keyspace, the ranges and their sources ([`cluster::placement::Gain::sources`]), of the nodes that have
//!    passed the barrier. If these are too few, wait for more; a node that joins undoes its operation after a while and
//!    begins anew, so that a removal of the nodes that are lacking need not wait for it.
//! 3. Fetch ([`crate::stream::fetch`]), with the data the state of conditional changes: the rows of `system.paxos` of
//!    the same ranges. A majority of the replicas to be then knows each decision that a majority of the former ones has
//!    made, as it knows each write, even one whose outcome has not been written anywhere yet. Where such a row meets
//!    one that this node has, the later ballots win, as its cells have the timestamps of their ballots.
//! 4. Report. After the report of the last receiver data is read from its new places, and the operation is ended
//!    ([`super::settling`]).
//!
//! A step that fails is tried again after a pause, for as long as the operation is under way. When nothing is owed any
//! more, what is kept so that a fetch can go on is removed.

use crate::operations::ring_changes::replicated;
use crate::shard_state::Shard;
use crate::stream::{self, StreamOperation, StreamPart, StreamPlan};
use cluster::metadata::{Command, Metadata, Operation, OperationKind};
use cluster::topology::{LiveNodes, NodeIndex};
use model::TokenRange;
use runtime::Instant;
use runtime::sync::{Either, race};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use uuid::Uuid;

/// How long nodes may take to end older requests, before the barrier is tried again.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the cluster may take to take a report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);
/// A node that joins and for so long has not found enough sources lets other operations go first: perhaps one that
/// takes out the node that is lacking.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a step has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Fetches what this node gains by each operation, until the node stops.
pub(crate) async fn keep(shard: Shard) {
    let host_id = shard.host_id();
    let (mut told, mut may_keep_parts) = (String::new(), true);
    // The operation that lacks sources, and since when.
    let mut lacking: Option<(u64, Instant)> = None;
    while !shard.store().is_closing() {
        let metadata = shard.metadata().current();
        let owed = metadata.operations.iter().find(|(_, operation)| operation.receivers.contains(&host_id));
        let Some((id, operation)) = owed else {
            if may_keep_parts && let Err(error) = stream::forget_others(&shard).await {
                tracing::warn!(%error, "what was fetched for operations that have ended stays until the next one");
            }
            may_keep_parts = false;
            shard.metadata().wait_for(metadata.epoch + 1).await;
            continue;
        };
        may_keep_parts = true;
        let is_over = |metadata: &Metadata| metadata.operations.get(id).is_none_or(|now| now.since != operation.since);
        let ended = shard.metadata().wait_until(is_over);
        match race(receive(&shard, *id, operation), ended).await {
            Either::Left(Ok(())) => {}
            Either::Right(()) => stream::abandon(&shard, plan_id(&shard, *id, operation)).await,
            Either::Left(Err(obstacle)) => {
                let (Obstacle::Sources(text) | Obstacle::Other(text)) = &obstacle;
                if told != *text {
                    tracing::warn!("{}: {text}; trying again", operation.kind);
                    told.clone_from(text);
                }
                let since = lacking.filter(|(lacks, _)| lacks == id).map_or_else(runtime::now, |(_, since)| since);
                lacking = matches!(obstacle, Obstacle::Sources(_)).then_some((*id, since));
                let is_own = matches!(operation.kind, OperationKind::Join { .. } | OperationKind::Replace { .. })
                    && operation.kind.host_id() == Some(host_id);
                if is_own && lacking.is_some() && runtime::now().since(since) >= SOURCES_TIMEOUT {
                    tracing::info!("{}: other operations go first", operation.kind);
                    let deadline = runtime::now().after(REPORT_TIMEOUT);
                    if let Err(error) = shard.metadata().propose(&Command::Abort { operation: *id }, deadline).await {
                        tracing::warn!(?error, "others still wait for this node");
                    }
                }
                runtime::sleep(PAUSE).await;
            }
        }
    }
}

/// Why an attempt has failed; the next one may not.
enum Obstacle {
    /// Too few nodes are alive that have the data.
    Sources(String),
    Other(String),
}

/// One attempt at all steps.
async fn receive(shard: &Shard, id: u64, operation: &Operation) -> Result<(), Obstacle> {
    let Some(passed) = shard.end_older(operation.since, runtime::now().after(BARRIER_TIMEOUT)).await else {
        return Err(Obstacle::Other("not all nodes have ended the requests that they began before".into()));
    };
    let taken_out = taken_out(&shard.metadata().current());
    let parts = parts(shard, &taken_out, &passed).map_err(Obstacle::Sources)?;
    if !parts.is_empty() {
        let plan = StreamPlan { id: plan_id(shard, id, operation), operation: purpose(&operation.kind), parts };
        stream::fetch(shard, plan).await.map_err(|error| Obstacle::Other(error.to_string()))?;
    }
    // Whoever still asks it must not be left without the writes that it gets as long as nobody reads elsewhere.
    if let Some(back) = taken_out.iter().find(|host_id| shard.is_live(**host_id)) {
        return Err(Obstacle::Other(format!("node {back}, which was down, is alive again")));
    }
    let report = Command::Received { operation: id, since: operation.since, host_id: shard.host_id() };
    let deadline = runtime::now().after(REPORT_TIMEOUT);
    let reported = shard.metadata().propose(&report, deadline).await;
    reported.map(drop).map_err(|error| Obstacle::Other(format!("{error:?}")))
}

/// The nodes that the operations under way take out because they are down.
fn taken_out(metadata: &Metadata) -> BTreeSet<Uuid> {
    metadata.operations.values().filter_map(|operation| operation.kind.takes_out()).collect()
}

/// What this node gains in all keyspaces, by source: live nodes among those that have passed the barrier. The nodes
/// that are `taken_out` never come back.
fn parts(shard: &Shard, taken_out: &BTreeSet<Uuid>, passed: &BTreeSet<Uuid>) -> Result<Vec<StreamPart>, String> {
    let placement = shard.placement();
    let topology = placement.topology();
    let schema = shard.schema();
    let is_gone = |node: NodeIndex| taken_out.contains(&topology.node(node).host_id);
    let live =
        LiveNodes::of(topology, |node| topology.live().contains(node) && passed.contains(&topology.node(node).host_id));
    let (mut parts, mut lost) = (Vec::new(), Vec::new());
    let mut decisions: BTreeMap<Uuid, Vec<TokenRange>> = BTreeMap::new();
    for group in replicated(&placement, &schema) {
        let mut ranges: BTreeMap<NodeIndex, Vec<TokenRange>> = BTreeMap::new();
        for gain in group.placed.gains().into_iter().filter(|gain| gain.receiver == topology.here()) {
            // What only nodes had that are taken out is lost, and nothing can bring it back.
            let left = || {
                let left = gain.remaining(&live, is_gone).filter(|_| !taken_out.is_empty())?;
                lost.push(group.keyspace);
                Some(left)
            };
            match gain.sources(topology, &live).or_else(left) {
                Some(sources) => {
                    for source in sources.into_iter().filter(|source| *source != topology.here()) {
                        ranges.entry(source).or_default().push(gain.range.clone());
                    }
                }
                None => {
                    return Err(format!(
                        "Unable to find sufficient sources for streaming range in keyspace {}: too few of its replicas \
                         are alive",
                        group.keyspace
                    ));
                }
            }
        }
        for (source, ranges) in ranges {
            let source = topology.node(source).host_id;
            decisions.entry(source).or_default().extend(ranges.iter().cloned());
            parts.push(StreamPart {
                source,
                keyspace: group.keyspace.to_owned(),
                tables: group.tables.clone(),
                ranges,
            });
        }
    }
    let states = &shard.paxos_columns().table;
    parts.extend(decisions.into_iter().map(|(source, ranges)| {
        let (keyspace, tables) = (states.keyspace.clone(), Some(vec![states.id]));
        StreamPart { source, keyspace, tables, ranges }
    }));
    lost.dedup();
    if !lost.is_empty() {
        let names = lost.join(", ");
        tracing::warn!("Too many replicas of ranges of these keyspaces are dead, so that writes may be lost: {names}");
    }
    Ok(parts)
}

fn purpose(kind: &OperationKind) -> StreamOperation {
    match kind {
        OperationKind::Join { .. } => StreamOperation::Bootstrap,
        OperationKind::Leave { .. } => StreamOperation::Unbootstrap,
        OperationKind::Remove { .. } => StreamOperation::RestoreReplicaCount,
        OperationKind::Replace { .. } => StreamOperation::Replace,
        OperationKind::Move { .. } => StreamOperation::Relocation,
        OperationKind::Replicate { .. } | OperationKind::Tablets => StreamOperation::Replicate,
    }
}

/// The id of this node's plan for an operation: the same after a restart, so that what was fetched is used again.
fn plan_id(shard: &Shard, id: u64, operation: &Operation) -> Uuid {
    let (cluster, own) = (shard.metadata().current().cluster_id, shard.host_id());
    let bytes = [&id.to_le_bytes()[..], &operation.since.to_le_bytes(), cluster.as_bytes(), own.as_bytes()].concat();
    Uuid::from_u64_pair(runtime::hash64(&bytes), runtime::hash64(&[&bytes[..], &[1]].concat()))
}
