//! Splits and merges at their limits, and of random partitions until nothing is to be done.

use super::super::fixture::{Random, id, node, reach};
use super::*;
use crate::tablets::TabletsUpdate;

const GIB: u64 = 1 << 30;

fn map(ends: &[i64], replicas: &[usize]) -> TabletMap {
    let replicas: Vec<_> = replicas.iter().copied().map(id).collect();
    let tablet = |until| Tablet { until, replicas: replicas.clone(), goal: None };
    TabletMap { tablets: ends.iter().copied().map(Some).chain([None]).map(tablet).collect() }
}

fn figures(bytes: u64, units: f64, middle: Option<i64>) -> TabletFigures {
    TabletFigures { bytes, units, units_lasting: units, middle }
}

fn plan(map: &TabletMap, figures: &[TabletFigures], limits: Limits) -> Vec<TabletChange> {
    let changes = split_and_merge(&view(map, figures, limits));
    let applied = TabletsUpdate { table: [1; 16], changes: changes.clone() }.applied(Some(map));
    assert!(applied.is_ok(), "{applied:?}");
    changes
}

fn view<'a>(map: &'a TabletMap, figures: &'a [TabletFigures], limits: Limits) -> TableView<'a> {
    TableView { id: [1; 16], map, figures, limits }
}

fn split(until: Option<i64>, at: i64) -> TabletChange {
    TabletChange::Split { until, at }
}

#[test]
fn tablets_are_split_at_the_median_above_either_limit() {
    let (map, limits) = (map(&[100], &[1, 2]), Limits::default());
    let of = |first, second| plan(&map, &[first, second], limits);
    let calm = figures(9 * GIB, 9_000.0, Some(500));
    assert_eq!(of(figures(10 * GIB, 10_000.0, Some(7)), calm), []);
    assert_eq!(of(figures(10 * GIB + 1, 0.0, Some(7)), calm), [split(Some(100), 7)]);
    assert_eq!(of(figures(0, 10_000.5, Some(i64::MIN)), calm), [split(Some(100), i64::MIN)]);
    assert_eq!(of(calm, figures(40 * GIB, 0.0, Some(500))), [split(None, 500)]);
    // The fuller first.
    let both = of(figures(11 * GIB, 0.0, Some(7)), figures(0, 12_000.0, Some(200)));
    assert_eq!(both, [split(None, 200), split(Some(100), 7)]);
    // Nobody knows the median, or it is of other times.
    for middle in [None, Some(101), Some(i64::MAX)] {
        assert_eq!(of(figures(40 * GIB, 0.0, middle), calm), [], "{middle:?}");
    }
    assert_eq!(of(calm, figures(40 * GIB, 0.0, Some(100))), []);
}

#[test]
fn a_key_that_is_half_of_a_tablet_comes_to_stand_alone() {
    let hot = figures(0, 50_000.0, Some(100));
    let mut map = map(&[100], &[1]);
    let first = plan(&map, &[hot, figures(0, 0.0, None)], Limits::default());
    assert_eq!(first, [split(Some(100), 99)]);
    map.change(&first[0]).unwrap();
    let three = [figures(0, 5_000.0, Some(3)), hot, figures(0, 0.0, None)];
    assert_eq!(plan(&map, &three, Limits::default()), []);
    // The last token of all is one as well, and so is the first.
    let last = [figures(0, 0.0, None), hot, figures(0, 50_000.0, Some(i64::MAX))];
    assert_eq!(plan(&map, &last, Limits::default()), [split(None, i64::MAX - 1)]);
    map.tablets[0].until = Some(i64::MIN);
    let first = [figures(0, 50_000.0, Some(i64::MIN)), three[0], three[2]];
    assert_eq!(plan(&map, &first, Limits::default()), []);
}

#[test]
fn moving_tablets_are_split_only_above_the_maximum() {
    let mut map = map(&[100, 200], &[1, 2]);
    map.tablets.iter_mut().for_each(|tablet| tablet.goal = Some(vec![id(1), id(3)]));
    let of = |bytes| {
        plan(&map, &[figures(bytes, 0.0, Some(7)), figures(0, 0.0, None), figures(0, 0.0, None)], Limits::default())
    };
    assert_eq!(of(30 * GIB), []);
    assert_eq!(of(30 * GIB + 1), [split(Some(100), 7)]);
}

#[test]
fn cold_neighbours_with_the_same_replicas_become_one() {
    let mut map = map(&[100, 200, 300], &[1, 2]);
    map.tablets[1].replicas.reverse();
    let cold = figures(GIB, 100.0, None);
    let merge = |until| TabletChange::Merge { until };
    assert_eq!(plan(&map, &[cold; 4], Limits::default()), [merge(100), merge(300)]);
    assert_eq!(plan(&map, &[cold; 4], Limits { tablets_min: 3, ..Limits::default() }), [merge(100)]);
    assert_eq!(plan(&map, &[cold; 4], Limits { tablets_min: 4, ..Limits::default() }), []);
    // Of the last nothing is known.
    assert_eq!(plan(&map, &[cold; 3], Limits::default()), [merge(100)]);
    let quarter = figures(GIB + GIB / 4, 0.0, None);
    assert_eq!(plan(&map, &[quarter; 4], Limits::default()), []);
    assert_eq!(plan(&map, &[figures(0, 1_250.0, None); 4], Limits::default()), []);
    // Those that are least together first.
    let uneven = [cold, figures(0, 0.0, None), figures(0, 0.0, None), cold];
    assert_eq!(plan(&map, &uneven, Limits::default()), [merge(200)]);
    map.tablets[2].replicas = vec![id(1), id(3)];
    assert_eq!(plan(&map, &[cold; 4], Limits::default()), [merge(100)]);
    map.tablets[0].goal = Some(vec![id(1), id(3)]);
    assert_eq!(plan(&map, &[cold; 4], Limits::default()), []);
}

#[test]
fn a_table_has_no_fewer_and_no_more_tablets_than_it_may() {
    let full = figures(20 * GIB, 0.0, Some(0));
    let one = map(&[], &[1]);
    assert_eq!(plan(&one, &[full], Limits { tablets_max: 1, ..Limits::default() }), []);
    assert_eq!(plan(&one, &[full], Limits { tablets_max: 2, ..Limits::default() }), [split(None, 0)]);
    // With too few of them the largest are split, then the widest; of an empty one the middle is that of its tokens.
    let three = map(&[0, 1 << 40], &[1]);
    let none = figures(0, 0.0, None);
    let at_least =
        |tablets_min, figures: &[TabletFigures]| plan(&three, figures, Limits { tablets_min, ..Limits::default() });
    assert_eq!(at_least(3, &[none, none, none])[..], []);
    assert_eq!(at_least(4, &[none, none, none]), [split(Some(0), -(1 << 62))]);
    assert_eq!(at_least(4, &[]), [split(Some(0), -(1 << 62))]);
    assert_eq!(at_least(4, &[none, figures(5, 0.0, Some(77)), none]), [split(Some(1 << 40), 77)]);
    assert_eq!(at_least(9, &[none, none, none]).len(), 3);
    let many = TabletMap::even(4 * CHANGES_MAX, |_| vec![id(1)]);
    let all: Vec<_> = (0..many.tablets.len())
        .map(|at| figures(20 * GIB, 0.0, many.tablets[at].until.map(|until| until - 5)))
        .collect();
    assert_eq!(plan(&many, &all, Limits::default()).len(), CHANGES_MAX);
    assert_eq!(plan(&many, &vec![none; many.tablets.len()], Limits::default()).len(), CHANGES_MAX);
}

#[test]
fn a_load_that_pauses_undoes_nothing() {
    let map = map(&[0], &[1]);
    let of = |units, units_lasting| {
        let one = TabletFigures { units, units_lasting, ..TabletFigures::default() };
        plan(&map, &[one, one], Limits::default())
    };
    let merge = [TabletChange::Merge { until: 0 }];
    assert_eq!(of(0.0, 3_000.0), [], "it was busy minutes ago");
    assert_eq!(of(3_000.0, 0.0), [], "it is busy");
    assert_eq!(of(1_000.0, 1_000.0), merge);
}

/// Partitions of a table, with their tokens, bytes and units; medians are worked out from them.
struct Partitions(Vec<(i64, u64, f64)>);

impl Partitions {
    fn figures(&self, map: &TabletMap) -> Vec<TabletFigures> {
        let limits = Limits::default();
        let of = |at: usize| {
            let mut part: Vec<_> = self.0.iter().filter(|one| map.at(one.0) == at).collect();
            part.sort_by_key(|one| one.0);
            let (bytes, units) = part.iter().fold((0, 0.0), |sum, one| (sum.0 + one.1, sum.1 + one.2));
            let share = |one: &(i64, u64, f64)| one.1 as f64 / limits.bytes_target as f64 + one.2 / limits.units_max;
            let (all, mut sum) = (part.iter().map(|one| share(one)).sum::<f64>(), 0.0);
            let middle = part.iter().find(|one| {
                sum += share(one);
                sum >= all / 2.0
            });
            TabletFigures { bytes, units, units_lasting: units, middle: middle.map(|one| one.0) }
        };
        (0..map.tablets.len()).map(of).collect()
    }
}

#[test]
fn splits_and_merges_come_to_an_end_and_nothing_is_undone() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut map = TabletMap::even(1 + random.below(8) as usize, |_| vec![id(1), id(2)]);
        let limits = Limits { tablets_min: 1 + random.below(4) as u32, ..Limits::default() };
        for load in [1, 6, 0, 3] {
            let one = |random: &mut Random| {
                let bytes = random.below(load * GIB);
                (random.next() as i64, bytes, random.below(1_000 * load) as f64)
            };
            let partitions = Partitions((0..60).map(|_| one(&mut random)).collect());
            let (mut splits, mut merges, mut rounds) = (0, 0, 0);
            loop {
                let figures = partitions.figures(&map);
                let changes = plan(&map, &figures, limits);
                for change in &changes {
                    map.change(change).unwrap();
                    match change {
                        TabletChange::Merge { .. } => merges += 1,
                        _ => splits += 1,
                    }
                }
                if changes.is_empty() {
                    break;
                }
                rounds += 1;
                assert!(rounds < 40, "seed {seed}: {changes:?}");
            }
            let figures = partitions.figures(&map);
            let is_full = |at: &TabletFigures| at.bytes > limits.bytes_target || at.units > limits.units_max;
            assert!(!figures.iter().any(is_full), "seed {seed}: no partition is above a limit");
            assert!(map.tablets.len() >= limits.tablets_min as usize, "seed {seed}");
            assert!(splits <= map.tablets.len() + merges, "seed {seed}: {splits} splits, {merges} merges");
            assert!(load != 0 || splits == 0 && map.tablets.len() == limits.tablets_min as usize, "seed {seed}");
        }
    }
}

#[test]
fn cold_neighbours_come_together_until_they_are_one() {
    let mut nodes: Vec<_> = (0..4).map(|number| node(number, 0)).collect();
    let mut map = TabletMap::even(9, |number| vec![id(number % 3), id(3)]);
    let mut figures = vec![figures(GIB / 8, 0.0, None); 9];
    figures[3].bytes /= 2;
    let limits = Limits { tablets_min: 2, ..Limits::default() };
    // The smaller goes to its neighbour, unless a node there may not gain.
    let to = |goal: usize, until: usize| {
        [TabletChange::Move { until: map.tablets[until].until, goal: vec![id(goal), id(3)] }]
    };
    assert_eq!(colocate(&nodes, &view(&map, &figures, limits), 1), to(2, 3));
    nodes[2].may_gain = false;
    assert_eq!(colocate(&nodes, &view(&map, &figures, limits), 1), to(0, 2));
    nodes[2].may_gain = true;
    assert_eq!(colocate(&nodes, &view(&map, &figures, limits), 99).len(), 4);
    let mut rounds = 0;
    loop {
        let changes = match split_and_merge(&view(&map, &figures, limits)) {
            changes if changes.is_empty() => colocate(&nodes, &view(&map, &figures, limits), 2),
            changes => changes,
        };
        if changes.is_empty() {
            break;
        }
        let merges: Vec<usize> = (0..map.tablets.len() - 1)
            .filter(|at| map.tablets[*at].until.is_some_and(|until| changes.contains(&TabletChange::Merge { until })))
            .collect();
        map = TabletsUpdate { table: [1; 16], changes }.applied(Some(&map)).unwrap().unwrap();
        reach(&mut map);
        for at in merges.into_iter().rev() {
            figures[at].bytes += figures.remove(at + 1).bytes;
        }
        rounds += 1;
        assert!(rounds < 30);
    }
    assert_eq!(map.tablets.len(), 2);
}
