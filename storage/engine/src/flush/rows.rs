//! Writes the rows of a memtable that takes no more writes into an SSTable.
//!
//! Invariants: the memtable is borrowed for one poll at a time, in which a stretch of rows is read; rows and cells
//! that a deletion of their partition or range shadows are left out.

use super::Flusher;
use crate::commitlog::position::LogPosition;
use crate::error::Error;
use crate::memtable::Memtable;
use crate::memtable::cursor::PartitionCursor;
use crate::memtable::partition::Partition;
use crate::memtable::partitions::From;
use crate::sstables::retained_columns::RetainedColumns;
use crate::sstables::sstable_writer::SstableWriter;
use model::fragment::Fragment;
use model::merge::filter_row;
use model::query::Slice;
use model::row::{Deletion, RowView};
use model::{DecoratedKey, Table};
use runtime::HashSet;
use sstable::statistics::EncodingStats;
use sstable::{Component, Descriptor};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Rows that are read in one poll.
const STRETCH_ROWS: usize = 256;

impl Flusher {
    /// Writes a memtable as a durable SSTable and returns its components; `None` if nothing in the memtable has to be
    /// kept. `intervals` are the parts of the log whose records the memtable holds; `set_apart` is the incremental
    /// repair that the rows are set apart for, if it is one.
    pub(crate) async fn write_rows(
        &self,
        memtable: &Rc<Memtable>,
        table: &Arc<Table>,
        directory: &Path,
        descriptor: &Descriptor,
        intervals: Vec<(LogPosition, LogPosition)>,
        set_apart: Option<[u8; 16]>,
    ) -> Result<Option<HashSet<Component>>, Error> {
        let (mut stats, mut kept) = (EncodingStats::default(), RetainedColumns::of(table));
        let mut rows = MemtableRows::new(memtable);
        while rows.stretch(|fragment| {
            observe(&mut stats, fragment);
            if let Fragment::StaticRow { row } | Fragment::Row { row, .. } = fragment {
                kept.row(*row);
            }
            Ok(true)
        })? {
            runtime::yield_if_needed().await;
        }
        let mut options = self.files.flush_options(table, stats)?;
        kept.keep(&mut options.header);
        options.expected_partitions = memtable.read().partitions.len() as u64;
        options.log_intervals = intervals.into_iter().map(|(lower, upper)| (lower.into(), upper.into())).collect();
        options.pending_repair = set_apart;
        let mut writer = SstableWriter::new(&self.files, directory, descriptor.clone(), table, options);
        let mut rows = MemtableRows::new(memtable);
        let mut more = true;
        while more {
            self.weigh();
            let mut is_full = false;
            more = rows.stretch(|fragment| {
                is_full = writer.fragment(fragment);
                Ok(!is_full)
            })?;
            if is_full {
                writer.take().await?;
            }
            runtime::yield_if_needed().await;
        }
        writer.close().await
    }
}

fn observe(stats: &mut EncodingStats, fragment: &Fragment<'_>) {
    match fragment {
        Fragment::PartitionStart { deletion, .. } | Fragment::RangeMarker { deletion, .. } => {
            stats.add_deletion(*deletion)
        }
        Fragment::StaticRow { row } | Fragment::Row { row, .. } => stats.add_row(*row),
        Fragment::PartitionEnd => {}
    }
}

/// Reads a memtable's fragments in stretches of at most [`STRETCH_ROWS`] rows.
struct MemtableRows<'m> {
    memtable: &'m Rc<Memtable>,
    /// The partition that was read last, and where to resume in it if it is not finished.
    at: Option<(DecoratedKey, Option<ResumePoint>)>,
    blob: Vec<u8>,
}

struct ResumePoint {
    /// The comparable form of the last row or marker that was read.
    last: Box<[u8]>,
    /// The range deletion in force at `last`.
    open: Deletion,
}

impl<'m> MemtableRows<'m> {
    fn new(memtable: &'m Rc<Memtable>) -> MemtableRows<'m> {
        MemtableRows { memtable, at: None, blob: Vec::new() }
    }

    /// Gives fragments to `take` until that returns `false` or the stretch is over. Returns whether there are more.
    fn stretch(&mut self, mut take: impl FnMut(&Fragment<'_>) -> Result<bool, Error>) -> Result<bool, Error> {
        let contents = self.memtable.read();
        let at = self.at.take();
        let (from, mut within) = match &at {
            None => (From::Start, None),
            Some((key, Some(within))) => (From::At(key.token.prefix(), &key.key), Some(within)),
            Some((key, None)) => (From::After(key.token.prefix(), &key.key), None),
        };
        let mut left = STRETCH_ROWS;
        for partition in contents.partitions.range(&contents.arena, from, u64::MAX) {
            let (slice, after) = match within {
                None => (Slice::all(), None),
                Some(within) => (Slice { start: within.last.clone(), end: Box::default() }, Some(&*within.last)),
            };
            let mut open = within.take().map_or(Deletion::LIVE, |within| within.open);
            let slices = [slice];
            let mut cursor = PartitionCursor::new(&contents.arena, partition, &slices, false, after);
            let mut fragments = std::iter::from_fn(|| cursor.next_fragment()).peekable();
            while let Some(fragment) = fragments.next() {
                if let Fragment::RangeMarker { comparable, .. } = fragment
                    && let Some(Fragment::RangeMarker { comparable: next, .. }) = fragments.peek()
                    && *next == comparable
                {
                    // Where one range ends and another begins, the second marker closes and opens.
                    continue;
                }
                if is_again(&fragment, after) {
                    continue;
                }
                left = left.saturating_sub(1);
                let wanted = self.give(partition, &fragment, &mut open, &mut take)?;
                let enough = !wanted || left == 0;
                let last: Option<Box<[u8]>> = match fragment {
                    Fragment::Row { comparable, .. } | Fragment::RangeMarker { comparable, .. } if enough => {
                        Some(comparable.into())
                    }
                    Fragment::PartitionEnd if enough => None,
                    _ => continue,
                };
                let key = contents.key_of(partition);
                self.at = Some((key, last.map(|last| ResumePoint { last, open })));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives a fragment to `take` without its shadowed cells. Returns what `take` does: whether it wants more.
    fn give(
        &mut self,
        partition: &Partition,
        fragment: &Fragment<'_>,
        open: &mut Deletion,
        take: &mut impl FnMut(&Fragment<'_>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        self.blob.clear();
        match *fragment {
            Fragment::Row { clustering, comparable, row } => {
                if !filter_row(row, partition.deletion.max(*open), &mut self.blob) {
                    return Ok(true);
                }
                take(&Fragment::Row { clustering, comparable, row: RowView::trusted(&self.blob) })
            }
            Fragment::StaticRow { row } => {
                if !filter_row(row, partition.deletion, &mut self.blob) {
                    return Ok(true);
                }
                take(&Fragment::StaticRow { row: RowView::trusted(&self.blob) })
            }
            Fragment::RangeMarker { deletion, .. } => {
                *open = deletion;
                take(fragment)
            }
            Fragment::PartitionStart { .. } | Fragment::PartitionEnd => take(fragment),
        }
    }
}

/// Whether a fragment was given before the cursor resumed after position `after`.
fn is_again(fragment: &Fragment<'_>, after: Option<&[u8]>) -> bool {
    match (fragment, after) {
        (_, None) | (Fragment::Row { .. } | Fragment::PartitionEnd, _) => false,
        (Fragment::PartitionStart { .. } | Fragment::StaticRow { .. }, _) => true,
        (Fragment::RangeMarker { comparable, .. }, Some(after)) => *comparable <= after,
    }
}
