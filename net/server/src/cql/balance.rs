//! Counts the connections of each shard and of each client address, and chooses the shard of the next one.

use crate::config::Config;
use std::collections::BTreeMap;
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

    /// Whether one more connection from `address` is within the limits.
    pub(crate) fn admits(&self, config: &Config, address: IpAddr) -> bool {
        let from_there = self.by_address.get(&address).copied().unwrap_or_default();
        self.total() < config.connections_max && from_there < config.connections_per_ip_max
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
            assert!(balance.admits(&config, a));
            assert_eq!(balance.least_loaded(), expected);
            balance.opened(expected, a);
        }
        assert!(!balance.admits(&config, a), "three of one address");
        assert!(balance.admits(&config, b));
        balance.opened(1, b);
        assert!(!balance.admits(&config, b), "four in all");
        balance.closed(0, a);
        assert!(balance.admits(&config, b) && balance.admits(&config, a));
        balance.closed(0, a);
        balance.closed(1, a);
        balance.closed(1, b);
        assert!(balance.by_address.is_empty());
        assert_eq!(balance.total(), 0);
    }
}
