//! How long requests may take: options that operators change while the node runs (`nodetool settimeout`).

use super::Config;
use std::time::Duration;

/// The times that requests may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// `read_request_timeout`.
    pub read: Duration,
    /// `range_request_timeout`.
    pub range: Duration,
    /// `write_request_timeout`.
    pub write: Duration,
    /// `counter_write_request_timeout`.
    pub counter_write: Duration,
    /// `cas_contention_timeout`.
    pub cas_contention: Duration,
    /// `truncate_request_timeout`.
    pub truncate: Duration,
    /// `request_timeout`.
    pub misc: Duration,
}

impl Timeouts {
    /// Those that a node starts with.
    pub fn of(config: &Config) -> Timeouts {
        Timeouts {
            read: config.read_timeout,
            range: config.range_timeout,
            write: config.write_timeout,
            counter_write: config.counter_write_timeout,
            cas_contention: config.cas_contention_timeout,
            truncate: config.truncate_timeout,
            misc: config.request_timeout,
        }
    }
}
