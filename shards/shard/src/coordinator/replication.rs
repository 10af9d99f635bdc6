//! Writes of one mutation to all replicas of its partition.
//!
//! 1. The mutation is encoded once, as the body of a request, and sent to the live replicas of the plan: to other nodes
//!    over their links, to this node as a call. Of each other data centre one replica gets it and passes it on to the
//!    others there, which answer this node themselves; decisions go to each replica. If that one says that it has not
//!    done so, the others get the mutation from here.
//! 2. The client is answered as soon as the plan says what it gets.
//! 3. The replicas that have not answered by then are waited for in the background, until the request's deadline.
//! 4. A replica that is down, failed or late has missed the mutation ([`missed`]). At ANY the client is answered as
//!    soon as the mutation is kept for a replica that is down, on disk if acknowledged writes are.
//! 5. If a replica says that by a later epoch other nodes have the partition, the write is planned and sent again when
//!    this core has reached that epoch. Writing a mutation twice changes nothing.
//!
//! `relaying` has the way to other data centres.
//!
//! Invariants: what runs on this node runs to its end, and stopping waits for it; the number and the bytes of writes
//! that wait in the background are limited (`shard_state::WritesBehind`). Past the limit, replicas that have not
//! answered when the client is answered count as late at once: a silent node costs its peers little memory.

mod relaying;

use super::cas;
use super::hints::{Kept, missed};
use super::remote::{Asked, REQUEST_BYTES, acknowledgement, failure_of};
use super::too_many_calls;
use super::write::{PlannedWrite, Routed};
use crate::messages::Request;
use crate::messages::data::{ConditionalRequest, PaxosRequest, PaxosStep};
use crate::metrics::WrittenTables;
use crate::paxos::{Proposal, Update};
use crate::peer::answer::Refusal;
use crate::peer::head::Head;
use crate::peer::paxos::Round;
use crate::ports::PeerCall;
use crate::replica;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::placement::Replica;
use cluster::plan::{CasProgress, Relay, WritePlan, WriteType};
use cluster::topology::Topology;
use model::failure::Detail;
use model::{Consistency, DecoratedKey, Failure, Mutation, Table};
use runtime::{Instant, ShardId};
use smallvec::SmallVec;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The write of a mutation to its replicas. Boxed, because it goes from one future to the next.
struct Replication {
    shard: Shard,
    /// The first table that the mutation changes.
    table: Arc<Table>,
    write_type: WriteType,
    planned: PlannedWrite,
    deadline: Instant,
    /// When the mutation was to be written, microseconds since 1970.
    written_at: i64,
    kind: Kind,
    /// The request to other nodes; the mutation is at its end.
    body: Vec<u8>,
    /// Where the mutation begins.
    mutation_at: usize,
    /// The replicas that have not answered.
    calls: SmallVec<[(Replica, Call); 3]>,
    /// Replicas that know later nodes than the plan, until it is made again.
    moved: Vec<Replica>,
    /// Replicas that pass the mutation on, and to which.
    relays: Vec<Relay>,
}

/// What replicas are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// To write a mutation.
    Mutation,
    /// To write a mutation that this node has already.
    Counted,
    /// To commit a proposal.
    Commit,
}

impl Kind {
    fn verb(self) -> Verb {
        match self {
            Kind::Mutation | Kind::Counted => Verb::Mutation,
            Kind::Commit => Verb::PaxosCommit,
        }
    }
}

/// What is left to do on this node, if it is a replica.
enum Local {
    Write(Mutation),
    Commit(Box<PaxosRequest>),
    Nothing,
}

/// A write under way on one replica.
enum Call {
    Here(Pin<Box<dyn Future<Output = Result<(), Failure>>>>),
    Elsewhere(PeerCall),
    /// The replica is down, and the mutation is being kept for it.
    Keeping(Pin<Box<dyn Future<Output = ()>>>),
}

/// What has become of a write on one replica.
enum Event {
    Answered(Replica, Result<(), Refusal>),
    /// It is kept for a replica that is down.
    Kept,
}

/// Writes a mutation by its plan.
pub(super) async fn write(
    shard: &Shard,
    routed: Routed,
    planned: PlannedWrite,
    write_type: WriteType,
    timeout: Duration,
) -> Result<(), Failure> {
    let (written, began) = (WrittenTables::of(&routed.mutation), runtime::now());
    let Routed { mutation, table, .. } = routed;
    let body = mutation_body(&planned.topology, mutation.bytes());
    let replication = Box::new(Replication {
        shard: shard.clone(),
        table,
        write_type,
        planned,
        deadline: began.after(timeout),
        written_at: runtime::wall_micros(),
        kind: Kind::Mutation,
        body,
        mutation_at: Head::BYTES,
        calls: SmallVec::new(),
        moved: Vec::new(),
        relays: Vec::new(),
    });
    let result = replication.run(Local::Write(mutation)).await;
    shard.metrics().coordinated(&written, false, began);
    result
}

/// Writes a mutation that was to be written at `written_at`, and that a node has missed which has its partition no
/// longer, to the replicas that have it now.
pub(super) async fn write_missed(
    shard: &Shard,
    mutation: Mutation,
    table: Arc<Table>,
    written_at: i64,
) -> Result<(), Failure> {
    let placement = shard.placement_of(&table)?;
    let replicas = placement.replicas(mutation.token(), mutation.key());
    let plan = WritePlan::new(Consistency::Any, WriteType::Simple, replicas, placement.live())?;
    let planned = PlannedWrite { plan, topology: placement.keyspace().topology().clone() };
    let body = mutation_body(&planned.topology, mutation.bytes());
    let replication = Box::new(Replication {
        shard: shard.clone(),
        table,
        write_type: WriteType::Simple,
        planned,
        deadline: runtime::now().after(shard.timeouts().write),
        written_at,
        kind: Kind::Mutation,
        body,
        mutation_at: Head::BYTES,
        calls: SmallVec::new(),
        moved: Vec::new(),
        relays: Vec::new(),
    });
    replication.run(Local::Write(mutation)).await
}

/// Sends the counters that this node, as their leader, has written to the other replicas.
pub(super) async fn replicate_counted(
    shard: &Shard,
    counted: Routed,
    planned: PlannedWrite,
    timeout: Duration,
) -> Result<(), Failure> {
    let body = mutation_body(&planned.topology, counted.mutation.bytes());
    let replication = Box::new(Replication {
        shard: shard.clone(),
        table: counted.table,
        write_type: WriteType::Counter,
        planned,
        deadline: runtime::now().after(timeout),
        written_at: runtime::wall_micros(),
        kind: Kind::Counted,
        body,
        mutation_at: Head::BYTES,
        calls: SmallVec::new(),
        moved: Vec::new(),
        relays: Vec::new(),
    });
    replication.run(Local::Nothing).await
}

/// Writes a change that was decided after `contentions` attempts to all replicas, at the level of its commit.
pub(super) async fn commit(
    shard: &Shard,
    request: &ConditionalRequest,
    key: &DecoratedKey,
    proposal: Proposal<Update>,
    contentions: u16,
    timeout: Duration,
) -> Result<(), Failure> {
    let placement = shard.placement_of(&request.table)?;
    let (replicas, live) = (placement.replicas(key.token, &key.key), placement.live());
    let planned_at = |level| {
        let plan = WritePlan::new(level, WriteType::Simple, replicas, live)?;
        Ok(PlannedWrite { plan, topology: placement.keyspace().topology().clone() })
    };
    let (planned, is_too_few) = match planned_at(request.plan.commit_level()) {
        Ok(planned) => (planned, false),
        // Replicas died since the change was proposed. It is decided, so those that are left get it.
        Err(_) => (planned_at(Consistency::Any)?, true),
    };
    let update = proposal.update.as_ref().map_or(0, Vec::len);
    let step = PaxosRequest { table: request.table.id, key: key.clone(), step: PaxosStep::Commit(proposal) };
    let body = commit_body(&planned.topology, &step);
    let replication = Box::new(Replication {
        shard: shard.clone(),
        table: request.table.clone(),
        write_type: WriteType::Simple,
        planned,
        deadline: runtime::now().after(timeout),
        written_at: runtime::wall_micros(),
        kind: Kind::Commit,
        mutation_at: body.len() - update,
        body,
        calls: SmallVec::new(),
        moved: Vec::new(),
        relays: Vec::new(),
    });
    let result = replication.run(Local::Commit(Box::new(step))).await;
    if is_too_few {
        return Err(request.plan.expired(CasProgress::Committing, 0, contentions));
    }
    result.map_err(|failure| match failure.detail {
        Detail::WriteTimeout { received, .. } => {
            request.plan.expired(CasProgress::Committing, usize::try_from(received).unwrap_or(0), contentions)
        }
        _ => failure,
    })
}

/// The request to write a mutation with these bytes.
pub(super) fn mutation_body(topology: &Topology, mutation: &[u8]) -> Vec<u8> {
    let mut body = Head { epoch: topology.epoch() }.body(mutation.len());
    body.extend_from_slice(mutation);
    body
}

/// The request to commit a proposal, which ends with its update.
fn commit_body(topology: &Topology, request: &PaxosRequest) -> Vec<u8> {
    let PaxosStep::Commit(proposal) = &request.step else { return Vec::new() };
    let room = REQUEST_BYTES + proposal.update.as_ref().map_or(0, Vec::len);
    let mut body = Head { epoch: topology.epoch() }.body(room);
    Round { table: request.table, key: request.key.clone(), asked: proposal.clone() }.encode(&mut body);
    body
}

impl Replication {
    /// Sends the mutation, and waits until the client's answer is known or its time has ended.
    async fn run(mut self: Box<Self>, local: Local) -> Result<(), Failure> {
        // A keyspace may have no replicas at all.
        let is_empty = self.planned.plan.targets().len() == 0 && self.planned.plan.down().is_empty();
        let result = match self.send(local) || is_empty {
            true => Ok(()),
            false => {
                let left = self.deadline.since(runtime::now());
                let answered = runtime::timeout(left, self.answer()).await;
                answered.unwrap_or_else(|| Err(self.planned.plan.expired()))
            }
        };
        self.leave().await;
        result
    }

    /// Sends the mutation to all replicas of the plan. Returns true if the client's answer is known by that.
    fn send(&mut self, local: Local) -> bool {
        let topology = self.planned.topology.clone();
        let is_relayed = self.kind != Kind::Commit && topology.relays_writes();
        let center = topology.data_center_of(topology.here());
        let mut here = None;
        let mut far: SmallVec<[Replica; 4]> = SmallVec::new();
        for replica in self.planned.plan.targets() {
            if replica.node == topology.here() {
                here = Some(replica);
            } else if is_relayed && topology.data_center_of(replica.node) != center {
                far.push(replica);
            } else {
                let call = self.call(replica);
                self.calls.push((replica, call));
            }
        }
        if !far.is_empty() {
            self.send_far(&far);
        }
        let mut is_done = false;
        for at in 0..self.planned.plan.down().len() {
            let replica = self.planned.plan.down()[at];
            match self.missed(replica) {
                Some(kept) if kept.is_waited_for(self.planned.requirement().level) => {
                    self.calls.push((replica, Call::Keeping(Box::pin(kept.on_disk()))));
                }
                Some(_) => is_done |= self.planned.plan.kept(),
                None => {}
            }
        }
        if let Some(replica) = here {
            match local {
                Local::Write(mutation) => {
                    self.calls.push((replica, Call::Here(write_here(&self.shard, replica, mutation))));
                }
                Local::Commit(request) => {
                    self.calls.push((replica, Call::Here(commit_here(&self.shard, replica, request))));
                }
                Local::Nothing => is_done |= self.planned.plan.acknowledged(replica),
            }
        }
        is_done
    }

    /// Sends the mutation to a replica on another node.
    fn call(&self, replica: Replica) -> Call {
        let asked = Asked::until(&self.planned.topology, replica.node, self.deadline);
        Call::Elsewhere(asked.call(&self.shard, self.kind.verb(), &self.body))
    }

    /// Waits until the client's answer is known.
    async fn answer(&mut self) -> Result<(), Failure> {
        while !self.calls.is_empty() {
            match self.next().await {
                Event::Kept => {
                    if self.planned.plan.kept() {
                        return Ok(());
                    }
                }
                Event::Answered(replica, Ok(())) => {
                    if self.planned.plan.acknowledged(replica) {
                        return Ok(());
                    }
                }
                Event::Answered(replica, Err(Refusal::Moved(epoch))) if epoch > self.planned.topology.epoch() => {
                    self.moved.push(replica);
                    if Box::pin(self.send_again(epoch)).await? {
                        return Ok(());
                    }
                }
                Event::Answered(replica, Err(refusal)) => {
                    self.send_past(replica);
                    self.missed(replica);
                    let failure = failure_of(self.kind.verb(), refusal);
                    let topology = &self.planned.topology;
                    if let Some(failure) = self.planned.plan.failed(replica, failure, topology) {
                        return Err(failure);
                    }
                }
            }
        }
        // No replica is alive, at ANY, and the mutation is not kept for any of them.
        Err(self.planned.plan.expired())
    }

    /// What happens next.
    async fn next(&mut self) -> Event {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        for at in 0..self.calls.len() {
            let replica = self.calls[at].0;
            let event = match &mut self.calls[at].1 {
                Call::Here(call) => {
                    let result = call.as_mut().poll(context).map_err(Refusal::Failed);
                    result.map(|result| Event::Answered(replica, result))
                }
                Call::Elsewhere(call) => {
                    let verb = self.kind.verb();
                    let answer = call.as_mut().poll(context);
                    answer.map(|answer| Event::Answered(replica, acknowledgement(verb, answer)))
                }
                Call::Keeping(keeping) => keeping.as_mut().poll(context).map(|()| Event::Kept),
            };
            if event.is_ready() {
                self.calls.swap_remove(at);
                return event;
            }
        }
        Poll::Pending
    }

    /// Plans the write again by the placement of `epoch` or a later one, and sends it again. Returns true if the
    /// client's answer is known by that.
    async fn send_again(&mut self, epoch: u64) -> Result<bool, Failure> {
        self.shard.epoch_reached(epoch).await;
        let unreadable = || Failure::server("a mutation does not decode").unknown();
        let partitioner = self.shard.partitioner();
        let mutation =
            Mutation::decode(partitioner, self.body[self.mutation_at..].to_vec()).map_err(|_| unreadable())?;
        let placement = self.shard.placement_of(&self.table)?;
        let replicas = placement.replicas(mutation.token(), mutation.key());
        let level = self.planned.requirement().level;
        let plan = WritePlan::new(level, self.write_type, replicas, placement.live()).map_err(Failure::unknown)?;
        self.planned = PlannedWrite { plan, topology: placement.keyspace().topology().clone() };
        let local = match self.kind {
            Kind::Commit => {
                let round = Round::decode_proposal(partitioner, &self.body[Head::BYTES..]).ok_or_else(unreadable)?;
                let step = PaxosStep::Commit(round.asked);
                let request = PaxosRequest { table: round.table, key: round.key, step };
                self.body = commit_body(&self.planned.topology, &request);
                Local::Commit(Box::new(request))
            }
            Kind::Mutation | Kind::Counted => {
                self.body = mutation_body(&self.planned.topology, mutation.bytes());
                if self.kind == Kind::Mutation { Local::Write(mutation) } else { Local::Nothing }
            }
        };
        self.relays.clear();
        self.moved.clear();
        for (_, call) in std::mem::take(&mut self.calls) {
            if let Call::Here(call) = call {
                runtime::spawn(call);
            }
        }
        Ok(self.send(local))
    }

    /// Notes that a replica does not have the mutation. Returns whether it is kept for it; this node misses nothing.
    fn missed(&self, replica: Replica) -> Option<Kept> {
        let topology = &self.planned.topology;
        if replica.node == topology.here() {
            return None;
        }
        missed(&self.shard, topology.node(replica.node), &self.body[self.mutation_at..], self.written_at)
    }

    /// Lets the replicas that have not answered go on in the background.
    async fn leave(mut self: Box<Self>) {
        if self.calls.is_empty() && self.moved.is_empty() {
            return;
        }
        let Ok(pass) = self.shard.enter() else {
            // The node is stopping, which waits for the client's request.
            return Box::pin(self.rest()).await;
        };
        let behind = self.shard.writes_behind().enter(self.body.len());
        if behind.is_none() {
            self.deadline = runtime::now();
        }
        runtime::spawn(async move {
            self.rest().await;
            drop((behind, pass));
        });
    }

    /// Waits for the replicas that have not answered; other nodes until the deadline.
    async fn rest(mut self: Box<Self>) {
        let left = self.deadline.since(runtime::now());
        runtime::timeout(left, async {
            while !self.calls.is_empty() {
                match self.next().await {
                    Event::Kept | Event::Answered(_, Ok(())) => {}
                    Event::Answered(replica, Err(Refusal::Moved(epoch))) if epoch > self.planned.topology.epoch() => {
                        self.moved.push(replica);
                        // The client has its answer already.
                        let _ = Box::pin(self.send_again(epoch)).await;
                    }
                    Event::Answered(replica, Err(_)) => {
                        self.send_past(replica);
                        drop(self.missed(replica));
                    }
                }
            }
        })
        .await;
        // This node has not learned of the later nodes in time.
        for replica in std::mem::take(&mut self.moved) {
            drop(self.missed(replica));
        }
        for (replica, call) in std::mem::take(&mut self.calls) {
            match call {
                Call::Here(call) => drop(call.await),
                Call::Elsewhere(_) => drop(self.missed(replica)),
                Call::Keeping(_) => {}
            }
        }
    }
}

/// Commits on this node. Must be polled to its end.
fn commit_here(
    shard: &Shard,
    replica: Replica,
    request: Box<PaxosRequest>,
) -> Pin<Box<dyn Future<Output = Result<(), Failure>>>> {
    let (shard, to) = (shard.clone(), ShardId(replica.shard));
    Box::pin(async move {
        match to == shard.id() {
            true => cas::accept(&shard, *request).await.map(drop),
            false => shard.call(to, Request::Paxos(request)).await.paxos().map(drop),
        }
    })
}

/// Writes on this node. What is in the log must also reach the memtable, so it must be polled to its end.
pub(crate) fn write_here(
    shard: &Shard,
    replica: Replica,
    mutation: Mutation,
) -> Pin<Box<dyn Future<Output = Result<(), Failure>>>> {
    let (shard, to) = (shard.clone(), ShardId(replica.shard));
    if to == shard.id() {
        return Box::pin(async move { replica::mutate(&shard, mutation, false).await });
    }
    if !shard.mailbox().has_room() {
        return Box::pin(std::future::ready(Err(too_many_calls())));
    }
    let call = shard.mailbox().call(to, Request::Mutate { mutation, system: false });
    Box::pin(async move { call.await.done() })
}
