//! Reading: fragments of the sources of a table, filtered by deletions and expiry, as live rows into a sink.
//!
//! 1. A *stretch* visits at most [`STRETCH_ROWS_MAX`] rows, live or dead, within one poll and one borrow of the memtable.
//! 2. Between stretches a long read may yield. It keeps a snapshot of the partition it is in, so that it never sees half
//!    of a mutation, and finds its place again by the last row it visited.
//! 3. A single-partition read that fits a stretch needs no await and, when the sink allocates nothing, no allocation.
//! 4. A partition whose rows are all done without a live one gives its static cells as a row, if the command asks.
//!
//! A row is live if its liveness is, or any of its cells: not deleted by the partition, a range, the row or its column,
//! not expired at the command's `now_in_seconds`, not of a column dropped since. A static cell is deleted by the
//! partition and its column alone.
//!
//! Invariants: no borrow across an await; the sink is called with a memtable borrowed and must not call the store.

use crate::Error;
use crate::memtable::cursor::PartitionCursor;
use crate::memtable::partition::Partition;
use crate::memtable::tree::From;
use crate::memtable::{Contents, Memtable, Snapshot};
use model::fragment::Fragment;
use model::mutation::Clustering;
use model::query::{LiveRow, Partitions, Position, ReadCommand, ReadEnd, Resume, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, Liveness, NO_TIMESTAMP, RowView};
use model::schema::DroppedColumn;
use model::{ColumnId, DecoratedKey, Table, Token};
use std::rc::Rc;

/// Rows visited, live or dead, before a read asks whether to yield. A partition counts as one more.
pub(crate) const STRETCH_ROWS_MAX: usize = 128;

/// Room for the cells of a row and of a static row, kept from read to read.
pub(crate) type CellScratch = std::cell::Cell<LiveCells<'static>>;

/// Live cells.
#[derive(Default)]
pub(crate) struct LiveCells<'a> {
    /// Of the row that is looked at.
    row: Vec<Cell<'a>>,
    /// Of its partition's static row.
    statics: Vec<Cell<'a>>,
}

impl LiveCells<'_> {
    fn recycle<'b>(self) -> LiveCells<'b> {
        LiveCells { row: recycle(self.row), statics: recycle(self.statics) }
    }
}

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
    /// Visits so far.
    visits: u64,
    /// Rows that this stretch may still visit.
    stretch: usize,
    /// The last row visited of a partition that the stretch or the read did not finish.
    last: Vec<u8>,
    /// Rows given of the partition under way.
    partition_rows: u64,
    /// Whether a live row of it was seen.
    seen_live: bool,
    /// Whether the sink asks for what is dead.
    counts_dead: bool,
}

/// How far a stretch came in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reached {
    /// All its rows are done.
    PartitionEnd,
    /// The sink or the limit stopped the read.
    Stopped,
    /// The visits of the command are used up; [`Progress::last`] says where.
    Paused,
    /// The stretch is over; [`Progress::last`] says where.
    StretchEnd,
}

impl<'c> Progress<'c> {
    fn new(command: &'c ReadCommand, sink: &'c mut dyn RowSink, stretch: usize) -> Progress<'c> {
        let (last, partition_rows) = (Vec::new(), 0);
        let counts_dead = sink.counts_dead();
        Progress { command, sink, given: 0, visits: 0, stretch, last, partition_rows, seen_live: false, counts_dead }
    }

    /// A partition begins, of which earlier parts of the read gave some rows.
    fn begin_partition(&mut self, resumed: bool) {
        self.partition_rows = if resumed { self.command.resume_partition_rows } else { 0 };
        self.seen_live = self.partition_rows > 0;
    }

    /// Gives a row; whether the read or the partition ends with it.
    fn give(&mut self, row: &LiveRow<'_>) -> Option<Reached> {
        self.seen_live = true;
        let state = self.sink.row(row);
        if state == SinkState::Rejected {
            return None;
        }
        self.given += 1;
        self.partition_rows += 1;
        if state == SinkState::Full || self.given >= self.command.rows_max {
            return Some(Reached::Stopped);
        }
        (self.partition_rows >= self.command.per_partition_max).then_some(Reached::PartitionEnd)
    }

    /// Counts a visit; whether the command allows no more.
    fn visit(&mut self, bytes: usize) -> bool {
        self.visits = self.visits.saturating_add((bytes as u64).div_ceil(ReadCommand::VISIT_BYTES).max(1));
        self.visits >= self.command.visits_max
    }

    /// The end of a read that was paused in a partition.
    fn paused(&mut self, contents: &Contents, partition: &Partition) -> ReadEnd {
        let comparable = Some(std::mem::take(&mut self.last).into());
        let position = Position { key: decorated(contents, partition), comparable };
        ReadEnd::Paused(Box::new(Resume { position, partition_rows: self.partition_rows }))
    }
}

/// Reads `command` from `memtable`.
pub(crate) async fn read(
    memtable: &Rc<Memtable>,
    command: &ReadCommand,
    scratch: &CellScratch,
    sink: &mut dyn RowSink,
) -> Result<ReadEnd, Error> {
    let mut progress = Progress::new(command, sink, 0);
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
    let mut progress = Progress::new(command, sink, usize::MAX);
    let reached = match first_row_after(command, key) {
        Start::Done => Reached::PartitionEnd,
        Start::After(after) => {
            progress.begin_partition(after.is_some());
            let mut cells = scratch.take().recycle();
            let table = memtable.table();
            let reached = partition_stretch(&contents, &table, partition, after, &mut cells, &mut progress);
            scratch.set(cells.recycle());
            reached
        }
    };
    Some(match reached {
        Reached::Stopped => ReadEnd::Stopped,
        Reached::Paused => progress.paused(&contents, partition),
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
enum Start<'a> {
    /// After a row; `None`: at the beginning.
    After(Option<&'a [u8]>),
    /// Nowhere: the page before ended with or beyond this partition.
    Done,
}

fn first_row_after<'a>(command: &'a ReadCommand, key: &DecoratedKey) -> Start<'a> {
    match &command.resume {
        Some(resume) if resume.key == *key => after_position(resume),
        Some(resume) if resume.key > *key => Start::Done,
        _ => Start::After(None),
    }
}

fn after_position(position: &Position) -> Start<'_> {
    match &position.comparable {
        Some(comparable) => Start::After(Some(comparable)),
        None => Start::Done,
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
    if let Place::Within(snapshot) = place {
        return match continue_partition(memtable, &contents, snapshot, progress, scratch) {
            Reached::PartitionEnd => Some(ReadEnd::Exhausted),
            Reached::Stopped => Some(ReadEnd::Stopped),
            Reached::Paused => Some(progress.paused(&contents, snapshot.partition())),
            Reached::StretchEnd => None,
        };
    }
    let partition = contents.partitions.get(&contents.arena, key.token.prefix(), &key.key);
    let (Some(partition), Start::After(after)) = (partition, first_row_after(progress.command, key)) else {
        return Some(ReadEnd::Exhausted);
    };
    progress.begin_partition(after.is_some());
    let mut cells = scratch.take().recycle();
    let reached = partition_stretch(&contents, &memtable.table(), partition, after, &mut cells, progress);
    scratch.set(cells.recycle());
    match reached {
        Reached::PartitionEnd => Some(ReadEnd::Exhausted),
        Reached::Stopped => Some(ReadEnd::Stopped),
        Reached::Paused => Some(progress.paused(&contents, partition)),
        Reached::StretchEnd => {
            *place = Place::Within(memtable.snapshot(partition));
            None
        }
    }
}

fn continue_partition(
    memtable: &Memtable,
    contents: &Contents,
    snapshot: &Snapshot,
    progress: &mut Progress<'_>,
    scratch: &CellScratch,
) -> Reached {
    let after = std::mem::take(&mut progress.last);
    let mut cells = scratch.take().recycle();
    let table = memtable.table();
    let reached = partition_stretch(contents, &table, snapshot.partition(), Some(&after), &mut cells, progress);
    scratch.set(cells.recycle());
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
        match continue_partition(memtable, contents, snapshot, progress, scratch) {
            Reached::PartitionEnd => *place = Place::After(decorated(contents, snapshot.partition())),
            Reached::Stopped => return Some(ReadEnd::Stopped),
            Reached::Paused => return Some(progress.paused(contents, snapshot.partition())),
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
                Start::After(_) => From::At(resume.token().prefix(), &resume.key.key),
                Start::Done => From::After(resume.token().prefix(), &resume.key.key),
            }
        }
        _ => range_start,
    };
    let until = if range.until == Token::MIN { u64::MAX } else { range.until.prefix() };
    let table = memtable.table();
    let mut cells = scratch.take().recycle();
    let mut end = Some(ReadEnd::Exhausted);
    for partition in contents.partitions.range(&contents.arena, from, until) {
        let after = match &command.resume {
            Some(resume) if resume.token() == partition.token && *resume.key.key == *partition.key(&contents.arena) => {
                resume.comparable.as_deref()
            }
            _ => None,
        };
        progress.begin_partition(after.is_some());
        let reached = partition_stretch(contents, &table, partition, after, &mut cells, progress);
        progress.stretch = progress.stretch.saturating_sub(1);
        match reached {
            Reached::Stopped => end = Some(ReadEnd::Stopped),
            Reached::Paused => end = Some(progress.paused(contents, partition)),
            Reached::StretchEnd => {
                *place = Place::Within(memtable.snapshot(partition));
                end = None;
            }
            Reached::PartitionEnd if progress.visit(0) => {
                let position = Position { key: decorated(contents, partition), comparable: None };
                end = Some(ReadEnd::Paused(Box::new(Resume { position, partition_rows: 0 })));
            }
            Reached::PartitionEnd if progress.stretch == 0 => {
                *place = Place::After(decorated(contents, partition));
                end = None;
            }
            Reached::PartitionEnd => continue,
        }
        break;
    }
    scratch.set(cells.recycle());
    end
}

fn decorated(contents: &Contents, partition: &Partition) -> DecoratedKey {
    DecoratedKey { token: partition.token, key: partition.key(&contents.arena).into() }
}

/// Gives the live rows of one partition after `after`, in read order, until the stretch or the read ends.
fn partition_stretch<'a, 'c: 'a>(
    contents: &'a Contents,
    table: &Table,
    partition: &'a Partition,
    after: Option<&'a [u8]>,
    cells: &mut LiveCells<'a>,
    progress: &mut Progress<'c>,
) -> Reached {
    let command = progress.command;
    if progress.partition_rows >= command.per_partition_max {
        return Reached::PartitionEnd;
    }
    let now = command.now_in_seconds;
    let mut cursor = PartitionCursor::new(&contents.arena, partition, &command.slices, command.reversed, after);
    let mut range_deletion = Deletion::LIVE;
    let (token, key) = (partition.token, partition.key(&contents.arena));
    cells.statics.clear();
    while let Some(fragment) = cursor.next_fragment() {
        match fragment {
            Fragment::PartitionStart { .. } => {}
            Fragment::PartitionEnd => break,
            Fragment::StaticRow { row } => {
                if command.wants_static {
                    live_cells(row, partition.deletion, now, &table.dropped, &mut cells.statics);
                }
            }
            Fragment::RangeMarker { deletion, .. } => {
                range_deletion = deletion;
                if progress.counts_dead {
                    progress.sink.dead(1);
                }
            }
            Fragment::Row { clustering, comparable, row } => {
                let deletion = partition.deletion.max(range_deletion);
                if progress.counts_dead {
                    progress.sink.dead(dead_cells(row, deletion, now));
                }
                if let Some(liveness) = live_cells(row, deletion, now, &table.dropped, &mut cells.row) {
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
    if command.static_only && !progress.seen_live && !cells.statics.is_empty() {
        let row = LiveRow {
            token,
            key,
            clustering: Clustering(&[]),
            comparable: &[],
            liveness: None,
            cells: &[],
            static_cells: &cells.statics,
            static_only: true,
        };
        return progress.give(&row).unwrap_or(Reached::PartitionEnd);
    }
    Reached::PartitionEnd
}

/// Puts the live cells of a row into `cells`. `None` if the row is not live, else its liveness if that is live.
fn live_cells<'a>(
    row: RowView<'a>,
    deletion: Deletion,
    now: i64,
    dropped: &[DroppedColumn],
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
        if !column_deleted
            && !deletion.deletes(cell.timestamp)
            && cell.value_at(now).is_some()
            && !is_dropped(&cell, dropped)
        {
            cells.push(cell);
        }
    }
    (liveness.is_some() || !cells.is_empty()).then_some(liveness)
}

/// The deletion and the dead cells of a row that nothing above it has deleted, as Cassandra counts them: not the deletions
/// of whole collections.
#[cold]
fn dead_cells(row: RowView<'_>, deletion: Deletion, now: i64) -> u64 {
    let deleted = u64::from(row.deletion().timestamp > deletion.timestamp);
    let deletion = deletion.max(row.deletion());
    let is_dead =
        |cell: &Cell<'_>| !matches!(cell.content, CellContent::ColumnDeletion { .. }) && cell.value_at(now).is_none();
    let dead = row.cells().filter(|cell| !deletion.deletes(cell.timestamp) && is_dead(cell));
    deleted + dead.count() as u64
}

/// Whether a cell was written before its column was dropped.
#[inline]
fn is_dropped(cell: &Cell<'_>, dropped: &[DroppedColumn]) -> bool {
    !dropped.is_empty() && dropped.iter().any(|column| column.id == cell.column && cell.timestamp <= column.dropped_at)
}
