//! Hints: mutations that other nodes have missed, which this node keeps and sends them when they are back.
//!
//! 1. [`missed`] keeps a mutation, unless hints are switched off for the node, or it has been away for too long.
//! 2. [`files`] writes hints to files and closes those of nodes that are alive.
//! 3. [`delivery`] sends what is in closed files to their nodes, in order and within `hinted_handoff_throttle`, and
//!    deletes the files.
//!
//! A hint is dropped when it is older than the smallest `gc_grace_seconds` of its tables, by what that was and what it
//! is now: tombstones that cover it may be gone. What a table has missed before it was truncated is dropped too.
//!
//! Invariants: a mutation that is acknowledged at ANY, because it is kept, survives a crash if acknowledged writes do;
//! a hint is forgotten only when the node has it, or by one of the rules above.

pub(crate) mod delivery;
pub(crate) mod files;

use crate::shard_state::Shard;
use cluster::topology::Node;
use engine::SyncMode;
use engine::hints::Hint;
use model::mutation::tables_of;
use model::{Consistency, Schema};
use uuid::Uuid;

/// A mutation that is kept for a node.
pub(super) struct Kept {
    shard: Shard,
    host_id: Uuid,
    batch: u64,
}

impl Kept {
    /// Whether a client whose write has this level is answered only when the hint is on disk.
    pub(super) fn is_waited_for(&self, level: Consistency) -> bool {
        level == Consistency::Any && !matches!(self.shard.config().sync, SyncMode::Periodic { .. })
    }

    /// Waits until the hint is on disk.
    pub(super) async fn on_disk(self) {
        self.shard.hints().settled(self.host_id, self.batch).await;
    }
}

/// Notes that a replica was down, failed or late when a mutation was sent to it that was to be written at `written_at`,
/// microseconds since 1970. Returns whether this node keeps the mutation, to send it again when the replica is back.
pub(super) fn missed(shard: &Shard, node: &Node, mutation: &[u8], written_at: i64) -> Option<Kept> {
    shard.metrics().mutations_missed.increment();
    let kept = keep_missed(shard, node, mutation, written_at);
    if kept.is_none() {
        shard.hints().counts.refused.increment();
    }
    kept
}

fn keep_missed(shard: &Shard, node: &Node, mutation: &[u8], written_at: i64) -> Option<Kept> {
    let hints = shard.hints();
    let (is_enabled, age_from_creation) = {
        let options = hints.options();
        (options.enabled && !options.disabled_centers.contains(&node.data_center), options.age_from_creation)
    };
    if !is_enabled {
        return None;
    }
    let now = runtime::wall_micros();
    if !hints.may_keep(node.host_id, millis(now)) {
        return None;
    }
    let gc_grace_seconds = gc_grace_seconds(&shard.schema_ref(), mutation)?;
    let written_at = if age_from_creation { written_at } else { now };
    keep(shard, node.host_id, &Hint { written_at, gc_grace_seconds, mutation })
}

/// Keeps a hint for a node.
pub(super) fn keep(shard: &Shard, host_id: Uuid, hint: &Hint<'_>) -> Option<Kept> {
    let batch = shard.hints().keep(host_id, millis(runtime::wall_micros()), hint)?;
    Some(Kept { shard: shard.clone(), host_id, batch })
}

/// Keeps a hint that another node hands on, on disk when this returns; false if there is no room.
pub(crate) async fn keep_for(shard: &Shard, host_id: Uuid, hint: &Hint<'_>) -> bool {
    let Some(kept) = keep(shard, host_id, hint) else { return false };
    kept.on_disk().await;
    true
}

/// After how many seconds deletions may be forgotten, at the earliest, of the tables of a mutation that exist; `None`
/// if none does.
fn gc_grace_seconds(schema: &Schema, mutation: &[u8]) -> Option<u32> {
    let tables = tables_of(mutation).filter_map(|id| schema.table_by_id(id));
    tables.map(|table| table.options.grace_seconds()).min()
}

/// Milliseconds since 1970.
fn millis(micros: i64) -> u64 {
    u64::try_from(micros.div_euclid(1000)).unwrap_or_default()
}
