//! The batch log: a logged batch over several partitions is applied completely or not at all, whatever crashes.
//!
//! 1. All mutations of a batch are written as one row of `system.batches`, on two other nodes of the data centre, or on
//!    this one if it is alone there (`cluster::plan` says where). It is on their disks before any of them is applied.
//! 2. The mutations are applied. The row is removed once they are as durable as the row was.
//! 3. What could not be applied, and what a coordinator that died had not applied yet, is applied by the nodes that
//!    keep the batch, with the original timestamps (`batch_replay`).
//!
//! Invariants: applying a batch again changes nothing; a batch that a client was not told to be refused is applied
//! eventually.

use super::batch_replay::removal_delay;
use super::remote::{Asked, acknowledgement, failure_of};
use super::write::{PlannedWrite, Routed, plans, write_planned};
use crate::messages::Request;
use crate::peer::batches::{encoded_bytes, push, push_id};
use crate::peer::head::Head;
use crate::ports::PeerCall;
use crate::replica::batches;
use crate::request::AckTerms;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::placement::Replica;
use cluster::plan::{WritePlan, WriteType, postponed};
use cluster::topology::{Node, Topology};
use engine::{BatchId, StoredBatch};
use model::Failure;
use model::failure::Outcome;
use runtime::{Instant, JoinHandle, ShardId};
use smallvec::SmallVec;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Applies the mutations of a batch, all or none.
pub(crate) async fn write_logged(shard: &Shard, mutations: Vec<Routed>, terms: &AckTerms) -> Result<(), Failure> {
    let topology = shard.topology();
    let below = |n: usize| (runtime::rng::u64() % n as u64) as usize;
    let strategy = shard.config().batch_log_strategy;
    let is_reachable = |node: &Node| shard.peers().unreachable_for(node).is_zero();
    let log_plan = WritePlan::of_batch_log(&topology, shard.id().0, terms.consistency, strategy, below, is_reachable)?;
    let plans = plans(shard, &mutations, WriteType::Batch, terms)?;
    let mut context = shard.evaluation();
    let id = shard.store().batch_id(shard.clock().timestamp(), || uuid(&mut context));
    let stored = mutations.iter().map(|routed| routed.mutation.clone()).collect();
    shard.trace(|| "Determining replicas for atomic batch".into());
    let log = BatchLog { shard: shard.clone(), topology, keepers: log_plan.targets().collect(), id };
    log.store(log_plan, StoredBatch { id, mutations: stored }, terms.timeout).await?;
    let required = plans.first().map(PlannedWrite::requirement);
    match write_planned(shard, mutations, plans, WriteType::Batch, terms.timeout).await {
        Ok(()) => {
            runtime::spawn(log.remove());
            Ok(())
        }
        Err(failure) => {
            // The batch is in the batch log, so it will be applied even though the first attempt failed.
            tracing::warn!(%failure, "a logged batch is left to the batch log");
            Err(match required {
                Some(required) if failure.outcome == Outcome::NotApplied => postponed(required),
                _ => failure,
            })
        }
    }
}

fn uuid(context: &mut impl cql::plan::EvaluationContext) -> [u8; 16] {
    context.timeuuid()
}

/// A batch in the batch log.
struct BatchLog {
    shard: Shard,
    /// The nodes by which it was planned.
    topology: Rc<Topology>,
    /// Where the batch is.
    keepers: SmallVec<[Replica; 2]>,
    id: BatchId,
}

/// The storing of a batch on one node.
enum Call {
    Here(JoinHandle<Result<(), Failure>>),
    Elsewhere(PeerCall),
}

impl BatchLog {
    /// Stores the batch by `plan`: durable on return.
    async fn store(&self, mut plan: WritePlan, batch: StoredBatch, timeout: Duration) -> Result<(), Failure> {
        if let [keeper] = self.keepers[..]
            && keeper.node == self.topology.here()
        {
            let stored = runtime::timeout(timeout, batches::store(&self.shard, &batch)).await;
            return stored.unwrap_or_else(|| Err(plan.expired()));
        }
        let deadline = runtime::now().after(timeout);
        let mut calls = self.send(batch, deadline);
        let answered = runtime::timeout(timeout, async {
            while !calls.is_empty() {
                let (keeper, result) = std::future::poll_fn(|context| poll_next(&mut calls, context)).await;
                match result {
                    Ok(()) if plan.acknowledged(keeper) => return Ok(()),
                    Ok(()) => {}
                    Err(failure) => {
                        if let Some(failure) = plan.failed(keeper, failure, &self.topology) {
                            return Err(failure);
                        }
                    }
                }
            }
            Err(plan.expired())
        });
        match answered.await {
            Some(result) => result,
            None => Err(plan.expired()),
        }
    }

    /// Sends the batch to the nodes that are to keep it.
    fn send(&self, batch: StoredBatch, deadline: Instant) -> SmallVec<[(Replica, Call); 2]> {
        let mut body = Head { epoch: self.topology.epoch() }.body(encoded_bytes(&batch));
        push(&mut body, &batch);
        let mut own = Some(batch);
        let call = |keeper: &Replica| {
            let call = match own.take_if(|_| keeper.node == self.topology.here()) {
                Some(batch) => {
                    let shard = self.shard.clone();
                    // What is in the log must also reach the memtable, so it goes on whatever becomes of the request.
                    Call::Here(runtime::spawn(async move { batches::store(&shard, &batch).await }))
                }
                None => {
                    let asked = Asked::until(&self.topology, keeper.node, deadline);
                    Call::Elsewhere(asked.call(&self.shard, Verb::BatchStore, &body))
                }
            };
            (*keeper, call)
        };
        self.keepers.iter().map(call).collect()
    }

    /// Removes the batch, whose mutations were applied, once they are durable.
    async fn remove(self) {
        let BatchLog { shard, topology, keepers, id } = self;
        let delay = removal_delay(&shard);
        if !delay.is_zero() {
            runtime::sleep(delay).await;
        }
        for keeper in keepers {
            if keeper.node == topology.here() {
                let removed = shard.call(ShardId(keeper.shard), Request::RemoveBatch(id)).await.done();
                if let Err(failure) = removed {
                    // It will be applied once more, which changes nothing.
                    tracing::warn!(%failure, "a finished batch stays in the batch log");
                }
                continue;
            }
            let mut body = Head { epoch: topology.epoch() }.body(0);
            push_id(&mut body, id);
            let asked = Asked::new(&topology, keeper.node, shard.timeouts().write);
            drop(asked.call(&shard, Verb::BatchRemove, &body));
        }
    }
}

fn poll_next(
    calls: &mut SmallVec<[(Replica, Call); 2]>,
    context: &mut Context<'_>,
) -> Poll<(Replica, Result<(), Failure>)> {
    for at in 0..calls.len() {
        let result = match &mut calls[at].1 {
            Call::Here(call) => Pin::new(call).poll(context),
            Call::Elsewhere(call) => {
                let verb = Verb::BatchStore;
                let answer = call.as_mut().poll(context);
                answer.map(|answer| acknowledgement(verb, answer).map_err(|refusal| failure_of(verb, refusal)))
            }
        };
        if let Poll::Ready(result) = result {
            let (keeper, _) = calls.swap_remove(at);
            return Poll::Ready((keeper, result));
        }
    }
    Poll::Pending
}
