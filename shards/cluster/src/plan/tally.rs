//! Counting the answers of replicas.
//!
//! While a key gets other replicas, a write needs its level twice: among the replicas by which data is read now, and
//! among those by which it is going to be read. So whoever reads at a level that meets the write's finds it, whether
//! the change ends or is undone, and one replica that is down is no more of a hindrance than before.
//!
//! A read at a majority needs it twice as well, if those that stay would be enough and enough of the others are alive.
//! So what it shows, or makes the same on them, is shown by every later one, even a write that was never acknowledged.
//! Replicas that stay count on both sides and are asked first: no more are asked than otherwise, unless one fails.

use super::count::Count;
use crate::consistency::{Requirement, Scope, number};
use crate::placement::{NextReplicas, Replica, Replicas};
use crate::topology::{DataCenter, LiveNodes, NodeIndex, Topology};
use model::failure::{Detail, FailureReason};
use model::{Consistency, ErrorCode, Failure};
use smallvec::SmallVec;
use std::fmt::Write;

/// Replicas of a plan whose memory is part of it.
const INLINE: usize = 3;

/// A replica of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) replica: Replica,
    pub(super) data_center: DataCenter,
    pub(super) state: State,
    pub(super) side: Side,
}

/// Of which replicas one is, while a key gets others; in the order in which reads ask them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Side {
    /// Of both, or no change is under way.
    Both,
    /// Of those by which data is read now.
    Now,
    /// Of those by which it is going to be read.
    Next,
}

/// What a replica has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It was not asked.
    Spare,
    /// It was asked.
    Open,
    Answered,
    Failed,
}

/// The only replica of a token, alive, whose answer is all that a request needs. Most requests of a single node are
/// such: they are counted without a [`Tally`], which is made of this when a request fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OnlyReplica {
    pub(super) requirement: Requirement,
    pub(super) replica: Replica,
    data_center: DataCenter,
    /// Whether it has answered.
    pub(super) has_answered: bool,
}

impl OnlyReplica {
    /// The replica, if there is no more than that one, it is alive, and its answer is enough.
    #[inline]
    pub(super) fn of(requirement: Requirement, replicas: Replicas<'_>, live: &LiveNodes) -> Option<OnlyReplica> {
        let replica = replicas.only().filter(|replica| requirement.block_for == 1 && live.contains(replica.node))?;
        let only = OnlyReplica::new(requirement, replica, replicas.keyspace().topology());
        requirement.counts(only.data_center).then_some(only)
    }

    /// A replica that is known to be enough.
    #[inline]
    pub(super) fn new(requirement: Requirement, replica: Replica, topology: &Topology) -> OnlyReplica {
        OnlyReplica { requirement, replica, data_center: topology.data_center_of(replica.node), has_answered: false }
    }

    /// Takes an answer. Returns whether it is the one that is awaited.
    #[inline]
    pub(super) fn answered(&mut self, replica: Replica) -> bool {
        let is_awaited = !self.has_answered && replica == self.replica;
        self.has_answered |= is_awaited;
        is_awaited
    }

    /// The tally of the replica, which was asked.
    #[cold]
    pub(super) fn tally(self) -> Tally {
        let mut tally = Tally::alone(self.requirement, self.replica, self.data_center);
        tally.ask(0);
        if self.has_answered {
            tally.answered(self.replica);
        }
        tally
    }
}

/// The replicas of a request, and how many of them have answered.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    members: SmallVec<[Member; INLINE]>,
    count: Count,
    /// What only some requests have.
    rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug, Default)]
struct Rare {
    /// What is also needed while the key gets other replicas, among those.
    next: Option<Count>,
    failures: Vec<(NodeIndex, FailureReason)>,
}

impl Tally {
    /// The live replicas of a token, none of them asked.
    ///
    /// # Errors
    /// Unavailable if they are too few.
    pub(super) fn new(requirement: Requirement, replicas: Replicas<'_>, live: &LiveNodes) -> Result<Tally, Failure> {
        if let Some(only) = OnlyReplica::of(requirement, replicas, live) {
            return Ok(Tally::alone(requirement, only.replica, only.data_center));
        }
        let keyspace = replicas.keyspace();
        let (levels, topology) = (keyspace.levels(), keyspace.topology());
        requirement.check_alive(levels, topology, replicas.nodes(), live)?;
        let live = replicas.natural().filter(|replica| live.contains(replica.node));
        Ok(Tally { count: Count::of(requirement, levels), ..Tally::of(requirement, live, topology) })
    }

    /// The live replicas that a write of a token goes to, pending ones as well, none of them asked. `requirement` is
    /// that of the natural ones.
    ///
    /// # Errors
    /// Unavailable if they are too few.
    pub(super) fn of_write(
        requirement: Requirement,
        replicas: Replicas<'_>,
        live: &LiveNodes,
    ) -> Result<Tally, Failure> {
        let Some(next) = replicas.next() else { return Tally::new(requirement, replicas, live) };
        let keyspace = replicas.keyspace();
        let (levels, topology) = (keyspace.levels(), keyspace.topology());
        requirement.check_alive(levels, topology, replicas.nodes(), live)?;
        let needed = next.needed(requirement, topology);
        if let Some(needed) = needed {
            needed.check_alive(next.levels, topology, &next.nodes, live)?;
        }
        // At ANY each one is enough.
        if requirement.level == Consistency::Any {
            let written = replicas.written().filter(|replica| live.contains(replica.node));
            return Ok(Tally { count: Count::of(requirement, levels), ..Tally::of(requirement, written, topology) });
        }
        Ok(Tally::of_both(requirement, needed, replicas, &next, live))
    }

    /// The live replicas that a read of a token may ask, none of them asked: at a majority, while the key gets others,
    /// those to be as well, unless too few of them are alive, or even all that stay are too few.
    ///
    /// # Errors
    /// Unavailable if too few are alive of those by which data is read now.
    pub(super) fn of_read(
        requirement: Requirement,
        replicas: Replicas<'_>,
        live: &LiveNodes,
    ) -> Result<Tally, Failure> {
        let is_majority = matches!(requirement.level, Consistency::Quorum | Consistency::LocalQuorum);
        let Some(next) = replicas.next().filter(|_| is_majority && requirement.scope != Scope::Each) else {
            return Tally::new(requirement, replicas, live);
        };
        let keyspace = replicas.keyspace();
        let (levels, topology) = (keyspace.levels(), keyspace.topology());
        let needed = next.levels.required_by_read(requirement.level);
        let stay = replicas.nodes().iter().filter(|node| next.nodes.contains(node));
        let stay = stay.filter(|node| requirement.counts(topology.data_center_of(**node))).count() as u32;
        let are_alive = || needed.check_alive(next.levels, topology, &next.nodes, live).is_ok();
        if stay < requirement.block_for.max(needed.block_for) || !are_alive() {
            return Tally::new(requirement, replicas, live);
        }
        requirement.check_alive(levels, topology, replicas.nodes(), live)?;
        Ok(Tally::of_both(requirement, Some(needed), replicas, &next, live))
    }

    /// The live replicas of both sides, of which it is known that they can be enough, none of them asked. `needed` is
    /// what is needed of those to be.
    fn of_both(
        requirement: Requirement,
        needed: Option<Requirement>,
        replicas: Replicas<'_>,
        next: &NextReplicas<'_>,
        live: &LiveNodes,
    ) -> Tally {
        let keyspace = replicas.keyspace();
        let written = replicas.written().filter(|replica| live.contains(replica.node));
        let mut tally = Tally::of(requirement, written, keyspace.topology());
        tally.count = Count::of(requirement, keyspace.levels());
        for member in &mut tally.members {
            let node = member.replica.node;
            member.side = match (replicas.nodes().contains(&node), next.nodes.contains(&node)) {
                (true, true) => Side::Both,
                (true, false) => Side::Now,
                (false, _) => Side::Next,
            };
        }
        let next = needed.map(|needed| Count::of(needed, next.levels));
        tally.rare = Some(Box::new(Rare { next, failures: Vec::new() }));
        tally
    }

    /// Replicas of which it is known that they can be enough, none of them asked.
    pub(super) fn of(requirement: Requirement, replicas: impl Iterator<Item = Replica>, topology: &Topology) -> Tally {
        let member = |replica: Replica| {
            let data_center = topology.data_center_of(replica.node);
            Member { replica, data_center, state: State::Spare, side: Side::Both }
        };
        Tally { members: replicas.map(member).collect(), count: Count::new(requirement), rare: None }
    }

    /// A tally of a single replica, whose answer is all that is needed.
    fn alone(requirement: Requirement, replica: Replica, data_center: DataCenter) -> Tally {
        let mut members = SmallVec::new();
        members.push(Member { replica, data_center, state: State::Spare, side: Side::Both });
        // A majority of one data centre with one replica is that replica.
        let scope = match requirement.scope {
            Scope::Each => Scope::All,
            other => other,
        };
        Tally { members, count: Count::new(Requirement { scope, ..requirement }), rare: None }
    }

    /// What the request needs of the replicas by which data is read now.
    pub(super) fn requirement(&self) -> Requirement {
        self.count.requirement
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Sorts the replicas, none of which was asked yet: those with the lowest `key` are asked first.
    pub(super) fn sort_by_key<K: Ord>(&mut self, key: impl Fn(&Member) -> K) {
        if self.members.len() > 1 {
            self.members.sort_by_key(key);
        }
    }

    /// Drops the replicas for which `keep` is false, none of which was asked yet.
    pub(super) fn retain(&mut self, keep: impl Fn(&Member) -> bool) {
        self.members.retain(|member| keep(member));
    }

    /// Changes the counts to which a replica belongs.
    #[inline]
    fn count(&mut self, side: Side, change: impl Fn(&mut Count)) {
        if side != Side::Next {
            change(&mut self.count);
        }
        if side != Side::Now
            && let Some(next) = self.rare.as_mut().and_then(|rare| rare.next.as_mut())
        {
            change(next);
        }
    }

    /// Counts a replica, by its position, as asked.
    #[inline]
    pub(super) fn ask(&mut self, at: usize) -> Replica {
        let member = &mut self.members[at];
        member.state = State::Open;
        let Member { replica, data_center, side, .. } = *member;
        self.count(side, |count| count.ask(data_center));
        replica
    }

    /// Counts the replicas that have answered as asked once more. Those from which an answer is awaited are spare then,
    /// unless none has answered.
    pub(super) fn ask_again(&mut self) {
        if !self.has_any() {
            return;
        }
        self.count(Side::Both, |count| *count = count.unasked());
        for at in 0..self.members.len() {
            match self.members[at].state {
                State::Answered => _ = self.ask(at),
                State::Open => self.members[at].state = State::Spare,
                State::Spare | State::Failed => {}
            }
        }
    }

    /// The same replicas for another question, none of them asked.
    pub(super) fn unasked(&self) -> Tally {
        let mut members = self.members.clone();
        members.iter_mut().for_each(|member| member.state = State::Spare);
        let next = self.next().map(Count::unasked);
        let rare = next.map(|next| Box::new(Rare { next: Some(next), failures: Vec::new() }));
        Tally { members, count: self.count.unasked(), rare }
    }

    /// Whether the key gets other replicas and enough of these are needed too.
    pub(super) fn has_two_sides(&self) -> bool {
        self.next().is_some()
    }

    /// Whether a replica, by its position, is needed besides those that were asked. Only if there are two sides.
    pub(super) fn is_needed(&self, at: usize) -> bool {
        let side = self.members[at].side;
        let helps = |count: &Count| count.is_out_of_reach();
        side != Side::Next && helps(&self.count) || side != Side::Now && self.next().is_some_and(helps)
    }

    /// Gives up what is needed of the replicas to be, because they cannot be enough any more.
    pub(super) fn give_up_next(&mut self) {
        if self.next().is_some_and(Count::is_out_of_reach)
            && let Some(rare) = &mut self.rare
        {
            rare.next = None;
        }
    }

    /// The positions of the spare replicas that make up for one that has failed: one that stays, or one of each side.
    /// Only if there are two sides.
    pub(super) fn needed_spares(&self) -> SmallVec<[usize; 2]> {
        let (mut now, mut next) = (self.count.is_out_of_reach(), self.next().is_some_and(Count::is_out_of_reach));
        let mut spares = SmallVec::new();
        for (at, member) in self.members.iter().enumerate().filter(|(_, member)| member.state == State::Spare) {
            if now && member.side != Side::Next || next && member.side != Side::Now {
                spares.push(at);
                now &= member.side == Side::Next;
                next &= member.side == Side::Now;
            }
        }
        spares
    }

    /// The position of a spare replica whose answer counts like that of one in `data_center`.
    pub(super) fn spare_for(&self, data_center: DataCenter) -> Option<usize> {
        let requirement = self.count.requirement;
        let fits = |member: &Member| match requirement.scope {
            Scope::All => true,
            Scope::Local => requirement.counts(member.data_center),
            Scope::Each => member.data_center == data_center,
        };
        self.members.iter().position(|member| member.state == State::Spare && fits(member))
    }

    /// Counts an answer. Returns the position of its replica; `None` if it is not awaited.
    #[inline]
    pub(super) fn answered(&mut self, replica: Replica) -> Option<usize> {
        let at = self.close(replica, State::Answered)?;
        let Member { data_center, side, .. } = self.members[at];
        self.count(side, |count| count.answered(data_center));
        Some(at)
    }

    /// Counts a failure. Returns the position of its replica; `None` if its answer is not awaited.
    pub(super) fn failed(&mut self, replica: Replica, reason: FailureReason) -> Option<usize> {
        let at = self.close(replica, State::Failed)?;
        self.rare.get_or_insert_default().failures.push((replica.node, reason));
        Some(at)
    }

    /// Ends waiting for a replica.
    #[inline]
    fn close(&mut self, replica: Replica, state: State) -> Option<usize> {
        let is_awaited = |member: &Member| member.replica == replica && member.state == State::Open;
        let at = self.members.iter().position(is_awaited)?;
        self.members[at].state = state;
        let Member { data_center, side, .. } = self.members[at];
        self.count(side, |count| count.close(data_center));
        Some(at)
    }

    fn next(&self) -> Option<&Count> {
        self.rare.as_ref()?.next.as_ref()
    }

    /// The count that errors name: the one that is not reached.
    fn shown(&self) -> &Count {
        self.next().filter(|next| self.count.is_reached() && !next.is_reached()).unwrap_or(&self.count)
    }

    fn failures(&self) -> &[(NodeIndex, FailureReason)] {
        self.rare.as_ref().map_or(&[], |rare| &rare.failures)
    }

    /// Whether enough answers have come.
    #[inline]
    pub(super) fn is_reached(&self) -> bool {
        self.count.is_reached() && self.next().is_none_or(Count::is_reached)
    }

    /// Whether the answers that are awaited cannot be enough any more.
    pub(super) fn is_out_of_reach(&self) -> bool {
        self.count.is_out_of_reach() || self.next().is_some_and(Count::is_out_of_reach)
    }

    /// Whether an answer is awaited from any replica, even one that does not count.
    pub(super) fn awaits_any(&self) -> bool {
        self.members.iter().any(|member| member.state == State::Open)
    }

    /// Whether any replica has answered, even one that does not count.
    pub(super) fn has_any(&self) -> bool {
        self.members.iter().any(|member| member.state == State::Answered)
    }

    /// Whether all failures so far are replicas that ran out of time.
    pub(super) fn all_ran_out_of_time(&self) -> bool {
        self.failures().iter().all(|(_, reason)| *reason == FailureReason::Timeout)
    }

    pub(super) fn received(&self) -> i32 {
        number(self.shown().received)
    }

    pub(super) fn block_for(&self) -> i32 {
        number(self.shown().requirement.block_for)
    }

    pub(super) fn level(&self) -> Consistency {
        self.count.requirement.level
    }

    /// Why replicas failed, with their addresses: for clients, and as text.
    pub(super) fn reasons(&self, topology: &Topology) -> (Vec<(std::net::IpAddr, FailureReason)>, String) {
        let (received, count) = (self.shown().received, self.failures().len());
        let mut text = format!("Operation failed - received {received} responses and {count} failures: ");
        let mut reasons = Vec::with_capacity(count);
        for (at, (node, reason)) in self.failures().iter().enumerate() {
            let address = topology.node(*node).address;
            let comma = if at > 0 { ", " } else { "" };
            let _ = write!(text, "{comma}{} from /{address}", reason.name());
            reasons.push((address.ip(), *reason));
        }
        (reasons, text)
    }
}

/// Why a replica failed, as its failure tells.
pub(super) fn reason_of(failure: &Failure) -> FailureReason {
    match &failure.detail {
        Detail::Replica { reason } => *reason,
        _ => FailureReason::Unknown,
    }
}

/// The failure of a read that took too long; `data_present`: a replica has given its data.
pub(super) fn read_timed_out(tally: &Tally, data_present: bool) -> Failure {
    let received = tally.received();
    let (consistency, block_for) = (tally.level(), tally.block_for());
    let detail = Detail::ReadTimeout { consistency, received, block_for, data_present };
    Failure::new(ErrorCode::ReadTimeout, timed_out_text(received)).with(detail)
}

/// The text of a request that took too long.
pub(super) fn timed_out_text(received: i32) -> String {
    format!("Operation timed out - received only {received} responses.")
}
