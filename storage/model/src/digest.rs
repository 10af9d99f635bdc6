//! Digests of what a read sees, by which replicas are compared without sending rows.
//!
//! Equal digests mean equal *contents*, whatever form of storage, order of rows or number of cores they come from. The
//! content of a command at its `now_in_seconds` is, of the partitions and slices that the read visited:
//! * each live row: its place, its liveness and its live cells with values, timestamps, times to live and expiry;
//! * the static cells, if the command wants them;
//! * whatever deleted data and must still win over it elsewhere: deletions of partitions, ranges, rows and columns,
//!   deleted and expired cells, each with its place and timestamp.
//!
//! Left out is what makes no difference to any later read:
//! * what a newer deletion shadows, or an older one behind a newer of the same reach;
//! * tombstones that compactions may purge: by default those of a second before `now_in_seconds` - `gc_grace_seconds`,
//!   else by what is known to be repaired ([`GcBefore`]). An expired cell
//!   is a tombstone of the second at which it was written, an expired liveness one of the second of its end;
//! * the second of a tombstone, and what a tombstone deletes;
//! * cells of dropped columns.
//!
//! Tombstones belong to the content because reads must not go back in time: of three replicas the first may have a
//! row's deletion, the second nothing and the third the row. Who reads the first two sees no row; were their digests
//! equal, who then reads the last two would see it again.
//!
//! A command that names rows and columns ([`ReadCommand::is_point`]) may leave sources unread. Its content is what such
//! a read knows: of a row with a live liveness that liveness, the cells of the named columns and, if one of these has
//! no cell, the newest deletion of the row; of any other row everything. If a deletion with a larger timestamp has an
//! earlier second than another of the same row, which clocks do not make, digests of such reads may differ although
//! contents are equal: that costs a comparison, never a result.
//!
//! Every row, deletion of a partition and deleted range has a hash of its own (xxh3, 128 bits) with the hash of the
//! partition's key in it, and the digest is their sum: so that cores and pages add up to the digest of the whole.
//!
//! Not covered: where a read ended. Reads that end at different places have different contents, or nothing between.

use crate::fragment::{Fragment, FragmentSink};
use crate::query::ReadCommand;
use crate::row::{Cell, CellContent, Deletion, Liveness, NO_TIMESTAMP, RowView};
use crate::schema::{ColumnId, Table};
use crate::tombstone_gc::GcBefore;
use std::ops::Add;
use xxhash_rust::xxh3::xxh3_128;

/// The digest of the content of a read, or of several reads of different rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Digest(u128);

impl Digest {
    /// Its bytes, as replicas send them.
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Half of it: what is compared where many digests travel.
    pub fn half(self) -> u64 {
        self.0 as u64
    }

    /// The digest with these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Digest {
        Digest(u128::from_le_bytes(bytes))
    }
}

impl Add for Digest {
    type Output = Digest;

    /// The digest of both contents, which have no row in common.
    fn add(self, other: Digest) -> Digest {
        Digest(self.0.wrapping_add(other.0))
    }
}

// What a hash is of.
const PARTITION_DELETION: u8 = 1;
const RANGE_DELETION: u8 = 2;
const STATIC_ROW: u8 = 3;
const ROW: u8 = 4;
const POINT: u8 = 5;

// What an item of a row is; a timestamp follows.
const LIVENESS: u8 = 1;
const EXPIRING_LIVENESS: u8 = 2;
const EXPIRED_LIVENESS: u8 = 3;
const ROW_DELETION: u8 = 4;
const CELL: u8 = 5;
const EXPIRING_CELL: u8 = 6;
const COUNTER: u8 = 7;
const DELETED_CELL: u8 = 8;
const COLUMN_DELETION: u8 = 9;
/// Added to the item of a cell that has a path.
const WITH_PATH: u8 = 0x80;

/// Bytes of a hash's input before what it is of: the partition's hash and the kind.
const HEAD_BYTES: usize = 17;

/// Bytes of an item that is a cell, before its path and its value: the item, its timestamp and its column.
const ITEM_BYTES: usize = 1 + 8 + size_of::<ColumnId>();

/// Makes the digest of the fragments of a read.
pub struct DigestSink<'t> {
    table: &'t Table,
    now_in_seconds: i64,
    /// Tombstones of an earlier second may be purged, in the partition under way.
    gc_before: i64,
    /// The same of all partitions.
    gc_before_of: GcBefore,
    reversed: bool,
    /// The columns of a command that names rows and columns.
    point: Option<&'t [ColumnId]>,
    digest: Digest,
    /// The partition under way: whether there is one, the hash of its key, its deletion.
    is_inside: bool,
    partition: [u8; 16],
    deletion: Deletion,
    ranges: DeletedRanges,
    /// The place of the last row or marker.
    place: Vec<u8>,
    /// Of a point: the newest deletion of its row by the partition or a range, and whether the row came.
    covering: Deletion,
    has_row: bool,
    /// The input of a hash.
    room: Vec<u8>,
}

/// The deleted ranges of a partition that count and are not hashed yet. Where slices touch, or where several sources
/// have markers at one place, a range may end and go on there.
#[derive(Default)]
struct DeletedRanges {
    /// The range in force: its timestamp, and where it began in read order.
    current: Option<(i64, Vec<u8>)>,
    /// The last range that ended: its timestamp, start and end.
    ended: Option<(i64, Vec<u8>, Vec<u8>)>,
}

impl<'t> DigestSink<'t> {
    /// A digest of no fragments so far of `command` on `table`.
    pub fn new(table: &'t Table, command: &'t ReadCommand) -> DigestSink<'t> {
        DigestSink {
            table,
            now_in_seconds: command.now_in_seconds,
            gc_before: i64::MIN,
            gc_before_of: table.options.gc_before(None, command.now_in_seconds),
            reversed: command.reversed,
            point: command.row_columns.as_deref().filter(|_| command.is_point()),
            digest: Digest::default(),
            is_inside: false,
            partition: [0; 16],
            deletion: Deletion::LIVE,
            ranges: DeletedRanges::default(),
            place: Vec::new(),
            covering: Deletion::LIVE,
            has_row: false,
            room: Vec::new(),
        }
    }

    /// The same on a node that knows what is repaired of the table.
    pub fn with_gc_before(self, gc_before: GcBefore) -> DigestSink<'t> {
        DigestSink { gc_before_of: gc_before, ..self }
    }

    /// The digest of a read that has ended.
    pub fn finish(mut self) -> Digest {
        self.leave_partition(false);
        self.digest
    }

    /// The digest of what came since the last call: of a partition, if called between two of them.
    pub fn take(&mut self) -> Digest {
        std::mem::take(&mut self.digest)
    }

    fn counts(&self, deletion: Deletion) -> bool {
        !deletion.is_live() && deletion.local_deletion_time >= self.gc_before
    }

    /// Makes room for the hash of a row at once: its items take little more than the row has in its blob.
    #[inline]
    fn reserve(&mut self, place: &[u8], row: RowView<'_>) {
        self.room.reserve(HEAD_BYTES + ITEM_BYTES + place.len() + 2 * row.blob().len());
    }

    /// Begins the input of a hash.
    #[inline]
    fn begin(&mut self, kind: u8) {
        self.room.clear();
        self.room.extend_from_slice(&self.partition);
        self.room.push(kind);
    }

    /// Adds the hash of the input.
    #[inline]
    fn end(&mut self) {
        self.digest = self.digest + Digest(xxh3_128(&self.room));
    }

    /// Ends the partition under way; one that is not whole ends at the last place.
    fn leave_partition(&mut self, is_whole: bool) {
        if !std::mem::take(&mut self.is_inside) {
            return;
        }
        if self.point.is_some() {
            let covering = self.covering;
            if !self.has_row && self.counts(covering) {
                self.begin(POINT);
                push_item(&mut self.room, ROW_DELETION, covering.timestamp);
                self.end();
            }
            return;
        }
        let place = std::mem::take(&mut self.place);
        self.end_range(if is_whole { &[] } else { &place });
        self.hash_ended_range();
        self.place = place;
    }

    fn marker(&mut self, place: &[u8], deletion: Deletion) {
        let is_newer = self.deletion.max(deletion) != self.deletion;
        let next = (is_newer && self.counts(deletion)).then_some(deletion.timestamp);
        if next == self.ranges.current.as_ref().map(|(timestamp, _)| *timestamp) {
            return;
        }
        self.end_range(place);
        let Some(timestamp) = next else { return };
        let start = match self.ranges.ended.take_if(|(ended, _, end)| *ended == timestamp && end == place) {
            Some((_, start, _)) => start,
            None => place.to_vec(),
        };
        self.ranges.current = Some((timestamp, start));
    }

    /// Ends the range in force, if there is one that is not empty.
    fn end_range(&mut self, place: &[u8]) {
        if let Some((timestamp, start)) = self.ranges.current.take().filter(|(_, start)| start != place) {
            self.hash_ended_range();
            self.ranges.ended = Some((timestamp, start, place.to_vec()));
        }
    }

    fn hash_ended_range(&mut self) {
        let Some((timestamp, start, end)) = self.ranges.ended.take() else { return };
        let (low, high) = if self.reversed { (end, start) } else { (start, end) };
        self.begin(RANGE_DELETION);
        push_bytes(&mut self.room, &low);
        push_bytes(&mut self.room, &high);
        self.room.extend_from_slice(&timestamp.to_le_bytes());
        self.end();
    }

    fn row(&mut self, kind: u8, place: &[u8], row: RowView<'_>, shadow: Deletion) {
        self.reserve(place, row);
        self.begin(kind);
        push_bytes(&mut self.room, place);
        let len = self.room.len();
        let own = row.deletion();
        let deletion = shadow.max(own);
        if deletion != shadow && self.counts(own) {
            push_item(&mut self.room, ROW_DELETION, own.timestamp);
        }
        self.liveness(row, deletion);
        self.cells(row, deletion, |_| true);
        if self.room.len() > len {
            self.end();
        }
    }

    /// Hashes a row of a command that names its columns.
    fn point(&mut self, row: RowView<'_>, columns: &[ColumnId]) {
        self.has_row = true;
        let deletion = self.covering.max(row.deletion());
        self.reserve(&[], row);
        self.begin(POINT);
        let is_live = self.liveness(row, deletion);
        if !is_live {
            self.cells(row, deletion, |_| true);
        }
        let lacks = |column: &ColumnId| {
            !row.cells().any(|cell| {
                cell.column == *column
                    && cell.path.is_none()
                    && !deletion.deletes(cell.timestamp)
                    && !self.table.is_dropped(cell.column, cell.timestamp)
            })
        };
        if is_live {
            self.cells(row, deletion, |column| columns.contains(&column));
        }
        if self.counts(deletion) && (!is_live || columns.iter().any(lacks)) {
            push_item(&mut self.room, ROW_DELETION, deletion.timestamp);
        }
        if self.room.len() > HEAD_BYTES {
            self.end();
        }
    }

    /// Adds the liveness to the input. Returns whether it is live.
    #[inline]
    fn liveness(&mut self, row: RowView<'_>, deletion: Deletion) -> bool {
        match row.liveness() {
            Some(Liveness { timestamp, .. }) if deletion.deletes(timestamp) => false,
            None => false,
            Some(Liveness { timestamp, expiry: None }) => {
                push_item(&mut self.room, LIVENESS, timestamp);
                true
            }
            Some(Liveness { timestamp, expiry: Some((ttl, end)) }) if self.now_in_seconds < end => {
                push_item(&mut self.room, EXPIRING_LIVENESS, timestamp);
                push_expiry(&mut self.room, ttl, end);
                true
            }
            Some(Liveness { timestamp, expiry: Some((_, end)) }) => {
                if end >= self.gc_before {
                    push_item(&mut self.room, EXPIRED_LIVENESS, timestamp);
                }
                false
            }
        }
    }

    /// Adds the cells of some columns to the input, without those that a deletion of the row shadows.
    fn cells(&mut self, row: RowView<'_>, deletion: Deletion, is_asked: impl Fn(ColumnId) -> bool) {
        // The deletion of the multi-cell column that the cells belong to.
        let mut column_deletion: (Option<ColumnId>, i64) = (None, NO_TIMESTAMP);
        for cell in row.cells() {
            if let CellContent::ColumnDeletion { local_deletion_time } = cell.content {
                let own = Deletion { timestamp: cell.timestamp, local_deletion_time };
                if deletion.max(own) == deletion {
                    continue;
                }
                column_deletion = (Some(cell.column), cell.timestamp);
                if self.counts(own) && !self.table.is_dropped(cell.column, cell.timestamp) && is_asked(cell.column) {
                    self.cell(&cell, COLUMN_DELETION, None);
                }
                continue;
            }
            let is_deleted = deletion.deletes(cell.timestamp)
                || column_deletion.0 == Some(cell.column) && cell.timestamp <= column_deletion.1;
            if is_deleted || !is_asked(cell.column) || self.table.is_dropped(cell.column, cell.timestamp) {
                continue;
            }
            match cell.content {
                CellContent::Live(value) => self.cell(&cell, CELL, Some(value)),
                CellContent::Counter(context) => self.cell(&cell, COUNTER, Some(context)),
                CellContent::Expiring { value, ttl, local_deletion_time }
                    if self.now_in_seconds < local_deletion_time =>
                {
                    self.cell(&cell, EXPIRING_CELL, Some(value));
                    push_expiry(&mut self.room, ttl, local_deletion_time);
                }
                CellContent::Expiring { ttl, local_deletion_time, .. }
                    if local_deletion_time.saturating_sub(ttl.into()) < self.gc_before => {}
                CellContent::Deleted { local_deletion_time } if local_deletion_time < self.gc_before => {}
                CellContent::Expiring { .. } | CellContent::Deleted { .. } => self.cell(&cell, DELETED_CELL, None),
                CellContent::ColumnDeletion { .. } => {}
            }
        }
    }

    #[inline]
    fn cell(&mut self, cell: &Cell<'_>, item: u8, value: Option<&[u8]>) {
        let mut head = [0; ITEM_BYTES];
        head[0] = if cell.path.is_some() { item | WITH_PATH } else { item };
        head[1..9].copy_from_slice(&cell.timestamp.to_le_bytes());
        head[9..].copy_from_slice(&cell.column.0.to_le_bytes());
        self.room.extend_from_slice(&head);
        for bytes in [cell.path, value].into_iter().flatten() {
            push_bytes(&mut self.room, bytes);
        }
    }
}

impl FragmentSink for DigestSink<'_> {
    fn fragment(&mut self, fragment: Fragment<'_>, shadow: Deletion) {
        match (fragment, self.point) {
            (Fragment::PartitionStart { token, key, deletion }, point) => {
                self.gc_before = self.gc_before_of.at(token, key);
                self.partition = xxh3_128(key).to_le_bytes();
                (self.is_inside, self.deletion) = (true, deletion);
                (self.covering, self.has_row) = (deletion, false);
                if point.is_none() && self.counts(deletion) {
                    self.begin(PARTITION_DELETION);
                    self.room.extend_from_slice(&deletion.timestamp.to_le_bytes());
                    self.end();
                }
            }
            (Fragment::StaticRow { row }, _) => self.row(STATIC_ROW, &[], row, shadow),
            (Fragment::Row { row, .. }, Some(columns)) => {
                self.covering = self.covering.max(shadow);
                self.point(row, columns);
            }
            (Fragment::RangeMarker { deletion, .. }, Some(_)) => self.covering = self.covering.max(deletion),
            (Fragment::Row { comparable, row, .. }, None) => {
                if self.ranges.current.is_some() {
                    self.set_place(comparable);
                }
                self.row(ROW, comparable, row, shadow);
            }
            (Fragment::RangeMarker { comparable, deletion, .. }, None) => {
                self.marker(comparable, deletion);
                self.set_place(comparable);
            }
            (Fragment::PartitionEnd, _) => self.leave_partition(true),
        }
    }

    fn cut(&mut self, _: &[u8]) {
        self.leave_partition(false);
    }
}

impl DigestSink<'_> {
    fn set_place(&mut self, place: &[u8]) {
        self.place.clear();
        self.place.extend_from_slice(place);
    }
}

#[inline]
fn push_item(out: &mut Vec<u8>, item: u8, timestamp: i64) {
    out.push(item);
    out.extend_from_slice(&timestamp.to_le_bytes());
}

#[inline]
fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn push_expiry(out: &mut Vec<u8>, ttl: i32, end: i64) {
    out.extend_from_slice(&ttl.to_le_bytes());
    out.extend_from_slice(&end.to_le_bytes());
}
