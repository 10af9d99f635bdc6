//! Conditional changes and reads at SERIAL: who takes part in a decision, and what the client is told.
//!
//! A decision needs three things, in this order:
//! 1. promises of a majority of the replicas that there are (SERIAL), or of those in this data centre (LOCAL_SERIAL).
//!    While the partition gets other replicas, all take part by which data is read now or is going to be read; then so
//!    many are needed that these have one in common with each majority of both;
//! 2. a read at QUORUM or LOCAL_QUORUM, which goes by the replication factor;
//! 3. for a change, the outcome written at the level of the commit ([`CasPlan::check_commit`]).
//!
//! Cassandra tests the third only when the change is decided, and so tells a client that a change was refused which
//! happens nevertheless. Here it is tested before anything is proposed.

use super::tally::timed_out_text;
use crate::consistency::{Requirement, number, unavailable};
use crate::placement::{Replica, Replicas};
use crate::topology::{LiveNodes, NodeIndex};
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
    /// How many replicas there are, alive or not.
    replicas: u32,
    /// How many of them must agree.
    needed: u32,
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
        let quorum = levels.required_by_read(serial);
        let takes_part = |replica: &Replica| quorum.counts(topology.data_center_of(replica.node));
        let natural = replicas.natural().filter(takes_part).count() as u32;
        let all = natural + replicas.pending().filter(takes_part).count() as u32;
        let next = replicas.next();
        let there = |node: &&NodeIndex| quorum.counts(topology.data_center_of(**node));
        let later = next.as_ref().map_or(natural, |next| next.nodes.iter().filter(there).count() as u32);
        let needed = deciding(all, natural, later);
        let participants: SmallVec<[Replica; 3]> =
            replicas.written().filter(takes_part).filter(|replica| live.contains(replica.node)).collect();
        if participants.len() < needed as usize {
            let text = format!("Cannot achieve consistency level {}", serial.name());
            return Err(unavailable(serial, text, needed, participants.len()));
        }
        quorum.check_alive(levels, topology, replicas.nodes(), live)?;
        let commit = levels.required(commit);
        let can_commit = commit.check_alive(levels, topology, replicas.nodes(), live).and_then(|()| match &next {
            Some(next) => match next.needed(commit, topology) {
                Some(needed) => needed.check_alive(next.levels, topology, &next.nodes, live),
                None => Ok(()),
            },
            None => Ok(()),
        });
        let commit_refused = can_commit.err().map(Box::new);
        Ok(CasPlan { serial, participants, replicas: all, needed, commit, commit_refused })
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
            [only] if self.replicas == 1 => Some(only),
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
        self.replicas as usize
    }

    /// How many of them must agree to decide: a majority, or more while some are pending.
    pub fn needed(&self) -> usize {
        self.needed as usize
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
        number(self.needed)
    }
}

/// How many of `all` replicas must agree, of which `natural` are those by which data is read now and `next` those by
/// which it is going to be read. What they decide must be known to every majority of either.
fn deciding(all: u32, natural: u32, next: u32) -> u32 {
    // Without replicas nobody reads.
    let next = if next == 0 { natural } else { next };
    (all / 2 + 1).max(all - natural / 2).max(all - next / 2)
}

#[cfg(test)]
#[path = "cas_tests.rs"]
mod tests;
