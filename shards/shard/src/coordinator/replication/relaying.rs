//! Writes to other data centres, through one replica of each.

use super::{Call, Replication};
use crate::coordinator::remote::Asked;
use crate::peer::head::Head;
use crate::peer::relays::{Relayed, push_relay, relay_head_bytes};
use crate::shard_state::relayed_writes::RelayedAnswer;
use crate::verbs::Verb;
use cluster::placement::Replica;
use cluster::plan::Relay;
use smallvec::SmallVec;

impl Replication {
    /// Sends the mutation to replicas in other data centres, through one of each.
    pub(super) fn send_far(&mut self, far: &[Replica]) {
        let topology = self.planned.topology.clone();
        for relay in Relay::all(far, &topology, runtime::rng::u64()) {
            let (here, relayed) = (self.shard.id(), self.shard.relayed_writes());
            let begin = |_: &Replica| relayed.begin(here, self.deadline);
            let awaited: Option<SmallVec<[RelayedAnswer; 2]>> = relay.others.iter().map(begin).collect();
            match awaited.filter(|awaited| !awaited.is_empty()) {
                Some(awaited) => self.send_through(relay, awaited),
                None => relay.others.iter().chain([&relay.first]).for_each(|replica| self.ask(*replica)),
            }
        }
    }

    /// Sends the mutation to a replica that passes it on to others, whose answers are awaited.
    fn send_through(&mut self, relay: Relay, awaited: SmallVec<[RelayedAnswer; 2]>) {
        let topology = &self.planned.topology;
        let host_id = |replica: Replica| topology.node(replica.node).host_id;
        let others = relay.others.iter().zip(&awaited);
        let others: SmallVec<[Relayed; 2]> =
            others.map(|(other, awaited)| (host_id(*other), awaited.number())).collect();
        let mutation = &self.body[self.mutation_at..];
        let mut body = Head { epoch: topology.epoch() }.body(relay_head_bytes(others.len()) + mutation.len());
        push_relay(&mut body, self.shard.host_id(), &others);
        body.extend_from_slice(mutation);
        let asked = Asked::until(topology, relay.first.node, self.deadline);
        let call = asked.call(&self.shard, Verb::MutationRelay, &body);
        self.calls.push((relay.first, Call::Elsewhere(call)));
        for (other, awaited) in relay.others.iter().zip(awaited) {
            self.calls.push((*other, Call::Elsewhere(Box::pin(awaited))));
        }
        self.relays.push(relay);
    }

    /// Sends the mutation to the replicas to which one was to pass it on that has failed, while there is time.
    pub(super) fn send_past(&mut self, failed: Replica) {
        let Some(at) = self.relays.iter().position(|relay| relay.first == failed) else { return };
        let relay = self.relays.swap_remove(at);
        if runtime::now() >= self.deadline {
            return;
        }
        for other in relay.others {
            if let Some(at) = self.calls.iter().position(|(replica, _)| *replica == other) {
                self.calls.swap_remove(at);
                self.ask(other);
            }
        }
    }

    fn ask(&mut self, replica: Replica) {
        let call = self.call(replica);
        self.calls.push((replica, call));
    }
}
