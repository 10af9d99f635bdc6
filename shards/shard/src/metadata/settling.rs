//! Ending operations whose receivers have all that they gain: the part of whoever leads the group, on shard 0.
//!
//! Data is read from its new places since the last report. A node that has not heard of that yet reads where data was,
//! and a majority there must not miss what was written since; so these nodes still get every write until nobody can
//! read from them.
//!
//! 1. The barrier of the epoch since which data is read from its new places ([`super::barrier`]).
//! 2. Of the nodes that had a range that moves, so many must have passed it that the others are no majority: what these
//!    refuse, no request of an older epoch can do without them. Where a dead node is taken out, the others had the
//!    range and still have it.
//! 3. [`Command::Settle`].
//!
//! A leader that dies in between is followed by one that goes on. Whoever is asked to remove a dead node ends what
//! lacks only that one ([`super::ring_operations`]).

use crate::operations::ring_changes::replicated;
use crate::shard_state::Shard;
use cluster::metadata::{Command, Operation, Stage};
use runtime::sync::race;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// How often a node looks whether it leads, if nothing else has changed.
const PERIOD: Duration = Duration::from_millis(200);
/// How long nodes may take to end older requests, before the barrier is tried again.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the cluster may take to agree.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a step has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Ends operations that have switched, while this node leads, until it stops.
pub(crate) async fn keep(shard: Shard) {
    while !shard.store().is_closing() {
        let metadata = shard.metadata().current();
        let switched = metadata.operations.iter().find(|(_, operation)| operation.stage == Stage::Switched);
        let Some((id, operation)) = switched else {
            shard.metadata().wait_for(metadata.epoch + 1).await;
            continue;
        };
        let leads = shard.metadata().group().is_some_and(|group| group.leader() == Some(shard.host_id()));
        if !leads {
            race(runtime::sleep(PERIOD), shard.metadata().wait_for(metadata.epoch + 1)).await;
        } else if let Err(text) = settle(&shard, *id, operation, None).await {
            tracing::warn!("{}: {text}; trying again", operation.kind);
            runtime::sleep(PAUSE).await;
        }
    }
}

/// One attempt at all steps; the error says what is missing. A node that is `gone` for good need not pass the barrier:
/// what only it has is lost.
pub(super) async fn settle(shard: &Shard, id: u64, operation: &Operation, gone: Option<Uuid>) -> Result<(), String> {
    let Some(mut passed) = shard.end_older(operation.since, runtime::now().after(BARRIER_TIMEOUT)).await else {
        return Err("not all nodes have ended the requests that they began before".into());
    };
    passed.extend(gone);
    check_majorities(shard, &passed)?;
    let command = Command::Settle { operation: id, since: operation.since };
    let proposed = shard.metadata().propose(&command, runtime::now().after(AGREEMENT_TIMEOUT)).await;
    proposed.map(|_| ()).map_err(|error| format!("{error:?}"))
}

/// Fails unless enough of the nodes that had ranges have `passed` the barrier.
fn check_majorities(shard: &Shard, passed: &BTreeSet<Uuid>) -> Result<(), String> {
    let (placement, schema) = (shard.placement(), shard.schema());
    let topology = placement.topology();
    let has_passed = |at| passed.contains(&topology.node(at).host_id);
    let groups = replicated(&placement, &schema);
    match groups.iter().find(|group| group.placed.may_be_read_without(has_passed)) {
        None => Ok(()),
        Some(group) => Err(format!("too few of the nodes that had ranges of {} are alive", group.keyspace)),
    }
}
