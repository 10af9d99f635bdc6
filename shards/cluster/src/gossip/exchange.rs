//! What a node makes of the messages that it receives.

use super::clock::{ClockOffset, Clocks, SKEW_REPORTED};
use super::endpoint::Endpoint;
use super::event::Event;
use super::failure_detector::ArrivalWindow;
use super::gossiper::{ENDPOINTS_MAX, Gossiper};
use super::message::{ACK_BYTES, Body, Digest, MESSAGE_BYTES_MAX, Message, StateUpdate, digest_bytes, state_bytes};
use super::state::{ApplicationState, EndpointState, STATE_BYTES_MAX, VersionedValue};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// How far a generation may lie ahead of this node's clock, in seconds: a year.
const GENERATION_AHEAD_MAX: u64 = 365 * 24 * 3600;

impl Gossiper {
    /// Takes a message of the node at `from`, the address where others reach it. Returns messages and where to send
    /// them.
    pub fn received(&mut self, now: Clocks, from: SocketAddr, message: Message) -> Vec<(SocketAddr, Message)> {
        let Message { sent, answers, wall, body } = message;
        if from == self.options.address {
            return Vec::new();
        }
        if answers != Duration::ZERO {
            self.compare_clocks(now, from, answers, wall);
        }
        let mut out = Vec::new();
        let mut heard_of = Vec::new();
        match body {
            Body::Syn { cluster_name, partitioner, digests } => {
                if cluster_name != self.options.cluster_name {
                    self.events.push(Event::ClusterNameMismatch { from, theirs: cluster_name });
                } else if partitioner != self.options.partitioner {
                    self.events.push(Event::PartitionerMismatch { from, theirs: partitioner });
                } else {
                    let (wanted, states) = self.compare(&digests);
                    out.push((from, Message::new(now, sent, Body::Ack { wanted, states })));
                }
            }
            Body::Ack { wanted, states } => {
                heard_of = self.apply(now, states);
                if !wanted.is_empty() {
                    let states = self.answers_to(&wanted);
                    out.push((from, Message::new(now, sent, Body::Ack2 { states })));
                }
            }
            Body::Ack2 { states } => heard_of = self.apply(now, states),
            Body::Echo => {
                let body = Body::EchoReply { generation: self.own.generation };
                out.push((from, Message::new(now, sent, body)));
            }
            Body::EchoReply { generation } => self.echoed(now, from, answers, generation),
            Body::Shutdown { state } if state.address == from => heard_of = self.apply(now, vec![state]),
            Body::Shutdown { .. } => {}
        }
        for address in heard_of {
            let Some(endpoint) = self.endpoints.get_mut(&address) else { continue };
            if endpoint.wants_echo(now.monotonic) {
                endpoint.echo_sent = Some(now.monotonic);
                out.push((address, Message::new(now, Duration::ZERO, Body::Echo)));
            }
        }
        out
    }

    /// What the sender of the digests wants to know, and what this node wants to know of it.
    fn compare(&self, digests: &[Digest]) -> (Vec<Digest>, Vec<StateUpdate>) {
        let mut wanted = Vec::new();
        // Versions that the sender lacks, address, the version that it has.
        let mut newer = Vec::new();
        for digest in digests {
            let known = self.state(digest.address);
            let all = Digest { version: 0, ..*digest };
            match known {
                None if self.quarantine.contains_key(&digest.address) => {}
                None => wanted.push(all),
                Some(state) if digest.generation > state.generation => wanted.push(all),
                Some(state) if digest.generation < state.generation => {
                    newer.push((state.version(), digest.address, 0));
                }
                Some(state) => {
                    let version = state.version();
                    if digest.version > version {
                        wanted.push(Digest { version, ..*digest });
                    } else if digest.version < version {
                        newer.push((version - digest.version, digest.address, digest.version));
                    }
                }
            }
        }
        let named: BTreeSet<SocketAddr> = digests.iter().map(|digest| digest.address).collect();
        let unnamed = self.states().filter(|(address, _)| !named.contains(address));
        newer.extend(unnamed.map(|(address, state)| (state.version(), address, 0)));
        let budget = MESSAGE_BYTES_MAX - ACK_BYTES - wanted.iter().map(|w| digest_bytes(w.address)).sum::<usize>();
        let states = self.updates(newer, budget);
        (wanted, states)
    }

    /// What the sender of an ACK wants to know.
    fn answers_to(&self, wanted: &[Digest]) -> Vec<StateUpdate> {
        let newer = wanted.iter().filter_map(|digest| {
            let state = self.state(digest.address)?;
            let base = if digest.generation == state.generation { digest.version } else { 0 };
            (state.version() > base).then(|| (state.version() - base, digest.address, base))
        });
        self.updates(newer.collect(), MESSAGE_BYTES_MAX - ACK_BYTES)
    }

    /// The states above given versions; those that changed most first, as many as fit.
    fn updates(&self, mut newer: Vec<(u32, SocketAddr, u32)>, budget: usize) -> Vec<StateUpdate> {
        newer.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        newer.dedup_by_key(|(_, address, _)| *address);
        let mut left = budget;
        let update = |(_, address, base): (u32, SocketAddr, u32)| {
            let state = self.state(address)?.newer_than(base);
            left = left.checked_sub(state_bytes(address, &state))?;
            Some(StateUpdate { address, base, state })
        };
        newer.into_iter().map_while(update).collect()
    }

    /// Takes states. Returns the nodes with a later heartbeat than was known.
    fn apply(&mut self, now: Clocks, updates: Vec<StateUpdate>) -> Vec<SocketAddr> {
        let mut later = Vec::new();
        for update in updates {
            let address = update.address;
            let generation = update.state.generation;
            if u64::from(generation) > now.seconds() + GENERATION_AHEAD_MAX {
                self.events.push(Event::InvalidGeneration { address, generation });
                continue;
            }
            if address == self.options.address {
                self.heard_of_itself(&update.state);
                continue;
            }
            let is_later = match self.endpoints.get(&address).map(|endpoint| endpoint.state.generation) {
                Some(known) if generation == known => self.apply_same_generation(update, now),
                Some(known) if generation < known => false,
                None if self.quarantine.contains_key(&address) => false,
                _ => update.base == 0 && self.apply_newer_generation(update, now),
            };
            if is_later {
                later.push(address);
            }
        }
        later
    }

    /// A state that begins a generation. Returns false if there is no room for the node.
    pub(super) fn apply_newer_generation(&mut self, update: StateUpdate, now: Clocks) -> bool {
        let StateUpdate { address, state, .. } = update;
        let has_left = state.has_left();
        let is_full = self.endpoints.len() >= ENDPOINTS_MAX - 1;
        match self.endpoints.get_mut(&address) {
            Some(endpoint) => {
                let had_left = endpoint.state.has_left();
                if endpoint.is_alive {
                    endpoint.arrivals.report(now.monotonic);
                } else {
                    endpoint.arrivals = ArrivalWindow::new(now.monotonic);
                }
                let numbers: Vec<_> = state.values().iter().map(|(state, _)| *state).collect();
                endpoint.state = state;
                endpoint.updated = now.monotonic;
                if endpoint.state.is_dead_state() {
                    self.mark_dead(address, now);
                } else {
                    endpoint.is_alive = false;
                    endpoint.echo_sent = None;
                    endpoint.dead_since = now.monotonic;
                    self.events.push(Event::Restarted(address));
                }
                self.events.extend(numbers.into_iter().map(|state| Event::Changed { address, state }));
                if has_left && !had_left {
                    self.events.push(Event::Left(address));
                }
            }
            None if is_full => return false,
            None => {
                self.endpoints.insert(address, Endpoint::new(state, now.monotonic));
                self.events.push(Event::Discovered(address));
                if has_left {
                    self.events.push(Event::Left(address));
                }
            }
        }
        true
    }

    /// What is newer of a generation that is known. Returns whether the heartbeat is.
    fn apply_same_generation(&mut self, update: StateUpdate, now: Clocks) -> bool {
        let StateUpdate { address, base, state } = update;
        let Some(endpoint) = self.endpoints.get_mut(&address) else { return false };
        let known = endpoint.state.version();
        // Values between the two versions would be lost for good.
        if base > known || state.version() <= known {
            return false;
        }
        let mut merged = endpoint.state.clone();
        merged.heartbeat = merged.heartbeat.max(state.heartbeat);
        let is_new = |(number, value): &&(ApplicationState, VersionedValue)| merged.replace(*number, value.clone());
        let changed: Vec<ApplicationState> = state.values().iter().filter(is_new).map(|(number, _)| *number).collect();
        // Each part of it was short enough, and a whole that is not could never be handed on.
        if state_bytes(address, &merged) > STATE_BYTES_MAX {
            return false;
        }
        let is_later = state.heartbeat > known;
        if is_later {
            endpoint.arrivals.report(now.monotonic);
            endpoint.updated = now.monotonic;
        }
        let had_left = endpoint.state.has_left();
        endpoint.state = merged;
        self.events.extend(changed.into_iter().map(|state| Event::Changed { address, state }));
        let has_left = endpoint.state.has_left();
        if endpoint.state.is_shut_down() {
            self.mark_dead(address, now);
        } else if has_left && !had_left {
            self.events.push(Event::Left(address));
        }
        is_later
    }

    /// Others have a state of this node that is newer than its own: one of an earlier run whose generation was higher,
    /// or one that another node has ended.
    fn heard_of_itself(&mut self, state: &EndpointState) {
        let is_newer = (state.generation, state.version()) > (self.own.generation, self.own.version());
        if !is_newer || self.own.is_dead_state() {
            return;
        }
        if state.has_left() {
            self.events.push(Event::Expelled);
            return;
        }
        let generation = state.generation.saturating_add(1);
        self.restart(generation);
        self.events.push(Event::GenerationRaised(generation));
    }

    fn echoed(&mut self, now: Clocks, from: SocketAddr, asked: Duration, generation: u32) {
        let Some(endpoint) = self.endpoints.get_mut(&from) else { return };
        let is_expected = asked >= endpoint.dead_since && endpoint.state.generation == generation;
        if is_expected && !endpoint.is_alive && !endpoint.state.is_dead_state() {
            endpoint.echo_sent = None;
            endpoint.is_alive = true;
            endpoint.updated = now.monotonic;
            self.events.push(Event::Up(from));
        }
    }

    fn compare_clocks(&mut self, now: Clocks, from: SocketAddr, asked: Duration, their_wall: i64) {
        let Some(endpoint) = self.endpoints.get_mut(&from) else { return };
        let Some(offset) = ClockOffset::measured(now, asked, their_wall) else { return };
        endpoint.clock = Some(offset);
        let is_skewed = offset.exceeds(SKEW_REPORTED);
        if is_skewed != std::mem::replace(&mut endpoint.is_skewed, is_skewed) {
            self.events.push(if is_skewed {
                Event::ClockSkewed { address: from, offset }
            } else {
                Event::ClockAgrees(from)
            });
        }
    }
}
