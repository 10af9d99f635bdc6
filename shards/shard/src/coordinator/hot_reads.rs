//! Reads of partitions that many clients read at once (`shard_state::hot_reads` knows which these are).
//!
//! 1. Equal reads are joined: while one is under way, those that come wait, and are then executed as one. Equal are
//!    reads that differ in nothing that shapes the answer of a replica; what a client may see and pays, its warnings
//!    and its time are its own, above and beside this.
//! 2. The replicas are asked in turn, at levels that do not need all of them.
//!
//! Reads with ALLOW FILTERING or an index are not joined: they count what they leave out. Traced ones are not either.
//!
//! Invariants: a read never gets the answer of one that had begun before it came. At worst a read waits for
//! [`BATCH_WAIT_MAX`] in vain, and then does what it would have done at once.

use super::asked_replica::AskedReplica;
use super::read::{PendingRead, ReadPlan, finish_alone};
use crate::messages::data::ReadReply;
use crate::metrics::Measure;
use crate::shard_state::Shard;
use crate::shard_state::hot_reads::joined::{Entered, Lead, Outcome, Turn, Waiter};
use crate::shard_state::hot_reads::{HotPartition, JoinedReply};
use cluster::plan;
use model::ErrorCode;
use model::query::Partitions;
use std::rc::Rc;
use std::time::Duration;

/// How long a read waits at most for an equal one that began before it came.
const BATCH_WAIT_MAX: Duration = Duration::from_millis(20);
/// Most bytes of an answer that is shared: one copy is made for each client.
pub(crate) const SHARED_BYTES_MAX: usize = 256 << 10;

/// The partition of a read, if it is hot.
#[inline]
pub(super) fn partition_of(shard: &Shard, plan: &ReadPlan, pending: &PendingRead) -> Option<Rc<HotPartition>> {
    let Partitions::Key(key) = &pending.request.command.partitions else { return None };
    if plan.table.is_virtual() {
        return None;
    }
    shard.hot_reads().note(plan.table.id, key, pending.began)
}

/// Reads a hot partition, within the deadline.
pub(super) async fn read(
    shard: &Shard,
    plan: &ReadPlan,
    partition: Rc<HotPartition>,
    pending: PendingRead,
) -> JoinedReply {
    let request = &pending.request;
    let may_be_joined = request.filter.is_none() && request.index.is_none() && !shard.is_traced();
    let reads = match may_be_joined {
        true => partition.equal_reads(request, &plan.placement, plan.terms),
        false => None,
    };
    match reads.map_or(Entered::Alone, |reads| reads.enter()) {
        Entered::Alone => read_in_turn(shard, plan, &partition, pending).await,
        Entered::Leads(lead) => {
            let reply = read_in_turn(shard, plan, &partition, pending).await;
            drop(lead);
            reply
        }
        Entered::Waits(waiter) => wait(shard, plan, &partition, pending, waiter).await,
    }
}

/// Waits until an equal read has been executed that has not begun yet, or executes it for all that wait.
async fn wait(
    shard: &Shard,
    plan: &ReadPlan,
    partition: &HotPartition,
    pending: PendingRead,
    mut waiter: Waiter<JoinedReply>,
) -> JoinedReply {
    let deadline = pending.began.after(plan.terms.timeout);
    let mut turn = runtime::timeout(plan.terms.timeout.min(BATCH_WAIT_MAX), &mut waiter).await;
    if turn.is_none() && runtime::now() < deadline {
        turn = match waiter.lead_now() {
            Some(lead) => Some(Turn::Leads(lead)),
            None => runtime::timeout(deadline.since(runtime::now()), &mut waiter).await,
        };
    }
    match turn {
        Some(Turn::Ended(Outcome::Shared(reply))) => {
            partition.note_joined();
            shard.metrics().reads_joined.increment();
            plan.took(shard, Measure::CoordinatorRead, pending.began);
            reply
        }
        Some(Turn::Ended(Outcome::Unshared)) => read_late(shard, plan, partition, pending).await,
        Some(Turn::Leads(lead)) => lead_batch(shard, plan, partition, pending, lead).await,
        None => Err(pending.asked.expired()),
    }
}

/// Executes a read for all that wait for it.
async fn lead_batch(
    shard: &Shard,
    plan: &ReadPlan,
    partition: &HotPartition,
    pending: PendingRead,
    lead: Lead<JoinedReply>,
) -> JoinedReply {
    let deadline = pending.began.after(plan.terms.timeout);
    let reply = read_late(shard, plan, partition, pending).await;
    match &reply {
        // It is this client's time that is over; the others came later, and one of them goes on.
        Err(failure) if failure.code == ErrorCode::ReadTimeout && runtime::now() >= deadline => {}
        Ok(answer) if bytes_of(answer) > SHARED_BYTES_MAX => {
            partition.note_unshared();
            lead.end(|| Outcome::Unshared);
        }
        shared => lead.end(|| Outcome::Shared(shared.clone())),
    }
    reply
}

/// Reads after waiting, within what is left of the time.
async fn read_late(shard: &Shard, plan: &ReadPlan, partition: &HotPartition, pending: PendingRead) -> JoinedReply {
    let left = pending.began.after(plan.terms.timeout).since(runtime::now());
    let asked = pending.asked.clone();
    let reply = runtime::timeout(left, read_in_turn(shard, plan, partition, pending)).await;
    reply.unwrap_or_else(|| Err(asked.expired()))
}

fn bytes_of(reply: &ReadReply) -> usize {
    let rows = size_of_val(&*reply.block.ends);
    reply.block.bytes.len() + rows + reply.places.bytes()
}

/// Reads by asking those replicas whose turn it is.
async fn read_in_turn(
    shard: &Shard,
    plan: &ReadPlan,
    partition: &HotPartition,
    mut pending: PendingRead,
) -> JoinedReply {
    if pending.asked.plan.has_choice()
        && let Partitions::Key(key) = &pending.request.command.partitions
    {
        let turn = plan::Turn { number: partition.take_turn(), core: shard.id().0 };
        let spread = AskedReplica::in_turn(&plan.placement, plan.terms.consistency, key, turn)?;
        let nearest = &pending.asked.plan;
        let is_nearest = |replica| nearest.targets().any(|(nearest, _)| nearest == replica);
        if !spread.plan.targets().all(|(replica, _)| is_nearest(replica)) {
            partition.note_spread();
            shard.metrics().reads_spread.increment();
        }
        pending.asked = spread;
    }
    finish_alone(shard, plan, Box::new(pending)).await
}
