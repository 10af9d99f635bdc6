//! Bringing mutations to the cores that own them. This file has the plans, and what happens if this node is the only
//! replica; writes to several are in `replication`.

use super::too_many_calls;
use super::{counting, replication};
use crate::messages::Request;
use crate::metrics::WrittenTables;
use crate::replica::{self, counters};
use crate::request::AckTerms;
use crate::shard_state::Shard;
use cluster::consistency::Requirement;
use cluster::placement::Replica;
use cluster::plan::{WritePlan, WriteType, combined};
use cluster::topology::Topology;
use model::{Failure, Mutation, Table, Token};
use runtime::ShardId;
use runtime::sync::join_all;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A mutation with what is needed to find its replicas.
#[derive(Clone)]
pub(crate) struct Routed {
    /// The change of one partition.
    pub(crate) mutation: Mutation,
    /// The first table that it changes.
    pub(crate) table: Arc<Table>,
    /// Whether its tables have counters.
    pub(crate) counts: bool,
}

/// A write whose replica is known.
pub(crate) struct PlannedWrite {
    pub(crate) plan: WritePlan,
    /// The nodes by which it was planned.
    pub(crate) topology: Rc<Topology>,
}

impl PlannedWrite {
    /// What the write needs.
    pub(crate) fn requirement(&self) -> Requirement {
        self.plan.requirement()
    }

    /// The replica to write to; at ANY there may be none.
    #[inline]
    pub(crate) fn replica(&self) -> Option<Replica> {
        self.plan.targets().next()
    }

    /// The replica, if it is this node and no other replica is asked.
    #[inline]
    pub(crate) fn only_here(&self) -> Option<Replica> {
        self.plan.only().filter(|replica| replica.node == self.topology.here())
    }

    /// Takes the result of the replica, or the end of the request's time.
    #[inline]
    pub(crate) fn finish(mut self, replica: Replica, written: Option<Result<(), Failure>>) -> Result<(), Failure> {
        match written {
            Some(Ok(())) => {
                self.plan.acknowledged(replica);
                Ok(())
            }
            Some(Err(failure)) => self.plan.failed(replica, failure, &self.topology).map_or(Ok(()), Err),
            None => Err(self.plan.expired()),
        }
    }
}

/// The plan of a write to the partition of `table` with this key, given with its token.
///
/// # Errors
/// Unavailable if too few replicas are alive; Invalid if the table was dropped.
pub(crate) fn plan(
    shard: &Shard,
    table: &Table,
    (token, key): (Token, &[u8]),
    write_type: WriteType,
    terms: &AckTerms,
) -> Result<PlannedWrite, Failure> {
    let placement = shard.placement_of(table)?;
    let plan = WritePlan::new(terms.consistency, write_type, placement.replicas(token, key), placement.live())?;
    Ok(PlannedWrite { plan, topology: placement.keyspace().topology().clone() })
}

/// Writes all of `mutations` concurrently. If one fails definitely while another may have taken effect, the outcome of
/// the whole is unknown.
pub(crate) fn write(
    shard: &Shard,
    mutations: Vec<Routed>,
    terms: &AckTerms,
) -> impl Future<Output = Result<(), Failure>> {
    if !mutations.is_empty() {
        shard.trace(|| "Determining replicas for mutation".into());
    }
    apply(shard, mutations, terms)
}

async fn apply(shard: &Shard, mut mutations: Vec<Routed>, terms: &AckTerms) -> Result<(), Failure> {
    let write_type = match mutations.first() {
        Some(routed) if routed.counts => WriteType::Counter,
        _ if mutations.len() > 1 => WriteType::UnloggedBatch,
        _ => WriteType::Simple,
    };
    if mutations.len() > 1 {
        let plans = plans(shard, &mutations, write_type, terms)?;
        return Box::pin(write_planned(shard, mutations, plans, write_type, terms.timeout)).await;
    }
    let Some(routed) = mutations.pop() else { return Ok(()) };
    let plan = plan(shard, &routed.table, (routed.mutation.token(), routed.mutation.key()), write_type, terms)?;
    write_one(shard, routed, plan, write_type, terms.timeout).await
}

/// The plans of several writes that make one request; fails as [`plan`] does.
pub(crate) fn plans(
    shard: &Shard,
    mutations: &[Routed],
    write_type: WriteType,
    terms: &AckTerms,
) -> Result<Vec<PlannedWrite>, Failure> {
    let plan = |routed: &Routed| {
        plan(shard, &routed.table, (routed.mutation.token(), routed.mutation.key()), write_type, terms)
    };
    mutations.iter().map(plan).collect()
}

/// Writes several mutations by their plans.
pub(crate) async fn write_planned(
    shard: &Shard,
    mutations: Vec<Routed>,
    plans: Vec<PlannedWrite>,
    write_type: WriteType,
    timeout: Duration,
) -> Result<(), Failure> {
    let required: Vec<_> = plans.iter().map(PlannedWrite::requirement).collect();
    let writes = mutations.into_iter().zip(plans);
    let writes = writes.map(|(routed, plan)| write_one(shard, routed, plan, write_type, timeout));
    let results = join_all(writes.collect()).await;
    combined(results, write_type, |at| required[at])
}

/// Writes one mutation by its plan.
pub(super) async fn write_one(
    shard: &Shard,
    routed: Routed,
    plan: PlannedWrite,
    write_type: WriteType,
    timeout: Duration,
) -> Result<(), Failure> {
    let Some(replica) = plan.only_here() else {
        if routed.counts {
            return Box::pin(counting::write(shard, routed, plan, timeout)).await;
        }
        return Box::pin(replication::write(shard, routed, plan, write_type, timeout)).await;
    };
    let written = match ShardId(replica.shard) {
        to if to == shard.id() => write_here(shard, routed, timeout).await,
        to => write_on(shard, to, routed, timeout).await,
    };
    plan.finish(replica, written)
}

/// Writes on another core; `None` if it takes too long.
async fn write_on(shard: &Shard, to: ShardId, routed: Routed, timeout: Duration) -> Option<Result<(), Failure>> {
    if !shard.mailbox().has_room() {
        return Some(Err(too_many_calls()));
    }
    let (written, counts) = (WrittenTables::of(&routed.mutation), routed.counts);
    let request = match counts {
        true => Request::MutateCounters(routed.mutation),
        false => Request::Mutate { mutation: routed.mutation, system: false },
    };
    let call = shard.mailbox().call(to, request);
    let began = runtime::now();
    let reply = Box::pin(runtime::timeout(timeout, call)).await?;
    shard.metrics().coordinated(&written, counts, began);
    Some(reply.done())
}

/// Writes on this core; `None` if it takes too long, and then the write goes on.
async fn write_here(shard: &Shard, routed: Routed, timeout: Duration) -> Option<Result<(), Failure>> {
    let owner = shard.clone();
    let mut applying = runtime::sync::boxed(|| async move {
        match routed.counts {
            true => {
                let (written, began) = (WrittenTables::of(&routed.mutation), runtime::now());
                let result = Box::pin(counters::apply(&owner, routed.mutation)).await;
                owner.metrics().coordinated(&written, true, began);
                result
            }
            false => replica::mutate_here(&owner, routed.mutation).await,
        }
    });
    let result = runtime::timeout(timeout, applying.as_mut()).await;
    if result.is_none() {
        // What is in the log must also reach the memtable, so the write goes on without its client.
        runtime::spawn(applying);
    }
    result
}
