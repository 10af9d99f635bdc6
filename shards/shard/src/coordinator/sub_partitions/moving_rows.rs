//! Moving the rows of a table, or of one of its keys, to other places ([`cluster::sub_partitions`]): the copies, and
//! the deletion of what is left behind.
//!
//! A copy reads what is stored in the old places, from all replicas, and writes it to the new ones, to all replicas:
//! rows, cells and deletions with the timestamps that they have, so that it does not matter what is written meanwhile,
//! in which order, or how often a part is copied. Whoever copies keeps nothing: one that fails is begun anew.
//! Operations on the ring and on tablets may be under way: reads and writes are those of any request, which know
//! pending replicas.
//!
//! What is left behind is deleted by partitions, with the time of the deletion. Nothing is read or written there any
//! more, so it only takes up room until then.
//!
//! Invariants: memory is bounded by a round of fragments; a deletion must not be forgotten while what it deletes is
//! being copied, so tables that forget deletions sooner than in [`GC_GRACE_SECONDS_MIN`] are not copied.

use crate::coordinator::asked_replica::pieces_of;
use crate::coordinator::gathering::{Patience, Unread};
use crate::coordinator::reconciling::{Reconciling, begin};
use crate::coordinator::write::{Routed, write};
use crate::request::AckTerms;
use crate::shard_state::Shard;
use cluster::placement::TablePlacement;
use cluster::plan::PartitionReadPlan;
use model::query::{LiveRow, Partitions, Position, ReadCommand, ReadEnd, RowSink, SinkState};
use model::relocation::relocated;
use model::row::Deletion;
use model::shape::lacking::Repairs;
use model::tombstone_gc::{GcBefore, GcMode};
use model::{Consistency, DecoratedKey, Failure, Mutation, MutationBuilder, Places, Table, TokenRange};
use runtime::sync::join_all;
use std::rc::Rc;
use std::sync::Arc;

/// Deletions of a table must be kept for so long at least: much longer than a round of a copy may take.
const GC_GRACE_SECONDS_MIN: i32 = cql::define::GROWTH_GC_GRACE_SECONDS_MIN;
/// Most writes of a copy that are under way.
const WRITES_AT_ONCE: usize = 32;
/// Partitions that are looked for before they are deleted.
const KEYS_AT_ONCE: usize = 512;

/// Rows that move.
pub(crate) struct Move<'a> {
    pub(crate) table: &'a Arc<Table>,
    /// The logical key whose rows move; `None` for all keys.
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) from: Places,
    pub(crate) to: Places,
}

impl Move<'_> {
    /// Copies the rows, and returns how many changes that were.
    ///
    /// # Errors
    /// A replica does not answer, or deletions are forgotten too soon. The copy must be begun anew.
    pub(crate) async fn copy(&self, shard: &Shard) -> Result<u64, Failure> {
        let options = &self.table.options;
        if options.gc_grace_seconds < GC_GRACE_SECONDS_MIN || options.tombstone_gc.mode == GcMode::Immediate {
            return Err(Failure::invalid(format!(
                "deletions of table {} are forgotten sooner than in {GC_GRACE_SECONDS_MIN} seconds",
                self.table.full_name()
            )));
        }
        let placement = shard.placement_of(self.table)?;
        let mut copied = 0;
        for (partitions, mut plan) in self.pieces(shard, &placement)? {
            let mut read = begin(self.command(partitions));
            let mut repairs = Repairs::with_gc_before(GcBefore::At(i64::MIN));
            loop {
                let reconciling = self.reconciling(shard, &placement);
                let round = reconciling.stored(&mut plan, &mut read, &mut repairs);
                let (found, is_last) = Box::pin(round).await.map_err(failure)?;
                copied += self.write_copies(shard, &found).await?;
                if is_last {
                    break;
                }
            }
        }
        Ok(copied)
    }

    /// Deletes what is left in the old places, and returns how many partitions that were.
    ///
    /// # Errors
    /// A replica does not answer; to be tried again.
    pub(crate) async fn delete_left(&self, shard: &Shard) -> Result<u64, Failure> {
        let placement = shard.placement_of(self.table)?;
        let mut deleted = 0;
        for (partitions, mut plan) in self.pieces(shard, &placement)? {
            let mut resume: Option<Position> = None;
            loop {
                let command =
                    ReadCommand { resume: resume.take(), per_partition_max: 1, ..self.command(partitions.clone()) };
                let mut found = FoundKeys { of: self, keys: Vec::new(), last: None };
                let (reconciling, mut read) = (self.reconciling(shard, &placement), begin(command));
                let end = Box::pin(reconciling.run(&mut plan, &mut read, &mut found)).await.map_err(failure)?;
                let FoundKeys { keys, last, .. } = found;
                deleted += keys.len() as u64;
                let timestamp = shard.clock().timestamp();
                let local_deletion_time = runtime::wall_micros().div_euclid(1_000_000);
                let deletion = Deletion { timestamp, local_deletion_time };
                let deletions = keys.iter().map(|key| {
                    let mut builder = MutationBuilder::new(shard.partitioner(), &key.key);
                    builder.table(self.table.id).delete_partition(deletion);
                    builder.finish()
                });
                self.write_all(shard, deletions.collect(), Consistency::Quorum).await?;
                match last {
                    Some(key) if end != ReadEnd::Exhausted => resume = Some(Position { key, comparable: None }),
                    _ => break,
                }
            }
        }
        Ok(deleted)
    }

    /// What is read, with the plans that ask all replicas.
    fn pieces(
        &self,
        shard: &Shard,
        placement: &TablePlacement,
    ) -> Result<Vec<(Partitions, PartitionReadPlan)>, Failure> {
        let Some(logical) = self.key else {
            let pieces = pieces_of(placement, Consistency::All, &TokenRange::FULL)?;
            return Ok(pieces.into_iter().map(|piece| (Partitions::Range(piece.range), piece.plan)).collect());
        };
        let planned = |number| {
            let key = DecoratedKey::new(shard.partitioner(), &self.table.stored_key(logical, number));
            let plan =
                PartitionReadPlan::new(Consistency::All, placement.replicas(key.token, &key.key), placement.live())?;
            Ok((Partitions::Key(key), plan))
        };
        self.from.numbers().map(planned).collect()
    }

    fn reconciling<'r>(&'r self, shard: &'r Shard, placement: &'r Rc<TablePlacement>) -> Reconciling<'r> {
        let patience = Patience { deadline: runtime::now().after(shard.timeouts().range), late_at: None };
        Reconciling { shard, table: self.table, placement, patience, filtered: None }
    }

    fn command(&self, partitions: Partitions) -> ReadCommand {
        ReadCommand::all(self.table.id, runtime::wall_micros().div_euclid(1_000_000), partitions)
    }

    /// Whether a stored partition is one of the old places.
    fn is_old(&self, stored: &[u8]) -> bool {
        let found = self.table.logical_key(stored);
        found.is_some_and(|(logical, number)| self.from.has(number) && self.key.is_none_or(|key| key == logical))
    }

    async fn write_copies(&self, shard: &Shard, found: &[Mutation]) -> Result<u64, Failure> {
        let Some(sharding) = self.table.write_sharding() else { return Ok(0) };
        let of = (&**self.table, sharding);
        let old = found.iter().filter(|mutation| self.is_old(mutation.key()));
        let copies = old.flat_map(|mutation| relocated(shard.partitioner(), of, mutation, (self.from, self.to)));
        let copies: Vec<Mutation> = copies.collect();
        let count = copies.len() as u64;
        self.write_all(shard, copies, Consistency::All).await?;
        Ok(count)
    }

    async fn write_all(&self, shard: &Shard, mutations: Vec<Mutation>, level: Consistency) -> Result<(), Failure> {
        let terms = AckTerms { consistency: level, timeout: shard.timeouts().write };
        let mut left = mutations.into_iter().peekable();
        while left.peek().is_some() {
            let writes = left.by_ref().take(WRITES_AT_ONCE).map(|mutation| {
                let routed = Routed { mutation, table: self.table.clone(), counts: false };
                Box::pin(write(shard, vec![routed], &terms))
            });
            join_all(writes.collect()).await.into_iter().collect::<Result<(), Failure>>()?;
        }
        Ok(())
    }
}

/// Collects the partitions of the old places that have rows.
struct FoundKeys<'a> {
    of: &'a Move<'a>,
    keys: Vec<DecoratedKey>,
    /// The last partition that was visited.
    last: Option<DecoratedKey>,
}

impl RowSink for FoundKeys<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let key = DecoratedKey { token: row.token, partitioner: model::Partitioner::Murmur3, key: row.key.into() };
        if self.of.is_old(row.key) && self.keys.last() != Some(&key) {
            self.keys.push(key.clone());
        }
        self.last = Some(key);
        if self.keys.len() >= KEYS_AT_ONCE { SinkState::Full } else { SinkState::Open }
    }
}

fn failure(unread: Unread) -> Failure {
    match unread {
        Unread::Failed(failure) => failure,
        Unread::Moved => Failure::server("the nodes that have the rows have changed"),
    }
}
