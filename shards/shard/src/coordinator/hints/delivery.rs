//! Sending hints to the nodes that have missed them.
//!
//! 1. Files of a node that is alive are sent one after the other, a limited number of hints at a time, by one task per
//!    node and core; at most `max_hints_delivery_threads` of these tasks run on a core.
//! 2. A hint is sent again until the node has taken it; the file is deleted when all of its hints were taken or
//!    dropped. After a failure the next attempt, a period later, goes on with the first hint that was not taken.
//! 3. What the node does not own any more is written to those that do.
//!
//! Invariants: hints of a file are taken in their order, except that some behind the one that failed may be taken
//! twice, which changes nothing; a hint that is damaged or void stops nothing.

use super::{files, gc_grace_seconds};
use crate::coordinator::remote::{acknowledgement, failure_of};
use crate::coordinator::replication;
use crate::peer::answer::Refusal;
use crate::peer::head::Head;
use crate::peer::hints;
use crate::ports::{PeerCall, PeerLane};
use crate::shard_state::Shard;
use crate::shard_state::hints::ClosedFile;
use crate::verbs::Verb;
use cluster::topology::{Node, NodeIndex, Topology};
use engine::Throttle;
use engine::hints::{Hint, HintReader, Next, RECORD_HEADER_BYTES};
use model::{Mutation, Table};
use runtime::Class;
use runtime::sync::{Either, race};
use std::collections::VecDeque;
use std::sync::Arc;
use uuid::Uuid;

/// Most hints that a node has been sent and has not answered.
const SENT_MAX: usize = 32;
/// Most bytes of those, if there are several.
const SENT_BYTES_MAX: usize = 4 << 20;

/// Begins to deliver the hints for nodes that are alive.
pub(super) fn start(shard: &Shard) {
    let topology = shard.topology();
    for host_id in shard.hints().hosts() {
        let hints = shard.hints();
        if hints.is_paused() || hints.deliveries.get() >= hints.options().deliveries_max {
            return;
        }
        let is_there = node(&topology, host_id).is_some_and(|at| topology.live().contains(at));
        if is_there && hints.begin_delivery(host_id) {
            let shard = shard.clone();
            runtime::spawn_in(Class::Streaming, async move {
                let Some(_pass) = shard.hints().gate.enter() else { return };
                let stopped = shard.hints().stopping();
                if let Either::Right(()) = race(deliver(&shard, host_id, host_id), stopped).await {
                    tracing::info!("Paused hints dispatch");
                }
                shard.hints().end_delivery(host_id);
            });
        }
    }
}

/// Hands all hints of this core to the node `to`, which keeps them. Returns whether it has all of them.
pub(crate) async fn hand_on(shard: &Shard, to: Uuid) -> bool {
    let mut is_done = true;
    for host_id in shard.hints().hosts().into_iter().filter(|host_id| *host_id != to) {
        is_done &= deliver(shard, host_id, to).await;
    }
    is_done
}

/// Sends the hints for the node `missed_by` to the node `to`. Returns whether there are none left.
async fn deliver(shard: &Shard, missed_by: Uuid, to: Uuid) -> bool {
    files::flush_and_close(shard, missed_by).await;
    let throttle = Throttle::default();
    while let Some(file) = shard.hints().first_closed(missed_by) {
        let delivery = Delivery { shard, file, to, throttle: &throttle, sent: VecDeque::new(), sent_bytes: 0 };
        if !delivery.run().await {
            return false;
        }
    }
    true
}

/// The position of a node.
fn node(topology: &Topology, host_id: Uuid) -> Option<NodeIndex> {
    let at = topology.nodes().iter().position(|node| node.host_id == host_id)?;
    Some(NodeIndex(at as u16))
}

/// The delivery of one file.
struct Delivery<'s> {
    shard: &'s Shard,
    file: ClosedFile,
    to: Uuid,
    throttle: &'s Throttle,
    /// Hints without an answer, in their order.
    sent: VecDeque<Sent>,
    sent_bytes: usize,
}

/// A hint that was sent.
struct Sent {
    /// Where the next record begins.
    ends: u64,
    bytes: usize,
    written_at: i64,
    mutation: Mutation,
    table: Arc<Table>,
    /// `None` if the node is known not to have the partition.
    call: Option<PeerCall>,
}

impl Delivery<'_> {
    /// Sends what is left of the file. Returns whether it was sent whole and deleted.
    async fn run(mut self) -> bool {
        let (shard, name) = (self.shard, self.file.name);
        let path = shard.hints().directory.join(name.to_string());
        let mut reader = match HintReader::open(&path).await {
            Ok(reader) => reader,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                shard.hints().counts.damaged.increment();
                tracing::error!("hint file {name} cannot be read and is left where it is: {error}");
                shard.hints().remove(name);
                return true;
            }
            Err(error) => {
                tracing::warn!(%error, "hint file {name} is not read");
                return false;
            }
        };
        reader.seek(self.file.position);
        loop {
            if !self.may_go_on() {
                return false;
            }
            match reader.next().await {
                Ok(Next::Hint(hint)) => {
                    let bytes = RECORD_HEADER_BYTES + hint.mutation.len();
                    let sent = self.send(&hint);
                    let Some(sent) = sent.map(|sent| Sent { ends: reader.position(), bytes, ..sent }) else { continue };
                    self.sent.push_back(sent);
                    self.sent_bytes += bytes;
                    self.throttle.set(rate(shard));
                    self.throttle.read(bytes as u64, &shard.hints().gate).await;
                }
                Ok(Next::Damaged { offset }) => {
                    shard.hints().counts.damaged.increment();
                    tracing::warn!("hint file {name} is damaged at byte {offset}: what is unreadable is skipped");
                }
                Ok(Next::End) => break,
                Err(error) => {
                    tracing::warn!(%error, "hint file {name} is not read");
                    return false;
                }
            }
            while self.sent.len() >= SENT_MAX || self.sent.len() > 1 && self.sent_bytes > SENT_BYTES_MAX {
                if !self.take_answer().await {
                    return false;
                }
            }
        }
        while !self.sent.is_empty() {
            if !self.take_answer().await {
                return false;
            }
        }
        if let Err(error) = files::delete_closed(shard, name).await {
            tracing::warn!(%error, "hint file {name} is not deleted");
        }
        shard.hints().counts.files_delivered.increment();
        let topology = shard.topology();
        if let Some(at) = node(&topology, self.to) {
            let address = topology.node(at).address;
            tracing::info!("Finished hinted handoff of file {name} to endpoint /{address}: {}", self.to);
        }
        true
    }

    /// Whether the node is alive and hints are to be delivered.
    fn may_go_on(&self) -> bool {
        let (hints, topology) = (self.shard.hints(), self.shard.topology());
        let is_live = node(&topology, self.to).is_some_and(|at| topology.live().contains(at));
        let is_paused = hints.is_paused() && self.to == self.file.name.host_id;
        is_live && !is_paused && hints.has(self.file.name)
    }

    /// Sends a hint; `None` if it is dropped.
    fn send(&self, hint: &Hint<'_>) -> Option<Sent> {
        let (shard, counts) = (self.shard, &self.shard.hints().counts);
        let Ok(mutation) = Mutation::decode(shard.partitioner(), hint.mutation.to_vec()) else {
            counts.damaged.increment();
            return None;
        };
        let schema = shard.schema();
        let is_void = |table| shard.truncations().covers(table, hint.written_at);
        let Some(mutation) = mutation.of_tables(|id| schema.table_by_id(id).is_some() && !is_void(id)) else {
            counts.void.increment();
            return None;
        };
        let grace = gc_grace_seconds(&schema, mutation.bytes())?.min(hint.gc_grace_seconds);
        if is_expired(hint.written_at, grace, runtime::wall_micros()) {
            counts.expired.increment();
            return None;
        }
        let table = schema.table_by_id(mutation.updates().next()?.table)?.clone();
        let placement = shard.placement_of(&table).ok()?;
        let topology = placement.keyspace().topology().clone();
        let missed_by = self.file.name.host_id;
        let has_it = |node: &Node| node.host_id == missed_by;
        let mut replicas = placement.replicas(mutation.token(), mutation.key()).written();
        let is_owner = replicas.any(|replica| has_it(topology.node(replica.node)));
        let to = node(&topology, self.to).filter(|_| is_owner || self.to != missed_by);
        let call = to.map(|to| {
            let mut body = Head { epoch: topology.epoch() }.body(hints::HINT_HEAD_BYTES + mutation.bytes().len());
            hints::push(&mut body, missed_by, &Hint { mutation: mutation.bytes(), ..*hint });
            let deadline = runtime::now().after(shard.timeouts().write);
            shard.peers().call(topology.node(to), PeerLane::Bulk, Verb::Hint, &body, deadline)
        });
        Some(Sent { ends: 0, bytes: 0, written_at: hint.written_at, mutation, table, call })
    }

    /// Waits for the answer to the first hint that was sent. Returns whether it is done with.
    async fn take_answer(&mut self) -> bool {
        let Some(sent) = self.sent.pop_front() else { return true };
        self.sent_bytes -= sent.bytes;
        let answer = match sent.call {
            Some(call) => acknowledgement(Verb::Hint, call.await),
            None => Err(Refusal::Moved(0)),
        };
        let taken = match answer {
            Err(Refusal::Moved(epoch)) => {
                let reached = self.shard.epoch_reached(epoch);
                runtime::timeout(self.shard.timeouts().write, reached).await;
                let written = replication::write_missed(self.shard, sent.mutation, sent.table, sent.written_at);
                Box::pin(written).await
            }
            Err(Refusal::UnknownTable(table)) if self.shard.schema_ref().table_by_id(table).is_none() => Ok(()),
            Err(refusal) => Err(failure_of(Verb::Hint, refusal)),
            Ok(()) => Ok(()),
        };
        match taken {
            Ok(()) => {
                self.shard.hints().counts.delivered.increment();
                self.shard.hints().delivered_to(self.file.name, sent.ends);
                true
            }
            Err(failure) => {
                tracing::debug!(%failure, "a hint of {} is sent again later", self.file.name);
                false
            }
        }
    }
}

/// The bytes per second that a core may send to one node.
fn rate(shard: &Shard) -> u64 {
    let others = shard.topology().nodes().len().saturating_sub(1).max(1) as u64;
    let throttle = shard.hints().options().throttle_bytes;
    throttle.div_ceil(others * runtime::shard_count() as u64)
}

/// Whether tombstones that a hint needs may be gone at the time `now`; times in microseconds since 1970.
fn is_expired(written_at: i64, gc_grace_seconds: u32, now: i64) -> bool {
    now >= written_at.saturating_add(i64::from(gc_grace_seconds) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_live_as_long_as_tombstones() {
        assert!(!is_expired(5, 2, 2_000_004) && is_expired(5, 2, 2_000_005));
        assert!(is_expired(5, 0, 5) && !is_expired(5, 0, 4));
        assert!(!is_expired(i64::MAX - 1, u32::MAX, i64::MAX - 1));
    }
}
