//! Repair: makes the replicas of a range of a table equal.
//!
//! 1. The range is cut into segments (`cluster::repair`). Every replica hashes what it has of a segment, in the
//!    background; where the hashes differ, it is asked for those of single partitions.
//! 2. Of a partition that differs, one replica of each different content gives its fragments, and all are written what
//!    they lack (`differing`): what is equal does not travel.
//!
//! The coordinator is the only one that knows of a repair that is not incremental ([`sessions`]): replicas answer
//! requests that are bounded in work and bytes. So a repair that loses its coordinator has ended everywhere, and one
//! that loses a replica fails.
//!
//! Every segment is repaired by the ring as it is when the segment begins; a repair whose nodes do not all have its
//! ranges any more ends.
//!
//! Invariants: at most [`PARTITIONS_AT_ONCE`] partitions of a repair are made equal at once; stopping waits for a
//! segment at most.
//!
//! Not here: which ranges are repaired with which nodes, and what operators are told (`server`).

mod differing;
mod history;
pub(crate) mod proofs;
mod proposals;
pub(crate) mod sessions;

pub use history::RepairHistory;
pub use proofs::RepairProof;

use crate::coordinator::remote::Asked;
use crate::coordinator::validation;
use crate::messages::repair::{Validation, ValidationRequest, Wanted, WantedPartitions};
use crate::shard_state::Shard;
use cluster::placement::TablePlacement;
use cluster::repair::partitions::{Difference, PartitionList, differences, frontier};
use cluster::repair::segments::Segments;
use cluster::repair::tree::{Leaves, Tree, differing, differing_pairs};
use cluster::topology::{NodeIndex, Topology, features};
use engine::RepairSet;
use model::{Failure, Table, TableId, TokenRange};
use runtime::sync::{Either, join_all, race};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a replica may take to hash a segment.
const VALIDATION_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a repair looks whether the replicas that it waits for are alive.
const LIVENESS_PAUSE: Duration = Duration::from_secs(1);
/// Most partitions that a replica lists at once.
const PARTITIONS_MAX: u32 = 16 << 10;
/// The longest rest behind a segment: longer ones would make a repair wait for work of others that is over.
const REST_MAX: Duration = Duration::from_secs(60);
/// How often a segment is tried while the ring changes.
const ATTEMPTS_MAX: usize = 5;
/// Most partitions that are made equal at once.
pub(crate) const PARTITIONS_AT_ONCE: usize = 16;

/// What a repair does about differences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepairAction {
    /// Counts them.
    Preview,
    /// Makes the replicas equal.
    Repair,
    /// Writes to this node what it lacks.
    Pull,
}

/// The order in which replicas hash a segment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RepairOrder {
    /// All at once.
    #[default]
    Parallel,
    /// One after the other, so that only one of them is busy.
    Sequential,
    /// The data centres at once, in each of them one replica after the other.
    DataCenterAware,
}

/// How a repair goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepairTerms {
    /// What is done about differences.
    pub action: RepairAction,
    /// The order in which replicas are asked.
    pub order: RepairOrder,
    /// How many times as long as a segment took the repair rests behind it.
    pub rest: u32,
    /// The set of SSTables that is compared; all data without one. What is set apart for a session is made equal in
    /// itself.
    pub set: Option<RepairSet>,
}

/// What a repair has found and done.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RepairOutcome {
    /// Partitions that the replica with the most of them has.
    pub partitions: u64,
    /// Bytes of rows that the replica with the most of them has, roughly.
    pub bytes: u64,
    /// Partitions in which replicas differed.
    pub differing: u64,
    /// Bytes of these that the replica with the most of them has, roughly.
    pub differing_bytes: u64,
    /// Bytes of hashes that other nodes were asked for.
    pub hash_bytes: u64,
    /// Bytes of rows that other nodes were asked for.
    pub read_bytes: u64,
    /// Mutations that replicas lacked, and their bytes.
    pub mutations: u64,
    /// See `mutations`.
    pub written_bytes: u64,
    /// Of each two replicas that differed, how many leaves did. Replicas are named by their places: this node is 0,
    /// the others follow in the order in which they were given.
    pub out_of_sync: BTreeMap<(usize, usize), u64>,
}

impl AddAssign for RepairOutcome {
    fn add_assign(&mut self, other: RepairOutcome) {
        self.partitions += other.partitions;
        self.bytes += other.bytes;
        self.differing += other.differing;
        self.differing_bytes += other.differing_bytes;
        self.hash_bytes += other.hash_bytes;
        self.read_bytes += other.read_bytes;
        self.mutations += other.mutations;
        self.written_bytes += other.written_bytes;
        for (pair, leaves) in other.out_of_sync {
            *self.out_of_sync.entry(pair).or_default() += leaves;
        }
    }
}

impl Shard {
    /// An id that tells when it was made, for what operators begin.
    pub fn time_uuid(&self) -> Uuid {
        Uuid::from_bytes(self.clock().timeuuid())
    }

    /// Compares what this node and the nodes `others` have of `ranges` of a table, and makes it equal if that is the
    /// action. Partitions are made equal at the same time at all replicas, whatever the order.
    ///
    /// # Errors
    /// A replica did not answer, or does not have the range any more. What was made equal before stays so.
    pub async fn repair(
        &self,
        table: TableId,
        ranges: &[TokenRange],
        others: &[Uuid],
        terms: RepairTerms,
    ) -> Result<RepairOutcome, Failure> {
        let needed = if terms.set.is_some() { features::INCREMENTAL_REPAIRS } else { features::REPAIRS };
        if !self.topology().all_have(needed) {
            return Err(Failure::invalid("Some nodes run a version that cannot be repaired; update them first"));
        }
        let mut outcome = RepairOutcome::default();
        let mut span = None;
        for range in ranges {
            let mut segments = Segments::new(self.partitioner(), range.clone(), span);
            while let Some(leaves) = segments.advance() {
                let began = runtime::now();
                let found = self.repair_segment(table, others, terms, &leaves, &mut segments).await?;
                let took = runtime::now().since(began);
                let counters = &self.metrics().repairs;
                counters.partitions.add(found.partitions);
                counters.bytes.add(found.bytes);
                counters.differing.add(found.differing);
                counters.hash_bytes.add(found.hash_bytes);
                counters.read_bytes.add(found.read_bytes);
                counters.written_bytes.add(found.written_bytes);
                outcome += found;
                match terms.rest {
                    0 => runtime::yield_if_needed().await,
                    times => runtime::sleep(took.saturating_mul(times).min(REST_MAX)).await,
                }
            }
            span = Some(segments.span());
        }
        Ok(outcome)
    }

    /// Repairs a segment by the ring as it is now. If the ring changes meanwhile, nodes may refuse what they are asked
    /// by the one before, so the segment is tried again.
    async fn repair_segment(
        &self,
        table: TableId,
        others: &[Uuid],
        terms: RepairTerms,
        leaves: &Leaves,
        segments: &mut Segments,
    ) -> Result<RepairOutcome, Failure> {
        for _ in 1..ATTEMPTS_MAX {
            let epoch = self.epoch();
            let repair = TableRepair::new(self, table, others, terms, leaves.range())?;
            match repair.segment(leaves.clone(), segments).await {
                Err(failure) if self.epoch() != epoch => {
                    tracing::debug!(%failure, "the ring has changed during the repair of a segment, trying again");
                }
                done => return done,
            }
        }
        TableRepair::new(self, table, others, terms, leaves.range())?.segment(leaves.clone(), segments).await
    }
}

/// Waits for the answer of a node for as long as it is believed to be alive.
async fn while_alive<T>(
    shard: &Shard,
    topology: &Topology,
    node: NodeIndex,
    answer: impl Future<Output = T>,
) -> Result<T, Failure> {
    let node = topology.node(node);
    let dying = async {
        while shard.is_live(node.host_id) {
            runtime::sleep(LIVENESS_PAUSE).await;
        }
    };
    match race(std::pin::pin!(dying), std::pin::pin!(answer)).await {
        Either::Left(()) => Err(Failure::server(format!("Endpoint /{} died", node.address))),
        Either::Right(answer) => Ok(answer),
    }
}

/// A repair of a segment of a table with some nodes.
struct TableRepair<'a> {
    shard: &'a Shard,
    table: Arc<Table>,
    /// The placement by which the segment is repaired.
    placement: Rc<TablePlacement>,
    /// The replicas, this node first.
    replicas: Vec<NodeIndex>,
    action: RepairAction,
    order: RepairOrder,
    set: Option<RepairSet>,
}

impl<'a> TableRepair<'a> {
    /// A repair of `range` by the ring as it is now.
    fn new(
        shard: &'a Shard,
        table: TableId,
        others: &[Uuid],
        terms: RepairTerms,
        range: &TokenRange,
    ) -> Result<TableRepair<'a>, Failure> {
        let unknown = || Failure::invalid(format!("unconfigured table {table}"));
        let table = shard.schema().table_by_id(table).cloned().ok_or_else(unknown)?;
        let placement = shard.placement_of(&table)?;
        let topology = placement.keyspace().topology();
        let changed = || Failure::server("The ring has changed: a node does not have the range any more");
        let mut replicas = vec![topology.here()];
        for other in others {
            let at = topology.nodes().iter().position(|node| node.host_id == *other).ok_or_else(changed)?;
            replicas.push(NodeIndex(at as u16));
        }
        let has_all = |nodes: &[NodeIndex]| replicas.iter().all(|replica| nodes.contains(replica));
        if !placement.keyspace().ranges(range).all(|part| has_all(part.nodes)) {
            return Err(changed());
        }
        let RepairTerms { action, order, rest: _, set } = terms;
        Ok(TableRepair { shard, table, placement, replicas, action, order, set })
    }
}

impl TableRepair<'_> {
    /// Compares a segment of `segments`, and makes it equal.
    async fn segment(&self, leaves: Leaves, segments: &mut Segments) -> Result<RepairOutcome, Failure> {
        let _pass = self.shard.enter()?;
        self.check_replicas()?;
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let (table, set) = (self.table.id, self.set);
        let ask = |wanted| ValidationRequest { table, now_in_seconds, leaves: leaves.clone(), wanted, set };
        let trees: Vec<Tree> =
            self.validate(&ask(Wanted::Tree)).await?.into_iter().map(Validation::tree).collect::<Result<_, _>>()?;
        segments.read(&trees);
        let most = |of: fn(&Tree) -> u64| trees.iter().map(of).max().unwrap_or(0);
        let mut outcome = RepairOutcome {
            partitions: most(|tree| tree.partitions),
            bytes: most(|tree| tree.bytes),
            hash_bytes: trees.iter().skip(1).map(|tree| 16 + 8 * tree.sums.len() as u64).sum(),
            ..RepairOutcome::default()
        };
        let differ = differing(&leaves, &trees);
        if differ.is_empty() {
            return Ok(outcome);
        }
        outcome.out_of_sync = differing_pairs(&leaves, &trees);
        let mut after = None;
        loop {
            let wanted = WantedPartitions { leaves: differ.clone(), after, partitions_max: PARTITIONS_MAX };
            let lists = self.validate(&ask(Wanted::Partitions(wanted))).await?.into_iter();
            let lists: Vec<PartitionList> = lists.map(Validation::partitions).collect::<Result<_, _>>()?;
            let listed = lists.iter().skip(1).flat_map(|list| &list.partitions);
            outcome.hash_bytes += listed.map(|partition| 18 + partition.key.key.len() as u64).sum::<u64>();
            let found = differences(&lists);
            outcome.differing += found.len() as u64;
            outcome.differing_bytes += found.iter().map(|found| found.bytes).sum::<u64>();
            if self.action != RepairAction::Preview {
                outcome += self.make_equal(&found, now_in_seconds).await?;
            }
            match frontier(&lists) {
                None => return Ok(outcome),
                end => after = end,
            }
        }
    }

    /// Makes partitions equal, a few at once.
    async fn make_equal(&self, found: &[Difference], now_in_seconds: i64) -> Result<RepairOutcome, Failure> {
        let mut outcome = RepairOutcome::default();
        for some in found.chunks(PARTITIONS_AT_ONCE) {
            let repairs = some.iter().map(|difference| self.partition(difference, now_in_seconds));
            for done in join_all(repairs.collect()).await {
                outcome += done?;
            }
            runtime::yield_if_needed().await;
        }
        Ok(outcome)
    }

    /// Fails if a replica is down.
    fn check_replicas(&self) -> Result<(), Failure> {
        let topology = self.placement.keyspace().topology();
        match self.replicas.iter().find(|replica| !topology.live().contains(**replica)) {
            None => Ok(()),
            Some(replica) => Err(Failure::server(format!("Endpoint /{} died", topology.node(*replica).address))),
        }
    }

    /// Asks every replica, in their order.
    async fn validate(&self, request: &ValidationRequest) -> Result<Vec<Validation>, Failure> {
        let topology = self.placement.keyspace().topology();
        let mut queues: Vec<(usize, Vec<usize>)> = Vec::new();
        for (at, replica) in self.replicas.iter().enumerate() {
            let queue = match self.order {
                RepairOrder::Parallel => at,
                RepairOrder::Sequential => 0,
                RepairOrder::DataCenterAware => usize::from(topology.data_center_of(*replica).0),
            };
            match queues.iter_mut().find(|(name, _)| *name == queue) {
                Some((_, members)) => members.push(at),
                None => queues.push((queue, vec![at])),
            }
        }
        let asked = queues.iter().map(|(_, members)| async move {
            let mut answers = Vec::with_capacity(members.len());
            for at in members {
                answers.push((*at, self.validation(self.replicas[*at], request).await?));
            }
            Ok::<_, Failure>(answers)
        });
        let answers: Vec<Vec<(usize, Validation)>> =
            join_all(asked.collect()).await.into_iter().collect::<Result<_, _>>()?;
        let mut answers: Vec<(usize, Validation)> = answers.into_iter().flatten().collect();
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    async fn validation(&self, replica: NodeIndex, request: &ValidationRequest) -> Result<Validation, Failure> {
        let topology = self.placement.keyspace().topology();
        if replica == topology.here() {
            return validation::validate_here(self.shard, request).await;
        }
        let asked = Asked::new(topology, replica, VALIDATION_TIMEOUT).in_bulk();
        let answer = while_alive(self.shard, topology, replica, asked.validate(self.shard, request)).await?;
        answer.map_err(|failure| {
            let address = topology.node(replica).address;
            Failure::server(format!("Validation failed in /{address}: {}", failure.text))
        })
    }
}
