//! Messages between nodes about the metadata: those of the group, and what a node that wants to join asks.
//!
//! | verb | body | answer |
//! |---|---|---|
//! | METADATA_LOG_REQ | a message of the group | the group's answer |
//! | CLUSTER_STATE_REQ | nothing | [`ClusterState`] in postcard's encoding |
//! | JOIN_REQ | an encoded [`Command::Join`] | [`JoinAnswer`] in postcard's encoding |
//! | EPOCH_WAIT_REQ | an epoch, u64 little-endian | nothing, once the node has applied that entry |

use crate::ports::{PeerFailure, PeerLane, Unreadable};
use crate::shard_state::{ProposalError, Shard};
use crate::verbs::Verb;
use cluster::metadata::{Command, Rejected};
use cluster::topology::Node;
use consensus::{Transport, Unreachable};
use model::Partitioner;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// How long a message of the group is waited for at most; the group has shorter times of its own.
const GROUP_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the cluster may take to agree that a node joins.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node waits for an entry on behalf of another node.
const EPOCH_TIMEOUT: Duration = Duration::from_secs(60);

/// What a node tells one that looks for its cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ClusterState {
    /// The cluster's id; `None` if the node belongs to no cluster yet.
    pub(super) cluster_id: Option<Uuid>,
    pub(super) cluster_name: String,
    /// The simple name of the partitioner.
    pub(super) partitioner: String,
}

/// What came of a request to join.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum JoinAnswer {
    /// The node is a member as of this epoch.
    Joined(u64),
    /// It cannot be one.
    Refused(Rejected),
    /// The cluster could not agree; the node may ask again.
    NotNow(String),
}

/// The way of this node's part in the group to the others.
pub(super) struct PeerTransport {
    shard: Shard,
}

impl PeerTransport {
    pub(super) fn new(shard: Shard) -> PeerTransport {
        PeerTransport { shard }
    }

    /// A member by its host id, or the node that has asked to join most recently.
    fn node(&self, host_id: Uuid) -> Option<Node> {
        let metadata = self.shard.metadata().current();
        let partitioner = Partitioner::named(&metadata.partitioner)?;
        Some(metadata.members.get(&host_id)?.node(host_id, partitioner))
    }
}

impl Transport for PeerTransport {
    async fn call(&self, target: Uuid, message: Vec<u8>) -> Result<Vec<u8>, Unreachable> {
        let node = self.node(target).ok_or(Unreachable::NotSent)?;
        let deadline = runtime::now().after(GROUP_TIMEOUT);
        let call = self.shard.peers().call(&node, PeerLane::Urgent, Verb::MetadataLog, &message, deadline);
        call.await.map_err(|failure| match failure {
            PeerFailure::NotSent => Unreachable::NotSent,
            _ => Unreachable::NoAnswer,
        })
    }
}

/// Serves a request of another node that is about the metadata; `None` if it is about something else.
pub(crate) async fn serve(shard: &Shard, verb: Verb, body: &[u8]) -> Option<Result<Vec<u8>, Unreadable>> {
    match verb {
        Verb::MetadataLog => Some(match shard.metadata().group() {
            Some(group) => Ok(group.handle(body).await),
            None => Err(Unreadable),
        }),
        Verb::ClusterState => Some(Ok(encoded(&state_of(shard)))),
        Verb::Join => Some(match Command::decode(body) {
            Ok(command @ Command::Join { .. }) => Ok(encoded(&join(shard, &command).await)),
            _ => Err(Unreadable),
        }),
        Verb::AwaitEpoch => Some(match body.try_into() {
            Ok(epoch) => {
                let applied = shard.metadata().wait_for(u64::from_le_bytes(epoch));
                let applied = runtime::timeout(EPOCH_TIMEOUT, applied).await;
                applied.map(|()| Vec::new()).ok_or(Unreadable)
            }
            Err(_) => Err(Unreadable),
        }),
        _ => None,
    }
}

fn state_of(shard: &Shard) -> ClusterState {
    let metadata = shard.metadata().current();
    ClusterState {
        cluster_id: (!metadata.cluster_id.is_nil()).then_some(metadata.cluster_id),
        cluster_name: shard.config().cluster_name.clone(),
        partitioner: shard.config().partitioner.simple_name().into(),
    }
}

/// Proposes that a node joins, on its behalf.
async fn join(shard: &Shard, command: &Command) -> JoinAnswer {
    match shard.metadata().propose(command, runtime::now().after(JOIN_TIMEOUT)).await {
        Ok(epoch) => JoinAnswer::Joined(epoch),
        Err(ProposalError::Rejected(rejected)) => JoinAnswer::Refused(rejected),
        Err(ProposalError::NotMade(text) | ProposalError::Unknown(text)) => JoinAnswer::NotNow(text),
    }
}

pub(super) fn encoded(value: &impl Serialize) -> Vec<u8> {
    // Only a type that says it cannot be serialised makes this fail, and none here does.
    postcard::to_extend(value, Vec::new()).unwrap_or_default()
}

/// What [`encoded`] gave, checked to its end.
pub(super) fn decoded<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().and_then(|(value, rest)| rest.is_empty().then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_their_bytes() {
        let state =
            ClusterState { cluster_id: Some(Uuid::from_u128(1)), cluster_name: "C".into(), partitioner: "P".into() };
        let bytes = encoded(&state);
        assert_eq!(bytes, [&[1, 16][..], &[0; 15], &[1, 1, b'C', 1, b'P']].concat());
        assert_eq!(decoded(&bytes), Some(state));
        assert_eq!(decoded::<ClusterState>(&[&bytes[..], &[0]].concat()), None);
        for (answer, bytes) in [
            (JoinAnswer::Joined(300), vec![0, 0xac, 2]),
            (JoinAnswer::Refused(Rejected::LastMember), vec![1, 8]),
            (JoinAnswer::NotNow("x".into()), vec![2, 1, b'x']),
        ] {
            assert_eq!(encoded(&answer), bytes);
            assert_eq!(decoded(&bytes), Some(answer));
        }
    }
}
