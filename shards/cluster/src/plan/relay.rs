//! Writes to other data centres: one replica of each gets the mutation and passes it on to the others there, so that
//! it crosses the distance once. Each of them answers the coordinator itself.

use crate::placement::Replica;
use crate::topology::{DataCenter, Topology};
use smallvec::SmallVec;

/// Most replicas to which one passes a mutation on; of the rest of its data centre, another one does.
pub const RELAYED_MAX: usize = 16;

/// The replicas of one data centre to which a mutation is sent at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relay {
    /// The one that gets it from the coordinator.
    pub first: Replica,
    /// Those that get it from that one.
    pub others: SmallVec<[Replica; 2]>,
}

impl Relay {
    /// The ways of a mutation to `far`, replicas of other data centres than this node's. The first of each is one that
    /// has not been slow, if there is one; `random` chooses among these.
    pub fn all(far: &[Replica], topology: &Topology, random: u64) -> SmallVec<[Relay; 1]> {
        let mut centers: SmallVec<[(DataCenter, SmallVec<[Replica; 3]>); 2]> = SmallVec::new();
        for replica in far {
            let center = topology.data_center_of(replica.node);
            let is_full = |members: &[Replica]| members.len() > RELAYED_MAX;
            match centers.iter_mut().find(|(other, members)| *other == center && !is_full(members)) {
                Some((_, members)) => members.push(*replica),
                None => centers.push((center, SmallVec::from_slice(&[*replica]))),
            }
        }
        let relay = |(_, members): (DataCenter, SmallVec<[Replica; 3]>)| {
            let is_fast = |at: &usize| !topology.latencies().is_slow(members[*at].node);
            let fast: SmallVec<[usize; 3]> = (0..members.len()).filter(is_fast).collect();
            let choice = |count: usize| (random % count.max(1) as u64) as usize;
            let first = fast.get(choice(fast.len())).copied().unwrap_or_else(|| choice(members.len()));
            let others = members.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, member)| *member);
            Relay { first: members[first], others: others.collect() }
        };
        centers.into_iter().map(relay).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::NodeIndex;
    use crate::topology::latency::DynamicSnitch;
    use crate::topology::tests::topology;
    use std::collections::BTreeSet;
    use std::time::Duration;

    fn replicas(nodes: std::ops::Range<u16>) -> Vec<Replica> {
        nodes.map(|node| Replica { node: NodeIndex(node), shard: 0 }).collect()
    }

    #[test]
    fn each_data_center_has_one_that_passes_on() {
        let place = |center: &'static str| (center, "r", &[][..]);
        let topology = topology(&["a", "b", "b", "b", "c", "d", "d"].map(place), 1);
        let mut firsts = BTreeSet::new();
        for random in 0..6 {
            let relays = Relay::all(&replicas(1..7), &topology, random);
            let nodes: Vec<BTreeSet<u16>> = relays
                .iter()
                .map(|relay| relay.others.iter().chain([&relay.first]).map(|replica| replica.node.0).collect())
                .collect();
            assert_eq!(nodes, [[1, 2, 3].into(), [4].into(), [5, 6].into()]);
            firsts.extend(relays.iter().map(|relay| relay.first.node.0));
        }
        assert_eq!(firsts, (1..7).collect(), "all take their turns");
        assert!(Relay::all(&[], &topology, 0).is_empty());
    }

    #[test]
    fn slow_replicas_pass_nothing_on_while_there_are_others() {
        let mut topology = topology(&[("a", "r", &[]), ("b", "r", &[]), ("b", "r", &[]), ("b", "r", &[])], 1);
        topology.measure_latencies(DynamicSnitch::default());
        for second in 0..20 {
            for (node, millis) in [(2, 1), (3, 1), (1, 500)] {
                let now = Duration::from_secs(second);
                topology.latencies().asked(NodeIndex(node), now);
                topology.latencies().answered(NodeIndex(node), Duration::from_millis(millis), now);
            }
        }
        assert!(topology.latencies().is_slow(NodeIndex(1)));
        let firsts: BTreeSet<u16> =
            (0..6).map(|random| Relay::all(&replicas(1..4), &topology, random)[0].first.node.0).collect();
        assert_eq!(firsts, [2, 3].into());
        assert_eq!(Relay::all(&replicas(1..2), &topology, 0)[0].first.node.0, 1, "there is no other");
    }

    #[test]
    fn many_replicas_are_several_groups() {
        let places = vec![("b", "r", &[][..]); RELAYED_MAX + 4];
        let nodes: Vec<(&str, &str, &[i64])> = [("a", "r", &[][..])].into_iter().chain(places).collect();
        let topology = topology(&nodes, 1);
        let sizes = |count: usize| -> Vec<usize> {
            let relays = Relay::all(&replicas(1..count as u16 + 1), &topology, 1);
            relays.iter().map(|relay| relay.others.len()).collect()
        };
        assert_eq!(sizes(RELAYED_MAX + 1), [RELAYED_MAX]);
        assert_eq!(sizes(RELAYED_MAX + 2), [RELAYED_MAX, 0]);
        assert_eq!(sizes(RELAYED_MAX + 3), [RELAYED_MAX, 1]);
    }
}
