//! Splitting, merging and moving tablets: the part of whoever leads the group, on shard 0.
//!
//! Every [`PERIOD`], if no operation is under way, one thing is done, the first of these that there is to do:
//! 1. Replicas of tables of ManagedStrategy are rebuilt that are on nodes which have been down for too long, if there
//!    are others for them.
//! 2. Tables that have fewer replicas than their keyspace asks for, because nodes came only now, get them.
//! 3. Tablets that are too large or too busy are split, neighbours that are small and idle are merged. No data moves.
//! 4. Unless a node is emptied, a few idle tablets move to where a neighbour is with which they can be merged
//!    ([`planner::colocate`]).
//! 5. A few tablets move to where there is more room ([`planner::balance`]), first those of nodes that are emptied. The
//!    next ones follow when they have.
//!
//! A leader that dies is followed by one that looks anew: everything that was begun is in the metadata.

use crate::operations::ring_changes::receivers;
use crate::operations::tablet_figures::{self, AllFigures};
use crate::operations::tablet_plans::{self, factors};
use crate::shard_state::Shard;
use cluster::metadata::{Command, Metadata, OperationKind};
use cluster::tablets::planner::{self, Limits, PlannedNode, TableView};
use cluster::tablets::{TabletChange, TabletMap, TabletsUpdate};
use cluster::topology::features;
use model::{Failure, Schema, TableId};
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// How often the leader looks.
const PERIOD: Duration = Duration::from_secs(10);
/// Most tablets that move at the same time.
const MOVES_MAX: usize = 8;
/// Most tablets that get a replica instead of one on a dead node at the same time.
const REBUILT_MAX: usize = 64;
/// How long the cluster may take to agree.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Splits, merges and moves tablets while this node leads, until it stops.
pub(crate) async fn keep(shard: Shard) {
    while !shard.store().is_closing() {
        shard.metadata().wait_until(|metadata| !metadata.tablets.is_empty()).await;
        runtime::sleep(PERIOD).await;
        let leads = shard.metadata().group().is_some_and(|group| group.leader() == Some(shard.host_id()));
        let metadata = shard.metadata().current();
        let is_calm = metadata.operations.is_empty() && shard.topology().all_have(features::TABLETS);
        if !leads || metadata.tablets.is_empty() || !is_calm {
            continue;
        }
        if let Err(failure) = balance(&shard).await {
            tracing::warn!(%failure, "tablets are not balanced; trying again");
        }
    }
}

/// Does what is to be done first.
async fn balance(shard: &Shard) -> Result<(), Failure> {
    let figures = tablet_figures::gather(shard).await?;
    let (metadata, schema) = (shard.metadata().current(), shard.schema());
    let nodes = tablet_plans::nodes(shard, &metadata);
    let rebuilt = rebuilt(shard, &metadata, &schema, &nodes);
    if !rebuilt.is_empty() {
        return move_tablets(shard, &metadata, rebuilt).await;
    }
    let missing = filled_up(&metadata, &schema, &nodes);
    if !missing.is_empty() {
        return move_tablets(shard, &metadata, missing).await;
    }
    let views = views(shard, (&metadata, &nodes), &figures);
    let cuts = views.iter().map(|view| TabletsUpdate { table: view.id, changes: planner::split_and_merge(view) });
    let cuts: Vec<TabletsUpdate> = cuts.filter(|update| !update.changes.is_empty()).collect();
    if !cuts.is_empty() {
        for update in &cuts {
            let table = schema.table_by_id(TableId(update.table)).map_or_else(String::new, |table| table.full_name());
            tracing::info!("tablets of {table}: {:?}", update.changes);
        }
        return propose(shard, Command::Tablets { with: None, updates: cuts, members_epoch: metadata.members_epoch })
            .await;
    }
    let to_fill = tablet_plans::nodes_to_fill(&nodes, &metadata);
    let moves = match metadata.emptied.is_empty() {
        true => colocated(&to_fill, &views),
        false => Vec::new(),
    };
    let moves = if moves.is_empty() { planner::balance(&to_fill, &views, MOVES_MAX) } else { moves };
    if moves.is_empty() { Ok(()) } else { move_tablets(shard, &metadata, moves).await }
}

/// Goals of tablets that can be merged with a neighbour once they are where that is, at most [`MOVES_MAX`].
fn colocated(nodes: &[PlannedNode], views: &[TableView<'_>]) -> Vec<TabletsUpdate> {
    let (mut updates, mut room) = (Vec::new(), MOVES_MAX);
    for view in views {
        let changes = planner::colocate(nodes, view, room);
        if !changes.is_empty() {
            room -= changes.len();
            updates.push(TabletsUpdate { table: view.id, changes });
        }
        if room == 0 {
            break;
        }
    }
    updates
}

/// Goals of tables of ManagedStrategy without the nodes that have been down for too long. Where no node can take the
/// place of one, it keeps it: with fewer replicas less would be safe.
fn rebuilt(shard: &Shard, metadata: &Metadata, schema: &Schema, nodes: &[PlannedNode]) -> Vec<TabletsUpdate> {
    let down = shard.hints().down_for(shard.config().replica_replacement_after);
    let lost: BTreeSet<Uuid> = down.into_iter().filter(|host_id| metadata.members.contains_key(host_id)).collect();
    if lost.is_empty() {
        return Vec::new();
    }
    let maps: Vec<([u8; 16], &TabletMap)> = metadata.tablets.iter().map(|(id, map)| (*id, &**map)).collect();
    let mut updates = planner::replaced(nodes, &maps, &lost, None);
    updates.retain(|update| {
        let table = schema.table_by_id(TableId(update.table));
        table.and_then(|table| schema.keyspace(&table.keyspace)).is_some_and(|keyspace| keyspace.is_managed())
    });
    let mut room = REBUILT_MAX;
    for update in &mut updates {
        let map = &metadata.tablets[&update.table];
        update.changes.retain(|change| is_whole(change, map));
        update.changes.truncate(room);
        room -= update.changes.len();
    }
    updates.retain(|update| !update.changes.is_empty());
    if !updates.is_empty() {
        tracing::info!("replicas on nodes that have been down for too long are rebuilt elsewhere: {lost:?}");
    }
    updates
}

/// Whether a tablet has as many replicas after a move as before.
pub(super) fn is_whole(change: &TabletChange, map: &TabletMap) -> bool {
    let TabletChange::Move { until, goal } = change else { return false };
    let tablet = map.tablets.iter().find(|tablet| tablet.until == *until);
    tablet.is_some_and(|tablet| tablet.replicas.len() == goal.len())
}

/// Goals of tables that lack replicas for which there are nodes.
fn filled_up(metadata: &Metadata, schema: &Schema, nodes: &[PlannedNode]) -> Vec<TabletsUpdate> {
    let mut updates = Vec::new();
    for (id, map) in &metadata.tablets {
        let table = schema.table_by_id(TableId(*id));
        let Some(factors) = table.and_then(|table| factors(schema.keyspace(&table.keyspace)?)) else { continue };
        let changes = planner::refactored(nodes, map, &factors);
        if !changes.is_empty() {
            updates.push(TabletsUpdate { table: *id, changes });
        }
    }
    updates
}

fn views<'v>(
    shard: &Shard,
    (metadata, nodes): (&'v Metadata, &[PlannedNode]),
    figures: &'v AllFigures,
) -> Vec<TableView<'v>> {
    let limits = tablet_figures::limits(shard.config());
    let schema = shard.schema();
    let view = |(id, map): (&[u8; 16], &'v std::sync::Arc<_>)| {
        let table = schema.table_by_id(TableId(*id))?;
        let keyspace = schema.keyspace(&table.keyspace)?;
        let options = (keyspace.tablets?, &table.options.tablets);
        let (tablets_min, tablets_max) = tablet_plans::counts_wanted(shard, options, (nodes, &factors(keyspace)?));
        let limits = Limits { tablets_min, tablets_max, ..limits };
        Some(TableView { id: *id, map, figures: figures.get(id).map_or(&[], Vec::as_slice), limits })
    };
    metadata.tablets.iter().filter_map(view).collect()
}

/// Begins to move tablets.
pub(super) async fn move_tablets(shard: &Shard, seen: &Metadata, updates: Vec<TabletsUpdate>) -> Result<(), Failure> {
    let command = |receivers| {
        let begin = Command::Begin {
            kind: OperationKind::Tablets,
            receivers,
            members_epoch: seen.members_epoch,
            schema_version: seen.schema_version,
        };
        tablet_plans::joined(begin, updates.clone(), seen)
    };
    let mut begun = Metadata::clone(seen);
    // With a receiver, or it would be at its end at once.
    let tried = begun.apply(seen.epoch + 1, &command(BTreeSet::from([shard.host_id()])));
    tried.map_err(|rejected| Failure::server(rejected.to_string()))?;
    let count: usize = updates.iter().map(|update| update.changes.len()).sum();
    tracing::info!("{count} tablets of {} tables get other replicas", updates.len());
    propose(shard, command(receivers(shard, &begun, &shard.schema()))).await
}

async fn propose(shard: &Shard, command: Command) -> Result<(), Failure> {
    let deadline = runtime::now().after(AGREEMENT_TIMEOUT);
    let proposed = shard.metadata().propose(&command, deadline).await;
    proposed.map(|_| ()).map_err(|error| Failure::server(format!("{error:?}")))
}
