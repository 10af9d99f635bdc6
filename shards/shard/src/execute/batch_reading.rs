//! Batches with changes that depend on what is there: elements of lists by index or by value.
//!
//! 1. The partitions that such changes concern are locked on the cores that own them, one after another in the order of
//!    table and token; with each lock come the lists asked for.
//! 2. The mutations are built from what was there before the batch, those of later statements after them, so that the
//!    elements of lists are in the order of the statements; they are written as those of any batch.
//! 3. The locks are let go.
//!
//! Invariants: locks are taken in one order everywhere, so that two batches never wait for each other; what was taken is
//! let go whatever happens between.

use super::batch::Building;
use super::binding::Values;
use super::modify::reading::{Found, OwnedBound, ReadingChange, Wanted, borrowed, owned};
use super::modify::{Mutations, When};
use crate::coordinator::too_many_calls;
use crate::verbs::Request;
use crate::{Answer, Shard};
use cql::plan::Modify;
use model::key::Token;
use model::{DecoratedKey, Failure, TableId};
use runtime::ShardId;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is built once the lists are there.
pub(super) enum Later {
    Reading(ReadingChange),
    /// A statement that reads nothing, after one that does.
    Plain {
        modify: Modify,
        bound: Vec<OwnedBound>,
        local: bool,
        when: When,
    },
}

impl Later {
    pub(super) fn plain(modify: &Modify, values: &Values<'_>, local: bool, when: When) -> Later {
        Later::Plain { modify: modify.clone(), bound: owned(&values.bound), local, when }
    }

    fn build(&self, shard: &Shard, found: &Found, mutations: &mut Mutations) -> Result<(), Failure> {
        match self {
            Later::Reading(change) => change.build(shard, found, mutations),
            Later::Plain { modify, bound, local, when } => {
                let bound = borrowed(bound);
                mutations.add(shard, modify, &Values::in_order(&bound), *local, *when)
            }
        }
    }
}

/// A partition to be locked, and what to read of it then.
#[derive(Debug)]
pub struct Hold {
    pub(crate) table: TableId,
    pub(crate) key: DecoratedKey,
    pub(crate) wants: Vec<Wanted>,
}

/// A partition that is locked until its core is told to let go.
#[derive(Debug)]
pub struct Holding {
    pub(crate) ticket: u64,
    pub(crate) found: Found,
}

/// Reads, writes and lets go. Must run to its end.
pub(super) async fn write(shard: Shard, mut building: Building, timeout: Duration) -> Result<Answer, Failure> {
    let mut tickets = Vec::new();
    let result = match hold_and_build(&shard, &mut building, &mut tickets).await {
        Ok(()) => building.send(&shard, timeout).await,
        Err(failure) => Err(failure),
    };
    let_go(&shard, tickets).await?;
    result
}

/// Whether the mutations can be built from what is there now; nothing is written. Must run to its end.
pub(super) async fn check(shard: &Shard, mut building: Building) -> Result<(), Failure> {
    let mut tickets = Vec::new();
    let built = hold_and_build(shard, &mut building, &mut tickets).await;
    let_go(shard, tickets).await?;
    built
}

async fn let_go(shard: &Shard, tickets: Vec<(ShardId, u64)>) -> Result<(), Failure> {
    for (to, ticket) in tickets {
        shard.call(to, Request::LetGo(ticket)).await.done()?;
    }
    Ok(())
}

async fn hold_and_build(
    shard: &Shard,
    building: &mut Building,
    tickets: &mut Vec<(ShardId, u64)>,
) -> Result<(), Failure> {
    // Keys whose tokens collide share a lock.
    let mut holds: BTreeMap<(TableId, Token), (ShardId, Hold)> = BTreeMap::new();
    for later in &building.later {
        let Later::Reading(change) = later else { continue };
        let (table, key) = (change.table().id, change.key());
        let to = shard.route(change.local(), key.token);
        let (_, hold) = holds.entry((table, key.token)).or_insert_with(|| (to, Hold { table, key, wants: Vec::new() }));
        hold.wants.extend(change.wants(shard)?);
    }
    let mut found = Found::new();
    for (to, hold) in holds.into_values() {
        if to != shard.id() && !shard.mailbox().has_room() {
            return Err(too_many_calls());
        }
        let holding = shard.call(to, Request::Hold(Box::new(hold))).await.held()?;
        tickets.push((to, holding.ticket));
        found.extend(holding.found);
    }
    let later = std::mem::take(&mut building.later);
    later.iter().try_for_each(|later| later.build(shard, &found, &mut building.mutations))
}
