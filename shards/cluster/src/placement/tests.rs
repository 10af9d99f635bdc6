//! Placements of a single node, and random rings compared with a plain reading of the strategies.

use super::*;
use crate::replication::tests::replication;
use crate::topology::DataCenter;
use crate::topology::tests::topology;
use model::arbitrary::{generator, pick};
use model::schema::TableOptions;
use model::token::RingPosition;
use model::{Keyspace, Partitioner, ShardMap, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a table of a keyspace with this replication is.
pub(crate) fn placed(topology: &Rc<Topology>, class: &str, options: &[(&str, &str)]) -> TablePlacement {
    let keyspace = KeyspacePlacement::new(topology.clone(), &replication(class, options));
    TablePlacement::new(Home::ByToken, Rc::new(keyspace))
}

/// A table of a keyspace that is read by the first replication and is going to be by the second.
pub(crate) fn changing(
    topology: &Rc<Topology>,
    now: (&str, &[(&str, &str)]),
    next: (&str, &[(&str, &str)]),
) -> TablePlacement {
    let (now, next) = (replication(now.0, now.1), replication(next.0, next.1));
    let keyspace = KeyspacePlacement::changing(topology.clone(), &now, &next);
    TablePlacement::new(Home::ByToken, Rc::new(keyspace))
}

/// A ring of 1 to 12 nodes in up to three data centres of up to three racks each, with 1 to 5 tokens each. Nodes have
/// the names and racks that `topology` is given.
pub(crate) fn random_topology(below: &mut impl FnMut(u64) -> u64) -> Rc<Topology> {
    let (centers, racks) = (1 + below(3), 1 + below(3));
    let names = ["dc1", "dc2", "dc3"];
    let tokens: Vec<Vec<i64>> =
        (0..1 + below(12)).map(|_| (0..1 + below(5)).map(|_| token(below).0).collect()).collect();
    let nodes: Vec<(&str, &str, &[i64])> = tokens
        .iter()
        .map(|tokens| (names[below(centers) as usize], ["r1", "r2", "r3"][below(racks) as usize], &tokens[..]))
        .collect();
    Rc::new(topology(&nodes, 1 + below(4) as u16))
}

/// A token; often one of a few, so that ranges are met at their ends.
pub(crate) fn token(below: &mut impl FnMut(u64) -> u64) -> Token {
    match below(4) {
        0 => *pick(&[Token::MIN, Token(i64::MIN + 1), Token(-1), Token(0), Token::MAX], below),
        1 => Token(below(40) as i64 - 20),
        _ => Token(below(u64::MAX) as i64),
    }
}

/// The tokens from `first` to `last`.
pub(crate) fn range_of(first: Token, last: Token) -> TokenRange {
    let position = |token: Token, is_after| Some(RingPosition { token: RingToken::Murmur3(token.0), is_after });
    TokenRange { start: position(first, false), end: position(last, true) }
}

/// A strategy with its options.
pub(crate) fn random_replication(below: &mut impl FnMut(u64) -> u64) -> (&'static str, Vec<(&'static str, String)>) {
    match below(2) {
        0 => ("SimpleStrategy", vec![("replication_factor", below(5).to_string())]),
        _ => {
            let names = ["dc1", "dc2", "dc3"].into_iter().take(1 + below(3) as usize);
            ("NetworkTopologyStrategy", names.map(|name| (name, below(5).to_string())).collect())
        }
    }
}

pub(crate) fn borrowed<'a>(options: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    options.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// The nodes in the order in which the ring meets them from `token` on.
fn walk(topology: &Topology, token: Token) -> Vec<NodeIndex> {
    let (before, from): (Vec<_>, Vec<_>) = topology.ring().iter().partition(|(end, _)| end.token() < token);
    from.into_iter().chain(before).map(|(_, node)| *node).collect()
}

/// The replicas of SimpleStrategy: the first `factor` different nodes.
fn simple(topology: &Topology, token: Token, factor: usize) -> Vec<NodeIndex> {
    let mut seen = BTreeSet::new();
    walk(topology, token).into_iter().filter(|node| seen.insert(*node)).take(factor).collect()
}

/// The replicas of NetworkTopologyStrategy in one data centre. Going around, a node is taken if its rack is new or if
/// one of the repeats is left that the factor needs beyond one node of each rack.
fn in_data_center(topology: &Topology, token: Token, center: DataCenter, factor: usize) -> BTreeSet<NodeIndex> {
    let there = |node: &NodeIndex| topology.data_center_of(*node) == center;
    let nodes: Vec<NodeIndex> = simple(topology, token, usize::MAX).into_iter().filter(there).collect();
    let rack = |node: &NodeIndex| topology.node(*node).rack.clone();
    let racks: BTreeSet<String> = nodes.iter().map(rack).collect();
    let (mut chosen, mut met, mut repeats) = (BTreeSet::new(), BTreeSet::new(), factor.saturating_sub(racks.len()));
    // A node that was passed over is met again at its other tokens.
    for node in walk(topology, token).into_iter().filter(there) {
        if chosen.len() == factor.min(nodes.len()) || chosen.contains(&node) {
            continue;
        }
        if met.insert(rack(&node)) {
            chosen.insert(node);
        } else if repeats > 0 {
            repeats -= 1;
            chosen.insert(node);
        }
    }
    chosen
}

#[test]
fn random_rings_have_the_replicas_of_their_strategies() {
    for seed in 0..400 {
        let mut below = generator(seed);
        let topology = random_topology(&mut below);
        let (class, options) = random_replication(&mut below);
        let table = placed(&topology, class, &borrowed(&options));
        let ends: Vec<Token> = topology.ring().iter().map(|(end, _)| end.token()).collect();
        for _ in 0..50 {
            let token = match below(3) {
                0 => *pick(&ends, &mut below),
                1 => Token(pick(&ends, &mut below).0.saturating_add(1)),
                _ => token(&mut below),
            };
            let found: Vec<Replica> = table.replicas(token, &[]).natural().collect();
            let nodes: Vec<NodeIndex> = found.iter().map(|replica| replica.node).collect();
            match class {
                "SimpleStrategy" => {
                    let factor = options[0].1.parse().expect("a factor");
                    assert_eq!(nodes, simple(&topology, token, factor), "seed {seed}, {token:?}");
                }
                _ => {
                    let mut expected = BTreeSet::new();
                    for (name, factor) in &options {
                        if let Some(center) = topology.data_center(name) {
                            let factor = factor.parse().expect("a factor");
                            expected.extend(in_data_center(&topology, token, center, factor));
                        }
                    }
                    assert_eq!(nodes.iter().copied().collect::<BTreeSet<_>>(), expected, "seed {seed}, {token:?}");
                    assert_eq!(nodes.len(), expected.len(), "seed {seed}: each node once");
                }
            }
            for replica in &found {
                assert_eq!(replica.shard, topology.node(replica.node).shards.owner(token));
            }
            assert_eq!(table.replicas(token, &[]).only(), <[Replica; 1]>::try_from(found).ok().map(|[only]| only));
        }
    }
}

#[test]
fn ranges_cover_what_is_asked_for_and_agree_with_lookups() {
    for seed in 0..400 {
        let mut below = generator(seed);
        let topology = random_topology(&mut below);
        let (class, options) = random_replication(&mut below);
        let table = placed(&topology, class, &borrowed(&options));
        let (a, b) = (token(&mut below), token(&mut below));
        let (first, last) = (a.min(b), a.max(b));
        let limits = range_of(first, last);
        let found: Vec<RingRange<'_>> = table.keyspace().ranges(&limits).collect();
        let token_of = |end: Option<&RingToken>, none| end.map_or(none, RingToken::token);
        assert!(found[0].after.is_none_or(|after| after.token() < first), "seed {seed}");
        assert!(found.last().is_some_and(|range| token_of(range.until, Token::MAX) >= last), "seed {seed}");
        for pair in found.windows(2) {
            assert_eq!(pair[1].after, pair[0].until, "seed {seed}");
            let until = token_of(pair[0].until, Token::MAX);
            assert!(until >= first && until < last, "seed {seed}: no range is in vain");
        }
        for range in &found {
            let until = token_of(range.until, Token::MAX);
            assert_eq!(range.nodes, table.keyspace().nodes_of(&RingToken::Murmur3(until.0)), "seed {seed}");
            let begin = range.after.map_or(i64::MIN, |after| after.token().0 + 1);
            assert_eq!(range.nodes, table.keyspace().nodes_of(&RingToken::Murmur3(begin)), "seed {seed}");
            let part = range.within(&limits);
            for token in [first, last, until, Token(begin), token(&mut below)] {
                let is_in_both = (begin..=until.0).contains(&token.0) && limits.contains(token, &[]);
                assert_eq!(part.contains(token, &[]), is_in_both, "seed {seed}, {token:?}");
            }
        }
        if first < last {
            let nothing = TokenRange { start: limits.end.clone(), end: limits.start.clone() };
            assert_eq!(table.keyspace().ranges(&nothing).count(), 0);
        }
        let owned: f64 = table.keyspace().shares().iter().sum();
        let copies = table.keyspace().nodes_of(&RingToken::Murmur3(0)).len() as f64;
        assert!((owned - copies).abs() < 1e-9, "seed {seed}: {owned} of {copies}");
    }
}

/// Keyspaces of every strategy on one node, as `Placement` finds them.
#[test]
fn one_node_has_everything() {
    let here = Rc::new(topology(&[("datacenter1", "rack1", &[-50, 7, 1 << 60])], 3));
    let mut schema = Schema::empty(Partitioner::Murmur3);
    let mut id = 0;
    let mut keyspace = |name: &str, class: &str, options: &[(&str, &str)], tables: &[&str]| {
        let mut table = |name: &str, keyspace: &str| {
            id += 1;
            Arc::new(Table {
                id: TableId([id; 16]),
                keyspace: keyspace.into(),
                name: name.into(),
                columns: Vec::new(),
                partition_key_len: 0,
                clustering_len: 0,
                static_len: 0,
                layout: model::schema::Layout::Plain,
                dropped: Vec::new(),
                indexes: Vec::new(),
                masks: Default::default(),
                options: TableOptions::default(),
            })
        };
        schema.put_keyspace(Arc::new(Keyspace {
            name: name.into(),
            replication: replication(class, options),
            durable_writes: true,
            tablets: None,
            quota: Default::default(),
            tables: tables.iter().map(|of| (of.to_string(), table(of, name))).collect(),
            types: BTreeMap::new(),
        }));
    };
    keyspace("system", "LocalStrategy", &[], &["local", "batches"]);
    keyspace("everywhere", "EverywhereStrategy", &[], &["t"]);
    keyspace("simple", "SimpleStrategy", &[("replication_factor", "3")], &["t"]);
    keyspace("topology", "NetworkTopologyStrategy", &[("datacenter1", "2")], &["t"]);
    keyspace("away", "NetworkTopologyStrategy", &[("datacenter2", "2")], &["t"]);
    keyspace("nowhere", "SimpleStrategy", &[("replication_factor", "0")], &["t"]);
    let placement = Placement::new(here.clone(), &schema);
    let mut below = generator(1);
    let by_token = ShardMap::new(Partitioner::Murmur3, 3);
    for _ in 0..100 {
        let token = token(&mut below);
        let replicas = |keyspace: &str, table: &str| -> Vec<(u16, u16)> {
            let id = schema.table(keyspace, table).expect("a table").id;
            let placed = placement.table(id).expect("placed");
            placed.replicas(token, &[]).natural().map(|replica| (replica.node.0, replica.shard)).collect()
        };
        let owner = by_token.owner(token);
        assert_eq!(replicas("system", "local"), [(0, 0)]);
        for (keyspace, table) in [("system", "batches"), ("everywhere", "t"), ("simple", "t"), ("topology", "t")] {
            assert_eq!(replicas(keyspace, table), [(0, owner)], "{keyspace}.{table}");
        }
        assert_eq!(replicas("away", "t"), []);
        assert_eq!(replicas("nowhere", "t"), []);
    }
    let cores = |keyspace, table| {
        let id = schema.table(keyspace, table).expect("a table").id;
        placement.table(id).expect("placed").shards_of(NodeIndex(0))
    };
    assert_eq!((cores("system", "local"), cores("simple", "t")), (0..1, 0..3));
    let owned = |keyspace| placement.keyspace(keyspace).expect("placed").shares()[0];
    assert_eq!((owned("simple"), owned("system"), owned("nowhere")), (1.0, 1.0, 0.0));
    assert!(placement.table(TableId([99; 16])).is_none() && placement.keyspace("none").is_none());
}

/// Keys and node tokens of few letters, many of which begin with the same 64 bits.
#[test]
fn ends_with_equal_prefixes_are_told_apart() {
    let mut below = generator(3);
    let word = |below: &mut dyn FnMut(u64) -> u64| -> Vec<u8> {
        let head: &[u8] = if below(3) > 0 { b"abcdefgh" } else { b"" };
        head.iter()
            .copied()
            .chain((0..below(4)).map(|_| *b"\x00a\xff".get(below(3) as usize).expect("of three")))
            .collect()
    };
    for partitioner in [Partitioner::Random, Partitioner::ByteOrdered, Partitioner::OrderPreserving] {
        for seed in 0..300 {
            let mut nodes = topology(&[("a", "r", &[]), ("a", "r", &[]), ("a", "r", &[])], 1).nodes().to_vec();
            for node in &mut nodes {
                node.tokens = (0..3).map(|_| partitioner.ring_token(&word(&mut below))).collect();
            }
            let ring = Rc::new(Topology::new(nodes, NodeIndex(0), 0));
            let table = placed(&ring, "SimpleStrategy", &[("replication_factor", "1")]);
            for _ in 0..20 {
                let key = word(&mut below);
                let whole = partitioner.ring_token(&key);
                let owner = ring.ring().iter().find(|(end, _)| *end >= whole).unwrap_or(&ring.ring()[0]).1;
                let found = table.replicas(partitioner.token(&key), &key).only().expect("one").node;
                assert_eq!(found, owner, "{partitioner:?}, seed {seed}: {key:02x?}");
                assert_eq!(table.keyspace().nodes_of(&whole), [owner]);
                let pieces = table.keyspace().ranges(&TokenRange::FULL);
                let pieces = pieces.map(|range| (range.within(&TokenRange::FULL), range.nodes));
                let of_key = pieces.filter(|(range, _)| range.contains(partitioner.token(&key), &key));
                assert_eq!(of_key.map(|(_, nodes)| nodes.to_vec()).collect::<Vec<_>>(), [vec![owner]]);
            }
        }
    }
}
