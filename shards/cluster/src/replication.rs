//! Replication strategies: how many replicas a keyspace has, and in which data centres.

use model::schema::Replication;
use std::collections::BTreeMap;

/// The replication that a keyspace had before a change that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicationBefore {
    /// What it was.
    pub replication: Replication,
    /// Whether data is still read by it; else it is read by the new one, and written by both.
    pub is_read: bool,
}

/// How the replicas of a keyspace are chosen. An option that is not a number counts as 0; CREATE KEYSPACE accepts none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Strategy {
    /// LocalStrategy: every node has its own data, which no other node sees.
    Local,
    /// EverywhereStrategy: every node is a replica of everything.
    Everywhere,
    /// SimpleStrategy: the next nodes on the ring, wherever they are.
    Simple {
        /// The number of replicas.
        factor: u32,
    },
    /// NetworkTopologyStrategy: in each data centre the next nodes on the ring, in different racks if there are enough.
    NetworkTopology {
        /// The number of replicas in each data centre, by its name; never 0.
        factors: BTreeMap<String, u32>,
    },
}

impl Strategy {
    /// The strategy of a keyspace. One with an unknown class has a factor for all nodes or one for each data centre,
    /// as its options say.
    pub fn of(replication: &Replication) -> Strategy {
        let options = &replication.options;
        match replication.class.rsplit('.').next() {
            Some("LocalStrategy") => Strategy::Local,
            Some("EverywhereStrategy") => Strategy::Everywhere,
            Some("SimpleStrategy") => Strategy::Simple { factor: options.get(FACTOR).map_or(0, |text| factor(text)) },
            Some("NetworkTopologyStrategy") => Strategy::in_data_centers(options),
            _ => match options.get(FACTOR) {
                Some(text) => Strategy::Simple { factor: factor(text) },
                None => Strategy::in_data_centers(options),
            },
        }
    }

    fn in_data_centers(options: &BTreeMap<String, String>) -> Strategy {
        let factors = options.iter().map(|(name, text)| (name.clone(), factor(text))).filter(|(_, factor)| *factor > 0);
        Strategy::NetworkTopology { factors: factors.collect() }
    }

    /// The number of replicas of every partition, in all data centres together, in a cluster of `nodes` nodes. There
    /// may be fewer nodes than that.
    pub fn factor(&self, nodes: usize) -> u32 {
        match self {
            Strategy::Local => 1,
            Strategy::Everywhere => u32::try_from(nodes).unwrap_or(u32::MAX),
            Strategy::Simple { factor } => *factor,
            Strategy::NetworkTopology { factors } => factors.values().copied().fold(0, u32::saturating_add),
        }
    }
}

/// The option of SimpleStrategy.
const FACTOR: &str = "replication_factor";

/// The number of replicas that an option asks for. A number of transient replicas may follow after a slash.
fn factor(text: &str) -> u32 {
    text.split('/').next().and_then(|all| all.trim().parse().ok()).unwrap_or(0)
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
        let factor = |class, options: &[(&str, &str)]| Strategy::of(&replication(class, options)).factor(4);
        assert_eq!(factor("LocalStrategy", &[]), 1);
        assert_eq!(factor("EverywhereStrategy", &[]), 4);
        assert_eq!(factor("SimpleStrategy", &[("replication_factor", "3")]), 3);
        assert_eq!(factor("SimpleStrategy", &[("replication_factor", "3/1")]), 3);
        assert_eq!(factor("SimpleStrategy", &[("replication_factor", "x")]), 0);
        assert_eq!(factor("SimpleStrategy", &[]), 0);
        assert_eq!(factor("NetworkTopologyStrategy", &[("dc1", "3"), ("dc2", "2"), ("dc3", "0")]), 5);
        assert_eq!(factor("OldNetworkTopologyStrategy", &[("replication_factor", "2")]), 2);
        assert_eq!(factor("OfSomeoneElse", &[("dc1", "4")]), 4);
    }
}
