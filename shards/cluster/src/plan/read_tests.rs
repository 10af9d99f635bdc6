//! Reads of partitions at all levels from replicas in several data centres, with their events in every order.

use super::*;
use crate::placement::TablePlacement;
use crate::placement::tests::{borrowed, changing, placed, random_replication, random_topology, token};
use crate::plan::tests::{LEVELS, by_hand, random_live};
use crate::topology::NodeIndex;
use model::arbitrary::{generator, pick};
use model::failure::FailureReason;
use model::{RingToken, Token};
use std::collections::BTreeSet;
use std::rc::Rc;

fn tombstones() -> Failure {
    Failure::invalid("many").with(Detail::Replica { reason: FailureReason::ReadTooManyTombstones })
}

fn run(seed: u64) {
    let mut below = generator(seed);
    let topology = random_topology(&mut below);
    let (class, options) = random_replication(&mut below);
    let table = placed(&topology, class, &borrowed(&options));
    let live = random_live(&topology, &mut below);
    let level = *pick(&LEVELS[1..], &mut below);
    let token = token(&mut below);
    let replicas = table.replicas(token, &[]);
    let by_hand = by_hand(class, &options, level);
    let alive: BTreeSet<NodeIndex> =
        replicas.natural().map(|replica| replica.node).filter(|node| live.contains(*node)).collect();
    let plan = match below(2) {
        0 => PartitionReadPlan::new(level, replicas, &live),
        _ => {
            let turn = Turn { number: below(9) as usize, core: below(2) as u16 };
            PartitionReadPlan::spread(level, replicas, &live, turn)
        }
    };
    if !by_hand.is_met(&topology, &alive) {
        assert_eq!(plan.expect_err("too few are alive").code, ErrorCode::Unavailable, "seed {seed}");
        return;
    }
    let mut plan = plan.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let mut open: Vec<(Replica, Form)> = plan.targets().collect();
    let asked: BTreeSet<NodeIndex> = open.iter().map(|(replica, _)| replica.node).collect();
    assert!(by_hand.is_met(&topology, &asked), "seed {seed}: enough are asked");
    assert_eq!(open.len(), by_hand.block_for(&topology) as usize, "seed {seed}: no more than needed are asked");
    let (mut answered, mut failed, mut has_rows) = (BTreeSet::new(), BTreeSet::new(), false);
    loop {
        assert_eq!(open.iter().filter(|(_, form)| *form == Form::Rows).count(), usize::from(!has_rows), "seed {seed}");
        assert!(asked.len() == 1 || asked.len() <= alive.len());
        if below(12) == 0 {
            let failure = plan.expired();
            let received = by_hand.counted(&topology, &answered) as i32;
            assert_eq!(failure.text, format!("Operation timed out - received only {received} responses."));
            let block_for = by_hand.block_for(&topology);
            let detail = Detail::ReadTimeout { consistency: level, received, block_for, data_present: has_rows };
            assert_eq!((failure.code, failure.detail), (ErrorCode::ReadTimeout, detail), "seed {seed}");
            assert_eq!(plan.answered(open[0].0), None, "seed {seed}: the client was answered");
            return;
        }
        let (replica, form) = open.swap_remove(below(open.len() as u64) as usize);
        if below(3) > 0 {
            answered.insert(replica.node);
            has_rows |= form == Form::Rows;
            let next = plan.answered(replica);
            assert_eq!(plan.answered(replica), None, "seed {seed}: a repeated answer counts once");
            if by_hand.is_met(&topology, &answered) {
                assert_eq!(next, Some(NextRead::Complete), "seed {seed}");
                assert!(has_rows, "seed {seed}: one of the answers has rows");
                return;
            }
            assert_eq!(next, None, "seed {seed}");
            continue;
        }
        failed.insert(replica.node);
        match plan.failed(replica, tombstones(), &topology) {
            Some(NextRead::Ask(asks)) => {
                let [(spare, wanted)] = asks[..] else { panic!("seed {seed}: one takes the place of one") };
                assert!(alive.contains(&spare.node) && !failed.contains(&spare.node), "seed {seed}");
                assert!(!answered.contains(&spare.node) && !open.iter().any(|(other, _)| *other == spare));
                assert_eq!(wanted, form, "seed {seed}: the rows are asked of the replacement");
                open.push((spare, wanted));
            }
            Some(NextRead::Fail(failure)) => {
                let left: BTreeSet<NodeIndex> = alive.difference(&failed).copied().collect();
                assert!(!by_hand.is_met(&topology, &left), "seed {seed}: others could be asked");
                let received = by_hand.counted(&topology, &answered);
                let count = failed.len();
                let text = format!("Operation failed - received {received} responses and {count} failures: ");
                assert!(failure.text.starts_with(&text), "seed {seed}: {}", failure.text);
                let Detail::ReadFailure { consistency, block_for, failures, data_present, .. } = failure.detail else {
                    panic!("seed {seed}: {:?}", failure.detail);
                };
                let expected = (level, by_hand.block_for(&topology), count, has_rows);
                assert_eq!((consistency, block_for, failures.len(), data_present), expected, "seed {seed}");
                return;
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
}

#[test]
fn every_order_of_events_leads_to_the_right_answer() {
    (0..4_000).for_each(run);
}

#[test]
fn the_nearest_replicas_are_asked() {
    let nodes: [(&str, &str, &[i64]); 5] =
        [("dc1", "r1", &[40]), ("dc1", "r1", &[10]), ("dc1", "r1", &[20]), ("dc2", "r1", &[5]), ("dc2", "r1", &[15])];
    let topology = std::rc::Rc::new(crate::topology::tests::topology(&nodes, 1));
    let table = placed(&topology, "NetworkTopologyStrategy", &[("dc1", "3"), ("dc2", "2")]);
    let live = LiveNodes::of(&topology, |_| true);
    let asked = |level| -> Vec<(u16, Form)> {
        let plan = PartitionReadPlan::new(level, table.replicas(Token(3), &[]), &live).expect("alive");
        plan.targets().map(|(replica, form)| (replica.node.0, form)).collect()
    };
    // The ring meets 3, 1, 4, 2 and 0.
    let digests = |rest: &[u16]| -> Vec<(u16, Form)> {
        [(0, Form::Rows)].into_iter().chain(rest.iter().map(|node| (*node, Form::Digest))).collect()
    };
    assert_eq!(asked(Consistency::One), digests(&[]));
    assert_eq!(asked(Consistency::LocalQuorum), digests(&[1]));
    assert_eq!(asked(Consistency::LocalSerial), digests(&[1]));
    assert_eq!(asked(Consistency::Quorum), digests(&[1, 2]));
    assert_eq!(asked(Consistency::EachQuorum), digests(&[1, 3, 4]));
    assert_eq!(asked(Consistency::All), digests(&[1, 2, 3, 4]));
}

/// What such a read shows is on a majority of the replicas to be.
#[test]
fn replicas_that_stay_are_asked_before_those_that_do_not() {
    let nodes: [(&str, &str, &[i64]); 4] =
        [("dc1", "r1", &[0]), ("dc1", "r1", &[10]), ("dc1", "r1", &[20]), ("dc1", "r1", &[30])];
    let topology = std::rc::Rc::new(crate::topology::tests::topology(&nodes, 1));
    let factor = |number| ("SimpleStrategy", [("replication_factor", number)]);
    let asked = |level, later: &'static str, dead: &[u16]| -> Vec<u16> {
        let ((class, now), (next_class, next)) = (factor("4"), factor(later));
        let table = changing(&topology, (class, &now), (next_class, &next));
        let live = LiveNodes::of(&topology, |node| !dead.contains(&node.0));
        // Of the token 10 the second node is the first replica, this node, the first, the last.
        let plan = PartitionReadPlan::new(level, table.replicas(Token(10), &[]), &live).expect("alive");
        plan.targets().map(|(replica, _)| replica.node.0).collect()
    };
    assert_eq!(asked(Consistency::Quorum, "4", &[]), [0, 1, 2]);
    assert_eq!(asked(Consistency::Quorum, "3", &[]), [1, 2, 3]);
    assert_eq!(asked(Consistency::Quorum, "3", &[2]), [1, 3, 0], "this node is enough of a replica until then");
    assert_eq!(asked(Consistency::One, "3", &[]), [0], "nothing is promised of one");
}

/// Four nodes, of which the first three have the key and the last gets it in the place of the third.
fn with_a_replica_that_leaves() -> TablePlacement {
    let nodes: [(&str, &str, &[i64]); 4] =
        [("dc1", "r1", &[10]), ("dc1", "r1", &[20]), ("dc1", "r1", &[30]), ("dc1", "r1", &[40])];
    let topology = crate::topology::tests::topology(&nodes, 1);
    let tokens = [[10], [20], [50], [40]].map(|tokens| tokens.map(RingToken::Murmur3).to_vec());
    let topology = std::rc::Rc::new(topology.becoming(&tokens));
    placed(&topology, "SimpleStrategy", &[("replication_factor", "3")])
}

#[test]
fn a_read_needs_a_majority_of_before_and_of_after() {
    let table = with_a_replica_that_leaves();
    let topology = table.keyspace().topology().clone();
    let replicas = table.replicas(Token(5), &[]);
    assert_eq!(replicas.natural().map(|replica| replica.node.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(replicas.pending().map(|replica| replica.node.0).collect::<Vec<_>>(), [3]);
    let plan = |dead: &[u16]| {
        let live = LiveNodes::of(&topology, |node| !dead.contains(&node.0));
        PartitionReadPlan::new(Consistency::Quorum, replicas, &live).expect("enough are alive")
    };
    let asked = |plan: &PartitionReadPlan| plan.targets().map(|(replica, _)| replica.node.0).collect::<Vec<_>>();
    let of = |node| Replica { node: NodeIndex(node), shard: 0 };
    assert_eq!(asked(&plan(&[])), [0, 1], "those that stay");
    assert_eq!(asked(&plan(&[1])), [0, 2, 3], "one that leaves, and one that comes");
    assert_eq!(asked(&plan(&[1, 3])), [0, 2], "none that comes is alive");
    // One that stays is late, or fails.
    let mut late = plan(&[]);
    assert_eq!(late.answered(of(0)), None);
    assert_eq!(late.speculate().iter().map(|(replica, _)| *replica).collect::<Vec<_>>(), [of(2), of(3)]);
    assert_eq!(late.answered(of(2)), None, "the other side lacks an answer");
    assert_eq!(late.answered(of(3)), Some(NextRead::Complete));
    let mut failed = plan(&[]);
    let Some(NextRead::Ask(asks)) = failed.failed(of(1), tombstones(), &topology) else { panic!("others are there") };
    assert_eq!(asks.iter().map(|(replica, _)| *replica).collect::<Vec<_>>(), [of(2), of(3)]);
    // If the one that comes fails as well, those of before are enough.
    assert_eq!(failed.failed(of(3), tombstones(), &topology), None);
    assert_eq!(failed.answered(of(0)), None);
    assert_eq!(failed.answered(of(2)), Some(NextRead::Complete));
    let mut hopeless = plan(&[]);
    assert!(matches!(hopeless.failed(of(1), tombstones(), &topology), Some(NextRead::Ask(..))));
    assert!(matches!(hopeless.failed(of(2), tombstones(), &topology), Some(NextRead::Fail(_))));
}

#[test]
fn reads_of_a_hot_partition_take_turns() {
    let nodes: [(&str, &str, &[i64]); 6] = [
        ("dc1", "r1", &[40]),
        ("dc1", "r1", &[10]),
        ("dc1", "r1", &[20]),
        ("dc2", "r1", &[5]),
        ("dc2", "r1", &[15]),
        ("dc1", "r1", &[30]),
    ];
    let mut topology = crate::topology::tests::topology(&nodes, 2);
    topology.measure_latencies(crate::topology::latency::DynamicSnitch::default());
    let topology = std::rc::Rc::new(topology);
    let table = placed(&topology, "NetworkTopologyStrategy", &[("dc1", "3"), ("dc2", "2")]);
    let live = LiveNodes::of(&topology, |_| true);
    let asked_of = |token: i64, live: &LiveNodes, level, core, number| -> Vec<u16> {
        let replicas = table.replicas(Token(token), &[]);
        let plan = PartitionReadPlan::spread(level, replicas, live, Turn { number, core }).expect("alive");
        let asked: Vec<(Replica, Form)> = plan.targets().collect();
        assert_eq!(asked.iter().filter(|(_, form)| *form == Form::Rows).count(), 1);
        asked.iter().map(|(replica, _)| replica.node.0).collect()
    };
    let turns = |token, live: &LiveNodes, level, core| -> Vec<Vec<u16>> {
        (0..4).map(|number| asked_of(token, live, level, core, number)).collect()
    };
    // Token 3 is on 1, 2 and 5, and on 3 and 4 of the other data centre; this node, 0, has none of it.
    assert_eq!(turns(3, &live, Consistency::One, 0), [[1], [2], [5], [1]]);
    assert_eq!(turns(3, &live, Consistency::Two, 0), [[1, 2], [2, 5], [5, 1], [1, 2]]);
    assert_eq!(turns(3, &live, Consistency::LocalQuorum, 0), [[1, 2], [2, 5], [5, 1], [1, 2]]);
    let without = LiveNodes::of(&topology, |node| node != NodeIndex(2));
    assert_eq!(turns(3, &without, Consistency::LocalOne, 0), [[1], [5], [1], [5]], "one of them is down");
    // Token 35 is on 0, 1 and 2: the core of this node that has it answers by itself, others ask for it in turn.
    let own = table.replicas(Token(35), &[]).natural().find(|replica| replica.node.0 == 0).expect("it is here").shard;
    assert_eq!(turns(35, &live, Consistency::One, own), [[0], [0], [0], [0]]);
    assert_eq!(turns(35, &live, Consistency::One, 1 - own), [[0], [1], [2], [0]]);
    assert_eq!(turns(35, &live, Consistency::LocalQuorum, own), [[0, 1], [0, 2], [0, 1], [0, 2]]);
    // One that is slow is asked last.
    let (fast, slow) = (std::time::Duration::from_millis(1), std::time::Duration::from_millis(80));
    for round in 1..40 {
        let now = std::time::Duration::from_millis(200 * round);
        for (node, took) in [(1, fast), (2, slow), (5, fast)] {
            topology.latencies().answered(NodeIndex(node), took, now);
        }
    }
    assert!(topology.latencies().is_slow(NodeIndex(2)));
    assert_eq!(turns(3, &live, Consistency::One, 0), [[1], [5], [1], [5]]);
}

#[test]
fn the_refusal_of_the_only_replica_is_passed_on() {
    let topology = std::rc::Rc::new(crate::topology::tests::topology(&[("dc1", "r1", &[0])], 1));
    let table = placed(&topology, "SimpleStrategy", &[("replication_factor", "1")]);
    let live = LiveNodes::of(&topology, |_| true);
    let failed = |failure: Failure| {
        let mut plan = PartitionReadPlan::new(Consistency::One, table.replicas(Token(3), &[]), &live).expect("alive");
        let (replica, form) = plan.targets().next().expect("a replica");
        assert_eq!(form, Form::Rows);
        plan.failed(replica, failure, &topology)
    };
    let refused = Failure::overloaded("full");
    assert_eq!(failed(refused.clone()), Some(NextRead::Fail(refused)));
    let Some(NextRead::Fail(failure)) = failed(tombstones()) else { panic!("it fails") };
    assert_eq!(
        failure.text,
        "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000"
    );
    assert_eq!(
        failure.detail,
        Detail::ReadFailure {
            consistency: Consistency::One,
            received: 0,
            block_for: 1,
            failures: vec![([127, 0, 0, 1].into(), FailureReason::ReadTooManyTombstones)],
            data_present: false,
        }
    );
}

/// A plan at a level for three replicas of one data centre.
fn of_three(level: Consistency) -> (PartitionReadPlan, Rc<Topology>) {
    let nodes: [(&str, &str, &[i64]); 3] = [("dc1", "r1", &[40]), ("dc1", "r1", &[10]), ("dc1", "r1", &[20])];
    let topology = Rc::new(crate::topology::tests::topology(&nodes, 1));
    let table = placed(&topology, "NetworkTopologyStrategy", &[("dc1", "3")]);
    let live = LiveNodes::of(&topology, |_| true);
    (PartitionReadPlan::new(level, table.replicas(Token(3), &[]), &live).expect("alive"), topology)
}

#[test]
fn an_extra_replica_stands_in_for_one_that_is_late() {
    let (mut plan, topology) = of_three(Consistency::Quorum);
    let asked: Vec<(Replica, Form)> = plan.targets().collect();
    let (extra, form) = plan.speculate()[0];
    assert_eq!(form, Form::Rows, "the rows are late");
    assert_eq!(plan.speculate().len(), 0, "there are no more");
    // The late one fails: the others are enough.
    assert_eq!(plan.failed(asked[0].0, tombstones(), &topology), None);
    assert_eq!(plan.answered(asked[1].0), None);
    assert_eq!(plan.answered(extra), Some(NextRead::Complete));
    assert_eq!(plan.speculate().len(), 0, "the read has ended");

    let (mut plan, topology) = of_three(Consistency::Quorum);
    let asked: Vec<(Replica, Form)> = plan.targets().collect();
    assert_eq!(plan.answered(asked[0].0), None);
    let (extra, form) = plan.speculate()[0];
    assert_eq!(form, Form::Digest, "the rows are there");
    assert_eq!(plan.failed(extra, tombstones(), &topology), None, "the other may still answer");
    let failed = plan.failed(asked[1].0, tombstones(), &topology);
    assert!(matches!(failed, Some(NextRead::Fail(_))), "{failed:?}");

    let (mut plan, _) = of_three(Consistency::One);
    assert!(plan.asks_one());
    assert_eq!(plan.speculate()[0].1, Form::Rows);
}

#[test]
fn those_that_answered_are_asked_again_for_what_is_merged() {
    let (mut plan, topology) = of_three(Consistency::Quorum);
    let asked: Vec<Replica> = plan.targets().map(|(replica, _)| replica).collect();
    let (extra, _) = plan.speculate()[0];
    assert_eq!(plan.answered(asked[1]), None);
    assert_eq!(plan.answered(extra), Some(NextRead::Complete));
    for _ in 0..2 {
        plan.merge();
        let again: BTreeSet<NodeIndex> = plan.targets().map(|(replica, _)| replica.node).collect();
        assert!(plan.targets().all(|(_, form)| form == Form::Fragments));
        assert_eq!(again, BTreeSet::from([asked[1].node, extra.node]));
        assert_eq!(plan.answered(asked[0]), None, "it is late and not asked any more");
        assert_eq!(plan.answered(extra), None);
        assert_eq!(plan.answered(asked[1]), Some(NextRead::Complete));
    }
    plan.merge();
    let next = plan.failed(extra, tombstones(), &topology);
    assert_eq!(next, Some(NextRead::Ask(smallvec::smallvec![(asked[0], Form::Fragments)])), "the one that was late");
    assert_eq!(plan.answered(asked[0]), None);
    assert_eq!(plan.answered(asked[1]), Some(NextRead::Complete));

    // A read may merge from the first.
    let (mut plan, _) = of_three(Consistency::All);
    plan.merge();
    let asked: Vec<(Replica, Form)> = plan.targets().collect();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|(_, form)| *form == Form::Fragments));
}
