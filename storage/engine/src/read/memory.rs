//! Reads from the active memtable alone.
//!
//! 1. A *stretch* visits at most [`STRETCH_ROWS_MAX`] rows, live or dead, within one poll and one borrow of the
//!    memtable.
//! 2. Between stretches a long read may yield. It keeps a snapshot of the partition it is in, so that it never sees
//!    half of a mutation, and resumes after the last row it visited.
//! 3. A single-partition read that fits a stretch needs no await and, unless the sink allocates, no allocation.
//!
//! Invariants: no borrow is held across an await; the sink is called with a memtable borrowed and must not call the
//! store.

use super::STRETCH_ROWS_MAX;
use crate::error::Error;
use crate::memtable::cursor::PartitionCursor;
use crate::memtable::partition::Partition;
use crate::memtable::partitions::From;
use crate::memtable::{Contents, Memtable, Snapshot};
use model::fragment::Fragment;
use model::query::{LiveRow, Partitions, Position, ReadCommand, ReadEnd, RowSink, Slice};
use model::row::Deletion;
use model::shape::live::{CellScratch, LiveCells, live_cells};
use model::shape::progress::{Reached, ReadProgress};
use model::shape::tap::Tap;
use model::{DecoratedKey, Table};
use std::rc::Rc;
use std::sync::Arc;

/// Reads `command` from `memtable`.
pub(crate) async fn read<T: Tap>(
    memtable: &Rc<Memtable>,
    command: &ReadCommand,
    scratch: &CellScratch,
    sink: &mut dyn RowSink,
    tap: T,
) -> Result<ReadEnd, Error> {
    let mut progress = ReadProgress::new(command, sink, tap, 0);
    let mut place = StretchPosition::Begin;
    loop {
        progress.stretch = STRETCH_ROWS_MAX;
        let end = match &command.partitions {
            Partitions::Key(key) => key_stretch(memtable, key, &mut place, &mut progress, scratch),
            Partitions::Range(_) => range_stretch(memtable, &mut place, &mut progress, scratch),
        };
        match end {
            Some(end) => return Ok(end),
            None => runtime::yield_if_needed().await,
        }
    }
}

/// Reads one partition if that takes no more than a stretch; `None` otherwise, having given nothing.
pub(crate) fn read_now<T: Tap>(
    memtable: &Rc<Memtable>,
    command: &ReadCommand,
    scratch: &CellScratch,
    sink: &mut dyn RowSink,
    tap: T,
) -> Option<ReadEnd> {
    let Partitions::Key(key) = &command.partitions else { return None };
    let contents = memtable.read();
    let Some(partition) = contents.partitions.get(&contents.arena, key.token.prefix(), &key.key) else {
        return Some(ReadEnd::Exhausted);
    };
    if rows_in_slices(&contents, partition, command) > STRETCH_ROWS_MAX as u64 {
        return None;
    }
    let mut progress = ReadProgress::new(command, sink, tap, usize::MAX);
    let reached = match first_row_after(command, key) {
        ResumeIn::Done => Reached::PartitionEnd,
        ResumeIn::After(after) => {
            progress.begin_partition(after.is_some());
            let rest = rest_to_pass::<T>(command, after);
            let slices = rest.as_deref().unwrap_or(&command.slices);
            let mut cells = scratch.take().recycle();
            let table = memtable.table();
            let reached = partition_stretch(&contents, &table, partition, slices, after, &mut cells, &mut progress);
            scratch.set(cells.recycle());
            reached
        }
    };
    Some(match reached {
        Reached::Stopped => ReadEnd::Stopped,
        Reached::Paused => progress.paused(contents.key_of(partition)),
        Reached::PartitionEnd | Reached::StretchEnd => ReadEnd::Exhausted,
    })
}

fn rows_in_slices(contents: &Contents, partition: &Partition, command: &ReadCommand) -> u64 {
    let rows = &partition.rows;
    if rows.len() <= STRETCH_ROWS_MAX as u64 {
        return rows.len();
    }
    let slice_rows = |start: &[u8], end: &[u8]| {
        let until = if end.is_empty() { rows.len() } else { rows.rank(&contents.arena, end) };
        until.saturating_sub(rows.rank(&contents.arena, start))
    };
    command.slices.iter().map(|slice| slice_rows(&slice.start, &slice.end)).sum()
}

/// Where a read resumes within a partition.
pub(super) enum ResumeIn<'a> {
    /// After a row, or at the beginning.
    After(Option<&'a [u8]>),
    /// Not at all: the page before ended with this partition or behind it.
    Done,
}

pub(super) fn first_row_after<'a>(command: &'a ReadCommand, key: &DecoratedKey) -> ResumeIn<'a> {
    match &command.resume {
        Some(resume) if resume.key == *key => after_position(resume),
        Some(resume) if resume.key > *key => ResumeIn::Done,
        _ => ResumeIn::After(None),
    }
}

fn after_position(position: &Position) -> ResumeIn<'_> {
    match &position.comparable {
        Some(comparable) => ResumeIn::After(Some(comparable)),
        None => ResumeIn::Done,
    }
}

/// Where a read is between two stretches.
enum StretchPosition {
    Begin,
    /// Within a partition, after [`ReadProgress::last`].
    Within(Snapshot),
    /// Between partitions, after this one.
    After(DecoratedKey),
}

fn key_stretch<T: Tap>(
    memtable: &Rc<Memtable>,
    key: &DecoratedKey,
    place: &mut StretchPosition,
    progress: &mut ReadProgress<'_, T>,
    scratch: &CellScratch,
) -> Option<ReadEnd> {
    let contents = memtable.read();
    if let StretchPosition::Within(snapshot) = place {
        return match continue_partition(memtable, &contents, snapshot, progress, scratch) {
            Reached::PartitionEnd => Some(ReadEnd::Exhausted),
            Reached::Stopped => Some(ReadEnd::Stopped),
            Reached::Paused => Some(progress.paused(contents.key_of(snapshot.partition()))),
            Reached::StretchEnd => None,
        };
    }
    let partition = contents.partitions.get(&contents.arena, key.token.prefix(), &key.key);
    let (Some(partition), ResumeIn::After(after)) = (partition, first_row_after(progress.command, key)) else {
        return Some(ReadEnd::Exhausted);
    };
    progress.begin_partition(after.is_some());
    let rest = rest_to_pass::<T>(progress.command, after);
    let slices = rest.as_deref().unwrap_or(&progress.command.slices);
    let mut cells = scratch.take().recycle();
    let reached = partition_stretch(&contents, &memtable.table(), partition, slices, after, &mut cells, progress);
    scratch.set(cells.recycle());
    match reached {
        Reached::PartitionEnd => Some(ReadEnd::Exhausted),
        Reached::Stopped => Some(ReadEnd::Stopped),
        Reached::Paused => Some(progress.paused(contents.key_of(partition))),
        Reached::StretchEnd => {
            *place = StretchPosition::Within(memtable.snapshot(partition));
            None
        }
    }
}

fn continue_partition<T: Tap>(
    memtable: &Memtable,
    contents: &Contents,
    snapshot: &Snapshot,
    progress: &mut ReadProgress<'_, T>,
    scratch: &CellScratch,
) -> Reached {
    let after = std::mem::take(&mut progress.last);
    let rest = rest_to_pass::<T>(progress.command, Some(&after));
    let slices = rest.as_deref().unwrap_or(&progress.command.slices);
    let mut cells = scratch.take().recycle();
    let table = memtable.table();
    let partition = snapshot.partition();
    let reached = partition_stretch(contents, &table, partition, slices, Some(&after), &mut cells, progress);
    scratch.set(cells.recycle());
    reached
}

fn range_stretch<T: Tap>(
    memtable: &Rc<Memtable>,
    place: &mut StretchPosition,
    progress: &mut ReadProgress<'_, T>,
    scratch: &CellScratch,
) -> Option<ReadEnd> {
    let contents = memtable.read();
    let contents = &*contents;
    let command = progress.command;
    let Partitions::Range(range) = &command.partitions else { return Some(ReadEnd::Exhausted) };
    if let StretchPosition::Within(snapshot) = place {
        match continue_partition(memtable, contents, snapshot, progress, scratch) {
            Reached::PartitionEnd => *place = StretchPosition::After(contents.key_of(snapshot.partition())),
            Reached::Stopped => return Some(ReadEnd::Stopped),
            Reached::Paused => return Some(progress.paused(contents.key_of(snapshot.partition()))),
            Reached::StretchEnd => return None,
        }
    }
    let from = match (&*place, &command.resume) {
        (StretchPosition::After(key), _) => From::After(key.token.prefix(), &key.key),
        (_, Some(resume)) if range.is_begun(resume.token(), &resume.key.key) => match after_position(resume) {
            ResumeIn::After(_) => From::At(resume.token().prefix(), &resume.key.key),
            ResumeIn::Done => From::After(resume.token().prefix(), &resume.key.key),
        },
        _ => range.start.as_ref().map_or(From::Start, From::Position),
    };
    let table = memtable.table();
    let resumed_after = command.resume.as_ref().and_then(|resume| resume.comparable.as_deref());
    let rest = rest_to_pass::<T>(command, resumed_after);
    let mut cells = scratch.take().recycle();
    let mut end = Some(ReadEnd::Exhausted);
    for partition in contents.range(from, range) {
        let after = match &command.resume {
            Some(resume) if resume.token() == partition.token && *resume.key.key == *partition.key(&contents.arena) => {
                resume.comparable.as_deref()
            }
            _ => None,
        };
        progress.begin_partition(after.is_some());
        let slices = rest.as_deref().filter(|_| after.is_some()).unwrap_or(&command.slices);
        let reached = partition_stretch(contents, &table, partition, slices, after, &mut cells, progress);
        match reached {
            Reached::Stopped => end = Some(ReadEnd::Stopped),
            Reached::Paused => end = Some(progress.paused(contents.key_of(partition))),
            Reached::StretchEnd => {
                *place = StretchPosition::Within(memtable.snapshot(partition));
                end = None;
            }
            Reached::PartitionEnd => match progress.leave_partition(|| contents.key_of(partition)) {
                Some(paused) => end = Some(paused),
                None if progress.stretch == 0 => {
                    *place = StretchPosition::After(contents.key_of(partition));
                    end = None;
                }
                None => continue,
            },
        }
        break;
    }
    scratch.set(cells.recycle());
    end
}

/// The slices after a place, for reads that pass on fragments: a range deletion begins again there, so that markers
/// before it are not passed on once more. Plain reads do with the slices of the command.
fn rest_to_pass<T: Tap>(command: &ReadCommand, after: Option<&[u8]>) -> Option<Arc<[Slice]>> {
    let after = after.filter(|_| T::PASSES)?;
    Some(Slice::remaining(&command.slices, after, true, command.reversed))
}

/// Gives the live rows of one partition after `after`, in read order, until the partition, the stretch or the read
/// ends.
fn partition_stretch<'a, 'c: 'a, T: Tap>(
    contents: &'a Contents,
    table: &Table,
    partition: &'a Partition,
    slices: &'a [Slice],
    after: Option<&'a [u8]>,
    cells: &mut LiveCells<'a>,
    progress: &mut ReadProgress<'c, T>,
) -> Reached {
    let command = progress.command;
    if progress.partition_rows >= command.per_partition_max {
        return Reached::PartitionEnd;
    }
    let now = command.now_in_seconds;
    let mut cursor = PartitionCursor::new(&contents.arena, partition, slices, command.reversed, after);
    let mut range_deletion = Deletion::LIVE;
    let (token, key) = (partition.token, partition.key(&contents.arena));
    cells.statics.clear();
    while let Some(fragment) = cursor.next_fragment() {
        match fragment {
            Fragment::PartitionStart { .. } => progress.pass_head(fragment, Deletion::LIVE),
            Fragment::PartitionEnd => break,
            Fragment::StaticRow { row } => {
                if command.wants_static {
                    progress.pass_head(fragment, partition.deletion);
                    // A stretch that goes on has counted them.
                    let mut again = 0;
                    let dead = if after.is_none() { &mut progress.dead } else { &mut again };
                    live_cells(row, partition.deletion, now, table, &mut cells.statics, dead);
                }
            }
            Fragment::RangeMarker { deletion, .. } => {
                range_deletion = deletion;
                progress.dead += 1;
                if progress.pass_marker(fragment) {
                    return Reached::Paused;
                }
            }
            Fragment::Row { clustering, comparable, row } => {
                let deletion = partition.deletion.max(range_deletion);
                progress.pass_row(fragment, deletion);
                let live = progress.live(row, deletion, table, &mut cells.row);
                progress.tell_dead();
                if let Some(liveness) = live {
                    let (cells, static_cells) = (&*cells.row, &*cells.statics);
                    let static_only = false;
                    let row =
                        LiveRow { token, key, clustering, comparable, liveness, cells, static_cells, static_only };
                    if let Some(reached) = progress.give(&row) {
                        return reached;
                    }
                }
                let paused = progress.visit(row.blob().len());
                progress.stretch = progress.stretch.saturating_sub(1);
                if paused || progress.stretch == 0 {
                    progress.last.clear();
                    progress.last.extend_from_slice(comparable);
                    return if paused { Reached::Paused } else { Reached::StretchEnd };
                }
            }
        }
    }
    progress.tell_dead();
    progress.pass_end();
    progress.give_static(token, key, &cells.statics).unwrap_or(Reached::PartitionEnd)
}
