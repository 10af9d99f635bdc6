//! Reads the fragments of one partition of a memtable, slice by slice, in either direction.
//!
//! Invariants: rows are given as they are stored; the reader leaves out what the partition's deletion and range
//! tombstones shadow. A range that is opened in a slice is closed by the slice's end; no two markers stand at the
//! same position.

use super::arena::Arena;
use super::partition::Partition;
use super::rows::{RowEntry, RowIter};
use super::tombstones::{Bound, RangeTombstone};
use model::fragment::Fragment;
use model::mutation::Clustering;
use model::query::Slice;
use model::row::{Deletion, RowView};

/// How many rows ahead the memory of rows is prefetched.
const PREFETCH_ROWS: usize = 4;

/// A cursor over one partition of a memtable.
pub struct PartitionCursor<'a> {
    arena: &'a Arena,
    partition: &'a Partition,
    /// The slices to read, in read order.
    slices: SliceOrder<'a>,
    reversed: bool,
    /// Rows at or before this comparable form, in read order, are left out.
    after: Option<&'a [u8]>,
    phase: Phase,
    /// The slice that is being read, if any.
    slice: Option<InSlice<'a>>,
}

/// What a cursor gives next.
#[derive(Clone, Copy)]
enum Phase {
    Start,
    Static,
    Slices,
    Done,
}

struct InSlice<'a> {
    slice: &'a Slice,
    rows: RowIter<'a>,
    next_row: Option<&'a RowEntry>,
    /// The next range tombstone in read order that overlaps the slice.
    tombstone: Option<RangeTombstone<'a>>,
    /// Whether the marker that opens `tombstone` was given.
    open: bool,
}

struct SliceOrder<'a> {
    slices: &'a [Slice],
    reversed: bool,
}

impl<'a> SliceOrder<'a> {
    fn next(&mut self) -> Option<&'a Slice> {
        let (slice, rest) = if self.reversed { self.slices.split_last()? } else { self.slices.split_first()? };
        self.slices = rest;
        Some(slice)
    }
}

impl<'a> PartitionCursor<'a> {
    /// A cursor over the rows of `slices` (in clustering order, not overlapping) that come after `after` in read
    /// order.
    pub fn new(
        arena: &'a Arena,
        partition: &'a Partition,
        slices: &'a [Slice],
        reversed: bool,
        after: Option<&'a [u8]>,
    ) -> PartitionCursor<'a> {
        let slices = SliceOrder { slices, reversed };
        PartitionCursor { arena, partition, slices, reversed, after, phase: Phase::Start, slice: None }
    }

    /// Opens the next slice that holds anything after the resume point. Returns whether there is one. The slice is
    /// large and therefore made where it stays.
    fn enter_slice(&mut self) -> bool {
        loop {
            let Some(slice) = self.slices.next() else { return false };
            let end = (!slice.end.is_empty()).then_some(&*slice.end);
            let rows = &self.partition.rows;
            let rows = if self.reversed {
                let end = match (self.after, end) {
                    (Some(after), _) if after < &*slice.start => continue,
                    (Some(after), Some(end)) => Some(after.min(end)),
                    (after, end) => after.or(end),
                };
                rows.descend(self.arena, end)
            } else {
                match self.after {
                    Some(after) if end.is_some_and(|end| after >= end) => continue,
                    Some(after) if after >= &*slice.start => rows.ascend(self.arena, after, true),
                    _ => rows.ascend(self.arena, &slice.start, false),
                }
            };
            let entered = self.slice.insert(InSlice { slice, rows, next_row: None, tombstone: None, open: false });
            entered.next_row = entered.rows.next().filter(|row| slice.contains(row.key.comparable(self.arena)));
            entered.tombstone = self.partition.tombstones.as_deref().and_then(|tombstones| {
                let range = if self.reversed {
                    tombstones.last_starting_before(end)
                } else {
                    tombstones.first_ending_after(&slice.start)
                };
                range.filter(|range| reaches(range, slice))
            });
            return true;
        }
    }
}

fn marker<'a>((comparable, clustering): (&'a [u8], Clustering<'a>), deletion: Deletion) -> Fragment<'a> {
    Fragment::RangeMarker { clustering, comparable, deletion }
}

/// Whether a range tombstone overlaps a slice.
fn reaches(range: &RangeTombstone<'_>, slice: &Slice) -> bool {
    range.end.comparable() > &*slice.start && (slice.end.is_empty() || range.start.comparable() < &*slice.end)
}

impl<'a> InSlice<'a> {
    fn step(&mut self, partition: &'a Partition, arena: &'a Arena, reversed: bool) -> Option<Fragment<'a>> {
        if let Some(range) = self.tombstone {
            let row = self.next_row.map(|row| row.key.comparable(arena));
            // Markers stand at the bounds of the range cut to the slice. A bound taken from the slice has no
            // clustering values.
            let whole = |bound: &'a Bound| (bound.comparable(), bound.prefix());
            let cut = |bound: &'a [u8]| (bound, Clustering(&[]));
            let (mut start, mut end) = (whole(range.start), whole(range.end));
            if start.0 < &*self.slice.start {
                start = cut(&self.slice.start);
            }
            if !self.slice.end.is_empty() && end.0 > &*self.slice.end {
                end = cut(&self.slice.end);
            }
            let (opens_at, closes_at) = if reversed { (end, start) } else { (start, end) };
            let comes_first = |bound: &[u8]| match row {
                None => true,
                // A tombstone's bound never equals a row's form, but a slice's bound may. The marker then stands in
                // front of that row in clustering order.
                Some(row) if reversed => bound > row,
                Some(row) => bound <= row,
            };
            if !self.open && comes_first(opens_at.0) {
                self.open = true;
                return Some(marker(opens_at, range.deletion));
            }
            if self.open && comes_first(closes_at.0) {
                let next = partition.tombstones.as_deref().and_then(|tombstones| {
                    if reversed {
                        tombstones.last_starting_before(Some(range.start.comparable()))
                    } else {
                        tombstones.first_ending_after(range.end.comparable())
                    }
                });
                self.tombstone = next.filter(|range| reaches(range, self.slice));
                // Where two ranges touch, one marker closes the first and opens the second.
                let touches = |next: &RangeTombstone<'a>| {
                    if reversed { next.end == range.start } else { next.start == range.end }
                };
                let opened = self.tombstone.filter(touches).map(|next| next.deletion);
                self.open = opened.is_some();
                return Some(marker(closes_at, opened.unwrap_or(Deletion::LIVE)));
            }
        }
        let row = self.next_row?;
        let comparable = row.key.comparable(arena);
        // Rows lie in the arena as they came, so that those of a slice may be far from each other.
        if let Some(later) = self.rows.later(PREFETCH_ROWS) {
            later.prefetch(arena);
        }
        self.next_row = self.rows.next().filter(|row| self.slice.contains(row.key.comparable(arena)));
        Some(Fragment::Row {
            clustering: Clustering(row.key.clustering(arena)),
            comparable,
            row: RowView::trusted(arena.get(row.blob)),
        })
    }
}

impl<'a> PartitionCursor<'a> {
    /// The next fragment, or `None` at the end.
    pub fn next_fragment(&mut self) -> Option<Fragment<'a>> {
        loop {
            match self.phase {
                Phase::Start => {
                    self.phase = Phase::Static;
                    let partition = self.partition;
                    return Some(Fragment::PartitionStart {
                        token: partition.token,
                        key: partition.key(self.arena),
                        deletion: partition.deletion,
                    });
                }
                Phase::Static => {
                    self.phase = Phase::Slices;
                    if let Some(row) = self.partition.static_row(self.arena) {
                        return Some(Fragment::StaticRow { row });
                    }
                }
                Phase::Slices => {
                    if let Some(slice) = &mut self.slice
                        && let Some(fragment) = slice.step(self.partition, self.arena, self.reversed)
                    {
                        return Some(fragment);
                    }
                    if !self.enter_slice() {
                        self.phase = Phase::Done;
                        return Some(Fragment::PartitionEnd);
                    }
                }
                Phase::Done => return None,
            }
        }
    }
}
