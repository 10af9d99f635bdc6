//! openraft's types as this crate uses them.

use crate::executor::ShardRuntime;
use openraft::{EmptyNode, impls::leader_id_std};
use std::fmt;
use uuid::Uuid;

openraft::declare_raft_types!(
    /// Commands are [`Proposal`]s, members are named by host id, and a term has at most one leader.
    pub(crate) Types:
        D = Proposal,
        R = Applied,
        NodeId = Uuid,
        Node = EmptyNode,
        Term = u64,
        LeaderId = leader_id_std::LeaderId<u64, Uuid>,
        AsyncRuntime = ShardRuntime,
);

pub(crate) type LeaderId = leader_id_std::LeaderId<u64, Uuid>;
pub(crate) type CommittedLeaderId = <LeaderId as openraft::vote::RaftLeaderId>::Committed;
pub(crate) type Vote = openraft::Vote<LeaderId>;
pub(crate) type LogId = openraft::LogId<CommittedLeaderId>;
pub(crate) type Payload = openraft::EntryPayload<Proposal, Uuid, EmptyNode>;
pub(crate) type Entry = openraft::Entry<CommittedLeaderId, Payload>;
pub(crate) type Membership = openraft::Membership<Uuid, EmptyNode>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, Uuid, EmptyNode>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, Uuid, EmptyNode>;
pub(crate) type Snapshot = openraft::Snapshot<CommittedLeaderId, Uuid, EmptyNode, SnapshotData>;
/// The bytes of a snapshot: the window of the last proposals and the state machine's own bytes.
pub(crate) type SnapshotData = std::rc::Rc<Vec<u8>>;

/// A command on its way through the log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// Chosen at random by the proposer, so that a proposal that was sent twice is applied once.
    pub(crate) id: Uuid,
    pub(crate) command: Vec<u8>,
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.id, self.command.len())
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What became of a proposal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Applied {
    /// The index at which it was applied.
    pub(crate) index: u64,
    /// The state machine's answer.
    pub(crate) answer: Vec<u8>,
}

/// The log id of `term` and `index`.
pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId { leader_id: CommittedLeaderId::new(term), index }
}
