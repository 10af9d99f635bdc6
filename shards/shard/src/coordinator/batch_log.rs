//! The batch log: a logged batch over several partitions is applied completely or not at all, whatever crashes.
//!
//! 1. All mutations of a batch are written as one row of `system.batches`, which is on this core's disk before any of
//!    them is applied.
//! 2. The mutations are applied. The row is removed once they are as durable as the row was.
//! 3. If some could not be applied, they are retried until they are. After a restart the batches that are still in the
//!    table are applied with their original timestamps.
//!
//! Invariants: applying a batch again changes nothing; a batch in the table is applied eventually.

use super::write::{PlannedWrite, Routed, plans, write_planned};
use crate::replica;
use crate::request::AckTerms;
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use cluster::plan::{WritePlan, WriteType, postponed};
use cql::plan::EvaluationContext;
use engine::batch_log::BatchId;
use engine::store::Truncation;
use model::{Consistency, Failure, Mutation, Schema, TableId};
use std::time::Duration;

/// Pause between two attempts to apply mutations that failed.
const RETRY: Duration = Duration::from_secs(10);

/// Applies the mutations of a batch, all or none.
pub(crate) async fn write_logged(shard: &Shard, mutations: Vec<Routed>, terms: &AckTerms) -> Result<(), Failure> {
    let plans = plans(shard, &mutations, WriteType::Batch, terms)?;
    let table = system_table(&shard.schema_ref(), "system", "batches").clone();
    let batches = shard.placement_of(&table)?;
    let mut log_plan = WritePlan::of_batch_log(&batches, shard.id().0);
    let mut context = shard.evaluation();
    let id = shard.store().batch_id(shard.clock().timestamp(), || context.timeuuid());
    let stored: Vec<Mutation> = mutations.iter().map(|routed| routed.mutation.clone()).collect();
    shard.trace(|| "Determining replicas for atomic batch".into());
    shard.trace(|| "Appending to commitlog".into());
    match runtime::timeout(terms.timeout, shard.store().put_batch(&table, id, &stored)).await {
        Some(Ok(())) => shard.trace(|| "Adding to batches memtable".into()),
        Some(Err(error)) => return Err(replica::failure(&shard.schema_ref(), Some(table.id), error)),
        None => return Err(log_plan.expired()),
    }
    let required = plans.first().map(PlannedWrite::requirement);
    match write_planned(shard, mutations.clone(), plans, WriteType::Batch, terms.timeout).await {
        Ok(()) => {
            remove(shard, id);
            Ok(())
        }
        Err(failure) => {
            // The batch is in the batch log, so it will be applied even though the first attempt failed.
            tracing::warn!(%failure, "a logged batch is tried again");
            let (owner, consistency) = (shard.clone(), terms.consistency);
            runtime::spawn(async move {
                retry(&owner, &mutations, consistency).await;
                remove(&owner, id);
            });
            Err(match required {
                Some(required) => postponed(required),
                None => failure,
            })
        }
    }
}

/// Removes a batch whose mutations were applied, once they are durable.
fn remove(shard: &Shard, id: BatchId) {
    let shard = shard.clone();
    runtime::spawn(async move {
        // In periodic mode a mutation is on disk when the sync that begins after it has ended.
        if let engine::SyncMode::Periodic { period, .. } = shard.config().sync {
            runtime::sleep(2 * period).await;
        }
        let table = system_table(&shard.schema_ref(), "system", "batches").clone();
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        if let Err(error) = shard.store().remove_batch(&table, id, now_in_seconds).await {
            // The next start will apply it once more, which changes nothing.
            tracing::warn!(%error, "a finished batch stays in the batch log");
        }
    });
}

/// Applies the mutations of a batch that is in the batch log.
async fn apply(shard: &Shard, mutations: Vec<Routed>, terms: &AckTerms) -> Result<(), Failure> {
    let plans = plans(shard, &mutations, WriteType::Batch, terms)?;
    write_planned(shard, mutations, plans, WriteType::Batch, terms.timeout).await
}

/// Applies mutations, retrying until all are applied.
async fn retry(shard: &Shard, mutations: &[Routed], consistency: Consistency) {
    let terms = AckTerms { consistency, timeout: shard.config().write_timeout };
    loop {
        runtime::sleep(RETRY).await;
        if apply(shard, mutations.to_vec(), &terms).await.is_ok() {
            return;
        }
    }
}

/// Applies the batches that an earlier run of the process left in the table.
pub(crate) async fn replay(shard: &Shard, truncations: &[(TableId, Truncation)]) -> Result<(), engine::Error> {
    let table = system_table(&shard.schema_ref(), "system", "batches").clone();
    for batch in shard.store().stored_batches(&table, truncations).await? {
        tracing::info!(mutations = batch.mutations.len(), "a batch of an earlier run is applied");
        let schema = shard.schema();
        let mutations: Vec<Routed> =
            batch.mutations.into_iter().filter_map(|mutation| routed(&schema, mutation)).collect();
        let terms = AckTerms { consistency: Consistency::One, timeout: shard.config().write_timeout };
        let applied = apply(shard, mutations.clone(), &terms).await;
        let owner = shard.clone();
        runtime::spawn(async move {
            if applied.is_err() {
                retry(&owner, &mutations, Consistency::One).await;
            }
            remove(&owner, batch.id);
        });
    }
    Ok(())
}

/// A mutation of a stored batch, with its first table; `None` if there is no such table.
fn routed(schema: &Schema, mutation: Mutation) -> Option<Routed> {
    let table = schema.table_by_id(mutation.updates().next()?.table)?.clone();
    Some(Routed { mutation, table, counts: false })
}
