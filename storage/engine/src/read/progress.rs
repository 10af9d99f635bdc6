//! How far a read is: rows given, rows visited, and why it ends.

use model::mutation::Clustering;
use model::query::{LiveRow, Position, ReadCommand, ReadEnd, Resume, RowSink, SinkState};
use model::row::Cell;
use model::{DecoratedKey, Token};

/// A read under way.
pub(super) struct ReadProgress<'c> {
    pub(super) command: &'c ReadCommand,
    pub(super) sink: &'c mut dyn RowSink,
    /// Rows given so far.
    pub(super) given: u64,
    /// Visits so far.
    pub(super) visits: u64,
    /// Rows that this stretch may still visit.
    pub(super) stretch: usize,
    /// The last row visited of a partition that the stretch or the read did not finish.
    pub(super) last: Vec<u8>,
    /// Rows given of the partition under way.
    pub(super) partition_rows: u64,
    /// Whether a live row of it was seen.
    pub(super) seen_live: bool,
    /// Dead rows and cells that the sink has not been told of.
    pub(super) dead: u64,
}

/// How far a stretch came in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reached {
    /// All its rows are done.
    PartitionEnd,
    /// The sink or the limit stopped the read.
    Stopped,
    /// The visits of the command are used up; [`ReadProgress::last`] says where.
    Paused,
    /// The stretch is over; [`ReadProgress::last`] says where.
    StretchEnd,
}

impl<'c> ReadProgress<'c> {
    pub(super) fn new(command: &'c ReadCommand, sink: &'c mut dyn RowSink, stretch: usize) -> ReadProgress<'c> {
        let (last, partition_rows) = (Vec::new(), 0);
        ReadProgress { command, sink, given: 0, visits: 0, stretch, last, partition_rows, seen_live: false, dead: 0 }
    }

    /// Tells the sink how many rows and cells were dead.
    pub(super) fn tell_dead(&mut self) {
        if self.dead > 0 {
            self.sink.dead(std::mem::take(&mut self.dead));
        }
    }

    /// Begins a partition; `resumed` says that earlier pages of the read gave some of its rows.
    pub(super) fn begin_partition(&mut self, resumed: bool) {
        self.partition_rows = if resumed { self.command.resume_partition_rows } else { 0 };
        self.seen_live = self.partition_rows > 0;
    }

    /// Gives a row to the sink; `Some` if the partition or the read ends with it.
    pub(super) fn give(&mut self, row: &LiveRow<'_>) -> Option<Reached> {
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

    /// Counts the visit of a row of so many bytes; true if the command allows no more.
    pub(super) fn visit(&mut self, bytes: usize) -> bool {
        self.visits = self.visits.saturating_add((bytes as u64).div_ceil(ReadCommand::VISIT_BYTES).max(1));
        self.visits >= self.command.visits_max
    }

    /// Gives the static cells of a partition whose rows are all done, if it has no live row and the command asks for
    /// it.
    pub(super) fn give_static(&mut self, token: Token, key: &[u8], static_cells: &[Cell<'_>]) -> Option<Reached> {
        if !self.command.static_only || self.seen_live || static_cells.is_empty() {
            return None;
        }
        let (clustering, comparable, liveness, cells) = (Clustering(&[]), &[][..], None, &[][..]);
        let static_only = true;
        self.give(&LiveRow { token, key, clustering, comparable, liveness, cells, static_cells, static_only })
    }

    /// The end of a read that got as far as `reached` in a partition; `None` if it goes on with the next partition.
    pub(super) fn end(&mut self, reached: Reached, key: impl FnOnce() -> DecoratedKey) -> Option<ReadEnd> {
        match reached {
            Reached::Stopped => Some(ReadEnd::Stopped),
            Reached::Paused => Some(self.paused(key())),
            Reached::PartitionEnd | Reached::StretchEnd => None,
        }
    }

    /// The end of a read that was paused in a partition, at [`ReadProgress::last`].
    pub(super) fn paused(&mut self, key: DecoratedKey) -> ReadEnd {
        let comparable = Some(std::mem::take(&mut self.last).into());
        let position = Position { key, comparable };
        ReadEnd::Paused(Box::new(Resume { position, partition_rows: self.partition_rows }))
    }

    /// Leaves a partition of a range, which counts as a visit; the end of the read if that was the last one.
    pub(super) fn leave_partition(&mut self, key: impl FnOnce() -> DecoratedKey) -> Option<ReadEnd> {
        self.stretch = self.stretch.saturating_sub(1);
        self.visit(0).then(|| {
            let position = Position { key: key(), comparable: None };
            ReadEnd::Paused(Box::new(Resume { position, partition_rows: 0 }))
        })
    }
}
