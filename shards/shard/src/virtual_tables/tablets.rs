//! `tablets`: the tablets of all tables that are cut into them, with their replicas, and what each takes on the disk of
//! the largest of its replicas.

use super::VirtualRows;
use super::contents::text;
use crate::shard_state::Shard;
use model::Failure;
use model::value::push_element;
use std::net::IpAddr;

/// Adds a row for each.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    if shard.metadata().current().tablets.is_empty() {
        return Ok(());
    }
    let all = shard.shown_tablets().await?;
    let schema = shard.schema();
    let addresses = |nodes: &[IpAddr]| {
        let mut list = (nodes.len() as i32).to_be_bytes().to_vec();
        nodes.iter().for_each(|node| push_element(&mut list, Some(node.to_string().as_bytes())));
        Some(list)
    };
    let number = |number: i64| Some(number.to_be_bytes().to_vec());
    for (id, tablets) in all {
        let Some(table) = schema.table_by_id(id) else { continue };
        for tablet in tablets {
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("end_token", number(tablet.until)),
                ("bytes", number(i64::try_from(tablet.bytes).unwrap_or(i64::MAX))),
                ("goal", tablet.goal.as_deref().and_then(addresses)),
                ("replicas", addresses(&tablet.replicas)),
                ("start_token", number(tablet.after)),
            ]);
        }
    }
    Ok(())
}
