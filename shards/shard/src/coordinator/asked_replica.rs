//! The replica that a read asks, and what its client gets for the answer: carries out the read plans of `cluster` on a
//! node that is the only one, so that each partition and range has one replica.

use crate::replica;
use crate::shard_state::Shard;
use cluster::placement::{Replica, TablePlacement};
use cluster::plan::{NextRead, PartitionReadPlan, RangeReadPlan};
use model::failure::FailureReason;
use model::{Consistency, Failure, Token, TokenRange};

/// A replica that was asked, and what its client gets if it does not answer.
pub(crate) struct AskedReplica {
    plan: AnswerPlan,
    /// The replica. Of a range it stands for all cores of the node that have partitions of the table.
    pub(crate) replica: Replica,
}

enum AnswerPlan {
    Partition(PartitionReadPlan),
    Range(Box<RangeReadPlan>),
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
        token: Token,
    ) -> Result<AskedReplica, Failure> {
        let plan = PartitionReadPlan::new(level, placement.replicas(token), placement.live())?;
        let (replica, _) = plan.targets().next().ok_or_else(no_replica)?;
        Ok(AskedReplica { plan: AnswerPlan::Partition(plan), replica })
    }

    /// The node to read a range from at `level`. Fails as [`AskedReplica::of_partition`] does.
    pub(crate) fn of_range(
        placement: &TablePlacement,
        level: Consistency,
        range: &TokenRange,
    ) -> Result<AskedReplica, Failure> {
        let first = range.start.as_ref().map_or(Token::MIN, |start| start.token.token());
        let last = range.end.as_ref().map_or(Token::MAX, |end| end.token.token());
        let plan = RangeReadPlan::new(level, placement, (first, last), placement.live())?;
        // This node is the only one, so the range is one piece.
        let (replica, _) = plan.targets(0).next().ok_or_else(no_replica)?;
        Ok(AskedReplica { plan: AnswerPlan::Range(Box::new(plan)), replica })
    }

    /// Takes the replica's last answer.
    #[inline]
    pub(crate) fn answered(mut self) {
        match &mut self.plan {
            AnswerPlan::Partition(plan) => plan.answered(self.replica),
            AnswerPlan::Range(plan) => plan.answered(0, self.replica),
        };
    }

    /// Takes the replica's result: its answer, or the failure that the client gets for that of the replica.
    pub(crate) fn finish<T>(self, shard: &Shard, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Ok(answer) => {
                self.answered();
                Ok(answer)
            }
            Err(failure) => Err(self.failed(shard, failure)),
        }
    }

    /// Takes the replica's result as [`AskedReplica::finish`] does, or the end of the request's time.
    pub(crate) fn finish_in_time<T>(self, shard: &Shard, result: Option<Result<T, Failure>>) -> Result<T, Failure> {
        match result {
            Some(result) => self.finish(shard, result),
            None => Err(self.expired()),
        }
    }

    /// The failure that the client gets for that of the replica.
    #[cold]
    pub(crate) fn failed(mut self, shard: &Shard, failure: Failure) -> Failure {
        let topology = &shard.topology();
        let next = match &mut self.plan {
            AnswerPlan::Partition(plan) => plan.failed(self.replica, failure, topology),
            AnswerPlan::Range(plan) => plan.failed(0, self.replica, failure, topology),
        };
        match next {
            Some(NextRead::Fail(failure)) => failure,
            // This node is the only one, so there is no other replica to ask.
            Some(NextRead::Ask(..) | NextRead::Complete) | None => no_replica(),
        }
    }

    /// The failure that the client gets because the replica met too many tombstones.
    #[cold]
    pub(crate) fn met_too_many_tombstones(self, shard: &Shard) -> Failure {
        let reason = FailureReason::ReadTooManyTombstones;
        self.failed(shard, replica::read_failure(reason, "too many tombstones".into()))
    }

    /// The failure that the client gets when the request's time has ended.
    #[cold]
    pub(crate) fn expired(mut self) -> Failure {
        match &mut self.plan {
            AnswerPlan::Partition(plan) => plan.expired(),
            AnswerPlan::Range(plan) => plan.expired(),
        }
    }
}

/// The failure of a read whose plan names no replica that could be asked.
fn no_replica() -> Failure {
    Failure::server("A read found no replica to ask")
}
