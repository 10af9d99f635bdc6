//! One member: openraft between the owner's ports, and the answers to other members' requests.

use crate::config::Config;
use crate::erased::{AnyLogStore, AnyStateMachine, AnyTransport};
use crate::failure::Failure;
use crate::log::Log;
use crate::machine::Machine;
use crate::message::{Answer, Ballot, MemberChange, Request};
use crate::network::Network;
use crate::ports::StoreError;
use crate::snapshot_parts::{PartTaken, SnapshotParts};
use crate::types::{LogId, Snapshot, Types, Vote};
use openraft::errors::{ChangeMembershipError, ClientWriteError, Fatal, LinearizableReadError, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest};
use openraft::rt::WatchReceiver;
use openraft::{ChangeMembers, EmptyNode, ReadPolicy};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const ANOTHER_HISTORY: &str = "the cluster's metadata log was recovered without this node, which has another history";

/// openraft over this crate's state machine.
pub(crate) type Raft = openraft::Raft<Types, Machine>;

/// One member of a group.
pub(crate) struct Member {
    pub(crate) config: Config,
    pub(crate) transport: Rc<dyn AnyTransport>,
    pub(crate) log: Log,
    pub(crate) machine: Machine,
    pub(crate) failure: Failure,
    /// Replaced when an operator recovers the group.
    raft: RefCell<Raft>,
    parts: RefCell<SnapshotParts>,
}

impl Member {
    /// Reads what is stored and starts.
    pub(crate) async fn start(
        config: Config,
        store: Rc<dyn AnyLogStore>,
        transport: Rc<dyn AnyTransport>,
        owner: Rc<dyn AnyStateMachine>,
    ) -> Result<Member, StoreError> {
        let failure = Failure::default();
        let log = Log::open(store, failure.clone()).await?;
        let machine = Machine::new(owner, log.clone(), failure.clone());
        let raft = run(&config, &transport, &log, &machine, &failure).await?;
        let (raft, parts) = (RefCell::new(raft), RefCell::default());
        Ok(Member { config, transport, log, machine, failure, raft, parts })
    }

    /// Starts openraft anew on what is stored. The one that runs must have been shut down.
    pub(crate) async fn restart(&self) -> Result<(), StoreError> {
        let raft = run(&self.config, &self.transport, &self.log, &self.machine, &self.failure).await?;
        self.raft.replace(raft);
        Ok(())
    }

    pub(crate) fn raft(&self) -> Raft {
        self.raft.borrow().clone()
    }

    /// The leader, as far as the member knows. Itself only while it hears from a majority.
    pub(crate) fn leader(&self) -> Option<Uuid> {
        let leader = self.raft().server_metrics().borrow_watched().current_leader?;
        (leader != self.config.me || self.hears_majority()).then_some(leader)
    }

    /// Whether a majority of the voters has answered lately, on a leader.
    fn hears_majority(&self) -> bool {
        let raft = self.raft();
        if raft.voter_ids().all(|voter| voter == self.config.me) {
            return true;
        }
        let metrics = raft.data_metrics();
        let acknowledged = metrics.borrow_watched().last_quorum_acked;
        // A leader that was just elected has heard from a majority of the voters then.
        acknowledged.is_none_or(|at| runtime::now().since(at.0) <= self.config.timings.election.1)
    }

    /// Waits until the member hears of another leader, or of none, at most for `wait`.
    pub(crate) async fn wait_for_leader_change(&self, wait: Duration) {
        let mut metrics = self.raft().server_metrics();
        let before = metrics.borrow_and_update().current_leader;
        let changed = async {
            while metrics.changed().await.is_ok() {
                if metrics.borrow_and_update().current_leader != before {
                    return;
                }
            }
            std::future::pending().await
        };
        runtime::timeout(wait, changed).await;
    }

    /// Whether the member is the only voter of its group.
    pub(crate) fn votes_alone(&self) -> bool {
        self.raft().voter_ids().eq([self.config.me])
    }

    /// Whether the group has no other member.
    pub(crate) fn is_alone(&self) -> bool {
        let raft = self.raft();
        raft.voter_ids().eq([self.config.me]) && raft.learner_ids().next().is_none()
    }

    /// Stops the timer of heartbeats and elections if there is nobody to send them to or to hear them from, so that a
    /// group of one costs nothing while it is idle. The first sign of another member starts it again.
    pub(crate) fn rest_if_alone(&self) {
        if self.is_alone() {
            self.raft().runtime_config().tick(false);
        }
    }

    /// The answer to another member's request.
    pub(crate) async fn answer(&self, request: Request) -> Answer {
        if self.failure.reason().is_some() {
            return Answer::Stopped;
        }
        let raft = self.raft();
        // Somebody else is there, even if this member does not know it: it may have to hold an election.
        raft.runtime_config().tick(true);
        // Nobody sends anything to itself, and openraft relies on that.
        if request.vote().is_some_and(|vote| vote.leader_id.voted_for == self.config.me) {
            return Answer::BadMessage;
        }
        match request {
            Request::Append { vote, before: prev_log_id, decided: leader_commit, entries } => {
                if self.contradicts(vote, prev_log_id.into_iter().chain(entries.iter().map(|entry| entry.log_id))) {
                    return Answer::Stopped;
                }
                let request = AppendEntriesRequest { vote, prev_log_id, entries, leader_commit };
                match raft.append_entries(request).await {
                    Ok(AppendEntriesResponse::Success) => Answer::Appended,
                    Ok(AppendEntriesResponse::PartialSuccess(id)) => Answer::AppendedInPart(id),
                    Ok(AppendEntriesResponse::Conflict) => Answer::Conflict,
                    Ok(AppendEntriesResponse::HigherVote(vote)) => Answer::HigherVote(vote),
                    Err(_) => Answer::Stopped,
                }
            }
            Request::Vote(ballot) => voted(raft.vote(vote_request(ballot)).await),
            Request::PreVote(ballot) => voted(raft.pre_vote(vote_request(ballot)).await),
            Request::SnapshotPart { vote, hash, len, offset, bytes } => {
                let taken = self.parts.borrow_mut().take(vote, hash, len, offset, &bytes);
                match taken {
                    PartTaken::SendOnFrom(offset) => Answer::SendOnFrom(offset),
                    PartTaken::Unreadable => Answer::BadMessage,
                    PartTaken::Complete(snapshot) => {
                        let (meta, snapshot) = *snapshot;
                        if meta.last_log_id.is_some_and(|last| *last.leader_id > vote.leader_id.term) {
                            return Answer::BadMessage;
                        }
                        if self.contradicts(vote, meta.last_log_id) {
                            return Answer::Stopped;
                        }
                        match raft.install_full_snapshot(vote, Snapshot { meta, snapshot }).await {
                            Ok(response) => Answer::Installed(response.vote),
                            Err(_) => Answer::Stopped,
                        }
                    }
                }
            }
            Request::Transfer { vote, target, last } => {
                match raft.handle_transfer_leader(TransferLeaderRequest::new(vote, target, last)).await {
                    Ok(Ok(())) => Answer::Transferred,
                    Ok(Err(_)) => Answer::NotTransferred,
                    Err(_) => Answer::Stopped,
                }
            }
            Request::Propose { .. } | Request::ChangeMembers { .. } | Request::ReadIndex { .. } => {
                self.answer_as_leader(request).await
            }
        }
    }

    /// Whether a leader has other entries than this member knows to be decided: then an operator has recovered the
    /// group without this member, and it must not go on.
    fn contradicts(&self, vote: Vote, entries: impl IntoIterator<Item = LogId>) -> bool {
        let raft = self.raft();
        let metrics = raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(decided) = metrics.local_committed else { return false };
        if vote.leader_id.term < metrics.current_term {
            return false;
        }
        let differs = |id: LogId| {
            id.index <= decided.index && self.log.at(id.index).is_some_and(|own| own.leader_id != id.leader_id)
        };
        let contradicts = entries.into_iter().any(differs);
        if contradicts {
            self.failure.set(StoreError(ANOTHER_HISTORY.to_owned()));
        }
        contradicts
    }

    /// The answer to a request that only the leader serves.
    pub(crate) async fn answer_as_leader(&self, request: Request) -> Answer {
        let raft = self.raft();
        if raft.server_metrics().borrow_watched().current_leader != Some(self.config.me) {
            return Answer::NotLeader;
        }
        if !self.hears_majority() {
            return Answer::NoMajority;
        }
        match request {
            Request::Propose { wait, proposal } => {
                let written = runtime::timeout(wait, raft.client_write(proposal)).await;
                written.map_or(Answer::UnknownOutcome, |written| match written {
                    Ok(response) => Answer::Applied(response.data),
                    Err(error) => refusal(error),
                })
            }
            Request::ChangeMembers { wait, change } => {
                let changed = runtime::timeout(wait, self.change_members(&raft, change)).await;
                changed.unwrap_or(Answer::UnknownOutcome)
            }
            Request::ReadIndex { wait } => {
                let read = runtime::timeout(wait, raft.get_read_log_id(ReadPolicy::ReadIndex)).await;
                match read {
                    Some(Ok((id, _))) => Answer::Index(id.index()),
                    Some(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_)))) => Answer::NotLeader,
                    Some(Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))) | None => {
                        Answer::NoMajority
                    }
                    Some(Err(RaftError::Fatal(_))) => Answer::Stopped,
                }
            }
            _ => Answer::BadMessage,
        }
    }

    async fn change_members(&self, raft: &Raft, change: MemberChange) -> Answer {
        let voters: BTreeSet<Uuid> = raft.voter_ids().collect();
        let learners: BTreeSet<Uuid> = raft.learner_ids().collect();
        let joint = raft.server_metrics().borrow_watched().membership_config.membership().get_joint_config().len() > 1;
        let mut steps: Vec<(ChangeMembers<Uuid, EmptyNode>, bool)> = Vec::new();
        match change {
            MemberChange::AddLearners(nodes) => {
                let new = |node: &Uuid| !voters.contains(node) && !learners.contains(node);
                let nodes: BTreeMap<_, _> =
                    nodes.into_iter().filter(new).map(|node| (node, EmptyNode::new())).collect();
                if !nodes.is_empty() {
                    steps.push((ChangeMembers::AddNodes(nodes), true));
                }
            }
            MemberChange::Remove(nodes) => {
                let voting: BTreeSet<_> = nodes.intersection(&voters).copied().collect();
                if voting.len() == voters.len() {
                    return Answer::NoVoter;
                }
                if !voting.is_empty() {
                    steps.push((ChangeMembers::RemoveVoters(voting), true));
                }
                let known: BTreeSet<_> =
                    nodes.into_iter().filter(|node| voters.contains(node) || learners.contains(node)).collect();
                if !known.is_empty() {
                    steps.push((ChangeMembers::RemoveNodes(known), true));
                }
            }
            MemberChange::SetVoters(nodes) if nodes.is_empty() => return Answer::NoVoter,
            MemberChange::SetVoters(nodes) => {
                if nodes != voters || joint {
                    steps.push((ChangeMembers::ReplaceAllVoters(nodes), true));
                }
            }
        }
        if !steps.is_empty() {
            raft.runtime_config().tick(true);
        }
        for (step, retain) in steps {
            if let Err(error) = raft.change_membership(step, retain).await {
                return refusal(error);
            }
        }
        self.hand_over(raft).await;
        Answer::Index(self.machine.applied())
    }

    /// Hands the leadership to the voter with the longest log if this leader does not vote any more.
    async fn hand_over(&self, raft: &Raft) {
        let voters: BTreeSet<Uuid> = raft.voter_ids().collect();
        if voters.contains(&self.config.me) {
            return;
        }
        let metrics = raft.data_metrics();
        let replication = metrics.borrow_watched().replication.clone().unwrap_or_default();
        let longest = replication.into_iter().filter(|(node, _)| voters.contains(node));
        if let Some((target, _)) = longest.max_by_key(|(_, matched)| *matched) {
            let _ = raft.trigger().transfer_leader(target).await;
        }
    }
}

/// Starts openraft on what is stored.
fn run(
    config: &Config,
    transport: &Rc<dyn AnyTransport>,
    log: &Log,
    machine: &Machine,
    failure: &Failure,
) -> impl Future<Output = Result<Raft, StoreError>> {
    let options = config.timings.openraft().validate().map_err(|error| StoreError(error.to_string()));
    let (me, network, log, machine, failure) =
        (config.me, Network(transport.clone()), log.clone(), machine.clone(), failure.clone());
    async move {
        let started = Raft::new(me, Arc::new(options?), network, log, machine).await;
        started.map_err(|error: Fatal<Types>| failure.reason().unwrap_or_else(|| StoreError(error.to_string())))
    }
}

fn vote_request(ballot: Ballot) -> VoteRequest<Types> {
    VoteRequest { leadership_transfer: ballot.transfer, ..VoteRequest::new(ballot.vote, ballot.last) }
}

fn voted(response: Result<openraft::raft::VoteResponse<Types>, RaftError<Types>>) -> Answer {
    match response {
        Ok(response) => {
            Answer::Voted { vote: response.vote, granted: response.vote_granted, last: response.last_log_id }
        }
        Err(_) => Answer::Stopped,
    }
}

/// Why the leader did not write.
fn refusal(error: RaftError<Types, ClientWriteError<Types>>) -> Answer {
    let error = match error {
        RaftError::APIError(error) => error,
        // The entry may be in the log already.
        RaftError::Fatal(_) => return Answer::UnknownOutcome,
    };
    match error {
        ClientWriteError::ForwardToLeader(_) => Answer::NotLeader,
        ClientWriteError::LogEntryDiscarded(_) => Answer::UnknownOutcome,
        ClientWriteError::ChangeMembershipError(error) => match error {
            ChangeMembershipError::LearnerNotFound(error) => Answer::NotAMember(error.node_id),
            ChangeMembershipError::EmptyMembership(_) => Answer::NoVoter,
            _ => Answer::ChangeUnderWay,
        },
        ClientWriteError::PreconditionFailed(_) => Answer::ChangeUnderWay,
    }
}
