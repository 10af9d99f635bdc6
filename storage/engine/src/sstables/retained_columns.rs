//! Columns that were dropped as of a time before some of their cells: these cells come back when the column is added
//! again, so that what is written of a table has a place for them.
//!
//! Invariants: a file has no place for a dropped column without such cells, which would cost each of its rows.

use model::row::RowView;
use model::schema::DroppedColumn;
use model::{ColumnId, Table};
use sstable::statistics::Header;
use sstable::statistics::Metadata;

/// The dropped columns of a table that are kept.
pub(crate) struct RetainedColumns<'t> {
    /// Those that the table does not have now, and whether they are kept.
    gone: Vec<(&'t DroppedColumn, bool)>,
}

impl<'t> RetainedColumns<'t> {
    /// None yet.
    pub(crate) fn of(table: &'t Table) -> RetainedColumns<'t> {
        let gone = table.dropped.iter().filter(|dropped| table.column_by_id(dropped.id).is_none());
        RetainedColumns { gone: gone.map(|dropped| (dropped, false)).collect() }
    }

    /// Takes note of the cells of a row.
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

    /// Takes note of an SSTable that may have such cells.
    pub(crate) fn sstable(&mut self, metadata: &Metadata) {
        let Header { statics, regulars, .. } = &metadata.header;
        for (dropped, kept) in &mut self.gone {
            let has = statics.iter().chain(regulars).any(|column| column.name == dropped.name.as_bytes());
            *kept |= has && metadata.statistics.max_timestamp > dropped.dropped_at;
        }
    }

    /// Gives them places.
    pub(crate) fn keep(&self, header: &mut Header) {
        self.gone.iter().filter(|(_, kept)| *kept).for_each(|(dropped, _)| header.keep(dropped));
    }
}
