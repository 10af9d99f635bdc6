//! One replica that a read asks: a small future for what most reads need, that another node answers with a digest or
//! that this core has in memory. It has no timer, because who gathers the answers has one; whatever takes longer is
//! boxed.

use super::awaited_replica::AwaitedReplica;
use super::gathering::PlacedRead;
use super::read::{read_digest_on, read_on};
use super::remote::{Asked, digest_answer};
use crate::messages::data::{DigestReply, ReadReply};
use crate::peer::answer::Refusal;
use crate::ports::PeerCall;
use crate::replica::fragments;
use crate::verbs::Verb;
use cluster::placement::Replica;
use model::Failure;
use model::digest::Digest;
use runtime::ShardId;
use runtime::sync::boxed;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What a replica answers: the rows if it was asked for them, and their digest if it is compared.
pub(super) type Answer = (Digest, Option<ReadReply>);

/// The read of one replica. The request to another node is sent when this is made, so that it is under way while this
/// node reads.
pub(super) struct ReplicaRead<'a> {
    read: &'a PlacedRead<'a>,
    replica: Replica,
    with_rows: bool,
    /// Of a replica that is compared.
    awaited: Option<AwaitedReplica<'a>>,
    state: State<'a>,
}

enum State<'a> {
    /// This node has the replica, and has not begun.
    Here,
    Sent(PeerCall),
    Working(Pin<Box<dyn Future<Output = Result<Answer, Failure>> + 'a>>),
    Over,
}

impl<'a> ReplicaRead<'a> {
    /// Asks one replica of several for a digest, and for rows or not.
    pub(super) fn to_compare(read: &'a PlacedRead<'a>, replica: Replica, with_rows: bool) -> ReplicaRead<'a> {
        let PlacedRead { shard, placement, request, patience, .. } = *read;
        let topology = placement.keyspace().topology();
        let awaited = Some(AwaitedReplica::new(topology, replica.node));
        let state = if replica.node == topology.here() {
            State::Here
        } else {
            let what = if with_rows { "data" } else { "digest" };
            shard.trace(|| format!("reading {what} from /{}", topology.node(replica.node).address));
            let asked = Asked::until(topology, replica.node, patience.deadline);
            State::Sent(asked.call_for_digest(shard, replica, request, with_rows))
        };
        ReplicaRead { read, replica, with_rows, awaited, state }
    }

    /// Asks the only replica that is needed for rows.
    pub(super) fn for_rows(read: &'a PlacedRead<'a>, replica: Replica) -> ReplicaRead<'a> {
        let work = boxed(|| async move { Ok((Digest::default(), Some(rows(read, replica).await?))) });
        ReplicaRead { read, replica, with_rows: true, awaited: None, state: State::Working(work) }
    }

    /// Reads on this node: the answer if this core has it in memory, or what is awaited.
    fn read_here(&self) -> Result<Result<Answer, Failure>, State<'a>> {
        let PlacedRead { shard, request, .. } = *self.read;
        let (to, with_rows) = (ShardId(self.replica.shard), self.with_rows);
        let answer = move |reply: DigestReply| (reply.digest, with_rows.then_some(reply.rows));
        if to != shard.id() {
            let call = boxed(|| async move { read_digest_on(shard, to, request).await.map(answer) });
            return Err(State::Working(call));
        }
        fragments::read_digest_now(shard, request).map(|result| result.map(answer)).ok_or_else(|| {
            State::Working(boxed(|| async move { fragments::read_digest(shard, request).await.map(answer) }))
        })
    }

    /// What follows from a refusal of the node that was asked.
    #[cold]
    fn refused(&self, refusal: Refusal) -> State<'a> {
        let PlacedRead { shard, placement, patience, .. } = *self.read;
        let asked = Asked::until(placement.keyspace().topology(), self.replica.node, patience.deadline);
        State::Working(boxed(|| async move { Err(asked.refused(shard, Verb::ReadDigest, refusal).await) }))
    }
}

impl Future for ReplicaRead<'_> {
    type Output = Result<Answer, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = loop {
            match &mut self.state {
                State::Here => match self.read_here() {
                    Ok(answer) => break answer,
                    Err(waiting) => self.state = waiting,
                },
                State::Sent(call) => {
                    let answered = ready!(call.as_mut().poll(cx));
                    match digest_answer(self.read.shard.partitioner(), answered, self.with_rows) {
                        Ok(answer) => break Ok(answer),
                        Err(refusal) => self.state = self.refused(refusal),
                    }
                }
                State::Working(work) => break ready!(work.as_mut().poll(cx)),
                State::Over => return Poll::Pending,
            }
        };
        self.state = State::Over;
        Poll::Ready(match self.awaited.take() {
            Some(awaited) => awaited.has_answered(answer),
            None => answer,
        })
    }
}

/// Asks the only replica that is needed for rows.
async fn rows(read: &PlacedRead<'_>, replica: Replica) -> Result<ReadReply, Failure> {
    let PlacedRead { shard, plan, placement, request, patience } = *read;
    let topology = placement.keyspace().topology();
    let awaited = AwaitedReplica::new(topology, replica.node);
    let answer = if replica.node == topology.here() {
        read_on(shard, ShardId(replica.shard), request.clone()).await
    } else {
        let asked = Asked::until(topology, replica.node, patience.deadline);
        shard.trace(|| format!("reading data from /{}", topology.node(replica.node).address));
        asked.read(shard, &plan.table, replica, request).await
    };
    awaited.has_answered(answer)
}
