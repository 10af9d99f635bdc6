//! `tablets`: the tablets of all tables that are cut into them, with their replicas, and what each takes on the disk of
//! the largest of its replicas.

use super::VirtualRows;
use super::contents::text;
use crate::operations::tablet_figures;
use crate::shard_state::Shard;
use model::value::push_element;
use model::{Failure, TableId};
use uuid::Uuid;

/// Adds a row for each.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let metadata = shard.metadata().current();
    if metadata.tablets.is_empty() {
        return Ok(());
    }
    let figures = tablet_figures::gather(shard).await?;
    let schema = shard.schema();
    let addresses = |nodes: &[Uuid]| {
        let mut list = (nodes.len() as i32).to_be_bytes().to_vec();
        for node in nodes {
            let address = metadata.members.get(node).map(|member| member.address.ip().to_string());
            push_element(&mut list, Some(address.unwrap_or_default().as_bytes()));
        }
        Some(list)
    };
    let number = |number: i64| Some(number.to_be_bytes().to_vec());
    for (id, map) in &metadata.tablets {
        let Some(table) = schema.table_by_id(TableId(*id)) else { continue };
        let mut start = i64::MIN;
        for (at, tablet) in map.tablets.iter().enumerate() {
            let end = tablet.until.unwrap_or(i64::MAX);
            let bytes = figures.get(id).and_then(|tablets| tablets.get(at)).map_or(0, |known| known.bytes);
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("end_token", number(end)),
                ("bytes", number(i64::try_from(bytes).unwrap_or(i64::MAX))),
                ("goal", tablet.goal.as_deref().and_then(addresses)),
                ("replicas", addresses(&tablet.replicas)),
                ("start_token", number(start)),
            ]);
            start = end;
        }
    }
    Ok(())
}
