//! Schema events to the connections of this shard that have registered for them.
//!
//! The shard calls [`shard::Notifier::schema_changed`] after it serves the new schema, so a client that is told finds it.

use crate::cql::connection::Connection;
use shard::{ChangeKind, ChangeTarget, Notifier, SchemaChange};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use wire::response;

/// The registered connections of a shard.
#[derive(Default)]
pub struct Events {
    registered: RefCell<Vec<Weak<Connection>>>,
}

impl Events {
    /// Registers a connection for schema events; once is enough.
    pub(crate) fn register(&self, connection: &Rc<Connection>) {
        let mut registered = self.registered.borrow_mut();
        if !registered.iter().any(|known| std::ptr::eq(known.as_ptr(), Rc::as_ptr(connection))) {
            registered.push(Rc::downgrade(connection));
        }
    }

    /// Forgets a connection that has closed.
    pub(crate) fn forget(&self, connection: &Rc<Connection>) {
        self.registered.borrow_mut().retain(|known| !std::ptr::eq(known.as_ptr(), Rc::as_ptr(connection)));
    }
}

impl Notifier for Events {
    fn schema_changed(&self, change: &SchemaChange) {
        let registered = self.registered.borrow().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        for connection in registered {
            connection.send_event(|out, version| response::schema_event(out, version, describe(change)));
        }
    }
}

/// A schema change in the protocol's words.
pub(crate) fn describe(change: &SchemaChange) -> response::SchemaChange<'_> {
    response::SchemaChange {
        change: match change.change {
            ChangeKind::Created => "CREATED",
            ChangeKind::Updated => "UPDATED",
            ChangeKind::Dropped => "DROPPED",
        },
        target: match change.target {
            ChangeTarget::Keyspace => "KEYSPACE",
            ChangeTarget::Table => "TABLE",
        },
        keyspace: &change.keyspace,
        name: &change.name,
    }
}
