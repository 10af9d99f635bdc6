//! Sending openraft's messages through the owner's [`Transport`](crate::Transport).

use crate::erased::AnyTransport;
use crate::limits::SNAPSHOT_PART_BYTES;
use crate::message::{Answer, Ballot, Request};
use crate::records::{entry_bytes, stored_snapshot};
use crate::types::{Snapshot, SnapshotData, Types, Vote};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use runtime::sync::{Either, race};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// A way that is slower does not carry the longest commands.
const SLOWEST_BYTES_PER_SECOND: usize = 512 << 10;

/// The ways to all members.
#[derive(Clone)]
pub(crate) struct Network(pub(crate) Rc<dyn AnyTransport>);

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: Uuid, _node: &EmptyNode) -> Peer {
        Peer { target, transport: self.0.clone() }
    }
}

/// The way to one member.
pub(crate) struct Peer {
    target: Uuid,
    transport: Rc<dyn AnyTransport>,
}

fn unreachable(why: &str) -> Unreachable<Types> {
    Unreachable::from_string(why)
}

impl Peer {
    /// Sends a request and waits up to `wait` for the answer.
    async fn call(&self, request: &Request, wait: Duration) -> Result<Answer, Unreachable<Types>> {
        let called = runtime::timeout(wait, self.transport.call(self.target, request.encode())).await;
        let answer =
            called.ok_or_else(|| unreachable("no answer in time"))?.map_err(|error| Unreachable::new(&error))?;
        Answer::decode(&answer).ok_or_else(|| unreachable("an answer that cannot be read"))
    }

    async fn ballot(&self, request: Request, option: RPCOption) -> Result<VoteResponse<Types>, RPCError<Types>> {
        match self.call(&request, option.soft_ttl()).await? {
            Answer::Voted { vote, granted, last } => Ok(VoteResponse::new(vote, last, granted)),
            _ => Err(unreachable("the member does not vote").into()),
        }
    }

    async fn send_snapshot(&self, vote: Vote, record: &[u8], wait: Duration) -> Result<Vote, Unreachable<Types>> {
        let (hash, len) = (runtime::hash64(record), record.len() as u64);
        let mut offset = 0;
        // A member that begins anew, because a second snapshot came between, does so once or twice.
        for _ in 0..3 * (record.len() / SNAPSHOT_PART_BYTES + 1) {
            let rest = record.get(offset..).ok_or_else(|| unreachable("the member asks for more than there is"))?;
            let bytes = rest[..rest.len().min(SNAPSHOT_PART_BYTES)].to_vec();
            let request = Request::SnapshotPart { vote, hash, len, offset: offset as u64, bytes };
            match self.call(&request, wait).await? {
                Answer::SendOnFrom(from) => offset = usize::try_from(from).unwrap_or(usize::MAX),
                Answer::Installed(vote) | Answer::HigherVote(vote) => return Ok(vote),
                _ => return Err(unreachable("the member does not take snapshots")),
            }
        }
        Err(unreachable("the member asks for the same parts again and again"))
    }
}

fn ballot(request: &VoteRequest<Types>) -> Ballot {
    Ballot { vote: request.vote, last: request.last_log_id, transfer: request.leadership_transfer }
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let AppendEntriesRequest { vote, prev_log_id: before, entries, leader_commit: decided } = request;
        let bytes: usize = entries.iter().map(entry_bytes).sum();
        // Long commands may take longer than a heartbeat; heartbeats have their own messages.
        let wait = option.soft_ttl() + Duration::from_secs(1) * (bytes / SLOWEST_BYTES_PER_SECOND) as u32;
        match self.call(&Request::Append { vote, before, decided, entries }, wait).await? {
            Answer::Appended => Ok(AppendEntriesResponse::Success),
            Answer::AppendedInPart(id) => Ok(AppendEntriesResponse::PartialSuccess(id)),
            // Only entries after others can conflict.
            Answer::Conflict if before.is_some() => Ok(AppendEntriesResponse::Conflict),
            Answer::HigherVote(vote) => Ok(AppendEntriesResponse::HigherVote(vote)),
            _ => Err(unreachable("the member does not take entries").into()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ballot(Request::Vote(ballot(&request)), option).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ballot(Request::PreVote(ballot(&request)), option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let record = stored_snapshot(&snapshot.meta, &snapshot.snapshot);
        match race(cancel, self.send_snapshot(vote, &record, option.soft_ttl())).await {
            Either::Left(closed) => Err(closed.into()),
            Either::Right(sent) => Ok(SnapshotResponse::new(sent?)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<openraft::raft::TransferLeaderResponse<Types>, RPCError<Types>> {
        let (vote, target) = (*request.from_leader(), *request.to_node_id());
        let last = request.last_log_id().copied();
        match self.call(&Request::Transfer { vote, target, last }, option.soft_ttl()).await? {
            Answer::Transferred => Ok(Ok(())),
            _ => Err(unreachable("the member does not take the leadership").into()),
        }
    }
}
