//! What the interfaces for operators, nodetool and HTTP, know of their node.

use crate::config::Config;
use runtime::Instant;
use runtime::sync::Latch;
use shard::Shard;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The version of Cassandra that the node behaves as.
pub(crate) const RELEASE_VERSION: &str = "5.0.9";

/// What the interfaces for operators know of their node. It lives on shard 0.
pub(crate) struct NodeState {
    pub(crate) config: Arc<Config>,
    /// Shard 0.
    pub(crate) shard: Shard,
    pub(crate) started: Instant,
    /// Whether the node runs in the simulator, where the machine is not part of the world.
    pub(crate) simulated: bool,
    /// Set to ask that clients are served no more.
    pub(crate) drain: Latch,
    /// Set when clients are served no more.
    pub(crate) drained: Latch,
    /// How many bytes per second compactions may read; 0: as many as they can.
    pub(crate) compaction_throughput: Cell<u64>,
}

impl NodeState {
    pub(crate) fn new(config: Arc<Config>, shard: Shard, simulated: bool) -> Rc<NodeState> {
        let throughput = config.node.compaction_bytes_per_second;
        Rc::new(NodeState {
            config,
            shard,
            started: runtime::now(),
            simulated,
            drain: Latch::default(),
            drained: Latch::default(),
            compaction_throughput: Cell::new(throughput),
        })
    }
}
