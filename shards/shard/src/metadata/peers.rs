//! Messages between nodes about the metadata: those of the group, and what a node that wants to join asks.
//!
//! | verb | body | answer |
//! |---|---|---|
//! | METADATA_LOG_REQ | a message of the group | the group's answer |
//! | CLUSTER_STATE_REQ | nothing | [`ClusterState`] in postcard's encoding |
//! | JOIN_REQ | [`JoinRequest`] in postcard's encoding | [`JoinAnswer`] in postcard's encoding |
//! | EPOCH_WAIT_REQ | an epoch, u64 little-endian | nothing, once the node has applied that entry |
//! | EPOCH_END_REQ | see `barrier` | nothing, once it is done |
//! | NODE_LIVE_REQ | a host id, 16 bytes | one byte: 1 if the node takes that one for alive, else 0 |
//! | SNAPSHOT_REQ | see `operations::cluster_snapshots` | |
//! | FETCH_TABLE_REQ | see `stream::handing_out` | |
//! | TABLET_FIGURES_REQ | none | see `operations::tablet_figures` |
//! | REMOVE_STALE_REQ | none | see `stale_data` |
//! | KEY_FIGURES_REQ | none | see `operations::key_figures` |

use super::barrier::EndOlder;
use super::stale_data;
use crate::operations::{cluster_snapshots, key_figures, tablet_figures};
use crate::peer::control::{decoded, encoded};
use crate::ports::{PeerFailure, PeerLane, Unreadable};
use crate::schema::local::TOKENS_MAX;
use crate::shard_state::{ProposalError, Shard};
use crate::stream::handing_out;
use crate::verbs::Verb;
use cluster::allocation::allocate;
use cluster::metadata::{Command, Member, Rejected};
use cluster::topology::{Node, features};
use consensus::{Transport, Unreachable};
use model::{Partitioner, RingToken};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
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
    /// The version of the schema that the node serves.
    pub(super) schema_version: Uuid,
    /// What the node's clock says, microseconds since 1970.
    pub(super) wall_micros: i64,
}

/// A node wants to join.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct JoinRequest {
    /// An encoded [`Command::Join`] or [`Command::JoinToReplace`].
    pub(super) command: Vec<u8>,
    /// Which tokens to choose for it; `None` if the command has them.
    pub(super) allocation: Option<Allocation>,
}

/// Tokens that are to be chosen for a node that joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Allocation {
    /// How many.
    pub(super) tokens: u16,
    /// With this replication factor, nodes are to have equal shares of data.
    pub(super) factor: u32,
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
        Verb::ClusterState => Some(if body.is_empty() { Ok(encoded(&state_of(shard))) } else { Err(Unreadable) }),
        Verb::Join => Some(match decoded::<JoinRequest>(body) {
            Some(request) => match Command::decode(&request.command) {
                Ok(Command::JoinToReplace { host_id, member, address }) => {
                    Ok(encoded(&join_to_replace(shard, host_id, member, address).await))
                }
                Ok(Command::Join { host_id, member }) => {
                    Ok(encoded(&join(shard, host_id, *member, request.allocation).await))
                }
                _ => Err(Unreadable),
            },
            None => Err(Unreadable),
        }),
        Verb::AwaitEpoch => Some(match body.try_into() {
            Ok(epoch) => {
                let applied = shard.metadata().wait_for(u64::from_le_bytes(epoch));
                let applied = runtime::timeout(EPOCH_TIMEOUT, applied).await;
                applied.map(|()| Vec::new()).ok_or(Unreadable)
            }
            Err(_) => Err(Unreadable),
        }),
        Verb::IsLive => Some(match body.try_into().map(Uuid::from_bytes) {
            Ok(host_id) => Ok(vec![u8::from(shard.is_live(host_id))]),
            Err(_) => Err(Unreadable),
        }),
        Verb::EndOlder => Some(match EndOlder::decode(body) {
            Some(asked) => match asked.serve(shard).await {
                true => Ok(Vec::new()),
                false => Err(Unreadable),
            },
            None => Err(Unreadable),
        }),
        Verb::ClusterSnapshot => Some(Box::pin(cluster_snapshots::serve(shard, body)).await),
        Verb::FetchTable => Some(handing_out::serve(shard, body).await),
        Verb::TabletFigures if body.is_empty() => Some(Box::pin(tablet_figures::serve(shard)).await),
        Verb::RemoveStale if body.is_empty() => Some(Ok(Box::pin(stale_data::serve(shard)).await)),
        Verb::KeyFigures if body.is_empty() => Some(Box::pin(key_figures::serve(shard)).await),
        Verb::TabletFigures | Verb::RemoveStale | Verb::KeyFigures => Some(Err(Unreadable)),
        _ => None,
    }
}

fn state_of(shard: &Shard) -> ClusterState {
    let metadata = shard.metadata().current();
    ClusterState {
        cluster_id: (!metadata.cluster_id.is_nil()).then_some(metadata.cluster_id),
        cluster_name: shard.config().cluster_name.clone(),
        partitioner: shard.config().partitioner.simple_name().into(),
        schema_version: shard.schema().version,
        wall_micros: runtime::wall_micros(),
    }
}

/// Proposes that a node joins to replace another one, on its behalf.
async fn join_to_replace(shard: &Shard, host_id: Uuid, member: Box<Member>, address: IpAddr) -> JoinAnswer {
    let metadata = shard.metadata().current();
    let old = metadata.members.iter().find(|(id, old)| old.address.ip() == address && **id != host_id);
    if let Some((id, _)) = old
        && (shard.is_live(*id) || *id == shard.host_id())
    {
        return JoinAnswer::NotNow(format!("Cannot replace a live node: /{address}"));
    }
    if !shard.topology().all_have(features::OPERATIONS) {
        return JoinAnswer::NotNow("A node of the cluster runs a version that cannot replace nodes".into());
    }
    let command = Command::JoinToReplace { host_id, member, address };
    match shard.metadata().propose(&command, runtime::now().after(JOIN_TIMEOUT)).await {
        Ok(epoch) => JoinAnswer::Joined(epoch),
        Err(ProposalError::Rejected(rejected)) => JoinAnswer::Refused(rejected),
        Err(ProposalError::NotMade(text) | ProposalError::Unknown(text)) => JoinAnswer::NotNow(text),
    }
}

/// Proposes that a node joins, on its behalf.
async fn join(shard: &Shard, host_id: Uuid, mut member: Member, allocation: Option<Allocation>) -> JoinAnswer {
    if let Some(Allocation { tokens, factor }) = allocation {
        let metadata = shard.metadata().current();
        let new = member.node(host_id, shard.partitioner());
        let count = usize::from(tokens).clamp(1, TOKENS_MAX);
        let tokens = allocate(&metadata.claims(), &new, count, factor, &mut runtime::rng::u64);
        member.tokens = tokens.iter().map(RingToken::to_string).collect();
    }
    let command = Command::Join { host_id, member: Box::new(member) };
    match shard.metadata().propose(&command, runtime::now().after(JOIN_TIMEOUT)).await {
        Ok(epoch) => JoinAnswer::Joined(epoch),
        // Another node that joined at the same time got a token that was chosen for this one.
        Err(ProposalError::Rejected(taken @ Rejected::TokenTaken { .. })) if allocation.is_some() => {
            JoinAnswer::NotNow(taken.to_string())
        }
        Err(ProposalError::Rejected(rejected)) => JoinAnswer::Refused(rejected),
        Err(ProposalError::NotMade(text) | ProposalError::Unknown(text)) => JoinAnswer::NotNow(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_their_bytes() {
        let state = ClusterState {
            cluster_id: Some(Uuid::from_u128(1)),
            cluster_name: "C".into(),
            partitioner: "P".into(),
            schema_version: Uuid::from_u128(2),
            wall_micros: -3,
        };
        let bytes = encoded(&state);
        let expected = [&[1, 16][..], &[0; 15], &[1, 1, b'C', 1, b'P', 16], &[0; 15], &[2, 5]].concat();
        assert_eq!(bytes, expected);
        assert_eq!(decoded(&bytes), Some(state));
        assert_eq!(decoded::<ClusterState>(&[&bytes[..], &[0]].concat()), None);
        let request = JoinRequest { command: vec![7], allocation: Some(Allocation { tokens: 16, factor: 3 }) };
        let bytes = encoded(&request);
        assert_eq!(bytes, [1, 7, 1, 16, 3]);
        assert_eq!(decoded(&bytes), Some(request));
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
