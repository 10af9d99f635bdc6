//! Levels and errors of decisions.

use super::*;
use crate::placement::tests::{changing, placed};
use crate::topology::tests::topology;
use model::Token;
use model::failure::Outcome;
use std::rc::Rc;

/// Three nodes in dc1, the first of them this one, and two in dc2.
const NODES: [(&str, &str, &[i64]); 5] =
    [("dc1", "r1", &[0]), ("dc1", "r1", &[10]), ("dc1", "r1", &[20]), ("dc2", "r1", &[5]), ("dc2", "r1", &[15])];

/// A change in a keyspace with three replicas in dc1 and two in dc2, of which only those named are alive.
fn change(serial: Consistency, commit: Consistency, alive: &[u16]) -> Result<CasPlan, Failure> {
    let topology = Rc::new(topology(&NODES, 1));
    let table = placed(&topology, "NetworkTopologyStrategy", &[("dc1", "3"), ("dc2", "2")]);
    let live = LiveNodes::of(&topology, |node| alive.contains(&node.0));
    CasPlan::of_change(serial, commit, table.replicas(Token(3), &[]), &live)
}

fn refusal(failure: Failure) -> (String, Detail) {
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Unavailable, Outcome::NotApplied));
    (failure.text.into_owned(), failure.detail)
}

#[test]
fn a_majority_takes_part_at_the_level_of_the_decision() {
    let plan = change(Consistency::Serial, Consistency::Quorum, &[0, 1, 3]).expect("three of five");
    assert_eq!((plan.replicas(), plan.participants().len(), plan.commits_needed()), (5, 3, 3));
    assert_eq!((plan.serial(), plan.check_commit()), (Consistency::Serial, Ok(())));
    let local = change(Consistency::LocalSerial, Consistency::Any, &[0, 2, 3, 4]).expect("two of three");
    let nodes: Vec<u16> = local.participants().iter().map(|replica| replica.node.0).collect();
    assert_eq!((local.replicas(), nodes.len(), local.commits_needed()), (3, 2, 1));
    assert!(nodes.iter().all(|node| [0, 2].contains(node)));
    let too_few = |serial, alive: &[u16]| refusal(change(serial, Consistency::One, alive).expect_err("too few"));
    let unavailable = |consistency: Consistency, required, alive| {
        let text = format!("Cannot achieve consistency level {}", consistency.name());
        (text, Detail::Unavailable { consistency, required, alive })
    };
    assert_eq!(too_few(Consistency::Serial, &[0, 1]), unavailable(Consistency::Serial, 3, 2));
    assert_eq!(too_few(Consistency::LocalSerial, &[0, 3, 4]), unavailable(Consistency::LocalSerial, 2, 1));
}

/// As Cassandra answers on one node: the decision goes by the replicas that there are, the read by the factor.
#[test]
fn a_factor_above_the_nodes_fails_the_read_of_the_decision() {
    let topology = Rc::new(topology(&[("datacenter1", "rack1", &[0])], 1));
    let live = LiveNodes::of(&topology, |_| true);
    let plan = |factor: &str, serial| {
        let table = placed(&topology, "SimpleStrategy", &[("replication_factor", factor)]);
        CasPlan::of_read(serial, table.replicas(Token(3), &[]), &live).map(|plan| plan.replicas())
    };
    assert_eq!(plan("1", Consistency::Serial), Ok(1));
    let told = |factor, serial| refusal(plan(factor, serial).expect_err("unavailable"));
    for (factor, serial, named, required, alive) in [
        ("3", Consistency::Serial, Consistency::Quorum, 2, 1),
        ("3", Consistency::LocalSerial, Consistency::LocalQuorum, 2, 1),
        ("0", Consistency::Serial, Consistency::Serial, 1, 0),
        ("0", Consistency::LocalSerial, Consistency::LocalSerial, 1, 0),
    ] {
        let (text, detail) = told(factor, serial);
        assert_eq!(text, format!("Cannot achieve consistency level {}", named.name()));
        assert_eq!(detail, Detail::Unavailable { consistency: named, required, alive });
    }
}

#[test]
fn an_outcome_that_cannot_be_written_is_not_proposed() {
    let plan = change(Consistency::Serial, Consistency::All, &[0, 1, 3]).expect("a majority");
    let (text, detail) = refusal(plan.check_commit().expect_err("two are down"));
    assert_eq!(text, "Cannot achieve consistency level ALL");
    assert_eq!(detail, Detail::Unavailable { consistency: Consistency::All, required: 5, alive: 3 });
    let plan = change(Consistency::Serial, Consistency::EachQuorum, &[0, 1, 3]).expect("a majority");
    let (text, detail) = refusal(plan.check_commit().expect_err("dc2 has one of two"));
    assert_eq!(text, "Cannot achieve consistency level EACH_QUORUM in DC dc2");
    assert_eq!(detail, Detail::Unavailable { consistency: Consistency::EachQuorum, required: 2, alive: 0 });
}

#[test]
fn every_step_has_its_own_error() {
    let plan = change(Consistency::Serial, Consistency::Two, &[0, 1, 2, 3]).expect("a majority");
    let cas = |received, block_for, contentions| {
        format!(
            "CAS operation timed out: received {received} of {block_for} required responses after {contentions} \
             contention retries"
        )
    };
    let early = plan.expired(CasProgress::Preparing, 1, 4);
    assert_eq!((&*early.text, early.code, early.outcome), (&*cas(1, 3, 4), ErrorCode::WriteTimeout, Outcome::Unknown));
    let timeout = |consistency, received, block_for, write_type, contentions| Detail::CasWriteTimeout {
        consistency,
        received,
        block_for,
        write_type,
        contentions,
    };
    assert_eq!(early.detail, timeout(Consistency::Serial, 1, 3, "CAS", 4));
    let late = plan.expired(CasProgress::Committing, 1, 0);
    assert_eq!((&*late.text, late.detail), (&*cas(1, 2, 0), timeout(Consistency::Two, 1, 2, "SIMPLE", 0)));
    let unknown = plan.undecided(1);
    assert_eq!(unknown, plan.expired(CasProgress::Proposing, 1, 0));
    assert_eq!(unknown.text, "CAS operation result is unknown - proposal accepted by 1 but not a quorum.");
    let (consistency, received, block_for) = (Consistency::Serial, 1, 3);
    assert_eq!(unknown.detail, Detail::CasWriteUnknown { consistency, received, block_for });
    for failure in [early, unknown] {
        let read = plan.failure_of_read(failure);
        let detail = Detail::ReadTimeout { consistency, received: 0, block_for, data_present: false };
        assert_eq!((&*read.text, read.detail), ("Operation timed out - received only 0 responses.", detail));
        assert_eq!((read.code, read.outcome), (ErrorCode::ReadTimeout, Outcome::NotApplied));
    }
    let refused = Failure::overloaded("full");
    assert_eq!(plan.failure_of_read(refused.clone()), refused);
}

#[test]
fn only_one_replica_decides_alone() {
    let plan = change(Consistency::Serial, Consistency::Two, &[0, 1, 2, 3]).expect("a majority");
    assert_eq!((plan.only(), plan.commit_level()), (None, Consistency::Two));
    let topology = Rc::new(topology(&NODES, 1));
    let table = placed(&topology, "SimpleStrategy", &[("replication_factor", "1")]);
    let live = LiveNodes::of(&topology, |_| true);
    let again = plan.again(table.replicas(Token(3), &[]), &live).expect("alive");
    assert_eq!(again.only().map(|only| only.node.0), Some(3));
    assert_eq!((again.serial(), again.replicas()), (Consistency::Serial, 1));
    assert!(again.check_commit().is_err(), "two cannot have it");
}

/// Majorities of three replicas and of the one that follows them need not meet, so both are needed.
#[test]
fn d2_a_majority_of_before_and_one_of_after_a_change_decide() {
    let topology = Rc::new(topology(&NODES, 1));
    let plan = |now: &str, next: &str, dead: &[u16]| {
        let of = |factor| [("replication_factor", factor)];
        let table = changing(&topology, ("SimpleStrategy", &of(now)), ("SimpleStrategy", &of(next)));
        let live = LiveNodes::of(&topology, |node| !dead.contains(&node.0));
        CasPlan::of_read(Consistency::Serial, table.replicas(Token(3), &[]), &live)
    };
    let needed = |now, next| {
        let plan = plan(now, next, &[]).expect("alive");
        let needed = plan.quorum().needed();
        (plan.replicas(), needed.now, needed.next)
    };
    assert_eq!((needed("3", "1"), needed("1", "3")), ((3, 2, 1), (3, 1, 2)));
    assert_eq!((needed("3", "2"), needed("5", "3"), needed("3", "5")), ((3, 2, 2), (5, 3, 2), (5, 2, 3)));
    // The replicas of the token are the nodes 3, 1 and 4, in this order.
    let widened = plan("1", "3", &[1]).expect("the only one and one of the others are alive");
    assert_eq!((widened.participants().len(), widened.replicas(), widened.needed()), (2, 3, 2));
    let told = |dead: &[u16]| refusal(plan("1", "3", dead).expect_err("too few")).1;
    let unavailable = |required, alive| Detail::Unavailable { consistency: Consistency::Serial, required, alive };
    assert_eq!((told(&[3]), told(&[1, 4])), (unavailable(1, 0), unavailable(2, 1)));
}
