//! The registry of a shard's connections: through it the shard sends schema events, and gossip events about nodes, to
//! clients that have registered for them, and learns what its connections do.
//!
//! The shard calls [`shard::Notifier::schema_changed`] once it serves the new schema, so a client that gets the event
//! finds the change.

use crate::client_events::ClusterEvent;
use crate::cql::connection::{Connection, REQUESTS_IN_FLIGHT_MAX};
use crate::cql::metrics::ConnectionMetrics;
use crate::cql::rate::RateLimiter;
use crate::cql::schema_change;
use cluster::gossip::{EndpointState, Gossiper};
use shard::{Activity, Notifier, Observation, RecentClient, SchemaChange, Served};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use wire::Version;
use wire::request::EventType;
use wire::response;

/// Addresses that are remembered for each version of the protocol.
pub(crate) const RECENT_CLIENTS_MAX: usize = 100;

/// The open connections of a shard, and its counters of connections.
#[derive(Default)]
pub(crate) struct ConnectionRegistry {
    connections: RefCell<Vec<Weak<Connection>>>,
    /// Connections that have registered for events, with the kinds of them.
    registered: RefCell<Vec<(Weak<Connection>, Vec<EventType>)>>,
    /// Gossip, on shard 0.
    gossiper: OnceCell<Weak<RefCell<Gossiper>>>,
    /// How many requests the connections that have closed had.
    completed: Cell<u64>,
    /// When clients have last begun to speak a version, in milliseconds since 1970.
    recent: RefCell<BTreeMap<Version, BTreeMap<IpAddr, i64>>>,
    /// The rate of requests of the node, if it is limited.
    pub(crate) limiter: Option<Arc<RateLimiter>>,
    /// Counters of all connections, open and closed.
    pub(crate) metrics: Rc<ConnectionMetrics>,
}

impl ConnectionRegistry {
    /// A registry of a shard of a node whose rate of requests is limited by `limiter`.
    pub(crate) fn new(limiter: Option<Arc<RateLimiter>>) -> ConnectionRegistry {
        ConnectionRegistry { limiter, ..ConnectionRegistry::default() }
    }

    /// Remembers that a client has begun to speak a version. The one that has not for longest makes room.
    pub(crate) fn note_client(&self, version: Version, address: IpAddr) {
        let mut recent = self.recent.borrow_mut();
        let clients = recent.entry(version).or_default();
        if clients.len() >= RECENT_CLIENTS_MAX && !clients.contains_key(&address) {
            let oldest = clients.iter().min_by_key(|(_, seen)| **seen).map(|(address, _)| *address);
            oldest.and_then(|oldest| clients.remove(&oldest));
        }
        clients.insert(address, runtime::wall_micros() / 1000);
    }

    /// Forgets which clients there were.
    pub(crate) fn clear_history(&self) {
        self.recent.borrow_mut().clear();
    }

    /// Adds a connection that has opened.
    pub(crate) fn add(&self, connection: &Rc<Connection>) {
        self.connections.borrow_mut().push(Rc::downgrade(connection));
    }

    /// Registers a connection for kinds of events, besides those for which it has registered before.
    pub(crate) fn register(&self, connection: &Rc<Connection>, kinds: &[EventType]) {
        let mut registered = self.registered.borrow_mut();
        let known = registered.iter_mut().find(|(known, _)| std::ptr::eq(known.as_ptr(), Rc::as_ptr(connection)));
        match known {
            Some((_, known)) => {
                known.extend(kinds);
                known.sort_unstable();
                known.dedup();
            }
            None => registered.push((Rc::downgrade(connection), kinds.to_vec())),
        }
    }

    /// Gives virtual tables what gossip knows.
    pub(crate) fn set_gossiper(&self, gossiper: &Rc<RefCell<Gossiper>>) {
        let _ = self.gossiper.set(Rc::downgrade(gossiper));
    }

    /// Tells the clients that have registered for it what has happened to a node.
    pub(crate) fn cluster_changed(&self, event: ClusterEvent) {
        let kind = if event.change.is_topology() { EventType::TopologyChange } else { EventType::StatusChange };
        for connection in self.registered_for(kind) {
            connection.send_event(|out, version| {
                response::node_event(out, version, kind, event.change.name(), event.address);
            });
        }
    }

    fn registered_for(&self, kind: EventType) -> Vec<Rc<Connection>> {
        let registered = self.registered.borrow();
        let of_kind = registered.iter().filter(|(_, kinds)| kinds.contains(&kind));
        of_kind.filter_map(|(connection, _)| connection.upgrade()).collect()
    }

    /// Removes a connection that has closed.
    pub(crate) fn forget(&self, connection: &Rc<Connection>) {
        let others = |known: &Weak<Connection>| !std::ptr::eq(known.as_ptr(), Rc::as_ptr(connection));
        self.registered.borrow_mut().retain(|(known, _)| others(known));
        self.connections.borrow_mut().retain(others);
        self.completed.set(self.completed.get() + connection.request_count());
    }

    fn open(&self) -> Vec<Rc<Connection>> {
        self.connections.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// How busy all connections are with requests.
    fn requests(&self) -> Activity {
        let open = self.open();
        let active: u64 = open.iter().map(|connection| connection.active_requests()).sum();
        let requests: u64 = open.iter().map(|connection| connection.request_count()).sum();
        Activity {
            active,
            active_max: open.len() as u64 * REQUESTS_IN_FLIGHT_MAX,
            completed: self.completed.get() + requests - active,
            ..Activity::default()
        }
    }
}

impl Notifier for ConnectionRegistry {
    fn schema_changed(&self, change: &SchemaChange) {
        for connection in self.registered_for(EventType::SchemaChange) {
            connection.send_event(|out, version| {
                response::schema_event(out, version, schema_change::in_protocol_words(change))
            });
        }
    }

    fn observe(&self) -> Observation {
        Observation {
            requests: self.requests(),
            clients: self.open().iter().filter_map(|connection| connection.observe()).collect(),
            recent: {
                let recent = self.recent.borrow();
                let of_version = |(version, clients): (&Version, &BTreeMap<IpAddr, i64>)| {
                    let protocol = version.to_string();
                    let client = |(address, seen): (&IpAddr, &i64)| RecentClient {
                        protocol: protocol.clone(),
                        address: *address,
                        seen_millis: *seen,
                    };
                    clients.iter().map(client).collect::<Vec<_>>()
                };
                recent.iter().flat_map(of_version).collect()
            },
        }
    }

    fn endpoints(&self) -> Vec<(SocketAddr, EndpointState)> {
        let Some(gossiper) = self.gossiper.get().and_then(Weak::upgrade) else { return Vec::new() };
        gossiper.borrow().states().map(|(address, state)| (address, state.clone())).collect()
    }

    fn served(&self) -> Served {
        Served {
            requests: self.requests(),
            errors: self.metrics.errors.get(),
            connections: self.open().len() as u64,
            connections_in_all: self.metrics.connections.get(),
            evictions: self.metrics.evictions.get(),
            handshakes: {
                let ended = self.metrics.handshakes.metrics();
                [("completed", ended.completed), ("failed", ended.failed), ("crowded_out", ended.crowded_out)]
            },
            panics: self.metrics.panics.get(),
        }
    }
}
