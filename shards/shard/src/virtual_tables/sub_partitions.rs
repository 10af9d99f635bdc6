//! `sub_partitions`: how many sub-partitions the keys of tables with write sharding have, of tables that grow or have
//! grown: a row for all keys, whose `partition_key` is empty, and one for each key that has grown by itself, with the
//! reason for which it has last.

use super::VirtualRows;
use super::contents::{int, text};
use crate::shard_state::Shard;
use cluster::sub_partitions::GrowthStage;
use model::TableId;

/// Adds the rows.
pub(super) fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) {
    let (metadata, schema) = (shard.metadata().current(), shard.schema());
    for (id, map) in &metadata.sub_partitions {
        let Some(table) = schema.table_by_id(TableId(*id)) else { continue };
        for (token, scope) in map.scopes() {
            let own = token.and_then(|token| map.keys.get(&token));
            let key = own.map_or_else(String::new, |own| {
                let stored = table.key_text(&table.stored_key(&own.key, 0));
                stored.strip_suffix(":0").map_or(stored.clone(), str::to_owned)
            });
            let reason = token.and_then(|token| map.reasons.get(&token));
            let stage = scope.growth.map(|growth| growth.stage);
            let goal = scope.growth.filter(|growth| growth.stage != GrowthStage::Left);
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("partition_key", text(&key)),
                ("growing_to", goal.and_then(|growth| int(growth.places().shards.into()))),
                ("reason", reason.and_then(|reason| text(&reason.to_string()))),
                ("shards", int(scope.places().shards.into())),
                ("stage", stage.and_then(|stage| text(name(stage)))),
            ]);
        }
    }
}

fn name(stage: GrowthStage) -> &'static str {
    match stage {
        GrowthStage::WrittenTwice => "written twice",
        GrowthStage::Closed => "closed",
        GrowthStage::ReadThere => "read there",
        GrowthStage::Left => "left",
    }
}
