//! Counts the connections of each shard and of each client address, and chooses the shard of the next one.

use crate::config::Config;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

/// Shard 0's count of the node's connections.
#[derive(Default, Debug)]
pub(crate) struct Balance {
    by_shard: Vec<usize>,
    by_address: BTreeMap<IpAddr, usize>,
}

impl Balance {
    /// A count for `shards` shards without connections.
    pub(crate) fn new(shards: usize) -> Balance {
        Balance { by_shard: vec![0; shards], by_address: BTreeMap::new() }
    }

    fn total(&self) -> usize {
        self.by_shard.iter().sum()
    }

    /// The shard with the fewest connections.
    pub(crate) fn least_loaded(&self) -> usize {
        let least = self.by_shard.iter().enumerate().min_by_key(|(_, connections)| **connections);
        least.map_or(0, |(shard, _)| shard)
    }

    /// Counts a connection that `shard` serves from now on.
    pub(crate) fn opened(&mut self, shard: usize, address: IpAddr) {
        if let Some(connections) = self.by_shard.get_mut(shard) {
            *connections += 1;
        }
        *self.by_address.entry(address).or_default() += 1;
    }

    /// Counts a connection that has closed.
    pub(crate) fn closed(&mut self, shard: usize, address: IpAddr) {
        if let Some(connections) = self.by_shard.get_mut(shard) {
            *connections = connections.saturating_sub(1);
        }
        if let Some(connections) = self.by_address.get_mut(&address) {
            *connections -= 1;
            if *connections == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// The limit that one more connection from `address` would breach.
    pub(crate) fn breached(&self, config: &Config, address: IpAddr) -> Option<ConnectionLimit> {
        let from_there = self.by_address.get(&address).copied().unwrap_or_default();
        let (total, max, per_ip_max) = (self.total(), config.connections_max, config.connections_per_ip_max);
        if total >= max {
            return Some(ConnectionLimit::OfNode { max, with_this: total + 1 });
        }
        (from_there >= per_ip_max).then_some(ConnectionLimit::OfAddress { max: per_ip_max, with_this: from_there + 1 })
    }
}

/// A limit of connections that is reached; as text, what Cassandra's log says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionLimit {
    OfNode { max: usize, with_this: usize },
    OfAddress { max: usize, with_this: usize },
}

impl Display for ConnectionLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let option = "native_transport_max_concurrent_connections";
        match self {
            ConnectionLimit::OfNode { max, with_this } => write!(
                f,
                "Exceeded maximum native connection limit of {max} by using {with_this} connections (see {option} in \
                 cassandra.yaml)"
            ),
            ConnectionLimit::OfAddress { max, with_this } => write!(
                f,
                "Exceeded maximum native connection limit per ip of {max} by using {with_this} connections (see \
                 {option}_per_ip)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn connections_are_spread_and_bounded() {
        let config = Config { connections_max: 4, connections_per_ip_max: 3, ..Config::default() };
        let (a, b) = (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
        let mut balance = Balance::new(2);
        for expected in [0, 1, 0] {
            assert!(balance.breached(&config, a).is_none());
            assert_eq!(balance.least_loaded(), expected);
            balance.opened(expected, a);
        }
        assert!(balance.breached(&config, a).is_some(), "three of one address");
        assert!(balance.breached(&config, b).is_none());
        balance.opened(1, b);
        assert!(balance.breached(&config, b).is_some(), "four in all");
        assert_eq!(
            balance.breached(&config, b).map(|limit| limit.to_string()).as_deref(),
            Some(
                "Exceeded maximum native connection limit of 4 by using 5 connections (see \
                 native_transport_max_concurrent_connections in cassandra.yaml)"
            )
        );
        balance.closed(0, a);
        assert!(balance.breached(&config, b).is_none() && balance.breached(&config, a).is_none());
        balance.closed(0, a);
        balance.closed(1, a);
        balance.closed(1, b);
        assert!(balance.by_address.is_empty());
        assert_eq!(balance.total(), 0);
    }
}
