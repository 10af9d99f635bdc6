//! Changes of counters that have several replicas, or none on this node.
//!
//! 1. One live replica leads: this node if it is one, else one of the nearest.
//! 2. The leader adds the amounts to its own shards of the counters, by its host id, and writes them
//!    (`replica::counters`).
//! 3. It sends the resulting shards to the other replicas as a plain mutation, and waits for as many as the level
//!    needs.
//!
//! Invariants: amounts are applied by one node, once; shards may be written any number of times; what the leader has
//! written goes to the other replicas, also if that took longer than the client waits.

use super::remote::Asked;
use super::replication;
use super::too_many_calls;
use super::write::{PlannedWrite, Routed, plan, write_one};
use crate::messages::Request;
use crate::metrics::WrittenTables;
use crate::peer::counters::{Change, Outcome};
use crate::replica::counters;
use crate::request::AckTerms;
use crate::shard_state::Shard;
use cluster::placement::Replica;
use cluster::plan::WriteType;
use model::{Failure, Mutation, Table};
use runtime::ShardId;
use std::sync::Arc;
use std::time::Duration;

/// Changes counters, as their leader or through it.
pub(super) async fn write(
    shard: &Shard,
    routed: Routed,
    planned: PlannedWrite,
    timeout: Duration,
) -> Result<(), Failure> {
    let (written, began) = (WrittenTables::of(&routed.mutation), runtime::now());
    let Some(leader) = planned.plan.leader(&planned.topology, runtime::rng::u64()) else {
        return Err(Failure::server("A change of counters has no replica to lead it"));
    };
    let result = match leader.node == planned.topology.here() {
        true => lead(shard, routed, planned, leader, timeout).await,
        false => forward(shard, routed, planned, leader, timeout).await,
    };
    shard.metrics().coordinated(&written, true, began);
    result
}

/// Changes counters that another node was asked for, as their leader.
pub(crate) async fn lead_for(
    shard: &Shard,
    mutation: Mutation,
    table: Arc<Table>,
    terms: &AckTerms,
) -> Result<(), Failure> {
    let planned = plan(shard, &table, (mutation.token(), mutation.key()), WriteType::Counter, terms)?;
    let routed = Routed { mutation, table, counts: true };
    write_one(shard, routed, planned, WriteType::Counter, terms.timeout).await
}

/// Changes counters on this node, which is `leader`, and sends the results to the others.
async fn lead(
    shard: &Shard,
    routed: Routed,
    mut planned: PlannedWrite,
    leader: Replica,
    timeout: Duration,
) -> Result<(), Failure> {
    let Routed { mutation, table, .. } = routed;
    let deadline = runtime::now().after(timeout);
    let to = ShardId(leader.shard);
    if to != shard.id() && !shard.mailbox().has_room() {
        return Err(too_many_calls());
    }
    let (owner, pass) = (shard.clone(), shard.enter().ok());
    // The locks of the counters must be released, so this goes on without its client.
    let mut counting = runtime::spawn(async move {
        let counted = match to == owner.id() {
            true => counters::apply_as_leader(&owner, mutation).await,
            false => owner.call(to, Request::LeadCounters(mutation)).await.counted(),
        };
        drop(pass);
        counted
    });
    let counted = match runtime::timeout(timeout, &mut counting).await {
        Some(Ok(counted)) => counted,
        Some(Err(failure)) => {
            let topology = planned.topology.clone();
            return Err(planned.plan.failed(leader, failure.clone(), &topology).unwrap_or(failure));
        }
        None => {
            let expired = planned.plan.expired();
            let (late, pass) = (shard.clone(), shard.enter().ok());
            runtime::spawn(async move {
                if let Ok(mutation) = counting.await {
                    let (counted, timeout) = (Routed { mutation, table, counts: true }, late.timeouts().write);
                    // The client has its answer already; who does not answer now gets a hint.
                    let _ = replication::replicate_counted(&late, counted, planned, timeout).await;
                }
                drop(pass);
            });
            return Err(expired);
        }
    };
    let left = deadline.since(runtime::now()).min(shard.timeouts().write);
    let counted = Routed { mutation: counted, table, counts: true };
    replication::replicate_counted(shard, counted, planned, left).await
}

/// Lets another node change counters.
async fn forward(
    shard: &Shard,
    routed: Routed,
    planned: PlannedWrite,
    leader: Replica,
    timeout: Duration,
) -> Result<(), Failure> {
    let change = Change { level: planned.requirement().level, timeout, mutation: routed.mutation };
    let asked = Asked::new(&planned.topology, leader.node, timeout);
    match asked.count(shard, &routed.table, &change).await {
        Ok(Outcome::Done) => Ok(()),
        Ok(Outcome::Failed(failure)) => Err(failure),
        Err(failure) => {
            let mut asked = planned.plan.to_leader(leader, &planned.topology);
            Err(asked.failed(leader, failure.clone(), &planned.topology).unwrap_or(failure))
        }
    }
}
