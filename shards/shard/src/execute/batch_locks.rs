//! Batches with changes that depend on what is there: elements of lists by index or by value.
//!
//! 1. The partitions that such changes concern are locked on the cores that own them, one after another in the order of
//!    table and token; with each lock come the lists asked for.
//! 2. The mutations are built from what was there before the batch, those of later statements after them, so that the
//!    elements of lists are in the order of the statements; they are written as those of any batch.
//! 3. The locks are let go.
//!
//! Invariants: locks are taken in one order everywhere, so that two batches never wait for each other; what was taken
//! is let go whatever happens between.

use super::batch::Building;
use super::binding::Values;
use super::modify::Mutations;
use crate::coordinator::too_many_calls;
use crate::messages::Request;
use crate::messages::data::{ListChange, ListsByRow, LockRequest, OwnedBound, WriteTimes, borrowed, owned};
use crate::request::Answer;
use crate::shard_state::Shard;
use cql::plan::Modify;
use model::key::Token;
use model::{Failure, TableId};
use runtime::ShardId;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is built once the lists are there.
pub(super) enum Later {
    Reading(ListChange),
    /// A statement that reads nothing, after one that does.
    Plain {
        modify: Modify,
        bound: Vec<OwnedBound>,
        local: bool,
        when: WriteTimes,
    },
}

impl Later {
    pub(super) fn plain(modify: &Modify, values: &Values<'_>, local: bool, when: WriteTimes) -> Later {
        Later::Plain { modify: modify.clone(), bound: owned(&values.bound), local, when }
    }

    fn build(&self, shard: &Shard, found: &ListsByRow, mutations: &mut Mutations) -> Result<(), Failure> {
        match self {
            Later::Reading(change) => change.build(shard, found, mutations),
            Later::Plain { modify, bound, local, when } => {
                let bound = borrowed(bound);
                mutations.add(shard, modify, &Values::in_order(&bound), *local, *when)
            }
        }
    }
}

/// Reads, writes and lets go. Must run to its end.
pub(super) async fn write(shard: Shard, mut building: Building, timeout: Duration) -> Result<Answer, Failure> {
    let mut tickets = Vec::new();
    let result = match lock_and_build(&shard, &mut building, &mut tickets).await {
        Ok(()) => building.send(&shard, timeout).await,
        Err(failure) => Err(failure),
    };
    unlock(&shard, tickets).await?;
    result
}

/// Whether the mutations can be built from what is there now; nothing is written. Must run to its end.
pub(super) async fn check(shard: &Shard, mut building: Building) -> Result<(), Failure> {
    let mut tickets = Vec::new();
    let built = lock_and_build(shard, &mut building, &mut tickets).await;
    unlock(shard, tickets).await?;
    built
}

async fn unlock(shard: &Shard, tickets: Vec<(ShardId, u64)>) -> Result<(), Failure> {
    for (to, ticket) in tickets {
        shard.call(to, Request::Unlock(ticket)).await.done()?;
    }
    Ok(())
}

async fn lock_and_build(
    shard: &Shard,
    building: &mut Building,
    tickets: &mut Vec<(ShardId, u64)>,
) -> Result<(), Failure> {
    // Keys whose tokens collide share a lock.
    let mut locks: BTreeMap<(TableId, Token), (ShardId, LockRequest)> = BTreeMap::new();
    for later in &building.later {
        let Later::Reading(change) = later else { continue };
        let (table, key) = (change.table().id, change.key());
        let to = shard.route(change.local(), key.token);
        let (_, lock) =
            locks.entry((table, key.token)).or_insert_with(|| (to, LockRequest { table, key, reads: Vec::new() }));
        lock.reads.extend(change.reads(shard)?);
    }
    let mut found = ListsByRow::new();
    for (to, lock) in locks.into_values() {
        if to != shard.id() && !shard.mailbox().has_room() {
            return Err(too_many_calls());
        }
        let locked = shard.call(to, Request::Lock(Box::new(lock))).await.locked()?;
        tickets.push((to, locked.ticket));
        found.extend(locked.lists);
    }
    let later = std::mem::take(&mut building.later);
    later.iter().try_for_each(|later| later.build(shard, &found, &mut building.mutations))
}
