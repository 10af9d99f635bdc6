//! Batches with changes that depend on what is there: elements of lists by index or by value.
//!
//! 1. The partitions that such changes concern are locked on the cores that own them, one after another in the order of
//!    table and token; with each lock come the lists asked for.
//! 2. The mutations are built from what was there before the batch, those of later statements after them, so that the
//!    elements of lists are in the order of the statements; they are written as those of any batch.
//! 3. The locks are given back.
//!
//! Invariants: locks are taken in one order everywhere, so that two batches never wait for each other; what was taken
//! is let go whatever happens between.

use crate::coordinator::too_many_calls;
use crate::execute::values::binding::Values;
use crate::execute::write::mutations::Mutations;
use crate::messages::Request;
use crate::messages::data::{ListChange, ListsByRow, LockRequest, OwnedBound, WriteTimes, borrowed, owned};
use crate::shard_state::Shard;
use cql::plan::Modify;
use model::key::Token;
use model::{Failure, Home, TableId};
use runtime::ShardId;
use std::collections::BTreeMap;

/// A part of a batch that is built once the lists are there.
pub(super) enum Later {
    /// A change of lists.
    Reading(ListChange),
    /// A statement that reads nothing, after one that does.
    Plain { modify: Modify, bound: Vec<OwnedBound>, home: Home, when: WriteTimes },
}

impl Later {
    pub(super) fn plain(modify: &Modify, values: &Values<'_>, home: Home, when: WriteTimes) -> Later {
        Later::Plain { modify: modify.clone(), bound: owned(&values.bound), home, when }
    }

    fn build(&self, shard: &Shard, found: &ListsByRow, mutations: &mut Mutations) -> Result<(), Failure> {
        match self {
            Later::Reading(change) => change.build(shard, found, mutations),
            Later::Plain { modify, bound, home, when } => {
                let bound = borrowed(bound);
                mutations.add(shard, modify, &Values::in_order(&bound), *home, *when)
            }
        }
    }
}

/// The locks that a batch holds: which core holds which ticket. To be given back by [`unlock`], whatever happens.
pub(super) type Tickets = Vec<(ShardId, u64)>;

/// Gives back what [`lock_and_build`] took.
pub(super) async fn unlock(shard: &Shard, tickets: Tickets) -> Result<(), Failure> {
    for (to, ticket) in tickets {
        shard.call(to, Request::Unlock(ticket)).await.done()?;
    }
    Ok(())
}

/// Locks the partitions that `later` reads, reads them and adds what `later` writes to `mutations`. Tickets of locks
/// taken are in `tickets` even when it fails.
pub(super) async fn lock_and_build(
    shard: &Shard,
    later: &[Later],
    mutations: &mut Mutations,
    tickets: &mut Tickets,
) -> Result<(), Failure> {
    // Keys whose tokens collide share a lock.
    let mut locks: BTreeMap<(TableId, Token), (ShardId, LockRequest)> = BTreeMap::new();
    for later in later {
        let Later::Reading(change) = later else { continue };
        let (table, key) = (change.table().id, change.key());
        let to = shard.route(change.home(), key.token);
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
    later.iter().try_for_each(|later| later.build(shard, &found, mutations))
}
