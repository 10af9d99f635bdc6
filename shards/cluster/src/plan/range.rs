//! Reads of a part of the ring: its ranges with the replicas of each, and what they have answered.

use super::read::{Form, NextRead, Reads};
use crate::placement::{Replica, RingRange, TablePlacement};
use crate::topology::{LiveNodes, Topology};
use model::{Consistency, Failure, TokenRange};
use smallvec::SmallVec;

/// The read of a part of the ring: pieces in ascending order, each read by itself.
///
/// A replica of a piece stands for all cores of its node that have partitions of the table
/// ([`TablePlacement::shards_of`]), because the tokens of a core are scattered over the ring.
#[derive(Debug)]
pub struct RangeReadPlan {
    pieces: SmallVec<[PieceReads; 1]>,
}

#[derive(Debug)]
struct PieceReads {
    /// Keys that have the same replicas.
    piece: TokenRange,
    reads: Reads,
    complete: bool,
}

impl RangeReadPlan {
    /// A read of the keys in `limits` of a table, at `level`.
    ///
    /// # Errors
    /// Unavailable if too few replicas of any piece are alive.
    pub fn new(
        level: Consistency,
        table: &TablePlacement,
        limits: &TokenRange,
        live: &LiveNodes,
    ) -> Result<RangeReadPlan, Failure> {
        let requirement = table.keyspace().levels().required(level);
        let reads = |range: RingRange<'_>| {
            let reads = Reads::new(requirement, table.replicas_of(&range), live)?;
            Ok(PieceReads { piece: range.within(limits), reads, complete: false })
        };
        let pieces = table.keyspace().ranges(limits).map(reads).collect::<Result<_, Failure>>()?;
        Ok(RangeReadPlan { pieces })
    }

    /// A read of the keys in `limits` of a table, at `level`, from the first of the natural replicas of each piece
    /// alone. Neighbouring pieces with the same first replica are one.
    ///
    /// # Errors
    /// Unavailable if too few replicas of any piece are alive for the level, or the first of one is not.
    pub fn of_first(
        level: Consistency,
        table: &TablePlacement,
        limits: &TokenRange,
        live: &LiveNodes,
    ) -> Result<RangeReadPlan, Failure> {
        let requirement = table.keyspace().levels().required(level);
        let mut pieces: SmallVec<[PieceReads; 1]> = SmallVec::new();
        let mut before = None;
        for range in table.keyspace().ranges(limits) {
            let reads = Reads::of_first(requirement, table.replicas_of(&range), live)?;
            let piece = range.within(limits);
            match pieces.last_mut().filter(|_| range.nodes.first() == before) {
                Some(last) => last.piece.end = piece.end,
                None => pieces.push(PieceReads { piece, reads, complete: false }),
            }
            before = range.nodes.first();
        }
        Ok(RangeReadPlan { pieces })
    }

    /// The pieces; the other methods name one by its position here.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = &TokenRange> + '_ {
        self.pieces.iter().map(|one| &one.piece)
    }

    /// The replicas of a piece to ask at first.
    pub fn targets(&self, piece: usize) -> impl Iterator<Item = (Replica, Form)> + '_ {
        self.pieces.get(piece).into_iter().flat_map(|one| one.reads.targets())
    }

    /// Takes a replica's last answer about a piece.
    pub fn answered(&mut self, piece: usize, replica: Replica) -> Option<NextRead> {
        let one = &mut self.pieces[piece];
        one.complete |= one.reads.answered(replica);
        (one.complete && self.pieces.iter().all(|one| one.complete)).then_some(NextRead::Complete)
    }

    /// Takes the news that a replica cannot answer about a piece.
    pub fn failed(
        &mut self,
        piece: usize,
        replica: Replica,
        failure: Failure,
        topology: &Topology,
    ) -> Option<NextRead> {
        self.pieces[piece].reads.failed(replica, failure, topology)
    }

    /// Takes the end of the request's time: the failure that the client gets, with the counts of the first piece that
    /// is not complete.
    pub fn expired(&mut self) -> Failure {
        let open = self.pieces.iter().position(|one| !one.complete).unwrap_or(0);
        self.pieces[open].reads.expired()
    }
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
