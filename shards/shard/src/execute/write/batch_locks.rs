//! Batches with changes that depend on what is stored: elements of lists by index or by value.
//!
//! 1. The lists in partitions that other nodes have too are read at the level of the batch. Those that only this node
//!    has are locked on the cores that own them, one after another in the order of table and token; each lock is
//!    granted together with the lists asked for.
//! 2. All mutations are built from the lists as they were before the batch. Those of later statements are added after
//!    them, so that list elements are in the order of the statements. They are written like those of any batch.
//! 3. The locks are released.
//!
//! Invariants: locks are taken in the same order everywhere, so that two batches never wait for each other; every lock
//! that was taken is released, whatever happens in between.

use crate::coordinator::row_source::RowSource;
use crate::coordinator::too_many_calls;
use crate::execute::values::binding::Values;
use crate::execute::write::mutations::Mutations;
use crate::messages::Request;
use crate::messages::data::{ListChange, ListsByRow, LockRequest, OwnedBound, WriteTimes, borrowed, owned};
use crate::shard_state::Shard;
use cql::plan::Modify;
use model::token::Token;
use model::{Consistency, Failure, TableId};
use runtime::ShardId;
use std::collections::BTreeMap;

/// A part of a batch that is built after the lists were read.
pub(super) enum Later {
    /// A change that depends on lists.
    Reading(ListChange),
    /// A statement that reads nothing but follows one that does.
    Plain { modify: Modify, bound: Vec<OwnedBound>, when: WriteTimes },
}

impl Later {
    pub(super) fn plain(modify: &Modify, values: &Values<'_>, when: WriteTimes) -> Later {
        Later::Plain { modify: modify.clone(), bound: owned(&values.bound), when }
    }

    fn build(&self, shard: &Shard, found: &ListsByRow, mutations: &mut Mutations) -> Result<(), Failure> {
        match self {
            Later::Reading(change) => change.build(shard, found, mutations),
            Later::Plain { modify, bound, when } => {
                let bound = borrowed(bound);
                mutations.add(shard, modify, &Values::in_order(&bound), *when)
            }
        }
    }
}

/// The locks that a batch holds, each as the core and its ticket. Must be released by [`unlock`], whatever happens.
pub(super) type Tickets = Vec<(ShardId, u64)>;

/// Releases the locks that [`lock_and_build`] took.
pub(super) async fn unlock(shard: &Shard, tickets: Tickets) -> Result<(), Failure> {
    for (to, ticket) in tickets {
        shard.call(to, Request::Unlock(ticket)).await.done()?;
    }
    Ok(())
}

/// Locks the partitions that `later` reads, reads them and adds what `later` writes to `mutations`. The tickets of
/// locks taken are in `tickets` even if it fails.
pub(super) async fn lock_and_build(
    shard: &Shard,
    later: &[Later],
    level: Consistency,
    mutations: &mut Mutations,
    tickets: &mut Tickets,
) -> Result<(), Failure> {
    // Keys with the same token share a lock.
    let mut locks: BTreeMap<(TableId, Token), (ShardId, LockRequest)> = BTreeMap::new();
    let mut elsewhere = Vec::new();
    for later in later {
        let Later::Reading(change) = later else { continue };
        let (table, key) = (change.table().id, change.key(shard.partitioner()));
        let placement = shard.placement_of(change.table())?;
        let topology = placement.keyspace().topology();
        let only = placement.replicas(key.token, &key.key).only();
        if let Some(only) = only.filter(|only| only.node == topology.here()) {
            let lock = locks.entry((table, key.token));
            let request = || (ShardId(only.shard), LockRequest { table, key, reads: Vec::new() });
            let (_, lock) = lock.or_insert_with(request);
            lock.reads.extend(change.reads(shard)?);
            continue;
        }
        elsewhere.extend(change.reads(shard)?);
    }
    let deadline = runtime::now().after(shard.request_timeouts().read);
    let source = RowSource::AtLevel { level, deadline };
    let mut found = match elsewhere.is_empty() {
        true => ListsByRow::new(),
        false => Box::pin(source.lists(shard, &elsewhere)).await?,
    };
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
