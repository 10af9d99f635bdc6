//! Replicas of new tablets, of those that nodes leave, and for other factors, in clusters made by hand and at random.

use super::super::fixture::{Random, Table, factors, id, loads, make, node, random_nodes, reach, room, spread};
use super::*;

const SEEDS: u64 = 300;

fn data_centers(nodes: &[PlannedNode]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.data_center.clone()).collect()
}

fn random_factors(random: &mut Random) -> Factors {
    factors(&[("dc1", random.below(5) as u32), ("dc2", random.below(4) as u32)])
}

fn random_tables(random: &mut Random, nodes: &[PlannedNode]) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for number in 0..1 + random.below(4) {
        let existing = loads(&tables).into_iter().map(|(host_id, (_, count))| (host_id, count)).collect();
        let count = 1 + random.below(40) as usize;
        let map = initial(nodes, &random_factors(random), count, &existing).expect("there are nodes");
        tables.push(Table::new(number as usize, map, |_| 1));
    }
    tables
}

fn firsts(map: &TabletMap) -> BTreeMap<Uuid, u64> {
    let mut firsts = BTreeMap::new();
    map.tablets.iter().for_each(|tablet| *firsts.entry(tablet.replicas[0]).or_default() += 1);
    firsts
}

#[test]
fn new_tablets_are_in_as_many_racks_as_there_are() {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let nodes = random_nodes(&mut random, 12);
        let of = random_factors(&mut random);
        let map = initial(&nodes, &of, 1 + random.below(50) as usize, &BTreeMap::new()).unwrap();
        assert_eq!(map.check(), Ok(()), "seed {seed}");
        for data_center in ["dc1", "dc2"] {
            let (count, racks) = room(&nodes, data_center, |_| true);
            let count = count.min(of[data_center] as usize);
            for tablet in &map.tablets {
                assert_eq!(spread(&nodes, &tablet.replicas, data_center), (count, racks.min(count)), "seed {seed}");
            }
        }
    }
}

#[test]
fn new_tablets_are_on_nodes_by_their_weight_and_each_is_first_as_often() {
    let mut nodes: Vec<_> = (0..6).map(|number| node(number, number % 3)).collect();
    let counts = |nodes: &[PlannedNode], tablets| {
        let map = initial(nodes, &factors(&[("dc1", 3)]), tablets, &BTreeMap::new()).unwrap();
        let firsts = firsts(&map);
        let counts: Vec<u64> = loads(&[Table::new(1, map, |_| 1)]).values().map(|load| load.1).collect();
        (counts, firsts.into_values().collect::<Vec<_>>())
    };
    let near = |counts: &[u64], fair: &[u64]| counts.iter().zip(fair).all(|(count, fair)| count.abs_diff(*fair) <= 1);
    let (all, firsts) = counts(&nodes, 24);
    assert!(all == [12; 6] && near(&firsts, &[4; 6]), "{all:?} {firsts:?}");
    // The two nodes of a rack share its replicas by their weights.
    (nodes[0].weight, nodes[3].weight) = (3, 1);
    assert_eq!(counts(&nodes, 24).0, [18, 12, 12, 6, 12, 12]);
    nodes.iter_mut().for_each(|node| node.rack = "one".to_string());
    let (all, firsts) = counts(&nodes, 80);
    // The heavy one is in all but a few tablets.
    assert!(near(&all, &[80, 32, 32, 32, 32, 32]) && near(&firsts, &[30, 10, 10, 10, 10, 10]), "{all:?} {firsts:?}");
}

#[test]
fn a_table_of_one_tablet_goes_to_the_emptiest_nodes() {
    let nodes: Vec<_> = (0..4).map(|number| node(number, 0)).collect();
    let existing = [(id(0), 6), (id(1), 4), (id(2), 3), (id(3), 5)].into();
    let map = initial(&nodes, &factors(&[("dc1", 2)]), 1, &existing).unwrap();
    assert_eq!(map.tablets[0].replicas, [id(2), id(1)]);
}

#[test]
fn there_are_as_many_replicas_as_nodes_to_begin_with() {
    let of = factors(&[("dc1", 3), ("elsewhere", 2)]);
    assert_eq!(initial(&[], &of, 4, &BTreeMap::new()), None);
    let mut nodes: Vec<_> = (0..2).map(|number| node(number, 0)).collect();
    let replicas = |nodes: &[PlannedNode]| -> Option<BTreeSet<Uuid>> {
        Some(initial(nodes, &of, 1, &BTreeMap::new())?.tablets[0].replicas.iter().copied().collect())
    };
    assert_eq!(replicas(&nodes).unwrap(), [id(0), id(1)].into());
    // One that is down is given some only if there are no others, one that leaves nothing.
    nodes.extend([2, 3, 4].map(|number| node(number, 0)));
    nodes[1].may_gain = false;
    nodes[3].may_gain = false;
    nodes[3].leaves = true;
    assert_eq!(replicas(&nodes).unwrap(), [id(0), id(2), id(4)].into());
    nodes[4].leaves = true;
    assert_eq!(replicas(&nodes).unwrap(), [id(0), id(2), id(1)].into());
    nodes.iter_mut().for_each(|node| node.leaves = true);
    assert_eq!(replicas(&nodes), None);
}

#[test]
fn nothing_stays_on_nodes_that_leave() {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let mut nodes = random_nodes(&mut random, 12);
        let mut tables = random_tables(&mut random, &nodes);
        let before = tables.clone();
        nodes.iter_mut().for_each(|node| node.may_gain = random.below(5) > 0);
        let leaving: BTreeSet<Uuid> =
            nodes.iter().filter(|_| random.below(4) == 0).map(|node| node.host_id).take(nodes.len() - 1).collect();
        let maps: Vec<_> = before.iter().map(|table| (table.id, &table.map)).collect();
        make(&replaced(&nodes, &maps, &leaving, None), &mut tables);
        for (table, before) in tables.iter().zip(&before) {
            let is_lower = table.map.tablets[0].replicas.len() < before.map.tablets[0].replicas.len();
            for (tablet, old) in table.map.tablets.iter().zip(&before.map.tablets) {
                assert!(tablet.replicas.iter().all(|host_id| !leaving.contains(host_id)), "seed {seed}");
                let stays = |host_id: &Uuid| old.replicas.contains(host_id) && !leaving.contains(host_id);
                let kept = old.replicas.iter().filter(|host_id| stays(host_id)).count();
                let still = tablet.replicas.iter().filter(|host_id| stays(host_id)).count();
                assert!(still == kept || is_lower, "seed {seed}: what can stay, stays");
                for data_center in data_centers(&nodes) {
                    let is_open = |node: &PlannedNode| {
                        stays(&node.host_id) || (node.may_gain && !leaving.contains(&node.host_id))
                    };
                    let (most, racks_open) = room(&nodes, &data_center, is_open);
                    let (had, _) = spread(&nodes, &old.replicas, &data_center);
                    let (has, racks) = spread(&nodes, &tablet.replicas, &data_center);
                    assert!(has <= most.min(had) && (has == had || is_lower), "seed {seed}: {has} {most} {had}");
                    let (kept, racks_kept) = room(&nodes, &data_center, |node| stays(&node.host_id));
                    if has >= kept {
                        assert_eq!(racks, racks_open.min(racks_kept + has - kept), "seed {seed}");
                    }
                }
            }
        }
        let maps: Vec<_> = tables.iter().map(|table| (table.id, &table.map)).collect();
        assert_eq!(replaced(&nodes, &maps, &leaving, None), [], "seed {seed}: all is done at once");
    }
}

#[test]
fn what_a_node_had_is_spread_over_the_others() {
    let nodes: Vec<_> = (0..6).map(|number| node(number, 0)).collect();
    let map = initial(&nodes, &factors(&[("dc1", 3)]), 100, &BTreeMap::new()).unwrap();
    let mut tables = [Table::new(1, map.clone(), |_| 1)];
    let moved = make(&replaced(&nodes, &[(tables[0].id, &map)], &[id(2)].into(), None), &mut tables);
    assert_eq!(moved, 50);
    let counts: Vec<u64> = loads(&tables).values().map(|load| load.1).collect();
    assert!(counts.iter().all(|count| (58..=62).contains(count)), "{counts:?}");
    let firsts = firsts(&tables[0].map);
    assert!(firsts.values().all(|count| (15..=25).contains(count)), "{firsts:?}");
}

#[test]
fn a_substitute_takes_exactly_the_place_of_another() {
    let mut nodes: Vec<_> = (0..6).map(|number| node(number, number % 3)).collect();
    let map = initial(&nodes[..5], &factors(&[("dc1", 3)]), 16, &BTreeMap::new()).unwrap();
    // It is in another rack, and has not yet all it needs to be given tablets.
    nodes[5].may_gain = false;
    let mut tables = [Table::new(1, map.clone(), |_| 1)];
    let updates = replaced(&nodes, &[(tables[0].id, &map)], &[id(1)].into(), Some((id(1), id(5))));
    make(&updates, &mut tables);
    let swap = |host_id: &Uuid| if *host_id == id(1) { id(5) } else { *host_id };
    for (tablet, old) in tables[0].map.tablets.iter().zip(&map.tablets) {
        assert_eq!(tablet.replicas, old.replicas.iter().map(swap).collect::<Vec<_>>());
    }
    assert_eq!(updates[0].changes.len(), map.tablets.iter().filter(|tablet| tablet.replicas.contains(&id(1))).count());
}

#[test]
fn too_few_nodes_are_left_for_all_replicas() {
    let nodes: Vec<_> = (0..3).map(|number| node(number, 0)).collect();
    let of = factors(&[("dc1", 3)]);
    let map = initial(&nodes, &of, 8, &BTreeMap::new()).unwrap();
    let mut tables = [Table::new(1, map.clone(), |_| 1)];
    make(&replaced(&nodes, &[(tables[0].id, &map)], &[id(2)].into(), None), &mut tables);
    assert!(tables[0].map.tablets.iter().all(|tablet| tablet.replicas.len() == 2));
    // A node that comes fills them up again; one that is down is not waited for.
    let mut nodes: Vec<_> = [0, 1, 3].map(|number| node(number, 0)).into();
    nodes[2].may_gain = false;
    assert_eq!(refactored(&nodes, &tables[0].map, &of), []);
    nodes[2].may_gain = true;
    let changes = refactored(&nodes, &tables[0].map, &of);
    make(&[TabletsUpdate { table: tables[0].id, changes }], &mut tables);
    assert!(tables[0].map.tablets.iter().all(|tablet| tablet.replicas[2] == id(3)));
}

#[test]
fn another_number_of_replicas_keeps_as_many_as_it_can() {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let nodes = random_nodes(&mut random, 12);
        let mut tables = random_tables(&mut random, &nodes);
        let of = random_factors(&mut random);
        let table = &mut tables[0];
        let before = table.map.clone();
        let changes = refactored(&nodes, &table.map, &of);
        make(&[TabletsUpdate { table: table.id, changes }], std::slice::from_mut(table));
        for (tablet, old) in table.map.tablets.iter().zip(&before.tablets) {
            for data_center in data_centers(&nodes) {
                let (most, racks_most) = room(&nodes, &data_center, |_| true);
                let ((had, _), (has, racks)) =
                    (spread(&nodes, &old.replicas, &data_center), spread(&nodes, &tablet.replicas, &data_center));
                assert_eq!(has, most.min(of[&data_center] as usize), "seed {seed}");
                assert_eq!(racks, racks_most.min(has), "seed {seed}");
                let both: Vec<Uuid> = tablet.replicas.iter().copied().filter(|at| old.replicas.contains(at)).collect();
                assert_eq!(spread(&nodes, &both, &data_center).0, had.min(has), "seed {seed}");
            }
        }
        assert_eq!(refactored(&nodes, &table.map, &of), [], "seed {seed}: all is done at once");
    }
}

#[test]
fn fewer_replicas_leave_nodes_equally_full() {
    let nodes: Vec<_> = (0..6).map(|number| node(number, number % 3)).collect();
    let mut map = initial(&nodes, &factors(&[("dc1", 3)]), 60, &BTreeMap::new()).unwrap();
    let changes = refactored(&nodes, &map, &factors(&[("dc1", 1)]));
    map = TabletsUpdate { table: [0; 16], changes }.applied(Some(&map)).unwrap().unwrap();
    reach(&mut map);
    assert!(loads(&[Table::new(1, map, |_| 1)]).values().all(|load| (8..=12).contains(&load.1)));
}
