//! Last write wins.
//!
//! Two versions of a row merge cell by cell: the larger timestamp wins; on a tie a deletion wins over a value, an
//! expiring cell over a live one, then the larger local deletion time, then the larger value (memcmp), as Cassandra 5's
//! `Cells.reconcile`.

use crate::row::{Cell, Deletion, RowView};

/// The winner of two cells of the same column and path.
pub fn reconcile<'a>(a: Cell<'a>, b: Cell<'a>) -> Cell<'a> {
    let _ = (a, b);
    todo!()
}

/// Appends the merge of two versions of one row to `out`, without what `deletion` (of the partition or a range),
/// either row's own deletion and column deletions shadow.
pub fn merge_rows(a: RowView<'_>, b: RowView<'_>, deletion: Deletion, out: &mut Vec<u8>) {
    let _ = (a, b, deletion, out);
    todo!()
}

/// Appends `row` without what `deletion` and its own deletions shadow. Returns false, having appended nothing, if
/// nothing remains (no liveness, deletion or cell).
pub fn filter_row(row: RowView<'_>, deletion: Deletion, out: &mut Vec<u8>) -> bool {
    let _ = (row, deletion, out);
    todo!()
}
