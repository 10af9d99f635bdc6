//! Keys of a collection that are equal though their bytes differ: decimals 1.0 and 1.00, tuples with and without their
//! last nulls. The cells of a row stand in the order of their bytes, so a merge keeps both: here one remains.
//!
//! 1. [`EqualKeys::of`] finds the columns of a table where this can happen; in most tables there is none.
//! 2. [`EqualKeys::unify`] leaves of such cells the one that [`reconcile`] prefers, with the key that it was written
//!    with, as Cassandra does, which compares keys by their type. Of cells that are equal in all but the key the first
//!    by bytes remains.
//!
//! Invariants: what a row gives does not depend on the order in which its versions were merged.

use super::row::reconcile;
use crate::row::{Cell, RowBuilder, RowView};
use crate::schema::{ColumnId, Table};
use crate::types::CqlType;
use crate::value;
use std::cmp::Ordering;

/// The columns of a table whose keys must be compared by their type.
#[derive(Clone, Default, Debug)]
pub struct EqualKeys {
    columns: Vec<(ColumnId, CqlType)>,
}

impl EqualKeys {
    /// Those of `table`.
    pub fn of(table: &Table) -> EqualKeys {
        let keys = table.data_columns().iter().filter_map(|column| match &column.cql_type {
            CqlType::Set { element: key, frozen: false } | CqlType::Map { key, frozen: false, .. } => {
                differ_in_bytes(key).then(|| (column.id, CqlType::clone(key)))
            }
            _ => None,
        });
        EqualKeys { columns: keys.collect() }
    }

    /// Whether there is no such column.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// `row` with one cell per key, which is in `room` if it differs.
    #[inline]
    pub fn one_per_key<'r>(&self, row: RowView<'r>, room: &'r mut Vec<u8>) -> RowView<'r> {
        if !self.is_empty() && self.unify(row, room) { RowView::trusted(room) } else { row }
    }

    /// Puts a row with one cell per key into `out`, which may be an empty row; false, with `out` as it was, if `row` is
    /// one already.
    pub fn unify(&self, row: RowView<'_>, out: &mut Vec<u8>) -> bool {
        let mut losers: Vec<(ColumnId, &[u8])> = Vec::new();
        for (column, key_type) in &self.columns {
            let mut cells: Vec<(&[u8], Cell<'_>)> =
                row.cells().filter(|cell| cell.column == *column).filter_map(|cell| Some((cell.path?, cell))).collect();
            cells.sort_by(|(a, _), (b, _)| value::compare(key_type, a, b).then_with(|| a.cmp(b)));
            for same in cells.chunk_by(|(a, _), (b, _)| value::compare(key_type, a, b) == Ordering::Equal) {
                let Some((_, first)) = same.first() else { continue };
                let winner = same.iter().fold(*first, |best, (_, cell)| reconcile(best, *cell));
                losers
                    .extend(same.iter().filter(|(_, cell)| cell.path != winner.path).map(|(path, _)| (*column, *path)));
            }
        }
        if losers.is_empty() {
            return false;
        }
        out.clear();
        let mut builder = RowBuilder::new(out, row.liveness(), row.deletion());
        let lost = |cell: &Cell<'_>| cell.path.is_some_and(|path| losers.contains(&(cell.column, path)));
        row.cells().filter(|cell| !lost(cell)).for_each(|cell| builder.cell(&cell));
        true
    }
}

/// Whether values of a type can be equal with other bytes.
fn differ_in_bytes(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::Decimal | CqlType::Varint | CqlType::Tuple(_) | CqlType::User { .. } => true,
        CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Vector { element, .. } => {
            differ_in_bytes(element)
        }
        CqlType::Map { key, value, .. } => differ_in_bytes(key) || differ_in_bytes(value),
        _ => false,
    }
}
