//! Conditional changes and reads at SERIAL: who takes part in a decision, and what the client is told.
//!
//! A decision needs three things, in this order:
//! 1. promises of a majority of the replicas that there are (SERIAL), or of those in this data centre (LOCAL_SERIAL).
//!    While the partition gets other replicas, all take part by which data is read now or is going to be read, and a
//!    majority of either is needed ([`Quorum`]);
//! 2. a read at QUORUM or LOCAL_QUORUM, which goes by the replication factor;
//! 3. for a change, the outcome written at the level of the commit ([`CasPlan::check_commit`]).
//!
//! Cassandra tests the third only when the change is decided, and so tells a client that a change was refused which
//! happens nevertheless. Here it is tested before anything is proposed.

use super::quorum::{Quorum, Votes};
use super::tally::timed_out_text;
use crate::consistency::{Requirement, number, unavailable};
use crate::placement::{Replica, Replicas};
use crate::topology::LiveNodes;
use model::failure::Detail;
use model::{Consistency, ErrorCode, Failure};
use smallvec::SmallVec;

/// The progress of a decision, from which follows what a client is told if it stops waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CasProgress {
    /// Nothing has been proposed.
    Preparing,
    /// The change may have been accepted.
    Proposing,
    /// The change is decided and is being sent.
    Committing,
}

/// A decision about a partition at SERIAL or LOCAL_SERIAL.
#[derive(Clone, Debug)]
pub struct CasPlan {
    serial: Consistency,
    /// The live replicas that take part.
    participants: SmallVec<[Replica; 3]>,
    /// Who must agree, by number: of those that take part first, then of the others.
    quorum: Quorum,
    commit: Requirement,
    /// Why the outcome of a change cannot be written.
    commit_refused: Option<Box<Failure>>,
}

impl CasPlan {
    /// A change, decided at `serial` by the replicas of a partition and written at the level `commit`.
    ///
    /// # Errors
    /// Unavailable if too few replicas are alive for the decision.
    pub fn of_change(
        serial: Consistency,
        commit: Consistency,
        replicas: Replicas<'_>,
        live: &LiveNodes,
    ) -> Result<CasPlan, Failure> {
        let (levels, topology) = (replicas.keyspace().levels(), replicas.keyspace().topology());
        let read = levels.required_by_read(serial);
        let next = replicas.next();
        let takes_part = |replica: &Replica| read.counts(topology.data_center_of(replica.node));
        let votes = |replica: &Replica| Votes {
            now: u32::from(replicas.nodes().contains(&replica.node)),
            next: next.as_ref().map_or(0, |next| u32::from(next.nodes.contains(&replica.node))),
        };
        let is_alive = |replica: &Replica| live.contains(replica.node);
        let participants: SmallVec<[Replica; 3]> = replicas.written().filter(takes_part).filter(is_alive).collect();
        let dead = replicas.written().filter(takes_part).filter(|replica| !is_alive(replica));
        let quorum = Quorum::of(participants.iter().copied().chain(dead).map(|replica| votes(&replica)));
        let mut alive = Votes::default();
        participants.iter().for_each(|replica| alive += votes(replica));
        if !quorum.is_met_by(alive) {
            let (needed, is_now) = (quorum.needed(), alive.now < quorum.needed().now);
            let (required, alive) = if is_now { (needed.now, alive.now) } else { (needed.next, alive.next) };
            let text = format!("Cannot achieve consistency level {}", serial.name());
            return Err(unavailable(serial, text, required, alive as usize));
        }
        read.check_alive(levels, topology, replicas.nodes(), live)?;
        let commit = levels.required_by_write(commit);
        let can_commit = commit.check_alive(levels, topology, replicas.nodes(), live).and_then(|()| match &next {
            Some(next) => match next.needed(commit, topology) {
                Some(needed) => needed.check_alive(next.levels, topology, &next.nodes, live),
                None => Ok(()),
            },
            None => Ok(()),
        });
        let commit_refused = can_commit.err().map(Box::new);
        Ok(CasPlan { serial, participants, quorum, commit, commit_refused })
    }

    /// A decision that changes nothing, so that the read that follows it sees all earlier ones. Fails as
    /// [`CasPlan::of_change`] does.
    pub fn of_read(serial: Consistency, replicas: Replicas<'_>, live: &LiveNodes) -> Result<CasPlan, Failure> {
        CasPlan::of_change(serial, Consistency::Any, replicas, live)
    }

    /// The same decision by other replicas, after data has moved. Fails as [`CasPlan::of_change`] does.
    pub fn again(&self, replicas: Replicas<'_>, live: &LiveNodes) -> Result<CasPlan, Failure> {
        CasPlan::of_change(self.serial, self.commit.level, replicas, live)
    }

    /// The replica that decides alone, if there is no other one.
    pub fn only(&self) -> Option<Replica> {
        match self.participants[..] {
            [only] if self.replicas() == 1 => Some(only),
            _ => None,
        }
    }

    /// The level of the decision.
    pub fn serial(&self) -> Consistency {
        self.serial
    }

    /// The live replicas that take part.
    pub fn participants(&self) -> &[Replica] {
        &self.participants
    }

    /// How many replicas there are, alive or not.
    pub fn replicas(&self) -> usize {
        self.quorum.replicas()
    }

    /// Who of them must agree to decide.
    pub fn quorum(&self) -> &Quorum {
        &self.quorum
    }

    /// How many must agree, as clients are told: of the larger set while replicas change.
    pub fn needed(&self) -> usize {
        let needed = self.quorum.needed();
        needed.now.max(needed.next) as usize
    }

    /// How many of them must have the outcome before the client is answered.
    pub fn commits_needed(&self) -> usize {
        self.commit.block_for as usize
    }

    /// The level at which the outcome is written.
    pub fn commit_level(&self) -> Consistency {
        self.commit.level
    }

    /// Fails as Unavailable if the outcome of a change cannot be written at the level asked for. To be called before
    /// a change is proposed.
    pub fn check_commit(&self) -> Result<(), Failure> {
        match &self.commit_refused {
            None => Ok(()),
            Some(failure) => Err((**failure).clone()),
        }
    }

    /// The failure of a change that took too long after `received` replicas had done the step under way.
    /// `contentions` says how often it began again because of others.
    pub fn expired(&self, progress: CasProgress, received: usize, contentions: u16) -> Failure {
        let received = received as i32;
        let (consistency, block_for, write_type) = match progress {
            CasProgress::Preparing => (self.serial, self.majority(), "CAS"),
            CasProgress::Proposing => return self.undecided(received as usize),
            // The change is decided; only some replicas do not have it yet.
            CasProgress::Committing => (self.commit.level, number(self.commit.block_for), "SIMPLE"),
        };
        let detail = Detail::CasWriteTimeout { consistency, received, block_for, write_type, contentions };
        let text = format!(
            "CAS operation timed out: received {received} of {block_for} required responses after {contentions} contention \
             retries"
        );
        Failure::new(ErrorCode::WriteTimeout, text).unknown().with(detail)
    }

    /// The failure of a change that `accepted` replicas have accepted, fewer than a majority: it may be decided later.
    pub fn undecided(&self, accepted: usize) -> Failure {
        let received = accepted as i32;
        let text = format!("CAS operation result is unknown - proposal accepted by {received} but not a quorum.");
        let detail = Detail::CasWriteUnknown { consistency: self.serial, received, block_for: self.majority() };
        Failure::new(ErrorCode::CasWriteUnknown, text).unknown().with(detail)
    }

    /// The failure of a read whose decision failed as `failure`. To its client, a decision that took too long is a
    /// read that took too long.
    pub fn failure_of_read(&self, failure: Failure) -> Failure {
        match failure.code {
            ErrorCode::WriteTimeout | ErrorCode::CasWriteUnknown => {
                Failure::new(ErrorCode::ReadTimeout, timed_out_text(0)).with(Detail::ReadTimeout {
                    consistency: self.serial,
                    received: 0,
                    block_for: self.majority(),
                    data_present: false,
                })
            }
            _ => failure,
        }
    }

    fn majority(&self) -> i32 {
        number(self.needed() as u32)
    }
}

#[cfg(test)]
#[path = "cas_tests.rs"]
mod tests;
