//! Reading: fragments of the sources of a table, filtered by deletions and expiry, as live rows into a sink.
//!
//! 1. A *stretch* visits at most [`STRETCH_ROWS_MAX`] rows, live or dead, within one poll and one borrow of the memtable.
//! 2. Between stretches a long read may yield. It keeps a snapshot of the partition it is in, so that it never sees half
//!    of a mutation, and finds its place again by the last row it visited.
//! 3. A single-partition read that fits a stretch needs no await and, when the sink allocates nothing, no allocation.
//!
//! A row is live if its liveness is, or any of its cells: not deleted by the partition, a range, the row or its column,
//! and not expired at the command's `now_in_seconds`.
//!
//! Invariants: no borrow across an await; the sink is called with a memtable borrowed and must not call the store.

use crate::Error;
use crate::memtable::cursor::PartitionCursor;
use crate::memtable::partition::Partition;
use crate::memtable::tree::From;
use crate::memtable::{Contents, Memtable, Snapshot};
use model::fragment::Fragment;
use model::query::{LiveRow, Partitions, Position, ReadCommand, ReadEnd, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, Liveness, NO_TIMESTAMP, RowView};
use model::{ColumnId, DecoratedKey, Token};
use std::rc::Rc;

/// Rows visited, live or dead, before a read asks whether to yield. A partition counts as one more.
pub(crate) const STRETCH_ROWS_MAX: usize = 128;

/// Room for the cells of a row, kept from read to read.
pub(crate) type CellScratch = std::cell::Cell<Vec<Cell<'static>>>;

/// Empties a vector and keeps its memory for cells of another lifetime.
fn recycle<'a>(mut cells: Vec<Cell<'_>>) -> Vec<Cell<'a>> {
    cells.clear();
    // Collecting in place keeps the allocation; were it not kept, the cost is an allocation, never a wrong result.
    cells.into_iter().map(|_| unreachable!("the vector is empty")).collect()
}

/// A read under way.
struct Progress<'c> {
    command: &'c ReadCommand,
    sink: &'c mut dyn RowSink,
    /// Rows given so far.
    given: u64,
    /// Rows given so far of the partition that the read is in, on pages before as well.
    given_in_partition: u64,
    /// Rows that this stretch may still visit.
    stretch: usize,
    /// The last row visited of a partition that the stretch did not finish.
    last: Vec<u8>,
}

impl Progress<'_> {
    /// Begins a partition; `resumed`: that of [`ReadCommand::resume`].
    fn begin_partition(&mut self, resumed: bool) {
        self.given_in_partition = if resumed { self.command.resume_partition_rows } else { 0 };
    }
}

/// How far a stretch came in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reached {
    /// All its rows are done.
    PartitionEnd,
    /// The sink or the limit stopped the read.
    Stopped,
    /// The stretch is over; [`Progress::last`] says where.
    StretchEnd,
}

/// Reads `command` from `memtable`.
pub(crate) async fn read(
    memtable: &Rc<Memtable>,
    command: &ReadCommand,
    scratch: &CellScratch,
    sink: &mut dyn RowSink,
) -> Result<ReadEnd, Error> {
    let mut progress = Progress { command, sink, given: 0, given_in_partition: 0, stretch: 0, last: Vec::new() };
    let mut place = Place::Begin;
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
pub(crate) fn read_now(
    memtable: &Rc<Memtable>,
    command: &ReadCommand,
    scratch: &CellScratch,
    sink: &mut dyn RowSink,
) -> Option<ReadEnd> {
    let Partitions::Key(key) = &command.partitions else { return None };
    let contents = memtable.read();
    let Some(partition) = contents.partitions.get(&contents.arena, key.token.prefix(), &key.key) else {
        return Some(ReadEnd::Exhausted);
    };
    if rows_in_slices(&contents, partition, command) > STRETCH_ROWS_MAX as u64 {
        return None;
    }
    let mut progress =
        Progress { command, sink, given: 0, given_in_partition: 0, stretch: usize::MAX, last: Vec::new() };
    let mut cells = recycle(scratch.take());
    let reached = match first_row_after(command, key) {
        Resume::Done => Reached::PartitionEnd,
        Resume::After(after) => {
            progress.begin_partition(after.is_some());
            partition_stretch(&contents, partition, after, &mut cells, &mut progress)
        }
    };
    scratch.set(recycle(cells));
    Some(match reached {
        Reached::Stopped => ReadEnd::Stopped,
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

/// Where in a partition a read begins.
enum Resume<'a> {
    /// After a row; `None`: at the beginning.
    After(Option<&'a [u8]>),
    /// Nowhere: the page before ended with or beyond this partition.
    Done,
}

fn first_row_after<'a>(command: &'a ReadCommand, key: &DecoratedKey) -> Resume<'a> {
    match &command.resume {
        Some(resume) if resume.key == *key => after_position(resume),
        Some(resume) if resume.key > *key => Resume::Done,
        _ => Resume::After(None),
    }
}

fn after_position(position: &Position) -> Resume<'_> {
    match &position.comparable {
        Some(comparable) => Resume::After(Some(comparable)),
        None => Resume::Done,
    }
}

/// Where a read is between two stretches.
enum Place {
    Begin,
    /// Within a partition, after [`Progress::last`].
    Within(Snapshot),
    /// Between partitions, after this one.
    After(DecoratedKey),
}

fn key_stretch(
    memtable: &Rc<Memtable>,
    key: &DecoratedKey,
    place: &mut Place,
    progress: &mut Progress<'_>,
    scratch: &CellScratch,
) -> Option<ReadEnd> {
    let contents = memtable.read();
    let reached = if let Place::Within(snapshot) = place {
        continue_partition(&contents, snapshot, progress, scratch)
    } else {
        let partition = contents.partitions.get(&contents.arena, key.token.prefix(), &key.key);
        let (Some(partition), Resume::After(after)) = (partition, first_row_after(progress.command, key)) else {
            return Some(ReadEnd::Exhausted);
        };
        let mut cells = recycle(scratch.take());
        progress.begin_partition(after.is_some());
        let reached = partition_stretch(&contents, partition, after, &mut cells, progress);
        scratch.set(recycle(cells));
        if reached == Reached::StretchEnd {
            *place = Place::Within(memtable.snapshot(partition));
        }
        reached
    };
    match reached {
        Reached::PartitionEnd => Some(ReadEnd::Exhausted),
        Reached::Stopped => Some(ReadEnd::Stopped),
        Reached::StretchEnd => None,
    }
}

fn continue_partition(
    contents: &Contents,
    snapshot: &Snapshot,
    progress: &mut Progress<'_>,
    scratch: &CellScratch,
) -> Reached {
    let after = std::mem::take(&mut progress.last);
    let mut cells = recycle(scratch.take());
    let reached = partition_stretch(contents, snapshot.partition(), Some(&after), &mut cells, progress);
    scratch.set(recycle(cells));
    reached
}

fn range_stretch(
    memtable: &Rc<Memtable>,
    place: &mut Place,
    progress: &mut Progress<'_>,
    scratch: &CellScratch,
) -> Option<ReadEnd> {
    let contents = memtable.read();
    let contents = &*contents;
    let command = progress.command;
    let Partitions::Range(range) = &command.partitions else { return Some(ReadEnd::Exhausted) };
    if let Place::Within(snapshot) = place {
        match continue_partition(contents, snapshot, progress, scratch) {
            Reached::PartitionEnd => *place = Place::After(decorated(contents, snapshot.partition())),
            Reached::Stopped => return Some(ReadEnd::Stopped),
            Reached::StretchEnd => return None,
        }
    }
    let range_start = if range.after == Token::MIN && range.until == Token::MIN {
        From::Start
    } else {
        From::AfterPrefix(range.after.prefix())
    };
    let from = match (&*place, &command.resume) {
        (Place::After(key), _) => From::After(key.token.prefix(), &key.key),
        (_, Some(resume)) if resume.token() > range.after || matches!(range_start, From::Start) => {
            match after_position(resume) {
                Resume::After(_) => From::At(resume.token().prefix(), &resume.key.key),
                Resume::Done => From::After(resume.token().prefix(), &resume.key.key),
            }
        }
        _ => range_start,
    };
    let until = if range.until == Token::MIN { u64::MAX } else { range.until.prefix() };
    let mut cells = recycle(scratch.take());
    let mut end = Some(ReadEnd::Exhausted);
    for partition in contents.partitions.range(&contents.arena, from, until) {
        let after = match &command.resume {
            Some(resume) if resume.token() == partition.token && *resume.key.key == *partition.key(&contents.arena) => {
                resume.comparable.as_deref()
            }
            _ => None,
        };
        progress.begin_partition(after.is_some());
        let reached = partition_stretch(contents, partition, after, &mut cells, progress);
        progress.stretch = progress.stretch.saturating_sub(1);
        if reached == Reached::Stopped {
            end = Some(ReadEnd::Stopped);
            break;
        }
        if reached == Reached::StretchEnd {
            *place = Place::Within(memtable.snapshot(partition));
            end = None;
            break;
        }
        if progress.stretch == 0 {
            *place = Place::After(decorated(contents, partition));
            end = None;
            break;
        }
    }
    scratch.set(recycle(cells));
    end
}

fn decorated(contents: &Contents, partition: &Partition) -> DecoratedKey {
    DecoratedKey { token: partition.token, key: partition.key(&contents.arena).into() }
}

/// Gives the live rows of one partition after `after`, in read order, until the stretch or the read ends.
fn partition_stretch<'a, 'c: 'a>(
    contents: &'a Contents,
    partition: &'a Partition,
    after: Option<&'a [u8]>,
    cells: &mut Vec<Cell<'a>>,
    progress: &mut Progress<'c>,
) -> Reached {
    let command = progress.command;
    if progress.given_in_partition >= command.per_partition_max {
        return Reached::PartitionEnd;
    }
    let mut cursor = PartitionCursor::new(&contents.arena, partition, &command.slices, command.reversed, after);
    let mut range_deletion = Deletion::LIVE;
    let key = partition.key(&contents.arena);
    while let Some(fragment) = cursor.next_fragment() {
        match fragment {
            Fragment::PartitionStart { .. } => {}
            Fragment::PartitionEnd => break,
            Fragment::RangeMarker { deletion, .. } => range_deletion = deletion,
            Fragment::Row { clustering, comparable, row } => {
                let deletion = partition.deletion.max(range_deletion);
                if let Some(liveness) = live_cells(row, deletion, command.now_in_seconds, cells) {
                    let row = LiveRow {
                        token: partition.token,
                        key,
                        clustering,
                        comparable,
                        liveness,
                        cells,
                        static_cells: &[],
                        static_only: false,
                    };
                    let state = progress.sink.row(&row);
                    if state != SinkState::Rejected {
                        progress.given += 1;
                        progress.given_in_partition += 1;
                    }
                    if state == SinkState::Full || progress.given >= command.rows_max {
                        return Reached::Stopped;
                    }
                    if progress.given_in_partition >= command.per_partition_max {
                        return Reached::PartitionEnd;
                    }
                }
                progress.stretch = progress.stretch.saturating_sub(1);
                if progress.stretch == 0 {
                    progress.last.clear();
                    progress.last.extend_from_slice(comparable);
                    return Reached::StretchEnd;
                }
            }
        }
    }
    Reached::PartitionEnd
}

/// Puts the live cells of a row into `cells`. `None` if the row is not live, else its liveness if that is live.
fn live_cells<'a>(
    row: RowView<'a>,
    deletion: Deletion,
    now: i64,
    cells: &mut Vec<Cell<'a>>,
) -> Option<Option<Liveness>> {
    cells.clear();
    let deletion = deletion.max(row.deletion());
    let liveness = row.liveness().filter(|liveness| {
        !deletion.deletes(liveness.timestamp) && liveness.expiry.is_none_or(|(_, expires_at)| now < expires_at)
    });
    // The deletion of the multi-cell column that the cells belong to.
    let mut column_deletion: (Option<ColumnId>, i64) = (None, NO_TIMESTAMP);
    for cell in row.cells() {
        if let CellContent::ColumnDeletion { .. } = cell.content {
            column_deletion = (Some(cell.column), cell.timestamp);
            continue;
        }
        let column_deleted = column_deletion.0 == Some(cell.column) && cell.timestamp <= column_deletion.1;
        if !column_deleted && !deletion.deletes(cell.timestamp) && cell.value_at(now).is_some() {
            cells.push(cell);
        }
    }
    (liveness.is_some() || !cells.is_empty()).then_some(liveness)
}
