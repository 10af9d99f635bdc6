//! Logged batches that this core keeps for their coordinator, in `system.batches`.

use super::failure;
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use engine::{BatchId, StoredBatch};
use model::Failure;

/// Stores a batch; durable on return.
pub(crate) async fn store(shard: &Shard, batch: &StoredBatch) -> Result<(), Failure> {
    let table = system_table(&shard.schema_ref(), "system", "batches").clone();
    shard.trace(|| "Appending to commitlog".into());
    shard.kept_batches().insert(batch.id);
    match shard.store().put_batch(&table, batch.id, &batch.mutations).await {
        Ok(()) => {
            shard.trace(|| "Adding to batches memtable".into());
            Ok(())
        }
        Err(error) => {
            shard.kept_batches().remove(batch.id);
            Err(failure(&shard.schema_ref(), Some(table.id), error))
        }
    }
}

/// Removes a batch that was applied.
pub(crate) async fn remove(shard: &Shard, id: BatchId) -> Result<(), Failure> {
    shard.kept_batches().remove(id);
    let table = system_table(&shard.schema_ref(), "system", "batches").clone();
    let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
    let removed = shard.store().remove_batch(&table, id, now_in_seconds).await;
    removed.map_err(|error| failure(&shard.schema_ref(), Some(table.id), error))
}
