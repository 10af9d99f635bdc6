//! `tablets`: the tablets of all tables that are cut into them, with their replicas, what each takes on the disk of the
//! largest of its replicas, and the request units a second that all of them serve; `physical_partitions`: how near each
//! is to its limits.
//!
//! A tablet is what a table has as a physical partition. On the ring that is what a core has as the first of its
//! replicas, which is no range of tokens, and whose load nobody counts: it has no rows here.

use super::VirtualRows;
use super::contents::{double, text};
use crate::operations::tablet_figures::{ShownTablet, limits};
use crate::shard_state::Shard;
use model::capacity::Provisioned;
use model::value::push_element;
use model::{Failure, Table, TableId};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Adds a row for each.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    for (table, tablets) in shown(shard).await? {
        for tablet in tablets {
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("end_token", number(tablet.until)),
                ("bytes", bytes(&tablet)),
                ("goal", tablet.goal.as_deref().and_then(addresses)),
                ("replicas", addresses(&tablet.replicas)),
                ("start_token", number(tablet.after)),
                ("units_per_second", double(tablet.units)),
            ]);
        }
    }
    Ok(())
}

/// Adds a row for each, with its parts of what the table is provisioned with and of the limits at which it is split.
pub(super) async fn fill_physical(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let limits = limits(shard.config());
    for (table, tablets) in shown(shard).await? {
        let provisioned = match table.options.capacity.as_ref().map(|capacity| capacity.provisioned) {
            Some(Provisioned::Units { per_second, .. }) => Some(per_second as f64 / tablets.len() as f64),
            _ => None,
        };
        for tablet in tablets {
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("first_token", number(tablet.after.saturating_add(1))),
                ("bytes", bytes(&tablet)),
                ("last_token", number(tablet.until)),
                ("provisioned_units_per_second", provisioned.and_then(double)),
                ("replicas", addresses(&tablet.replicas)),
                ("share_of_provisioned", provisioned.and_then(|provisioned| double(tablet.units / provisioned))),
                ("share_of_size", double(tablet.bytes as f64 / limits.bytes_target as f64)),
                ("share_of_throughput", double(tablet.units / limits.units_max)),
                ("units_per_second", double(tablet.units)),
            ]);
        }
    }
    Ok(())
}

/// All tables that have tablets, with these.
async fn shown(shard: &Shard) -> Result<Vec<(Arc<Table>, Vec<ShownTablet>)>, Failure> {
    if shard.metadata().current().tablets.is_empty() {
        return Ok(Vec::new());
    }
    let all: BTreeMap<TableId, Vec<ShownTablet>> = shard.shown_tablets().await?;
    let schema = shard.schema();
    let known = all.into_iter().filter_map(|(id, tablets)| Some((schema.table_by_id(id)?.clone(), tablets)));
    Ok(known.collect())
}

fn number(number: i64) -> Option<Vec<u8>> {
    Some(number.to_be_bytes().to_vec())
}

fn bytes(tablet: &ShownTablet) -> Option<Vec<u8>> {
    number(i64::try_from(tablet.bytes).unwrap_or(i64::MAX))
}

fn addresses(nodes: &[IpAddr]) -> Option<Vec<u8>> {
    let mut list = (nodes.len() as i32).to_be_bytes().to_vec();
    nodes.iter().for_each(|node| push_element(&mut list, Some(node.to_string().as_bytes())));
    Some(list)
}
