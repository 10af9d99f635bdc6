//! Reads of parts of random rings.

use super::*;
use crate::placement::Replica;
use crate::placement::tests::{borrowed, placed, random_replication, random_topology, range_of, token};
use crate::plan::NextRead;
use crate::plan::tests::{LEVELS, by_hand, random_live};
use model::arbitrary::{generator, pick};
use model::failure::Detail;
use model::{ErrorCode, RingToken, Token};
use std::collections::BTreeSet;

fn run(seed: u64) {
    let mut below = generator(seed);
    let topology = random_topology(&mut below);
    let (class, options) = random_replication(&mut below);
    let table = placed(&topology, class, &borrowed(&options));
    let live = random_live(&topology, &mut below);
    let level = *pick(&LEVELS[1..], &mut below);
    let by_hand = by_hand(class, &options, level);
    let (a, b) = (token(&mut below), token(&mut below));
    let (first, last) = (a.min(b), a.max(b));
    let is_met = |token| {
        let alive: BTreeSet<_> = table
            .replicas(token, &[])
            .natural()
            .map(|replica| replica.node)
            .filter(|node| live.contains(*node))
            .collect();
        by_hand.is_met(&topology, &alive)
    };
    let limits = range_of(first, last);
    let until = |end: Option<&RingToken>| end.map_or(Token::MAX, RingToken::token);
    let all_met = table.keyspace().ranges(&limits).all(|range| is_met(until(range.until)));
    let pieces = RangePiece::all(level, &table, &limits, &live);
    if !all_met {
        assert_eq!(pieces.expect_err("a piece is unavailable").code, ErrorCode::Unavailable, "seed {seed}");
        return;
    }
    let mut pieces = pieces.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let ranges: Vec<TokenRange> = pieces.iter().map(|piece| piece.range.clone()).collect();
    let mut nodes_before = None;
    for (at, piece) in pieces.iter_mut().enumerate() {
        let before = at.checked_sub(1).map_or(&limits.start, |before| &ranges[before].end);
        assert_eq!(piece.range.start, *before, "seed {seed}: pieces are adjacent");
        let nodes: BTreeSet<NodeIndex> = piece.plan.nodes().collect();
        assert_ne!(nodes_before.replace(nodes.clone()), Some(nodes), "seed {seed}: neighbours differ");
        let asked: Vec<Replica> = piece.plan.targets().map(|(replica, _)| replica).collect();
        assert_eq!(asked.len(), by_hand.block_for(&topology) as usize, "seed {seed}");
        let last = asked.len() - 1;
        for (at, replica) in asked.into_iter().enumerate() {
            assert_eq!(piece.plan.answered(replica), (at == last).then_some(NextRead::Complete), "seed {seed}");
        }
    }
    assert_eq!(ranges.last().map(|last| &last.end), Some(&limits.end), "seed {seed}");
}

#[test]
fn every_piece_is_read_from_its_replicas() {
    (0..4_000).for_each(run);
}

#[test]
fn a_piece_that_is_late_or_dead_fails_as_reads_of_partitions_do() {
    let nodes: [(&str, &str, &[i64]); 2] = [("dc1", "r1", &[0]), ("dc1", "r1", &[100])];
    let topology = std::rc::Rc::new(crate::topology::tests::topology(&nodes, 1));
    let table = placed(&topology, "SimpleStrategy", &[("replication_factor", "1")]);
    let live = LiveNodes::of(&topology, |_| true);
    let all =
        |first, last, live| RangePiece::all(Consistency::Serial, &table, &range_of(Token(first), Token(last)), live);
    let mut pieces = all(-5, 50, &live).expect("alive");
    assert_eq!((pieces.len(), pieces[0].plan.targets().count()), (2, 1));
    let detail =
        Detail::ReadTimeout { consistency: Consistency::Serial, received: 0, block_for: 1, data_present: false };
    assert_eq!(pieces[0].plan.expired().detail, detail);
    let gone = LiveNodes::of(&topology, |_| false);
    assert!(all(-5, 0, &gone).is_ok(), "this node has all of it");
    let failure = all(-5, 50, &gone).expect_err("the other node has a part");
    assert_eq!(failure.text, "Cannot achieve consistency level SERIAL");
    assert_eq!(failure.detail, Detail::Unavailable { consistency: Consistency::Serial, required: 1, alive: 0 });
}
