//! Operations that move data: what is under way, and what its end changes.
//!
//! 1. [`Command::Begin`](super::Command::Begin) and [`Command::Replicate`](super::Command::Replicate) begin one. From
//!    then on the nodes that gain ranges by it are pending replicas: they get every write.
//! 2. Each of these *receivers* fetches what it gains, and reports that with
//!    [`Command::Received`](super::Command::Received).
//! 3. After the last report data is read from its new places: what was pending is natural. The nodes that are natural
//!    no more are pending now, and still get every write, because a node that has not heard of it reads from them.
//! 4. When a majority of these and of all live nodes have ended and refuse such reads, whoever leads the group says so
//!    with [`Command::Settle`](super::Command::Settle), which ends the operation. Only a node that leaves is still a
//!    member then; it is removed by itself, once it has handed on what else it has.
//!
//! If the nodes change in between, what each one gains is another thing: then all nodes are receivers, and what was
//! reported before is void ([`Operation::since`]). Data is read from its old places again then, which have every write
//! too. Only what a dead node had is never read from that node again: nothing was written there any more.
//!
//! Several members that are down may be taken out together. Each has its operation, and these begin anew with each that
//! is added: they have the same receivers, are reported together and switch together.
//!
//! Invariants: there is at most one operation at a time, but for such removals; a member that is `Leaving` or `Moving`
//! has one about it, but for one that left by [`Command::Leave`](super::Command::Leave), which moves no data: only
//! older entries have it.

use super::{Member, MemberState, Metadata, Rejected};
use crate::replication::ReplicationBefore;
use crate::topology::features;
use model::schema::Replication;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// An operation that is under way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// What changes.
    pub kind: OperationKind,
    /// The epoch since which the nodes gain what they gain now.
    pub since: u64,
    /// The host ids of the nodes that still have to fetch what they gain.
    pub receivers: BTreeSet<Uuid>,
    /// How far it is.
    pub stage: Stage,
}

/// How far an operation is.
///
/// The order of variants is part of the encoding: new ones come at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Stage {
    /// Data is read from where it was, and written to where it is going to be as well.
    Fetching,
    /// Data is read from where it is going to be, and written to where it was as well: a node that has not heard of
    /// that yet may still read there.
    Switched,
    /// Nobody reads where data was any more. Only a node that leaves still has something to do then.
    Settled,
}

/// What an operation changes when it ends.
///
/// The order of variants and fields is part of the encoding: new ones come at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OperationKind {
    /// A joining member becomes part of the ring.
    Join {
        /// Its host id.
        host_id: Uuid,
    },
    /// A member gives up its ranges by itself.
    Leave {
        /// Its host id.
        host_id: Uuid,
    },
    /// A member that is down is taken out of the ring.
    Remove {
        /// Its host id.
        host_id: Uuid,
    },
    /// A joining member takes the tokens of one that is down.
    Replace {
        /// The host id of the new node.
        host_id: Uuid,
        /// The host id of the node that it replaces.
        replaced: Uuid,
    },
    /// A member gets other tokens.
    Move {
        /// Its host id.
        host_id: Uuid,
        /// Its tokens to be, in their textual form.
        tokens: Vec<String>,
    },
    /// A keyspace gets other replicas.
    Replicate {
        /// Its name.
        keyspace: String,
        /// The full class name of the strategy that it has until the operation ends.
        class: String,
        /// The options of that strategy.
        options: BTreeMap<String, String>,
    },
    /// Tablets get other replicas. It makes room for every other operation as long as data is fetched.
    Tablets,
}

impl Operation {
    /// Whether it ends at once when another one is to begin.
    fn makes_room(&self) -> bool {
        self.kind == OperationKind::Tablets && self.stage == Stage::Fetching
    }
}

impl OperationKind {
    /// The node that it is about, if it is about one.
    pub fn host_id(&self) -> Option<Uuid> {
        match self {
            OperationKind::Join { host_id }
            | OperationKind::Leave { host_id }
            | OperationKind::Remove { host_id }
            | OperationKind::Replace { host_id, .. }
            | OperationKind::Move { host_id, .. } => Some(*host_id),
            OperationKind::Replicate { .. } | OperationKind::Tablets => None,
        }
    }

    /// Whether it is about a node, as the new or as the old one.
    fn is_about(&self, id: Uuid) -> bool {
        let replaced = match self {
            OperationKind::Replace { replaced, .. } => Some(*replaced),
            _ => None,
        };
        self.host_id() == Some(id) || replaced == Some(id)
    }

    /// The node that it takes out because it is down: nobody can read there, so no writes need to go there any more.
    pub fn takes_out(&self) -> Option<Uuid> {
        match self {
            OperationKind::Remove { host_id } => Some(*host_id),
            OperationKind::Replace { replaced, .. } => Some(*replaced),
            _ => None,
        }
    }

    /// The state that its node must have when it begins, and has while it is under way.
    fn states(&self) -> (MemberState, MemberState) {
        match self {
            OperationKind::Join { .. } | OperationKind::Replace { .. } => (MemberState::Joining, MemberState::Joining),
            OperationKind::Leave { .. } | OperationKind::Remove { .. } => (MemberState::Normal, MemberState::Leaving),
            OperationKind::Move { .. } => (MemberState::Normal, MemberState::Moving),
            OperationKind::Replicate { .. } | OperationKind::Tablets => (MemberState::Normal, MemberState::Normal),
        }
    }
}

impl std::fmt::Display for OperationKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OperationKind::Join { host_id } => write!(f, "node {host_id} joins"),
            OperationKind::Leave { host_id } => write!(f, "node {host_id} leaves"),
            OperationKind::Remove { host_id } => write!(f, "node {host_id} is removed"),
            OperationKind::Replace { host_id, replaced } => write!(f, "node {host_id} replaces {replaced}"),
            OperationKind::Move { host_id, .. } => write!(f, "node {host_id} moves"),
            OperationKind::Replicate { keyspace, .. } => write!(f, "keyspace {keyspace} gets other replicas"),
            OperationKind::Tablets => f.write_str("tablets get other replicas"),
        }
    }
}

impl Metadata {
    /// The operation that a node is the subject of.
    pub fn operation_of(&self, host_id: Uuid) -> Option<(u64, &Operation)> {
        self.operations
            .iter()
            .find(|(_, operation)| operation.kind.host_id() == Some(host_id))
            .map(|(id, it)| (*id, it))
    }

    /// The replication that keyspaces had before the operations under way, if the schema has another one already.
    pub fn replication_before(&self) -> BTreeMap<String, ReplicationBefore> {
        let before = |operation: &Operation| match &operation.kind {
            OperationKind::Replicate { keyspace, class, options } => {
                let replication = Replication { class: class.clone(), options: options.clone() };
                let is_read = operation.stage == Stage::Fetching;
                Some((keyspace.clone(), ReplicationBefore { replication, is_read }))
            }
            _ => None,
        };
        self.operations.values().filter_map(before).collect()
    }

    /// The tokens of all members, in the order of their host ids, by which data is written besides those by which it is
    /// read: those to be while data is fetched, those that were once it is read from its new place.
    pub fn next_tokens(&self) -> Vec<&[String]> {
        self.members.iter().map(|(id, member)| self.next_tokens_of(*id, member)).collect()
    }

    fn next_tokens_of<'m>(&'m self, id: Uuid, member: &'m Member) -> &'m [String] {
        match self.operation_about(id) {
            Some(operation) if operation.stage == Stage::Switched && operation.kind.takes_out().is_none() => {
                tokens_before(member)
            }
            _ => self.tokens_after(id, member),
        }
    }

    /// The tokens by which a member's data is read.
    pub(super) fn read_tokens<'m>(&'m self, id: Uuid, member: &'m Member) -> &'m [String] {
        match self.operation_about(id).map(|operation| operation.stage) {
            None | Some(Stage::Fetching) => tokens_before(member),
            Some(Stage::Switched | Stage::Settled) => self.tokens_after(id, member),
        }
    }

    fn operation_about(&self, id: Uuid) -> Option<&Operation> {
        self.operations.values().find(|operation| operation.kind.is_about(id))
    }

    /// The tokens of a member once the operations under way have ended.
    fn tokens_after<'m>(&'m self, id: Uuid, member: &'m Member) -> &'m [String] {
        match self.operation_about(id).map(|operation| &operation.kind) {
            None => tokens_before(member),
            Some(OperationKind::Leave { .. } | OperationKind::Remove { .. }) => &[],
            Some(OperationKind::Move { tokens, .. }) => tokens,
            Some(OperationKind::Replace { replaced, .. }) if *replaced == id => &[],
            Some(OperationKind::Replace { replaced, .. }) => self.members.get(replaced).map_or(&[], |old| &old.tokens),
            Some(OperationKind::Join { .. } | OperationKind::Replicate { .. } | OperationKind::Tablets) => {
                &member.tokens
            }
        }
    }

    /// Begins an operation at the current epoch.
    pub(super) fn begin(&mut self, kind: &OperationKind, receivers: &BTreeSet<Uuid>) -> Result<(), Rejected> {
        self.check_begin(kind)?;
        self.stop_moving_tablets();
        if let Some(host_id) = kind.host_id() {
            // What was under way about the same node makes room: a node that leaves may die and be removed.
            self.operations.retain(|_, operation| operation.kind.host_id() != Some(host_id));
            set_state(self, host_id, kind.states().1);
        }
        let receivers: BTreeSet<Uuid> = receivers.iter().copied().filter(|id| self.members.contains_key(id)).collect();
        // Removals that it goes beside: together the nodes gain other things than before.
        for other in self.operations.values_mut() {
            (other.since, other.receivers) = (self.epoch, receivers.clone());
        }
        let operation = Operation { kind: kind.clone(), since: self.epoch, receivers, stage: Stage::Fetching };
        self.operations.insert(self.epoch, operation);
        self.switch_if_received(self.epoch);
        Ok(())
    }

    /// Whether entries are to be taken as only newer versions take them: all members, who must agree, can do so.
    pub(super) fn removes_jointly(&self) -> bool {
        self.members.values().all(|member| member.features & features::JOINT_REMOVALS != 0)
    }

    fn check_begin(&self, kind: &OperationKind) -> Result<(), Rejected> {
        let about = kind.host_id();
        let is_removal = |kind: &OperationKind| matches!(kind, OperationKind::Remove { .. });
        let may_be_joined = |operation: &Operation| {
            is_removal(kind)
                && is_removal(&operation.kind)
                && operation.stage == Stage::Fetching
                && self.removes_jointly()
        };
        let other = |operation: &&Operation| {
            let makes_room = operation.makes_room() && *kind != OperationKind::Tablets;
            !makes_room && (about.is_none() || operation.kind.host_id() != about) && !may_be_joined(operation)
        };
        if let Some(other) = self.operations.values().find(other) {
            return Err(Rejected::OperationUnderWay(Box::new(other.kind.clone())));
        }
        let Some(host_id) = about else { return Ok(()) };
        let member = self.members.get(&host_id).ok_or(Rejected::UnknownMember(host_id))?;
        let state = member.state;
        let is_removed_meanwhile = matches!(kind, OperationKind::Remove { .. }) && state != MemberState::Joining;
        let is_switched = self.operation_of(host_id).is_some_and(|(_, operation)| operation.stage != Stage::Fetching);
        let goes_on = is_switched || self.operation_of(host_id).is_some_and(|(_, operation)| operation.kind == *kind);
        if state != kind.states().0 && !is_removed_meanwhile || goes_on {
            return Err(Rejected::WrongState { host_id, state });
        }
        let is_last = || self.members.iter().all(|(id, other)| *id == host_id || other.state != MemberState::Normal);
        match kind {
            OperationKind::Leave { .. } | OperationKind::Remove { .. } if is_last() => Err(Rejected::LastMember),
            OperationKind::Replace { replaced, .. } => {
                let old = self.members.get(replaced).ok_or(Rejected::UnknownMember(*replaced))?;
                match old.state {
                    MemberState::Normal | MemberState::Leaving => Ok(()),
                    state => Err(Rejected::WrongState { host_id: *replaced, state }),
                }
            }
            OperationKind::Move { tokens, .. } => {
                let taken = |token: &&String| self.owner_of(token).is_some_and(|owner| owner != host_id);
                match tokens.iter().find(taken) {
                    None => Ok(()),
                    Some(token) => {
                        let owner = self.owner_of(token).and_then(|owner| self.members.get(&owner));
                        let owner = owner.map_or(member.address, |owner| owner.address);
                        Err(Rejected::TokenTaken { token: token.clone(), owner })
                    }
                }
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_replicate(&self, kind: &OperationKind) -> Result<(), Rejected> {
        let of = |kind: &OperationKind| match kind {
            OperationKind::Replicate { keyspace, .. } => Some(keyspace.clone()),
            _ => None,
        };
        // One that is read from its new places already must end first.
        let in_the_way = |operation: &&Operation| {
            !operation.makes_room() && (of(&operation.kind) != of(kind) || operation.stage != Stage::Fetching)
        };
        match self.operations.values().find(in_the_way) {
            Some(other) => Err(Rejected::OperationUnderWay(Box::new(other.kind.clone()))),
            None => Ok(()),
        }
    }

    /// Begins a change of replication at the current epoch, or takes the place of one that is under way: what the
    /// keyspace has until the end is what it had before both.
    pub(super) fn replicate(&mut self, kind: OperationKind, receivers: &BTreeSet<Uuid>) {
        self.stop_moving_tablets();
        let under_way = std::mem::take(&mut self.operations);
        let kind = under_way.into_values().next().map_or(kind, |operation| operation.kind);
        let receivers: BTreeSet<Uuid> = receivers.iter().copied().filter(|id| self.members.contains_key(id)).collect();
        let operation = Operation { kind, since: self.epoch, receivers, stage: Stage::Fetching };
        self.operations.insert(self.epoch, operation);
        self.switch_if_received(self.epoch);
    }

    /// Takes the report of a receiver.
    pub(super) fn received(&mut self, id: u64, since: u64, host_id: Uuid) -> Result<(), Rejected> {
        let operation = self.operations.get_mut(&id).filter(|operation| operation.since == since);
        operation.ok_or(Rejected::NoOperation(id))?;
        // Those that began together are reported together.
        for operation in self.operations.values_mut().filter(|operation| operation.since == since) {
            operation.receivers.remove(&host_id);
        }
        self.switch_if_received(id);
        Ok(())
    }

    /// Takes the report that nobody reads any more where the data of an operation was: it ends, unless it is that of a
    /// node that leaves.
    pub(super) fn settle(&mut self, id: u64, since: u64) -> Result<(), Rejected> {
        let epoch = self.epoch;
        let operation = self.operations.get_mut(&id);
        let switched = operation.filter(|operation| operation.since == since && operation.stage == Stage::Switched);
        let operation = switched.ok_or(Rejected::NoOperation(id))?;
        (operation.stage, operation.since) = (Stage::Settled, epoch);
        let leaves = matches!(operation.kind, OperationKind::Leave { .. });
        self.reach_goals();
        if !leaves {
            self.end(id);
        }
        Ok(())
    }

    /// Undoes an operation that has not ended. A change of replication is undone by another one.
    pub(super) fn abort(&mut self, id: u64) -> Result<(), Rejected> {
        let operation = self.operations.get(&id).filter(|operation| operation.stage == Stage::Fetching);
        let operation = operation.ok_or(Rejected::NoOperation(id))?;
        let (about, state) = (operation.kind.host_id(), operation.kind.states().0);
        if about.is_none() && operation.kind != OperationKind::Tablets {
            return Err(Rejected::NoOperation(id));
        }
        self.operations.remove(&id);
        if let Some(host_id) = about {
            set_state(self, host_id, state);
        }
        self.give_up_goals();
        Ok(())
    }

    /// Takes a member out, and with it the operations about it. What others gain by those that remain is another thing
    /// then.
    pub(super) fn forget_member(&mut self, host_id: Uuid) {
        let is_about_it = |operation: &Operation| operation.kind.is_about(host_id);
        let had_no_part = !self.operations.values().any(is_about_it)
            && self.members.get(&host_id).is_some_and(|member| member.state == MemberState::Joining);
        let gone = self.members.remove(&host_id);
        self.operations.retain(|_, operation| !is_about_it(operation));
        self.stop_moving_tablets();
        self.forget_in_tablets(host_id, gone.as_ref().map_or("", |member| &member.data_center));
        if had_no_part {
            // It had no data, and nobody gains less or more without it.
            for operation in self.operations.values_mut() {
                operation.receivers.remove(&host_id);
            }
            let under_way: Vec<u64> = self.operations.keys().copied().collect();
            under_way.into_iter().for_each(|id| self.switch_if_received(id));
            return;
        }
        let (is_joint, mut all) = (self.removes_jointly(), self.members.keys().copied().collect::<BTreeSet<Uuid>>());
        if is_joint {
            // They are down, and have nothing to fetch.
            let taken_out = self.operations.values().filter_map(|operation| operation.kind.takes_out());
            taken_out.for_each(|id| _ = all.remove(&id));
        }
        for operation in self.operations.values_mut().filter(|operation| operation.stage != Stage::Settled) {
            operation.since = self.epoch;
            // The node that it takes out lacks what was written since it is read no more.
            let stays = is_joint && operation.stage == Stage::Switched && operation.kind.takes_out().is_some();
            if !stays {
                (operation.receivers, operation.stage) = (all.clone(), Stage::Fetching);
            }
        }
        // A node that was to replace the one that is gone, or that it was to be replaced by.
        for (id, member) in &mut self.members {
            let has_one = self.operations.values().any(|operation| operation.kind.is_about(*id));
            if !has_one && matches!(member.state, MemberState::Leaving | MemberState::Moving) {
                Arc::make_mut(member).state = MemberState::Normal;
            }
        }
    }

    /// Lets data be read from its new place once the receivers of an operation, and of those that began with it, have
    /// all reported.
    fn switch_if_received(&mut self, id: u64) {
        let (epoch, since) = (self.epoch, self.operations.get(&id).map(|operation| operation.since));
        for operation in self.operations.values_mut().filter(|operation| Some(operation.since) == since) {
            if operation.stage == Stage::Fetching && operation.receivers.is_empty() {
                (operation.stage, operation.since) = (Stage::Switched, epoch);
            }
        }
    }

    /// Ends an operation.
    fn end(&mut self, id: u64) {
        let Some(kind) = self.operations.get(&id).map(|operation| operation.kind.clone()) else { return };
        match kind {
            OperationKind::Leave { host_id } => self.retire(host_id),
            OperationKind::Join { host_id } => set_state(self, host_id, MemberState::Normal),
            OperationKind::Remove { host_id } => self.retire(host_id),
            OperationKind::Replace { host_id, replaced } => {
                let tokens = self.members.get(&replaced).map(|old| old.tokens.clone()).unwrap_or_default();
                // First, so that the new node is not taken for one whose operation is gone.
                self.operations.remove(&id);
                self.retire(replaced);
                if let Some(member) = self.members.get_mut(&host_id).map(Arc::make_mut) {
                    (member.state, member.tokens) = (MemberState::Normal, tokens);
                }
            }
            OperationKind::Move { host_id, tokens } => {
                if let Some(member) = self.members.get_mut(&host_id).map(Arc::make_mut) {
                    (member.state, member.tokens) = (MemberState::Normal, tokens);
                }
            }
            OperationKind::Replicate { .. } | OperationKind::Tablets => {}
        }
        self.operations.remove(&id);
    }

    /// Takes a member out for good.
    pub(super) fn retire(&mut self, host_id: Uuid) {
        self.forget_member(host_id);
        self.owed_truncations.remove(&host_id);
        self.emptied.remove(&host_id);
        self.left.insert(host_id);
    }
}

/// The tokens by which a member's data was read before any operation about it.
fn tokens_before(member: &Member) -> &[String] {
    match member.state {
        MemberState::Joining => &[],
        MemberState::Normal | MemberState::Leaving | MemberState::Moving => &member.tokens,
    }
}

fn set_state(metadata: &mut Metadata, host_id: Uuid, state: MemberState) {
    if let Some(member) = metadata.members.get_mut(&host_id).filter(|member| member.state != state) {
        Arc::make_mut(member).state = state;
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
pub(crate) mod tests;
