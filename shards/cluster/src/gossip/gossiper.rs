//! One node's view of all others.

use super::clock::{ClockOffset, Clocks};
use super::endpoint::Endpoint;
use super::event::{Event, Removal};
use super::failure_detector::PauseGuard;
use super::message::{Body, Message, StateUpdate, state_bytes};
use super::state::{
    ApplicationState, EndpointState, SHUTDOWN_HEARTBEAT, STATE_BYTES_MAX, VALUE_BYTES_MAX, VersionedValue,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Nodes that are remembered, dead and alive; states of more are ignored.
pub const ENDPOINTS_MAX: usize = 4096;
/// How long a node that has left is remembered: 3 days, in milliseconds.
const LEFT_REMEMBERED_MILLIS: i64 = 3 * 24 * 3600 * 1000;
/// The heartbeat of a state that another node has ended.
const ASSASSINATED_HEARTBEAT: u32 = 9999;

/// How a node ceased to be a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// It has left by itself.
    Left,
    /// Others have removed it.
    Removed,
}

/// What a node must know to gossip.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Nodes of clusters with other names are not answered.
    pub cluster_name: String,
    /// Cassandra's full class name.
    pub partitioner: String,
    /// Where other nodes reach this one (`broadcast_address`, `storage_port`).
    pub address: SocketAddr,
    /// Where clusters are found; this node's own address may be among them.
    pub seeds: Vec<SocketAddr>,
    /// A node whose phi is greater is taken for dead.
    pub phi_convict_threshold: f64,
    /// `cassandra.ring_delay_ms`: a node that is no member and silent for this long is forgotten, and what was
    /// forgotten is not learnt again for twice as long.
    pub ring_delay: Duration,
    /// From [`Gossiper::next_generation`].
    pub generation: u32,
}

/// Gossip as one node takes part in it: times and messages in, messages and events out.
#[derive(Debug)]
pub struct Gossiper {
    pub(super) options: Options,
    pub(super) own: EndpointState,
    /// The highest version given.
    version: u32,
    pub(super) endpoints: BTreeMap<SocketAddr, Endpoint>,
    /// Nodes that own or are about to own tokens.
    pub(super) members: BTreeSet<SocketAddr>,
    /// When nodes were forgotten.
    pub(super) quarantine: BTreeMap<SocketAddr, Duration>,
    pub(super) pauses: PauseGuard,
    pub(super) events: Vec<Event>,
}

impl Gossiper {
    /// A node that knows nobody yet.
    pub fn new(options: Options, now: Clocks) -> Gossiper {
        Gossiper {
            own: EndpointState::new(options.generation, 0),
            version: 0,
            endpoints: BTreeMap::new(),
            members: BTreeSet::new(),
            quarantine: BTreeMap::new(),
            pauses: PauseGuard::new(now.monotonic),
            events: Vec::new(),
            options,
        }
    }

    /// The generation of a start: the seconds of the wall clock, or more if `stored`, that of the last start, is not
    /// less.
    pub fn next_generation(wall_seconds: u64, stored: Option<u32>) -> u32 {
        let of_clock = u32::try_from(wall_seconds).unwrap_or(u32::MAX);
        of_clock.max(stored.map_or(0, |stored| stored.saturating_add(1)))
    }

    /// Begins a new generation with the values of the last one, as after a pause of gossip that the others took for the
    /// node's end. A status of `shutdown` among them is to be set anew before the next round.
    pub fn restart(&mut self, generation: u32) {
        let last = std::mem::replace(&mut self.own, EndpointState::new(generation, 0));
        self.version = 0;
        for (state, value) in last.values() {
            let version = self.next_version();
            self.own.replace(*state, VersionedValue { version, value: value.value.clone() });
        }
        self.beat();
    }

    /// Sets a value of this node. Returns false if it is too long.
    pub fn set(&mut self, state: ApplicationState, value: &str) -> bool {
        if self.own.value(state) == Some(value) {
            return true;
        }
        if value.len() > VALUE_BYTES_MAX {
            return false;
        }
        let mut changed = self.own.clone();
        changed.replace(state, VersionedValue { version: self.version + 1, value: value.into() });
        if state_bytes(self.options.address, &changed) > STATE_BYTES_MAX {
            return false;
        }
        self.next_version();
        self.own = changed;
        true
    }

    /// What has happened since the last call, in order.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The address of this node.
    pub fn address(&self) -> SocketAddr {
        self.options.address
    }

    /// What this node says about itself.
    pub fn own(&self) -> &EndpointState {
        &self.own
    }

    /// What is known of a node, itself included.
    pub fn state(&self, address: SocketAddr) -> Option<&EndpointState> {
        if address == self.options.address {
            return Some(&self.own);
        }
        self.endpoints.get(&address).map(|endpoint| &endpoint.state)
    }

    /// All nodes that are known, this one first, the others by address.
    pub fn states(&self) -> impl Iterator<Item = (SocketAddr, &EndpointState)> {
        let others = self.endpoints.iter().map(|(address, endpoint)| (*address, &endpoint.state));
        std::iter::once((self.options.address, &self.own)).chain(others)
    }

    /// Whether a node is believed to live; this one always does.
    pub fn is_alive(&self, address: SocketAddr) -> bool {
        address == self.options.address || self.endpoints.get(&address).is_some_and(|endpoint| endpoint.is_alive)
    }

    /// phi of every other node at the last round.
    pub fn phis(&self) -> impl Iterator<Item = (SocketAddr, f64)> {
        self.endpoints.iter().map(|(address, endpoint)| (*address, endpoint.phi))
    }

    /// How the clock of a node differed from this one's when it was last compared.
    pub fn clock_offset(&self, address: SocketAddr) -> Option<ClockOffset> {
        self.endpoints.get(&address)?.clock
    }

    /// The live node whose clock differs most among those that differ by more than `limit` (`clock_skew_max`).
    pub fn clock_beyond(&self, limit: Duration) -> Option<(SocketAddr, ClockOffset)> {
        let offsets = self.endpoints.iter().filter(|(_, endpoint)| endpoint.is_alive);
        let offsets = offsets.filter_map(|(address, endpoint)| Some((*address, endpoint.clock?)));
        offsets.filter(|(_, offset)| offset.exceeds(limit)).max_by_key(|(_, offset)| offset.micros.unsigned_abs())
    }

    /// The seeds, without this node.
    pub fn seeds(&self) -> impl Iterator<Item = SocketAddr> {
        self.options.seeds.iter().copied().filter(|seed| *seed != self.options.address)
    }

    /// Replaces the seeds.
    pub fn set_seeds(&mut self, seeds: Vec<SocketAddr>) {
        self.options.seeds = seeds;
    }

    /// Replaces `phi_convict_threshold`.
    pub fn set_phi_convict_threshold(&mut self, threshold: f64) {
        self.options.phi_convict_threshold = threshold;
    }

    /// Says which nodes are members of the cluster: those are learnt of at once, and
    /// remembered however long they are silent. A dead node that is no member any more is forgotten, and for a
    /// while not learnt of again from others, unless it had left.
    pub fn set_members(&mut self, members: impl IntoIterator<Item = SocketAddr>, now: Clocks) {
        let before = std::mem::replace(&mut self.members, members.into_iter().collect());
        let gone: Vec<SocketAddr> = before.difference(&self.members).copied().collect();
        for address in gone {
            let is_removed = |endpoint: &Endpoint| !endpoint.is_alive && !endpoint.state.has_left();
            if self.endpoints.get(&address).is_some_and(is_removed) {
                self.remove(address, now, Removal::NoMember);
            }
        }
        self.quarantine.retain(|address, _| !self.members.contains(address));
    }

    /// Ends a node's state for all: `LEFT`, in a generation above its last one. An address that nobody knows gets a
    /// state as well. `token` is one of its tokens, as text.
    pub fn assassinate(&mut self, address: SocketAddr, token: &str, now: Clocks) {
        if address == self.options.address {
            return;
        }
        let last = self.endpoints.get(&address).map(|endpoint| endpoint.state.clone());
        let generation = last.as_ref().map_or(now.seconds() as u32, |state| state.generation);
        let mut state = last.unwrap_or_else(|| EndpointState::new(generation, 0));
        state.generation = generation.saturating_add(1);
        state.heartbeat = ASSASSINATED_HEARTBEAT;
        let expiry = now.wall / 1000 + LEFT_REMEMBERED_MILLIS;
        let version = state.version() + 1;
        let value = format!("LEFT,{token},{expiry}").into();
        state.replace(ApplicationState::STATUS_WITH_PORT, VersionedValue { version, value });
        self.apply_newer_generation(StateUpdate { address, base: 0, state }, now);
    }

    /// The value of STATUS_WITH_PORT of a node that leaves the ring now.
    pub fn left_status(token: &str, now: Clocks) -> String {
        format!("LEFT,{token},{}", now.wall / 1000 + LEFT_REMEMBERED_MILLIS)
    }

    /// Takes note that a node is no member any more. Every member does so for itself when it hears of it, because no
    /// other listens to the node from then on. A node that has left by itself may go on for a while, and is down once
    /// it is convicted; one that others have removed is down at once.
    pub fn mark_gone(&mut self, address: SocketAddr, departure: Departure, now: Clocks) {
        let Some(endpoint) = self.endpoints.get_mut(&address) else { return };
        let state = &mut endpoint.state;
        if state.has_left() {
            return;
        }
        let own_word = state.value(ApplicationState::STATUS_WITH_PORT).unwrap_or_default();
        let value = match own_word.split_once(',') {
            Some((_, token)) if endpoint.is_alive && departure == Departure::Left => Self::left_status(token, now),
            _ => {
                let host_id = state.value(ApplicationState::HOST_ID).unwrap_or_default();
                format!("removed,{host_id},{}", now.wall / 1000 + LEFT_REMEMBERED_MILLIS)
            }
        };
        // Nothing lies above the heartbeat of a node that has said that it stops.
        let version = state.version().saturating_add(1).min(SHUTDOWN_HEARTBEAT);
        state.replace(ApplicationState::STATUS_WITH_PORT, VersionedValue { version, value: value.into() });
        if departure == Departure::Removed {
            self.mark_dead(address, now);
        }
        self.events.push(Event::Left(address));
    }

    /// Takes a node for dead now. It is up again when it answers.
    pub fn convict_now(&mut self, address: SocketAddr, now: Clocks) {
        self.mark_dead(address, now);
    }

    /// This node stops: what it says to every other that lives.
    pub fn shutdown(&mut self, now: Clocks) -> Vec<(SocketAddr, Message)> {
        if !self.own.has_left() {
            self.set(ApplicationState::STATUS_WITH_PORT, "shutdown,true");
        }
        self.set(ApplicationState::RPC_READY, "false");
        self.own.heartbeat = SHUTDOWN_HEARTBEAT;
        let state = StateUpdate { address: self.options.address, base: 0, state: self.own.clone() };
        let message = Message::new(now, Duration::ZERO, Body::Shutdown { state });
        self.live().map(|address| (address, message.clone())).collect()
    }

    /// The other nodes that live.
    pub fn live(&self) -> impl Iterator<Item = SocketAddr> {
        self.endpoints.iter().filter(|(_, endpoint)| endpoint.is_alive).map(|(address, _)| *address)
    }

    /// A heartbeat of this node.
    pub(super) fn beat(&mut self) {
        self.own.heartbeat = self.next_version();
    }

    /// Marks a node dead.
    pub(super) fn mark_dead(&mut self, address: SocketAddr, now: Clocks) {
        if let Some(endpoint) = self.endpoints.get_mut(&address) {
            endpoint.echo_sent = None;
            endpoint.dead_since = now.monotonic;
            if std::mem::take(&mut endpoint.is_alive) {
                self.events.push(Event::Down(address));
            }
        }
    }

    pub(super) fn remove(&mut self, address: SocketAddr, now: Clocks, reason: Removal) {
        self.mark_dead(address, now);
        if self.endpoints.remove(&address).is_some() {
            self.events.push(Event::Removed { address, reason });
        }
        self.quarantine.insert(address, now.monotonic);
    }

    fn next_version(&mut self) -> u32 {
        // A heartbeat a second reaches the limit after 68 years.
        self.version = (self.version + 1).min(SHUTDOWN_HEARTBEAT - 1);
        self.version
    }
}
