//! Which cells of a row are live.
//!
//! A row is live if its liveness is, or any of its cells: not deleted by the partition, a range, the row or its column,
//! not expired at the command's `now_in_seconds`, and not of a column that is dropped or was dropped since the cell was
//! written. A static cell is deleted by the partition and its column alone.

use crate::row::{Cell, CellContent, Deletion, Liveness, NO_TIMESTAMP, RowView};
use crate::schema::{ColumnId, Table};

/// Vectors for the cells of a row and of a static row, kept from read to read.
pub type CellScratch = std::cell::Cell<LiveCells<'static>>;

/// Live cells.
#[derive(Default)]
pub struct LiveCells<'a> {
    /// Cells of the current row.
    pub row: Vec<Cell<'a>>,
    /// Cells of the partition's static row.
    pub statics: Vec<Cell<'a>>,
}

impl LiveCells<'_> {
    /// The same vectors, emptied, for cells of another lifetime.
    pub fn recycle<'b>(self) -> LiveCells<'b> {
        LiveCells { row: recycle(self.row), statics: recycle(self.statics) }
    }
}

/// Empties a vector and keeps its memory for cells of another lifetime.
pub fn recycle<'a>(mut cells: Vec<Cell<'_>>) -> Vec<Cell<'a>> {
    cells.clear();
    // Collecting in place keeps the allocation; were it not kept, the cost is an allocation, never a wrong result.
    cells.into_iter().map(|_| unreachable!("the vector is empty")).collect()
}

/// The liveness of a row if it is live: not deleted by `deletion` or the row's own, and not expired at `now`.
#[inline]
pub fn live_liveness(row: RowView<'_>, deletion: Deletion, now: i64) -> Option<Liveness> {
    let deletion = deletion.max(row.deletion());
    row.liveness().filter(|liveness| {
        !deletion.deletes(liveness.timestamp) && liveness.expiry.is_none_or(|(_, expires_at)| now < expires_at)
    })
}

/// Puts the live cells of a row into `cells`. Returns `None` if the row is not live, else its liveness if that is live.
/// `dead` is increased as Cassandra counts tombstones: by the row's dead cells that nothing above the row deletes,
/// without deletions of whole collections; for a row that is not live and has no such cells, by one for the row itself.
#[inline]
pub fn live_cells<'a>(
    row: RowView<'a>,
    deletion: Deletion,
    now: i64,
    table: &Table,
    cells: &mut Vec<Cell<'a>>,
    dead: &mut u64,
) -> Option<Option<Liveness>> {
    cells.clear();
    let above = deletion;
    let deletion = deletion.max(row.deletion());
    let written = row.liveness();
    let liveness = written.filter(|liveness| {
        !deletion.deletes(liveness.timestamp) && liveness.expiry.is_none_or(|(_, expires_at)| now < expires_at)
    });
    // The deletion of the multi-cell column that the cells belong to.
    let mut column_deletion: (Option<ColumnId>, i64) = (None, NO_TIMESTAMP);
    let mut dead_cells = 0;
    for cell in row.cells() {
        if let CellContent::ColumnDeletion { .. } = cell.content {
            column_deletion = (Some(cell.column), cell.timestamp);
            continue;
        }
        let column_deleted = column_deletion.0 == Some(cell.column) && cell.timestamp <= column_deletion.1;
        if column_deleted || deletion.deletes(cell.timestamp) {
            continue;
        }
        if cell.value_at(now).is_none() {
            dead_cells += 1;
        } else if !table.is_dropped(cell.column, cell.timestamp) {
            cells.push(cell);
        }
    }
    let is_live = liveness.is_some() || !cells.is_empty();
    if !is_live && dead_cells == 0 {
        let expired = written.is_some_and(|written| !deletion.deletes(written.timestamp));
        dead_cells = u64::from(row.deletion().timestamp > above.timestamp || expired);
    }
    *dead += dead_cells;
    is_live.then_some(liveness)
}
