//! Writes of one mutation to all replicas of its partition.
//!
//! 1. The mutation is encoded once, as the body of a request, and sent to the live replicas of the plan: to other nodes
//!    over their links, to this node as a call.
//! 2. The client is answered as soon as the plan says what it gets.
//! 3. The replicas that have not answered by then are waited for in the background, until the request's deadline.
//! 4. A replica that is down, failed or late has missed the mutation ([`missed`]).
//! 5. If a replica says that by a later epoch other nodes have the partition, the write is planned and sent again when
//!    this core has reached that epoch. Writing a mutation twice changes nothing.
//!
//! Invariants: what runs on this node runs to its end, and stopping waits for it; the number and the bytes of writes
//! that wait in the background are limited (`shard_state::WritesBehind`). Past the limit, replicas that have not answered
//! when the client is answered count as late at once: a silent node costs its peers a bounded amount of memory.

use super::hints::missed;
use super::remote::{Asked, acknowledgement, failure_of};
use super::too_many_calls;
use super::write::{PlannedWrite, Routed};
use crate::messages::Request;
use crate::metrics::WrittenTables;
use crate::peer::answer::Refusal;
use crate::peer::head::Head;
use crate::ports::PeerCall;
use crate::replica;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::placement::Replica;
use cluster::plan::{WritePlan, WriteType};
use cluster::topology::Topology;
use model::{Failure, Mutation, Table};
use runtime::{Instant, ShardId};
use smallvec::SmallVec;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The write of a mutation to its replicas.
struct Replication {
    shard: Shard,
    /// The first table that the mutation changes.
    table: Arc<Table>,
    write_type: WriteType,
    planned: PlannedWrite,
    deadline: Instant,
    /// The request to other nodes.
    body: Vec<u8>,
    /// The replicas that have not answered.
    calls: SmallVec<[(Replica, Call); 3]>,
}

/// A write under way on one replica.
enum Call {
    Here(Pin<Box<dyn Future<Output = Result<(), Failure>>>>),
    Elsewhere(PeerCall),
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
    let mut replication = Replication {
        shard: shard.clone(),
        table,
        write_type,
        body: body(&planned.topology, mutation.bytes()),
        planned,
        deadline: began.after(timeout),
        calls: SmallVec::new(),
    };
    if replication.send(mutation) {
        replication.leave().await;
        return Ok(());
    }
    let answered = runtime::timeout(timeout, replication.answer()).await;
    let result = answered.unwrap_or_else(|| Err(replication.planned.plan.expired()));
    shard.metrics().coordinated(&written, false, began);
    replication.leave().await;
    result
}

/// The request to write a mutation with these bytes.
fn body(topology: &Topology, mutation: &[u8]) -> Vec<u8> {
    let mut body = Head { epoch: topology.epoch() }.body(mutation.len());
    body.extend_from_slice(mutation);
    body
}

impl Replication {
    /// Sends the mutation to all replicas of the plan. Returns true if the client's answer is known by that.
    fn send(&mut self, mutation: Mutation) -> bool {
        let topology = self.planned.topology.clone();
        let mut here = None;
        for replica in self.planned.plan.targets() {
            if replica.node == topology.here() {
                here = Some(replica);
                continue;
            }
            let asked = Asked::until(&topology, replica.node, self.deadline);
            let call = asked.call(&self.shard, Verb::Mutation, &self.body);
            self.calls.push((replica, Call::Elsewhere(call)));
        }
        if let Some(replica) = here {
            self.calls.push((replica, Call::Here(write_here(&self.shard, replica, mutation))));
        }
        let mut is_kept = false;
        for at in 0..self.planned.plan.down().len() {
            is_kept |= self.missed(self.planned.plan.down()[at]);
        }
        is_kept && self.planned.plan.kept()
    }

    /// Waits until the client's answer is known.
    async fn answer(&mut self) -> Result<(), Failure> {
        while !self.calls.is_empty() {
            let (replica, result) = self.next().await;
            match result {
                Ok(()) => {
                    if self.planned.plan.acknowledged(replica) {
                        return Ok(());
                    }
                }
                Err(Refusal::Moved(epoch)) if epoch > self.planned.topology.epoch() => {
                    if self.send_again(epoch).await? {
                        return Ok(());
                    }
                }
                Err(refusal) => {
                    self.missed(replica);
                    let failure = failure_of(Verb::Mutation, refusal);
                    let topology = &self.planned.topology;
                    if let Some(failure) = self.planned.plan.failed(replica, failure, topology) {
                        return Err(failure);
                    }
                }
            }
        }
        // No replica is alive, at ANY, and the mutation was not kept for any of them.
        Err(self.planned.plan.expired())
    }

    /// The next answer of a replica.
    async fn next(&mut self) -> (Replica, Result<(), Refusal>) {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(Replica, Result<(), Refusal>)> {
        for at in 0..self.calls.len() {
            let result = match &mut self.calls[at].1 {
                Call::Here(call) => call.as_mut().poll(context).map_err(Refusal::Failed),
                Call::Elsewhere(call) => {
                    call.as_mut().poll(context).map(|answer| acknowledgement(Verb::Mutation, answer))
                }
            };
            if let Poll::Ready(result) = result {
                let (replica, _) = self.calls.swap_remove(at);
                return Poll::Ready((replica, result));
            }
        }
        Poll::Pending
    }

    /// Plans the write again by the placement of `epoch` or a later one, and sends it again. Returns true if the client's
    /// answer is known by that.
    async fn send_again(&mut self, epoch: u64) -> Result<bool, Failure> {
        self.shard.epoch_reached(epoch).await;
        let sent = self.body[Head::BYTES..].to_vec();
        let mutation = Mutation::decode(self.shard.partitioner(), sent)
            .map_err(|error| Failure::server(format!("a mutation does not decode: {error}")).unknown())?;
        let placement = self.shard.placement_of(&self.table)?;
        let replicas = placement.replicas(mutation.token(), mutation.key());
        let level = self.planned.requirement().level;
        let plan = WritePlan::new(level, self.write_type, replicas, placement.live()).map_err(Failure::unknown)?;
        self.planned = PlannedWrite { plan, topology: placement.keyspace().topology().clone() };
        self.body = body(&self.planned.topology, mutation.bytes());
        for (_, call) in std::mem::take(&mut self.calls) {
            if let Call::Here(call) = call {
                runtime::spawn(call);
            }
        }
        Ok(self.send(mutation))
    }

    /// Notes that a replica does not have the mutation. Returns whether it is kept for it.
    fn missed(&self, replica: Replica) -> bool {
        let node = self.planned.topology.node(replica.node);
        missed(&self.shard, node, &self.body[Head::BYTES..])
    }

    /// Lets the replicas that have not answered go on in the background.
    async fn leave(mut self) {
        if self.calls.is_empty() {
            return;
        }
        let Ok(pass) = self.shard.enter() else {
            // The node is stopping, which waits for the client's request.
            return self.rest().await;
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
    async fn rest(mut self) {
        let left = self.deadline.since(runtime::now());
        runtime::timeout(left, async {
            while !self.calls.is_empty() {
                match self.next().await {
                    (_, Ok(())) => {}
                    (_, Err(Refusal::Moved(epoch))) if epoch > self.planned.topology.epoch() => {
                        // The client has its answer already.
                        let _ = self.send_again(epoch).await;
                    }
                    (replica, Err(_)) => drop(self.missed(replica)),
                }
            }
        })
        .await;
        for (replica, call) in std::mem::take(&mut self.calls) {
            match call {
                Call::Here(call) => drop(call.await),
                Call::Elsewhere(_) => drop(self.missed(replica)),
            }
        }
    }
}

/// Writes on this node. What is in the log must also reach the memtable, so it must be polled to its end.
fn write_here(
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
