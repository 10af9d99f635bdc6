//! Moves until nothing is to be done: nodes that come, leave and are down, weights, racks, and the largest cluster.

use super::super::fixture::{Random, Table, factors, id, loads, make, node, random_nodes, spread, views};
use super::super::{TabletFigures, initial};
use super::*;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const GIB: u64 = 1 << 30;
/// Moves of a round.
const MOVES: usize = 10;

/// Balances until there is nothing to do. Returns the number of rounds and of moves. The cost falls with every round
/// while no node leaves.
fn settle(nodes: &[PlannedNode], tables: &mut [Table], what: &str) -> (usize, usize) {
    let (mut rounds, mut moves) = (0, 0);
    loop {
        let before = cost(nodes, &views(tables));
        let updates = balance(nodes, &views(tables), MOVES);
        if updates.is_empty() {
            return (rounds, moves);
        }
        let old: Vec<_> = tables.to_vec();
        let made = make(&updates, tables);
        assert!((1..=MOVES).contains(&made), "{what}: {made} moves");
        let after = cost(nodes, &views(tables));
        assert!(after < before || nodes.iter().any(|node| node.leaves), "{what}: cost {after} after {before}");
        check(nodes, &old, tables, what);
        (rounds, moves) = (rounds + 1, moves + made);
        assert!(rounds < 10_000, "{what}: no end");
    }
}

/// What no round may do.
fn check(nodes: &[PlannedNode], old: &[Table], new: &[Table], what: &str) {
    let pairs = old.iter().zip(new).flat_map(|(old, new)| old.map.tablets.iter().zip(&new.map.tablets));
    for (old, new) in pairs {
        let gained: Vec<_> =
            nodes.iter().filter(|node| is_in(node, &new.replicas) && !is_in(node, &old.replicas)).collect();
        let lost: Vec<_> =
            nodes.iter().filter(|node| !is_in(node, &new.replicas) && is_in(node, &old.replicas)).collect();
        assert!(gained.len() <= 1 && gained.len() == lost.len(), "{what}: one replica at a time");
        assert!(gained.iter().all(|node| node.gains()), "{what}: a node that may not gain has gained");
        for (lost, gained) in lost.iter().zip(gained) {
            assert_eq!(lost.data_center, gained.data_center, "{what}");
            let racks = |replicas: &[Uuid]| spread(nodes, replicas, &lost.data_center).1;
            assert!(racks(&new.replicas) >= racks(&old.replicas) || lost.leaves, "{what}: fewer racks");
            assert!(lost.may_gain || lost.leaves, "{what}: a node that is down loses nothing");
        }
    }
}

fn is_in(node: &PlannedNode, replicas: &[Uuid]) -> bool {
    replicas.contains(&node.host_id)
}

/// The largest deviation from the mean, of bytes and of tablets by weight.
fn deviation(nodes: &[PlannedNode], tables: &[Table]) -> (f64, f64) {
    let loads = loads(tables);
    let of = |amount: fn((u64, u64)) -> u64| {
        let ratio = |node: &PlannedNode| {
            amount(loads.get(&node.host_id).copied().unwrap_or_default()) as f64 / f64::from(node.weight)
        };
        let all: f64 = loads.values().map(|load| amount(*load) as f64).sum();
        let mean = all / nodes.iter().map(|node| f64::from(node.weight)).sum::<f64>();
        nodes.iter().map(|node| (ratio(node) / mean - 1.0).abs()).fold(0.0, f64::max)
    };
    (of(|load| load.0), of(|load| load.1))
}

fn table(nodes: &[PlannedNode], number: usize, tablets: usize, factor: u32, bytes: impl FnMut(usize) -> u64) -> Table {
    let map = initial(nodes, &factors(&[("dc1", factor), ("dc2", factor)]), tablets, &BTreeMap::new());
    Table::new(number, map.expect("there are nodes"), bytes)
}

#[test]
fn the_cost_is_what_is_written_down() {
    let nodes = [node(1, 0), PlannedNode { weight: 2, ..node(2, 0) }];
    let mut one = table(&nodes[..1], 1, 3, 1, |_| 10 * GIB);
    // All three on the node of weight 1: its ratios are 3, those of the other 0. No units: that term is none.
    let all_on_one = (3.0f64 - 1.0).powi(2) + 2.0;
    assert!((cost(&nodes, &views(std::slice::from_ref(&one))) - all_on_one * (1.0 + COUNT_SHARE)).abs() < 1e-9);
    for at in [0, 1] {
        one.map.tablets[at].replicas = vec![id(2)];
    }
    assert!(cost(&nodes, &views(std::slice::from_ref(&one))).abs() < 1e-9);
    // Next to nothing costs next to nothing.
    one.figures = vec![TabletFigures { bytes: 1, ..Default::default() }, Default::default(), Default::default()];
    assert!(cost(&nodes, &views(&[one])) < 1e-9);
}

#[test]
fn a_node_that_joins_fills() {
    let mut nodes: Vec<_> = (0..5).map(|number| node(number, 0)).collect();
    let mut random = Random(7);
    let mut tables = [1, 2, 3].map(|number| table(&nodes, number, 100, 3, |_| 2 * GIB + random.below(8 * GIB)));
    settle(&nodes, &mut tables, "before");
    nodes.push(node(5, 0));
    let (rounds, moves) = settle(&nodes, &mut tables, "a node joins");
    let (bytes, count) = deviation(&nodes, &tables);
    assert!(bytes < 0.05 && count < 0.3, "{bytes} {count}");
    // Large ones go first, so its share of bytes is fewer than 150 of 900 tablets.
    let gained = loads(&tables)[&id(5)].1;
    assert!((100..=155).contains(&gained), "it has {gained}");
    assert!(moves <= gained as usize + 20, "{moves} moves");
    assert!(rounds <= moves.div_ceil(MOVES) + 1, "{rounds} rounds");
}

#[test]
fn a_node_that_leaves_empties_and_only_what_it_has_moves() {
    let mut nodes: Vec<_> = (0..6).map(|number| node(number, number % 3)).collect();
    let mut tables = [1, 2].map(|number| table(&nodes, number, 60, 3, |_| GIB));
    // Another is down: it loses and gains nothing.
    nodes[1].may_gain = false;
    nodes[0].leaves = true;
    nodes[0].may_gain = false;
    let of = |tables: &[Table], number| loads(tables).get(&id(number)).map_or(0, |load| load.1);
    let (had, down) = (of(&tables, 0), of(&tables, 1));
    let (_, moves) = settle(&nodes, &mut tables, "a node leaves");
    assert_eq!((of(&tables, 0), of(&tables, 1), moves as u64), (0, down, had));
    // The rack keeps one node, which has a replica of every tablet now.
    assert_eq!(of(&tables, 3), 120);
}

#[test]
fn a_node_that_leaves_keeps_what_nobody_else_has_room_for() {
    let mut nodes: Vec<_> = (0..4).map(|number| node(number, number / 2)).collect();
    let mut tables = [table(&nodes, 1, 12, 3, |_| GIB)];
    nodes[0].leaves = true;
    settle(&nodes, &mut tables, "three nodes stay for three replicas");
    assert!(!loads(&tables).contains_key(&id(0)));
    nodes[1].leaves = true;
    let had = loads(&tables);
    assert_eq!(balance(&nodes, &views(&tables), MOVES), []);
    assert_eq!(loads(&tables), had);
    // One that is the last of its rack goes where there are replicas' racks already.
    let mut nodes: Vec<_> = [0, 1, 2, 2].into_iter().enumerate().map(|(number, rack)| node(number, rack)).collect();
    let mut tables = [table(&nodes[..3], 1, 12, 3, |_| GIB)];
    nodes[0].leaves = true;
    settle(&nodes, &mut tables, "the last of its rack");
    assert_eq!(loads(&tables).keys().copied().collect::<Vec<_>>(), [id(1), id(2), id(3)]);
}

#[test]
fn nodes_have_as_much_as_their_weight_says() {
    let weights = [1, 2, 4, 8];
    let nodes: Vec<_> = (0..4).map(|number| PlannedNode { weight: weights[number], ..node(number, 0) }).collect();
    let mut tables = [table(&nodes[..1], 1, 150, 1, |_| GIB)];
    settle(&nodes, &mut tables, "weights");
    let counts: Vec<u64> = loads(&tables).values().map(|load| load.1).collect();
    assert_eq!(counts.iter().sum::<u64>(), 150);
    assert!(counts.iter().zip([10, 20, 40, 80]).all(|(count, fair)| count.abs_diff(fair) <= 1), "{counts:?}");
}

#[test]
fn empty_tables_and_busy_ones_spread_too() {
    let nodes: Vec<_> = (0..4).map(|number| node(number, 0)).collect();
    let mut tables = [table(&nodes[..1], 1, 40, 1, |_| 0)];
    settle(&nodes, &mut tables, "empty");
    assert!(loads(&tables).values().all(|load| load.1 == 10));
    // Eight tablets have nearly all requests, and all are on one node.
    let mut tables = [table(&nodes, 1, 40, 1, |_| GIB)];
    let busy: Vec<usize> = (0..40).filter(|at| tables[0].map.tablets[*at].replicas == [id(2)]).take(8).collect();
    busy.iter().for_each(|at| tables[0].figures[*at].units_lasting = 5_000.0);
    settle(&nodes, &mut tables, "busy");
    let mut counts = BTreeMap::<Uuid, usize>::new();
    busy.iter().for_each(|at| *counts.entry(tables[0].map.tablets[*at].replicas[0]).or_default() += 1);
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [2, 2, 2, 2]);
    assert!(deviation(&nodes, &tables).0 < 0.11);
}

#[test]
fn small_differences_are_not_worth_a_move() {
    let nodes: Vec<_> = (0..2).map(|number| node(number, 0)).collect();
    let mut tables = [table(&nodes, 1, 200, 1, |_| GIB)];
    let on =
        |tables: &[Table], number| (0..200).find(|at| tables[0].map.tablets[*at].replicas == [id(number)]).unwrap();
    let count = |tables: &[Table]| loads(tables)[&id(0)].1;
    assert_eq!(count(&tables), 100);
    // 102 and 98 differ by 4% of the mean, but a tablet is 1% of it: with the price of a move that is not enough.
    let first = on(&tables, 1);
    tables[0].map.tablets[first].replicas = vec![id(0)];
    assert_eq!(balance(&nodes, &views(&tables), MOVES), []);
    for _ in 0..2 {
        let next = on(&tables, 1);
        tables[0].map.tablets[next].replicas = vec![id(0)];
    }
    assert_eq!((count(&tables), settle(&nodes, &mut tables, "104 and 96").1 > 0), (103, true));
}

#[test]
fn a_new_rack_is_used_as_far_as_it_has_room() {
    let mut nodes: Vec<_> = (0..6).map(|number| node(number, number % 2)).collect();
    let mut tables = [table(&nodes, 1, 120, 3, |_| GIB)];
    let three_racks = |nodes: &[PlannedNode], tables: &[Table]| {
        tables[0].map.tablets.iter().filter(|tablet| spread(nodes, &tablet.replicas, "dc1").1 == 3).count()
    };
    nodes.extend([6, 7, 8].map(|number| node(number, 2)));
    settle(&nodes, &mut tables, "a rack of as many nodes");
    assert!(three_racks(&nodes, &tables) >= 110, "{}", three_racks(&nodes, &tables));
    assert!(deviation(&nodes, &tables).0 < 0.1);
}

#[test]
fn tablets_that_move_are_counted_where_they_go_and_left_alone() {
    let nodes: Vec<_> = (0..2).map(|number| node(number, 0)).collect();
    let mut tables = [table(&nodes[..1], 1, 40, 1, |_| GIB)];
    let updates = balance(&nodes, &views(&tables), 20);
    tables[0].map = updates[0].applied(Some(&tables[0].map)).unwrap().unwrap();
    assert_eq!(tables[0].map.tablets.iter().filter(|tablet| tablet.goal.is_some()).count(), 20);
    assert_eq!(balance(&nodes, &views(&tables), MOVES), []);
    assert_eq!(balance(&nodes, &views(&tables), 0), []);
}

#[test]
fn random_clusters_come_to_rest() {
    for seed in 0..150 {
        let mut random = Random(seed);
        let mut nodes = random_nodes(&mut random, 14);
        let mut tables: Vec<Table> = Vec::new();
        for number in 0..1 + random.below(4) as usize {
            let (largest, busiest) = (random.below(10 * GIB), random.below(5_000));
            let (tablets, factor) = (1 + random.below(60) as usize, 1 + random.below(4) as u32);
            let mut table = table(&nodes, number, tablets, factor, |_| random.below(largest));
            table.figures.iter_mut().for_each(|figures| figures.units_lasting = random.below(busiest) as f64);
            tables.push(table);
        }
        for step in 0..4 {
            let what = format!("seed {seed}, step {step}");
            let before = cost(&nodes, &views(&tables));
            settle(&nodes, &mut tables, &what);
            if nodes.iter().all(|node| !node.leaves) {
                assert!(cost(&nodes, &views(&tables)) <= before, "{what}");
            }
            let number = nodes.len() + 1;
            let at = random.below(nodes.len() as u64) as usize;
            match random.below(3) {
                0 => nodes.push(PlannedNode { weight: 1 + random.below(8) as u32, ..node(number, number % 3) }),
                1 => nodes[at].leaves = !nodes[at].leaves,
                _ => nodes[at].may_gain = !nodes[at].may_gain,
            }
        }
    }
}

/// The largest cluster that this is for: 1,000 nodes of 3 racks, 200,000 tablets of 100 tables, three replicas each.
fn large() -> (Vec<PlannedNode>, Vec<Table>) {
    let mut random = Random(1);
    let nodes: Vec<_> = (0..1_000).map(|number| PlannedNode { weight: 16, ..node(number, number % 3) }).collect();
    let size = |random: &mut Random| (GIB >> random.below(4)) + random.below(8 * GIB);
    let tables = (0..100).map(|number| table(&nodes, number, 2_000, 3, |_| size(&mut random))).collect();
    (nodes, tables)
}

#[test]
fn a_thousand_nodes_and_two_hundred_thousand_tablets() {
    let (mut nodes, mut tables) = large();
    let before = deviation(&nodes, &tables).0;
    let moves = make(&balance(&nodes, &views(&tables), usize::MAX), &mut tables);
    let after = deviation(&nodes, &tables).0;
    assert!(before > 0.05 && after < 0.05 && after < before, "{before} {after}");
    assert!(moves < 10_000, "{moves} moves");
    // Twenty nodes come, each gets about its share of 588 and hardly anything else moves; then ten leave.
    nodes.extend((1_000..1_020).map(|number| PlannedNode { weight: 16, ..node(number, number % 3) }));
    let before = deviation(&nodes, &tables).0;
    let mut moves = 0;
    while let made @ 1.. = make(&balance(&nodes, &views(&tables), 5_000), &mut tables) {
        moves += made;
    }
    let after = deviation(&nodes, &tables).0;
    assert!(before > 0.99 && after < 0.05, "{before} {after}");
    assert!((10_000..15_000).contains(&moves), "{moves} moves for 20 x 588 tablets");
    let leaving: BTreeSet<Uuid> = (0..10).map(id).collect();
    nodes.iter_mut().filter(|node| leaving.contains(&node.host_id)).for_each(|node| node.leaves = true);
    let had: u64 = loads(&tables).iter().filter(|(host_id, _)| leaving.contains(host_id)).map(|(_, load)| load.1).sum();
    let mut moves = 0;
    // A tablet that two of them have moves twice.
    while let made @ 1.. = make(&balance(&nodes, &views(&tables), usize::MAX), &mut tables) {
        moves += made as u64;
    }
    assert!((had..had + 1_000).contains(&moves), "{moves} moves of {had}");
    assert!(loads(&tables).keys().all(|host_id| !leaving.contains(host_id)));
}
