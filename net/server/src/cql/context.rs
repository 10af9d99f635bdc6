//! State that all connections of a shard share.

use crate::client_ports::ShardAwarePorts;
use crate::config::Config;
use crate::cql::handshake::LOWEST_VERSION;
use crate::cql::metrics::ConnectionMetrics;
use crate::cql::output_memory::OutputMemory;
use crate::cql::rate::RateLimiter;
use crate::cql::request_memory::RequestMemory;
use crate::encryption::Contexts;
use crate::query_log::QueryLogs;
use runtime::gate::Gate;
use shard::Shard;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use wire::Version;

/// Requests under way may hold one part in this many of a shard's memory, and answers that are not read another one.
const REQUEST_MEMORY_DIVISOR: usize = 10;
/// The least memory for requests under way, in requests of the largest size: with its plain form, one must fit into
/// either half of it; see [`RequestMemory`].
const REQUESTS_MIN: usize = 4;

/// State that all connections of a shard share: the shard, its limits, its counters.
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) shard: Shard,
    pub(crate) metrics: Rc<ConnectionMetrics>,
    /// Every request holds a pass; a drain closes the gate.
    pub(crate) gate: RefCell<Gate>,
    /// Memory for requests under way.
    pub(crate) request_memory: RequestMemory,
    /// Memory for answers that clients have not read yet.
    pub(crate) output_memory: OutputMemory,
    /// The rate of requests, if it is limited.
    pub(crate) limiter: Option<Arc<RateLimiter>>,
    /// What clients do, for those who must know.
    pub(crate) query_logs: QueryLogs,
    /// Whether new connections may speak versions below 5.
    pub(crate) allows_older_protocols: Cell<bool>,
    /// The ports that SUPPORTED names.
    pub(crate) shard_aware_ports: Cell<ShardAwarePorts>,
    /// What connections are encrypted with from now on.
    pub(crate) keys: RefCell<Contexts>,
    /// Whether the node runs in the simulator, where a panic fails the run.
    pub(crate) simulated: bool,
}

impl Context {
    pub(crate) fn new(
        config: Arc<Config>,
        shard: Shard,
        metrics: Rc<ConnectionMetrics>,
        limiter: Option<Arc<RateLimiter>>,
        simulated: bool,
    ) -> Context {
        let (limits, shards) = (&config.client_limits, runtime::shard_count());
        let largest = limits.frame_bytes_max.max(limits.message_bytes_max);
        let of_memory =
            || (config.node.memory_bytes / shards / REQUEST_MEMORY_DIVISOR).max(REQUESTS_MIN * largest) as u64;
        let request_memory = limits.request_bytes_max.map_or_else(&of_memory, |bytes| bytes / shards as u64);
        let per_address_max = limits.request_bytes_per_ip_max.map(|bytes| bytes / shards as u64);
        Context {
            shard_aware_ports: Cell::default(),
            keys: RefCell::default(),
            allows_older_protocols: Cell::new(limits.allows_older_protocols),
            request_memory: RequestMemory::new(request_memory / 2, per_address_max),
            output_memory: OutputMemory::new(of_memory()),
            config,
            shard,
            metrics,
            gate: RefCell::default(),
            limiter,
            query_logs: QueryLogs::default(),
            simulated,
        }
    }

    /// The lowest version that new connections may speak.
    pub(crate) fn lowest_version(&self) -> Version {
        if self.allows_older_protocols.get() { LOWEST_VERSION } else { Version::HIGHEST }
    }

    /// Has connections encrypted with `contexts` from now on.
    pub(crate) fn set_keys(&self, contexts: &Contexts) {
        self.keys.replace(contexts.clone());
    }
}
