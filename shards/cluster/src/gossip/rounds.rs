//! What a node does every second.

use super::clock::Clocks;
use super::event::{Event, Removal};
use super::failure_detector::Conviction;
use super::gossiper::Gossiper;
use super::message::{Body, Digest, Message};
use std::net::SocketAddr;
use std::time::Duration;

impl Gossiper {
    /// A round, to be called once a second: a heartbeat of this node, SYNs to others, and the conviction of silent
    /// nodes. `random` gives uniformly distributed numbers. Returns messages and where to send them.
    pub fn tick(&mut self, now: Clocks, random: &mut impl FnMut() -> u64) -> Vec<(SocketAddr, Message)> {
        self.beat();
        let targets = self.targets(random);
        let out = self.syns(now, targets);
        self.convict(now);
        self.expire(now);
        out
    }

    /// SYNs to some nodes, this one left out, between rounds: so that what is new about one need not wait until chance
    /// chooses it.
    pub fn greet(&self, now: Clocks, mut nodes: Vec<SocketAddr>) -> Vec<(SocketAddr, Message)> {
        nodes.retain(|address| *address != self.address());
        self.syns(now, nodes)
    }

    fn syns(&self, now: Clocks, targets: Vec<SocketAddr>) -> Vec<(SocketAddr, Message)> {
        if targets.is_empty() {
            return Vec::new();
        }
        let body = Body::Syn {
            cluster_name: self.options.cluster_name.clone(),
            partitioner: self.options.partitioner.clone(),
            digests: self.digests(),
        };
        let message = Message::new(now, Duration::ZERO, body);
        targets.into_iter().map(|target| (target, message.clone())).collect()
    }

    /// One live node; a dead one with a probability that grows with their share; a seed if the live one was none, or if
    /// fewer nodes live than there are seeds.
    fn targets(&self, random: &mut impl FnMut() -> u64) -> Vec<SocketAddr> {
        let live: Vec<SocketAddr> = self.live().collect();
        let unreachable =
            self.endpoints.iter().filter(|(_, endpoint)| !endpoint.is_alive && !endpoint.state.has_left());
        let unreachable: Vec<SocketAddr> = unreachable.map(|(address, _)| *address).collect();
        let seeds: Vec<SocketAddr> = self.seeds().collect();
        let mut out = Vec::from_iter(pick(&live, random));
        let is_seed = out.iter().any(|address| seeds.contains(address));
        if chance(unreachable.len(), live.len() + 1, random) {
            out.extend(pick(&unreachable, random));
        }
        let needs_seed = !is_seed || live.len() < seeds.len();
        if needs_seed && (live.is_empty() || chance(seeds.len(), live.len() + unreachable.len(), random)) {
            out.extend(pick(&seeds, random).filter(|seed| !out.contains(seed)));
        }
        out
    }

    /// Digests of all states.
    fn digests(&self) -> Vec<Digest> {
        let digest = |(address, state): (SocketAddr, &super::EndpointState)| Digest {
            address,
            generation: state.generation,
            version: state.version(),
        };
        self.states().map(digest).collect()
    }

    fn convict(&mut self, now: Clocks) {
        let allowed = match self.pauses.round(now.monotonic) {
            Conviction::Allowed => true,
            Conviction::Paused(pause) => {
                self.events.push(Event::LocalPause(pause));
                false
            }
            Conviction::Suspended => false,
        };
        let mut silent = Vec::new();
        for (address, endpoint) in &mut self.endpoints {
            endpoint.phi = endpoint.arrivals.phi(now.monotonic);
            if allowed && endpoint.is_alive && endpoint.phi > self.options.phi_convict_threshold {
                silent.push(*address);
            }
        }
        silent.into_iter().for_each(|address| self.mark_dead(address, now));
    }

    /// Forgets nodes that are no members and are silent, or have left long ago.
    fn expire(&mut self, now: Clocks) {
        let mut removals = Vec::new();
        for (address, endpoint) in &self.endpoints {
            let silent = now.monotonic.saturating_sub(endpoint.updated);
            if self.members.contains(address) {
                continue;
            }
            if endpoint.state.has_left() {
                if !endpoint.is_alive && endpoint.state.expiry().is_some_and(|expiry| now.wall / 1000 > expiry) {
                    removals.push((*address, Removal::Expired));
                }
            } else if silent > self.options.ring_delay && !self.quarantine.contains_key(address) {
                removals.push((*address, Removal::Silent(self.options.ring_delay)));
            }
        }
        for (address, reason) in removals {
            self.remove(address, now, reason);
        }
        let over = self.options.ring_delay * 2;
        self.quarantine.retain(|_, since| now.monotonic.saturating_sub(*since) <= over);
    }
}

fn pick(among: &[SocketAddr], random: &mut impl FnMut() -> u64) -> Option<SocketAddr> {
    (!among.is_empty()).then(|| among[below(among.len(), random)])
}

fn below(count: usize, random: &mut impl FnMut() -> u64) -> usize {
    ((u128::from(random()) * count as u128) >> 64) as usize
}

/// True with a probability of `of` / `all`, at most 1.
fn chance(of: usize, all: usize, random: &mut impl FnMut() -> u64) -> bool {
    of > 0 && (of >= all || below(all, random) < of)
}
