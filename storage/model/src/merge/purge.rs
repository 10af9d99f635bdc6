//! What a compaction leaves out: tombstones that shadow nothing any more, and cells of columns dropped since.
//!
//! A tombstone goes when its local deletion time is before `gc_before` and its timestamp is below that of everything in
//! the same partition that the merge does not see. A cell that has expired goes by the same rule, and otherwise becomes
//! the tombstone of the second it was written at, without its value; a liveness that has expired goes or stays as it
//! is.
//!
//! Source: Cassandra 5's `PurgeFunction`, `DeletionPurger` and `AbstractCell.purge`.
//!
//! Invariants: what is live at `now_in_seconds` stays, but for dropped columns; rows that nothing changes are not
//! copied.

use crate::key::Token;
use crate::row::{Cell, CellContent, Deletion, Liveness, RowBuilder, RowView};
use crate::schema::DroppedColumn;

/// The largest timestamp of a partition below which a tombstone may go.
type MaxPurgeable = Box<dyn FnMut(Token, &[u8]) -> i64>;

/// See the module.
pub struct Purge {
    now_in_seconds: i64,
    gc_before: i64,
    dropped: Vec<DroppedColumn>,
    max_purgeable: MaxPurgeable,
    /// What `max_purgeable` said of the current partition.
    limit: Option<i64>,
}

impl Purge {
    /// Purges tombstones from before the second `gc_before` of which `max_purgeable` allows it: it gives, for a
    /// partition, the timestamp that a tombstone must be below, and is asked at most once for each. Expiry is judged at
    /// `now_in_seconds`.
    pub fn new(
        now_in_seconds: i64,
        gc_before: i64,
        dropped: &[DroppedColumn],
        max_purgeable: impl FnMut(Token, &[u8]) -> i64 + 'static,
    ) -> Purge {
        let (dropped, max_purgeable) = (dropped.to_vec(), Box::new(max_purgeable));
        Purge { now_in_seconds, gc_before, dropped, max_purgeable, limit: None }
    }

    /// Leaves out cells of dropped columns, and keeps all tombstones and expired cells: what a flush does.
    pub fn dropped_columns(dropped: &[DroppedColumn]) -> Purge {
        Purge::new(i64::MIN, i64::MIN, dropped, |_, _| i64::MIN)
    }

    /// Another partition begins.
    pub(super) fn new_partition(&mut self) {
        self.limit = None;
    }

    /// What is left of a deletion.
    pub(super) fn deletion(&mut self, token: Token, key: &[u8], deletion: Deletion) -> Deletion {
        let goes = !deletion.is_live() && self.goes(token, key, deletion.timestamp, deletion.local_deletion_time);
        if goes { Deletion::LIVE } else { deletion }
    }

    fn goes(&mut self, token: Token, key: &[u8], timestamp: i64, local_deletion_time: i64) -> bool {
        if local_deletion_time >= self.gc_before {
            return false;
        }
        let limit = match self.limit {
            Some(limit) => limit,
            None => *self.limit.insert((self.max_purgeable)(token, key)),
        };
        timestamp < limit
    }

    fn is_dropped(&self, cell: &Cell<'_>) -> bool {
        let gone = |column: &DroppedColumn| column.id == cell.column && cell.timestamp <= column.dropped_at;
        self.dropped.iter().any(gone)
    }

    /// Whether a row may lose or change anything.
    fn touches(&self, row: RowView<'_>) -> bool {
        let expired = |liveness: Liveness| liveness.expiry.is_some_and(|(_, end)| end <= self.now_in_seconds);
        row.deletion().local_deletion_time < self.gc_before
            || row.liveness().is_some_and(expired)
            || row.cells().any(|cell| {
                self.is_dropped(&cell)
                    || match cell.content {
                        CellContent::Live(_) | CellContent::Counter(_) => false,
                        CellContent::Expiring { local_deletion_time, .. } => local_deletion_time <= self.now_in_seconds,
                        CellContent::Deleted { local_deletion_time }
                        | CellContent::ColumnDeletion { local_deletion_time } => local_deletion_time < self.gc_before,
                    }
            })
    }

    /// Puts what is left of a row into `out`, which may be an empty row; false, with `out` as it was, if that is all of
    /// it.
    pub(super) fn row(&mut self, token: Token, key: &[u8], row: RowView<'_>, out: &mut Vec<u8>) -> bool {
        if !self.touches(row) {
            return false;
        }
        let now = self.now_in_seconds;
        let liveness = row.liveness().filter(|liveness| match liveness.expiry {
            Some((_, end)) if end <= now => !self.goes(token, key, liveness.timestamp, end),
            _ => true,
        });
        let deletion = self.deletion(token, key, row.deletion());
        out.clear();
        let mut builder = RowBuilder::new(out, liveness, deletion);
        for cell in row.cells() {
            if let Some(cell) = self.cell(token, key, cell) {
                builder.cell(&cell);
            }
        }
        true
    }

    fn cell<'a>(&mut self, token: Token, key: &[u8], mut cell: Cell<'a>) -> Option<Cell<'a>> {
        if self.is_dropped(&cell) {
            return None;
        }
        if let CellContent::Expiring { ttl, local_deletion_time, .. } = cell.content
            && local_deletion_time <= self.now_in_seconds
        {
            if self.goes(token, key, cell.timestamp, local_deletion_time) {
                return None;
            }
            let written = local_deletion_time.saturating_sub(ttl.into());
            cell.content = CellContent::Deleted { local_deletion_time: written };
        }
        match cell.content {
            CellContent::Deleted { local_deletion_time } | CellContent::ColumnDeletion { local_deletion_time }
                if self.goes(token, key, cell.timestamp, local_deletion_time) =>
            {
                None
            }
            _ => Some(cell),
        }
    }
}
