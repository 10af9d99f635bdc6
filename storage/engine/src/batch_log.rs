//! The batch log: batches are kept in `system.batches` from before their first write until after their last, so that a
//! batch is applied whole, whatever fails in between.
//!
//! 1. [`Store::put_batch`] stores the mutations; they are durable when it returns, in every mode of the commit log.
//! 2. The coordinator sends the mutations to their owners, then has [`Store::remove_batch`] called where the batch is.
//! 3. After a start [`Store::stored_batches`] lists the batches that were not removed; [`Store::stored_batch`] reads
//!    one that was not removed in time. Applying one again changes nothing that was applied before, because mutations
//!    carry their timestamps.
//!
//! A batch is on the shard that owns the token of its id. The id is chosen so that this is the shard that coordinates
//! the batch, if its node keeps it ([`Store::batch_id`]): storing takes no hop to another shard. After a start with
//! another number of shards each batch is found by exactly one.
//!
//! A batch is a row of Cassandra's table, in a format of our own, which the column `version` names: an element of the
//! column `mutations` is an encoded mutation. Earlier versions of the program, which numbered columns anew at every
//! start, wrote elements that say what the mutation's column ids mean; all integers little-endian:
//! ```text
//! number of column lists u16
//! per list: length u32, body as in a commit log's record of kind 4
//! mutation, to the end
//! ```
//!
//! Invariants: the removal of a batch carries the batch's own timestamp, at which a deletion wins; the memtable frees
//! removed batches once they are most of it.

use crate::commitlog::column_mapping::ColumnMapping;
use crate::commitlog::position::Truncation;
use crate::commitlog::record::{ColumnList, ListFormat};
use crate::error::Error;
use crate::memtable::Memtable;
use crate::memtable::partitions::From;
use crate::store::Store;
use model::merge::filter_row;
use model::mutation::Clustering;
use model::query::{LiveRow, Partitions, ReadCommand, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder, RowView};
use model::{ColumnId, DecoratedKey, Mutation, MutationBuilder, Partitioner, Table, TableId, TokenRange};
use runtime::Class;
use std::rc::Rc;

/// The value of `version` for this format; no version of Cassandra's messages is the same.
pub const BATCH_VERSION: i32 = 0x4865_0002;
/// The value of `version` for elements with column lists. Read only.
pub const BATCH_VERSION_WITH_LISTS: i32 = 0x4865_0001;
/// While `system.batches` takes less memory than this, in bytes, removed batches are not freed.
pub const SHED_BYTES_MIN: usize = 1 << 20;
/// Partitions that are copied between two calls of `yield_if_needed`.
const PARTITIONS_PER_YIELD: usize = 256;

/// A batch's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchId {
    /// The key in `system.batches`, a version 1 uuid.
    pub uuid: [u8; 16],
    /// When it was put, microseconds.
    pub timestamp: i64,
}

/// A batch that was not removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredBatch {
    /// Its name.
    pub id: BatchId,
    /// The batch's mutations; tables that are gone are left out.
    pub mutations: Vec<Mutation>,
}

impl Store {
    /// A name for a batch of this shard that is stored at `timestamp` (microseconds): the first of `uuids`, an endless
    /// supply of version 1 uuids, whose token this shard owns.
    pub fn batch_id(&self, timestamp: i64, mut uuids: impl FnMut() -> [u8; 16]) -> BatchId {
        loop {
            let uuid = uuids();
            let map = self.parts().tables.shard_map;
            if map.owner(map.partitioner.token(&uuid)) == self.parts().tables.shard {
                return BatchId { uuid, timestamp };
            }
        }
    }

    /// Stores a batch in `batches`, the table `system.batches`: durable when it returns, whatever the mode. Fails as
    /// [`Store::apply_durably`] does.
    pub async fn put_batch(&self, batches: &Table, id: BatchId, mutations: &[Mutation]) -> Result<(), Error> {
        let columns = BatchColumns::of(batches);
        let timestamp = id.timestamp;
        let numbered = mutations.iter().enumerate();
        let elements: Vec<_> = numbered.map(|(n, mutation)| (path_of(id, n), mutation.bytes())).collect();
        let mut builder = MutationBuilder::new(self.partitioner(), &id.uuid);
        builder.table(batches.id);
        builder.row(Clustering(&[]), |out| {
            let liveness = Some(Liveness { timestamp, expiry: None });
            let version = BATCH_VERSION.to_be_bytes();
            let list = elements.iter().map(|(path, value)| (columns.mutations, Some(&path[..]), *value));
            let mut cells: Vec<_> = list.chain([(columns.version, None, &version[..])]).collect();
            cells.sort_by_key(|(column, path, _)| (*column, *path));
            let mut row = RowBuilder::new(out, liveness, Deletion::LIVE);
            for (column, path, value) in cells {
                row.cell(&Cell { column, timestamp, content: CellContent::Live(value), path });
            }
        });
        if builder.len() > model::mutation::MUTATION_BYTES_MAX {
            return Err(Error::MutationTooLarge { bytes: builder.len() });
        }
        self.apply_durably(builder.finish(), true).await
    }

    /// Removes a batch that was applied, at `now_in_seconds` (since 1970). If a crash loses the removal, the batch is
    /// applied again, which changes nothing.
    pub async fn remove_batch(&self, batches: &Table, id: BatchId, now_in_seconds: i64) -> Result<(), Error> {
        let mut builder = MutationBuilder::new(self.partitioner(), &id.uuid);
        builder.table(batches.id);
        builder.delete_partition(Deletion { timestamp: id.timestamp, local_deletion_time: now_in_seconds });
        self.apply(builder.finish(), true).await?;
        self.shed(batches.id);
        Ok(())
    }

    /// The batches of this shard that were stored and not removed, less what `truncations` have removed since.
    pub async fn stored_batches(
        &self,
        batches: &Table,
        truncations: &[(TableId, Truncation)],
    ) -> Result<Vec<StoredBatch>, Error> {
        let truncated = |table: TableId, micros: i64| {
            let of_table = truncations.iter().find(|(truncated, _)| *truncated == table);
            of_table.is_some_and(|(_, truncation)| micros <= truncation.at_millis.saturating_mul(1000))
        };
        self.read_batches(batches, Partitions::Range(TokenRange::FULL), truncated).await
    }

    /// A batch of this shard, less what was `truncated` since it was stored; `None` if it was removed. `truncated` says
    /// so of a table and a time in microseconds.
    pub async fn stored_batch(
        &self,
        batches: &Table,
        id: BatchId,
        truncated: impl Fn(TableId, i64) -> bool,
    ) -> Result<Option<StoredBatch>, Error> {
        let key = DecoratedKey::new(self.partitioner(), &id.uuid);
        Ok(self.read_batches(batches, Partitions::Key(key), truncated).await?.pop())
    }

    async fn read_batches(
        &self,
        batches: &Table,
        partitions: Partitions,
        truncated: impl Fn(TableId, i64) -> bool,
    ) -> Result<Vec<StoredBatch>, Error> {
        let mut found = BatchSink { columns: BatchColumns::of(batches), batches: Vec::new() };
        let command = ReadCommand::all(batches.id, 0, partitions);
        self.read(&command, &mut found).await?;
        let mut stored = Vec::with_capacity(found.batches.len());
        for (id, version, elements) in found.batches {
            let has_lists = match version {
                Some(BATCH_VERSION) => false,
                Some(BATCH_VERSION_WITH_LISTS) => true,
                _ => {
                    tracing::warn!(?version, "a batch of an unknown format is left where it is");
                    continue;
                }
            };
            let mut mutations = Vec::with_capacity(elements.len());
            for element in elements {
                let decoded = match has_lists {
                    true => split_element(self.partitioner(), &element),
                    false => Mutation::decode(self.partitioner(), element).ok().map(|mutation| (Vec::new(), mutation)),
                };
                let truncated = |table| truncated(table, id.timestamp);
                let mutation = decoded.map(|(lists, mutation)| self.known_part(&lists, mutation, truncated));
                let mutation = mutation.ok_or_else(|| Error::Corrupt {
                    path: self.parts().log.directory.clone(),
                    offset: 0,
                    what: "malformed batch in system.batches",
                })?;
                mutations.extend(mutation);
            }
            stored.push(StoredBatch { id, mutations });
        }
        Ok(stored)
    }
}

impl Store {
    /// Decodes a mutation with column lists, in the form of the elements of `mutations` that earlier versions wrote.
    /// `None` for other bytes; `Some(None)` if the mutation's tables are gone.
    pub fn mutation_with_lists(&self, bytes: &[u8]) -> Option<Option<Mutation>> {
        let (lists, mutation) = split_element(self.partitioner(), bytes)?;
        Some(self.known_part(&lists, mutation, |_| false))
    }
}

/// The columns of `system.batches` that are used.
#[derive(Clone, Copy)]
struct BatchColumns {
    mutations: ColumnId,
    version: ColumnId,
}

impl BatchColumns {
    fn of(table: &Table) -> BatchColumns {
        let id = |name| table.column(name).expect("a column of system.batches").id;
        BatchColumns { mutations: id("mutations"), version: id("version") }
    }
}

/// The path of element `n` of the list: the batch's uuid with the number in its node.
fn path_of(id: BatchId, n: usize) -> [u8; 16] {
    let mut path = id.uuid;
    path[12..].copy_from_slice(&(n as u32).to_be_bytes());
    path
}

/// Collects batches: name, version, elements.
struct BatchSink {
    columns: BatchColumns,
    batches: Vec<(BatchId, Option<i32>, Vec<Vec<u8>>)>,
}

impl RowSink for BatchSink {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let Ok(uuid) = <[u8; 16]>::try_from(row.key) else { return SinkState::Rejected };
        let timestamp = row.liveness.map_or(0, |liveness| liveness.timestamp);
        let values = |column| row.cells.iter().filter(move |cell| cell.column == column);
        let bytes = |cell: &Cell<'_>| cell.value_at(0).map(<[u8]>::to_vec);
        let version = values(self.columns.version).find_map(|cell| cell.value_at(0)?.try_into().ok());
        let elements = values(self.columns.mutations).filter_map(bytes).collect();
        self.batches.push((BatchId { uuid, timestamp }, version.map(i32::from_be_bytes), elements));
        SinkState::Open
    }
}

impl Store {
    /// A mutation less its tables that are gone or truncated; `None` if nothing is left. `lists` say what its column
    /// ids mean, if they are not those of the schema.
    fn known_part(
        &self,
        lists: &[ColumnList],
        mutation: Mutation,
        truncated: impl Fn(TableId) -> bool,
    ) -> Option<Mutation> {
        let tables = self.parts().tables.borrow();
        let mapping = |table: TableId| {
            let list = lists.iter().find(|list| list.table == table);
            let state = tables.get(&table).filter(|_| !truncated(table))?;
            Some(list.map_or(ColumnMapping::Same, |list| ColumnMapping::new(list, &state.table)))
        };
        if mutation.updates().all(|update| matches!(mapping(update.table), Some(ColumnMapping::Same))) {
            return Some(mutation);
        }
        let mut builder = MutationBuilder::new(self.partitioner(), mutation.key());
        for update in mutation.updates() {
            if let Some(mapping) = mapping(update.table) {
                mapping.add_to(&mut builder, &update);
            }
        }
        (!builder.is_empty()).then(|| builder.finish())
    }

    /// Frees the memory of removed batches, once it is worth the while: live rows are copied to a new memtable.
    fn shed(&self, table: TableId) {
        let parts = self.parts();
        let mut tables = parts.tables.borrow_mut();
        let Some(state) = tables.get_mut(&table) else { return };
        if state.memtable.bytes() < SHED_BYTES_MIN.max(2 * state.shed_bytes.get()) || state.shedding.get() {
            return;
        }
        let Some(pass) = parts.gate.enter() else { return };
        state.shedding.set(true);
        let fresh = parts.memory.new_memtable(&state.table);
        let old = std::mem::replace(&mut state.memtable, fresh.clone());
        drop(tables);
        let known = parts.tables.clone();
        runtime::spawn_in(Class::Background, async move {
            old.seal().await;
            copy_live(&old, &fresh, table).await;
            if let Some(state) = known.borrow().get(&table) {
                state.shed_bytes.set(fresh.bytes());
                state.shedding.set(false);
            }
            Memtable::dismantle(old).await;
            drop(pass);
        });
    }
}

/// Copies the rows that are not deleted with their partition.
async fn copy_live(old: &Rc<Memtable>, fresh: &Memtable, table: TableId) {
    let mut last: Option<DecoratedKey> = None;
    loop {
        let mut seen = 0;
        {
            let contents = old.read();
            let partitioner = contents.partitions.partitioner();
            let from = match &last {
                Some(key) => From::After(key.token.prefix(), &key.key),
                None => From::Start,
            };
            let mut at = None;
            for partition in contents.partitions.range(&contents.arena, from, u64::MAX).take(PARTITIONS_PER_YIELD) {
                seen += 1;
                at = Some(partition);
                let mut blob = Vec::new();
                for row in partition.rows.ascend(&contents.arena, &[], false) {
                    blob.clear();
                    let stored = RowView::trusted(contents.arena.get(row.blob));
                    if filter_row(stored, partition.deletion, &mut blob) {
                        let mut builder = MutationBuilder::new(partitioner, partition.key(&contents.arena));
                        builder.table(table);
                        let clustering = Clustering(row.key.clustering(&contents.arena));
                        builder.row(clustering, |out| out.extend_from_slice(&blob));
                        let mutation = builder.finish();
                        mutation.updates().for_each(|update| fresh.apply(mutation.token(), mutation.key(), &update));
                    }
                }
            }
            if let Some(partition) = at {
                last = Some(contents.key_of(partition));
            }
        }
        if seen < PARTITIONS_PER_YIELD {
            return;
        }
        runtime::yield_if_needed().await;
    }
}

fn split_element(partitioner: Partitioner, element: &[u8]) -> Option<(Vec<ColumnList>, Mutation)> {
    let (count, mut rest) = element.split_first_chunk()?;
    let mut lists = Vec::new();
    for _ in 0..u16::from_le_bytes(*count) {
        let (len, tail) = rest.split_first_chunk()?;
        let (body, tail) = tail.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        lists.push(ColumnList::decode(body, ListFormat::WithKinds)?);
        rest = tail;
    }
    Some((lists, Mutation::decode(partitioner, rest.to_vec()).ok()?))
}
