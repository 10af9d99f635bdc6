//! The state of a node that its interfaces for operators use: nodetool and HTTP.

use crate::client_admin::ClientAdmin;
use crate::config::Config;
use crate::gossip::Gossip;
use crate::keys::Keys;
use crate::repair_commands::RepairCommands;
use runtime::Instant;
use runtime::sync::Latch;
use shard::Shard;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Where the node is on its way out of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LeavingState {
    /// It does not leave, or has left.
    #[default]
    None,
    /// `decommission` is under way.
    UnderWay,
    /// The last `decommission` failed.
    Failed,
}

/// The state of the node that the interfaces for operators use. It lives on shard 0.
pub(crate) struct NodeState {
    pub(crate) config: Arc<Config>,
    /// Shard 0.
    pub(crate) shard: Shard,
    pub(crate) gossip: Rc<Gossip>,
    /// What connections are encrypted with.
    pub(crate) keys: Rc<Keys>,
    /// What operators change about serving clients.
    pub(crate) clients: Rc<ClientAdmin>,
    pub(crate) started: Instant,
    /// Whether the node runs in the simulator, where nothing may depend on the real machine.
    pub(crate) simulated: bool,
    /// Where the node is on its way out of the ring.
    pub(crate) leaving: Cell<LeavingState>,
    /// Whether clients are served: not before the node has joined, nor after it has drained.
    pub(crate) serves_clients: Cell<bool>,
    /// The repairs that operators have asked for.
    pub(crate) repairs: Rc<RepairCommands>,
    /// Set to ask the node to stop serving clients.
    pub(crate) drain: Latch,
    /// Set once the node has stopped serving clients.
    pub(crate) drained: Latch,
    /// How many bytes per second compactions may read; 0 for no limit.
    pub(crate) compaction_throughput: Cell<u64>,
}

impl NodeState {
    pub(crate) fn new(
        config: Arc<Config>,
        shard: Shard,
        gossip: Rc<Gossip>,
        keys: Rc<Keys>,
        clients: Rc<ClientAdmin>,
        simulated: bool,
    ) -> Rc<NodeState> {
        let throughput = config.node.compaction_bytes_per_second;
        Rc::new(NodeState {
            config,
            shard,
            gossip,
            keys,
            clients,
            started: runtime::now(),
            simulated,
            leaving: Cell::default(),
            serves_clients: Cell::new(false),
            repairs: Rc::default(),
            drain: Latch::default(),
            drained: Latch::default(),
            compaction_throughput: Cell::new(throughput),
        })
    }

    /// Whether the node has left its cluster for good.
    pub(crate) fn has_left(&self) -> bool {
        self.shard.has_left(self.shard.host_id())
    }
}
