//! How far a read is: rows given, rows visited, and why it ends.

use super::live::{live_cells, live_liveness};
use super::tap::Tap;
use crate::clustering::Clustering;
use crate::fragment::Fragment;
use crate::key::DecoratedKey;
use crate::query::{LiveRow, Position, ReadCommand, ReadEnd, Resume, RowSink, SinkState};
use crate::row::{Cell, Deletion, Liveness, RowView};
use crate::schema::Table;
use crate::token::Token;

/// A read under way.
pub struct ReadProgress<'c, T = ()> {
    /// What is read.
    pub command: &'c ReadCommand,
    /// Takes live rows.
    pub sink: &'c mut dyn RowSink,
    /// Takes the fragments that are visited.
    pub tap: T,
    /// Whether the sink does without cells.
    counts_only: bool,
    /// Whether the tap was given a row or marker of the partition under way, and its end.
    started: bool,
    ended: bool,
    /// Rows given so far.
    pub given: u64,
    /// Visits so far.
    pub visits: u64,
    /// Rows that this stretch may still visit.
    pub stretch: usize,
    /// The last row visited of a partition that the stretch or the read did not finish.
    pub last: Vec<u8>,
    /// Rows given of the partition under way.
    pub partition_rows: u64,
    /// Whether a live row of it was seen.
    pub seen_live: bool,
    /// Dead rows and cells that the sink has not been told of.
    pub dead: u64,
}

/// How far a stretch came in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reached {
    /// All its rows are done.
    PartitionEnd,
    /// The sink or the limit stopped the read.
    Stopped,
    /// The visits of the command are used up; [`ReadProgress::last`] says where.
    Paused,
    /// The stretch is over; [`ReadProgress::last`] says where.
    StretchEnd,
}

impl<'c, T: Tap> ReadProgress<'c, T> {
    /// The progress of a read that has not begun. `stretch` is how many rows may be visited before it may yield.
    pub fn new(command: &'c ReadCommand, sink: &'c mut dyn RowSink, tap: T, stretch: usize) -> ReadProgress<'c, T> {
        let counts_only = T::PASSES && !sink.takes_cells();
        ReadProgress {
            command,
            sink,
            tap,
            counts_only,
            started: false,
            ended: false,
            given: 0,
            visits: 0,
            stretch,
            last: Vec::new(),
            partition_rows: 0,
            seen_live: false,
            dead: 0,
        }
    }

    /// Tells the sink how many rows and cells were dead.
    #[inline]
    pub fn tell_dead(&mut self) {
        if self.dead > 0 {
            self.sink.dead(std::mem::take(&mut self.dead));
        }
    }

    /// Begins a partition; `resumed` says that earlier pages of the read gave some of its rows.
    #[inline]
    pub fn begin_partition(&mut self, resumed: bool) {
        self.partition_rows = if resumed { self.command.resume_partition_rows } else { 0 };
        self.seen_live = self.partition_rows > 0;
        if T::PASSES {
            (self.started, self.ended) = (false, false);
        }
    }

    /// Passes on the start of the partition under way and its static row, once, however often the read comes to it.
    #[inline]
    pub fn pass_head(&mut self, head: Fragment<'_>, shadow: Deletion) {
        if T::PASSES && !self.started {
            self.tap.fragment(head, shadow);
        }
    }

    /// Passes on a row.
    #[inline]
    pub fn pass_row(&mut self, row: Fragment<'_>, shadow: Deletion) {
        if T::PASSES {
            self.started = true;
            self.tap.fragment(row, shadow);
        }
    }

    /// Passes on a range marker. Returns whether the read must pause at it.
    #[inline]
    pub fn pass_marker(&mut self, marker: Fragment<'_>) -> bool {
        if !T::PASSES {
            return false;
        }
        self.started = true;
        self.tap.fragment(marker, Deletion::LIVE);
        match marker {
            // A row may be at the same place as a marker at the bound of a slice, which has no clustering, and a read
            // that goes on there would leave it out.
            Fragment::RangeMarker { clustering, comparable, .. } if !clustering.0.is_empty() && self.tap.is_full() => {
                self.last.clear();
                self.last.extend_from_slice(comparable);
                true
            }
            _ => false,
        }
    }

    /// Passes on the end of a partition whose rows were all visited.
    #[inline]
    pub fn pass_end(&mut self) {
        if T::PASSES {
            self.ended = true;
            self.tap.fragment(Fragment::PartitionEnd, Deletion::LIVE);
        }
    }

    /// The liveness of a row and its live cells, as by [`live_cells`]; without cells if the sink does without them.
    #[inline]
    pub fn live<'a>(
        &mut self,
        row: RowView<'a>,
        deletion: Deletion,
        table: &Table,
        cells: &mut Vec<Cell<'a>>,
    ) -> Option<Option<Liveness>> {
        let now = self.command.now_in_seconds;
        if T::PASSES && self.counts_only {
            let liveness = live_liveness(row, deletion, now);
            if liveness.is_some() {
                return Some(liveness);
            }
        }
        live_cells(row, deletion, now, table, cells, &mut self.dead)
    }

    /// Gives a row to the sink; `Some` if the partition or the read ends with it.
    #[inline]
    pub fn give(&mut self, row: &LiveRow<'_>) -> Option<Reached> {
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
        let is_cut = self.partition_rows >= self.command.per_partition_max;
        if T::PASSES && is_cut && !self.ended {
            self.tap.cut(row.comparable);
        }
        is_cut.then_some(Reached::PartitionEnd)
    }

    /// Counts the visit of a row of so many bytes; true if the command or the tap allows no more.
    #[inline]
    pub fn visit(&mut self, bytes: usize) -> bool {
        self.visits = self.visits.saturating_add((bytes as u64).div_ceil(ReadCommand::VISIT_BYTES).max(1));
        self.visits >= self.command.visits_max || self.tap.is_full()
    }

    /// Gives the static cells of a partition whose rows are all done, if it has no live row and the command asks for
    /// it.
    #[inline]
    pub fn give_static(&mut self, token: Token, key: &[u8], static_cells: &[Cell<'_>]) -> Option<Reached> {
        if !self.command.static_only || self.seen_live || static_cells.is_empty() {
            return None;
        }
        let (clustering, comparable, liveness, cells) = (Clustering(&[]), &[][..], None, &[][..]);
        let static_only = true;
        self.give(&LiveRow { token, key, clustering, comparable, liveness, cells, static_cells, static_only })
    }

    /// The end of a read that got as far as `reached` in a partition; `None` if it goes on with the next partition.
    #[inline]
    pub fn end(&mut self, reached: Reached, key: impl FnOnce() -> DecoratedKey) -> Option<ReadEnd> {
        match reached {
            Reached::Stopped => Some(ReadEnd::Stopped),
            Reached::Paused => Some(self.paused(key())),
            Reached::PartitionEnd | Reached::StretchEnd => None,
        }
    }

    /// The end of a read that was paused in a partition, at [`ReadProgress::last`].
    pub fn paused(&mut self, key: DecoratedKey) -> ReadEnd {
        let comparable = Some(std::mem::take(&mut self.last).into());
        let position = Position { key, comparable };
        ReadEnd::Paused(Box::new(Resume { position, partition_rows: self.partition_rows }))
    }

    /// Leaves a partition of a range, which counts as a visit; the end of the read if that was the last one.
    #[inline]
    pub fn leave_partition(&mut self, key: impl FnOnce() -> DecoratedKey) -> Option<ReadEnd> {
        self.stretch = self.stretch.saturating_sub(1);
        self.visit(0).then(|| {
            let position = Position { key: key(), comparable: None };
            ReadEnd::Paused(Box::new(Resume { position, partition_rows: 0 }))
        })
    }
}
