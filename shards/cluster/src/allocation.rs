//! Tokens for a node that joins, so that the nodes of its data centre have about equal shares of the data
//! (`allocate_tokens_for_local_replication_factor`).
//!
//! 1. The first node of a data centre gets tokens at equal distances, from a random one on.
//! 2. Any other gets one token after the other. Each divides one of the largest ranges near its middle: the one after
//!    which the shares of the others differ least and the node has come nearest to the part of its share that its
//!    tokens so far should give it.
//! 3. A node's share is that of NetworkTopologyStrategy with the factor given, racks included.
//!
//! Only the tokens of Murmur3 are numbers that ranges can be divided by; under another partitioner they are random.

use crate::placement::KeyspacePlacement;
use crate::topology::{Node, NodeIndex, Topology};
use model::schema::Replication;
use model::{Partitioner, RingToken};
use std::collections::BTreeSet;
use std::rc::Rc;

/// How many of the largest ranges are looked at for each token.
const CANDIDATES: usize = 32;
/// A range is divided at this part of it at the earliest, and at one minus this at the latest. Not always at the same,
/// so that two nodes that join at once hardly get the same token.
const EDGE: f64 = 0.35;
/// How much more the share of the new node counts than that of another, by the number of nodes.
const OWN_WEIGHT: f64 = 0.3;

/// `count` tokens for `new`, which joins `nodes`, of which those of its data centre with tokens count. `factor` is the
/// replication factor there; `random` gives uniform words.
pub fn allocate(
    nodes: &[Node],
    new: &Node,
    count: usize,
    factor: u32,
    random: &mut dyn FnMut() -> u64,
) -> BTreeSet<RingToken> {
    let partitioner = new.shards.partitioner;
    if partitioner != Partitioner::Murmur3 {
        return partitioner.random_tokens(count, random);
    }
    let taken: BTreeSet<&RingToken> = nodes.iter().flat_map(|node| &node.tokens).collect();
    let is_neighbour = |node: &&Node| node.data_center == new.data_center && !node.tokens.is_empty();
    let mut ring: Vec<Node> = nodes.iter().filter(is_neighbour).cloned().collect();
    if ring.is_empty() {
        return spaced(count, &taken, random);
    }
    ring.push(Node { tokens: Vec::new(), ..new.clone() });
    let target = f64::from(factor).min(ring.len() as f64) / ring.len() as f64;
    for number in 1..=count {
        let wanted = target * number as f64 / count as f64;
        let tokens = candidates(&ring, &taken, random);
        let costs = tokens.into_iter().map(|token| (cost(&mut ring, &token, factor, wanted), token));
        let best = costs.min_by(|(a, _), (b, _)| a.total_cmp(b));
        if let (Some((_, token)), Some(own)) = (best, ring.last_mut()) {
            own.tokens.push(token);
        }
    }
    ring.pop().map(|own| own.tokens.into_iter().collect()).unwrap_or_default()
}

/// `count` tokens for the first node of a cluster.
pub fn first(partitioner: Partitioner, count: usize, random: &mut dyn FnMut() -> u64) -> BTreeSet<RingToken> {
    match partitioner {
        Partitioner::Murmur3 => spaced(count, &BTreeSet::new(), random),
        _ => partitioner.random_tokens(count, random),
    }
}

/// Tokens at equal distances.
fn spaced(count: usize, taken: &BTreeSet<&RingToken>, random: &mut dyn FnMut() -> u64) -> BTreeSet<RingToken> {
    let mut tokens = BTreeSet::new();
    while tokens.len() < count {
        let first = random();
        let step = u64::MAX / count.max(1) as u64;
        let all = (0..count as u64).map(|at| token(first.wrapping_add(at * step)));
        tokens = all.filter(|token| !token.is_minimum() && !taken.contains(token)).collect();
    }
    tokens
}

fn token(prefix: u64) -> RingToken {
    RingToken::Murmur3((prefix ^ 1 << 63) as i64)
}

/// A token in each of the largest ranges.
fn candidates(ring: &[Node], taken: &BTreeSet<&RingToken>, random: &mut dyn FnMut() -> u64) -> Vec<RingToken> {
    let mut ends: Vec<u64> = ring.iter().flat_map(|node| &node.tokens).map(|token| token.token().prefix()).collect();
    ends.sort_unstable();
    let starts = ends.iter().cycle().skip(ends.len().saturating_sub(1));
    let mut ranges: Vec<(u64, u64)> =
        ends.iter().zip(starts).map(|(end, start)| (end.wrapping_sub(*start), *start)).collect();
    // The only token of a ring has all of it.
    if let [(size @ 0, _)] = ranges.as_mut_slice() {
        *size = u64::MAX;
    }
    ranges.sort_unstable_by(|a, b| b.cmp(a));
    ranges.truncate(CANDIDATES);
    let divided = |(size, start): (u64, u64)| {
        let part = EDGE + (1.0 - 2.0 * EDGE) * (random() as f64 / u64::MAX as f64);
        token(start.wrapping_add((size as f64 * part) as u64))
    };
    let tokens: Vec<RingToken> = ranges.into_iter().map(divided).collect();
    tokens.into_iter().filter(|token| !token.is_minimum() && !taken.contains(token)).collect()
}

/// How far from equal the shares are if the last node of the ring has this token too.
fn cost(ring: &mut [Node], token: &RingToken, factor: u32, wanted: f64) -> f64 {
    let Some((own, _)) = ring.split_last_mut() else { return 0.0 };
    own.tokens.push(token.clone());
    let shares = shares(ring, factor);
    if let Some(own) = ring.last_mut() {
        own.tokens.pop();
    }
    let Some((own, others)) = shares.split_last() else { return 0.0 };
    let average = others.iter().sum::<f64>() / others.len() as f64;
    let squares: f64 = others.iter().map(|share| (share - average).powi(2)).sum();
    squares + OWN_WEIGHT * shares.len() as f64 * (own - wanted).powi(2)
}

/// The part of the data of one data centre that each of its nodes has.
fn shares(ring: &[Node], factor: u32) -> Vec<f64> {
    let Some(first) = ring.first() else { return Vec::new() };
    let replication = Replication {
        class: "NetworkTopologyStrategy".into(),
        options: [(first.data_center.clone(), factor.to_string())].into(),
    };
    let topology = Rc::new(Topology::new(ring.to_vec(), NodeIndex(0), 0));
    KeyspacePlacement::new(topology, &replication).shares()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ShardMap;
    use uuid::Uuid;

    const TOKENS: usize = 16;
    const FACTOR: u32 = 3;

    fn node(number: usize, data_center: &str, rack: &str) -> Node {
        Node {
            host_id: Uuid::from_u128(number as u128 + 1),
            address: ([127, 0, (number / 200) as u8, (number % 200) as u8 + 1], 7000).into(),
            data_center: data_center.into(),
            rack: rack.into(),
            shards: ShardMap::new(Partitioner::Murmur3, 1),
            tokens: Vec::new(),
            features: 0,
        }
    }

    /// Nodes that join one after the other, each in a rack of its own turn.
    fn grown(nodes: usize, racks: usize, seed: u64) -> Vec<Node> {
        let mut below = model::arbitrary::generator(seed);
        let mut random = || (below(1 << 32) as u64) << 32 | below(1 << 32) as u64;
        let mut ring: Vec<Node> = Vec::new();
        for number in 0..nodes {
            let mut new = node(number, "dc", &format!("r{}", number % racks));
            new.tokens = allocate(&ring, &new, TOKENS, FACTOR, &mut random).into_iter().collect();
            assert_eq!(new.tokens.len(), TOKENS);
            ring.push(new);
        }
        ring
    }

    /// The largest and the smallest share, by the average.
    fn imbalance(ring: &[Node]) -> (f64, f64) {
        let shares = shares(ring, FACTOR);
        let average = shares.iter().sum::<f64>() / shares.len() as f64;
        let most = shares.iter().copied().fold(0.0, f64::max) / average;
        (most, shares.iter().copied().fold(f64::MAX, f64::min) / average)
    }

    #[test]
    fn shares_are_nearly_equal() {
        for (nodes, racks) in [(3, 1), (6, 1), (12, 1), (12, 3)] {
            let (mut most, mut least) = (0.0_f64, f64::MAX);
            for seed in 0..3 {
                let (more, less) = imbalance(&grown(nodes, racks, seed));
                (most, least) = (most.max(more), least.min(less));
            }
            assert!(most < 1.15 && least > 0.85, "{nodes} nodes in {racks} racks: {least:.3} to {most:.3}");
        }
    }

    #[test]
    fn the_first_node_of_a_data_centre_has_ranges_of_one_size() {
        let other = Node { tokens: vec![RingToken::Murmur3(5)], ..node(0, "dc1", "r") };
        let mut words = [5 ^ 1 << 63, 77].into_iter();
        // The first attempt would have the token of the other node.
        let tokens = allocate(&[other], &node(1, "dc2", "r"), 4, FACTOR, &mut || words.next().expect("two"));
        let numbers: Vec<u64> = tokens.iter().map(|token| token.token().prefix()).collect();
        let step = u64::MAX / 4;
        assert_eq!(numbers, [77, 77 + step, 77 + 2 * step, 77 + 3 * step]);
    }

    #[test]
    fn one_token_each_halves_the_ring() {
        let mut word = 1 << 63;
        let mut random = || {
            word += 1;
            word
        };
        let mut first = node(0, "dc", "r");
        first.tokens = allocate(&[], &first, 1, 1, &mut random).into_iter().collect();
        let mut second = node(1, "dc", "r");
        second.tokens = allocate(std::slice::from_ref(&first), &second, 1, 1, &mut random).into_iter().collect();
        let shares = shares(&[first, second], 1);
        assert!((0.49..0.51).contains(&shares[0]), "{shares:?}");
    }

    #[test]
    fn other_partitioners_get_random_tokens() {
        let new = Node { shards: ShardMap::new(Partitioner::ByteOrdered, 1), ..node(0, "dc", "r") };
        let mut word = 0;
        let mut random = || {
            word += 1;
            word
        };
        assert_eq!(allocate(&[], &new, 7, FACTOR, &mut random).len(), 7);
    }
}
