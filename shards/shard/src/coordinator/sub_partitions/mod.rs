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
pub(crate) mod moving_rows;
mod row_order;
mod stream;

use super::read::{Page, PageLimits, ReadPlan};
use crate::rows::block::RowBlock;
use crate::shard_state::Shard;
use cluster::placement::TablePlacement;
use cluster::sub_partitions::KeyPlaces;
use merge::Merge;
use model::query::{Position, Resume};
use model::{DecoratedKey, Failure, Partitioner, Places, Table, WriteSharding};
use std::rc::Rc;
use std::time::Duration;

/// Most sub-partitions that one request reads at once.
pub(crate) const UNDER_WAY_MAX: usize = 32;

/// The sub-partitions that a SELECT reads.
#[derive(Clone)]
pub(crate) struct SubPartitions {
    /// The logical keys, each with its token, which is that of no partition.
    pub(crate) keys: Vec<DecoratedKey>,
    /// The sub-partitions of each key that are read.
    pub(crate) spread: Vec<SpreadKey>,
    /// Whether the clustering says in which sub-partitions the rows are.
    pub(crate) is_restricted: bool,
}

/// The sub-partitions of a key that are read.
#[derive(Clone)]
pub(crate) struct SpreadKey {
    /// All of its sub-partitions.
    pub(crate) places: Places,
    /// The numbers of those that are read, ascending.
    pub(crate) numbers: Rc<[u16]>,
}

impl SubPartitions {
    /// All sub-partitions of these keys, as the placement of a read has them.
    pub(crate) fn all(placement: &TablePlacement, sharding: &WriteSharding, keys: Vec<DecoratedKey>) -> SubPartitions {
        let mut spread: Vec<SpreadKey> = Vec::with_capacity(keys.len());
        for key in &keys {
            let places = key_places(placement, sharding, &key.key).read;
            let next = match spread.last() {
                Some(last) if last.places == places => last.clone(),
                _ => SpreadKey { places, numbers: places.numbers().collect() },
            };
            spread.push(next);
        }
        SubPartitions { keys, spread, is_restricted: false }
    }

    /// Leaves of each key the sub-partitions that `numbers_of` gives of its places, if it tells.
    pub(crate) fn restrict(&mut self, mut numbers_of: impl FnMut(Places) -> Option<Vec<u16>>) {
        let mut known: Option<(Places, Rc<[u16]>)> = None;
        for key in &mut self.spread {
            match &known {
                Some((places, numbers)) if *places == key.places => key.numbers = numbers.clone(),
                _ => {
                    let Some(numbers) = numbers_of(key.places) else { return };
                    key.numbers = numbers.into();
                    known = Some((key.places, key.numbers.clone()));
                }
            }
        }
        self.is_restricted = true;
    }

    /// One of the keys alone.
    pub(crate) fn only(&self, at: usize) -> SubPartitions {
        SubPartitions {
            keys: vec![self.keys[at].clone()],
            spread: vec![self.spread[at].clone()],
            is_restricted: self.is_restricted,
        }
    }

    /// Whether one sub-partition of each key is read.
    pub(crate) fn is_one_of_each(&self) -> bool {
        self.spread.iter().all(|key| key.numbers.len() == 1)
    }

    /// The place in the only sub-partition of its key that is read of a place in the key; `None` if it is in no key.
    pub(crate) fn within_only(&self, table: &Table, resume: &Resume) -> Option<Resume> {
        let at = self.keys.iter().position(|key| *key == resume.position.key)?;
        self.spread[at].numbers.first().map(|number| within(table, resume, *number))
    }

    /// The stored keys, by logical key and number.
    pub(crate) fn stored(&self, table: &Table) -> impl Iterator<Item = DecoratedKey> {
        let numbers_of = move |(key, of): (_, &SpreadKey)| {
            let numbers = of.numbers.clone();
            (0..numbers.len()).map(move |at| stored(table, key, numbers[at]))
        };
        self.keys.iter().zip(&self.spread).flat_map(numbers_of)
    }
}

/// Where the rows of a logical key are, of a table with write sharding and this placement.
pub(crate) fn key_places(placement: &TablePlacement, sharding: &WriteSharding, key: &[u8]) -> KeyPlaces {
    match placement.sub_partitions() {
        None => KeyPlaces::settled(sharding.places()),
        // Tables with write sharding have no other partitioner.
        Some(map) => map.places_of(Partitioner::Murmur3.token(key).0, key),
    }
}

/// Keeps the nodes of the current epoch in use, if the partitions that a change of `table` concerns follow from the
/// epoch: whoever moves rows waits for the changes of before. To be called before the change is worked out, and kept
/// until it has ended.
pub(crate) fn pin(shard: &Shard, table: &Table) -> Result<Option<Rc<TablePlacement>>, Failure> {
    match table.write_sharding() {
        None => Ok(None),
        Some(_) => shard.placement_of(table).map(Some),
    }
}

/// Counts requests about rows of single sub-partitions, if keys of the table grow by how busy these are: a read of what
/// `of` says.
pub(crate) fn note_read(shard: &Shard, table: &Table, of: &SubPartitions) {
    let grows = table.write_sharding().is_some_and(|sharding| sharding.growth.is_some());
    if grows && of.is_restricted {
        of.stored(table).for_each(|key| shard.key_figures().note_request(table, &key.key));
    }
}

/// Waits, at most so long, until what Paxos decides of a table need not wait for rows that move.
pub(crate) async fn wait_until_open(shard: &Shard, table: &Table, timeout: Duration) -> Result<(), Failure> {
    if table.write_sharding().is_none() {
        return Ok(());
    }
    let deadline = runtime::now().after(timeout);
    while is_closed(&*shard.placement_of(table)?) {
        let next = shard.epoch() + 1;
        if runtime::timeout(deadline.since(runtime::now()), shard.epoch_reached(next)).await.is_none() {
            break;
        }
    }
    Ok(())
}

/// Whether what Paxos decides of a table has to wait.
pub(crate) fn is_closed(placement: &TablePlacement) -> bool {
    placement.sub_partitions().is_some_and(|map| map.is_closed())
}

/// Fails if a read that was planned by `placement` has taken so long that what it has read may lack rows: they were
/// deleted where it looked for them.
pub(crate) fn check_moved(shard: &Shard, table: &Table, placement: &TablePlacement) -> Result<(), Failure> {
    let planned = placement.sub_partitions().map(|map| &**map);
    match shard.placement_of(table)?.sub_partitions() {
        Some(now) if now.is_left_behind(planned) => Err(moved(table)),
        _ => Ok(()),
    }
}

#[cold]
fn moved(table: &Table) -> Failure {
    Failure::overloaded(format!(
        "Rows of table {} have moved to more sub-partitions while they were read; read them again",
        table.full_name()
    ))
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
    let mut first = 0;
    if let Some(resume) = &resume {
        let Some(at) = of.keys.iter().position(|key| *key == resume.position.key) else { return Ok(None) };
        first = at;
    }
    let mut resume = resume;
    let mut out = RowBlock::default();
    for (key, spread) in of.keys.iter().zip(&of.spread).skip(first) {
        let mut merge = Merge::new(plan, key, &spread.numbers, resume.take(), limits);
        if let Some(stopped_at) = merge.run(shard, &mut out).await? {
            return Ok(Some(Page { block: out, stopped_at: Some(stopped_at) }));
        }
    }
    Ok(Some(Page { block: out, stopped_at: None }))
}
