//! A table's column list, encoded once for all segments that name it.

use super::record::ColumnList;
use model::{Table, TableId};

/// A table as log segments describe it.
pub(crate) struct LoggedTable {
    pub(crate) id: TableId,
    /// The body of the table's column list record.
    pub(crate) record: Vec<u8>,
}

impl LoggedTable {
    pub(crate) fn new(table: &Table) -> LoggedTable {
        let mut record = Vec::new();
        ColumnList::of(table).encode(&mut record);
        LoggedTable { id: table.id, record }
    }
}
