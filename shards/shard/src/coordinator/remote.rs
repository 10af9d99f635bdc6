//! Asking other nodes for what they own.
//!
//! 1. A request carries the epoch of the placement by which it was planned. The port `Peers` takes it to the node.
//! 2. A node that knows a later epoch, by which another node has the partition, says so. Then this one waits until it
//!    has reached that epoch too and asks the node that it finds there, which may be itself.
//! 3. Failures of the other node keep their code and text; if there is no answer, the failure says why not, and the
//!    plan makes of it what the client gets.
//!
//! Invariants: what a node refused has no effect there; a request is repeated only after a refusal.

use crate::messages::data::{FragmentRequest, PaxosAnswer, ReadReply, ReadRequest};
use crate::messages::repair::{
    Finished, Repaired, SessionRequest, UnfinishedRequest, Validation, ValidationRequest, Wanted,
};
use crate::peer::answer::{self, Refusal};
use crate::peer::counters::{self, Change};
use crate::peer::head::Head;
use crate::peer::paxos;
use crate::peer::{digests, proofs, reads, repair_sessions, repairs, rows, unfinished};
use crate::ports::{PeerCall, PeerFailure, PeerLane};
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::placement::Replica;
use cluster::repair::session::SessionState;
use cluster::topology::{Node, NodeIndex, Topology};
use engine::RepairSet;
use model::digest::Digest;
use model::failure::{Detail, FailureReason, Outcome};
use model::fragment_block::FragmentBlock;
use model::query::{Partitions, ReadCommand};
use model::{ErrorCode, Failure, Mutation, Partitioner, Table, TableId, Token};
use runtime::Instant;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// Bytes of a request besides its mutation, keys and values, roughly.
pub(crate) const REQUEST_BYTES: usize = 256;

/// A node that is asked, and until when.
#[derive(Clone)]
pub(crate) struct Asked {
    /// The nodes by which the request was planned.
    topology: Rc<Topology>,
    node: NodeIndex,
    deadline: Instant,
    lane: PeerLane,
}

impl Asked {
    /// The node at a position of `topology`, which must answer within `timeout`.
    pub(crate) fn new(topology: &Rc<Topology>, node: NodeIndex, timeout: Duration) -> Asked {
        Asked::until(topology, node, runtime::now().after(timeout))
    }

    /// The node at a position of `topology`, which must answer until `deadline`.
    pub(crate) fn until(topology: &Rc<Topology>, node: NodeIndex, deadline: Instant) -> Asked {
        Asked { topology: topology.clone(), node, deadline, lane: PeerLane::Requests }
    }

    /// The same, on the lane of what may wait.
    pub(crate) fn in_bulk(self) -> Asked {
        Asked { lane: PeerLane::Bulk, ..self }
    }

    /// Sends a request to the node, which is another one than this. The caller must give the call up at the deadline.
    pub(crate) fn call(&self, shard: &Shard, verb: Verb, body: &[u8]) -> PeerCall {
        if shard.is_traced() {
            return self.traced_call(shard, verb, body);
        }
        shard.peers().ask(self.node(), self.lane, verb, body, self.deadline)
    }

    /// The same on behalf of a request that is traced.
    #[cold]
    fn traced_call(&self, shard: &Shard, verb: Verb, body: &[u8]) -> PeerCall {
        let Some(session) = shard.traced_session() else {
            return shard.peers().ask(self.node(), self.lane, verb, body, self.deadline);
        };
        let (body, address) = (session.with(body), self.node().address);
        shard.trace(|| {
            format!("Sending {} message to /{address} message size {} bytes", verb.traced_name(), body.len())
        });
        let call = shard.peers().ask(self.node(), self.lane, verb, &body, self.deadline);
        let shard = shard.clone();
        Box::pin(async move {
            let answer = call.await;
            if answer.is_ok() {
                shard.trace(|| format!("{} message received from /{address}", verb.traced_answer()));
                shard.trace(|| format!("Processing response from /{address}"));
            }
            answer
        })
    }

    /// Changes counters of `table`, as their leader.
    pub(crate) async fn count(
        &self,
        shard: &Shard,
        table: &Table,
        change: &Change,
    ) -> Result<counters::Outcome, Failure> {
        let verb = Verb::CounterMutation;
        let (mutation, write) = (&change.mutation, |out: &mut Vec<u8>| change.encode(out));
        let at = (mutation.token(), mutation.key());
        let answer = self.owner(shard, table, at, verb, mutation.bytes().len() + REQUEST_BYTES, write).await?;
        read_result(verb, &answer, counters::outcome)
    }

    /// Reads a partition, or the part of a range that the core `replica.shard` of the node has.
    pub(crate) async fn read(
        &self,
        shard: &Shard,
        table: &Table,
        replica: Replica,
        request: &ReadRequest,
    ) -> Result<ReadReply, Failure> {
        let core = self.core(replica);
        let write = |out: &mut Vec<u8>| reads::push(out, request, core);
        let answer = self.reading(shard, table, &request.command, Verb::Read, write).await?;
        read_result(Verb::Read, &answer, |result| rows::decode(shard.partitioner(), result))
    }

    /// Asks for the digest of a partition, and for its rows as well or not, of this node alone, which is another one
    /// than this. The caller must give the call up at the deadline; its answer is for [`digest_answer`].
    pub(crate) fn call_for_digest(
        &self,
        shard: &Shard,
        replica: Replica,
        request: &ReadRequest,
        with_rows: bool,
    ) -> PeerCall {
        let mut body = self.head().body(REQUEST_BYTES);
        digests::push(&mut body, request, with_rows, self.core(replica));
        self.call(shard, Verb::ReadDigest, &body)
    }

    /// Reads the fragments of a partition, or of the part of a range that the core `replica.shard` has, of this node
    /// alone.
    pub(crate) async fn read_fragments(
        &self,
        shard: &Shard,
        replica: Replica,
        request: &FragmentRequest,
    ) -> Result<FragmentBlock, Failure> {
        let core = self.core(replica);
        let write = |out: &mut Vec<u8>| reads::push_fragments(out, request, core);
        let answer = self.once(shard, Verb::ReadFragments, REQUEST_BYTES, write).await?;
        read_result(Verb::ReadFragments, &answer, |result| {
            FragmentBlock::decode(shard.partitioner(), result.to_vec(), request.command.reversed).ok()
        })
    }

    /// Applies a mutation of what this node lacks.
    pub(crate) async fn repair(&self, shard: &Shard, mutation: &Mutation) -> Result<(), Failure> {
        let write = |out: &mut Vec<u8>| out.extend_from_slice(mutation.bytes());
        let answer = self.once(shard, Verb::ReadRepair, mutation.bytes().len(), write).await?;
        read_result(Verb::ReadRepair, &answer, |result| result.is_empty().then_some(()))
    }

    /// Hashes what the node has of a segment.
    pub(crate) async fn validate(&self, shard: &Shard, request: &ValidationRequest) -> Result<Validation, Failure> {
        let verb = match request.wanted {
            Wanted::Tree => Verb::Validation,
            Wanted::Partitions(_) => Verb::ValidationPartitions,
        };
        let answer = match request.set {
            None => self.once(shard, verb, REQUEST_BYTES, |out| repairs::push(out, request)).await?,
            Some(set) => self.of_set(shard, set, verb, |out| repairs::push(out, request)).await?,
        };
        read_result(verb, &answer, |result| repairs::decode_answer(shard.partitioner(), result, request))
    }

    /// Asks the node since when hints and logged batches wait there.
    pub(crate) async fn waiting_since(&self, shard: &Shard) -> Result<Option<i64>, Failure> {
        let verb = Verb::WaitingSince;
        let answer = self.once(shard, verb, REQUEST_BYTES, |_| ()).await?;
        read_result(verb, &answer, proofs::decode_waiting)
    }

    /// Tells the node what is repaired on all replicas.
    pub(crate) async fn note_repaired(&self, shard: &Shard, repaired: &Repaired) -> Result<(), Failure> {
        let verb = Verb::NoteRepaired;
        let answer = self.once(shard, verb, REQUEST_BYTES, |out| proofs::push(out, repaired)).await?;
        read_result(verb, &answer, |result| result.is_empty().then_some(()))
    }

    /// Has the node finish what rounds of Paxos have left unfinished in a range.
    pub(crate) async fn finish_proposals(
        &self,
        shard: &Shard,
        request: &UnfinishedRequest,
    ) -> Result<Finished, Failure> {
        let verb = Verb::PaxosCleanup;
        let answer = self.once(shard, verb, REQUEST_BYTES, |out| unfinished::push(out, request)).await?;
        read_result(verb, &answer, |result| unfinished::decode_answer(shard.partitioner(), result))
    }

    /// Reads the fragments that one set of the SSTables of this node alone has of a partition.
    pub(crate) async fn read_fragments_of(
        &self,
        shard: &Shard,
        replica: Replica,
        set: RepairSet,
        request: &FragmentRequest,
    ) -> Result<FragmentBlock, Failure> {
        let core = self.core(replica);
        let write = |out: &mut Vec<u8>| reads::push_fragments(out, request, core);
        let answer = self.of_set(shard, set, Verb::ReadFragments, write).await?;
        read_result(Verb::RepairOfSet, &answer, |result| {
            FragmentBlock::decode(shard.partitioner(), result.to_vec(), request.command.reversed).ok()
        })
    }

    async fn of_set(
        &self,
        shard: &Shard,
        set: RepairSet,
        verb: Verb,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<u8>, Failure> {
        let write = |out: &mut Vec<u8>| {
            repair_sessions::push_set(out, set, verb);
            write(out);
        };
        self.once(shard, Verb::RepairOfSet, REQUEST_BYTES, write).await
    }

    /// Adds rows to what the node has set apart for a session.
    pub(crate) async fn add_pending(&self, shard: &Shard, session: Uuid, mutation: &Mutation) -> Result<(), Failure> {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(session.as_bytes());
            out.extend_from_slice(mutation.bytes());
        };
        let answer = self.once(shard, Verb::RepairAdd, mutation.bytes().len() + REQUEST_BYTES, write).await?;
        read_result(Verb::RepairAdd, &answer, |result| result.is_empty().then_some(()))
    }

    /// Has the node take part in a session of incremental repair. Returns the state of its part.
    pub(crate) async fn session(
        &self,
        shard: &Shard,
        request: &SessionRequest,
    ) -> Result<Option<SessionState>, Failure> {
        let verb = Verb::RepairSession;
        let answer = self.once(shard, verb, REQUEST_BYTES, |out| repair_sessions::push(out, request)).await?;
        read_result(verb, &answer, repair_sessions::decode_answer)
    }

    /// Truncates a table on the node.
    pub(crate) async fn truncate(&self, shard: &Shard, table: TableId) -> Result<(), Failure> {
        let verb = Verb::Truncate;
        let mut body = self.head().body(table.0.len());
        body.extend_from_slice(&table.0);
        let answer = self.send(shard, verb, body).await.map_err(|refusal| failure_of(verb, refusal))?;
        read_result(verb, &answer, |result| result.is_empty().then_some(()))
    }

    fn head(&self) -> Head {
        Head { epoch: self.topology.epoch() }
    }

    fn node(&self) -> &Node {
        self.topology.node(self.node)
    }

    fn core(&self, replica: Replica) -> reads::AskedCore {
        reads::AskedCore { core: replica.shard, cores: self.node().shards.shards }
    }

    /// Sends a read: that of a partition to its owner, that of a range to this node alone.
    async fn reading(
        &self,
        shard: &Shard,
        table: &Table,
        command: &ReadCommand,
        verb: Verb,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<u8>, Failure> {
        match &command.partitions {
            Partitions::Key(key) => self.owner(shard, table, (key.token, &key.key), verb, REQUEST_BYTES, write).await,
            Partitions::Range(_) => self.once(shard, verb, REQUEST_BYTES, write).await,
        }
    }

    /// Asks this node alone. If it says that another one has the data by a later epoch, this core has reached that one
    /// when the failure is returned, so that the request can be planned again.
    async fn once(
        &self,
        shard: &Shard,
        verb: Verb,
        room: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<u8>, Failure> {
        let mut body = self.head().body(room);
        write(&mut body);
        match self.send(shard, verb, body).await {
            Ok(answer) => Ok(answer),
            Err(refusal) => Err(self.refused(shard, verb, refusal).await),
        }
    }

    /// What a plan is told of this node, which has refused. If it did so because another one has the data by a later
    /// epoch, this core has reached that one when this returns.
    pub(crate) async fn refused(&self, shard: &Shard, verb: Verb, refusal: Refusal) -> Failure {
        if let Refusal::Moved(epoch) = refusal {
            let reached = Box::pin(shard.epoch_reached(epoch));
            runtime::timeout(self.deadline.since(runtime::now()), reached).await;
        }
        failure_of(verb, refusal)
    }

    /// Asks the node that has a key, this one at first. Returns the answer, whose result follows its first bytes.
    async fn owner(
        &self,
        shard: &Shard,
        table: &Table,
        (token, key): (Token, &[u8]),
        verb: Verb,
        room: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<u8>, Failure> {
        let mut asked = self.clone();
        loop {
            let mut body = asked.head().body(room);
            write(&mut body);
            let refusal = match asked.send(shard, verb, body).await {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            let known = asked.topology.epoch();
            let Refusal::Moved(epoch) = refusal else { return Err(failure_of(verb, refusal)) };
            let left = asked.deadline.since(runtime::now());
            if epoch <= known || runtime::timeout(left, shard.epoch_reached(epoch)).await.is_none() {
                return Err(no_answer(verb, FailureReason::IncompatibleSchema, Outcome::NotApplied));
            }
            let placement = shard.placement_of(table)?;
            let Some(first) = placement.replicas(token, key).natural().next() else {
                return Err(no_answer(verb, FailureReason::NodeDown, Outcome::NotApplied));
            };
            asked.topology = placement.keyspace().topology().clone();
            asked.node = first.node;
        }
    }

    /// Sends a request to the node, which may be this one. Returns the answer if it has a result.
    async fn send(&self, shard: &Shard, verb: Verb, body: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let answered = if self.node == self.topology.here() {
            let served = Box::pin(shard.serve_as_peer(verb, &body));
            runtime::timeout(self.deadline.since(runtime::now()), served).await.map(|answer| match answer {
                Ok(answer) => Ok(answer),
                Err(_) => Err(PeerFailure::Refused),
            })
        } else {
            let call = self.call(shard, verb, &body);
            runtime::timeout(self.deadline.since(runtime::now()), call).await
        };
        received(verb, answered.unwrap_or(Err(PeerFailure::NoAnswer)))
    }
}

/// What a node answered, if that has a result.
pub(crate) fn received(verb: Verb, answered: Result<Vec<u8>, PeerFailure>) -> Result<Vec<u8>, Refusal> {
    match answered {
        Ok(answer) => match answer::decode(&answer) {
            Some(Ok(_)) => Ok(answer),
            Some(Err(refusal)) => Err(refusal),
            None => Err(unreadable(verb).into()),
        },
        Err(failure) => Err(unanswered(verb, failure).into()),
    }
}

/// The digest that a node answered, and the rows if they were asked for.
pub(crate) fn digest_answer(
    partitioner: Partitioner,
    answered: Result<Vec<u8>, PeerFailure>,
    with_rows: bool,
) -> Result<(Digest, Option<ReadReply>), Refusal> {
    let verb = Verb::ReadDigest;
    let answer = answered.map_err(|failure| Refusal::from(unanswered(verb, failure)))?;
    let decoded = match answer::decode(&answer) {
        Some(Ok(result)) => digests::decode_answer(partitioner, result, with_rows),
        Some(Err(refusal)) => return Err(refusal),
        None => None,
    };
    decoded.ok_or_else(|| unreadable(verb).into())
}

/// The failure of a node that gave no answer.
fn unanswered(verb: Verb, failure: PeerFailure) -> Failure {
    match failure {
        PeerFailure::Overloaded => Failure::overloaded("Too much waits for another node; nothing was sent"),
        PeerFailure::NotSent => no_answer(verb, FailureReason::NodeDown, Outcome::NotApplied),
        PeerFailure::Refused => no_answer(verb, FailureReason::Unknown, Outcome::NotApplied),
        PeerFailure::NoAnswer => no_answer(verb, FailureReason::Timeout, Outcome::Unknown),
    }
}

/// Whether a node did what it was asked by a verb whose result is empty.
pub(crate) fn acknowledgement(verb: Verb, answered: Result<Vec<u8>, PeerFailure>) -> Result<(), Refusal> {
    let answer = received(verb, answered)?;
    read_result(verb, &answer, |result| result.is_empty().then_some(())).map_err(Refusal::from)
}

/// What an acceptor answered to the step of a round that `verb` stands for.
pub(crate) fn paxos_answer(
    partitioner: Partitioner,
    verb: Verb,
    answered: Result<Vec<u8>, PeerFailure>,
) -> Result<PaxosAnswer, Refusal> {
    let answer = received(verb, answered)?;
    let read = |result: &[u8]| match verb {
        Verb::PaxosPrepare => paxos::promise(result).map(PaxosAnswer::Promise),
        Verb::PaxosPrepareRead => paxos::promise_read(partitioner, result),
        Verb::PaxosCommit => result.is_empty().then_some(PaxosAnswer::Committed),
        _ => paxos::acceptance(result).map(PaxosAnswer::Acceptance),
    };
    read_result(verb, &answer, read).map_err(Refusal::from)
}

/// Reads the result of an answer.
fn read_result<T>(verb: Verb, answer: &[u8], read: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, Failure> {
    match answer::decode(answer) {
        Some(Ok(result)) => read(result).ok_or_else(|| unreadable(verb)),
        _ => Err(unreadable(verb)),
    }
}

/// The failure for an answer that does not decode.
fn unreadable(verb: Verb) -> Failure {
    no_answer(verb, FailureReason::Unknown, Outcome::Unknown)
}

/// The failure of a replica that did not answer; the plan tells the client what follows from that.
fn no_answer(verb: Verb, reason: FailureReason, outcome: Outcome) -> Failure {
    let code = match verb {
        Verb::Read
        | Verb::ReadFragments
        | Verb::ReadDigest
        | Verb::Validation
        | Verb::ValidationPartitions
        | Verb::RepairOfSet => ErrorCode::ReadFailure,
        _ => ErrorCode::WriteFailure,
    };
    Failure { code, text: reason.name().into(), detail: Detail::Replica { reason }, outcome }
}

/// What a plan is told of a node that did not do what it was asked.
pub(crate) fn failure_of(verb: Verb, refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Failed(failure) => failure,
        Refusal::Moved(_) | Refusal::Behind(_) | Refusal::UnknownTable(_) => {
            no_answer(verb, FailureReason::IncompatibleSchema, Outcome::NotApplied)
        }
    }
}
