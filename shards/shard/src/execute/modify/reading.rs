//! Changes that depend on what is there: elements of lists by index or by value.
//!
//! They run on the core that owns the partition, under its lock: read, build the mutation, write, let go. So two of them
//! never see the same list; writes that do not read take no lock and do not wait.

use super::cells::{Cells, Lists};
use super::{Change, Mutations, Rows, When, ttl};
use crate::execute::binding::Values;
use crate::{Shard, replica};
use cql::plan::{Modify, Operation};
use model::comparable::{self, BoundSide};
use model::mutation::Clustering;
use model::query::{LiveRow, Partitions, ReadCommand, RowSink, SinkState, Slice};
use model::row::{Deletion, RowBuilder};
use model::value::{Bound, compare};
use model::{ColumnId, CqlType, DecoratedKey, Failure};

/// One partition's part of a statement, with what was bound.
#[derive(Clone, Debug)]
pub struct ReadingChange {
    modify: Modify,
    bound: Vec<OwnedBound>,
    key: Vec<u8>,
    local: bool,
    when: When,
}

#[derive(Clone, Debug)]
enum OwnedBound {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

impl ReadingChange {
    /// The part of `key`.
    pub(super) fn new(modify: &Modify, values: &Values<'_>, key: &[u8], local: bool, when: When) -> ReadingChange {
        let bound = values.bound.iter().map(|value| match value {
            Bound::Null => OwnedBound::Null,
            Bound::Unset => OwnedBound::Unset,
            Bound::Bytes(bytes) => OwnedBound::Bytes(bytes.to_vec()),
        });
        ReadingChange { modify: modify.clone(), bound: bound.collect(), key: key.to_vec(), local, when }
    }
}

/// Runs a change on the core that owns its partition.
pub(crate) async fn apply(shard: &Shard, change: &ReadingChange) -> Result<(), Failure> {
    let ReadingChange { modify, bound, key, local, when } = change;
    let table = &modify.table;
    let decorated = DecoratedKey::new(key);
    let failed = |error| replica::failure(&shard.schema(), Some(table.id), error);
    let _guard = shard.store().lock(table.id, &decorated).await.map_err(failed)?;
    let bound: Vec<Bound<'_>> = bound
        .iter()
        .map(|value| match value {
            OwnedBound::Null => Bound::Null,
            OwnedBound::Unset => Bound::Unset,
            OwnedBound::Bytes(bytes) => Bound::Bytes(bytes),
        })
        .collect();
    let values = Values::in_order(&bound);
    let ttl = ttl(shard, modify, &values)?;
    let mut mutations = Mutations::default();
    let group = mutations.group(table, key, *local);
    if !modify.statics.is_empty() {
        let lists = lists(shard, modify, &decorated, None, &modify.statics).await?;
        let cells = Cells::of(shard, table, &modify.statics, &values, &lists)?;
        if !cells.is_empty() {
            group.table(table.id).static_row(|out| {
                cells.write(&mut RowBuilder::new(out, None, Deletion::LIVE), *when, ttl);
            });
        }
    }
    if let (true, Rows::These(rows)) = (modify.rows, Change::rows(shard, modify, &values)?) {
        for row in &rows {
            let lists = lists(shard, modify, &decorated, Some(row), &modify.operations).await?;
            let cells = Cells::of(shard, table, &modify.operations, &values, &lists)?;
            if !cells.is_empty() {
                group.table(table.id).row(Clustering(row), |out| {
                    cells.write(&mut RowBuilder::new(out, None, Deletion::LIVE), *when, ttl);
                });
            }
        }
    }
    for routed in mutations.finish()? {
        replica::mutate(shard, routed.mutation, false).await?;
    }
    Ok(())
}

/// The elements of the lists that `operations` read, in a row or, without one, in the static row.
async fn lists(
    shard: &Shard,
    modify: &Modify,
    key: &DecoratedKey,
    row: Option<&Vec<u8>>,
    operations: &[Operation],
) -> Result<Lists, Failure> {
    let table = &modify.table;
    let slice = match row {
        Some(row) if table.clustering_len > 0 => {
            let bound = |side| {
                let mut out = Vec::new();
                comparable::bound(table, Clustering(row).components(), side, &mut out);
                out.into_boxed_slice()
            };
            Slice { start: bound(BoundSide::Before), end: bound(BoundSide::After) }
        }
        _ => Slice::all(),
    };
    let command = ReadCommand {
        table: table.id,
        now_in_seconds: runtime::wall_micros().div_euclid(1_000_000),
        partitions: Partitions::Key(key.clone()),
        slices: [slice].into(),
        reversed: false,
        rows_max: 1,
        per_partition_max: u64::MAX,
        visits_max: u64::MAX,
        resume: None,
        resume_partition_rows: 0,
        static_only: row.is_none(),
        wants_static: row.is_none(),
    };
    let columns: Vec<ColumnId> = operations.iter().filter(|one| one.reads()).map(|one| one.column).collect();
    let mut found = Found { now: command.now_in_seconds, is_static: row.is_none(), columns, lists: Lists::new() };
    let read = shard.store().read(&command, &mut found).await;
    read.map_err(|error| replica::failure(&shard.schema(), Some(table.id), error))?;
    for list in found.lists.values_mut() {
        list.sort_by(|(a, _), (b, _)| compare(&CqlType::Timeuuid, a, b));
    }
    Ok(found.lists)
}

/// Collects the elements of some lists of a row.
struct Found {
    now: i64,
    is_static: bool,
    columns: Vec<ColumnId>,
    lists: Lists,
}

impl RowSink for Found {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let cells = if self.is_static { row.static_cells } else { row.cells };
        for cell in cells.iter().filter(|cell| self.columns.contains(&cell.column)) {
            if let (Some(path), Some(value)) = (cell.path, cell.value_at(self.now)) {
                self.lists.entry(cell.column).or_default().push((path.to_vec(), value.to_vec()));
            }
        }
        SinkState::Full
    }
}
