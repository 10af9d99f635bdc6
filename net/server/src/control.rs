//! Messages between the shards of a node about its start, its connections and its stop.
//!
//! Requests between shards on behalf of clients travel on another mesh, `shard::mailbox`.

use crate::client_events::ClusterEvent;
use crate::client_ports::{PortKind, ShardAwarePorts};
use crate::disk_policy::Consequence;
use crate::encryption::Contexts;
use crate::exit::Exit;
use crate::query_log::options::{AuditOptions, FullQueryOptions};
use runtime::{Accepted, ShardId};
use shard::AccessOptions;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tls::Encryption;
use uuid::Uuid;

/// The most control messages that may wait in the queue from one core to another.
pub(crate) const CONTROL_MESSAGES_MAX: usize = 1024;

/// A message between shards of a node about its start, its connections or its stop.
pub(crate) enum Control {
    /// From shard 0: start, because the data directory is claimed. Connections are encrypted with this.
    Begin(Contexts),
    /// From shard 0: encrypt connections with this from now on.
    Keys(Contexts),
    /// From any shard: the node cannot go on.
    Abort(Exit),
    /// To shard 0: a disk has failed, and the failure policy asks for this consequence.
    Failed(Consequence),
    /// From shard 0: serve this connection to a port of this kind. SUPPORTED names the shard-aware ports.
    Connection(Accepted, PortKind, ShardAwarePorts),
    /// From shard 0: serve this connection of another node, to a port that is encrypted like this.
    PeerConnection(Accepted, Encryption),
    /// From shard 0: the node belongs to the cluster with this id.
    Joined(Uuid),
    /// From shard 0: dial the nodes that are known by the first addresses at the second ones.
    DialAt(Arc<BTreeMap<SocketAddr, SocketAddr>>),
    /// To shard 0: a connection of this client has closed.
    Closed(IpAddr),
    /// From shard 0: tell the clients that have registered for it.
    ClusterEvent(ClusterEvent),
    /// From shard 0: finish the requests under way, or do not wait for them, and close all connections.
    Drain { by_force: bool },
    /// To shard 0: this shard has drained.
    Drained,
    /// From shard 0: serve connections again.
    Reopen,
    /// From shard 0: whether new connections may speak versions below 5.
    OlderProtocols(bool),
    /// From shard 0: forget which clients there were.
    ClearClientHistory,
    /// From shard 0: keep what is read of roles as these options say.
    RoleCaches(AccessOptions),
    /// From shard 0: keep the audit log like this, or no more.
    AuditLog(Option<AuditOptions>),
    /// From shard 0: keep the log of full queries like this, or no more.
    FullQueryLog(Option<FullQueryOptions>),
    /// From shard 0: stop, because all shards have drained.
    Stop,
}

/// A shard's end of the control mesh.
pub(crate) struct ControlPort {
    endpoint: runtime::Endpoint<Control>,
    /// Messages that arrived while [`ControlPort::aborted`] waited.
    early: RefCell<VecDeque<(ShardId, Control)>>,
}

impl ControlPort {
    pub(crate) fn new(endpoint: runtime::Endpoint<Control>) -> ControlPort {
        ControlPort { endpoint, early: RefCell::default() }
    }

    /// Sends a message to one shard; waits while its queue is full.
    pub(crate) async fn send(&self, to: ShardId, message: Control) {
        self.endpoint.send(to, message).await;
    }

    /// Sends a message to every shard but `me`, the current one.
    pub(crate) async fn broadcast(&self, me: ShardId, message: impl Fn() -> Control) {
        for shard in (0..runtime::shard_count()).map(|shard| ShardId(shard as u16)).filter(|shard| *shard != me) {
            self.send(shard, message()).await;
        }
    }

    /// Waits for the next message and returns it with its sender.
    pub(crate) async fn recv(&self) -> (ShardId, Control) {
        let early = self.early.borrow_mut().pop_front();
        match early {
            Some(message) => message,
            None => self.endpoint.recv().await,
        }
    }

    /// Waits until another shard sends [`Control::Abort`]; other messages stay for [`ControlPort::recv`].
    pub(crate) async fn aborted(&self) -> Exit {
        loop {
            match self.endpoint.recv().await {
                (_, Control::Abort(exit)) => return exit,
                other => self.early.borrow_mut().push_back(other),
            }
        }
    }
}
