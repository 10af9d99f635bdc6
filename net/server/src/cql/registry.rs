//! The registry of a shard's connections: through it the shard sends schema events to clients that have registered for
//! them, and learns what its connections do.
//!
//! The shard calls [`shard::Notifier::schema_changed`] once it serves the new schema, so a client that gets the event
//! finds the change.

use crate::cql::connection::{Connection, REQUESTS_IN_FLIGHT_MAX};
use crate::cql::metrics::ConnectionMetrics;
use crate::cql::schema_change;
use shard::{Activity, Notifier, Observation, SchemaChange, Served};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use wire::response;

/// The open connections of a shard, and its counters of connections.
#[derive(Default)]
pub(crate) struct ConnectionRegistry {
    connections: RefCell<Vec<Weak<Connection>>>,
    registered: RefCell<Vec<Weak<Connection>>>,
    /// How many requests the connections that have closed had.
    completed: Cell<u64>,
    /// Counters of all connections, open and closed.
    pub(crate) metrics: Rc<ConnectionMetrics>,
}

impl ConnectionRegistry {
    /// Adds a connection that has opened.
    pub(crate) fn add(&self, connection: &Rc<Connection>) {
        self.connections.borrow_mut().push(Rc::downgrade(connection));
    }

    /// Registers a connection for schema events. Registering again changes nothing.
    pub(crate) fn register(&self, connection: &Rc<Connection>) {
        let mut registered = self.registered.borrow_mut();
        if !registered.iter().any(|known| std::ptr::eq(known.as_ptr(), Rc::as_ptr(connection))) {
            registered.push(Rc::downgrade(connection));
        }
    }

    /// Removes a connection that has closed.
    pub(crate) fn forget(&self, connection: &Rc<Connection>) {
        let others = |known: &Weak<Connection>| !std::ptr::eq(known.as_ptr(), Rc::as_ptr(connection));
        self.registered.borrow_mut().retain(others);
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
        let registered = self.registered.borrow().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        for connection in registered {
            connection.send_event(|out, version| {
                response::schema_event(out, version, schema_change::in_protocol_words(change))
            });
        }
    }

    fn observe(&self) -> Observation {
        Observation {
            requests: self.requests(),
            clients: self.open().iter().map(|connection| connection.observe()).collect(),
        }
    }

    fn served(&self) -> Served {
        Served {
            requests: self.requests(),
            errors: self.metrics.errors.get(),
            connections: self.open().len() as u64,
            connections_in_all: self.metrics.connections.get(),
            evictions: self.metrics.evictions.get(),
            panics: self.metrics.panics.get(),
        }
    }
}
