//! Reads of one partition: as many replicas as the level needs are asked, one for rows, the others for digests of them.
//!
//! 1. Replicas are asked in the order of their distance: this node, its data centre, the others.
//! 2. A replica that fails is replaced by the next that was not asked, as long as there is one.
//! 3. When enough have answered, the caller compares the digests with that of the rows.

use super::tally::{Member, OnlyReplica, State, Tally, reason_of, timed_out_text};
use crate::consistency::{Requirement, Scope};
use crate::placement::{Replica, Replicas};
use crate::topology::{DataCenter, LiveNodes, Topology};
use model::failure::Detail;
use model::{Consistency, ErrorCode, Failure};

/// What a replica is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The rows, and their digest if others are asked for it.
    Rows,
    /// The digest of the rows.
    Digest,
}

/// What comes next in a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextRead {
    /// Ask one more replica.
    Ask(Replica, Form),
    /// Enough replicas have answered.
    Complete,
    /// The client gets this failure.
    Fail(Failure),
}

/// The read of one partition.
#[derive(Debug)]
pub struct PartitionReadPlan {
    asked: Asked,
}

#[derive(Debug)]
enum Asked {
    Only(OnlyReplica),
    Several(Box<Reads>),
}

impl PartitionReadPlan {
    /// A read from the replicas of a token at `level`.
    ///
    /// # Errors
    /// Unavailable if too few are alive.
    #[inline]
    pub fn new(level: Consistency, replicas: Replicas<'_>, live: &LiveNodes) -> Result<PartitionReadPlan, Failure> {
        let requirement = replicas.keyspace().levels().required_by_read(level);
        let asked = match OnlyReplica::of(requirement, replicas, live) {
            Some(only) => Asked::Only(only),
            None => Asked::Several(Box::new(Reads::new(requirement, replicas, live)?)),
        };
        Ok(PartitionReadPlan { asked })
    }

    /// A read from the first of the natural replicas alone, whose rows stand for those of all.
    ///
    /// # Errors
    /// Unavailable if too few replicas are alive for the level, or the first is not.
    #[inline]
    pub fn of_first(
        level: Consistency,
        replicas: Replicas<'_>,
        live: &LiveNodes,
    ) -> Result<PartitionReadPlan, Failure> {
        let requirement = replicas.keyspace().levels().required_by_read(level);
        Ok(PartitionReadPlan { asked: Asked::Only(OnlyReplica::first(requirement, replicas, live)?) })
    }

    /// The replicas to ask at first.
    #[inline]
    pub fn targets(&self) -> impl Iterator<Item = (Replica, Form)> + '_ {
        let members = match &self.asked {
            Asked::Only(_) => 1,
            Asked::Several(reads) => reads.tally.members().len(),
        };
        (0..members).filter_map(|at| match &self.asked {
            Asked::Only(only) => (!only.has_answered).then_some((only.replica, Form::Rows)),
            Asked::Several(reads) => reads.target(at),
        })
    }

    /// Takes an answer.
    #[inline]
    pub fn answered(&mut self, replica: Replica) -> Option<NextRead> {
        let is_last = match &mut self.asked {
            Asked::Only(only) => only.answered(replica),
            Asked::Several(reads) => reads.answered(replica),
        };
        is_last.then_some(NextRead::Complete)
    }

    /// Takes the news that a replica cannot answer.
    pub fn failed(&mut self, replica: Replica, failure: Failure, topology: &Topology) -> Option<NextRead> {
        self.reads().failed(replica, failure, topology)
    }

    /// Takes the end of the request's time: the failure that the client gets.
    pub fn expired(&mut self) -> Failure {
        self.reads().expired()
    }

    #[cold]
    fn reads(&mut self) -> &mut Reads {
        if let Asked::Only(only) = self.asked {
            let (tally, done) = (only.tally(), only.has_answered);
            self.asked = Asked::Several(Box::new(Reads { tally, rows: 0, has_rows: done, ended: done }));
        }
        match &mut self.asked {
            Asked::Several(reads) => reads,
            Asked::Only(_) => unreachable!("it was replaced above"),
        }
    }
}

/// The replicas of one range that a read asks.
#[derive(Debug)]
pub(super) struct Reads {
    tally: Tally,
    /// The position of the replica that is asked for rows.
    rows: usize,
    /// Whether that replica has answered.
    has_rows: bool,
    /// Whether what follows is known.
    ended: bool,
}

impl Reads {
    /// Chooses the replicas to ask, and counts them as asked. Fails as Unavailable if too few are alive.
    pub(super) fn new(requirement: Requirement, replicas: Replicas<'_>, live: &LiveNodes) -> Result<Reads, Failure> {
        let mut tally = Tally::new(requirement, replicas, live)?;
        match tally.members().len() {
            1 => {
                tally.ask(0);
            }
            _ => ask_nearest(&mut tally, replicas),
        }
        Ok(Reads { tally, rows: 0, has_rows: false, ended: false })
    }

    /// The first of the natural replicas. Fails as [`OnlyReplica::first`] does.
    pub(super) fn of_first(
        requirement: Requirement,
        replicas: Replicas<'_>,
        live: &LiveNodes,
    ) -> Result<Reads, Failure> {
        let tally = OnlyReplica::first(requirement, replicas, live)?.tally();
        Ok(Reads { tally, rows: 0, has_rows: false, ended: false })
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = (Replica, Form)> + '_ {
        (0..self.tally.members().len()).filter_map(|at| self.target(at))
    }

    /// The replica at a position, if its answer is awaited.
    fn target(&self, at: usize) -> Option<(Replica, Form)> {
        let member = self.tally.members()[at];
        (member.state == State::Open).then(|| (member.replica, self.form(at)))
    }

    fn form(&self, at: usize) -> Form {
        if at == self.rows { Form::Rows } else { Form::Digest }
    }

    /// Takes an answer. Returns whether it is the last that is needed.
    pub(super) fn answered(&mut self, replica: Replica) -> bool {
        let Some(at) = self.tally.answered(replica) else { return false };
        self.has_rows |= at == self.rows;
        let complete = !self.ended && self.has_rows && self.tally.is_reached();
        self.ended |= complete;
        complete
    }

    pub(super) fn failed(&mut self, replica: Replica, failure: Failure, topology: &Topology) -> Option<NextRead> {
        let at = self.tally.failed(replica, reason_of(&failure))?;
        if self.ended {
            return None;
        }
        if let Some(spare) = self.tally.spare_for(self.tally.members()[at].data_center) {
            if at == self.rows {
                self.rows = spare;
            }
            return Some(NextRead::Ask(self.tally.ask(spare), self.form(spare)));
        }
        self.ended = true;
        Some(NextRead::Fail(self.failure(failure, topology)))
    }

    fn failure(&self, last: Failure, topology: &Topology) -> Failure {
        if self.tally.members().len() == 1 && !matches!(last.detail, Detail::Replica { .. }) {
            return last;
        }
        if self.tally.all_ran_out_of_time() {
            return self.timed_out();
        }
        let (failures, text) = self.tally.reasons(topology);
        Failure::new(ErrorCode::ReadFailure, text).with(Detail::ReadFailure {
            consistency: self.tally.level(),
            received: self.tally.received(),
            block_for: self.tally.block_for(),
            failures,
            data_present: self.has_rows,
        })
    }

    pub(super) fn expired(&mut self) -> Failure {
        self.ended = true;
        self.timed_out()
    }

    fn timed_out(&self) -> Failure {
        let received = self.tally.received();
        Failure::new(ErrorCode::ReadTimeout, timed_out_text(received)).with(Detail::ReadTimeout {
            consistency: self.tally.level(),
            received,
            block_for: self.tally.block_for(),
            data_present: self.has_rows,
        })
    }
}

/// Counts the nearest replicas as asked, as many as the level needs.
#[cold]
fn ask_nearest(tally: &mut Tally, replicas: Replicas<'_>) {
    let topology = replicas.keyspace().topology();
    let (here, center) = (topology.here(), topology.data_center_of(topology.here()));
    let requirement = tally.requirement;
    // Only replicas whose answers count are asked.
    tally.retain(|member| requirement.counts(member.data_center));
    tally.sort_by_key(|member| match member {
        member if member.replica.node == here => 0,
        member if member.data_center == center => 1,
        _ => 2,
    });
    let nearest: Vec<usize> = match requirement.scope {
        Scope::All | Scope::Local => (0..tally.members().len()).take(requirement.block_for as usize).collect(),
        Scope::Each => {
            let of = |center: Option<DataCenter>, quorum: u32| {
                let there = move |(_, member): &(usize, &Member)| Some(member.data_center) == center;
                tally.members().iter().enumerate().filter(there).map(|(at, _)| at).take(quorum as usize)
            };
            let mut nearest: Vec<usize> =
                replicas.keyspace().levels().quorums().flat_map(|(center, quorum)| of(center, quorum)).collect();
            nearest.sort_unstable();
            nearest
        }
    };
    for at in nearest {
        tally.ask(at);
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
