//! Read repair at all levels, with its events in every order.

use super::*;
use crate::placement::tests::{borrowed, placed, random_replication, random_topology, token};
use crate::plan::tests::{LEVELS, by_hand, random_live};
use crate::plan::{NextRead, PartitionReadPlan};
use crate::topology::NodeIndex;
use model::arbitrary::{generator, pick};
use model::failure::Detail;
use model::{Consistency, ErrorCode};
use std::collections::BTreeSet;

/// Repairs what a read at a random level has found, while some replicas do not answer. Returns whether that worked out.
fn run(seed: u64) -> Option<bool> {
    let mut below = generator(seed);
    let topology = random_topology(&mut below);
    let (class, options) = random_replication(&mut below);
    let table = placed(&topology, class, &borrowed(&options));
    let live = random_live(&topology, &mut below);
    let level = *pick(&LEVELS[1..], &mut below);
    let replicas = table.replicas(token(&mut below), &[]);
    let mut read = PartitionReadPlan::new(level, replicas, &live).ok()?;
    let by_hand = by_hand(class, &options, level);
    let mut asked: Vec<Replica> = read.targets().map(|(replica, _)| replica).collect();
    asked.extend((below(3) == 0).then(|| read.speculate()).into_iter().flatten().map(|(replica, _)| replica));
    let answers_late = below(3) == 0;
    let mut took_part: Vec<Replica> = Vec::new();
    for replica in asked {
        took_part.push(replica);
        if read.answered(replica) == Some(NextRead::Complete) && answers_late {
            break;
        }
    }
    let lacking: BTreeSet<NodeIndex> = took_part.iter().map(|replica| replica.node).filter(|_| below(2) == 0).collect();
    let mut plan = RepairPlan::of(&read, |replica| lacking.contains(&replica.node));
    let nodes = |replicas: &[Replica]| replicas.iter().map(|replica| replica.node).collect::<BTreeSet<NodeIndex>>();
    let mut repaired: BTreeSet<NodeIndex> = nodes(&took_part).difference(&lacking).copied().collect();
    let mut open: Vec<Replica> = took_part.iter().copied().filter(|replica| lacking.contains(&replica.node)).collect();
    let mut is_spread = false;
    loop {
        assert_eq!(plan.is_done(), by_hand.is_met(&topology, &repaired), "seed {seed}");
        if plan.is_done() {
            return Some(true);
        }
        if !is_spread && (open.is_empty() || below(3) == 0) {
            is_spread = true;
            let more = plan.spread();
            assert!(more.iter().all(|replica| live.contains(replica.node)), "seed {seed}");
            assert!(nodes(&more).is_disjoint(&nodes(&took_part)), "seed {seed}");
            open.extend(more);
            continue;
        }
        let possible: BTreeSet<NodeIndex> = repaired.union(&nodes(&open)).copied().collect();
        assert_eq!(plan.is_out_of_reach(), !by_hand.is_met(&topology, &possible), "seed {seed}");
        if plan.is_out_of_reach() && is_spread || below(12) == 0 {
            let failure = plan.expired();
            let received = by_hand.counted(&topology, &repaired) as i32;
            let block_for = by_hand.block_for(&topology);
            let detail = Detail::ReadTimeout { consistency: level, received, block_for, data_present: true };
            assert_eq!((failure.code, failure.detail), (ErrorCode::ReadTimeout, detail), "seed {seed}");
            assert_eq!(failure.text, format!("Operation timed out - received only {received} responses."));
            return Some(false);
        }
        if open.is_empty() {
            continue;
        }
        let replica = open.swap_remove(below(open.len() as u64) as usize);
        if below(3) > 0 {
            repaired.insert(replica.node);
            plan.acknowledged(replica);
            plan.acknowledged(replica);
        } else {
            plan.failed(replica);
        }
    }
}

#[test]
fn a_read_is_repaired_when_its_level_has_everything() {
    let ended: Vec<bool> = (0..4_000).filter_map(run).collect();
    let done = ended.iter().filter(|is_done| **is_done).count();
    assert!(done > 1_000 && ended.len() - done > 100, "{done} of {}", ended.len());
}

#[test]
fn replicas_that_took_no_part_replace_one_that_is_silent() {
    let nodes: [(&str, &str, &[i64]); 4] =
        [("dc1", "r1", &[10]), ("dc1", "r1", &[20]), ("dc1", "r1", &[30]), ("dc2", "r1", &[5])];
    let topology = std::rc::Rc::new(crate::topology::tests::topology(&nodes, 1));
    let table = placed(&topology, "NetworkTopologyStrategy", &[("dc1", "3"), ("dc2", "1")]);
    let live = crate::topology::LiveNodes::of(&topology, |_| true);
    let plan = |level| {
        let mut read = PartitionReadPlan::new(level, table.replicas(model::Token(3), &[]), &live).expect("alive");
        let asked: Vec<Replica> = read.targets().map(|(replica, _)| replica).collect();
        asked.iter().for_each(|replica| _ = read.answered(*replica));
        let last = asked[asked.len() - 1];
        (RepairPlan::of(&read, |replica| replica == last), last)
    };
    let (mut repair, last) = plan(Consistency::LocalQuorum);
    let spares = repair.spread();
    assert_eq!(spares.len(), 1, "replicas of other data centres do not count");
    assert!(!repair.is_done() && spares[0] != last);
    repair.acknowledged(spares[0]);
    assert!(repair.is_done());
    let (mut repair, last) = plan(Consistency::Quorum);
    assert_eq!(repair.spread().len(), 1);
    repair.acknowledged(last);
    assert!(repair.is_done());
    let (mut repair, _) = plan(Consistency::All);
    assert!(repair.spread().is_empty(), "all took part");
}
