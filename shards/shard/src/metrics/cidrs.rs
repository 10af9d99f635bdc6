//! How long a core takes to look after the addresses of clients, at logins.

use super::histogram::{Distribution, Histogram};
use runtime::Instant;

/// What is measured, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CidrLatency {
    /// Whether a role may be used from an address.
    Checks,
    /// The groups of an address.
    Lookups,
    /// Reading all groups.
    Reloads,
}

impl CidrLatency {
    /// All of them, in the order of `nodetool cidrfilteringstats`.
    pub const ALL: [CidrLatency; 3] = [CidrLatency::Checks, CidrLatency::Lookups, CidrLatency::Reloads];

    /// The name in `system_views.cidr_filtering_metrics_latencies`.
    pub fn name(self) -> &'static str {
        match self {
            CidrLatency::Checks => "CIDR checks latency (ns)",
            CidrLatency::Lookups => "Lookup IP in CIDR groups cache latency (ns)",
            CidrLatency::Reloads => "CIDR groups cache reload latency (ns)",
        }
    }
}

/// The latencies of one core.
#[derive(Default)]
pub(crate) struct CidrLatencies([Histogram; 3]);

impl CidrLatencies {
    /// Records what began at `began` and has ended now.
    pub(crate) fn record(&self, latency: CidrLatency, began: Instant) {
        let now = runtime::now();
        self.0[latency as usize].record(super::nanos(began, now), now);
    }

    /// The distributions, in the order of [`CidrLatency::ALL`].
    pub(crate) fn distributions(&self, now: Instant) -> [Distribution; 3] {
        CidrLatency::ALL.map(|latency| self.0[latency as usize].distribution(now))
    }
}
