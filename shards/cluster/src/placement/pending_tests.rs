//! Pending replicas and gains between random rings, compared with the strategies before and after.

use super::*;
use crate::placement::tests::{borrowed, placed, random_replication, random_topology, token};
use crate::placement::{KeyspacePlacement, Replica, TablePlacement};
use crate::replication::tests::replication;
use crate::topology::{LiveNodes, Topology};
use model::arbitrary::{generator, pick};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A topology, its next tokens, and what it becomes.
fn changing(below: &mut impl FnMut(u64) -> u64) -> (Rc<Topology>, Rc<Topology>) {
    let before = random_topology(below);
    let mut nodes = before.nodes().to_vec();
    // Some node leaves, moves, or gets tokens for the first time.
    for _ in 0..=below(2) {
        let at = below(nodes.len() as u64) as usize;
        nodes[at].tokens = (0..below(4)).map(|_| RingToken::Murmur3(token(below).0)).collect();
    }
    let next: Vec<Vec<RingToken>> = nodes.iter().map(|node| node.tokens.clone()).collect();
    let topology = Topology::new(before.nodes().to_vec(), before.here(), before.epoch()).becoming(&next);
    (Rc::new(topology), Rc::new(Topology::new(nodes, before.here(), before.epoch())))
}

fn nodes(replicas: impl Iterator<Item = Replica>) -> BTreeSet<NodeIndex> {
    replicas.map(|replica| replica.node).collect()
}

#[test]
fn pending_replicas_are_the_next_ones_that_are_not_natural() {
    let mut seen = 0;
    for seed in 0..600 {
        let mut below = generator(seed);
        let (topology, after) = changing(&mut below);
        let (class, options) = random_replication(&mut below);
        let is_replicated_anew = below(3) == 0;
        let (next_class, next_options) = match is_replicated_anew {
            true => random_replication(&mut below),
            false => (class, options.clone()),
        };
        let (old, goal) = (replication(class, &borrowed(&options)), replication(next_class, &borrowed(&next_options)));
        let keyspace = KeyspacePlacement::changing(topology.clone(), &old, &goal);
        let gains = keyspace.gains();
        let table = TablePlacement::new(model::Home::ByToken, Rc::new(keyspace));
        let before =
            placed(&Rc::new(Topology::new(topology.nodes().to_vec(), topology.here(), 0)), class, &borrowed(&options));
        let next = placed(&after, next_class, &borrowed(&next_options));
        let ends: Vec<Token> = topology.ring().iter().chain(after.ring()).map(|(end, _)| end.token()).collect();
        for _ in 0..40 {
            let token = match below(3) {
                0 if !ends.is_empty() => *pick(&ends, &mut below),
                1 if !ends.is_empty() => Token(pick(&ends, &mut below).0.saturating_add(1)),
                _ => token(&mut below),
            };
            let replicas = table.replicas(token, &[]);
            let natural = nodes(before.replicas(token, &[]).natural());
            assert_eq!(nodes(replicas.natural()), natural, "seed {seed}: reads are as before");
            let coming: BTreeSet<NodeIndex> =
                nodes(next.replicas(token, &[]).natural()).difference(&natural).copied().collect();
            assert_eq!(nodes(replicas.pending()), coming, "seed {seed}: {token:?}");
            let whole = RingToken::Murmur3(token.0);
            let listed: BTreeSet<NodeIndex> = table.keyspace().pending_nodes_of(&whole).iter().copied().collect();
            assert_eq!(listed, coming);
            assert_eq!(nodes(replicas.written()).len(), natural.len() + coming.len(), "each once");
            let kept = nodes(next.replicas(token, &[]).natural());
            assert_eq!(replicas.only().is_some(), natural.len() == 1 && kept == natural);
            let read_then = replicas.next().map_or(natural.clone(), |next| next.nodes.iter().copied().collect());
            assert_eq!(read_then, kept, "seed {seed}: reads are going to be as afterwards");
            let covering = gains.iter().filter(|gain| gain.range.contains(token, &[]));
            let received: Vec<NodeIndex> = covering.clone().map(|gain| gain.receiver).collect();
            let receivers: BTreeSet<NodeIndex> = received.iter().copied().collect();
            assert_eq!(received.len(), receivers.len(), "seed {seed}: each range is fetched once");
            assert!(receivers.is_subset(&kept), "seed {seed}");
            assert_eq!(receivers.difference(&natural).copied().collect::<BTreeSet<_>>(), coming);
            for gain in covering {
                assert_eq!(gain.natural.iter().copied().collect::<BTreeSet<_>>(), natural);
                assert!(gain.replaces.is_none_or(|replaced| natural.contains(&replaced) && !kept.contains(&replaced)));
            }
            seen += coming.len();
        }
    }
    assert!(seen > 5_000, "{seen}");
}

/// For every set of replicas that may have acknowledged a write at a majority, and every majority of the replicas
/// afterwards, some node of the second has the write: it was among the first, or fetched from one of them.
#[test]
fn every_majority_afterwards_has_what_any_majority_acknowledged() {
    let (mut allowed, mut refused) = (0, 0);
    for factor in 1..=5_u16 {
        let all: Vec<(&str, &str, &[i64])> = (0..factor + 1).map(|_| ("a", "r", &[][..])).collect();
        let topology = crate::topology::tests::topology(&all, 1);
        let natural: Vec<NodeIndex> = (0..factor).map(NodeIndex).collect();
        let receiver = NodeIndex(factor);
        for replaces in [None, Some(NodeIndex(0))] {
            for alive in 0..1_u32 << factor {
                let live = LiveNodes::of(&topology, |node| node == receiver || alive >> node.0 & 1 == 1);
                let is_alive = |node: NodeIndex| live.contains(node);
                let gain = Gain { receiver, range: TokenRange::FULL, natural: natural.clone(), replaces };
                let Some(sources) = gain.sources(&topology, &live) else {
                    refused += 1;
                    continue;
                };
                allowed += 1;
                assert!(sources.iter().all(|source| is_alive(*source)));
                let after: Vec<NodeIndex> =
                    natural.iter().copied().filter(|node| Some(*node) != replaces).chain([receiver]).collect();
                for acked in subsets(&natural) {
                    let fetched = acked.iter().any(|node| sources.contains(node));
                    for read in subsets(&after) {
                        let has = |node: &NodeIndex| acked.contains(node) || *node == receiver && fetched;
                        assert!(read.iter().any(has), "RF {factor}, {replaces:?}, alive {alive:b}: {acked:?} {read:?}");
                    }
                }
            }
        }
    }
    assert!(allowed > 60 && refused > 12, "{allowed} {refused}");
}

/// As the test above, for whatever nodes of two data centres follow whatever others: each majority of the next
/// replicas, in all or in one data centre, has what any majority of the former ones, there, has acknowledged. Those
/// that keep a range fetch it only if they have to.
#[test]
fn d8_what_a_majority_acknowledged_survives_any_change_of_replicas() {
    let places: [(&str, &str, &[i64]); 5] =
        [("a", "r", &[]), ("a", "r", &[]), ("a", "r", &[]), ("b", "r", &[]), ("b", "r", &[])];
    let topology = crate::topology::tests::topology(&places, 1);
    let center = |node: NodeIndex| topology.data_center_of(node);
    let (all, mut judged, mut kept_and_fetched) = (places.len() as u16, 0, 0);
    let of = |bits: u32| -> Vec<NodeIndex> { (0..all).filter(|at| bits >> at & 1 == 1).map(NodeIndex).collect() };
    for (before, later) in (1..1 << all).flat_map(|before| (1..1 << all).map(move |later| (of(before), of(later)))) {
        let on = |nodes: &[NodeIndex]| Ranges::everything_on(nodes.to_vec());
        let gains = gains(&on(&before), &on(&later), center);
        kept_and_fetched += gains.iter().filter(|gain| before.contains(&gain.receiver)).count();
        for dead in before.iter().copied().map(Some).chain([None]) {
            let live = LiveNodes::of(&topology, |node| Some(node) != dead);
            let fetched: Option<Vec<(NodeIndex, Vec<NodeIndex>)>> =
                gains.iter().map(|gain| Some((gain.receiver, gain.sources(&topology, &live)?))).collect();
            let Some(fetched) = fetched.filter(|_| dead.is_none_or(|dead| !later.contains(&dead))) else { continue };
            for scope in [None, Some(center(NodeIndex(0))), Some(center(NodeIndex(4)))] {
                let within = |nodes: &[NodeIndex]| -> Vec<NodeIndex> {
                    nodes.iter().copied().filter(|node| scope.is_none_or(|scope| center(*node) == scope)).collect()
                };
                let (from, to) = (within(&before), within(&later));
                if from.is_empty() || to.is_empty() {
                    continue;
                }
                for acked in subsets(&from) {
                    let has = |node: &NodeIndex| {
                        let got = |(receiver, sources): &(NodeIndex, Vec<NodeIndex>)| {
                            receiver == node && sources.iter().any(|source| acked.contains(source))
                        };
                        acked.contains(node) || fetched.iter().any(got)
                    };
                    for read in subsets(&to) {
                        judged += 1;
                        let what = || format!("{before:?} to {later:?}, dead {dead:?}: {acked:?} not seen by {read:?}");
                        assert!(read.iter().any(has), "{}", what());
                    }
                }
            }
        }
    }
    assert!(judged > 10_000 && kept_and_fetched > 100, "{judged} {kept_and_fetched}");
    let who = |before: &[u16], later: &[u16]| -> Vec<u16> {
        let on = |nodes: &[u16]| Ranges::everything_on(nodes.iter().copied().map(NodeIndex).collect());
        super::gains(&on(before), &on(later), |_| DataCenter(0)).iter().map(|gain| gain.receiver.0).collect()
    };
    assert_eq!(who(&[0, 1, 2], &[0]), [0]);
    assert_eq!(who(&[0, 1, 2, 3, 4], &[0, 1, 2]), [0, 1, 2]);
    for (before, later) in [(&[0, 1, 2][..], &[0, 1][..]), (&[0, 1], &[0]), (&[0, 1, 2, 3], &[0, 1, 2])] {
        assert_eq!(who(before, later), [0; 0], "{before:?} to {later:?}: a majority of each meets one of the other");
    }
}

/// The smallest majorities of some nodes.
fn subsets(nodes: &[NodeIndex]) -> Vec<Vec<NodeIndex>> {
    let majority = nodes.len() / 2 + 1;
    let chosen = |bits: u32| -> Vec<NodeIndex> {
        nodes.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, node)| *node).collect()
    };
    (0..1_u32 << nodes.len()).filter(|bits| bits.count_ones() as usize == majority).map(chosen).collect()
}

#[test]
fn a_range_that_gets_fewer_replicas_is_fetched_from_a_majority() {
    let on = |nodes: &[u16]| Ranges::everything_on(nodes.iter().copied().map(NodeIndex).collect());
    let replaced = |before: &[u16], later: &[u16]| -> Vec<Option<u16>> {
        gains(&on(before), &on(later), |_| DataCenter(0)).iter().map(|gain| gain.replaces.map(|node| node.0)).collect()
    };
    assert_eq!(replaced(&[0, 1, 2], &[3, 1, 2]), [Some(0)]);
    assert_eq!(replaced(&[0, 1], &[3, 1, 2]), [Some(0), None]);
    assert_eq!(replaced(&[0, 1, 2], &[3]), [None], "a write may be on 1 and 2 alone");
}

/// A write that LOCAL_QUORUM acknowledged in one data centre is not on a node that loses its range in another one.
#[test]
fn nobody_takes_the_place_of_a_node_of_another_data_center() {
    let on = |nodes: &[u16]| Ranges::everything_on(nodes.iter().copied().map(NodeIndex).collect());
    // Nodes 0 to 3 are in the first data centre, the others in the second.
    let pairs = |before: &[u16], later: &[u16]| -> Vec<(u16, Option<u16>)> {
        let gains = gains(&on(before), &on(later), |node| DataCenter(node.0 / 4));
        gains.iter().map(|gain| (gain.receiver.0, gain.replaces.map(|node| node.0))).collect()
    };
    assert_eq!(
        pairs(&[0, 1, 2, 4], &[0, 4, 5, 6]),
        [(5, None), (6, None), (0, None)],
        "the first has one of three left"
    );
    assert_eq!(pairs(&[0, 1, 4, 5], &[3, 1, 4, 6]), [(3, Some(0)), (6, Some(5))]);
    assert_eq!(pairs(&[0, 1, 2, 4], &[3, 4, 5, 6]), [(3, None), (5, None), (6, None)]);
}

#[test]
fn majorities_are_counted_where_nodes_change() {
    let on = |nodes: &[u16]| Ranges::everything_on(nodes.iter().copied().map(NodeIndex).collect());
    let is_left = |had: &[u16], has: &[u16], passed: &[u16]| {
        may_be_read_without(&on(has), &on(had), |node| passed.contains(&node.0))
    };
    let of_three = |passed: &[u16]| is_left(&[0, 1, 2], &[3, 1, 2], passed);
    assert!(!of_three(&[1, 2]) && !of_three(&[0, 2]) && of_three(&[3, 2]) && of_three(&[0]));
    let of_two = |passed: &[u16]| is_left(&[0, 1], &[3, 1], passed);
    assert!(!of_two(&[0]) && !of_two(&[1]) && of_two(&[3]), "of two, one is no majority");
    assert!(is_left(&[0], &[1], &[1]) && !is_left(&[0], &[1], &[0]));
    assert!(!is_left(&[1, 0], &[0, 1], &[]), "nothing moves");
    assert!(!is_left(&[0], &[0, 1, 2], &[]), "nobody loses anything");
}

#[test]
fn sources_are_near_if_these_are_enough() {
    let places = [("a", "r", &[][..]), ("b", "r", &[]), ("b", "r", &[]), ("b", "r", &[]), ("b", "r", &[])];
    let topology = crate::topology::tests::topology(&places, 1);
    let natural: Vec<NodeIndex> = (0..4).map(NodeIndex).collect();
    let gain = Gain { receiver: NodeIndex(4), range: TokenRange::FULL, natural, replaces: None };
    let sources = |dead: &[u16]| {
        let live = LiveNodes::of(&topology, |node| !dead.contains(&node.0));
        gain.sources(&topology, &live).map(|nodes| nodes.iter().map(|node| node.0).collect::<Vec<_>>())
    };
    assert_eq!(sources(&[]), Some(vec![1, 2]), "two of four, and of its data centre's three");
    assert_eq!(sources(&[1]), Some(vec![2, 3]));
    assert_eq!(sources(&[1, 2]), None, "a majority of the data centre may have been these");
}

#[test]
fn what_several_dead_nodes_had_is_fetched_from_whoever_is_left() {
    let topology =
        crate::topology::tests::topology(&[("a", "r", &[]), ("a", "r", &[]), ("a", "r", &[]), ("a", "r", &[])], 1);
    let natural: Vec<NodeIndex> = (0..3).map(NodeIndex).collect();
    let gain = Gain { receiver: NodeIndex(3), range: TokenRange::FULL, natural, replaces: None };
    let live = LiveNodes::of(&topology, |node| node.0 == 0 || node.0 == 3);
    assert_eq!(gain.sources(&topology, &live), None, "a majority is dead");
    let left = |gone: &[u16]| gain.remaining(&live, |node| gone.contains(&node.0));
    assert_eq!(left(&[1, 2]), Some(vec![NodeIndex(0)]));
    assert_eq!(left(&[1]), None, "the other one may come back");
    assert_eq!(left(&[0, 1, 2]), Some(Vec::new()), "nobody has it");
}
