//! Keys of a collection that are equal although their bytes differ: decimals 1.0 and 1.00, tuples with and without
//! trailing nulls. Cells of a row are ordered by bytes, so a merge keeps both; this module then keeps only one of them.
//!
//! 1. [`EqualKeys::of`] finds the columns of a table where this can happen. Most tables have none.
//! 2. [`EqualKeys::unify`] keeps of such cells the one that [`reconcile`] prefers, with the key that it was written
//!    with, as does Cassandra, which compares keys by their type. Of cells that differ only in their key's bytes it
//!    keeps the first.
//!
//! Invariants: the resulting row does not depend on the order in which its versions were merged.

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
    /// The columns of `table` whose keys can be equal with different bytes.
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

    /// `row` with one cell per key; if this is another row than `row`, it is stored in `room`.
    #[inline]
    pub fn one_per_key<'r>(&self, row: RowView<'r>, room: &'r mut Vec<u8>) -> RowView<'r> {
        if !self.is_empty() && self.unify(row, room) { RowView::trusted(room) } else { row }
    }

    /// Writes `row` with one cell per key to `out`; the result may be an empty row. Returns false and leaves `out`
    /// unchanged if `row` already has one cell per key.
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

/// Whether two values of a type can be equal with different bytes.
fn differ_in_bytes(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::Decimal | CqlType::Varint | CqlType::Tuple(_) | CqlType::User { .. } => true,
        // An alias and its class name the same type.
        CqlType::DynamicComposite(_) => true,
        other => other.parts().into_iter().any(differ_in_bytes),
    }
}
