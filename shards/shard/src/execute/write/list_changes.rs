//! Changes that depend on what is stored: elements of lists by index or by value.
//!
//! They run under the lock of their partition: read, build the mutation, write, unlock. So no two of them read the same
//! version of a list; writes that do not read take no lock and do not wait. A change that is a request of its own runs
//! on the core that owns the partition; `batch_locks` handles those of batches. If other nodes have the partition, the
//! lists are read at the level of the write and the mutation is built here without a lock, as in Cassandra.

use crate::coordinator::row_source::RowSource;
use crate::coordinator::sub_partitions::key_places;
use crate::coordinator::write::Routed;
use crate::execute::values::binding::Values;
use crate::execute::values::keys::Keys;
use crate::execute::write::cells::Cells;
use crate::execute::write::mutations::{Change, Mutations, Rows, ttl};
use crate::execute::write::sub_partitions::{check_count, spread};
use crate::messages::data::{ListChange, ListRead, Lists, ListsByRow, WriteTimes, borrowed, owned};
use crate::replica;
use crate::shard_state::Shard;
use cql::plan::{Modify, Operation};
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder};
use model::value::BoundValue;
use model::{ColumnId, DecoratedKey, Failure, Partitioner, Table};
use std::sync::Arc;

/// The stored keys of the partitions that a statement which reads changes.
pub(super) fn keys_of<'a>(shard: &Shard, modify: &'a Modify, values: &'a Values<'_>) -> Result<Keys<'a>, Failure> {
    let table = &*modify.table;
    let keys = Keys::of(shard, table, &modify.keys, values)?;
    let Some(sharding) = table.write_sharding() else { return Ok(keys) };
    let (placement, rows) = (shard.placement_of(table)?, Change::rows(shard, modify, values)?);
    let mut stored: Vec<Vec<u8>> = Vec::new();
    for key in keys.iter() {
        let places = key_places(&placement, sharding, key);
        let parts = spread(&sharding.by, places, &rows, modify.kind, runtime::rng::below);
        for part in parts {
            let place = table.stored_key(key, part.shard);
            if sharding.growth.is_some() && part.rows.is_some() {
                shard.key_figures().note_request(table, &place);
            }
            stored.push(place);
        }
        check_count(table, stored.len())?;
    }
    Ok(match stored.len() {
        1 => Keys::One(stored.swap_remove(0).into()),
        _ => Keys::Many(stored),
    })
}

/// Whether the rows of a stored partition move: then what is changed there has to be changed elsewhere too.
pub(super) fn is_moving(shard: &Shard, table: &Table, key: &[u8]) -> Result<bool, Failure> {
    let Some((sharding, (logical, _))) = table.write_sharding().zip(table.logical_key(key)) else { return Ok(false) };
    Ok(key_places(&*shard.placement_of(table)?, sharding, logical).twin.is_some())
}

impl ListChange {
    /// The change that a statement makes in the partition `key`.
    pub(crate) fn new(modify: &Modify, values: &Values<'_>, key: &[u8], when: WriteTimes) -> ListChange {
        ListChange { modify: modify.clone(), bound: owned(&values.bound), key: key.to_vec(), when }
    }

    fn bound(&self) -> Vec<BoundValue<'_>> {
        borrowed(&self.bound)
    }

    /// The table changed.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.modify.table
    }

    /// The partition changed.
    pub(crate) fn key(&self, partitioner: Partitioner) -> DecoratedKey {
        DecoratedKey::new(partitioner, &self.key)
    }

    /// The rows of the partition that are changed. With write sharding the statement may name rows of others.
    fn rows(&self, shard: &Shard, values: &Values<'_>) -> Result<Rows, Failure> {
        let table = self.table();
        let mut rows = Change::rows(shard, &self.modify, values)?;
        if let (Some(sharding), Rows::These(rows)) = (table.write_sharding(), &mut rows)
            && let Some((logical, own)) = table.logical_key(&self.key)
        {
            let places = key_places(&*shard.placement_of(table)?, sharding, logical).with(own);
            let places = places.ok_or_else(|| Failure::overloaded("The rows that are changed have moved meanwhile"))?;
            rows.retain(|row| sharding.by.number_of_row(Clustering(row), places) == Some(own));
        }
        Ok(rows)
    }

    /// The stored key in which a row of the partition is going to be, or was, while rows move.
    fn twin_of(&self, shard: &Shard, row: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let table = self.table();
        let Some((sharding, (logical, own))) = table.write_sharding().zip(table.logical_key(&self.key)) else {
            return Ok(None);
        };
        let places = key_places(&*shard.placement_of(table)?, sharding, logical);
        let twin = places.twin.map(|twin| if twin.has(own) { places.read } else { twin });
        let number = twin.and_then(|twin| sharding.by.number_of_row(Clustering(row), twin));
        Ok(number.map(|number| table.stored_key(logical, number)))
    }

    /// What must be read before [`ListChange::build`].
    pub(crate) fn reads(&self, shard: &Shard) -> Result<Vec<ListRead>, Failure> {
        let modify = &self.modify;
        let columns = |operations: &[Operation]| -> Vec<ColumnId> {
            operations.iter().filter(|one| one.reads()).map(|one| one.column).collect()
        };
        let now_in_seconds = self.when.now_in_seconds;
        let key = self.key(shard.partitioner());
        let read = |row, columns| {
            let (table, key) = (modify.table.clone(), key.clone());
            ListRead { table, key, row, columns, now_in_seconds }
        };
        let mut reads = Vec::new();
        let statics = columns(&modify.statics);
        if !statics.is_empty() {
            reads.push(read(None, statics));
        }
        let regulars = columns(&modify.operations);
        if modify.rows && !regulars.is_empty() {
            let bound = self.bound();
            if let Rows::These(rows) = self.rows(shard, &Values::in_order(&bound))? {
                reads.extend(rows.into_iter().map(|row| read(Some(row), regulars.clone())));
            }
        }
        Ok(reads)
    }

    /// Adds what the change writes to `mutations`; `found` has the lists that [`ListChange::reads`] asked for.
    pub(crate) fn build(&self, shard: &Shard, found: &ListsByRow, mutations: &mut Mutations) -> Result<(), Failure> {
        let ListChange { modify, key, when, .. } = self;
        let table = &modify.table;
        let bound = self.bound();
        let values = Values::in_order(&bound);
        let (none, is_decided) = (Lists::new(), mutations.is_of_partition());
        let lists = |row: Option<&Vec<u8>>| found.get(&(table.id, key.clone(), row.cloned())).unwrap_or(&none);
        let group = mutations.group(shard, table, key, 0);
        let rows = if modify.rows { self.rows(shard, &values)? } else { Rows::None };
        if rows.names_none() {
            return Ok(());
        }
        rows.refuse_columns_of_ranges(false)?;
        let ttl = ttl(shard, modify, &values)?;
        // As in Cassandra, a row's failure is reported before that of the static row, which is evaluated after the
        // first row, and before those of the rows that follow.
        let mut changed = Vec::new();
        let mut statics = None;
        let of_statics = || Cells::of(shard, table, &modify.statics, &values, lists(None), *when, rows.static_times());
        if let Rows::These(rows) = &rows {
            for row in rows {
                let cells = Cells::of(shard, table, &modify.operations, &values, lists(Some(row)), *when, 1)?;
                changed.push((row, cells));
                if statics.is_none() {
                    statics = Some(of_statics()?);
                }
            }
        }
        let statics = match statics {
            Some(statics) => statics,
            None => of_statics()?,
        };
        if !statics.is_empty() {
            group.table(table.id).static_row(|out| {
                statics.write(&mut RowBuilder::new(out, None, Deletion::LIVE), *when, ttl);
            });
        }
        let changed = || changed.iter().filter(|(_, cells)| !cells.is_empty());
        for (row, cells) in changed() {
            group.table(table.id).row(Clustering(row), |out| {
                cells.write(&mut RowBuilder::new(out, None, Deletion::LIVE), *when, ttl);
            });
        }
        for (row, cells) in changed().filter(|_| !is_decided) {
            let Some(twin) = self.twin_of(shard, row)? else { break };
            mutations.group(shard, table, &twin, 0).table(table.id).row(Clustering(row), |out| {
                cells.write(&mut RowBuilder::new(out, None, Deletion::LIVE), *when, ttl);
            });
        }
        Ok(())
    }
}

/// Runs a change on the core that owns its partition.
pub(crate) async fn apply(shard: &Shard, change: &ListChange) -> Result<(), Failure> {
    let table = change.table().id;
    let failed = |error| replica::failure(&shard.schema(), Some(table), error);
    let _guard = shard.store().lock(table, &change.key(shard.partitioner())).await.map_err(failed)?;
    for routed in mutations(shard, change, &RowSource::Here).await? {
        replica::mutate(shard, routed.mutation, false).await?;
    }
    Ok(())
}

/// What a change writes, by the lists that its partition has.
pub(crate) async fn mutations(shard: &Shard, change: &ListChange, source: &RowSource) -> Result<Vec<Routed>, Failure> {
    let found = source.lists(shard, &change.reads(shard)?).await?;
    let mut mutations = Mutations::default();
    change.build(shard, &found, &mut mutations)?;
    mutations.finish()
}
