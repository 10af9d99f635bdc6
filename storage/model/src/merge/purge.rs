//! Purging in compactions: drops tombstones that shadow nothing any more, and cells of dropped columns.
//!
//! A tombstone is dropped when its local deletion time is before `gc_before` and its timestamp is below that of
//! everything in the same partition that the merge does not see. An expired cell is dropped by the same rule; otherwise
//! it becomes a tombstone, without its value, of the second at which it was written. An expired liveness is dropped or
//! kept unchanged.
//!
//! Source: Cassandra 5's `PurgeFunction`, `DeletionPurger` and `AbstractCell.purge`.
//!
//! Invariants: what is live at `now_in_seconds` stays, except in dropped columns; rows that do not change are not
//! copied.

use crate::row::{Cell, CellContent, Deletion, Liveness, RowBuilder, RowView};
use crate::schema::DroppedColumn;
use crate::token::Token;
use crate::tombstone_gc::GcBefore;

/// Gives the timestamp below which a tombstone of this partition may be dropped.
type MaxPurgeable = Box<dyn FnMut(Token, &[u8]) -> i64>;

/// Decides what a compaction drops; see the module's documentation.
pub struct Purge {
    now_in_seconds: i64,
    gc_before: GcBefore,
    dropped: Vec<DroppedColumn>,
    max_purgeable: MaxPurgeable,
    /// What `gc_before` says of the current partition, once asked.
    before: Option<i64>,
    /// The answer of `max_purgeable` for the current partition, once asked.
    limit: Option<i64>,
}

impl Purge {
    /// Drops tombstones older than the second of `gc_before` if `max_purgeable` allows it: called at most once per
    /// partition, it gives the timestamp that a tombstone must be below. Expiry is judged at `now_in_seconds`.
    pub fn new(
        now_in_seconds: i64,
        gc_before: GcBefore,
        dropped: &[DroppedColumn],
        max_purgeable: impl FnMut(Token, &[u8]) -> i64 + 'static,
    ) -> Purge {
        let (dropped, max_purgeable) = (dropped.to_vec(), Box::new(max_purgeable));
        Purge { now_in_seconds, gc_before, dropped, max_purgeable, before: None, limit: None }
    }

    /// Drops cells of dropped columns only, and keeps all tombstones and expired cells: for flushes.
    pub fn dropped_columns(dropped: &[DroppedColumn]) -> Purge {
        Purge::new(i64::MIN, GcBefore::At(i64::MIN), dropped, |_, _| i64::MIN)
    }

    /// Starts a partition.
    pub(super) fn new_partition(&mut self) {
        (self.before, self.limit) = (None, None);
    }

    /// Tombstones of an earlier second may be dropped.
    fn before(&mut self, token: Token, key: &[u8]) -> i64 {
        match self.before {
            Some(before) => before,
            None => *self.before.insert(self.gc_before.at(token, key)),
        }
    }

    /// The deletion, or [`Deletion::LIVE`] if it is dropped.
    pub(super) fn deletion(&mut self, token: Token, key: &[u8], deletion: Deletion) -> Deletion {
        let purged =
            !deletion.is_live() && self.is_purgeable(token, key, deletion.timestamp, deletion.local_deletion_time);
        if purged { Deletion::LIVE } else { deletion }
    }

    fn is_purgeable(&mut self, token: Token, key: &[u8], timestamp: i64, local_deletion_time: i64) -> bool {
        if local_deletion_time >= self.before(token, key) {
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

    /// Whether purging may change a row.
    fn may_change(&mut self, token: Token, key: &[u8], row: RowView<'_>) -> bool {
        let gc_before = self.before(token, key);
        let expired = |liveness: Liveness| liveness.expiry.is_some_and(|(_, end)| end <= self.now_in_seconds);
        row.deletion().local_deletion_time < gc_before
            || row.liveness().is_some_and(expired)
            || row.cells().any(|cell| {
                self.is_dropped(&cell)
                    || match cell.content {
                        CellContent::Live(_) | CellContent::Counter(_) => false,
                        CellContent::Expiring { local_deletion_time, .. } => local_deletion_time <= self.now_in_seconds,
                        CellContent::Deleted { local_deletion_time }
                        | CellContent::ColumnDeletion { local_deletion_time } => local_deletion_time < gc_before,
                    }
            })
    }

    /// Writes the purged row to `out`; it may be empty. Returns false and leaves `out` unchanged if nothing changes.
    pub(super) fn row(&mut self, token: Token, key: &[u8], row: RowView<'_>, out: &mut Vec<u8>) -> bool {
        if !self.may_change(token, key, row) {
            return false;
        }
        let now = self.now_in_seconds;
        let liveness = row.liveness().filter(|liveness| match liveness.expiry {
            Some((_, end)) if end <= now => !self.is_purgeable(token, key, liveness.timestamp, end),
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
            if self.is_purgeable(token, key, cell.timestamp, local_deletion_time) {
                return None;
            }
            let written = local_deletion_time.saturating_sub(ttl.into());
            cell.content = CellContent::Deleted { local_deletion_time: written };
        }
        match cell.content {
            CellContent::Deleted { local_deletion_time } | CellContent::ColumnDeletion { local_deletion_time }
                if self.is_purgeable(token, key, cell.timestamp, local_deletion_time) =>
            {
                None
            }
            _ => Some(cell),
        }
    }
}
