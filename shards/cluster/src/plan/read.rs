//! Reads of one partition, or of a piece of the ring with the same replicas: as many replicas as the level needs are
//! asked, one for rows, the others for digests of them.
//!
//! 1. Replicas are asked in the order of their distance: this node, its data centre, the others; those of a data centre
//!    that have been slow come after its others ([`crate::topology::latency`]). Reads of a hot partition take turns
//!    among those of the data centre instead ([`Turn`]). While a key gets other replicas, reads at a majority ask
//!    those first that stay, and if these are too few also those to be (see [`super::tally`]).
//! 2. A replica that fails is replaced by the next that was not asked, as long as there is one. While answers are late,
//!    one more can be asked ([`PartitionReadPlan::speculate`]).
//! 3. When enough have answered, the caller compares the digests with that of the rows.
//! 4. If they differ, those that answered are asked again, for all that they have of what is read
//!    ([`PartitionReadPlan::merge`]), as often as it takes.

use super::tally::{Member, OnlyReplica, Side, State, Tally, read_timed_out, reason_of};
use crate::consistency::{Requirement, Scope};
use crate::placement::{Replica, Replicas};
use crate::topology::{DataCenter, LiveNodes, NodeIndex, Topology};
use model::failure::Detail;
use model::{Consistency, ErrorCode, Failure};
use smallvec::SmallVec;

/// What a replica is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The rows, and their digest if others are asked for it.
    Rows,
    /// The digest of the rows.
    Digest,
    /// What it has of the rows, with timestamps and tombstones, to be merged with what others have.
    Fragments,
}

/// Replicas to ask, each with what for: mostly one; two where one that stays is replaced by one of each side, while its
/// key gets other replicas.
pub type Asks = SmallVec<[(Replica, Form); 2]>;

/// What comes next in a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextRead {
    /// Ask these as well.
    Ask(Asks),
    /// Enough replicas have answered.
    Complete,
    /// The client gets this failure.
    Fail(Failure),
}

/// Which replica a read of a hot partition asks first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Counts up from read to read of the partition. Replicas of this data centre that have not been slow are asked in
    /// the order of the ring, beginning with the one at this number modulo how many they are.
    pub number: usize,
    /// The core that coordinates the read. If it has a replica itself, that one is asked first nevertheless: to answer
    /// costs this core less than to ask.
    pub core: u16,
}

/// The read of one partition.
#[derive(Clone, Debug)]
pub struct PartitionReadPlan {
    asked: Asked,
}

#[derive(Clone, Debug)]
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
        PartitionReadPlan::required(replicas.keyspace().levels().required_by_read(level), replicas, live)
    }

    /// As [`PartitionReadPlan::new`], but the replicas are asked by `turn`.
    pub fn spread(
        level: Consistency,
        replicas: Replicas<'_>,
        live: &LiveNodes,
        turn: Turn,
    ) -> Result<PartitionReadPlan, Failure> {
        let requirement = replicas.keyspace().levels().required_by_read(level);
        let asked = match OnlyReplica::of(requirement, replicas, live) {
            Some(only) => Asked::Only(only),
            None => Asked::Several(Box::new(Reads::new(requirement, replicas, live, Some(turn))?)),
        };
        Ok(PartitionReadPlan { asked })
    }

    /// A read that needs what is required. Fails as [`PartitionReadPlan::new`] does.
    #[inline]
    pub(super) fn required(
        requirement: Requirement,
        replicas: Replicas<'_>,
        live: &LiveNodes,
    ) -> Result<PartitionReadPlan, Failure> {
        let asked = match OnlyReplica::of(requirement, replicas, live) {
            Some(only) => Asked::Only(only),
            None => Asked::Several(Box::new(Reads::new(requirement, replicas, live, None)?)),
        };
        Ok(PartitionReadPlan { asked })
    }

    /// The nodes of the replicas that are or can be asked, in the order in which that is done.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let (only, several) = match &self.asked {
            Asked::Only(only) => (Some(only.replica.node), None),
            Asked::Several(reads) => (None, Some(reads)),
        };
        only.into_iter().chain(several.into_iter().flat_map(|reads| reads.nodes()))
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

    /// Whether the rows of a single replica are all that is needed.
    #[inline]
    pub fn asks_one(&self) -> bool {
        match &self.asked {
            Asked::Only(_) => true,
            Asked::Several(reads) => reads.asks_one(),
        }
    }

    /// Whether there are other replicas than the only one that is asked.
    #[inline]
    pub fn has_choice(&self) -> bool {
        matches!(self.asked, Asked::Several(_))
    }

    /// Asks for what is to be merged: those that have answered if any has, or else those that were asked at first. The
    /// plan begins again with [`PartitionReadPlan::targets`].
    pub fn merge(&mut self) {
        self.reads().merge();
    }

    /// More replicas to ask, because answers are late; none if there are no others.
    pub fn speculate(&mut self) -> Asks {
        match &mut self.asked {
            Asked::Only(_) => Asks::new(),
            Asked::Several(reads) => reads.speculate(),
        }
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

    /// Takes the news that no replica can answer, each for the same reason: the failure that the client gets.
    pub fn refused(&mut self, failure: &Failure, topology: &Topology) -> Failure {
        loop {
            let target = self.targets().next();
            let Some((replica, _)) = target else { return failure.clone() };
            if let Some(NextRead::Fail(told)) = self.failed(replica, failure.clone(), topology) {
                return told;
            }
        }
    }

    /// Takes the end of the request's time: the failure that the client gets.
    pub fn expired(&mut self) -> Failure {
        self.reads().expired()
    }

    /// The replicas, and which of them have answered.
    pub(super) fn tally(&self) -> Tally {
        match &self.asked {
            Asked::Only(only) => only.tally(),
            Asked::Several(reads) => reads.tally.clone(),
        }
    }

    #[cold]
    fn reads(&mut self) -> &mut Reads {
        if let Asked::Only(only) = self.asked {
            let (tally, done) = (only.tally(), only.has_answered);
            self.asked = Asked::Several(Box::new(Reads { has_rows: done, ended: done, ..Reads::of(tally) }));
        }
        match &mut self.asked {
            Asked::Several(reads) => reads,
            Asked::Only(_) => unreachable!("it was replaced above"),
        }
    }
}

/// The replicas of one range that a read asks.
#[derive(Clone, Debug)]
struct Reads {
    tally: Tally,
    /// The positions of the replicas that are asked for rows.
    rows: SmallVec<[usize; 2]>,
    /// Whether one of them has answered.
    has_rows: bool,
    /// Whether replicas are asked for fragments.
    merges: bool,
    /// Whether what follows is known.
    ended: bool,
}

impl Reads {
    /// Chooses the replicas to ask, and counts them as asked. Fails as Unavailable if too few are alive.
    fn new(
        requirement: Requirement,
        replicas: Replicas<'_>,
        live: &LiveNodes,
        turn: Option<Turn>,
    ) -> Result<Reads, Failure> {
        let mut tally = Tally::of_read(requirement, replicas, live)?;
        match tally.members().len() {
            1 => {
                tally.ask(0);
            }
            _ => ask_first(&mut tally, replicas, turn),
        }
        Ok(Reads::of(tally))
    }

    /// The reads of replicas of which some were asked; the first of these for rows.
    fn of(tally: Tally) -> Reads {
        let first = tally.members().iter().position(|member| member.state != State::Spare);
        Reads { tally, rows: first.into_iter().collect(), has_rows: false, merges: false, ended: false }
    }

    /// See [`PartitionReadPlan::asks_one`].
    #[inline]
    fn asks_one(&self) -> bool {
        self.tally.requirement().block_for == 1
    }

    /// The nodes of the replicas that are or can be asked, in the order in which that is done.
    fn nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.tally.members().iter().map(|member| member.replica.node)
    }

    /// See [`PartitionReadPlan::merge`].
    fn merge(&mut self) {
        (self.merges, self.ended) = (true, false);
        self.tally.ask_again();
    }

    /// See [`PartitionReadPlan::speculate`].
    fn speculate(&mut self) -> Asks {
        let late = self.tally.members().iter().find(|member| member.state == State::Open).copied();
        let spare = late.and_then(|late| self.tally.spare_for(late.data_center)).filter(|_| !self.ended);
        let (Some(late), Some(spare)) = (late, spare) else { return Asks::new() };
        if !self.has_rows && !self.merges {
            self.rows.push(spare);
        }
        let counterpart = if self.tally.has_two_sides() { self.counterpart(late.side, spare) } else { None };
        [Some(spare), counterpart].into_iter().flatten().map(|at| self.ask(at)).collect()
    }

    /// Counts a replica, by its position, as asked.
    fn ask(&mut self, at: usize) -> (Replica, Form) {
        (self.tally.ask(at), self.form(at))
    }

    /// The spare replica of the other side that is asked too, where one that stays is late and `spare` does not.
    fn counterpart(&self, late: Side, spare: usize) -> Option<usize> {
        let members = self.tally.members();
        let other = match (late, members[spare].side) {
            (Side::Both, Side::Now) => Side::Next,
            (Side::Both, Side::Next) => Side::Now,
            _ => return None,
        };
        members.iter().position(|member| member.state == State::Spare && member.side == other)
    }

    /// The replica at a position, if its answer is awaited.
    fn target(&self, at: usize) -> Option<(Replica, Form)> {
        let member = self.tally.members()[at];
        (member.state == State::Open).then(|| (member.replica, self.form(at)))
    }

    fn form(&self, at: usize) -> Form {
        match self.rows.contains(&at) {
            _ if self.merges => Form::Fragments,
            true => Form::Rows,
            false => Form::Digest,
        }
    }

    /// Takes an answer. Returns whether it is the last that is needed.
    fn answered(&mut self, replica: Replica) -> bool {
        let Some(at) = self.tally.answered(replica) else { return false };
        self.has_rows |= self.merges || self.rows.contains(&at);
        let complete = !self.ended && self.has_rows && self.tally.is_reached();
        self.ended |= complete;
        complete
    }

    fn failed(&mut self, replica: Replica, failure: Failure, topology: &Topology) -> Option<NextRead> {
        let at = self.tally.failed(replica, reason_of(&failure))?;
        if self.ended {
            return None;
        }
        let lacks_rows = self.rows.contains(&at) && !self.has_rows;
        let spares = self.replacements(at, lacks_rows);
        if lacks_rows {
            self.rows.extend(spares.first().copied());
        }
        let asks: Asks = spares.into_iter().map(|spare| self.ask(spare)).collect();
        self.tally.give_up_next();
        if !asks.is_empty() && !self.tally.is_out_of_reach() {
            return Some(NextRead::Ask(asks));
        }
        // One that was asked because others were late may be enough.
        if !self.tally.is_out_of_reach() && (self.has_rows || self.awaits_rows()) {
            return None;
        }
        self.ended = true;
        Some(NextRead::Fail(self.failure(failure, topology)))
    }

    /// The positions of the spare replicas to ask in the place of one that failed.
    fn replacements(&self, failed: usize, lacks_rows: bool) -> SmallVec<[usize; 2]> {
        let needed = if self.tally.has_two_sides() { self.tally.needed_spares() } else { SmallVec::new() };
        let is_enough = self.tally.has_two_sides() && !self.tally.is_out_of_reach();
        // Those that are asked already may be enough, but none of them for rows.
        let may_wait = is_enough && (!lacks_rows || self.awaits_rows());
        if !needed.is_empty() || may_wait {
            return needed;
        }
        self.tally.spare_for(self.tally.members()[failed].data_center).into_iter().collect()
    }

    /// Whether rows are awaited.
    fn awaits_rows(&self) -> bool {
        let members = self.tally.members().iter().enumerate();
        members.filter(|(_, member)| member.state == State::Open).any(|(at, _)| self.merges || self.rows.contains(&at))
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

    fn expired(&mut self) -> Failure {
        self.ended = true;
        self.timed_out()
    }

    fn timed_out(&self) -> Failure {
        read_timed_out(&self.tally, self.has_rows)
    }
}

/// Counts replicas as asked, as many as the level needs: the nearest, or those whose turn it is.
#[cold]
fn ask_first(tally: &mut Tally, replicas: Replicas<'_>, turn: Option<Turn>) {
    let topology = replicas.keyspace().topology();
    let (here, center) = (topology.here(), topology.data_center_of(topology.here()));
    let requirement = tally.requirement();
    // Only replicas whose answers count are asked.
    tally.retain(|member| requirement.counts(member.data_center));
    let comes_later = |member: &Member| {
        (member.side, member.data_center != center, topology.latencies().is_slow(member.replica.node))
    };
    match turn {
        None => tally.sort_by_key(|member| (comes_later(member), member.replica.node != here)),
        Some(turn) => {
            let own = Replica { node: here, shard: turn.core };
            let others = tally.members().iter().filter(|member| member.replica != own);
            let eligible = others.filter(|member| comes_later(member) == (Side::Both, false, false));
            let eligible: SmallVec<[Replica; 4]> = eligible.map(|member| member.replica).collect();
            tally.sort_by_key(|member| {
                let place = eligible.iter().position(|replica| *replica == member.replica);
                let count = eligible.len();
                let waits = place.map(|place| (place + count - turn.number % count) % count);
                (comes_later(member), member.replica != own, waits)
            });
        }
    }
    if tally.has_two_sides() {
        for at in 0..tally.members().len() {
            if tally.is_needed(at) {
                tally.ask(at);
            }
        }
        return;
    }
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
