//! Changes that depend on what is there: elements of lists by index or by value.
//!
//! They run under the lock of their partition: read, build the mutation, write, let go. So two of them never see the same
//! list; writes that do not read take no lock and do not wait. One that stands alone runs on the core that owns the
//! partition; for those of a batch see `execute::batch_reading`.

use super::cells::{Cells, Element, Lists};
use super::{Change, Mutations, Rows, When, ttl};
use crate::execute::binding::Values;
use crate::execute::slices::row_command;
use crate::{Shard, replica};
use cql::plan::{Modify, Operation};
use model::mutation::Clustering;
use model::query::{LiveRow, RowSink, SinkState};
use model::row::{Deletion, RowBuilder};
use model::value::{Bound, compare};
use model::{ColumnId, CqlType, DecoratedKey, Failure, Table, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One partition's part of a statement, with what was bound.
#[derive(Clone, Debug)]
pub struct ReadingChange {
    modify: Modify,
    bound: Vec<OwnedBound>,
    key: Vec<u8>,
    local: bool,
    when: When,
}

/// A bound value that leaves its request.
#[derive(Clone, Debug)]
pub(crate) enum OwnedBound {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

/// Values that leave their request.
pub(crate) fn owned(bound: &[Bound<'_>]) -> Vec<OwnedBound> {
    let owned = bound.iter().map(|value| match value {
        Bound::Null => OwnedBound::Null,
        Bound::Unset => OwnedBound::Unset,
        Bound::Bytes(bytes) => OwnedBound::Bytes(bytes.to_vec()),
    });
    owned.collect()
}

/// Such values as a request has them.
pub(crate) fn borrowed(bound: &[OwnedBound]) -> Vec<Bound<'_>> {
    let borrowed = bound.iter().map(|value| match value {
        OwnedBound::Null => Bound::Null,
        OwnedBound::Unset => Bound::Unset,
        OwnedBound::Bytes(bytes) => Bound::Bytes(bytes),
    });
    borrowed.collect()
}

/// A row, or a partition's static row, some of whose lists a change reads.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    table: Arc<Table>,
    key: DecoratedKey,
    row: Option<Vec<u8>>,
    columns: Vec<ColumnId>,
    /// Seconds since 1970, by which elements have expired.
    now_in_seconds: i64,
}

/// The lists that were read, by table, key and row.
pub(crate) type Found = BTreeMap<(TableId, Vec<u8>, Option<Vec<u8>>), Lists>;

impl ReadingChange {
    /// The part of `key`.
    pub(crate) fn new(modify: &Modify, values: &Values<'_>, key: &[u8], local: bool, when: When) -> ReadingChange {
        ReadingChange { modify: modify.clone(), bound: owned(&values.bound), key: key.to_vec(), local, when }
    }

    fn bound(&self) -> Vec<Bound<'_>> {
        borrowed(&self.bound)
    }

    /// The table changed.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.modify.table
    }

    /// The partition changed.
    pub(crate) fn key(&self) -> DecoratedKey {
        DecoratedKey::new(&self.key)
    }

    /// Whether the table lives on shard 0.
    pub(crate) fn local(&self) -> bool {
        self.local
    }

    /// What must be read before [`ReadingChange::build`].
    pub(crate) fn wants(&self, shard: &Shard) -> Result<Vec<Wanted>, Failure> {
        let modify = &self.modify;
        let columns = |operations: &[Operation]| -> Vec<ColumnId> {
            operations.iter().filter(|one| one.reads()).map(|one| one.column).collect()
        };
        let now_in_seconds = self.when.now_in_seconds;
        let wanted =
            |row, columns| Wanted { table: modify.table.clone(), key: self.key(), row, columns, now_in_seconds };
        let mut wants = Vec::new();
        let statics = columns(&modify.statics);
        if !statics.is_empty() {
            wants.push(wanted(None, statics));
        }
        let regulars = columns(&modify.operations);
        if modify.rows && !regulars.is_empty() {
            let bound = self.bound();
            if let Rows::These(rows) = Change::rows(shard, modify, &Values::in_order(&bound))? {
                wants.extend(rows.into_iter().map(|row| wanted(Some(row), regulars.clone())));
            }
        }
        Ok(wants)
    }

    /// Adds what the change writes, given the lists that it wanted.
    pub(crate) fn build(&self, shard: &Shard, found: &Found, mutations: &mut Mutations) -> Result<(), Failure> {
        let ReadingChange { modify, key, local, when, .. } = self;
        let table = &modify.table;
        let bound = self.bound();
        let values = Values::in_order(&bound);
        let none = Lists::new();
        let lists = |row: Option<&Vec<u8>>| found.get(&(table.id, key.clone(), row.cloned())).unwrap_or(&none);
        let group = mutations.group(table, key, *local, 0);
        let rows = if modify.rows { Change::rows(shard, modify, &values)? } else { Rows::None };
        if rows.names_none() {
            return Ok(());
        }
        rows.refuse_columns_of_ranges(false)?;
        let ttl = ttl(shard, modify, &values)?;
        // As in Cassandra what is wrong with a row shows before what is wrong with the static row, which is changed after it,
        // and that before the next row's.
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
        for (row, cells) in changed.iter().filter(|(_, cells)| !cells.is_empty()) {
            group.table(table.id).row(Clustering(row), |out| {
                cells.write(&mut RowBuilder::new(out, None, Deletion::LIVE), *when, ttl);
            });
        }
        Ok(())
    }
}

/// Runs a change on the core that owns its partition.
pub(crate) async fn apply(shard: &Shard, change: &ReadingChange) -> Result<(), Failure> {
    let table = change.table().id;
    let failed = |error| replica::failure(&shard.schema(), Some(table), error);
    let _guard = shard.store().lock(table, &change.key()).await.map_err(failed)?;
    let found = read(shard, &change.wants(shard)?).await?;
    let mut mutations = Mutations::default();
    change.build(shard, &found, &mut mutations)?;
    for routed in mutations.finish()? {
        replica::mutate(shard, routed.mutation, false).await?;
    }
    Ok(())
}

/// The lists that are wanted of partitions of this core.
pub(crate) async fn read(shard: &Shard, wants: &[Wanted]) -> Result<Found, Failure> {
    let mut found = Found::new();
    for wanted in wants {
        let lists = lists(shard, wanted).await?;
        let place = (wanted.table.id, wanted.key.key.to_vec(), wanted.row.clone());
        found.entry(place).or_default().extend(lists);
    }
    Ok(found)
}

/// The elements of the lists of a row or, without one, of the static row.
async fn lists(shard: &Shard, wanted: &Wanted) -> Result<Lists, Failure> {
    let Wanted { table, key, row, columns, now_in_seconds } = wanted;
    let command = row_command(table, key, row.as_deref(), *now_in_seconds);
    let mut found = Collected { now: command.now_in_seconds, is_static: row.is_none(), columns, lists: Lists::new() };
    let read = shard.store().read(&command, &mut found).await;
    read.map_err(|error| replica::failure(&shard.schema(), Some(table.id), error))?;
    for list in found.lists.values_mut() {
        list.sort_by(|a, b| compare(&CqlType::Timeuuid, &a.path, &b.path));
    }
    Ok(found.lists)
}

/// Collects the elements of some lists of a row.
struct Collected<'w> {
    now: i64,
    is_static: bool,
    columns: &'w [ColumnId],
    lists: Lists,
}

impl RowSink for Collected<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let cells = if self.is_static { row.static_cells } else { row.cells };
        for cell in cells.iter().filter(|cell| self.columns.contains(&cell.column)) {
            if let (Some(path), Some(value)) = (cell.path, cell.value_at(self.now)) {
                let element = Element { path: path.to_vec(), value: value.to_vec(), timestamp: cell.timestamp };
                self.lists.entry(cell.column).or_default().push(element);
            }
        }
        SinkState::Full
    }
}
