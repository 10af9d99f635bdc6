//! Dropped columns that a new SSTable still has to declare.
//!
//! A drop covers cells up to its time. Cells written later survive it and come back if the column is added again, so
//! an SSTable that holds such cells declares the column.
//!
//! Invariants: a dropped column without such cells is not declared, because that would cost space in each row.

use model::row::RowView;
use model::schema::DroppedColumn;
use model::{ColumnId, Table};
use sstable::statistics::Header;
use sstable::statistics::Metadata;

/// The dropped columns of a table, and which of them to declare.
pub(crate) struct RetainedColumns<'t> {
    /// Dropped columns that were not added again, and whether each must be declared.
    gone: Vec<(&'t DroppedColumn, bool)>,
}

impl<'t> RetainedColumns<'t> {
    /// The dropped columns of `table`; none is retained until a surviving cell of it was seen.
    pub(crate) fn of(table: &'t Table) -> RetainedColumns<'t> {
        let gone = table.dropped.iter().filter(|dropped| table.column_by_id(dropped.id).is_none());
        RetainedColumns { gone: gone.map(|dropped| (dropped, false)).collect() }
    }

    /// Retains the columns of surviving cells in a row.
    pub(crate) fn row(&mut self, row: RowView<'_>) {
        if !self.gone.is_empty() {
            row.cells().for_each(|cell| self.cell(cell.column, cell.timestamp));
        }
    }

    fn cell(&mut self, column: ColumnId, timestamp: i64) {
        for (dropped, kept) in &mut self.gone {
            *kept |= dropped.id == column && timestamp > dropped.dropped_at;
        }
    }

    /// Retains the columns of which an SSTable may have surviving cells.
    pub(crate) fn sstable(&mut self, metadata: &Metadata) {
        let Header { statics, regulars, .. } = &metadata.header;
        for (dropped, kept) in &mut self.gone {
            let has = statics.iter().chain(regulars).any(|column| column.name == dropped.name.as_bytes());
            *kept |= has && metadata.statistics.max_timestamp > dropped.dropped_at;
        }
    }

    /// Declares the retained columns in the header of an SSTable.
    pub(crate) fn keep(&self, header: &mut Header) {
        self.gone.iter().filter(|(_, kept)| *kept).for_each(|(dropped, _)| header.keep(dropped));
    }
}
