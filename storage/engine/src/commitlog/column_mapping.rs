//! Maps the column ids of a run of an earlier version of the program to those that the schema has.
//!
//! Such a version numbered columns anew at every start, so it kept mutations on disk together with a [`ColumnList`].
//! Static and regular columns are found again by name and kind, among the table's columns and then among its dropped
//! ones; readers leave out what was written before the drop. Cells of columns that are found in neither are dropped
//! here. Mutations carry no ids of key columns, so renaming a key column changes nothing.
//!
//! Invariants: rows are encoded again only if the id of some column has changed; a row that has lost all its cells is
//! not written.

use crate::commitlog::record::ColumnList;
use model::mutation::{Operation, TableUpdate};
use model::row::{Cell, RowBuilder, RowView};
use model::{ColumnId, ColumnKind, Mutation, MutationBuilder, Partitioner, Table};
use runtime::HashMap;

/// What the column ids of one table's mutations are in the schema.
pub(crate) enum ColumnMapping {
    /// They are the same.
    Same,
    /// From the id in the mutations to the id in the schema; columns that are not known are missing.
    Moved(HashMap<ColumnId, ColumnId>),
}

impl ColumnMapping {
    /// From the ids of `list` to those of `table`.
    pub(crate) fn new(list: &ColumnList, table: &Table) -> ColumnMapping {
        let mut ids = HashMap::default();
        let mut same = true;
        for old in list.columns.iter().filter(|old| !old.kind.is_key()) {
            let now = id_now(table, &old.name, old.kind);
            same &= now == Some(old.id);
            if let Some(now) = now {
                ids.insert(old.id, now);
            }
        }
        if same { ColumnMapping::Same } else { ColumnMapping::Moved(ids) }
    }

    /// One table's update with the ids of the schema; `None` if it can be used as it is.
    pub(crate) fn update(&self, partitioner: Partitioner, key: &[u8], update: &TableUpdate<'_>) -> Option<Mutation> {
        let ColumnMapping::Moved(_) = self else { return None };
        let mut builder = MutationBuilder::new(partitioner, key);
        self.add_to(&mut builder, update);
        Some(builder.finish())
    }

    /// Adds one table's update with the ids of the schema to a mutation of the same key.
    pub(crate) fn add_to(&self, builder: &mut MutationBuilder, update: &TableUpdate<'_>) {
        builder.table(update.table);
        builder.delete_partition(update.partition_deletion);
        let mut blob = Vec::new();
        for operation in update.operations() {
            match operation {
                Operation::Row { clustering, row } => {
                    if self.row(row, &mut blob) {
                        builder.row(clustering, |out| out.extend_from_slice(&blob));
                    }
                }
                Operation::StaticRow { row } => {
                    if self.row(row, &mut blob) {
                        builder.static_row(|out| out.extend_from_slice(&blob));
                    }
                }
                Operation::RangeDeletion { start, end, deletion } => {
                    builder.delete_range(start, end, deletion);
                }
            }
        }
    }

    /// Puts the row with the ids of the schema into `out`. Returns whether anything is left of it.
    fn row(&self, row: RowView<'_>, out: &mut Vec<u8>) -> bool {
        out.clear();
        match self {
            ColumnMapping::Same => out.extend_from_slice(row.blob()),
            ColumnMapping::Moved(ids) => move_row(row, ids, out),
        }
        !RowView::trusted(out).is_empty()
    }
}

fn id_now(table: &Table, name: &str, kind: ColumnKind) -> Option<ColumnId> {
    let column = table.data_columns().iter().find(|column| column.name == name && column.kind == kind);
    let dropped = || table.dropped.iter().find(|dropped| dropped.name == name && dropped.kind == kind);
    column.map(|column| column.id).or_else(|| Some(dropped()?.id))
}

fn move_row(row: RowView<'_>, ids: &HashMap<ColumnId, ColumnId>, out: &mut Vec<u8>) {
    let moved = |cell: Cell<'_>| ids.get(&cell.column).copied();
    let mut cells: Vec<(ColumnId, Cell<'_>)> = row.cells().filter_map(|cell| Some((moved(cell)?, cell))).collect();
    // Stable: the cells of a column keep their order.
    cells.sort_by_key(|(id, _)| *id);
    let mut builder = RowBuilder::new(out, row.liveness(), row.deletion());
    for (column, cell) in cells {
        builder.cell(&Cell { column, ..cell });
    }
}
