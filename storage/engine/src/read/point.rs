//! Reads single rows by their whole clustering, newest source first.
//!
//! 1. The row's versions in memtables are merged.
//! 2. SSTables follow, the one with the largest timestamp first, until the row is complete: everything in the SSTables
//!    that are left is older than a deletion of the row, or than its live liveness and each cell that is asked for.
//! 3. The live cells of the merged row are given.
//!
//! This is for [`ReadCommand::is_point`]; `merged` reads what asks for cells of collections or static cells. Source:
//! Cassandra 5's `SinglePartitionReadCommand.queryMemtableAndSSTablesInTimestampOrder`.
//!
//! Invariants: nothing is given before everything is read.

use super::Reader;
use super::memory::{ResumeIn, first_row_after};
use super::sources::{self, PartitionProbe, fault};
use crate::error::Error;
use crate::memtable::Memtable;
use crate::memtable::cursor::PartitionCursor;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::view::View;
use model::fragment::Fragment;
use model::merge::merge_rows;
use model::mutation::Clustering;
use model::query::{LiveRow, ReadCommand, ReadEnd, RowSink, Slice};
use model::row::{Deletion, Liveness, RowView};
use model::shape::live::live_cells;
use model::shape::progress::{Reached, ReadProgress};
use model::shape::tap::Tap;
use model::{ColumnId, DecoratedKey, Table};
use sstable::BlockId;
use sstable::reader::{Cursor, CursorStep};
use std::rc::Rc;

/// Reads the row, waiting for blocks that are not in the cache.
pub(super) async fn read<T: Tap>(
    reader: &Reader,
    memtable: &Rc<Memtable>,
    view: &Rc<View>,
    key: &DecoratedKey,
    command: &ReadCommand,
    sink: &mut dyn RowSink,
    tap: T,
) -> Result<ReadEnd, Error> {
    let Some(mut search) = RowSearch::new(memtable, view, key, command) else { return Ok(ReadEnd::Exhausted) };
    while let Some((sstable, block)) = search.go_on()? {
        let bytes = reader.cache.load(&sstable, block).await?;
        search.supply(block, bytes);
    }
    Ok(search.row.give(reader, memtable, key, command, sink, tap))
}

/// Reads the row if all blocks are in the cache; `None` otherwise.
pub(super) fn read_now<T: Tap>(
    reader: &Reader,
    memtable: &Rc<Memtable>,
    view: &Rc<View>,
    key: &DecoratedKey,
    command: &ReadCommand,
    sink: &mut dyn RowSink,
    tap: T,
) -> Option<Result<ReadEnd, Error>> {
    let Some(mut search) = RowSearch::new(memtable, view, key, command) else { return Some(Ok(ReadEnd::Exhausted)) };
    let mut asked = None;
    loop {
        match search.go_on() {
            Ok(None) => return Some(Ok(search.row.give(reader, memtable, key, command, sink, tap))),
            Ok(Some((sstable, block))) => {
                let asked = *asked.get_or_insert_with(|| reader.cache.asked());
                let Some(bytes) = reader.cache.get(sstable.number, block) else {
                    reader.cache.ask_again_from(asked);
                    return None;
                };
                search.supply(block, bytes);
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

/// A search under way.
struct RowSearch<'r> {
    memtable: &'r Memtable,
    view: &'r View,
    command: &'r ReadCommand,
    key: &'r DecoratedKey,
    columns: &'r [ColumnId],
    wanted: PartitionProbe<'r>,
    row: FoundRow,
    /// The next SSTable of the view.
    next: usize,
    current: Option<(Rc<OpenSstable>, Cursor)>,
}

impl<'r> RowSearch<'r> {
    /// Reads the memtables. `None`: the row is not asked for, being before where the read goes on.
    fn new(
        memtable: &'r Rc<Memtable>,
        view: &'r View,
        key: &'r DecoratedKey,
        command: &'r ReadCommand,
    ) -> Option<RowSearch<'r>> {
        let slice = command.slices.first()?;
        let comparable = comparable(slice);
        match first_row_after(command, key) {
            ResumeIn::After(None) => {}
            ResumeIn::After(Some(after)) if !command.reversed && after < &comparable[..] => {}
            ResumeIn::After(Some(after)) if command.reversed && after > &comparable[..] => {}
            _ => return None,
        }
        let mut row = FoundRow::new(comparable);
        for memtable in sources::memtables(memtable, view) {
            let contents = memtable.read();
            let arena = &contents.arena;
            let Some(partition) = contents.partitions.get(arena, key.token.prefix(), &key.key) else { continue };
            let mut cursor = PartitionCursor::new(arena, partition, &command.slices, false, None);
            while let Some(fragment) = cursor.next_fragment() {
                row.take(fragment);
            }
        }
        let wanted = PartitionProbe::new(key, &command.slices, false);
        let columns = command.row_columns.as_deref().unwrap_or_default();
        Some(RowSearch { memtable, view, command, key, columns, wanted, row, next: 0, current: None })
    }

    /// Goes on until a block is missing; `None` once all is read that matters.
    fn go_on(&mut self) -> Result<Option<(Rc<OpenSstable>, BlockId)>, Error> {
        loop {
            if let Some((sstable, cursor)) = &mut self.current {
                match cursor.advance().map_err(|error| fault(sstable, error))? {
                    CursorStep::Need(block) => return Ok(Some((sstable.clone(), block))),
                    CursorStep::Fragment => {
                        if let Some(fragment) = cursor.fragment() {
                            self.row.take(fragment);
                        }
                        continue;
                    }
                    CursorStep::End => self.current = None,
                }
            }
            let Some(sstable) = self.view.sstables.get(self.next) else { return Ok(None) };
            self.next += 1;
            let (now, timestamp) = (self.command.now_in_seconds, sstable.max_timestamp());
            if self.row.is_complete(&self.memtable.table(), self.columns, now, timestamp) {
                return Ok(None);
            }
            if self.wanted.may_be_in(sstable) {
                let slices = self.command.slices.clone();
                let cursor = sstable.reader.partition(self.key.clone(), slices, false);
                self.current = Some((sstable.clone(), cursor));
            }
        }
    }

    fn supply(&mut self, block: BlockId, bytes: bytes::Bytes) {
        if let Some((_, cursor)) = &mut self.current {
            cursor.supply(block, bytes);
        }
    }
}

/// The comparable form of the row that a slice holds.
fn comparable(slice: &Slice) -> Vec<u8> {
    // A bound and a clustering differ in the byte behind their values.
    let values = slice.start.split_last().map_or(&[][..], |(_, values)| values);
    [values, &[model::comparable::TERMINATOR]].concat()
}

/// The merged versions of the row so far.
struct FoundRow {
    comparable: Vec<u8>,
    clustering: Vec<u8>,
    /// The newest deletion by the partition or a range.
    deletion: Deletion,
    /// The range deletion in force in the source that is being read, before the row.
    open: Deletion,
    /// Range deletions that were met, open and close.
    markers: u64,
    found: bool,
    data: Vec<u8>,
    spare: Vec<u8>,
}

impl FoundRow {
    fn new(comparable: Vec<u8>) -> FoundRow {
        let (clustering, data, spare) = (Vec::new(), Vec::new(), Vec::new());
        let (deletion, open) = (Deletion::LIVE, Deletion::LIVE);
        FoundRow { comparable, clustering, deletion, open, markers: 0, found: false, data, spare }
    }

    fn take(&mut self, fragment: Fragment<'_>) {
        match fragment {
            Fragment::PartitionStart { deletion, .. } => self.deletion = self.deletion.max(deletion),
            Fragment::RangeMarker { comparable, deletion, .. } if comparable <= &self.comparable[..] => {
                self.open = deletion;
                return;
            }
            _ => {}
        }
        // Behind the markers before the row what is open covers it.
        let open = std::mem::replace(&mut self.open, Deletion::LIVE);
        if !open.is_live() {
            self.markers = 2;
            self.deletion = self.deletion.max(open);
        }
        match fragment {
            Fragment::Row { clustering, comparable, row } if comparable == self.comparable => {
                if self.found {
                    self.spare.clear();
                    merge_rows(RowView::trusted(&self.data), row, self.deletion, &mut self.spare);
                    std::mem::swap(&mut self.data, &mut self.spare);
                } else {
                    self.found = true;
                    self.clustering.extend_from_slice(clustering.0);
                    self.data.extend_from_slice(row.blob());
                }
            }
            _ => {}
        }
    }

    /// Whether nothing with a timestamp up to `timestamp` changes what is given of the row. If it lives by its
    /// liveness, columns that are not asked for do not matter.
    fn is_complete(&self, table: &Table, columns: &[ColumnId], now: i64, timestamp: i64) -> bool {
        // Of deletions with one timestamp the one of the later second counts, so that an equal one is read on for.
        if self.deletion.timestamp > timestamp {
            return true;
        }
        if !self.found {
            return false;
        }
        let row = RowView::trusted(&self.data);
        if row.deletion().timestamp > timestamp {
            return true;
        }
        let newer = |column: &ColumnId| {
            row.cells().any(|cell| {
                cell.column == *column
                    && cell.path.is_none()
                    && cell.timestamp > timestamp
                    && !table.is_dropped(cell.column, cell.timestamp)
            })
        };
        let lives = |liveness: Liveness| {
            liveness.timestamp > timestamp && liveness.expiry.is_none_or(|(_, expires_at)| now < expires_at)
        };
        row.liveness().is_some_and(lives) && columns.iter().all(newer)
    }

    fn give<T: Tap>(
        &self,
        reader: &Reader,
        memtable: &Memtable,
        key: &DecoratedKey,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        tap: T,
    ) -> ReadEnd {
        let mut progress = ReadProgress::new(command, sink, tap, usize::MAX);
        progress.begin_partition(command.resume.as_ref().is_some_and(|resume| resume.key == *key));
        if progress.partition_rows >= command.per_partition_max {
            return ReadEnd::Exhausted;
        }
        let (row, now) = (RowView::trusted(&self.data), command.now_in_seconds);
        if T::PASSES {
            self.pass(key, command, &mut progress);
        }
        progress.dead = self.markers;
        if !self.found {
            progress.tell_dead();
            return ReadEnd::Exhausted;
        }
        let mut reached = None;
        let mut cells = reader.scratch.take().recycle();
        let table = memtable.table();
        let live = live_cells(row, self.deletion, now, &table, &mut cells.row, &mut progress.dead);
        progress.tell_dead();
        if let Some(liveness) = live {
            reached = progress.give(&LiveRow {
                token: key.token,
                key: &key.key,
                clustering: Clustering(&self.clustering),
                comparable: &self.comparable,
                liveness,
                cells: &cells.row,
                static_cells: &[],
                static_only: false,
            });
        }
        reader.scratch.set(cells.recycle());
        if reached.is_none() && progress.visit(self.data.len()) {
            progress.last.extend_from_slice(&self.comparable);
            reached = Some(Reached::Paused);
        }
        let end = reached.and_then(|reached| progress.end(reached, || key.clone()));
        end.unwrap_or(ReadEnd::Exhausted)
    }
    /// Passes on the row between the markers of the deletion that covers it, whether that is of the partition or of a
    /// range: other rows of the partition are not known.
    fn pass<T: Tap>(&self, key: &DecoratedKey, command: &ReadCommand, progress: &mut ReadProgress<'_, T>) {
        let Some(slice) = command.slices.first() else { return };
        // A slice without an end ends behind its row.
        let behind = [&self.comparable[..], &[0]].concat();
        let end = if slice.end.is_empty() { &behind } else { &slice.end[..] };
        let (first, last) = if command.reversed { (end, &slice.start[..]) } else { (&slice.start[..], end) };
        let marker = |comparable, deletion| Fragment::RangeMarker { clustering: Clustering(&[]), comparable, deletion };
        let (token, deletion) = (key.token, Deletion::LIVE);
        progress.pass_head(Fragment::PartitionStart { token, key: &key.key, deletion }, deletion);
        if !self.deletion.is_live() {
            progress.pass_marker(marker(first, self.deletion));
        }
        if self.found {
            let (clustering, comparable) = (Clustering(&self.clustering), &self.comparable[..]);
            let row = Fragment::Row { clustering, comparable, row: RowView::trusted(&self.data) };
            progress.pass_row(row, self.deletion);
        }
        if !self.deletion.is_live() {
            progress.pass_marker(marker(last, Deletion::LIVE));
        }
        progress.pass_end();
    }
}
