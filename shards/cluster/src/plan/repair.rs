//! Read repair of one partition: which replicas must have what they lack before a read is answered.
//!
//! 1. A replica that took part in the read and lacks nothing counts at once; each of the others, when it has
//!    acknowledged what it lacks.
//! 2. The read is answered when as many count as its level needs: whoever reads later at that level sees no less.
//! 3. When acknowledgements are late, or a replica has failed, the replicas that took no part in the read are sent
//!    what is unacknowledged ([`RepairPlan::spread`]). Their acknowledgements count like those of the others.
//! 4. A repair that does not come about is a read that has timed out, after all replicas have given their data.
//!
//! A read at EACH_QUORUM needs the majority of each data centre here too, where Cassandra counts the acknowledgements
//! of all of them together.

use super::read::PartitionReadPlan;
use super::tally::{State, Tally, read_timed_out};
use crate::placement::Replica;
use model::Failure;
use model::failure::FailureReason;
use smallvec::SmallVec;

/// The repair of one partition.
#[derive(Clone, Debug)]
pub struct RepairPlan {
    tally: Tally,
}

impl RepairPlan {
    /// The repair of what `read` has found, which is complete. `lacks` tells of each replica that has answered whether
    /// it is sent a repair.
    pub fn of(read: &PartitionReadPlan, lacks: impl Fn(Replica) -> bool) -> RepairPlan {
        let read = read.tally();
        let mut tally = read.unasked();
        for (at, member) in read.members().iter().enumerate() {
            if member.state != State::Answered {
                continue;
            }
            let replica = tally.ask(at);
            if !lacks(replica) {
                tally.answered(replica);
            }
        }
        RepairPlan { tally }
    }

    /// Whether enough replicas have everything.
    pub fn is_done(&self) -> bool {
        self.tally.is_reached()
    }

    /// Whether the replicas that were sent a repair cannot be enough any more, unless others are sent it as well.
    pub fn is_out_of_reach(&self) -> bool {
        self.tally.is_out_of_reach()
    }

    /// Takes the acknowledgement of a replica that was sent a repair.
    pub fn acknowledged(&mut self, replica: Replica) {
        self.tally.answered(replica);
    }

    /// Takes the news that a replica was not repaired.
    pub fn failed(&mut self, replica: Replica) {
        self.tally.failed(replica, FailureReason::Unknown);
    }

    /// The replicas that took no part in the read. They are to be sent all repairs that are not acknowledged.
    pub fn spread(&mut self) -> SmallVec<[Replica; 2]> {
        let spare = |at: &usize| self.tally.members()[*at].state == State::Spare;
        let spares: SmallVec<[usize; 2]> = (0..self.tally.members().len()).filter(spare).collect();
        spares.into_iter().map(|at| self.tally.ask(at)).collect()
    }

    /// The failure of the read, if the repair does not come about in time.
    pub fn expired(&self) -> Failure {
        read_timed_out(&self.tally, true)
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
