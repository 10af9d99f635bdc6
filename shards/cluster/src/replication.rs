//! Replication strategies: how many replicas a keyspace has.

use model::schema::Replication;

/// The number of replicas of every partition of a keyspace, in all data centres together; 1 for LocalStrategy. An
/// option that is not a number counts as 0; CREATE KEYSPACE accepts none.
pub fn replication_factor(replication: &Replication) -> usize {
    match replication.class.rsplit('.').next() {
        Some("LocalStrategy") => 1,
        Some("SimpleStrategy") => replication.options.get("replication_factor").map_or(0, |text| factor(text)),
        _ => replication.options.values().map(|text| factor(text)).fold(0, usize::saturating_add),
    }
}

fn factor(text: &str) -> usize {
    text.parse().unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn replication(class: &str, options: &[(&str, &str)]) -> Replication {
        Replication {
            class: format!("org.apache.cassandra.locator.{class}"),
            options: options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        }
    }

    #[test]
    fn every_strategy_has_a_factor() {
        assert_eq!(replication_factor(&replication("LocalStrategy", &[])), 1);
        assert_eq!(replication_factor(&replication("SimpleStrategy", &[("replication_factor", "3")])), 3);
        assert_eq!(replication_factor(&replication("SimpleStrategy", &[("replication_factor", "x")])), 0);
        let datacenters = [("datacenter1", "3"), ("datacenter2", "2")];
        assert_eq!(replication_factor(&replication("NetworkTopologyStrategy", &datacenters)), 5);
    }
}
