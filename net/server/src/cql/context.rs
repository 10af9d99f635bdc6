//! State that all connections of a shard share.

use crate::client_ports::ShardAwarePorts;
use crate::config::Config;
use crate::cql::metrics::ConnectionMetrics;
use crate::encryption::Contexts;
use runtime::gate::{Gate, Semaphore};
use shard::Shard;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Requests under way may hold one part in this many of a shard's memory.
const REQUEST_MEMORY_DIVISOR: usize = 10;
/// The least memory for requests under way, bytes: a request of the largest size must fit into either half of it; see
/// [`Context::request_bytes`].
const REQUEST_MEMORY_MIN: usize = 4 * wire::decoder::ENVELOPE_BYTES_MAX;

/// State that all connections of a shard share: the shard, its limits, its counters.
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) shard: Shard,
    pub(crate) metrics: Rc<ConnectionMetrics>,
    /// Every request holds a pass; a drain closes the gate.
    pub(crate) gate: Gate,
    /// Memory for requests that are admitted when they have arrived.
    pub(crate) request_bytes: Semaphore,
    /// Memory for large requests, which are admitted before their body has arrived. It is separate so that a client
    /// that sends slowly holds up other large requests only.
    pub(crate) large_request_bytes: Semaphore,
    /// How many bytes each of the two semaphores has in all.
    pub(crate) request_bytes_max: u64,
    /// The ports that SUPPORTED names.
    pub(crate) shard_aware_ports: Cell<ShardAwarePorts>,
    /// What connections are encrypted with from now on.
    pub(crate) keys: RefCell<Contexts>,
    /// Whether the node runs in the simulator, where a panic fails the run.
    pub(crate) simulated: bool,
}

impl Context {
    pub(crate) fn new(config: Arc<Config>, shard: Shard, metrics: Rc<ConnectionMetrics>, simulated: bool) -> Context {
        let shard_memory = config.node.memory_bytes / runtime::shard_count();
        let request_memory = (shard_memory / REQUEST_MEMORY_DIVISOR).max(REQUEST_MEMORY_MIN);
        let request_bytes_max = request_memory as u64 / 2;
        Context {
            shard_aware_ports: Cell::default(),
            keys: RefCell::default(),
            config,
            shard,
            metrics,
            gate: Gate::new(),
            request_bytes: Semaphore::new(request_bytes_max),
            large_request_bytes: Semaphore::new(request_bytes_max),
            request_bytes_max,
            simulated,
        }
    }

    /// Has connections encrypted with `contexts` from now on.
    pub(crate) fn set_keys(&self, contexts: &Contexts) {
        self.keys.replace(contexts.clone());
    }
}
