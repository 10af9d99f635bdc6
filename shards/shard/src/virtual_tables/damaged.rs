//! `damaged_sstables`: the SSTables of this node in which damaged bytes were met, and what is done about each.

use super::VirtualRows;
use super::contents::text;
use crate::messages::admin::{TableAnswer, TableVerb};
use crate::shard_state::Shard;
use model::Failure;
use model::token::RingPosition;

/// What is wrong with one of which only some bytes are damaged.
const BYTES: &str = "bytes differ from what was written: reads that need them fail";

/// Adds a row for each.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let (mut lists, mut states) = (Vec::new(), Default::default());
    for answer in shard.on_every_shard(TableVerb::Damaged).await? {
        let TableAnswer::Damaged { sstables, states: told } = answer else { continue };
        lists.push(sstables);
        if !told.is_empty() {
            states = told;
        }
    }
    let token = |position: &Option<RingPosition>| position.as_ref().and_then(|at| text(&at.token.to_string()));
    for sstable in engine::damaged::merged(lists) {
        let (keyspace, table) = &sstable.names;
        rows.push([
            ("keyspace_name", text(keyspace)),
            ("table_name", text(table)),
            ("file", text(&sstable.file.display().to_string())),
            ("end_token", token(&sstable.range.end)),
            ("problem", text(sstable.problem.as_deref().unwrap_or(BYTES))),
            ("start_token", token(&sstable.range.start)),
            ("state", states.get(&sstable.file).and_then(|state| text(state))),
        ]);
    }
    Ok(())
}
