//! Repair without an operator (`auto_repair`): every table of a replicated keyspace is repaired in time, by each node
//! for the ranges that it owns first.
//!
//! 1. Every `repair_check_interval` the node looks when it has last repaired each table ([`history`]), and takes the
//!    one that is most overdue ([`schedule`]).
//! 2. That one is repaired by the command that operators have, resting behind every part of a range, so that requests
//!    of clients go first. What it does is told like theirs: in `system_views.repairs` and in `system_distributed`.
//! 3. Further tables that are due follow. A repair that fails, because a replica is down, is tried again after the next
//!    interval.
//!
//! Invariants: a node leads at most one repair of its own accord; stopping ends it.

mod history;
mod schedule;

use crate::admin::repair::{self, OwnRepair};
use crate::config::AutoRepairOptions;
use crate::node_state::NodeState;
use model::{Table, TableId};
use runtime::sync::{Latch, race};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A table that is due.
struct Due {
    table: Arc<Table>,
    late: Duration,
}

/// Repairs what is due, until the node stops.
pub(crate) async fn keep(node: Rc<NodeState>, stopping: Latch) {
    let options = &node.config.auto_repair;
    if !(options.is_scheduled && options.is_enabled) {
        return;
    }
    let run = async {
        runtime::sleep(options.initial_delay).await;
        // Nodes that were started together do not begin together.
        let span = options.check_interval.as_nanos() as u64;
        runtime::sleep(Duration::from_nanos(runtime::rng::below(span.max(1)))).await;
        // What was repaired since the start: another replica of the history may not have its last rows yet.
        let mut done: BTreeMap<TableId, i64> = BTreeMap::new();
        let mut failed: BTreeSet<TableId> = BTreeSet::new();
        loop {
            while let Some(due) = most_overdue(&node, options, &done, &failed).await {
                let (id, began) = (due.table.id, runtime::wall_micros().div_euclid(1000));
                match repair_table(&node, options, &due).await {
                    Ok(()) => drop(done.insert(id, began)),
                    Err(error) => {
                        let (keyspace, name) = (&due.table.keyspace, &due.table.name);
                        tracing::warn!("automatic repair of {keyspace}.{name} failed, trying again later: {error}");
                        failed.insert(id);
                    }
                }
            }
            runtime::sleep(options.check_interval).await;
            failed.clear();
        }
    };
    race(stopping.wait(), run).await;
}

/// The table that is most overdue, but those that have failed in this round.
async fn most_overdue(
    node: &NodeState,
    options: &AutoRepairOptions,
    done: &BTreeMap<TableId, i64>,
    failed: &BTreeSet<TableId>,
) -> Option<Due> {
    let schema = node.shard.schema();
    let now = runtime::wall_micros().div_euclid(1000);
    let mut found: Option<Due> = None;
    for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual() && !keyspace.is_local()) {
        for table in keyspace.tables.values().filter(|table| !shard::is_hidden(table) && !failed.contains(&table.id)) {
            let Some(ranges) = repair::own_ranges(&node.shard, table, options.primary_range_only) else { continue };
            let last = match history::last_repair(&node.shard, table, &ranges).await {
                Ok(last) => last.max(done.get(&table.id).copied()),
                Err(failure) => {
                    tracing::debug!(%failure, "the repair history cannot be read");
                    return None;
                }
            };
            let gc_grace = u32::try_from(table.options.gc_grace_seconds).unwrap_or(0);
            // A table that was never repaired is due since it could have been for the first time.
            let since = Duration::from_millis(u64::try_from(now - last.unwrap_or(0)).unwrap_or(0));
            let Some(late) = since.checked_sub(schedule::interval(gc_grace, options.min_interval)) else { continue };
            let late = if last.is_none() { Duration::ZERO } else { late };
            if found.as_ref().is_none_or(|found| late > found.late) {
                found = Some(Due { table: table.clone(), late });
            }
        }
    }
    found
}

async fn repair_table(node: &NodeState, options: &AutoRepairOptions, due: &Due) -> Result<(), String> {
    let (keyspace, table) = (&due.table.keyspace, &due.table.name);
    tracing::info!("automatic repair of {keyspace}.{table} begins");
    let gc_grace = u32::try_from(due.table.options.gc_grace_seconds).unwrap_or(0);
    let own = OwnRepair {
        table: table.clone(),
        primary_range_only: options.primary_range_only,
        rest: schedule::rest(due.late, gc_grace),
    };
    repair::repair_own(node, keyspace, own).await?;
    tracing::info!("automatic repair of {keyspace}.{table} is done");
    Ok(())
}
