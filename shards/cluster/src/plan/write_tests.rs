//! Writes at all levels to replicas in several data centres, with their events in every order.

use super::*;
use crate::placement::tests::{borrowed, changing, placed, random_replication, random_topology, token};
use crate::plan::tests::{LEVELS, by_hand, random_live};
use crate::topology::NodeIndex;
use model::Token;
use model::arbitrary::{generator, pick};
use model::failure::FailureReason;
use std::collections::BTreeSet;

/// Runs a write: all its replicas do something, or its time ends. Each event is compared with a count by hand.
fn run(seed: u64) {
    let mut below = generator(seed);
    let topology = random_topology(&mut below);
    let (class, options) = random_replication(&mut below);
    let table = placed(&topology, class, &borrowed(&options));
    let live = random_live(&topology, &mut below);
    let level = *pick(&LEVELS, &mut below);
    let token = token(&mut below);
    let replicas = table.replicas(token, &[]);
    let by_hand = by_hand(class, &options, level);
    let alive: Vec<Replica> = replicas.natural().filter(|replica| live.contains(replica.node)).collect();
    let plan = WritePlan::new(level, WriteType::Simple, replicas, &live);
    let nodes = |replicas: &[Replica]| replicas.iter().map(|replica| replica.node).collect::<BTreeSet<_>>();
    if level != Consistency::Any && !by_hand.is_met(&topology, &nodes(&alive)) {
        let failure = plan.expect_err("too few are alive");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::Unavailable, Outcome::NotApplied), "seed {seed}");
        assert!(
            failure.text.starts_with("Cannot achieve consistency level") || by_hand.needs_none(&topology),
            "{}",
            failure.text
        );
        return;
    }
    let mut plan = plan.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert_eq!(plan.targets().collect::<Vec<_>>(), alive, "seed {seed}: all live replicas are asked");
    let (mut acked, mut failed, mut unknown) = (BTreeSet::new(), BTreeSet::new(), false);
    let mut open = alive.clone();
    let mut answer: Option<Result<(), Failure>> = None;
    while !open.is_empty() {
        if below(12) == 0 {
            break;
        }
        let replica = *pick(&open, &mut below);
        let lasting = below(6) > 0;
        if lasting {
            open.retain(|other| *other != replica);
        }
        let again = acked.contains(&replica.node) || failed.contains(&replica.node);
        let told = match below(3) {
            0 => {
                let reason = *pick(&[FailureReason::Unknown, FailureReason::IncompatibleSchema], &mut below);
                let failure = Failure::overloaded("full").with(Detail::Replica { reason });
                let may_be_applied = below(2) == 0;
                let failure = if may_be_applied { failure.unknown() } else { failure };
                if !again {
                    failed.insert(replica.node);
                    unknown |= may_be_applied;
                }
                plan.failed(replica, failure, &topology).map(Err)
            }
            _ => {
                if !again {
                    acked.insert(replica.node);
                }
                plan.acknowledged(replica).then_some(Ok(()))
            }
        };
        assert!(told.is_none() || !again, "seed {seed}: a repeated answer counts once");
        let waiting: BTreeSet<_> = nodes(&alive).difference(&failed).copied().collect();
        if answer.is_some() {
            assert!(told.is_none(), "seed {seed}: the client is answered once");
            continue;
        }
        let met = level == Consistency::Any && !acked.is_empty() || by_hand.is_met(&topology, &acked);
        let lost = match level {
            Consistency::Any => waiting.is_empty(),
            _ => !by_hand.is_met(&topology, &waiting),
        };
        match &told {
            Some(Ok(())) => assert!(met, "seed {seed}"),
            Some(Err(failure)) => {
                assert!(!met && lost, "seed {seed}: {failure}");
                // Nobody who may have the write is told otherwise.
                let may_be = unknown || !acked.is_empty() || waiting.len() > acked.len();
                assert_eq!(failure.outcome == Outcome::Unknown, may_be, "seed {seed}: {failure}");
                match (&failure.detail, alive.len()) {
                    (Detail::WriteFailure { consistency, received, block_for, failures, write_type }, 2..) => {
                        let counted = by_hand.counted(&topology, &acked);
                        assert_eq!((*consistency, *received as usize), (level, counted), "seed {seed}");
                        assert_eq!((*block_for, *write_type), (by_hand.block_for(&topology), "SIMPLE"), "seed {seed}");
                        let text =
                            format!("Operation failed - received {counted} responses and {} failures: ", failed.len());
                        assert!(failure.text.starts_with(&text), "seed {seed}: {}", failure.text);
                        assert_eq!(failures.len(), failed.len());
                    }
                    (Detail::WriteTimeout { .. }, 1) => assert_eq!(failure.text, "full"),
                    (Detail::Replica { .. }, 1) => assert_eq!(failure.code, ErrorCode::Overloaded),
                    (detail, count) => panic!("seed {seed}: {detail:?} of {count}"),
                }
            }
            None => assert!(again || !met && !lost, "seed {seed}: met {met}, lost {lost}"),
        }
        answer = told;
    }
    if answer.is_none() && !alive.is_empty() {
        let failure = plan.expired();
        let received = by_hand.counted(&topology, &acked) as i32;
        assert_eq!((failure.code, failure.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
        assert_eq!(failure.text, format!("Operation timed out - received only {received} responses."));
        let block_for = by_hand.block_for(&topology);
        assert_eq!(
            failure.detail,
            Detail::WriteTimeout { consistency: level, received, block_for, write_type: "SIMPLE" }
        );
    }
}

#[test]
fn every_order_of_events_leads_to_the_right_answer() {
    (0..4_000).for_each(run);
}

fn five() -> std::rc::Rc<Topology> {
    let nodes: [(&str, &str, &[i64]); 5] =
        [("dc1", "r1", &[0]), ("dc1", "r1", &[10]), ("dc1", "r1", &[20]), ("dc2", "r1", &[5]), ("dc2", "r1", &[15])];
    std::rc::Rc::new(crate::topology::tests::topology(&nodes, 2))
}

#[test]
fn each_data_center_needs_its_majority() {
    let topology = five();
    let table = placed(&topology, "NetworkTopologyStrategy", &[("dc1", "3"), ("dc2", "2")]);
    let live = LiveNodes::of(&topology, |_| true);
    let mut plan = WritePlan::new(Consistency::EachQuorum, WriteType::Simple, table.replicas(Token(3), &[]), &live)
        .expect("alive");
    let of = |node| Replica { node: NodeIndex(node), shard: table.shard_of(NodeIndex(node), Token(3)) };
    // dc1 has all it needs after two, dc2 after two of two.
    let done: Vec<bool> = [0, 1, 2, 3, 4].map(|node| plan.acknowledged(of(node))).to_vec();
    assert_eq!(done, [false, false, false, false, true]);
    let mut plan = WritePlan::new(Consistency::EachQuorum, WriteType::Simple, table.replicas(Token(3), &[]), &live)
        .expect("alive");
    assert!(plan.failed(of(0), Failure::overloaded("x"), &topology).is_none(), "dc1 has a majority without it");
    let failure = plan.failed(of(3), Failure::overloaded("x"), &topology).expect("dc2 has none");
    assert_eq!(
        failure.text,
        "Operation failed - received 0 responses and 2 failures: UNKNOWN from /127.0.0.1:7000, UNKNOWN from \
         /127.0.0.4:7000"
    );
    assert!(matches!(failure.detail, Detail::WriteFailure { block_for: 4, .. }));
}

#[test]
fn replicas_that_ran_out_of_time_are_a_timeout() {
    let topology = five();
    let table = placed(&topology, "SimpleStrategy", &[("replication_factor", "3")]);
    let live = LiveNodes::of(&topology, |_| true);
    let mut plan =
        WritePlan::new(Consistency::Quorum, WriteType::Counter, table.replicas(Token(3), &[]), &live).expect("alive");
    let targets: Vec<Replica> = plan.targets().collect();
    let late = || Failure::overloaded("late").with(Detail::Replica { reason: FailureReason::Timeout });
    assert!(plan.failed(targets[0], late(), &topology).is_none());
    let failure = plan.failed(targets[1], late(), &topology).expect("out of reach");
    assert_eq!(failure.text, "Operation timed out - received only 0 responses.");
    let detail =
        Detail::WriteTimeout { consistency: Consistency::Quorum, received: 0, block_for: 2, write_type: "COUNTER" };
    assert_eq!(failure.detail, detail);
}

#[test]
fn a_write_to_nobody_is_done() {
    let topology = five();
    let table = placed(&topology, "SimpleStrategy", &[("replication_factor", "0")]);
    let live = LiveNodes::of(&topology, |_| true);
    let plan = |level| WritePlan::new(level, WriteType::Simple, table.replicas(Token(3), &[]), &live);
    assert_eq!(plan(Consistency::Any).expect("nothing is needed").targets().count(), 0);
    assert_eq!(plan(Consistency::All).expect_err("no replica").text, "Insufficient full replicas");
}

#[test]
fn what_is_kept_for_replicas_that_are_down_is_enough_at_any() {
    let topology = five();
    let table = placed(&topology, "SimpleStrategy", &[("replication_factor", "3")]);
    let replicas = table.replicas(Token(3), &[]);
    let plan = |level, live: &LiveNodes| WritePlan::new(level, WriteType::Simple, replicas, live).expect("alive");
    let first = replicas.natural().next().expect("a replica");
    let without_first = LiveNodes::of(&topology, |node| node != first.node);
    let mut two = plan(Consistency::Two, &without_first);
    assert_eq!((two.down(), two.targets().len(), two.only()), (&[first][..], 2, None));
    assert!(!two.kept(), "it counts at no other level");
    let mut any = plan(Consistency::Any, &without_first);
    assert!(any.kept());
    assert!(!any.kept(), "the client is answered once");
    let other = any.targets().next().expect("alive");
    assert!(!any.acknowledged(other));
    let nobody = LiveNodes::of(&topology, |_| false);
    let mut any = plan(Consistency::Any, &nobody);
    assert_eq!((any.down().len(), any.targets().len()), (3, 0));
    assert!(any.kept());
}

#[test]
fn the_leader_of_a_counter_is_near() {
    let nodes: [(&str, &str, &[i64]); 5] =
        [("dc1", "r1", &[0]), ("dc1", "r2", &[10]), ("dc1", "r1", &[20]), ("dc1", "r1", &[30]), ("dc2", "r1", &[15])];
    let topology = std::rc::Rc::new(crate::topology::tests::topology(&nodes, 2));
    let all = LiveNodes::of(&topology, |_| true);
    let leaders = |factor: &str, token: i64, live: &LiveNodes| {
        let table = placed(&topology, "SimpleStrategy", &[("replication_factor", factor)]);
        let plan = WritePlan::new(Consistency::One, WriteType::Counter, table.replicas(Token(token), &[]), live);
        let plan = plan.expect("alive");
        let random = |random| plan.leader(&topology, random).expect("alive").node.0;
        (0..4).map(random).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(leaders("5", 7, &all), [0], "this node");
    assert_eq!(leaders("4", 7, &all), [2, 3], "this rack");
    assert_eq!(leaders("2", 7, &all), [1], "this data centre");
    assert_eq!(leaders("1", 12, &all), [4]);
    let table = placed(&topology, "SimpleStrategy", &[("replication_factor", "5")]);
    let replicas = table.replicas(Token(7), &[]);
    let plan = WritePlan::new(Consistency::All, WriteType::Counter, replicas, &all).expect("alive");
    let leader = plan.leader(&topology, 0).expect("alive");
    let detail =
        Detail::WriteTimeout { consistency: Consistency::One, received: 0, block_for: 1, write_type: "COUNTER" };
    assert_eq!(plan.to_leader(leader, &topology).expired().detail, detail);
}

#[test]
fn several_writes_have_one_result() {
    let topology = five();
    let levels = placed(&topology, "SimpleStrategy", &[("replication_factor", "3")]);
    let required = levels.keyspace().levels().required(Consistency::Quorum);
    let result = |results: Vec<Result<(), Failure>>| combined(results, WriteType::UnloggedBatch, |_| required);
    let refused = || Failure::overloaded("full");
    assert_eq!(result(vec![Ok(()), Ok(())]), Ok(()));
    assert_eq!(result(vec![Err(refused()), Err(Failure::invalid("later"))]), Err(refused()), "nothing was written");
    let half = result(vec![Ok(()), Err(refused())]).expect_err("one was refused");
    assert_eq!((half.code, half.outcome, &*half.text), (ErrorCode::WriteTimeout, Outcome::Unknown, "full"));
    let write_type = "UNLOGGED_BATCH";
    let detail = Detail::WriteTimeout { consistency: Consistency::Quorum, received: 0, block_for: 2, write_type };
    assert_eq!(half.detail, detail);
    let late = postponed(required);
    assert_eq!(late.text, "Operation timed out - received only 0 responses.");
    assert!(matches!(late.detail, Detail::WriteTimeout { block_for: 2, write_type: "BATCH", .. }));
    assert_eq!(result(vec![Err(refused()), Err(late)]).expect_err("one may come").outcome, Outcome::Unknown);
}

/// Whoever reads, at a level that meets the write's, from the replicas that there are now or from those that come next
/// finds what was acknowledged.
#[test]
fn a_write_needs_its_level_among_the_replicas_now_and_among_the_next_ones() {
    let (mut done, mut refused) = (0, 0);
    for seed in 0..4_000 {
        let mut below = generator(seed);
        let topology = random_topology(&mut below);
        let ((class, options), (next_class, next_options)) =
            (random_replication(&mut below), random_replication(&mut below));
        let table = changing(&topology, (class, &borrowed(&options)), (next_class, &borrowed(&next_options)));
        let live = random_live(&topology, &mut below);
        let level = *pick(&LEVELS[1..], &mut below);
        let token = token(&mut below);
        let replicas = table.replicas(token, &[]);
        let now: BTreeSet<NodeIndex> = replicas.natural().map(|replica| replica.node).collect();
        let next = replicas.next().map_or(now.clone(), |next| next.nodes.iter().copied().collect());
        let (need_now, need_next) = (by_hand(class, &options, level), by_hand(next_class, &next_options, level));
        let is_met = |acked: &BTreeSet<NodeIndex>| {
            let among = |nodes: &BTreeSet<NodeIndex>| nodes.intersection(acked).copied().collect::<BTreeSet<_>>();
            let is_next_met =
                next == now || need_next.counted(&topology, &next) == 0 || need_next.is_met(&topology, &among(&next));
            need_now.is_met(&topology, &among(&now)) && is_next_met
        };
        let alive: Vec<Replica> = replicas.written().filter(|replica| live.contains(replica.node)).collect();
        let plan = WritePlan::new(level, WriteType::Simple, replicas, &live);
        let nodes = |replicas: &[Replica]| replicas.iter().map(|replica| replica.node).collect::<BTreeSet<_>>();
        let Ok(mut plan) = plan else {
            assert!(!is_met(&nodes(&alive)), "seed {seed}: {level:?} {now:?} {next:?}");
            refused += 1;
            continue;
        };
        assert_eq!(plan.targets().collect::<Vec<_>>(), alive, "seed {seed}");
        let (mut acked, mut open, mut is_done) = (BTreeSet::new(), alive, false);
        while !open.is_empty() {
            let replica = open.remove(below(open.len() as u64) as usize);
            match below(5) {
                0 if !is_done => {
                    let failure = plan.failed(replica, Failure::overloaded("full"), &topology);
                    let left: BTreeSet<NodeIndex> = nodes(&open).union(&acked).copied().collect();
                    assert_eq!(failure.is_some(), !is_met(&left), "seed {seed}");
                    if failure.is_some() {
                        break;
                    }
                }
                _ => {
                    acked.insert(replica.node);
                    let told = plan.acknowledged(replica);
                    assert_eq!(told, !is_done && is_met(&acked), "seed {seed}: {level:?} {acked:?} {now:?} {next:?}");
                    is_done |= told;
                }
            }
        }
        done += usize::from(is_done);
    }
    assert!(done > 500 && refused > 500, "{done} {refused}");
}

#[test]
fn a_change_of_replication_hinders_a_write_no_more_than_its_goal_does() {
    let nodes: [(&str, &str, &[i64]); 3] = [("dc1", "r1", &[0]), ("dc1", "r1", &[10]), ("dc1", "r1", &[20])];
    let topology = std::rc::Rc::new(crate::topology::tests::topology(&nodes, 1));
    let factor = |number| ("SimpleStrategy", [("replication_factor", number)]);
    let acked = |(before, later): (&'static str, &'static str), dead: &[u16], by: &[u16]| -> Result<bool, i32> {
        let ((class, now), (next_class, next)) = (factor(before), factor(later));
        let table = changing(&topology, (class, &now), (next_class, &next));
        let live = LiveNodes::of(&topology, |node| !dead.contains(&node.0));
        // Of the token 20 the third node is the first replica.
        let replicas = table.replicas(Token(20), &[]);
        let mut plan = match WritePlan::new(Consistency::Quorum, WriteType::Simple, replicas, &live) {
            Ok(plan) => plan,
            Err(failure) => match failure.detail {
                Detail::Unavailable { required, .. } => return Err(required),
                detail => panic!("{detail:?}"),
            },
        };
        let of = |node| Replica { node: NodeIndex(node), shard: table.shard_of(NodeIndex(node), Token(20)) };
        Ok(by.iter().any(|node| plan.acknowledged(of(*node))))
    };
    // From one to three, with one that gains it down.
    assert_eq!(acked(("1", "3"), &[1], &[2]), Ok(false), "no majority of three");
    assert_eq!(acked(("1", "3"), &[1], &[2, 0]), Ok(true));
    assert_eq!(acked(("1", "3"), &[], &[0, 1]), Ok(false), "the only one that is read now has it not");
    assert_eq!(acked(("1", "3"), &[2], &[]), Err(1));
    // From three to one: the one that is read then must have it.
    assert_eq!(acked(("3", "1"), &[], &[0, 1]), Ok(false));
    assert_eq!(acked(("3", "1"), &[], &[2]), Ok(false));
    assert_eq!(acked(("3", "1"), &[1], &[0, 2]), Ok(true));
    assert_eq!(acked(("3", "1"), &[2], &[]), Err(1));
}
