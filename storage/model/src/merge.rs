//! Last write wins.
//!
//! Two versions of a row merge cell by cell: the larger timestamp wins; on a tie a deletion wins over a value, an
//! expiring cell over a live one, then the larger local deletion time, then the larger value (memcmp), as Cassandra 5's
//! `Cells.reconcile`; what it leaves open (equal expiring cells with different times to live) goes to the smaller time
//! to live, the later write.
//!
//! Invariants: merging is commutative, associative and idempotent; nothing is allocated but the output.

use crate::row::{Cell, CellContent, Deletion, Liveness, RowBuilder, RowView};
use std::cmp::{Ordering, Reverse};

/// The winner of two cells of the same column and path.
pub fn reconcile<'a>(a: Cell<'a>, b: Cell<'a>) -> Cell<'a> {
    if wins(&b, &a) { b } else { a }
}

/// Whether `a` beats `b`; false if they are equal.
fn wins(a: &Cell<'_>, b: &Cell<'_>) -> bool {
    a.timestamp.cmp(&b.timestamp).then_with(|| strength(&a.content).cmp(&strength(&b.content))) == Ordering::Greater
}

/// What decides between cells of one timestamp, the stronger is larger: kind, local deletion time, value, time to live.
fn strength<'a>(content: &CellContent<'a>) -> (u8, i64, &'a [u8], Reverse<i32>) {
    match *content {
        CellContent::Live(value) => (0, 0, value, Reverse(0)),
        CellContent::Expiring { value, ttl, local_deletion_time } => (1, local_deletion_time, value, Reverse(ttl)),
        CellContent::Deleted { local_deletion_time } => (2, local_deletion_time, &[], Reverse(0)),
        CellContent::ColumnDeletion { local_deletion_time } => (3, local_deletion_time, &[], Reverse(0)),
    }
}

/// The liveness that wins: later timestamp, expiring before not, later end, smaller time to live.
fn reconcile_liveness(a: Option<Liveness>, b: Option<Liveness>) -> Option<Liveness> {
    let (Some(x), Some(y)) = (a, b) else {
        return a.or(b);
    };
    let strength = |l: &Liveness| (l.timestamp, l.expiry.map(|(ttl, end)| (end, Reverse(ttl))));
    Some(if strength(&y) > strength(&x) { y } else { x })
}

/// Copies the cells that no deletion shadows, in the order they are given.
struct Filter<'o> {
    out: RowBuilder<'o>,
    /// What shadows the whole row.
    row: Deletion,
    /// What shadows the cells of `column`.
    shadow: Deletion,
    column: Option<crate::ColumnId>,
}

impl<'o> Filter<'o> {
    /// Starts the output row: `outer` is the deletion of the partition or a range, `own` the row's.
    fn new(out: &'o mut Vec<u8>, liveness: Option<Liveness>, own: Deletion, outer: Deletion) -> Filter<'o> {
        let row = outer.max(own);
        let own = if row == outer { Deletion::LIVE } else { own };
        let liveness = liveness.filter(|liveness| !row.deletes(liveness.timestamp));
        Filter { out: RowBuilder::new(out, liveness, own), row, shadow: row, column: None }
    }

    fn cell(&mut self, cell: &Cell<'_>, encoded: &[u8]) {
        if self.column != Some(cell.column) {
            self.column = Some(cell.column);
            self.shadow = self.row;
        }
        if let CellContent::ColumnDeletion { local_deletion_time } = cell.content {
            let shadow = self.shadow.max(Deletion { timestamp: cell.timestamp, local_deletion_time });
            if shadow == self.shadow {
                return;
            }
            self.shadow = shadow;
        } else if self.shadow.deletes(cell.timestamp) {
            return;
        }
        self.out.encoded(encoded);
    }
}

/// Appends the merge of two versions of one row to `out`, without what `deletion` (of the partition or a range),
/// either row's own deletion and column deletions shadow. The result may be empty ([`RowView::is_empty`]).
pub fn merge_rows(a: RowView<'_>, b: RowView<'_>, deletion: Deletion, out: &mut Vec<u8>) {
    out.reserve(a.blob().len() + b.blob().len());
    let liveness = reconcile_liveness(a.liveness(), b.liveness());
    let mut filter = Filter::new(out, liveness, a.deletion().max(b.deletion()), deletion);
    let (mut a_cells, mut b_cells) = (a.cells(), b.cells());
    let (mut a_next, mut b_next) = (a_cells.next_encoded(), b_cells.next_encoded());
    loop {
        let (a_taken, b_taken) = match (&a_next, &b_next) {
            (None, None) => return,
            (Some((cell, encoded)), None) => {
                filter.cell(cell, encoded);
                (true, false)
            }
            (None, Some((cell, encoded))) => {
                filter.cell(cell, encoded);
                (false, true)
            }
            (Some((a_cell, a_encoded)), Some((b_cell, b_encoded))) => match a_cell.place().cmp(&b_cell.place()) {
                Ordering::Less => {
                    filter.cell(a_cell, a_encoded);
                    (true, false)
                }
                Ordering::Greater => {
                    filter.cell(b_cell, b_encoded);
                    (false, true)
                }
                Ordering::Equal => {
                    if wins(b_cell, a_cell) {
                        filter.cell(b_cell, b_encoded);
                    } else {
                        filter.cell(a_cell, a_encoded);
                    }
                    (true, true)
                }
            },
        };
        if a_taken {
            a_next = a_cells.next_encoded();
        }
        if b_taken {
            b_next = b_cells.next_encoded();
        }
    }
}

/// Appends `row` without what `deletion` and its own deletions shadow. Returns false, having appended nothing, if
/// nothing remains (no liveness, deletion or cell).
pub fn filter_row(row: RowView<'_>, deletion: Deletion, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut filter = Filter::new(out, row.liveness(), row.deletion(), deletion);
    let mut cells = row.cells();
    while let Some((cell, encoded)) = cells.next_encoded() {
        filter.cell(&cell, encoded);
    }
    if RowView::trusted(&out[start..]).is_empty() {
        out.truncate(start);
        return false;
    }
    true
}
