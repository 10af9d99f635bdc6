//! Merging two versions of a row: the last write wins.
//!
//! Two versions of a row merge cell by cell: the larger timestamp wins; on a tie a deletion beats a value and an
//! expiring cell a live one, then the larger local deletion time wins, then the larger value (memcmp), as in Cassandra
//! 5's `Cells.reconcile`. Of equal expiring cells with different times to live, which Cassandra leaves open, the
//! smaller time to live wins, because it was written later.
//!
//! Counters do not replace each other: the contexts of two counters that no deletion shadows merge, with the larger
//! timestamp, and a deleted cell wins whatever the timestamps, as in Cassandra 5's `Cells.resolveCounter`.
//!
//! Invariants: merging is commutative, associative and idempotent, except for counters: local shards of one node add
//! up, and a deletion of the row must be known before counters merge, or what it deletes stays in their sum. Whoever
//! merges more than two rows starts with the one with the newest deletion. Nothing is allocated but the output.

use crate::counter;
use crate::row::{Cell, CellContent, Cells, Deletion, Liveness, PlainCell, RowBuilder, RowView};
use crate::schema::ColumnId;
use std::cmp::{Ordering, Reverse};
use std::ops::Range;

/// The winner of two cells of the same column and path, neither of which is a counter.
pub fn reconcile<'a>(a: Cell<'a>, b: Cell<'a>) -> Cell<'a> {
    if wins(&b, &a) { b } else { a }
}

/// Whether `a` beats `b`; false if they are equal.
fn wins(a: &Cell<'_>, b: &Cell<'_>) -> bool {
    a.timestamp.cmp(&b.timestamp).then_with(|| strength(&a.content).cmp(&strength(&b.content))) == Ordering::Greater
}

/// The sort key of cells with equal timestamps, the largest of which wins: kind, local deletion time, value, time to
/// live.
fn strength<'a>(content: &CellContent<'a>) -> (u8, i64, &'a [u8], Reverse<i32>) {
    match *content {
        CellContent::Live(value) | CellContent::Counter(value) => (0, 0, value, Reverse(0)),
        CellContent::Expiring { value, ttl, local_deletion_time } => (1, local_deletion_time, value, Reverse(ttl)),
        CellContent::Deleted { local_deletion_time } => (2, local_deletion_time, &[], Reverse(0)),
        CellContent::ColumnDeletion { local_deletion_time } => (3, local_deletion_time, &[], Reverse(0)),
    }
}

/// The winning liveness: the later timestamp, expiring before not expiring, the later end, the smaller time to live.
fn reconcile_liveness(a: Option<Liveness>, b: Option<Liveness>) -> Option<Liveness> {
    let (Some(x), Some(y)) = (a, b) else {
        return a.or(b);
    };
    let strength = |l: &Liveness| (l.timestamp, l.expiry.map(|(ttl, end)| (end, Reverse(ttl))));
    Some(if strength(&y) > strength(&x) { y } else { x })
}

/// Reads the cells of a row together with their positions in its blob.
struct Source<'a> {
    blob: &'a [u8],
    cells: Cells<'a>,
    next: Option<Cell<'a>>,
    /// Offset of the bytes of `next`, which end where the rest of `cells` begins.
    start: usize,
}

impl<'a> Source<'a> {
    /// The cells of a row from `cells` on.
    fn from(row: RowView<'a>, cells: Cells<'a>) -> Source<'a> {
        let mut source = Source { blob: row.blob(), cells, next: None, start: 0 };
        source.advance();
        source
    }

    fn end(&self) -> usize {
        self.blob.len() - self.cells.rest().len()
    }

    #[inline]
    fn advance(&mut self) {
        self.start = self.end();
        self.next = self.cells.next();
    }
}

/// Copies the cells that no deletion shadows, in the order in which they come. Adjacent cells of one blob are copied in
/// one piece.
struct Filter<'o, 'a> {
    out: RowBuilder<'o>,
    /// The deletion that applies to the whole row.
    row: Deletion,
    /// The deletion that applies to the cells of `column`.
    shadow: Deletion,
    column: Option<ColumnId>,
    /// The blob whose range `pending` has yet to be copied.
    blob: &'a [u8],
    pending: Range<usize>,
}

impl<'o, 'a> Filter<'o, 'a> {
    /// Starts the output row. `outer` is the deletion of the partition or a range, `own` that of the row.
    fn new(out: &'o mut Vec<u8>, liveness: Option<Liveness>, own: Deletion, outer: Deletion) -> Filter<'o, 'a> {
        let row = outer.max(own);
        let own = if row == outer { Deletion::LIVE } else { own };
        let liveness = liveness.filter(|liveness| !row.deletes(liveness.timestamp));
        Filter { out: RowBuilder::new(out, liveness, own), row, shadow: row, column: None, blob: &[], pending: 0..0 }
    }

    /// Takes the next cell of a source, which must have one. The caller advances the source.
    #[inline]
    fn take(&mut self, source: &Source<'a>) {
        if source.next.as_ref().is_some_and(|cell| self.keeps(cell)) {
            self.copy(source.blob, source.start..source.end());
        }
    }

    /// Takes a cell of its own column, which is the next of `cells` in a row.
    #[inline]
    fn take_plain(&mut self, row: RowView<'a>, cells: &Cells<'a>, cell: &PlainCell) {
        if !self.row.deletes(cell.timestamp) {
            let start = row.blob().len() - cells.rest().len();
            self.copy(row.blob(), start..start + cell.bytes);
        }
    }

    #[inline]
    fn copy(&mut self, blob: &'a [u8], range: Range<usize>) {
        if self.pending.end == range.start && std::ptr::eq(self.blob, blob) {
            self.pending.end = range.end;
        } else {
            self.flush();
            (self.blob, self.pending) = (blob, range);
        }
    }

    #[inline]
    fn keeps(&mut self, cell: &Cell<'_>) -> bool {
        if self.column != Some(cell.column) {
            self.column = Some(cell.column);
            self.shadow = self.row;
        }
        if let CellContent::ColumnDeletion { local_deletion_time } = cell.content {
            let before = self.shadow;
            self.shadow = before.max(Deletion { timestamp: cell.timestamp, local_deletion_time });
            return self.shadow != before;
        }
        !self.shadow.deletes(cell.timestamp)
    }

    /// Takes the next cells of two sources, which have the same column and path and at least one of which is a counter.
    #[cold]
    fn take_counter(&mut self, a: &Source<'a>, b: &Source<'a>) {
        let (Some(left), Some(right)) = (a.next, b.next) else { return };
        match (self.keeps(&left), self.keeps(&right)) {
            (false, false) => {}
            (true, false) => self.take(a),
            (false, true) => self.take(b),
            (true, true) => match (left.content, right.content) {
                (CellContent::Counter(own), CellContent::Counter(other)) => {
                    self.flush();
                    self.pending = 0..0;
                    let timestamp = left.timestamp.max(right.timestamp);
                    self.out.counter(left.column, timestamp, |out| counter::merge(own, other, out));
                }
                (CellContent::Counter(_), CellContent::Deleted { .. }) => self.take(b),
                (CellContent::Deleted { .. }, CellContent::Counter(_)) => self.take(a),
                // The column had another type when one of the sources was written.
                _ => self.take(if wins(&right, &left) { b } else { a }),
            },
        }
    }

    fn flush(&mut self) {
        self.out.encoded(&self.blob[self.pending.clone()]);
    }
}

/// Appends the merge of two versions of a row to `out`, without the cells that `deletion` (of the partition or a
/// range), either row's own deletion, or column deletions shadow. The result may be empty ([`RowView::is_empty`]).
pub fn merge_rows(a: RowView<'_>, b: RowView<'_>, deletion: Deletion, out: &mut Vec<u8>) {
    out.reserve(a.blob().len() + b.blob().len());
    let liveness = reconcile_liveness(a.liveness(), b.liveness());
    let mut filter = Filter::new(out, liveness, a.deletion().max(b.deletion()), deletion);
    let (mut left, mut right) = (a.cells(), b.cells());
    // Most rows are written once more with the same columns: values that replace values need no decoding.
    while let (Some(own), Some(other)) = (left.peek_plain(), right.peek_plain())
        && own.column == other.column
        && own.timestamp != other.timestamp
    {
        match own.timestamp > other.timestamp {
            true => filter.take_plain(a, &left, &own),
            false => filter.take_plain(b, &right, &other),
        }
        left.skip_plain(&own);
        right.skip_plain(&other);
    }
    let (mut a, mut b) = (Source::from(a, left), Source::from(b, right));
    loop {
        let order = match (&a.next, &b.next) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.sort_key().cmp(&b.sort_key()),
        };
        match order {
            Ordering::Less => filter.take(&a),
            Ordering::Greater => filter.take(&b),
            Ordering::Equal => match (a.next.map(|cell| cell.content), b.next.map(|cell| cell.content)) {
                (Some(CellContent::Counter(_)), _) | (_, Some(CellContent::Counter(_))) => filter.take_counter(&a, &b),
                _ => {
                    let b_wins = a.next.zip(b.next).is_some_and(|(a, b)| wins(&b, &a));
                    filter.take(if b_wins { &b } else { &a });
                }
            },
        }
        if order.is_le() {
            a.advance();
        }
        if order.is_ge() {
            b.advance();
        }
    }
    filter.flush();
}

/// Appends `row` without what `deletion` and its own deletions shadow. Returns false, with nothing appended, if neither
/// liveness, deletion nor cells remain.
pub fn filter_row(row: RowView<'_>, deletion: Deletion, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut filter = Filter::new(out, row.liveness(), row.deletion(), deletion);
    let mut source = Source::from(row, row.cells());
    while source.next.is_some() {
        filter.take(&source);
        source.advance();
    }
    filter.flush();
    if RowView::trusted(&out[start..]).is_empty() {
        out.truncate(start);
        return false;
    }
    true
}
