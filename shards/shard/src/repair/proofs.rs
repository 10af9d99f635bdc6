//! Proofs that ranges of a table are repaired on all replicas, by which deletions may be forgotten
//! (`tombstone_gc = {'mode': 'repair'}`, [`model::tombstone_gc`]).
//!
//! 1. Before a repair begins, its coordinator asks every node of the cluster since when hints and logged batches wait
//!    there ([`Shard::begin_proof`]).
//! 2. When the repair has succeeded, every deletion that was made before it began has reached all replicas, and what
//!    such deletions delete waits nowhere. All replicas are told ([`Shard::end_proof`]), and each of them writes it to
//!    `system.helenus_repaired` before it relies on it ([`note`]).
//!
//! Of the moment at which the repair began, or of that since which something waits if it is earlier, the time is taken
//! off that a request may be under way. `propagation_delay_in_seconds` comes on top of that.
//!
//! Invariants: there is no proof if a node of the cluster did not answer, if not all replicas took part, if rounds of
//! Paxos were not finished first, or if data was moving at the beginning or has moved since. A replica that does not
//! hear of a proof keeps its deletions for longer.

use crate::coordinator::remote::Asked;
use crate::messages::admin::TableVerb;
use crate::messages::repair::Repaired;
use crate::schema::cells::{RowReader, RowWriter, read_all};
use crate::schema::rows::system_table;
use crate::schema::system_tables::REPAIRED;
use crate::shard_state::Shard;
use cluster::topology::{NodeIndex, features};
use model::row::Deletion;
use model::tombstone_gc::RepairedRanges;
use model::{Failure, MutationBuilder, TableId, TokenRange};
use runtime::sync::join_all;
use std::time::Duration;
use uuid::Uuid;

/// How long another node may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after a start the other cores are told first.
const SPREAD_PAUSE: Duration = Duration::from_secs(1);

/// What a repair proves once it has succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairProof {
    repaired: Repaired,
    others: Vec<Uuid>,
    /// The epoch of the nodes.
    epoch: u64,
}

impl RepairProof {
    /// Everything that was written before this second, since 1970, has reached all replicas.
    pub fn second(&self) -> i64 {
        self.repaired.second
    }
}

impl Shard {
    /// Begins to prove that ranges of a table are repaired on this node and on the nodes `others`, which must be all
    /// replicas; `None` if that cannot be proven now. To be called on shard 0.
    pub async fn begin_proof(&self, table: TableId, ranges: &[TokenRange], others: &[Uuid]) -> Option<RepairProof> {
        let topology = self.topology();
        if !topology.all_have(features::REPAIR_PROOFS) || !self.is_settled(table, ranges, others) {
            return None;
        }
        let began = runtime::wall_micros();
        let here = topology.here();
        let nodes = (0..topology.nodes().len() as u16).map(NodeIndex).filter(|node| *node != here);
        let asked = nodes.map(|node| {
            let asked = Asked::new(&topology, node, ANSWER_TIMEOUT);
            async move { asked.waiting_since(self).await }
        });
        let mut oldest = began;
        oldest = oldest.min(self.waiting_since().await.ok()?.unwrap_or(i64::MAX));
        for answer in join_all(asked.collect()).await {
            match answer {
                Ok(since) => oldest = oldest.min(since.unwrap_or(i64::MAX)),
                Err(failure) => {
                    tracing::info!(%failure, "a node does not say since when hints wait: a repair proves nothing");
                    return None;
                }
            }
        }
        let micros = oldest.checked_sub(i64::try_from(self.request_time_max().as_micros()).ok()?)?;
        let repaired = Repaired { table, second: micros.div_euclid(1_000_000), ranges: ranges.to_vec() };
        Some(RepairProof { repaired, others: others.to_vec(), epoch: topology.epoch() })
    }

    /// Has all replicas note what a repair has proven that has succeeded. To be called on shard 0.
    pub async fn end_proof(&self, proof: RepairProof) {
        let RepairProof { repaired, others, epoch } = proof;
        let topology = self.topology();
        if topology.epoch() != epoch || !self.is_settled(repaired.table, &repaired.ranges, &others) {
            tracing::info!("data has moved during a repair, which therefore proves nothing");
            return;
        }
        if let Err(failure) = note(self, &repaired).await {
            tracing::warn!(%failure, "what is repaired is not noted");
        }
        let nodes = topology.nodes().iter().enumerate().filter(|(_, node)| others.contains(&node.host_id));
        let told = nodes.map(|(at, _)| {
            let asked = Asked::new(&topology, NodeIndex(at as u16), ANSWER_TIMEOUT);
            let repaired = &repaired;
            async move { asked.note_repaired(self, repaired).await }
        });
        for answer in join_all(told.collect()).await {
            if let Err(failure) = answer {
                tracing::info!(%failure, "a replica does not know what is repaired, and keeps deletions for longer");
            }
        }
    }

    /// Whether no data is moving, and this node and `others` are all replicas of the ranges.
    fn is_settled(&self, table: TableId, ranges: &[TokenRange], others: &[Uuid]) -> bool {
        let Some(table) = self.schema().table_by_id(table).cloned() else { return false };
        let Ok(placement) = self.placement_of(&table) else { return false };
        let topology = placement.keyspace().topology();
        let takes_part = |node: &NodeIndex| *node == topology.here() || others.contains(&topology.node(*node).host_id);
        let is_whole =
            |range: &TokenRange| placement.keyspace().ranges(range).all(|part| part.nodes.iter().all(takes_part));
        self.metadata().current().operations.is_empty() && ranges.iter().all(is_whole)
    }
}

/// Notes that ranges are repaired, durably, and tells all cores. To be called on shard 0.
pub(crate) async fn note(shard: &Shard, repaired: &Repaired) -> Result<(), Failure> {
    let Repaired { table, second, ranges } = repaired;
    let known = shard.repair_proofs().add(shard.partitioner(), *table, ranges, *second);
    let schema = shard.schema();
    let stored = system_table(&schema, "system", REPAIRED);
    let mut row = RowWriter::new(stored, &[], shard.clock().timestamp());
    row.set("ranges", known.to_bytes());
    let mut mutation = MutationBuilder::new(shard.partitioner(), &table.0);
    row.finish(mutation.table(stored.id));
    let failed = |error: engine::Error| Failure::server(error.to_string());
    shard.store().apply_durably(mutation.finish(), true).await.map_err(failed)?;
    shard.on_every_shard(TableVerb::SetRepaired { table: *table, ranges: known }).await.map(drop)
}

/// Loads what earlier runs have noted, and forgets what they have noted of tables that were dropped since.
pub(crate) async fn load(shard: &Shard) -> Result<(), Failure> {
    let schema = shard.schema();
    let stored = system_table(&schema, "system", REPAIRED);
    let failed = |error: crate::schema::Error| Failure::server(error.to_string());
    for row in read_all(shard.store(), stored).await.map_err(failed)? {
        let row = RowReader::new(stored, &row);
        let table = TableId(row.uuid("table_id").map_err(failed)?.into_bytes());
        let bytes = row.bytes("ranges").map_err(failed)?.unwrap_or_default();
        // What cannot be read counts as not repaired: deletions are kept for longer.
        match RepairedRanges::from_bytes(shard.partitioner(), bytes) {
            Some(ranges) if schema.table_by_id(table).is_some() => shard.repair_proofs().put(table, ranges),
            Some(_) => forget(shard, table).await?,
            None => tracing::warn!(%table, "what is repaired of a table cannot be read"),
        }
    }
    Ok(())
}

/// Deletes what is noted of a table.
async fn forget(shard: &Shard, table: TableId) -> Result<(), Failure> {
    let schema = shard.schema();
    let stored = system_table(&schema, "system", REPAIRED);
    let local_deletion_time = runtime::wall_micros().div_euclid(1_000_000);
    let mut mutation = MutationBuilder::new(shard.partitioner(), &table.0);
    let deletion = Deletion { timestamp: shard.clock().timestamp(), local_deletion_time };
    mutation.table(stored.id).delete_partition(deletion);
    let applied = shard.store().apply(mutation.finish(), true).await;
    applied.map(drop).map_err(|error| Failure::server(error.to_string()))
}

/// Tells all cores what earlier runs have noted.
pub(crate) async fn spread(shard: Shard) {
    runtime::sleep(SPREAD_PAUSE).await;
    for (table, ranges) in shard.repair_proofs().all() {
        if shard.on_every_shard(TableVerb::SetRepaired { table, ranges }).await.is_err() {
            return;
        }
    }
}
