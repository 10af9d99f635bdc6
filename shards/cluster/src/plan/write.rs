//! Writes: a mutation goes to all live replicas, natural and pending, and its client is answered when enough of them
//! have it.

use super::tally::{OnlyReplica, Tally, reason_of, timed_out_text};
use crate::consistency::{Requirement, Scope, number};
use crate::placement::{Replica, Replicas};
use crate::topology::{LiveNodes, Topology};
use model::failure::{Detail, FailureReason, Outcome};
use model::{Consistency, ErrorCode, Failure};
use smallvec::SmallVec;

/// The kind of a write, as errors name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteType {
    /// A mutation of one partition.
    Simple,
    /// A logged batch that is in the batch log.
    Batch,
    /// Several mutations at once.
    UnloggedBatch,
    /// A change of counters.
    Counter,
    /// A logged batch on its way into the batch log.
    BatchLog,
}

impl WriteType {
    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            WriteType::Simple => "SIMPLE",
            WriteType::Batch => "BATCH",
            WriteType::UnloggedBatch => "UNLOGGED_BATCH",
            WriteType::Counter => "COUNTER",
            WriteType::BatchLog => "BATCH_LOG",
        }
    }
}

/// The write of one mutation.
#[derive(Debug)]
pub struct WritePlan {
    asked: Asked,
    write_type: WriteType,
}

#[derive(Debug)]
enum Asked {
    Only(OnlyReplica),
    Several(Box<Writes>),
}

/// A write to several replicas, or one that failed.
#[derive(Debug)]
struct Writes {
    tally: Tally,
    write_type: WriteType,
    /// Whether a replica that failed may have the write nevertheless.
    may_be_applied: bool,
    /// Whether the client's answer is known.
    ended: bool,
    /// How many of the replicas asked are natural; they are the first.
    natural: usize,
    /// The replicas that are not asked, because they are not alive.
    down: SmallVec<[Replica; 2]>,
}

impl WritePlan {
    /// A write to the replicas of a token at `level`. All live ones are asked ([`WritePlan::targets`]).
    ///
    /// # Errors
    /// Unavailable if too few are alive.
    #[inline]
    pub fn new(
        level: Consistency,
        write_type: WriteType,
        replicas: Replicas<'_>,
        live: &LiveNodes,
    ) -> Result<WritePlan, Failure> {
        let requirement = replicas.keyspace().levels().required_by_write(level);
        let asked = match OnlyReplica::of(requirement, replicas, live) {
            Some(only) => Asked::Only(only),
            None => {
                let mut writes = Writes::asking_all(Tally::of_write(requirement, replicas, live)?, write_type);
                writes.natural = replicas.natural().filter(|replica| live.contains(replica.node)).count();
                writes.down = replicas.written().filter(|replica| !live.contains(replica.node)).collect();
                Asked::Several(Box::new(writes))
            }
        };
        Ok(WritePlan { asked, write_type })
    }

    /// The replica that leads a change of counters: this node if it is asked, else one of the nearest, and of these one
    /// that has not been slow. `random` chooses among those that are equally near. Pending replicas do not lead,
    /// because they may lack the counters' values.
    pub fn leader(&self, topology: &Topology, random: u64) -> Option<Replica> {
        let here = topology.node(topology.here());
        let distance = |replica: &Replica| {
            let node = topology.node(replica.node);
            let same_center = node.data_center == here.data_center;
            let is_slow = topology.latencies().is_slow(replica.node);
            (replica.node != topology.here(), !same_center, is_slow, !same_center || node.rack != here.rack)
        };
        let natural = match &self.asked {
            Asked::Only(_) => 1,
            Asked::Several(writes) => writes.natural,
        };
        let able = || self.targets().take(natural);
        let nearest = able().map(|replica| distance(&replica)).min()?;
        let nearest: SmallVec<[Replica; 3]> = able().filter(|replica| distance(replica) == nearest).collect();
        nearest.get((random % nearest.len() as u64) as usize).copied()
    }

    /// This change of counters as one that only its leader, another node, is asked for. As in Cassandra, errors name
    /// the level ONE if it does not answer.
    pub fn to_leader(&self, leader: Replica, topology: &Topology) -> WritePlan {
        let requirement =
            Requirement { level: Consistency::One, block_for: 1, scope: Scope::All, ..self.requirement() };
        let only = OnlyReplica::new(requirement, leader, topology);
        WritePlan::to_one(only, self.write_type)
    }

    /// A write that a single replica does, which is known to be enough.
    pub(super) fn to_one(only: OnlyReplica, write_type: WriteType) -> WritePlan {
        WritePlan { asked: Asked::Only(only), write_type }
    }

    /// A write that all replicas of a tally are asked for.
    pub(super) fn to_all(tally: Tally, write_type: WriteType) -> WritePlan {
        WritePlan { asked: Asked::Several(Box::new(Writes::asking_all(tally, write_type))), write_type }
    }

    /// The replica to send the mutation to, if its answer is all that the write needs and there is no other replica.
    #[inline]
    pub fn only(&self) -> Option<Replica> {
        match &self.asked {
            Asked::Only(only) => Some(only.replica),
            Asked::Several(_) => None,
        }
    }

    /// The replicas that are not asked, because they are not alive: the mutation is to be kept for them.
    pub fn down(&self) -> &[Replica] {
        match &self.asked {
            Asked::Only(_) => &[],
            Asked::Several(writes) => &writes.down,
        }
    }

    /// The replicas to send the mutation to. At ANY there may be none.
    #[inline]
    pub fn targets(&self) -> impl ExactSizeIterator<Item = Replica> + '_ {
        let members = match &self.asked {
            Asked::Only(_) => 1,
            Asked::Several(writes) => writes.tally.members().len(),
        };
        (0..members).map(|at| match &self.asked {
            Asked::Only(only) => only.replica,
            Asked::Several(writes) => writes.tally.members()[at].replica,
        })
    }

    /// What the write needs.
    pub fn requirement(&self) -> Requirement {
        match &self.asked {
            Asked::Only(only) => only.requirement,
            Asked::Several(writes) => writes.tally.requirement(),
        }
    }

    /// Takes an acknowledgement. Returns true when the client's answer is that the write is done.
    #[inline]
    pub fn acknowledged(&mut self, replica: Replica) -> bool {
        match &mut self.asked {
            Asked::Only(only) => only.answered(replica),
            Asked::Several(writes) => writes.acknowledged(replica),
        }
    }

    /// Takes the news that this node keeps the mutation for a replica that is down. Returns true when the client's
    /// answer is that the write is done by that, as it is at ANY.
    pub fn kept(&mut self) -> bool {
        match &mut self.asked {
            Asked::Only(_) => false,
            Asked::Several(writes) => {
                let done = !writes.ended && writes.tally.level() == Consistency::Any;
                writes.ended |= done;
                done
            }
        }
    }

    /// Takes the news that a replica did not write it. Returns the failure that the client gets if the level is out of
    /// reach by that.
    pub fn failed(&mut self, replica: Replica, failure: Failure, topology: &Topology) -> Option<Failure> {
        self.writes().failed(replica, failure, topology)
    }

    /// Takes the end of the request's time: the failure that the client gets. Replicas may have the write, or get it
    /// later.
    pub fn expired(&mut self) -> Failure {
        self.writes().expired()
    }

    #[cold]
    fn writes(&mut self) -> &mut Writes {
        if let Asked::Only(only) = self.asked {
            let (tally, ended) = (only.tally(), only.has_answered);
            let (natural, down) = (1, SmallVec::new());
            let writes = Writes { tally, write_type: self.write_type, may_be_applied: false, ended, natural, down };
            self.asked = Asked::Several(Box::new(writes));
        }
        match &mut self.asked {
            Asked::Several(writes) => writes,
            Asked::Only(_) => unreachable!("it was replaced above"),
        }
    }
}

impl Writes {
    fn asking_all(mut tally: Tally, write_type: WriteType) -> Writes {
        for at in 0..tally.members().len() {
            tally.ask(at);
        }
        let natural = tally.members().len();
        Writes { tally, write_type, may_be_applied: false, ended: false, natural, down: SmallVec::new() }
    }

    fn acknowledged(&mut self, replica: Replica) -> bool {
        let counted = self.tally.answered(replica).is_some();
        let done = counted && !self.ended && self.tally.is_reached();
        self.ended |= done;
        done
    }

    fn failed(&mut self, replica: Replica, failure: Failure, topology: &Topology) -> Option<Failure> {
        let reason = reason_of(&failure);
        // A node that is merely not reached says nothing, as in Cassandra: the batch log waits for the other one.
        let is_silent = matches!(reason, FailureReason::NodeDown | FailureReason::Timeout);
        if self.write_type == WriteType::BatchLog && is_silent {
            return None;
        }
        self.tally.failed(replica, reason)?;
        self.may_be_applied |= failure.outcome == Outcome::Unknown;
        if self.ended || !self.tally.is_out_of_reach() {
            return None;
        }
        self.ended = true;
        Some(self.failure(failure, topology))
    }

    fn failure(&self, last: Failure, topology: &Topology) -> Failure {
        let applied = self.may_be_applied || self.tally.has_any() || self.tally.awaits_any();
        // A failure of this code says nothing but its reason.
        if self.tally.members().len() == 1 && last.code != ErrorCode::WriteFailure {
            return if applied { self.unknown(last) } else { last };
        }
        if self.tally.all_ran_out_of_time() {
            return self.timed_out();
        }
        let (failures, text) = self.tally.reasons(topology);
        let detail = Detail::WriteFailure {
            consistency: self.tally.level(),
            received: self.tally.received(),
            block_for: self.tally.block_for(),
            failures,
            write_type: self.write_type.name(),
        };
        let failure = Failure::new(ErrorCode::WriteFailure, text).with(detail);
        if applied { failure.unknown() } else { failure }
    }

    fn expired(&mut self) -> Failure {
        self.ended = true;
        self.timed_out()
    }

    fn timed_out(&self) -> Failure {
        self.unknown(Failure::new(ErrorCode::WriteTimeout, timed_out_text(self.tally.received())))
    }

    fn unknown(&self, failure: Failure) -> Failure {
        let detail = Detail::WriteTimeout {
            consistency: self.tally.level(),
            received: self.tally.received(),
            block_for: self.tally.block_for(),
            write_type: self.write_type.name(),
        };
        Failure { code: ErrorCode::WriteTimeout, ..failure }.unknown().with(detail)
    }
}

/// The failure of a logged batch whose mutations, each of which needs `requirement`, were not all applied. They will
/// be, because the batch is in the batch log.
pub fn postponed(requirement: Requirement) -> Failure {
    unknown(Failure::new(ErrorCode::WriteTimeout, timed_out_text(0)), requirement, 0, WriteType::Batch)
}

/// The failure of a write that may be applied nevertheless. It has the form of a timeout, because a client must not
/// take it for "not written".
fn unknown(failure: Failure, requirement: Requirement, received: i32, write_type: WriteType) -> Failure {
    let detail = Detail::WriteTimeout {
        consistency: requirement.level,
        received,
        block_for: number(requirement.block_for),
        write_type: write_type.name(),
    };
    Failure { code: ErrorCode::WriteTimeout, ..failure }.unknown().with(detail)
}

/// The result of several writes that make one request: the first failure, if any. If it is definite but another write
/// may have taken effect, the outcome of the whole is unknown; `requirement` gives what the write at a position needed.
pub fn combined(
    results: impl IntoIterator<Item = Result<(), Failure>>,
    write_type: WriteType,
    requirement: impl FnOnce(usize) -> Requirement,
) -> Result<(), Failure> {
    let mut applied = false;
    let mut first = None;
    for (at, result) in results.into_iter().enumerate() {
        match result {
            Ok(()) => applied = true,
            Err(failure) => {
                applied |= failure.outcome == Outcome::Unknown;
                first = first.or(Some((at, failure)));
            }
        }
    }
    match first {
        None => Ok(()),
        Some((at, failure)) if applied && failure.outcome == Outcome::NotApplied => {
            Err(unknown(failure, requirement(at), 0, write_type))
        }
        Some((_, failure)) => Err(failure),
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
