//! Requests of other nodes, and the functions that serve them.
//!
//! 1. A request for data names the epoch in which it was planned. One of an epoch that this node has not reached waits
//!    for it; one of an earlier epoch is refused if by the current one another node has the data.
//! 2. The core that has the partition does what is asked, and the answer is encoded here.
//!
//! Invariants: bytes that do not decode reach no store; a write that has begun runs to its end, whether or not somebody
//! waits for the answer, and stopping waits for it. So [`serve`] must be polled to its end, and what may be given up is
//! served in a task of its own ([`serve_own`]).

use crate::coordinator::{cas, counting, hints, read, validation};
use crate::messages::admin::TableVerb;
use crate::messages::data::{DigestReply, PaxosAnswer, PaxosRequest, PaxosStep, ReadRequest};
use crate::messages::repair::{SessionAsk, ValidationRequest};
use crate::messages::streams::{StreamAnswer, StreamVerb};
use crate::messages::{Reply, Request};
use crate::peer::answer::{self, Refusal};
use crate::peer::counters::{self, Change};
use crate::peer::head::{Head, TracedSession};
use crate::peer::paxos::{self, Round};
use crate::peer::{
    batches, digests, hints as hint_bytes, leases, proofs, reads, relays, repair_sessions, repairs, rows, unfinished,
};
use crate::ports::{PeerLane, Unreadable};
use crate::replica;
use crate::request::AckTerms;
use crate::shard_state::{Shard, relayed_writes};
use crate::verbs::Verb;
use cluster::placement::TablePlacement;
use cluster::topology::Node;
use engine::BatchId;
use model::failure::FailureReason;
use model::query::Partitions;
use model::{DecoratedKey, Failure, Mutation, Table, TableId, Token, TokenRange};
use runtime::ShardId;
use std::sync::Arc;
use std::time::Duration;

/// How long a request waits for an epoch that this node has not reached yet.
const EPOCH_WAIT: Duration = Duration::from_millis(500);

/// Why a request has no result.
enum Stopped {
    /// It does not decode.
    Unreadable,
    /// It is answered with a refusal.
    Refused(Refusal),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Refused(refusal)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Refused(failure.into())
    }
}

/// Answers a request of this node to itself; whoever waits for the answer may give up.
pub(crate) async fn serve_own(shard: &Shard, verb: Verb, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let (shard, body, trace) = (shard.clone(), body.to_vec(), shard.current_trace());
    let serving = runtime::spawn(async move {
        let serving = serve(&shard, verb as u8, body);
        match trace {
            None => serving.await,
            Some(trace) => shard.traced(&trace, serving).await,
        }
    });
    serving.await
}

/// Answers a request of another node. Must be polled to its end.
pub(crate) async fn serve(shard: &Shard, verb: u8, body: Vec<u8>) -> Result<Vec<u8>, Unreadable> {
    let verb = Verb::of(verb);
    let answer = match verb {
        Some(Verb::Echo) if body.is_empty() => return Ok(Vec::new()),
        // The metadata are on shard 0. The connections over which other nodes ask for them should be, too, but a node
        // that found no free port that names this core reaches another one.
        Some(verb) if verb.is_control() => {
            return match shard.call(ShardId(0), Request::Control(Box::new((verb, body)))).await {
                Reply::Control(answer) => answer,
                _ => Err(Unreadable),
            };
        }
        Some(verb) if !verb.is_urgent() => match TracedSession::of(&body) {
            None => serve_data(shard, verb, body).await,
            Some(session) => return Box::pin(serve_traced(shard, session, verb, body)).await,
        },
        _ => return Err(Unreadable),
    };
    encoded(answer)
}

fn encoded(answer: Result<Vec<u8>, Stopped>) -> Result<Vec<u8>, Unreadable> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(Stopped::Refused(refusal)) => Ok(answer::refusal(&refusal)),
        Err(Stopped::Unreadable) => Err(Unreadable),
    }
}

/// Serves a request for data that is traced, and writes what this node has done for it.
async fn serve_traced(shard: &Shard, session: TracedSession, verb: Verb, body: Vec<u8>) -> Result<Vec<u8>, Unreadable> {
    let topology = shard.topology();
    let coordinator = topology.nodes().iter().find(|node| node.host_id == session.coordinator);
    let from = coordinator.map_or_else(|| session.coordinator.to_string(), |node| format!("/{}", node.address));
    let trace = shard.begin_part(session);
    let serving = async {
        shard.trace(|| format!("{} message received from {from}", verb.traced_name()));
        let answer = encoded(Box::pin(serve_data(shard, verb, body)).await);
        let is_awaited = !matches!(verb, Verb::BatchRemove | Verb::MutationRelayed | Verb::MutationRelayedAnswer);
        if let (Ok(answer), true) = (&answer, is_awaited) {
            shard.trace(|| format!("Enqueuing response to {from}"));
            shard.trace(|| {
                format!("Sending {} message to {from} message size {} bytes", verb.traced_answer(), answer.len())
            });
        }
        answer
    };
    let answer = shard.traced(&trace, serving).await;
    shard.end_part(trace);
    answer
}

/// Futures of all but plain writes are boxed, so that the task that serves one of these is small.
async fn serve_data(shard: &Shard, verb: Verb, mut body: Vec<u8>) -> Result<Vec<u8>, Stopped> {
    let (head, rest) = Head::split(&body).ok_or(Stopped::Unreadable)?;
    let head_bytes = body.len() - rest.len();
    let _pass = shard.enter()?;
    if shard.epoch() < head.epoch {
        Box::pin(reach(shard, head.epoch)).await?;
    }
    match verb {
        Verb::Mutation => {
            body.drain(..head_bytes);
            let mutation = Mutation::decode(shard.partitioner(), body).map_err(|_| Stopped::Unreadable)?;
            mutate(shard, head, mutation).await
        }
        Verb::Read => Box::pin(read(shard, head, &body[head_bytes..])).await,
        Verb::ReadFragments => Box::pin(read_fragments(shard, head, &body[head_bytes..])).await,
        Verb::ReadDigest => Box::pin(read_digest(shard, head, &body[head_bytes..])).await,
        Verb::Validation | Verb::ValidationPartitions => Box::pin(validate(shard, verb, &body[head_bytes..])).await,
        Verb::WaitingSince => {
            if body.len() != head_bytes {
                return Err(Stopped::Unreadable);
            }
            let since = shard.waiting_since().await?;
            Ok(answer::result(|out| proofs::push_waiting(out, since)))
        }
        Verb::PaxosCleanup => Box::pin(finish_proposals(shard, &body[head_bytes..])).await,
        Verb::RepairOfSet => Box::pin(of_set(shard, head, &body[head_bytes..])).await,
        _ => {
            body.drain(..head_bytes);
            Box::pin(write(shard, head, verb, body)).await
        }
    }
}

/// Waits until this node has reached an epoch.
async fn reach(shard: &Shard, epoch: u64) -> Result<(), Stopped> {
    match runtime::timeout(EPOCH_WAIT, shard.epoch_reached(epoch)).await {
        Some(()) => Ok(()),
        None => Err(Refusal::Behind(shard.epoch()).into()),
    }
}

/// Serves what changes anything, but for plain writes.
async fn write(shard: &Shard, head: Head, verb: Verb, body: Vec<u8>) -> Result<Vec<u8>, Stopped> {
    match verb {
        Verb::MutationRelay => {
            let relay = relays::split_relay(&body).ok_or(Stopped::Unreadable)?;
            let mutation = Mutation::decode(shard.partitioner(), relay.mutation.to_vec());
            let mutation = mutation.map_err(|_| Stopped::Unreadable)?;
            pass_on(shard, head, &relay);
            mutate(shard, head, mutation).await
        }
        Verb::MutationRelayed => {
            let relayed = relays::split_relayed(&body).ok_or(Stopped::Unreadable)?;
            let mutation = Mutation::decode(shard.partitioner(), relayed.mutation.to_vec());
            let mutation = mutation.map_err(|_| Stopped::Unreadable)?;
            if let Ok(answer) = encoded(mutate(shard, head, mutation).await) {
                answer_coordinator(shard, &relayed, &answer);
            }
            Ok(answer::result(|_| ()))
        }
        Verb::MutationRelayedAnswer => {
            let (number, told) = relays::split_answer(&body).ok_or(Stopped::Unreadable)?;
            let core = relayed_writes::core_of(number);
            if usize::from(core.0) >= runtime::shard_count() || answer::decode(told).is_none() {
                return Err(Stopped::Unreadable);
            }
            shard.call(core, Request::RelayedAnswer(Box::new((number, told.to_vec())))).await.done()?;
            Ok(answer::result(|_| ()))
        }
        Verb::Hint => apply_hint(shard, head, &body).await,
        Verb::CounterMutation => {
            let change = Change::decode(shard.partitioner(), &body).ok_or(Stopped::Unreadable)?;
            let Change { level, timeout, mutation } = change;
            // Only counters have amounts.
            let table = tables_of(shard, &mutation, Table::is_counter).await?;
            check_writer(shard, head, &*shard.placement_of(&table)?, mutation.token(), mutation.key())?;
            let terms = AckTerms { consistency: level, timeout };
            let counted = Box::pin(counting::lead_for(shard, mutation, table, &terms)).await;
            let mut told = Ok(());
            let answer = answer::result(|out| told = counters::push_outcome(out, counted));
            told?;
            Ok(answer)
        }
        Verb::ReadRepair => {
            let mutation = Mutation::decode(shard.partitioner(), body).map_err(|_| Stopped::Unreadable)?;
            let first = mutation.updates().next().ok_or(Stopped::Unreadable)?.table;
            let placement = shard.placement_of(&*known(shard, first).await?)?;
            check_writer(shard, head, &placement, mutation.token(), mutation.key())?;
            let core = core_of(&placement, mutation.token());
            shard.call(core, Request::Mutate { mutation, system: false }).await.done()?;
            Ok(answer::result(|_| ()))
        }
        Verb::RepairAdd => {
            let (session, mutation) = repair_sessions::split_add(&body).ok_or(Stopped::Unreadable)?;
            let mutation = Mutation::decode(shard.partitioner(), mutation.to_vec()).map_err(|_| Stopped::Unreadable)?;
            let table = tables_of(shard, &mutation, |_| true).await?;
            let placement = shard.placement_of(&table)?;
            check_writer(shard, head, &placement, mutation.token(), mutation.key())?;
            let core = core_of(&placement, mutation.token());
            let add = TableVerb::AddPending { session, mutation };
            shard.call(core, Request::Table(Box::new(add))).await.table()?;
            Ok(answer::result(|_| ()))
        }
        Verb::RepairSession => {
            let request = repair_sessions::decode(shard.partitioner(), &body).ok_or(Stopped::Unreadable)?;
            if let SessionAsk::Prepare(terms) = &request.ask {
                for table in &terms.tables {
                    known(shard, *table).await?;
                }
            }
            let state = shard.call(ShardId(0), Request::RepairSession(Box::new(request))).await.repair_session()?;
            Ok(answer::result(|out| repair_sessions::push_answer(out, state)))
        }
        Verb::NoteRepaired => {
            let repaired = proofs::decode(shard.partitioner(), &body).ok_or(Stopped::Unreadable)?;
            known(shard, repaired.table).await?;
            shard.call(ShardId(0), Request::NoteRepaired(Box::new(repaired))).await.done()?;
            Ok(answer::result(|_| ()))
        }
        Verb::PaxosPrepare => {
            let round = Round::decode_prepare(shard.partitioner(), &body).ok_or(Stopped::Unreadable)?;
            let step = PaxosStep::Prepare(round.asked);
            accept(shard, head, round.table, round.key, step).await
        }
        Verb::PaxosPrepareRead => {
            let decoded = paxos::decode_prepare_read(shard.partitioner(), &body).ok_or(Stopped::Unreadable)?;
            let (round, request) = decoded;
            accept(shard, head, round.table, round.key, PaxosStep::PrepareRead(round.asked, request)).await
        }
        Verb::PaxosPropose | Verb::PaxosSettle | Verb::PaxosCommit => {
            let round = Round::decode_proposal(shard.partitioner(), &body).ok_or(Stopped::Unreadable)?;
            let step = match verb {
                Verb::PaxosPropose => PaxosStep::Accept(round.asked),
                Verb::PaxosSettle => PaxosStep::Settle(round.asked),
                _ => PaxosStep::Commit(round.asked),
            };
            accept(shard, head, round.table, round.key, step).await
        }
        Verb::BatchStore => {
            let batch = batches::decode(shard.partitioner(), &body).ok_or(Stopped::Unreadable)?;
            for mutation in &batch.mutations {
                tables_of(shard, mutation, |table| !table.is_counter()).await?;
            }
            let core = keeper(shard, batch.id);
            shard.call(core, Request::StoreBatch(Box::new(batch))).await.done()?;
            Ok(answer::result(|_| ()))
        }
        Verb::BatchRemove => {
            let id = batches::decode_id(&body).ok_or(Stopped::Unreadable)?;
            shard.call(keeper(shard, id), Request::RemoveBatch(id)).await.done()?;
            Ok(answer::result(|_| ()))
        }
        Verb::LeaseUnits => {
            let (request, core) = leases::decode(&body).ok_or(Stopped::Unreadable)?;
            let core = ShardId(core % runtime::shard_count() as u16);
            let table = request.table;
            match shard.call(core, Request::Lease(Box::new(request))).await.leased() {
                Some(grant) => Ok(answer::result(|out| leases::push_grant(out, &grant))),
                None => Err(Refusal::UnknownTable(table).into()),
            }
        }
        Verb::ForgetRoles if body.is_empty() => {
            for reply in shard.call_all(|| Request::ForgetRoles).await {
                reply.done()?;
            }
            Ok(answer::result(|_| ()))
        }
        Verb::Truncate => {
            let table = TableId(body.try_into().map_err(|_| Stopped::Unreadable)?);
            known(shard, table).await?;
            shard.call(ShardId(0), Request::Truncate(table)).await.done()?;
            Ok(answer::result(|_| ()))
        }
        Verb::StreamBegin | Verb::StreamOffers | Verb::StreamChunk | Verb::StreamDone | Verb::StreamMeasure => {
            stream(shard, verb, body).await
        }
        _ => Err(Stopped::Unreadable),
    }
}

/// Serves a request of streaming, on the core that it names.
async fn stream(shard: &Shard, verb: Verb, body: Vec<u8>) -> Result<Vec<u8>, Stopped> {
    let core = body.first_chunk().map(|core| ShardId(u16::from_le_bytes(*core))).ok_or(Stopped::Unreadable)?;
    if usize::from(core.0) >= runtime::shard_count() {
        return Ok(crate::stream::no_such_core(verb));
    }
    let request = Request::Stream(Box::new(StreamVerb::Serve { verb, body }));
    match shard.call(core, request).await {
        Reply::Stream(StreamAnswer::Served(answer)) => answer.ok_or(Stopped::Unreadable),
        _ => Err(Stopped::Unreadable),
    }
}

/// Writes a mutation that this node has a replica of.
async fn mutate(shard: &Shard, head: Head, mutation: Mutation) -> Result<Vec<u8>, Stopped> {
    let table = tables_of(shard, &mutation, |_| true).await?;
    let placement = shard.placement_of(&table)?;
    check_writer(shard, head, &placement, mutation.token(), mutation.key())?;
    let core = core_of(&placement, mutation.token());
    match core == shard.id() {
        true => replica::mutate(shard, mutation, false).await?,
        false => shard.mailbox().call(core, Request::Mutate { mutation, system: false }).await.done()?,
    }
    Ok(answer::result(|_| ()))
}

/// Passes a mutation on to other nodes. One that is not known here, or not reached, is late for the coordinator.
fn pass_on(shard: &Shard, head: Head, relay: &relays::RelayRequest<'_>) {
    let topology = shard.topology();
    for (host_id, number) in &relay.nodes {
        let Some(node) = topology.nodes().iter().find(|node| node.host_id == *host_id) else { continue };
        let mut body = head.body(relays::RELAYED_HEAD_BYTES + relay.mutation.len());
        relays::push_relayed(&mut body, relay.coordinator, *number, relay.mutation);
        shard.trace(|| format!("Enqueuing forwarded write to /{}", node.address));
        post(shard, node, Verb::MutationRelayed, body);
    }
}

/// Sends the coordinator of a mutation that was passed on what has become of it.
fn answer_coordinator(shard: &Shard, relayed: &relays::RelayedRequest<'_>, answer: &[u8]) {
    let topology = shard.topology();
    let Some(coordinator) = topology.nodes().iter().find(|node| node.host_id == relayed.coordinator) else { return };
    let mut body = Head { epoch: 0 }.body(relays::ANSWER_HEAD_BYTES + answer.len());
    relays::push_answer(&mut body, relayed.number, answer);
    shard.peers().post(coordinator, PeerLane::Requests, Verb::MutationRelayedAnswer, body);
}

/// Sends a request for data that is not answered.
fn post(shard: &Shard, to: &Node, verb: Verb, body: Vec<u8>) {
    let body = match shard.traced_session() {
        None => body,
        Some(session) => {
            let body = session.with(&body);
            let (name, size) = (verb.traced_name(), body.len());
            shard.trace(|| format!("Sending {name} message to /{} message size {size} bytes", to.address));
            body
        }
    };
    shard.peers().post(to, PeerLane::Requests, verb, body);
}

/// Applies what this node has missed, or keeps what another one has.
async fn apply_hint(shard: &Shard, head: Head, body: &[u8]) -> Result<Vec<u8>, Stopped> {
    let (missed_by, hint) = hint_bytes::split(body).ok_or(Stopped::Unreadable)?;
    let mutation = Mutation::decode(shard.partitioner(), hint.mutation.to_vec()).map_err(|_| Stopped::Unreadable)?;
    if missed_by != shard.host_id() {
        return match Box::pin(hints::keep_for(shard, missed_by, &hint)).await {
            true => Ok(answer::result(|_| ())),
            false => Err(Failure::overloaded("Too many hints wait to be written").into()),
        };
    }
    let table = tables_of(shard, &mutation, |_| true).await?;
    let placement = shard.placement_of(&table)?;
    let replicas = placement.replicas(mutation.token(), mutation.key());
    let topology = placement.keyspace().topology();
    if !replicas.written().any(|replica| replica.node == topology.here()) {
        return Err(Refusal::Moved(head.epoch.max(topology.epoch())).into());
    }
    let core = core_of(&placement, mutation.token());
    shard.call(core, Request::MutateLate { mutation, written_at: hint.written_at }).await.done()?;
    Ok(answer::result(|_| ()))
}

async fn accept(
    shard: &Shard,
    head: Head,
    table: TableId,
    key: DecoratedKey,
    step: PaxosStep,
) -> Result<Vec<u8>, Stopped> {
    let placement = shard.placement_of(&*known(shard, table).await?)?;
    check_writer(shard, head, &placement, key.token, &key.key)?;
    let core = core_of(&placement, key.token);
    let request = PaxosRequest { table, key, step };
    let answer = match core == shard.id() {
        true => Box::pin(cas::accept(shard, request)).await?,
        false => shard.call(core, Request::Paxos(Box::new(request))).await.paxos()?.0,
    };
    Ok(answer::result(|out| match answer {
        PaxosAnswer::Promise(promise) => paxos::push_promise(out, &promise),
        PaxosAnswer::PromiseRead(promise, block) => {
            paxos::push_promise(out, &promise);
            out.extend_from_slice(block.bytes());
        }
        PaxosAnswer::Acceptance(acceptance) => paxos::push_acceptance(out, acceptance),
        PaxosAnswer::Committed => {}
    }))
}

async fn read(shard: &Shard, head: Head, body: &[u8]) -> Result<Vec<u8>, Stopped> {
    let (request, core) = decode_read(shard, head, body).await?;
    let reply = read::read_on(shard, core, request).await?;
    Ok(answer::result(|out| rows::push(out, &reply)))
}

async fn read_digest(shard: &Shard, head: Head, body: &[u8]) -> Result<Vec<u8>, Stopped> {
    let (with_rows, body) = digests::split(body).ok_or(Stopped::Unreadable)?;
    let (request, core) = decode_read(shard, head, body).await?;
    let DigestReply { rows, digest } = read::read_digest_on(shard, core, &request).await?;
    Ok(answer::result(|out| digests::push_answer(out, digest, with_rows.then_some(&rows))))
}

/// Decodes the request of a read, and says which core has what is read.
async fn decode_read(shard: &Shard, head: Head, body: &[u8]) -> Result<(ReadRequest, ShardId), Stopped> {
    let table = known(shard, reads::table_of(body).ok_or(Stopped::Unreadable)?).await?;
    let (request, asked) = match reads::decode(shard.partitioner(), &table, body) {
        Ok(decoded) => decoded,
        Err(reads::ReadError::Malformed) => return Err(Stopped::Unreadable),
        Err(reads::ReadError::UnknownColumn) => {
            let reason = FailureReason::IncompatibleSchema;
            return Err(replica::read_failure(reason, "a column is unknown here".into()).into());
        }
    };
    let core = reading_core(shard, head, &table, &request.command.partitions, asked)?;
    Ok((request, core))
}

/// Hashes what this node has of a segment, also where the node has it no more by its own epoch: nobody relies on it.
async fn validate(shard: &Shard, verb: Verb, body: &[u8]) -> Result<Vec<u8>, Stopped> {
    let request = repairs::decode(shard.partitioner(), body, verb == Verb::ValidationPartitions);
    let request = request.ok_or(Stopped::Unreadable)?;
    known(shard, request.table).await?;
    let answer = validation::validate_here(shard, &request).await?;
    Ok(answer::result(|out| repairs::push_answer(out, &answer)))
}

/// Finishes what rounds of Paxos have left unfinished in a range, as far as this node knows of it.
async fn finish_proposals(shard: &Shard, body: &[u8]) -> Result<Vec<u8>, Stopped> {
    let request = unfinished::decode(shard.partitioner(), body).ok_or(Stopped::Unreadable)?;
    known(shard, request.table).await?;
    let finished = cas::finishing::finish_here(shard, &request).await?;
    Ok(answer::result(|out| unfinished::push_answer(out, &finished)))
}

/// Serves a request about one set of SSTables.
async fn of_set(shard: &Shard, head: Head, body: &[u8]) -> Result<Vec<u8>, Stopped> {
    let (set, verb, body) = repair_sessions::split_set(body).ok_or(Stopped::Unreadable)?;
    if verb == Verb::ReadFragments {
        let (request, asked) = reads::decode_fragments(shard.partitioner(), body).ok_or(Stopped::Unreadable)?;
        let table = known(shard, request.command.table).await?;
        let core = reading_core(shard, head, &table, &request.command.partitions, asked)?;
        let block = shard.call(core, Request::ReadFragmentsOf(Box::new((set, request)))).await.fragments()?;
        return Ok(answer::result(|out| out.extend_from_slice(block.bytes())));
    }
    let request = repairs::decode(shard.partitioner(), body, verb == Verb::ValidationPartitions);
    let request = ValidationRequest { set: Some(set), ..request.ok_or(Stopped::Unreadable)? };
    known(shard, request.table).await?;
    let answer = validation::validate_here(shard, &request).await?;
    Ok(answer::result(|out| repairs::push_answer(out, &answer)))
}

async fn read_fragments(shard: &Shard, head: Head, body: &[u8]) -> Result<Vec<u8>, Stopped> {
    let (request, asked) = reads::decode_fragments(shard.partitioner(), body).ok_or(Stopped::Unreadable)?;
    let table = known(shard, request.command.table).await?;
    let core = reading_core(shard, head, &table, &request.command.partitions, asked)?;
    let block = match shard.call(core, Request::ReadFragments(Box::new(request))).await {
        Reply::Fragments(block) => block?,
        other => other.fragments()?,
    };
    Ok(answer::result(|out| out.extend_from_slice(block.bytes())))
}

/// The first table that a mutation changes; all of them must be known and fit.
async fn tables_of(shard: &Shard, mutation: &Mutation, fits: impl Fn(&Table) -> bool) -> Result<Arc<Table>, Stopped> {
    let mut first = None;
    for update in mutation.updates() {
        let table = known(shard, update.table).await?;
        if !fits(&table) {
            return Err(Stopped::Unreadable);
        }
        first.get_or_insert(table);
    }
    first.ok_or(Stopped::Unreadable)
}

/// The table with an id.
async fn known(shard: &Shard, id: TableId) -> Result<Arc<Table>, Stopped> {
    replica::wait_for_table(shard, id).await.map_err(|_| Refusal::UnknownTable(id).into())
}

/// The core that has what is read, if this node has it.
fn reading_core(
    shard: &Shard,
    head: Head,
    table: &Table,
    partitions: &Partitions,
    asked: reads::AskedCore,
) -> Result<ShardId, Stopped> {
    let placement = shard.placement_of(table)?;
    match partitions {
        Partitions::Key(key) => {
            check_owner(shard, head, &placement, key.token, &key.key)?;
            Ok(core_of(&placement, key.token))
        }
        Partitions::Range(range) => {
            check_range(shard, head, &placement, range)?;
            let topology = placement.keyspace().topology();
            let is_known = asked.cores == topology.node(topology.here()).shards.shards;
            match is_known && placement.shards_of(topology.here()).contains(&asked.core) {
                true => Ok(ShardId(asked.core)),
                false => Err(Refusal::Moved(topology.epoch()).into()),
            }
        }
    }
}

/// The core of this node that keeps a logged batch.
fn keeper(shard: &Shard, id: BatchId) -> ShardId {
    let topology = shard.topology();
    let token = shard.partitioner().token(&id.uuid);
    ShardId(topology.node(topology.here()).shards.owner(token))
}

fn core_of(placement: &TablePlacement, token: Token) -> ShardId {
    ShardId(placement.shard_of(placement.keyspace().topology().here(), token))
}

/// Fails if a request is of an epoch before the fence: by a later one data is written or read elsewhere, and the nodes
/// that have passed the barrier between the two rely on it that nobody does what was planned before.
fn check_fence(shard: &Shard, head: Head, placement: &TablePlacement) -> Result<(), Stopped> {
    match head.epoch < shard.older_topologies().fence() {
        true => Err(Refusal::Moved(placement.keyspace().topology().epoch()).into()),
        false => Ok(()),
    }
}

/// Fails if this node has no replica of a partition that is read, and the request comes from a time when it may have
/// had one, or from before the fence.
fn check_owner(shard: &Shard, head: Head, placement: &TablePlacement, token: Token, key: &[u8]) -> Result<(), Stopped> {
    let topology = placement.keyspace().topology();
    if head.epoch == topology.epoch() {
        return Ok(());
    }
    check_fence(shard, head, placement)?;
    match placement.replicas(token, key).natural().any(|replica| replica.node == topology.here()) {
        true => Ok(()),
        false => Err(Refusal::Moved(topology.epoch()).into()),
    }
}

/// Fails as [`check_owner`] does, but that pending replicas are written too.
fn check_writer(
    shard: &Shard,
    head: Head,
    placement: &TablePlacement,
    token: Token,
    key: &[u8],
) -> Result<(), Stopped> {
    let topology = placement.keyspace().topology();
    if head.epoch == topology.epoch() {
        return Ok(());
    }
    check_fence(shard, head, placement)?;
    match placement.replicas(token, key).written().any(|replica| replica.node == topology.here()) {
        true => Ok(()),
        false => Err(Refusal::Moved(topology.epoch()).into()),
    }
}

/// Fails as [`check_owner`] does, for the partitions of a range.
fn check_range(shard: &Shard, head: Head, placement: &TablePlacement, range: &TokenRange) -> Result<(), Stopped> {
    let topology = placement.keyspace().topology();
    if head.epoch == topology.epoch() {
        return Ok(());
    }
    check_fence(shard, head, placement)?;
    match placement.keyspace().ranges(range).all(|part| part.nodes.contains(&topology.here())) {
        true => Ok(()),
        false => Err(Refusal::Moved(topology.epoch()).into()),
    }
}
