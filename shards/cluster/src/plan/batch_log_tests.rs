//! The nodes that keep a batch in data centres of all shapes, and what clients are told when they do not.

use super::*;
use crate::placement::tests::random_topology;
use crate::topology::tests::topology;
use model::arbitrary::generator;
use model::failure::{Detail, FailureReason, Outcome};
use std::collections::BTreeSet;

const STRATEGIES: [BatchLogStrategy; 4] = [
    BatchLogStrategy::RandomRemote,
    BatchLogStrategy::PreferLocal,
    BatchLogStrategy::DynamicRemote,
    BatchLogStrategy::Dynamic,
];

/// Nodes of one data centre in these racks, with one of another centre; this node is the first.
fn in_racks(racks: &[&str]) -> Topology {
    let nodes: Vec<_> = racks.iter().map(|rack| ("here", *rack, &[][..])).chain([("there", "r1", &[][..])]).collect();
    topology(&nodes, 1)
}

/// All nodes that may keep a batch, by the numbers that chance gives.
fn possible(topology: &Topology, strategy: BatchLogStrategy) -> BTreeSet<Vec<u16>> {
    let mut below = generator(7);
    let chosen = |_| {
        let mut nodes: Vec<u16> =
            holders(topology, strategy, |n| below(n as u64) as usize, |_| true).iter().map(|node| node.0).collect();
        nodes.sort_unstable();
        nodes
    };
    (0..200).map(chosen).collect()
}

fn sets<const N: usize>(sets: [&[u16]; N]) -> BTreeSet<Vec<u16>> {
    sets.iter().map(|set| set.to_vec()).collect()
}

#[test]
fn two_nodes_of_other_racks_keep_a_batch() {
    use BatchLogStrategy::{Dynamic, DynamicRemote, PreferLocal as LocalToo, RandomRemote as Remote};
    type Case = (&'static [&'static str], BatchLogStrategy, BTreeSet<Vec<u16>>);
    let cases: [Case; 12] = [
        (&["r1"], Remote, sets([&[0]])),
        (&["r1", "r1"], Remote, sets([&[0, 1]])),
        (&["r1", "r2", "r3"], Remote, sets([&[1, 2]])),
        (&["r1", "r1", "r1", "r1"], Remote, sets([&[1, 2], &[1, 3], &[2, 3]])),
        (&["r1", "r1", "r2", "r2"], Remote, sets([&[2, 3]])),
        (&["r1", "r1", "r1", "r2"], Remote, sets([&[1, 3], &[2, 3]])),
        (&["r1", "r1", "r2", "r3", "r3"], Remote, sets([&[2, 3], &[2, 4]])),
        (&["r1", "r1", "r2", "r3"], LocalToo, sets([&[1, 2], &[1, 3]])),
        (&["r1", "r2", "r3", "r4"], LocalToo, sets([&[1, 2], &[1, 3], &[2, 3]])),
        (&["r1", "r1", "r2", "r2"], DynamicRemote, sets([&[2, 3]])),
        (&["r1", "r1", "r2", "r3", "r3"], DynamicRemote, sets([&[2, 3], &[2, 4]])),
        (&["r1", "r1", "r2", "r2"], Dynamic, sets([&[1, 2], &[1, 3]])),
    ];
    for (nodes, strategy, expected) in cases {
        assert_eq!(possible(&in_racks(nodes), strategy), expected, "{nodes:?} {strategy:?}");
    }
}

#[test]
fn dead_nodes_keep_no_batch_but_where_there_is_no_choice() {
    let among = |nodes: &[&str], dead: &[u128]| {
        let topology = in_racks(nodes);
        topology.set_live(|node| !dead.contains(&(node.host_id.as_u128() - 1)));
        possible(&topology, BatchLogStrategy::RandomRemote)
    };
    assert_eq!(among(&["r1", "r2"], &[1]), sets([&[0, 1]]));
    assert_eq!(among(&["r1", "r2", "r3"], &[1]), sets([&[2]]));
    assert_eq!(among(&["r1", "r2", "r3"], &[1, 2]), sets([&[]]));
    assert_eq!(among(&["r1", "r1", "r2", "r2"], &[2]), sets([&[1, 3]]));
}

#[test]
fn a_node_that_cannot_be_connected_to_keeps_a_batch_only_if_no_other_can_either() {
    let among = |nodes: &[&str], unreachable: &[u128]| {
        let topology = in_racks(nodes);
        let is_reachable = |node: &Node| !unreachable.contains(&(node.host_id.as_u128() - 1));
        let mut below = generator(7);
        let chosen = |_| {
            let below = |n: usize| below(n as u64) as usize;
            let chosen = holders(&topology, BatchLogStrategy::RandomRemote, below, is_reachable);
            let mut nodes: Vec<u16> = chosen.iter().map(|node| node.0).collect();
            nodes.sort_unstable();
            nodes
        };
        (0..200).map(chosen).collect::<BTreeSet<Vec<u16>>>()
    };
    assert_eq!(among(&["r1", "r1", "r1"], &[2]), sets([&[1]]), "one keeps it alone");
    assert_eq!(among(&["r1", "r1", "r1"], &[1, 2]), sets([&[1, 2]]), "they may be there in a moment");
    assert_eq!(among(&["r1", "r1", "r1", "r1"], &[2]), sets([&[1, 3]]));
    assert_eq!(among(&["r1", "r2"], &[1]), sets([&[0, 1]]), "there is no choice");
}

#[test]
fn whatever_the_nodes_those_that_are_chosen_follow_the_rules() {
    for seed in 0..2000 {
        let mut below = generator(seed);
        let topology = random_topology(&mut below);
        let dead = below(3);
        topology.set_live(|node| dead == 0 || node.host_id.as_u128() as u64 % 3 != dead);
        let strategy = STRATEGIES[(seed % 4) as usize];
        let chosen = holders(&topology, strategy, |n| below(n as u64) as usize, |_| true);
        let center = topology.data_center_of(topology.here());
        let near: Vec<NodeIndex> = (0..topology.nodes().len() as u16)
            .map(NodeIndex)
            .filter(|node| topology.data_center_of(*node) == center)
            .collect();
        assert!(chosen.iter().all(|node| near.contains(node)), "seed {seed}");
        assert!(chosen.len() <= HOLDERS && (chosen.len() < 2 || chosen[0] != chosen[1]), "seed {seed}");
        if near.len() <= HOLDERS {
            assert_eq!(chosen[..], near[..], "seed {seed}");
            continue;
        }
        let fit = |node: &&NodeIndex| **node != topology.here() && topology.live().contains(**node);
        assert_eq!(chosen.len(), near.iter().filter(fit).count().min(HOLDERS), "seed {seed}");
        assert!(chosen.iter().all(|node| fit(&node)), "seed {seed}");
    }
}

fn plan(topology: &Topology, level: Consistency) -> Result<WritePlan, Failure> {
    WritePlan::of_batch_log(topology, 3, level, BatchLogStrategy::RandomRemote, |_| 0, |_| true)
}

#[test]
fn a_batch_that_no_other_node_can_keep_is_unavailable() {
    let topology = in_racks(&["r1", "r2", "r3"]);
    topology.set_live(|node| node.data_center == "there");
    let told = |level| plan(&topology, level).map(drop).expect_err("too few");
    let detail = |alive| Detail::Unavailable { consistency: Consistency::Two, required: 2, alive };
    let one = told(Consistency::One);
    let text = "Cannot achieve consistency level TWO for batchlog in local DC, required:2, available:0";
    assert_eq!((&*one.text, one.detail, one.outcome), (text, detail(0), Outcome::NotApplied));
    let any = told(Consistency::Any);
    assert_eq!((&*any.text, any.detail), ("Cannot achieve consistency level TWO", detail(1)));
}

#[test]
fn all_holders_must_answer_and_those_that_are_silent_make_a_timeout() {
    let topology = in_racks(&["r1", "r2", "r3"]);
    let mut plan_of_two = plan(&topology, Consistency::Any).expect("alive");
    let targets: Vec<Replica> = plan_of_two.targets().collect();
    assert_eq!(targets.len(), 2);
    assert!(!plan_of_two.acknowledged(targets[0]));
    let silent = Failure::server("").with(Detail::Replica { reason: FailureReason::NodeDown });
    assert_eq!(plan_of_two.failed(targets[1], silent, &topology), None);
    let told = plan_of_two.expired();
    assert_eq!(told.text, "Operation timed out - received only 1 responses.");
    let (consistency, write_type) = (Consistency::Two, "BATCH_LOG");
    assert_eq!(told.detail, Detail::WriteTimeout { consistency, received: 1, block_for: 2, write_type });
    let mut done = plan(&topology, Consistency::One).expect("alive");
    assert!(!done.acknowledged(targets[0]) && done.acknowledged(targets[1]));
    let mut refused = plan(&topology, Consistency::One).expect("alive");
    let failure = Failure::server("full").with(Detail::Replica { reason: FailureReason::Unknown });
    let told = refused.failed(targets[0], failure, &topology).expect("two are needed");
    assert!(matches!(told.detail, Detail::WriteFailure { write_type: "BATCH_LOG", block_for: 2, .. }), "{told:?}");
}

#[test]
fn a_node_alone_keeps_its_batches_itself() {
    let topology = in_racks(&["r1"]);
    let mut plan = plan(&topology, Consistency::All).expect("alive");
    let here = Replica { node: topology.here(), shard: 3 };
    assert_eq!(plan.only(), Some(here));
    assert!(plan.acknowledged(here));
    let write_type = "BATCH_LOG";
    let timeout = Detail::WriteTimeout { consistency: Consistency::One, received: 1, block_for: 1, write_type };
    assert_eq!(plan.expired().detail, timeout);
}
