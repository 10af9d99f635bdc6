//! A reconciling read: the fragments of several replicas, merged and shaped like those of one that has everything.
//!
//! 1. Every replica is asked for [`ReconcilingRead::command`] and answers with a [`FragmentBlock`].
//! 2. [`ReconcilingRead::take`] merges the blocks and gives the live rows to the sink, up to the *frontier*: the first
//!    place, in read order, behind which one of the replicas may have more.
//! 3. If the read has not ended there, the replicas are asked again for what comes behind the frontier. So a limit that
//!    a replica applied to rows which another has deleted leaves no row out.
//!
//! A partition that a replica cut at its PER PARTITION LIMIT has a frontier of its own: where the limit is not reached
//! before it, the read goes on there.
//!
//! Invariants: every round gets behind at least one row, or behind a range marker or partition without rows; all rows
//! of a partition have the static cells that its first round saw.

use super::live::{live_cells, recycle};
use super::progress::{Reached, ReadProgress};
use crate::fragment::{Cursor, Fragment, FragmentStep};
use crate::fragment_block::{FragmentBlock, FragmentBlockCursor};
use crate::key::DecoratedKey;
use crate::merge::{EqualKeys, Merge};
use crate::partitioner::Partitioner;
use crate::query::{LiveRow, Partitions, Position, ReadCommand, ReadEnd, Resume, RowSink};
use crate::row::{Deletion, RowView};
use crate::schema::Table;
use crate::token::Token;
use std::borrow::Borrow;

/// A reconciling read under way.
#[derive(Clone, Debug)]
pub struct ReconcilingRead {
    command: ReadCommand,
    /// Whether earlier rounds saw a live row of the partition in which the read goes on.
    seen_live: bool,
    /// The static row of that partition, as the round that began it saw it; `None` if the read goes on with another.
    static_row: Option<Vec<u8>>,
}

impl ReconcilingRead {
    /// A read of `command` that has not begun.
    pub fn new(command: ReadCommand) -> ReconcilingRead {
        ReconcilingRead { command, seen_live: false, static_row: None }
    }

    /// What every replica is asked for next.
    pub fn command(&self) -> &ReadCommand {
        &self.command
    }

    /// Gives the live rows of the merged answers of all replicas to [`ReconcilingRead::command`] to `sink`. Returns how
    /// the read ended, or `None` if the replicas must be asked again.
    pub fn take<B: Borrow<FragmentBlock>>(
        &mut self,
        table: &Table,
        answers: &[B],
        sink: &mut dyn RowSink,
    ) -> Option<ReadEnd> {
        let reversed = self.command.reversed;
        let frontier = frontier_of(answers.iter().map(B::borrow), reversed);
        let mut progress = ReadProgress::new(&self.command, sink, (), usize::MAX);
        let Some(partitioner) = answers.first().map(|first| first.borrow().partitioner()) else {
            return Some(ReadEnd::Exhausted);
        };
        let resumed = Resumed { seen_live: self.seen_live, static_row: self.static_row.take() };
        let shaped = match answers {
            [only] => {
                shape(FragmentBlockCursor::new(only.borrow()), partitioner, frontier, table, resumed, &mut progress)
            }
            _ => {
                let cursors = answers.iter().map(|block| FragmentBlockCursor::new(block.borrow())).collect();
                let merge = Merge::new(partitioner, cursors, reversed).with_keys(EqualKeys::of(table));
                shape(MergedBlocks { merge, reversed }, partitioner, frontier, table, resumed, &mut progress)
            }
        };
        let (given, visits, seen_live) = (progress.given, progress.visits, progress.seen_live);
        let resume = match shaped {
            Shaped::Ended(end) => return Some(end),
            Shaped::Frontier(resume, static_row) => {
                self.static_row = static_row;
                resume
            }
        };
        // A read that has given all its rows, or made all its visits, has ended.
        let command = &mut self.command;
        command.rows_max = command.rows_max.saturating_sub(given);
        if command.visits_max != u64::MAX {
            command.visits_max = command.visits_max.saturating_sub(visits);
        }
        self.seen_live = seen_live && resume.position.comparable.is_some();
        command.resume = Some(resume.position);
        command.resume_partition_rows = resume.partition_rows;
        None
    }
}

/// The first place, in read order, behind which one of the blocks does not know everything; `None` if they all do.
pub(super) fn frontier_of<'b>(blocks: impl Iterator<Item = &'b FragmentBlock>, reversed: bool) -> Option<Position> {
    blocks.filter_map(FragmentBlock::stopped_at).min_by(|a, b| a.read_order(b, reversed))
}

/// The place up to which all blocks that have the partition `key` know it; `None` if they know all of it.
pub(super) fn cut_of<'s, 'b: 's>(
    sources: impl Iterator<Item = &'s FragmentBlockCursor<'b>>,
    key: (Token, &[u8]),
    reversed: bool,
) -> Option<&'b [u8]> {
    let cuts = sources.filter(|source| source.key() == key).filter_map(FragmentBlockCursor::cut);
    if reversed { cuts.max() } else { cuts.min() }
}

/// The fragments of one block, or of several that are merged. `'b` is the life of the blocks.
trait Fragments<'b> {
    /// Moves to the next fragment; false if there is none.
    fn step(&mut self) -> bool;

    fn fragment(&self) -> Option<Fragment<'_>>;

    /// The partition under way.
    fn key(&self) -> (Token, &[u8]);

    /// At the start of a partition: the place up to which all blocks know it; `None` if they know all of it.
    fn known_until(&self) -> Option<&'b [u8]>;

    fn skip_partition(&mut self);
}

impl<'b> Fragments<'b> for FragmentBlockCursor<'b> {
    #[inline]
    fn step(&mut self) -> bool {
        FragmentBlockCursor::step(self)
    }

    #[inline]
    fn fragment(&self) -> Option<Fragment<'_>> {
        Cursor::fragment(self)
    }

    fn key(&self) -> (Token, &[u8]) {
        FragmentBlockCursor::key(self)
    }

    fn known_until(&self) -> Option<&'b [u8]> {
        self.cut()
    }

    fn skip_partition(&mut self) {
        Cursor::skip_partition(self);
    }
}

struct MergedBlocks<'b> {
    merge: Merge<FragmentBlockCursor<'b>>,
    reversed: bool,
}

impl<'b> Fragments<'b> for MergedBlocks<'b> {
    fn step(&mut self) -> bool {
        matches!(self.merge.advance(), Ok(FragmentStep::Fragment))
    }

    fn fragment(&self) -> Option<Fragment<'_>> {
        self.merge.fragment()
    }

    fn key(&self) -> (Token, &[u8]) {
        self.merge.key()
    }

    fn known_until(&self) -> Option<&'b [u8]> {
        cut_of(self.merge.sources(), self.merge.key(), self.reversed)
    }

    fn skip_partition(&mut self) {
        self.merge.skip_partition();
    }
}

/// How far the shaping of a round came.
enum Shaped {
    Ended(ReadEnd),
    /// To the place behind which the blocks do not know everything; with the static row of the partition that it is in,
    /// if that has begun.
    Frontier(Resume, Option<Vec<u8>>),
}

/// What earlier rounds know of the partition in which the read resumes.
struct Resumed {
    /// Whether a live row of it was seen.
    seen_live: bool,
    /// See [`ReconcilingRead::static_row`].
    static_row: Option<Vec<u8>>,
}

/// Shapes the partitions of the blocks.
fn shape<'b>(
    mut fragments: impl Fragments<'b>,
    partitioner: Partitioner,
    frontier: Option<Position>,
    table: &Table,
    mut resumed: Resumed,
    progress: &mut ReadProgress<'_>,
) -> Shaped {
    let command = progress.command;
    let mut room = PartitionRoom::default();
    let mut last = None;
    while fragments.step() {
        let (token, key) = fragments.key();
        let key = DecoratedKey { token, partitioner, key: key.into() };
        if frontier.as_ref().is_some_and(|frontier| frontier.key < key) {
            break;
        }
        let resumes = command.resume.as_ref().is_some_and(|resume| resume.key == key && resume.comparable.is_some());
        progress.begin_partition(resumes);
        progress.seen_live |= resumes && resumed.seen_live;
        let static_row = resumed.static_row.take().filter(|_| resumes);
        let known_until = fragments.known_until();
        match shape_partition(&mut fragments, known_until, table, static_row, progress, &mut room) {
            None => {
                let position = Position { key, comparable: known_until.map(Into::into) };
                let resume = Resume { position, partition_rows: progress.partition_rows };
                return Shaped::Frontier(resume, Some(room.static_row));
            }
            Some(Reached::Stopped) => return Shaped::Ended(ReadEnd::Stopped),
            Some(Reached::Paused) => return Shaped::Ended(progress.paused(key)),
            Some(Reached::PartitionEnd | Reached::StretchEnd) => {}
        }
        if matches!(command.partitions, Partitions::Key(_)) {
            return Shaped::Ended(ReadEnd::Exhausted);
        }
        if let Some(end) = progress.leave_partition(|| key.clone()) {
            return Shaped::Ended(end);
        }
        if !matches!(fragments.fragment(), Some(Fragment::PartitionEnd)) {
            fragments.skip_partition();
        }
        last = Some(key);
    }
    match frontier {
        None => Shaped::Ended(ReadEnd::Exhausted),
        Some(Position { key, comparable }) => {
            // No more rows of a partition that was left are asked for.
            let comparable = comparable.filter(|_| last.as_ref() != Some(&key));
            Shaped::Frontier(Resume { position: Position { key, comparable }, partition_rows: 0 }, None)
        }
    }
}

/// Memory for the rows of a partition.
#[derive(Default)]
struct PartitionRoom {
    static_row: Vec<u8>,
    cells: super::live::LiveCells<'static>,
}

/// Gives the live rows of the partition that the fragments are at the start of, with `static_row` if an earlier round
/// has begun it. `None`: all that is known was given, and there may be more.
fn shape_partition<'b>(
    fragments: &mut impl Fragments<'b>,
    known_until: Option<&[u8]>,
    table: &Table,
    static_row: Option<Vec<u8>>,
    progress: &mut ReadProgress<'_>,
    room: &mut PartitionRoom,
) -> Option<Reached> {
    let command = progress.command;
    if progress.partition_rows >= command.per_partition_max {
        return Some(Reached::PartitionEnd);
    }
    let now = command.now_in_seconds;
    let is_known = |comparable: &[u8]| match known_until {
        None => true,
        Some(place) if command.reversed => comparable >= place,
        Some(place) => comparable <= place,
    };
    let mut more = fragments.step();
    room.static_row.clear();
    if let Some(Fragment::StaticRow { row }) = fragments.fragment() {
        if command.wants_static {
            room.static_row.extend_from_slice(row.blob());
        }
        more = fragments.step();
    }
    if let Some(static_row) = static_row {
        room.static_row = static_row;
    }
    let scratch = std::mem::take(&mut room.cells);
    let (mut row_room, mut statics) = (scratch.row, recycle(scratch.statics));
    if !room.static_row.is_empty() {
        let row = RowView::trusted(&room.static_row);
        live_cells(row, Deletion::LIVE, now, table, &mut statics, &mut progress.dead);
    }
    let mut reached = None;
    let mut is_whole = true;
    while more && reached.is_none() {
        let (token, key) = fragments.key();
        match fragments.fragment() {
            Some(Fragment::Row { comparable, .. }) if !is_known(comparable) => {
                is_whole = false;
                break;
            }
            Some(Fragment::Row { clustering, comparable, row }) => {
                let mut cells = recycle(row_room);
                let live = live_cells(row, Deletion::LIVE, now, table, &mut cells, &mut progress.dead);
                progress.tell_dead();
                if let Some(liveness) = live {
                    let (cells, static_cells, static_only) = (&*cells, &*statics, false);
                    reached = progress.give(&LiveRow {
                        token,
                        key,
                        clustering,
                        comparable,
                        liveness,
                        cells,
                        static_cells,
                        static_only,
                    });
                }
                row_room = recycle(cells);
                if reached.is_none() && progress.visit(row.blob().len()) {
                    progress.last.clear();
                    progress.last.extend_from_slice(comparable);
                    reached = Some(Reached::Paused);
                }
            }
            Some(Fragment::RangeMarker { .. }) => progress.dead += 1,
            _ => break,
        }
        if reached.is_none() {
            more = fragments.step();
        }
    }
    progress.tell_dead();
    if reached.is_none() && is_whole && known_until.is_none() {
        let (token, key) = fragments.key();
        reached = Some(progress.give_static(token, key, &statics).unwrap_or(Reached::PartitionEnd));
    }
    room.cells.statics = recycle(statics);
    room.cells.row = row_room;
    reached
}
