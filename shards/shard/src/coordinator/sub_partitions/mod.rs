//! Reads of keys whose rows are spread over sub-partitions (write sharding, [`model::write_sharding`]): one stream of
//! row blocks for each sub-partition, merged in clustering order on the coordinating core.
//!
//! 1. The keys are read one after another, as they are named.
//! 2. All streams of a key are asked for their share of the page, [`UNDER_WAY_MAX`] at once.
//! 3. Their rows are sorted ([`row_order`]) and given one after another, until the page is full.
//! 4. When the last row of a stream that may have more was given, it is asked again from there, for twice as many.
//!
//! A page goes on after the clustering of its last row, whatever sub-partition that came from: the paging state has the
//! logical key and this clustering.
//!
//! Invariants: a row that several sub-partitions have, which can only be where rows are placed by chance and one was
//! inserted twice, is given once, as the first of these sub-partitions has it; PER PARTITION LIMIT counts the rows of
//! the logical key; memory is bounded by a page and a block for each sub-partition.

mod merge;
mod row_order;
mod stream;

use super::read::{Page, PageLimits, ReadPlan};
use crate::rows::block::RowBlock;
use crate::shard_state::Shard;
use merge::Merge;
use model::query::{Position, Resume};
use model::{DecoratedKey, Failure, Table};

/// Most sub-partitions that one request reads at once.
pub(crate) const UNDER_WAY_MAX: usize = 32;

/// The sub-partitions that a SELECT reads.
#[derive(Clone)]
pub(crate) struct SubPartitions {
    /// The logical keys, each with its token, which is that of no partition.
    pub(crate) keys: Vec<DecoratedKey>,
    /// The numbers of the sub-partitions of each, ascending.
    pub(crate) shards: Vec<u16>,
}

impl SubPartitions {
    /// The stored keys, by logical key and number.
    pub(crate) fn stored(&self, table: &Table) -> impl Iterator<Item = DecoratedKey> {
        self.keys.iter().flat_map(move |key| self.shards.iter().map(move |shard| stored(table, key, *shard)))
    }
}

/// The stored key of a sub-partition.
fn stored(table: &Table, logical: &DecoratedKey, shard: u16) -> DecoratedKey {
    DecoratedKey::new(logical.partitioner, &table.stored_key(&logical.key, shard))
}

/// The same place in a sub-partition of its key.
pub(crate) fn within(table: &Table, resume: &Resume, shard: u16) -> Resume {
    let Resume { position: Position { key, comparable }, partition_rows } = resume;
    let position = Position { key: stored(table, key, shard), comparable: comparable.clone() };
    Resume { position, partition_rows: *partition_rows }
}

/// The place in the logical key of a place in one of its sub-partitions.
pub(crate) fn of_logical_key(table: &Table, mut resume: Resume) -> Resume {
    let key = &resume.position.key;
    if let Some((logical, _)) = table.logical_key(&key.key) {
        resume.position.key = DecoratedKey::new(key.partitioner, logical);
    }
    resume
}

/// Reads a page of the rows of `of`, starting after `resume`, which names a logical key. The rows' ends are kept.
///
/// # Errors
/// Those of the reads; a result that is too large. `Ok(None)`: `resume` is in none of the keys.
pub(crate) async fn read_page(
    shard: &Shard,
    plan: &ReadPlan,
    of: &SubPartitions,
    resume: Option<Resume>,
    limits: PageLimits,
) -> Result<Option<Page>, Failure> {
    let mut keys = &of.keys[..];
    if let Some(resume) = &resume {
        let Some(at) = keys.iter().position(|key| *key == resume.position.key) else { return Ok(None) };
        keys = &keys[at..];
    }
    let mut resume = resume;
    let mut out = RowBlock::default();
    for key in keys {
        let mut merge = Merge::new(plan, key, &of.shards, resume.take(), limits);
        if let Some(stopped_at) = merge.run(shard, &mut out).await? {
            return Ok(Some(Page { block: out, stopped_at: Some(stopped_at) }));
        }
    }
    Ok(Some(Page { block: out, stopped_at: None }))
}
