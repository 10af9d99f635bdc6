//! The replicas that a read asks, and what its client gets for their answers: carries out the read plans of `cluster`.
//! Each partition, and each piece of a range, is read from its first natural replica.

use crate::replica;
use cluster::placement::{Replica, TablePlacement};
use cluster::plan::{NextRead, PartitionReadPlan, RangeReadPlan};
use cluster::topology::Topology;
use model::failure::FailureReason;
use model::{Consistency, DecoratedKey, Failure, TokenRange};
use std::rc::Rc;

/// A replica that was asked for a partition, and what its client gets if it does not answer.
pub(crate) struct AskedReplica {
    plan: PartitionReadPlan,
    /// The replica.
    pub(crate) replica: Replica,
}

impl AskedReplica {
    /// The replica to read a partition from at `level`.
    ///
    /// # Errors
    /// Unavailable if too few replicas are alive.
    #[inline]
    pub(crate) fn of_partition(
        placement: &TablePlacement,
        level: Consistency,
        key: &DecoratedKey,
    ) -> Result<AskedReplica, Failure> {
        let plan = PartitionReadPlan::of_first(level, placement.replicas(key.token, &key.key), placement.live())?;
        let (replica, _) = plan.targets().next().ok_or_else(no_replica)?;
        Ok(AskedReplica { plan, replica })
    }

    /// Takes the replica's last answer.
    #[inline]
    pub(crate) fn answered(mut self) {
        self.plan.answered(self.replica);
    }

    /// Takes the replica's result: its answer, or the failure that the client gets for that of the replica. `topology`
    /// is that of the placement.
    pub(crate) fn finish<T>(self, topology: &Topology, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Ok(answer) => {
                self.answered();
                Ok(answer)
            }
            Err(failure) => Err(self.failed(topology, failure)),
        }
    }

    /// Takes the replica's result as [`AskedReplica::finish`] does, or the end of the request's time.
    pub(crate) fn finish_in_time<T>(
        self,
        topology: &Topology,
        result: Option<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match result {
            Some(result) => self.finish(topology, result),
            None => Err(self.expired()),
        }
    }

    /// The failure that the client gets for that of the replica.
    #[cold]
    pub(crate) fn failed(mut self, topology: &Topology, failure: Failure) -> Failure {
        told(self.plan.failed(self.replica, failure, topology))
    }

    /// The failure that the client gets because the replica met too many tombstones.
    #[cold]
    pub(crate) fn met_too_many_tombstones(self, topology: &Topology) -> Failure {
        self.failed(topology, too_many_tombstones())
    }

    /// The failure that the client gets when the request's time has ended.
    #[cold]
    pub(crate) fn expired(mut self) -> Failure {
        self.plan.expired()
    }
}

/// The replicas that were asked for the pieces of a range.
pub(crate) struct AskedRange {
    plan: RangeReadPlan,
    topology: Rc<Topology>,
    pieces: Vec<Piece>,
}

/// A piece of a range, and the replica that is asked for it. It stands for all cores of its node that have partitions
/// of the table.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) range: TokenRange,
    pub(crate) replica: Replica,
}

impl AskedRange {
    /// The replicas to read a range from at `level`. Fails as [`AskedReplica::of_partition`] does.
    pub(crate) fn new(
        placement: &TablePlacement,
        level: Consistency,
        range: &TokenRange,
    ) -> Result<AskedRange, Failure> {
        let plan = RangeReadPlan::of_first(level, placement, range, placement.live())?;
        let piece = |(at, range): (usize, &TokenRange)| {
            let (replica, _) = plan.targets(at).next().ok_or_else(no_replica)?;
            Ok(Piece { range: range.clone(), replica })
        };
        let pieces = plan.pieces().enumerate().map(piece).collect::<Result<_, Failure>>()?;
        Ok(AskedRange { plan, topology: placement.keyspace().topology().clone(), pieces })
    }

    /// The pieces in ascending order.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The failure that the client gets for that of a piece.
    #[cold]
    pub(crate) fn failed(&mut self, piece: usize, failure: Failure) -> Failure {
        told(self.plan.failed(piece, self.pieces[piece].replica, failure, &self.topology))
    }

    /// The failure that the client gets because a piece has too many tombstones.
    #[cold]
    pub(crate) fn met_too_many_tombstones(mut self) -> Failure {
        self.failed(0, too_many_tombstones())
    }

    /// The failure that the client gets when the request's time has ended.
    #[cold]
    pub(crate) fn expired(mut self) -> Failure {
        self.plan.expired()
    }
}

/// The failure of a replica that met too many tombstones.
pub(crate) fn too_many_tombstones() -> Failure {
    replica::read_failure(FailureReason::ReadTooManyTombstones, "too many tombstones".into())
}

/// What the client gets if a plan goes on with `next` after a failure.
fn told(next: Option<NextRead>) -> Failure {
    match next {
        Some(NextRead::Fail(failure)) => failure,
        // Only the first replica has the data, so there is no other one to ask.
        Some(NextRead::Ask(..) | NextRead::Complete) | None => no_replica(),
    }
}

/// The failure of a read whose plan names no replica that could be asked.
fn no_replica() -> Failure {
    Failure::server("A read found no replica to ask")
}
