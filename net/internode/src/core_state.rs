//! What the links of one core share.

use crate::calls::Calls;
use crate::capacity::Pool;
use crate::endpoint::Endpoint;
use crate::handler::Handler;
use crate::identity::Identity;
use crate::lane::Lane;
use crate::metrics::Drops;
use crate::options::{Compression, Keys, Options};
use crate::replier::{InboundConnection, InboundCounts};
use crate::strangers::Strangers;
use runtime::HashMap;
use runtime::sync::Latch;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tls::Handshakes;
use uuid::Uuid;

/// A connection of one peer's core and lane, of which there is one.
pub(crate) type InboundKey = (Uuid, u16, Lane);

/// What the links of one core share.
pub(crate) struct CoreState {
    pub(crate) options: Options,
    pub(crate) identity: RefCell<Rc<Identity>>,
    pub(crate) handler: Rc<dyn Handler>,
    pub(crate) calls: Rc<Calls>,
    pub(crate) drops: Rc<Drops>,
    pub(crate) send: Rc<Pool>,
    pub(crate) receive: Rc<Pool>,
    pub(crate) endpoints: RefCell<HashMap<SocketAddr, Rc<Endpoint>>>,
    pub(crate) inbound: RefCell<HashMap<InboundKey, Rc<InboundConnection>>>,
    pub(crate) inbound_counts: RefCell<HashMap<SocketAddr, Rc<InboundCounts>>>,
    pub(crate) strangers: Rc<Strangers>,
    /// Connections that are in their handshake of TLS.
    pub(crate) handshakes: Handshakes,
    /// What connections are encrypted with from now on.
    pub(crate) keys: RefCell<Keys>,
    /// The addresses at which nodes are dialled that are not the ones by which they are known.
    pub(crate) dialled_at: RefCell<Arc<BTreeMap<SocketAddr, SocketAddr>>>,
    pub(crate) closed: Latch,
    connections: Cell<u64>,
}

impl CoreState {
    pub(crate) fn new(options: Options, identity: Identity, handler: Rc<dyn Handler>) -> Rc<CoreState> {
        let shards = runtime::shard_count();
        let (send, receive) = (Pool::new(options.send, shards), Pool::new(options.receive, shards));
        Rc::new(CoreState {
            options,
            identity: RefCell::new(Rc::new(identity)),
            handler,
            calls: Rc::default(),
            drops: Rc::default(),
            send,
            receive,
            endpoints: RefCell::default(),
            inbound: RefCell::default(),
            inbound_counts: RefCell::default(),
            strangers: Rc::default(),
            handshakes: Handshakes::default(),
            keys: RefCell::default(),
            dialled_at: RefCell::default(),
            closed: Latch::default(),
            connections: Cell::new(0),
        })
    }

    pub(crate) fn identity(&self) -> Rc<Identity> {
        self.identity.borrow().clone()
    }

    /// Where the node that is known by this address is dialled.
    pub(crate) fn dialled_at(&self, address: SocketAddr) -> SocketAddr {
        self.dialled_at.borrow().get(&address).copied().unwrap_or(address)
    }

    /// The outgoing links to the node at `address`.
    pub(crate) fn endpoint(&self, address: SocketAddr) -> Rc<Endpoint> {
        let mut endpoints = self.endpoints.borrow_mut();
        endpoints.entry(address).or_insert_with(|| Endpoint::new(address, &self.send)).clone()
    }

    /// A number for a new connection, not 0.
    pub(crate) fn next_connection(&self) -> u64 {
        let next = self.connections.get() + 1;
        self.connections.set(next);
        next
    }

    /// Whether bodies to a node of this data centre are compressed.
    pub(crate) fn compresses_to(&self, data_center: &str) -> bool {
        match self.options.compression {
            Compression::None => false,
            Compression::All => true,
            Compression::BetweenDataCenters => self.identity.borrow().data_center != data_center,
        }
    }
}
