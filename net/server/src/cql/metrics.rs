//! Counters of one shard's connections.

use runtime::metrics::Counter;
use tls::Handshakes;

/// What a shard counts about its connections. Messages between cores are counted by the shard's actor.
#[derive(Default, Debug)]
pub(crate) struct ConnectionMetrics {
    /// Requests answered.
    pub(crate) requests: Counter,
    /// Requests answered with ERROR.
    pub(crate) errors: Counter,
    /// Connections that the shard has served.
    pub(crate) connections: Counter,
    /// Connections closed for breaking the protocol, a limit or a deadline.
    pub(crate) evictions: Counter,
    /// Handshakes of TLS, under way and ended.
    pub(crate) handshakes: Handshakes,
    /// Panics caught while a body was decoded.
    pub(crate) panics: Counter,
}
