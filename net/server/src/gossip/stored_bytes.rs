//! What nodes tell each other of the bytes that keyspaces with a quota of them store:
//!
//! ```text
//! HELENUS_STORED    (name '=' bytes) separated by ','
//! ```
//! A node that is down counts with what it told last.

use cluster::gossip::{ApplicationState, Gossiper};
use model::Failure;
use shard::Shard;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Tells what this node stores, and its cores what all nodes of its data centre store. Does nothing where no keyspace
/// has a quota of bytes.
pub(super) async fn measure(shard: &Shard, gossiper: &RefCell<Gossiper>) {
    if let Err(failure) = tell(shard, gossiper).await {
        tracing::debug!(%failure, "what keyspaces store is not known");
    }
}

async fn tell(shard: &Shard, gossiper: &RefCell<Gossiper>) -> Result<(), Failure> {
    let own = shard.own_stored_bytes().await?;
    if own.is_empty() {
        return Ok(());
    }
    gossiper.borrow_mut().set(ApplicationState::STORED, &encode(&own));
    let sums = {
        let (gossiper, topology) = (gossiper.borrow(), shard.topology());
        let here = &topology.node(topology.here()).data_center;
        let local = topology.nodes().iter().filter(|node| node.data_center == *here);
        let told = local.filter_map(|node| gossiper.state(node.address)?.value(ApplicationState::STORED));
        sum(told)
    };
    shard.tell_stored_bytes(&sums.into_iter().collect::<Vec<_>>()).await
}

fn encode(stored: &[(String, u64)]) -> String {
    let each: Vec<String> = stored.iter().map(|(name, bytes)| format!("{name}={bytes}")).collect();
    each.join(",")
}

/// The sum of what nodes tell of each keyspace. What is malformed is left out.
fn sum<'t>(told: impl Iterator<Item = &'t str>) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (name, bytes) in told.flat_map(|told| told.split(',')).filter_map(|part| part.split_once('=')) {
        if let Ok(bytes) = bytes.parse::<u64>() {
            let sum = sums.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::gossip::VALUE_BYTES_MAX;
    use model::quota::STORED_QUOTAS_MAX;

    #[test]
    fn what_nodes_tell_is_added_up() {
        let told = encode(&[("a".into(), 5), ("b_1".into(), 7)]);
        assert_eq!(told, "a=5,b_1=7");
        let all = [&*told, "", "a=18446744073709551615", "b_1=x,c,=,d=-1,b_1=1"];
        let sums = sum(all.into_iter());
        assert_eq!(sums.into_iter().collect::<Vec<_>>(), [("a".into(), u64::MAX), ("b_1".into(), 8)]);
    }

    /// All that may have a quota are told.
    #[test]
    fn the_longest_text_is_a_value_of_gossip() {
        let longest = vec![("n".repeat(48), model::quota::BYTES_STORED_MAX * 8); STORED_QUOTAS_MAX];
        assert!(encode(&longest).len() <= VALUE_BYTES_MAX);
    }
}
