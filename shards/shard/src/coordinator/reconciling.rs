//! Reads that merge what several replicas have, and repair of those that lack some of it.
//!
//! 1. Every replica of the plan is asked for fragments; a node gives a block of each of its cores.
//! 2. What each replica lacks is written to it, and waited for (`read_repair`), if the table's `read_repair` is
//!    BLOCKING: so whoever reads later from other replicas of the same level does not see less than this read.
//! 3. The merged fragments are shaped as those of one replica with everything are. If limits of one replica hid rows
//!    that the others lack, the replicas are asked again behind what is known.
//!
//! Filters are applied to merged rows only: a replica cannot tell whether a row that it has matches in the newest
//! version.

use super::fragments;
use super::gathering::{Patience, Unread, gather};
use super::remote::Asked;
use crate::guards::filtering::{CountedRows, FilteredRows, PartitionCount, too_many_rows};
use crate::messages::data::FragmentRequest;
use crate::shard_state::Shard;
use cluster::placement::{Replica, TablePlacement};
use cluster::plan::PartitionReadPlan;
use model::fragment_block::FragmentBlock;
use model::query::{EveryRow, Partitions, ReadCommand, ReadEnd, RowSink};
use model::shape::lacking::{Answer, Repairs};
use model::shape::reconcile::ReconcilingRead;
use model::{Failure, Mutation, Table};
use runtime::sync::boxed;
use runtime::sync::join_all;
use std::rc::Rc;

/// Most bytes of fragments that a node is asked for at once.
const FRAGMENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of fragments that are asked for first where a filter decides how many rows are needed.
const FRAGMENT_BYTES_MIN: usize = 64 << 10;
/// Fewest bytes and rows that a core is asked for.
const CORE_BYTES_MIN: usize = 16 << 10;
const CORE_ROWS_MIN: u64 = 16;

/// What the rounds of a reconciling read have in common.
pub(crate) struct Reconciling<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) table: &'a Table,
    /// The placement by which the read is planned.
    pub(crate) placement: &'a Rc<TablePlacement>,
    pub(crate) patience: Patience,
    /// Counts the rows, if the sink rejects some.
    pub(crate) filtered: Option<&'a FilteredRows>,
}

/// A read that has not begun. It looks at whole rows, so that repairs are whole.
pub(crate) fn begin(command: ReadCommand) -> ReconcilingRead {
    ReconcilingRead::new(ReadCommand { row_columns: None, ..command })
}

impl Reconciling<'_> {
    /// Gives the rows of `read` to `sink`, from the replicas of `plan`. A read that must be planned again goes on where
    /// it is.
    pub(crate) async fn run(
        &self,
        plan: &mut PartitionReadPlan,
        read: &mut ReconcilingRead,
        sink: &mut dyn RowSink,
    ) -> Result<ReadEnd, Unread> {
        let topology = self.placement.keyspace().topology();
        let now_in_seconds = read.command().now_in_seconds;
        let mut repairs = Repairs::with_gc_before(self.shard.store().gc_before(self.table, now_in_seconds));
        let mut count = PartitionCount::default();
        let mut bytes = if self.filtered.is_some() { FRAGMENT_BYTES_MIN } else { FRAGMENT_BYTES_MAX };
        loop {
            plan.merge();
            let command = read.command();
            let ask = |replica, _| boxed(|| self.fragments(replica, command, bytes));
            let blocks = gather(self.shard, plan, self.table, topology, self.patience, ask).await?;
            let mut answers: Vec<Answer> = Vec::with_capacity(blocks.len());
            let mut replicas = Vec::with_capacity(blocks.len());
            for (number, (replica, blocks)) in blocks.into_iter().enumerate() {
                replicas.push(replica);
                answers.extend(blocks.into_iter().map(|block| (number, block)));
            }
            if self.table.options.read_repair == "BLOCKING" && replicas.len() > 1 {
                let lacking = repairs.lacking(self.table, command, &answers, replicas.len());
                self.repair(plan, &replicas, lacking).await?;
            }
            let blocks: Vec<&FragmentBlock> = answers.iter().map(|(_, block)| block).collect();
            let ended = match self.filtered.filter(|_| replicas.len() > 1) {
                None => read.take(self.table, &blocks, sink),
                Some(filtered) => {
                    let (replicas, count) = (replicas.len() as u64, &mut count);
                    let mut sink = CountedRows { sink: &mut *sink, filtered, replicas, count, are_too_many: false };
                    let ended = read.take(self.table, &blocks, &mut sink);
                    if let Partitions::Key(key) = &read.command().partitions {
                        filtered.name(key);
                    }
                    if sink.are_too_many {
                        return Err(too_many_rows().into());
                    }
                    ended
                }
            };
            if let Some(end) = ended {
                return Ok(end);
            }
            bytes = (bytes * 2).min(FRAGMENT_BYTES_MAX);
            // Merging took a while without awaiting.
            runtime::yield_if_needed().await;
        }
    }

    /// A round of `read`, from all replicas of `plan`: what they have together up to where the round ends, as it is
    /// stored, as changes of partitions. The last round is the one after which the read has ended.
    pub(crate) async fn stored(
        &self,
        plan: &mut PartitionReadPlan,
        read: &mut ReconcilingRead,
        repairs: &mut Repairs,
    ) -> Result<(Vec<Mutation>, bool), Unread> {
        let topology = self.placement.keyspace().topology();
        plan.merge();
        let command = read.command();
        let ask = |replica, _| boxed(|| self.fragments(replica, command, FRAGMENT_BYTES_MAX));
        let blocks = gather(self.shard, plan, self.table, topology, self.patience, ask).await?;
        let replicas = blocks.len();
        let answers = blocks.into_iter().enumerate();
        let answers = answers.flat_map(|(number, (_, blocks))| blocks.into_iter().map(move |block| (number, block)));
        let answers: Vec<Answer> = answers.collect();
        // One more replica, which has nothing, lacks everything.
        let mut lacking = repairs.lacking(self.table, command, &answers, replicas + 1);
        let blocks: Vec<&FragmentBlock> = answers.iter().map(|(_, block)| block).collect();
        let ended = read.take(self.table, &blocks, &mut EveryRow).is_some();
        runtime::yield_if_needed().await;
        Ok((lacking.pop().unwrap_or_default(), ended))
    }

    /// What a replica has of a command, with at most about `bytes` bytes.
    async fn fragments(
        &self,
        replica: Replica,
        command: &ReadCommand,
        bytes: usize,
    ) -> Result<Vec<FragmentBlock>, Failure> {
        let topology = self.placement.keyspace().topology();
        let cores: Vec<Replica> = match &command.partitions {
            Partitions::Key(_) => vec![replica],
            Partitions::Range(_) => {
                let of_node = self.placement.shards_of(replica.node);
                of_node.map(|shard| Replica { node: replica.node, shard }).collect()
            }
        };
        let mut command = command.clone();
        if self.filtered.is_some() {
            // How many rows are needed is known only behind the filter.
            (command.rows_max, command.per_partition_max) = (u64::MAX, u64::MAX);
        }
        let mut bytes_max = bytes;
        if cores.len() > 1 {
            let share = command.rows_max.div_ceil(cores.len() as u64).max(CORE_ROWS_MIN);
            command.rows_max = command.rows_max.min(share);
            bytes_max = (bytes / cores.len()).max(CORE_BYTES_MIN);
        }
        let request = FragmentRequest { command, bytes_max };
        if replica.node == topology.here() {
            return fragments::read_fragments(self.shard, &request).await;
        }
        let asked = Asked::until(topology, replica.node, self.patience.deadline);
        let reads = cores.iter().map(|core| asked.read_fragments(self.shard, *core, &request));
        join_all(reads.collect()).await.into_iter().collect()
    }
}
