//! Which nodes have a tablet: of a new table, when nodes leave or are replaced, and for another number of replicas.
//!
//! 1. Of each data centre's replicas those that can stay, stay, in their order.
//! 2. How many a data centre has is the same for all tablets of a table: as many as wanted, or as many as the tablet
//!    with the fewest nodes to choose from can have.
//! 3. What is lacking is chosen one after the other: a node in a rack that has none of the tablet yet, then any; of
//!    those the one with the fewest tablets of the table by its weight, then with the fewest of all tables, then in an
//!    order that differs from tablet to tablet, so that the tablets of a node are shared with all others.
//! 4. What is too much goes: first who shares a rack, then who has most.

use super::roster::Roster;
use super::{Factors, PlannedNode};
use crate::tablets::{Tablet, TabletChange, TabletMap, TabletsUpdate};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// The tablets of a new table, `count` of them, with replicas by `factors`, or as many as a data centre has nodes that
/// do not leave. Nodes that may not gain are chosen last. `existing` is the number of tablets that each node has of
/// other tables. Every node is the first replica of about as many as its weight says.
///
/// `None` if there is no node.
///
/// # Panics
/// If `count` is 0 or more than [`TABLETS_MAX`](crate::tablets::TABLETS_MAX), or if a node has no weight.
pub fn initial(
    nodes: &[PlannedNode],
    factors: &Factors,
    count: usize,
    existing: &BTreeMap<Uuid, u64>,
) -> Option<TabletMap> {
    let roster = Roster::new(nodes);
    if roster.nodes.iter().all(|node| node.leaves) {
        return None;
    }
    let other = |node: &&PlannedNode| existing.get(&node.host_id).copied().unwrap_or(0);
    let mut chooser = Chooser::new(&roster, roster.nodes.iter().map(other).collect());
    chooser.open(|place| match roster.nodes[place] {
        node if node.leaves => None,
        node => Some(!node.may_gain),
    });
    let wanted: Vec<usize> = roster.data_centers.iter().map(|name| factor(factors, name)).collect();
    let mut firsts = Firsts { in_data_center: vec![0; roster.nodes.len()], of_all: vec![0; roster.nodes.len()] };
    Some(TabletMap::even(count, |_| {
        let mut groups = Vec::new();
        for (data_center, wanted) in wanted.iter().enumerate() {
            let mut group = Vec::new();
            while group.len() < *wanted
                && let Some(place) = chooser.take(data_center, &group)
            {
                group.push(place);
            }
            groups.push(group);
        }
        firsts.order(&roster, groups).into_iter().map(|place| roster.nodes[place].host_id).collect()
    }))
}

/// Goals after which no tablet is on a node of `leaving`. If `substitute` is a node and another, the other takes its
/// place in every tablet exactly; it is given nothing else. `nodes` are all nodes, those that leave too.
///
/// A tablet has as many replicas in each data centre as before, or as many as there are nodes for.
pub fn replaced(
    nodes: &[PlannedNode],
    maps: &[([u8; 16], &TabletMap)],
    leaving: &BTreeSet<Uuid>,
    substitute: Option<(Uuid, Uuid)>,
) -> Vec<TabletsUpdate> {
    let roster = Roster::new(nodes);
    let substitute = substitute.and_then(|(old, new)| Some((old, roster.place(new)?)));
    let keeps = |host_id: Uuid| match substitute {
        Some((old, new)) if old == host_id => Some(new),
        _ if leaving.contains(&host_id) => None,
        _ => roster.place(host_id),
    };
    let may_gain = |place: usize| {
        let node = roster.nodes[place];
        let is_substitute = substitute.is_some_and(|(_, new)| new == place);
        (node.gains() && !leaving.contains(&node.host_id) && !is_substitute).then_some(false)
    };
    let mut all = vec![0; roster.nodes.len()];
    for replica in maps.iter().flat_map(|(_, map)| &map.tablets).flat_map(|tablet| &tablet.replicas) {
        if let Some(place) = keeps(*replica) {
            all[place] += 1;
        }
    }
    let mut chooser = Chooser::new(&roster, all);
    let mut updates = Vec::new();
    for (table, map) in maps {
        let mut wanted = vec![0; roster.data_centers.len()];
        for tablet in &map.tablets {
            let mut now = vec![0; roster.data_centers.len()];
            for place in tablet.replicas.iter().filter_map(|replica| roster.place(*replica)) {
                now[roster.data_center[place]] += 1;
            }
            wanted.iter_mut().zip(now).for_each(|(most, now)| *most = now.max(*most));
        }
        let changes = goals(&mut chooser, map, keeps, may_gain, wanted);
        if !changes.is_empty() {
            updates.push(TabletsUpdate { table: *table, changes });
        }
    }
    updates
}

/// Goals with the number of replicas that `factors` asks for, or as many as there are nodes for; none if that is so.
pub fn refactored(nodes: &[PlannedNode], map: &TabletMap, factors: &Factors) -> Vec<TabletChange> {
    let roster = Roster::new(nodes);
    let mut all = vec![0; roster.nodes.len()];
    for place in map.tablets.iter().flat_map(|tablet| &tablet.replicas).filter_map(|replica| roster.place(*replica)) {
        all[place] += 1;
    }
    let mut chooser = Chooser::new(&roster, all);
    let wanted = roster.data_centers.iter().map(|name| factor(factors, name)).collect();
    let may_gain = |place: usize| roster.nodes[place].gains().then_some(false);
    goals(&mut chooser, map, |host_id| roster.place(host_id), may_gain, wanted)
}

fn factor(factors: &Factors, data_center: &str) -> usize {
    factors.get(data_center).map_or(0, |factor| *factor as usize)
}

/// The goals of one table. `keeps` gives the place of the node that has a replica from now on, if one does; `wanted` is
/// the number of replicas by data centre.
fn goals(
    chooser: &mut Chooser<'_, '_>,
    map: &TabletMap,
    keeps: impl Fn(Uuid) -> Option<usize>,
    may_gain: impl Fn(usize) -> Option<bool>,
    mut wanted: Vec<usize>,
) -> Vec<TabletChange> {
    let roster = chooser.roster;
    let kept: Vec<Vec<Option<usize>>> = map.tablets.iter().map(|tablet| slots(tablet, &keeps)).collect();
    let mut gaining = vec![0; wanted.len()];
    (0..roster.nodes.len())
        .filter(|place| may_gain(*place).is_some())
        .for_each(|at| gaining[roster.data_center[at]] += 1);
    for slots in &kept {
        let mut reach = gaining.clone();
        let others = slots.iter().flatten().filter(|place| may_gain(**place).is_none());
        others.for_each(|place| reach[roster.data_center[*place]] += 1);
        wanted.iter_mut().zip(reach).for_each(|(wanted, reach)| *wanted = reach.min(*wanted));
    }
    let stays = |tablet: &Tablet, slots: &[Option<usize>]| {
        let mut now = vec![0; wanted.len()];
        slots.iter().flatten().for_each(|place| now[roster.data_center[*place]] += 1);
        let is_same =
            |(replica, slot): (&Uuid, &Option<usize>)| slot.is_some_and(|at| roster.nodes[at].host_id == *replica);
        now == wanted && tablet.replicas.iter().zip(slots).all(is_same) && tablet.goal.is_none()
    };
    if map.tablets.iter().zip(&kept).all(|(tablet, slots)| stays(tablet, slots)) {
        return Vec::new();
    }
    chooser.open(may_gain);
    kept.iter().flatten().flatten().for_each(|place| chooser.count_own(*place));
    let mut changes = Vec::new();
    for (tablet, mut slots) in map.tablets.iter().zip(kept) {
        for (data_center, wanted) in wanted.iter().enumerate() {
            let of_it = |slots: &[Option<usize>]| -> Vec<usize> {
                slots.iter().flatten().copied().filter(|place| roster.data_center[*place] == data_center).collect()
            };
            let home = |at: usize| tablet.replicas.get(at).and_then(|replica| roster.place(*replica));
            while of_it(&slots).len() > *wanted {
                let surplus = chooser.surplus(&of_it(&slots));
                slots.retain(|slot| *slot != Some(surplus));
            }
            while of_it(&slots).len() < *wanted
                && let Some(place) = chooser.take(data_center, &of_it(&slots))
            {
                // The place of one that goes is taken, so that nodes stay the first replica of about as many.
                let is_free = |at: &usize| {
                    slots[*at].is_none() && home(*at).is_some_and(|home| roster.data_center[home] == data_center)
                };
                match (0..slots.len()).find(is_free) {
                    Some(at) => slots[at] = Some(place),
                    None => slots.push(Some(place)),
                }
            }
        }
        let goal: Vec<Uuid> = slots.into_iter().flatten().map(|place| roster.nodes[place].host_id).collect();
        if goal != tablet.next() {
            changes.push(TabletChange::Move { until: tablet.until, goal });
        }
    }
    changes
}

/// The places of those that have a tablet from now on, in the order of its replicas.
fn slots(tablet: &Tablet, keeps: impl Fn(Uuid) -> Option<usize>) -> Vec<Option<usize>> {
    let mut slots: Vec<Option<usize>> = Vec::with_capacity(tablet.replicas.len());
    for replica in &tablet.replicas {
        let place = keeps(*replica);
        slots.push(place.filter(|place| !slots.contains(&Some(*place))));
    }
    slots
}

/// Whether a place is chosen after others, its tablets of the table and of all by its weight, a number that mixes
/// places with the same, the place.
type Key = (bool, u64, u64, u64, usize);

/// How many tablets nodes have, and who is next to be given one.
struct Chooser<'r, 'a> {
    roster: &'r Roster<'a>,
    /// Tablets of all tables by place.
    all: Vec<u64>,
    /// Tablets of the table at hand by place.
    own: Vec<u64>,
    /// Whether each place may be chosen, and whether only after others.
    open: Vec<Option<bool>>,
    /// By data centre, the places that may be chosen, the best first.
    orders: Vec<BTreeSet<Key>>,
    /// By data centre, how many racks may be chosen.
    racks: Vec<usize>,
}

impl<'r, 'a> Chooser<'r, 'a> {
    fn new(roster: &'r Roster<'a>, all: Vec<u64>) -> Chooser<'r, 'a> {
        let orders = vec![BTreeSet::new(); roster.data_centers.len()];
        let (own, racks) = (vec![0; all.len()], vec![0; orders.len()]);
        Chooser { roster, own, open: vec![None; all.len()], all, orders, racks }
    }

    /// Begins with a table that has no tablets yet. `open` says whether a place may be chosen, and whether last.
    fn open(&mut self, open: impl Fn(usize) -> Option<bool>) {
        self.own.fill(0);
        self.open = (0..self.own.len()).map(open).collect();
        self.orders.iter_mut().for_each(BTreeSet::clear);
        let mut racks = vec![BTreeSet::new(); self.racks.len()];
        for place in 0..self.own.len() {
            if let Some(key) = self.key(place) {
                let data_center = self.roster.data_center[place];
                self.orders[data_center].insert(key);
                racks[data_center].insert(self.roster.rack[place]);
            }
        }
        self.racks = racks.iter().map(BTreeSet::len).collect();
    }

    fn key(&self, place: usize) -> Option<Key> {
        // Numbers that are not negative sort as their bits do.
        let by_weight = |count: u64| (count as f64 / self.roster.weight(place)).to_bits();
        let (own, all) = (self.own[place], self.all[place]);
        Some((self.open[place]?, by_weight(own), by_weight(all + 1), mixed(place as u64, own ^ all << 20), place))
    }

    fn update(&mut self, place: usize, change: impl FnOnce(&mut u64, &mut u64)) {
        let before = self.key(place);
        change(&mut self.own[place], &mut self.all[place]);
        if let (Some(before), Some(after)) = (before, self.key(place)) {
            let order = &mut self.orders[self.roster.data_center[place]];
            order.remove(&before);
            order.insert(after);
        }
    }

    /// Counts a tablet of the table at hand that is among those of all tables already.
    fn count_own(&mut self, place: usize) {
        self.update(place, |own, _| *own += 1);
    }

    /// The next node for a tablet that `chosen` has in the data centre.
    fn take(&mut self, data_center: usize, chosen: &[usize]) -> Option<usize> {
        let rack = |place: &usize| self.roster.rack[*place];
        let used: BTreeSet<usize> = chosen.iter().map(rack).collect();
        let places = || self.orders[data_center].iter().map(|key| key.4);
        let elsewhere = if used.len() < self.racks[data_center] || chosen.iter().any(|at| self.open[*at].is_none()) {
            places().find(|place| !used.contains(&rack(place)))
        } else {
            None
        };
        let place = elsewhere.or_else(|| places().find(|place| !chosen.contains(place)))?;
        self.update(place, |own, all| (*own, *all) = (*own + 1, *all + 1));
        Some(place)
    }

    /// Which of the nodes that have a tablet in a data centre is to have it no longer.
    fn surplus(&mut self, chosen: &[usize]) -> usize {
        let shares =
            |place: usize| chosen.iter().filter(|at| self.roster.rack[**at] == self.roster.rack[place]).count() > 1;
        let load = |place: usize| {
            let weight = self.roster.weight(place);
            (shares(place), (self.own[place] as f64 / weight).to_bits(), (self.all[place] as f64 / weight).to_bits())
        };
        let place = chosen.iter().copied().max_by_key(|place| load(*place)).expect("there are too many");
        self.update(place, |own, all| (*own, *all) = (own.saturating_sub(1), all.saturating_sub(1)));
        place
    }
}

/// A number that orders nodes differently with every tablet that they get, so that the tablets of a node are shared
/// with all others, and not always with the same (the finalizer of SplitMix64).
fn mixed(place: u64, round: u64) -> u64 {
    let z = (place << 40 ^ round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How often each place was the first of a tablet.
struct Firsts {
    in_data_center: Vec<u64>,
    of_all: Vec<u64>,
}

impl Firsts {
    /// The replicas of a tablet in one order; `groups` are those of each data centre.
    fn order(&mut self, roster: &Roster<'_>, mut groups: Vec<Vec<usize>>) -> Vec<usize> {
        let by_weight = |counts: &[u64], place: usize| (counts[place] as f64 / roster.weight(place)).to_bits();
        groups.retain(|group| !group.is_empty());
        for group in &mut groups {
            let first = (0..group.len()).min_by_key(|at| by_weight(&self.in_data_center, group[*at])).unwrap_or(0);
            group.swap(0, first);
            self.in_data_center[group[0]] += 1;
        }
        let first = (0..groups.len()).min_by_key(|at| by_weight(&self.of_all, groups[*at][0])).unwrap_or(0);
        groups.rotate_left(first);
        let order = groups.concat();
        if let Some(first) = order.first() {
            self.of_all[*first] += 1;
        }
        order
    }
}

#[cfg(test)]
#[path = "replicas_tests.rs"]
mod tests;
