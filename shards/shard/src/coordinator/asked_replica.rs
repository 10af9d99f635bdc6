//! The replicas that a read asks, and what its client gets for their answers: carries out the read plans of `cluster`.

use crate::replica;
use cluster::placement::{Replica, TablePlacement};
use cluster::plan::{PartitionReadPlan, RangePiece, Turn};
use cluster::topology::Topology;
use model::failure::FailureReason;
use model::{Consistency, DecoratedKey, Failure, TokenRange};

/// The plan of a read of one partition at `level`.
///
/// # Errors
/// Unavailable if too few replicas are alive.
#[inline]
pub(crate) fn plan_of(
    placement: &TablePlacement,
    level: Consistency,
    key: &DecoratedKey,
) -> Result<PartitionReadPlan, Failure> {
    PartitionReadPlan::new(level, placement.replicas(key.token, &key.key), placement.live())
}

/// The pieces of a read of a range at `level`. Fails as [`plan_of`] does.
pub(crate) fn pieces_of(
    placement: &TablePlacement,
    level: Consistency,
    range: &TokenRange,
) -> Result<Vec<RangePiece>, Failure> {
    RangePiece::all(level, placement, range, placement.live())
}

/// The replica that a partition is read from first, and the plan by which others are asked too, or in its place.
#[derive(Clone)]
pub(crate) struct AskedReplica {
    pub(crate) plan: PartitionReadPlan,
    /// The replica.
    pub(crate) replica: Replica,
}

impl AskedReplica {
    /// The replica to read a partition from at `level`. Fails as [`plan_of`] does.
    #[inline]
    pub(crate) fn of_partition(
        placement: &TablePlacement,
        level: Consistency,
        key: &DecoratedKey,
    ) -> Result<AskedReplica, Failure> {
        let plan = plan_of(placement, level, key)?;
        let (replica, _) = plan.targets().next().ok_or_else(no_replica)?;
        Ok(AskedReplica { plan, replica })
    }

    /// The same of a hot partition, whose replicas are asked in turn.
    pub(crate) fn in_turn(
        placement: &TablePlacement,
        level: Consistency,
        key: &DecoratedKey,
        turn: Turn,
    ) -> Result<AskedReplica, Failure> {
        let replicas = placement.replicas(key.token, &key.key);
        let plan = PartitionReadPlan::spread(level, replicas, placement.live(), turn)?;
        let (replica, _) = plan.targets().next().ok_or_else(no_replica)?;
        Ok(AskedReplica { plan, replica })
    }

    /// Takes the replica's last answer.
    #[inline]
    pub(crate) fn answered(mut self) {
        self.plan.answered(self.replica);
    }

    /// Takes the replica's result: its answer, or the failure that the client gets if no other replica is asked.
    /// `topology` is that of the placement.
    pub(crate) fn finish<T>(self, topology: &Topology, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Ok(answer) => {
                self.answered();
                Ok(answer)
            }
            Err(failure) => Err(self.failed(topology, failure)),
        }
    }

    /// The failure that the client gets if all replicas fail as this one did.
    #[cold]
    pub(crate) fn failed(mut self, topology: &Topology, failure: Failure) -> Failure {
        self.plan.refused(&failure, topology)
    }

    /// The failure that the client gets because the replicas met too many tombstones.
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

/// The failure of a replica that met too many tombstones.
pub(crate) fn too_many_tombstones() -> Failure {
    replica::read_failure(FailureReason::ReadTooManyTombstones, "too many tombstones".into())
}

/// The failure of a read whose plan names no replica that could be asked.
pub(crate) fn no_replica() -> Failure {
    Failure::server("A read found no replica to ask")
}
