//! A member's handle on its group: what the owner calls.

use crate::config::Config;
use crate::error::ProposeError;
use crate::limits::{COMMAND_BYTES_MAX, MEMBERS_MAX};
use crate::member::Member;
use crate::message::{Answer, MemberChange, Request};
use crate::ports::{LogStore, StateMachine, StoreError, Transport, Unreachable};
use crate::recovery;
use crate::status::Status;
use crate::types::Proposal;
use openraft::EmptyNode;
use openraft::rt::WatchReceiver;
use runtime::Instant;
use runtime::sync::{Either, race};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::Duration;
use uuid::Uuid;

/// A member of a group, on one shard. Cloning shares it.
#[derive(Clone)]
pub struct Group(Rc<Member>);

/// A member that whoever holds this does not keep alive.
#[derive(Clone)]
pub struct WeakGroup(Weak<Member>);

impl WeakGroup {
    /// The member, unless it is gone.
    pub fn upgrade(&self) -> Option<Group> {
        self.0.upgrade().map(Group)
    }
}

impl Group {
    /// A handle for what the store, the transport or the state machine of this member refer to: it does not keep the
    /// member alive, which keeps them.
    pub fn downgrade(&self) -> WeakGroup {
        WeakGroup(Rc::downgrade(&self.0))
    }

    /// Starts the member with what `store` holds. With an empty store it belongs to no group: it waits for
    /// [`Group::create`], or for the leader of a group that has added it.
    ///
    /// When this returns, the state machine has every command that the member knows to be decided. The only voter of a
    /// group is its leader then. Errors are those of the store and of the state machine, and wrong timings.
    pub async fn start(
        config: Config,
        store: impl LogStore,
        transport: impl Transport,
        machine: impl StateMachine,
    ) -> Result<Group, StoreError> {
        let member = Member::start(config, Rc::new(store), Rc::new(transport), Rc::new(machine)).await?;
        let group = Group(Rc::new(member));
        if group.0.votes_alone() {
            // Nobody can object, so nothing is gained by waiting for an election.
            let _ = group.0.raft().trigger().elect(false).await;
            group.lead().await?;
        }
        Ok(group)
    }

    /// Makes this member the first of a group. Returns when it leads; does nothing if it belongs to a group.
    pub async fn create(&self) -> Result<(), StoreError> {
        let members = BTreeMap::from([(self.0.config.me, EmptyNode::new())]);
        // Refused only if there is a log or a vote already.
        let created = self.0.raft().initialize(members).await;
        if created.is_err() && !self.0.votes_alone() {
            return self.0.failure.reason().map_or(Ok(()), Err);
        }
        self.lead().await
    }

    /// Waits until this member, the only voter, leads and has applied its log.
    async fn lead(&self) -> Result<(), StoreError> {
        let member = &self.0;
        let ready = async {
            loop {
                if member.leader() == Some(member.config.me) {
                    // A leader's first record decides all those before it.
                    let last = member.log.last().map_or(0, |last| last.index);
                    return member.machine.wait_applied(last).await;
                }
                member.wait_for_leader_change(member.config.timings.heartbeat).await;
            }
        };
        match race(ready, member.failure.wait()).await {
            Either::Left(()) => {
                member.rest_if_alone();
                Ok(())
            }
            Either::Right(error) => Err(error),
        }
    }

    /// Takes a message of another member and returns the answer. Bytes that are no message are answered as such.
    pub async fn handle(&self, message: &[u8]) -> Vec<u8> {
        let answer = match Request::decode(message) {
            Some(request) => self.0.answer(request).await,
            None => Answer::BadMessage,
        };
        answer.encode()
    }

    /// Proposes a command, through the leader. Returns the index at which the leader applied it, once, and the state
    /// machine's answer there; other members, this one too, may apply it a little later ([`Group::wait_applied`]).
    ///
    /// The command is sent again when a leader goes away before it answers, so [`ProposeError::Unknown`] comes at the
    /// deadline only.
    pub async fn propose(&self, command: Vec<u8>, deadline: Instant) -> Result<(u64, Vec<u8>), ProposeError> {
        if command.len() > COMMAND_BYTES_MAX {
            return Err(ProposeError::TooLong(command.len()));
        }
        let proposal = Proposal { id: Uuid::from_bytes(runtime::rng::bytes16()), command };
        let ask = |wait| Request::Propose { wait, proposal: proposal.clone() };
        match self.ask_leader(deadline, ask).await? {
            Answer::Applied(applied) => Ok((applied.index, applied.answer)),
            _ => Err(ProposeError::Unknown),
        }
    }

    /// Where the log is now: an index that covers every command that was answered anywhere before this call. With
    /// [`Group::wait_applied`] it makes a local read linearizable.
    pub async fn read_index(&self, deadline: Instant) -> Result<u64, ProposeError> {
        match self.ask_leader(deadline, |wait| Request::ReadIndex { wait }).await? {
            Answer::Index(index) => Ok(index),
            _ => Err(ProposeError::NoLeader),
        }
    }

    /// Adds members that do not vote. The leader sends them the log, or a snapshot. Nodes that are members stay what
    /// they are.
    pub async fn add_learners(&self, nodes: BTreeSet<Uuid>, deadline: Instant) -> Result<(), ProposeError> {
        self.change(MemberChange::AddLearners(nodes), deadline).await
    }

    /// Removes members, voters too; what is no member is ignored. A leader that removes itself leads until the change
    /// is decided. [`ProposeError::NoVoter`] if no voter would be left.
    pub async fn remove(&self, nodes: BTreeSet<Uuid>, deadline: Instant) -> Result<(), ProposeError> {
        self.change(MemberChange::Remove(nodes), deadline).await
    }

    /// Makes `voters` the voters, and all other members learners. [`ProposeError::NotAMember`] if one of them has not
    /// been added.
    pub async fn set_voters(&self, voters: BTreeSet<Uuid>, deadline: Instant) -> Result<(), ProposeError> {
        self.change(MemberChange::SetVoters(voters), deadline).await
    }

    async fn change(&self, change: MemberChange, deadline: Instant) -> Result<(), ProposeError> {
        let (MemberChange::AddLearners(nodes) | MemberChange::Remove(nodes) | MemberChange::SetVoters(nodes)) = &change;
        assert!(nodes.len() <= MEMBERS_MAX, "a group has at most {MEMBERS_MAX} members");
        let ask = |wait| Request::ChangeMembers { wait, change: change.clone() };
        match self.ask_leader(deadline, ask).await? {
            Answer::Index(_) => Ok(()),
            Answer::NotAMember(node) => Err(ProposeError::NotAMember(node)),
            Answer::NoVoter => Err(ProposeError::NoVoter),
            _ => Err(ProposeError::Unknown),
        }
    }

    /// Asks the leader until it answers or the deadline has come. Requests must have the same effect when they arrive
    /// twice.
    async fn ask_leader(
        &self,
        deadline: Instant,
        request: impl Fn(Duration) -> Request,
    ) -> Result<Answer, ProposeError> {
        let member = &self.0;
        let timings = &member.config.timings;
        let (mut error, mut sent) = (ProposeError::NoLeader, false);
        loop {
            if let Some(reason) = member.failure.reason() {
                return Err(if sent { ProposeError::Unknown } else { ProposeError::Stopped(reason) });
            }
            let left = deadline.since(runtime::now());
            if left.is_zero() {
                return Err(if sent { ProposeError::Unknown } else { error });
            }
            let leader = member.raft().server_metrics().borrow_watched().current_leader;
            let answer = match leader {
                None => Answer::NotLeader,
                Some(leader) if leader == member.config.me => member.answer_as_leader(request(left)).await,
                Some(leader) => {
                    // A leader that is cut off is given up as soon as there is another one.
                    let called = member.transport.call(leader, request(left).encode());
                    match race(called, member.wait_for_leader_change(left)).await {
                        Either::Left(Ok(bytes)) => Answer::decode(&bytes).unwrap_or(Answer::UnknownOutcome),
                        Either::Left(Err(Unreachable::NotSent)) => Answer::NotLeader,
                        Either::Left(Err(Unreachable::NoAnswer)) | Either::Right(()) => Answer::UnknownOutcome,
                    }
                }
            };
            match answer {
                Answer::NotLeader | Answer::Stopped | Answer::BadMessage => error = ProposeError::NoLeader,
                Answer::NoMajority => error = ProposeError::NoMajority,
                Answer::UnknownOutcome => sent = true,
                Answer::ChangeUnderWay => error = ProposeError::NoMajority,
                answer => return Ok(answer),
            }
            let left = deadline.since(runtime::now());
            member.wait_for_leader_change(left.min(timings.heartbeat / 4)).await;
        }
    }

    /// The leader, as far as this member knows. Itself only while it hears from a majority of the voters.
    pub fn leader(&self) -> Option<Uuid> {
        self.0.leader()
    }

    /// The index of the last record that the state machine has; 0 if there is none.
    pub fn applied(&self) -> u64 {
        self.0.machine.applied()
    }

    /// Waits until the state machine has the record at `index`; false if it has not by the deadline.
    pub async fn wait_applied(&self, index: u64, deadline: Instant) -> bool {
        let left = deadline.since(runtime::now());
        runtime::timeout(left, self.0.machine.wait_applied(index)).await.is_some()
    }

    /// Waits until the state machine has the record at `index`, however long that takes; false if it gets no further
    /// for as long as `patience`.
    pub async fn follow(&self, index: u64, patience: Duration) -> bool {
        loop {
            let before = self.applied();
            if self.wait_applied(index, runtime::now().after(patience)).await {
                return true;
            }
            if self.applied() == before {
                return false;
            }
        }
    }

    /// Waits until this member has stopped taking part because its storage or state machine failed, and says why.
    pub async fn failed(&self) -> StoreError {
        self.0.failure.wait().await
    }

    /// This member's view of the group.
    pub fn status(&self) -> Status {
        let member = &self.0;
        let metrics = member.raft().metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let last = metrics.last_log_index.unwrap_or(0);
        let index = |id: &Option<_>| id.map_or(0, |id: crate::types::LogId| id.index);
        let lag = metrics.replication.iter().flatten().filter(|(node, _)| **node != member.config.me);
        Status {
            me: member.config.me,
            term: metrics.current_term,
            leader: member.leader(),
            voters: membership.voter_ids().collect(),
            learners: membership.learner_ids().collect(),
            changing: membership.get_joint_config().len() > 1,
            last,
            decided: index(&metrics.local_committed),
            applied: member.machine.applied(),
            snapshot: index(&metrics.snapshot),
            lag: lag.map(|(node, matched)| (*node, last.saturating_sub(index(matched)))).collect(),
            failure: member.failure.reason().map(|error| error.0),
        }
    }

    /// Gives the group new voters when a majority of the old ones is lost for good. Only an operator can know that:
    /// members of the old majority that come back have another history, and commands that only they had are lost.
    ///
    /// To be called on one member, of those left the one with the longest log. All that it has is decided then, the
    /// voters are `voters` (members that can be reached, or will be), all other members become learners. Returns when
    /// this is durable here; the new voters elect a leader afterwards.
    pub async fn recover(&self, voters: BTreeSet<Uuid>) -> Result<(), ProposeError> {
        recovery::recover(&self.0, voters).await?;
        if self.0.votes_alone() {
            let _ = self.0.raft().trigger().elect(false).await;
            self.lead().await.map_err(ProposeError::Stopped)?;
        }
        Ok(())
    }

    /// Stops the member, for good in this process.
    pub async fn stop(&self) {
        let _ = self.0.raft().shutdown().await;
    }
}
