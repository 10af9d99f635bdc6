//! Counters of one shard's connections.

use runtime::metrics::Counter;

/// What a shard counts. Messages between cores are counted by the shard itself.
#[derive(Default, Debug)]
pub struct Metrics {
    /// Requests answered.
    pub requests: Counter,
    /// Requests answered with ERROR.
    pub errors: Counter,
    /// Connections taken over.
    pub connections: Counter,
    /// Connections closed for breaking the protocol, a limit or a deadline.
    pub evictions: Counter,
    /// Panics caught in pure stages.
    pub panics: Counter,
}
