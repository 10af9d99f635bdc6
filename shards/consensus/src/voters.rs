//! Choosing who votes.
//!
//! Few members vote, because each vote is a round trip; they are spread so that the loss of a rack or a data centre
//! costs as few of them as possible.

use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// A node that may vote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The node.
    pub node: Uuid,
    /// Its data centre.
    pub data_centre: String,
    /// Its rack within the data centre.
    pub rack: String,
    /// Whether it can be reached now.
    pub alive: bool,
}

/// The most voters of a group of fewer than [`MANY_NODES`] nodes.
pub const VOTERS_MAX: usize = 5;
/// The most voters of a larger group.
pub const VOTERS_OF_MANY_MAX: usize = 7;
/// From how many nodes on a group is a larger one.
pub const MANY_NODES: usize = 30;

/// Who should vote: at most [`VOTERS_MAX`] (from [`MANY_NODES`] nodes on [`VOTERS_OF_MANY_MAX`]) of `candidates`.
///
/// Nodes are taken one after another, always from the data centre with the fewest voters so far, there from the rack
/// with the fewest; among equals the present voters (`voters`) first, then by id. The number of voters is odd where
/// there are three or more, because an even one tolerates no more losses. A node that is not alive stays a voter only
/// if too few others are alive to replace it, so that a restart of a node in a small group changes nothing.
pub fn choose_voters(candidates: &[Candidate], voters: &BTreeSet<Uuid>) -> BTreeSet<Uuid> {
    let most = if candidates.len() < MANY_NODES { VOTERS_MAX } else { VOTERS_OF_MANY_MAX };
    let count = match candidates.len().min(most) {
        even if even > 2 && even % 2 == 0 => even - 1,
        count => count,
    };
    let mut chosen = BTreeSet::new();
    let mut in_data_centre: BTreeMap<&str, usize> = BTreeMap::new();
    let mut in_rack: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    while chosen.len() < count {
        let rank = |candidate: &&Candidate| {
            let (data_centre, rack) = (candidate.data_centre.as_str(), candidate.rack.as_str());
            let crowd = in_data_centre.get(data_centre).copied().unwrap_or(0);
            let neighbours = in_rack.get(&(data_centre, rack)).copied().unwrap_or(0);
            let votes = voters.contains(&candidate.node);
            (!candidate.alive, !candidate.alive && !votes, crowd, neighbours, !votes, candidate.node)
        };
        let free = candidates.iter().filter(|candidate| !chosen.contains(&candidate.node));
        let Some(next) = free.min_by_key(rank) else { break };
        chosen.insert(next.node);
        *in_data_centre.entry(&next.data_centre).or_default() += 1;
        *in_rack.entry((&next.data_centre, &next.rack)).or_default() += 1;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::{Candidate, MANY_NODES, VOTERS_MAX, VOTERS_OF_MANY_MAX, choose_voters};
    use std::collections::{BTreeMap, BTreeSet};
    use uuid::Uuid;

    fn node(n: usize, data_centre: &str, rack: &str) -> Candidate {
        let node = Uuid::from_u128(n as u128);
        Candidate { node, data_centre: data_centre.to_owned(), rack: rack.to_owned(), alive: true }
    }

    fn ids(ids: &[usize]) -> BTreeSet<Uuid> {
        ids.iter().map(|n| Uuid::from_u128(*n as u128)).collect()
    }

    #[test]
    fn a_group_has_an_odd_number_of_voters_up_to_its_limit() {
        for (nodes, voters) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (5, 5), (6, 5), (29, 5), (30, 7), (300, 7)] {
            let candidates: Vec<_> = (0..nodes).map(|n| node(n, "dc1", "r1")).collect();
            assert_eq!(choose_voters(&candidates, &BTreeSet::new()).len(), voters, "{nodes} nodes");
        }
        assert_eq!((VOTERS_MAX, VOTERS_OF_MANY_MAX, MANY_NODES), (5, 7, 30));
    }

    #[test]
    fn voters_are_spread_over_data_centres_and_racks() {
        let mut candidates = Vec::new();
        for n in 0..12 {
            candidates.push(node(n, ["a", "b"][n / 6], ["r1", "r2", "r3"][n % 3]));
        }
        let chosen = choose_voters(&candidates, &BTreeSet::new());
        let mut racks: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for candidate in candidates.iter().filter(|candidate| chosen.contains(&candidate.node)) {
            *racks.entry((&candidate.data_centre, &candidate.rack)).or_default() += 1;
        }
        assert_eq!(racks.len(), 5, "no rack has two voters: {racks:?}");
    }

    #[test]
    fn present_voters_stay_where_the_spread_allows_it() {
        let candidates: Vec<_> = (0..9).map(|n| node(n, "dc1", "r1")).collect();
        let present = ids(&[3, 5, 6, 7, 8]);
        assert_eq!(choose_voters(&candidates, &present), present);
        let without: Vec<_> = candidates.iter().filter(|c| c.node != Uuid::from_u128(5)).cloned().collect();
        assert_eq!(choose_voters(&without, &present), ids(&[0, 3, 6, 7, 8]));
    }

    #[test]
    fn a_dead_voter_is_replaced_if_there_is_somebody_else() {
        let mut candidates: Vec<_> = (0..6).map(|n| node(n, "dc1", "r1")).collect();
        candidates[2].alive = false;
        let present = ids(&[0, 1, 2, 3, 4]);
        assert_eq!(choose_voters(&candidates, &present), ids(&[0, 1, 3, 4, 5]));
        let few = &candidates[..3];
        assert_eq!(choose_voters(few, &ids(&[0, 1, 2])), ids(&[0, 1, 2]));
    }
}
