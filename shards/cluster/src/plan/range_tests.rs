//! Reads of parts of random rings.

use super::*;
use crate::placement::tests::{borrowed, placed, random_replication, random_topology, range_of, token};
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
    let plan = RangeReadPlan::new(level, &table, &limits, &live);
    if !all_met {
        assert_eq!(plan.expect_err("a piece is unavailable").code, ErrorCode::Unavailable, "seed {seed}");
        return;
    }
    let mut plan = plan.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let pieces: Vec<TokenRange> = plan.pieces().cloned().collect();
    let mut open: Vec<(usize, Replica)> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let before = at.checked_sub(1).map_or(&limits.start, |before| &pieces[before].end);
        assert_eq!(piece.start, *before, "seed {seed}: pieces are adjacent");
        open.extend(plan.targets(at).map(|(replica, _)| (at, replica)));
    }
    let mut complete = BTreeSet::new();
    while !open.is_empty() {
        let (at, replica) = open.swap_remove(below(open.len() as u64) as usize);
        if below(8) == 0 {
            match plan.failed(at, replica, Failure::overloaded("full"), &topology) {
                Some(NextRead::Ask(spare, _)) => open.push((at, spare)),
                Some(NextRead::Fail(_)) => return,
                other => panic!("seed {seed}: {other:?}"),
            }
            continue;
        }
        let next = plan.answered(at, replica);
        if !open.iter().any(|(of, _)| *of == at) {
            complete.insert(at);
        }
        let expected = (complete.len() == pieces.len()).then_some(NextRead::Complete);
        assert_eq!(next, expected, "seed {seed}");
    }
    assert_eq!(complete.len(), pieces.len(), "seed {seed}");
}

#[test]
fn every_piece_is_read_from_its_replicas() {
    (0..4_000).for_each(run);
}

#[test]
fn the_end_of_the_time_tells_of_a_piece_that_is_not_complete() {
    let nodes: [(&str, &str, &[i64]); 2] = [("dc1", "r1", &[0]), ("dc1", "r1", &[100])];
    let topology = std::rc::Rc::new(crate::topology::tests::topology(&nodes, 1));
    let table = placed(&topology, "SimpleStrategy", &[("replication_factor", "1")]);
    let live = LiveNodes::of(&topology, |_| true);
    let mut plan =
        RangeReadPlan::new(Consistency::Serial, &table, &range_of(Token(-5), Token(50)), &live).expect("alive");
    let first: Vec<Replica> = plan.targets(0).map(|(replica, _)| replica).collect();
    assert_eq!((plan.pieces().len(), first.len()), (2, 1));
    assert_eq!(plan.answered(0, first[0]), None);
    let detail =
        Detail::ReadTimeout { consistency: Consistency::Serial, received: 0, block_for: 1, data_present: false };
    assert_eq!(plan.expired().detail, detail);
    let gone = LiveNodes::of(&topology, |_| false);
    let range =
        |first, last| RangeReadPlan::new(Consistency::Serial, &table, &range_of(Token(first), Token(last)), &gone);
    assert!(range(-5, 0).is_ok(), "this node has all of it");
    let failure = range(-5, 50).expect_err("the other node has a part");
    assert_eq!(failure.text, "Cannot achieve consistency level SERIAL");
    assert_eq!(failure.detail, Detail::Unavailable { consistency: Consistency::Serial, required: 1, alive: 0 });
}
