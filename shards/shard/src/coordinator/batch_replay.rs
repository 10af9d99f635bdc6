//! Batches that were not removed from the batch log in time: the nodes that keep them apply them.
//!
//! 1. Every core looks at its batches every [`REPLAY_INTERVAL`]. One that is older than twice the timeout of a write,
//!    and than its removal would have taken ([`removal_delay`]), has no coordinator any more, or one that could not
//!    apply it.
//! 2. Each mutation is written to all its replicas. Those that are down, fail or are late have missed it
//!    (`hints::missed`), which may keep it for them.
//! 3. If every replica has every mutation, or it is kept for it, the batch is removed. Otherwise it is applied again
//!    the next time.
//! 4. A batch that is older than the smallest `gc_grace_seconds` of its tables is given up, unless its time for being
//!    applied has just come: deletions that followed it may be forgotten. What belongs to tables that were dropped or
//!    truncated since is left out.
//!
//! A node alone applies the batches that it finds at its start before it serves.
//!
//! Invariants: all nodes together apply at most `batchlog_replay_throttle` bytes a second; stopping waits for the batch
//! that is being applied, not for those after it.

use super::hints::missed;
use super::remote::{Asked, acknowledgement};
use super::replication::{mutation_body, write_here};
use crate::ports::PeerFailure;
use crate::replica::batches;
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::placement::Replica;
use engine::store::Truncation;
use engine::{BatchId, StoredBatch, SyncMode};
use model::{Mutation, TableId};
use runtime::Class;
use runtime::sync::join_all;
use std::time::Duration;

/// How often batches are looked at.
const REPLAY_INTERVAL: Duration = Duration::from_secs(10);

/// How long a batch stays in the batch log after it was applied: until the mutations are durable on every replica.
pub(super) fn removal_delay(shard: &Shard) -> Duration {
    match shard.config().sync {
        // A mutation is on disk when the sync that begins after it has ended.
        SyncMode::Periodic { period, .. } => 2 * period,
        SyncMode::Batch | SyncMode::Group { .. } => Duration::ZERO,
    }
}

/// Finds the batches that earlier runs of the process have left, and looks after all batches from then on.
pub(crate) async fn start(shard: &Shard, truncations: &[(TableId, Truncation)]) -> Result<(), engine::Error> {
    let table = system_table(&shard.schema_ref(), "system", "batches").clone();
    let found = shard.store().stored_batches(&table, truncations).await?;
    found.iter().for_each(|batch| shard.kept_batches().insert(batch.id));
    if shard.topology().nodes().len() == 1 {
        for batch in found {
            tracing::info!(mutations = batch.mutations.len(), "a batch of an earlier run is applied");
            replay(shard, batch).await;
        }
    }
    runtime::spawn_in(Class::Background, keep(shard.clone()));
    Ok(())
}

/// Applies the batches of this core that are old, again and again until the node stops.
async fn keep(shard: Shard) {
    loop {
        runtime::sleep(REPLAY_INTERVAL).await;
        let age = micros(age_min(&shard));
        for id in shard.kept_batches().before(runtime::wall_micros().saturating_sub(age)) {
            let Ok(pass) = shard.enter() else { return };
            let bytes = match read(&shard, id).await {
                Ok(Some(batch)) => {
                    let bytes = batch.mutations.iter().map(|mutation| mutation.bytes().len() as u64).sum();
                    replay(&shard, batch).await;
                    bytes
                }
                Ok(None) => {
                    shard.kept_batches().remove(id);
                    0
                }
                Err(error) => {
                    tracing::warn!(%error, "a batch of the batch log cannot be read");
                    0
                }
            };
            drop(pass);
            runtime::sleep(pause(&shard, bytes)).await;
        }
    }
}

/// The age from which on a batch is applied by those who keep it.
fn age_min(shard: &Shard) -> Duration {
    2 * shard.timeouts().write + removal_delay(shard)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

async fn read(shard: &Shard, id: BatchId) -> Result<Option<StoredBatch>, engine::Error> {
    let table = system_table(&shard.schema_ref(), "system", "batches").clone();
    let truncations = shard.truncations();
    shard.store().stored_batch(&table, id, |table, micros| truncations.covers(table, micros)).await
}

/// How long this core waits after it has applied so many bytes.
fn pause(shard: &Shard, bytes: u64) -> Duration {
    let cores = (runtime::shard_count() * shard.topology().nodes().len()) as u64;
    let nanos = u128::from(bytes * cores) * 1_000_000_000;
    let nanos = nanos.checked_div(shard.config().batch_log_replay_bytes_per_second.into()).unwrap_or(0);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Applies a batch, and removes it if that makes it whole.
async fn replay(shard: &Shard, batch: StoredBatch) {
    let StoredBatch { id, mutations } = batch;
    if is_expired(shard, id, &mutations) {
        shard.metrics().batches_expired.increment();
        tracing::warn!(mutations = mutations.len(), "a logged batch is older than gc_grace_seconds and is given up");
    } else {
        shard.metrics().batches_replayed.increment();
        let brought = join_all(mutations.iter().map(|mutation| bring(shard, mutation, id.timestamp)).collect()).await;
        if brought.contains(&false) {
            return;
        }
    }
    if let Err(failure) = batches::remove(shard, id).await {
        tracing::warn!(%failure, "a finished batch stays in the batch log");
    }
}

/// Whether deletions that followed a batch may be forgotten. A table may keep deletions for no time at all; those who
/// keep a batch get to apply it nevertheless.
fn is_expired(shard: &Shard, id: BatchId, mutations: &[Mutation]) -> bool {
    let schema = shard.schema_ref();
    let tables = mutations.iter().flat_map(Mutation::updates).filter_map(|update| schema.table_by_id(update.table));
    let grace = tables.map(|table| Duration::from_secs(table.options.grace_seconds().into()));
    let first_attempt = age_min(shard) + REPLAY_INTERVAL;
    let age = runtime::wall_micros().saturating_sub(id.timestamp);
    grace.min().is_some_and(|grace| age > micros(grace.max(first_attempt)))
}

/// Writes a mutation of a batch that was to be written at `written_at`, microseconds since 1970, to all its replicas.
/// Returns whether each of them has it, or it is kept for it on disk.
async fn bring(shard: &Shard, mutation: &Mutation, written_at: i64) -> bool {
    let table = mutation.updates().next().and_then(|update| shard.schema_ref().table_by_id(update.table).cloned());
    // A table that was dropped loses what it had.
    let Some(placement) = table.and_then(|table| shard.placement_of(&table).ok()) else { return true };
    let topology = placement.keyspace().topology().clone();
    let body = mutation_body(&topology, mutation.bytes());
    let deadline = runtime::now().after(shard.timeouts().write);
    let (topology, body) = (&topology, &body);
    let write = |replica: Replica| async move {
        if replica.node == topology.here() {
            return write_here(shard, replica, mutation.clone()).await.is_ok();
        }
        let answer = match topology.live().contains(replica.node) {
            true => {
                let call = Asked::until(topology, replica.node, deadline).call(shard, Verb::Mutation, body);
                let answer = runtime::timeout(deadline.since(runtime::now()), call).await;
                answer.unwrap_or(Err(PeerFailure::NoAnswer))
            }
            false => Err(PeerFailure::NotSent),
        };
        if acknowledgement(Verb::Mutation, answer).is_ok() {
            return true;
        }
        match missed(shard, topology.node(replica.node), mutation.bytes(), written_at) {
            Some(kept) => runtime::timeout(shard.timeouts().write, kept.on_disk()).await.is_some(),
            None => false,
        }
    };
    let replicas = placement.replicas(mutation.token(), mutation.key()).written();
    !join_all(replicas.map(write).collect()).await.contains(&false)
}
