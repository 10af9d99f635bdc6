//! The guardrails `collection_size` and `items_per_collection`. They are checked by flushes and compactions, which
//! see a collection as a whole even if its elements were written one by one.
//!
//! Only live elements count. The size is that of Cassandra's objects: the bytes, timestamp, time to live and deletion
//! time of each element, and always a deletion of the whole collection.

use crate::guards::logged_thresholds::{LoggedThresholds, Warning};
use model::mutation::Clustering;
use model::row::{Cell, CellContent, RowView};
use model::{ColumnId, Table, text};

/// Bytes that Cassandra counts for a cell in addition to its path and value: 8 for the timestamp, 4 for the time to
/// live, 8 for the deletion time.
const CELL_BYTES: u64 = 20;
/// Bytes that Cassandra counts for the deletion of a whole collection.
const DELETION_BYTES: u64 = 12;

/// The warnings about the collections of a row; elements that have expired at `now`, in seconds since 1970, do not
/// count.
pub(crate) fn told(
    thresholds: &LoggedThresholds,
    table: &Table,
    (key, clustering): (&[u8], Clustering<'_>),
    row: RowView<'_>,
    now: i64,
) -> Vec<Warning> {
    let mut collections: Vec<Collection> = Vec::new();
    for cell in row.cells() {
        let Some(bytes) = bytes_of(&cell, now) else { continue };
        match collections.last_mut() {
            Some(collection) if collection.column == cell.column => {
                collection.items += 1;
                collection.size += bytes;
            }
            _ => collections.push(Collection { column: cell.column, items: 1, size: DELETION_BYTES + bytes }),
        }
    }
    let row = || row_literal(table, key, clustering);
    collections.iter().flat_map(|collection| collection.told(thresholds, table, row)).collect()
}

/// Sums over the live elements of a row's column.
struct Collection {
    column: ColumnId,
    items: u64,
    size: u64,
}

impl Collection {
    /// The warnings about this collection. `row` gives the text of the row's primary key.
    fn told<R: Fn() -> String>(
        &self,
        thresholds: &LoggedThresholds,
        table: &Table,
        row: R,
    ) -> impl Iterator<Item = Warning> + use<R> {
        let column = table.column_by_id(self.column).filter(|column| column.cql_type.is_collection());
        let told = column.map(|column| {
            let named = || {
                let (name, row, table) = (&column.name, row(), table.full_name());
                format!("Detected collection {name} in row {row} in table {table}")
            };
            let (items, size) = (self.items, self.size);
            let sized = || format!("{} of size {size}", named());
            let counted = || format!("{} with {items} items", named());
            [
                thresholds.collection_size.told("collection_size", size, sized),
                thresholds.items_per_collection.told("items_per_collection", items, counted),
            ]
        });
        told.into_iter().flatten().flatten()
    }
}

/// The size of an element, or `None` if it is not a live element of a collection.
fn bytes_of(cell: &Cell<'_>, now: i64) -> Option<u64> {
    let path = cell.path?;
    let value = match cell.content {
        CellContent::Live(value) => value,
        CellContent::Expiring { value, local_deletion_time, .. } if now < local_deletion_time => value,
        _ => return None,
    };
    Some(path.len() as u64 + value.len() as u64 + CELL_BYTES)
}

/// A primary key as CQL writes it: `1`, or `(1, 'a')` if it has several columns.
fn row_literal(table: &Table, key: &[u8], clustering: Clustering<'_>) -> String {
    let partition = table.partition_key().iter().zip(table.key_values(key));
    let values = partition.chain(table.clustering().iter().zip(clustering.components()));
    let literals: Vec<String> = values.map(|(column, value)| text::to_literal(&column.cql_type, value)).collect();
    match literals.as_slice() {
        [alone] => alone.clone(),
        several => format!("({})", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::logged_thresholds::LoggedThreshold;
    use crate::guards::test_table;
    use model::mutation::push_clustering;
    use model::row::{Deletion, RowBuilder};
    use model::{ColumnKind, CqlType};

    fn table(clustering: bool) -> Table {
        let set = CqlType::Set { element: Box::new(CqlType::Text), frozen: false };
        let kind = if clustering { ColumnKind::Clustering } else { ColumnKind::Regular };
        test_table::table(&[
            ("k", ColumnKind::PartitionKey, CqlType::Text),
            ("c", kind, CqlType::Int),
            ("s", ColumnKind::Regular, set),
        ])
    }

    #[test]
    fn live_elements_are_counted_as_cassandra_does() {
        let mut blob = Vec::new();
        let mut row = RowBuilder::new(&mut blob, None, Deletion::LIVE);
        let expiring = |until| CellContent::Expiring { value: b"", ttl: 1, local_deletion_time: until };
        let cells = [
            (&b"aaa"[..], CellContent::Live(b"")),
            (b"bbb", expiring(101)),
            (b"ccc", expiring(100)),
            (b"ddd", CellContent::Deleted { local_deletion_time: 1 }),
            (b"eee", CellContent::Live(b"")),
        ];
        for (path, content) in cells {
            row.cell(&Cell { column: ColumnId(2), timestamp: 1, content, path: Some(path) });
        }
        let (size, items) =
            (LoggedThreshold { warn: Some(80), fail: None }, LoggedThreshold { warn: Some(1), fail: Some(2) });
        let thresholds =
            LoggedThresholds { collection_size: size, items_per_collection: items, ..LoggedThresholds::default() };
        let mut clustering = Vec::new();
        push_clustering(&mut clustering, &3i32.to_be_bytes());
        let found = |clustered: bool| {
            let clustering = Clustering(if clustered { &clustering } else { b"" });
            told(&thresholds, &table(clustered), (b"a'b", clustering), RowView::trusted(&blob), 100)
        };
        let text = |row: &str| {
            let size = format!(
                "Guardrail collection_size violated: Detected collection s in row {row} in table g.t of size 81, this \
                 exceeds the warning threshold of 80."
            );
            let items = format!(
                "Guardrail items_per_collection violated: Detected collection s in row {row} in table g.t with 3 items, \
                 this exceeds the failure threshold of 2."
            );
            vec![(false, size), (true, items)]
        };
        assert_eq!(found(false), text("'a''b'"));
        assert_eq!(found(true), text("('a''b', 3)"));
    }
}
