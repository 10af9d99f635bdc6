//! Moves that make nodes equally full and busy. The cost is in the head of the module above.
//!
//! 1. The amounts of every node are added up once, and the tablets listed by node.
//! 2. The node to take from: one that leaves, else the one with the highest ratios of those that differ enough from the
//!    emptiest node of their data centre.
//! 3. Its best move: over all of its tablets, and the emptiest nodes of each rack by each amount. A tablet that has
//!    moved moves no second time in the same round.
//! 4. The amounts of the two nodes are brought up to date, and so on from 2. A node without a move that is worth it is
//!    left alone for the round.
//!
//! A move costs time for the nodes of the cluster and for the tablets of one node, not for all tablets.

use super::roster::Roster;
use super::{BYTES_MEAN_MIN, COUNT_SHARE, MOVE_PRICE, PlannedNode, TableView, UNITS_MEAN_MIN};
use crate::tablets::{TabletChange, TabletsUpdate};
use std::collections::BTreeMap;

/// Nodes of a rack that are looked at, by each amount.
const EMPTIEST: usize = 2;
/// What part of its price a move must earn if it raises the number of racks of its tablet.
const RACK_PRICE: f64 = 1.0 / 64.0;
/// The place of a replica on a node that is not in the plan.
const NOWHERE: u32 = u32::MAX;

/// Bytes, request units a second, tablets.
type Amounts = [f64; 3];
/// How much each counts in the cost.
const SHARES: Amounts = [1.0, 1.0, COUNT_SHARE];
/// The smallest mean of each.
const MEANS_MIN: Amounts = [BYTES_MEAN_MIN, UNITS_MEAN_MIN, f64::MIN_POSITIVE];

/// At most `moves_max` moves that lower the cost most, one node after the other; none if none is worth it. Each moves
/// one replica of a tablet to a node that may gain, within its data centre. Tablets that have a goal are counted where
/// it is, and do not move.
///
/// # Panics
/// If a node has no weight.
pub fn balance(nodes: &[PlannedNode], tables: &[TableView<'_>], moves_max: usize) -> Vec<TabletsUpdate> {
    let roster = Roster::new(nodes);
    let mut loads = Loads::new(&roster, tables);
    let mut is_stuck = vec![false; roster.nodes.len()];
    let mut changes: BTreeMap<usize, Vec<TabletChange>> = BTreeMap::new();
    let mut moves = 0;
    while moves < moves_max
        && let Some(from) = loads.fullest(&is_stuck)
    {
        let Some(best) = loads.best(from) else {
            is_stuck[from] = true;
            continue;
        };
        let (table, position) = loads.tablets[best.tablet].position;
        let tablet = &tables[table].map.tablets[position];
        let (old, new) = (roster.nodes[from].host_id, roster.nodes[best.to].host_id);
        let goal = tablet.replicas.iter().map(|host_id| if *host_id == old { new } else { *host_id });
        let change = TabletChange::Move { until: tablet.until, goal: goal.collect() };
        changes.entry(table).or_default().push(change);
        loads.make(from, &best);
        moves += 1;
    }
    changes.into_iter().map(|(table, changes)| TabletsUpdate { table: tables[table].id, changes }).collect()
}

/// The cost of tablets where they are, or are going to be: 0 if the nodes of each data centre are equally full and
/// busy.
pub fn cost(nodes: &[PlannedNode], tables: &[TableView<'_>]) -> f64 {
    let roster = Roster::new(nodes);
    let loads = Loads::new(&roster, tables);
    let of_node = |place: usize| {
        let ratios = loads.ratios(place);
        let deviations = (0..3).map(|at| match loads.has_any(place, at) {
            true => SHARES[at] * (ratios[at] - loads.target(place, at)).powi(2),
            false => 0.0,
        });
        roster.weight(place) * deviations.sum::<f64>()
    };
    (0..roster.nodes.len()).filter(|place| !roster.nodes[*place].leaves).map(of_node).sum()
}

/// A tablet of any table.
struct Entry {
    /// The position of its table, and its own in that.
    position: (usize, usize),
    amounts: Amounts,
    /// Where the places of its replicas begin in [`Loads::replicas`], and how many they are.
    replicas: (usize, usize),
    /// Whether it moves.
    moves: bool,
}

/// A node that a tablet could go to.
struct Candidate {
    place: usize,
    /// How much the cost falls with each amount, of the mean, in the limit of small tablets.
    slopes: Amounts,
    /// How much of that is lost with its square.
    loss: f64,
}

struct Move {
    /// Its position in [`Loads::tablets`], and in the list of its node.
    tablet: usize,
    listed: usize,
    to: usize,
    /// By how many the number of its racks grows.
    racks: i32,
    gain: f64,
}

/// Who has what.
struct Loads<'r, 'a> {
    roster: &'r Roster<'a>,
    tablets: Vec<Entry>,
    replicas: Vec<u32>,
    /// What each place has.
    loads: Vec<Amounts>,
    /// The tablets of each place that could move.
    listed: Vec<Vec<u32>>,
    /// By data centre, the amounts of all of its nodes, and the mean by weight that ratios are of.
    sums: Vec<Amounts>,
    means: Vec<Amounts>,
    weights: Vec<f64>,
}

impl<'r, 'a> Loads<'r, 'a> {
    fn new(roster: &'r Roster<'a>, tables: &[TableView<'_>]) -> Loads<'r, 'a> {
        let (nodes, data_centers) = (roster.nodes.len(), roster.data_centers.len());
        let mut loads = Loads {
            roster,
            tablets: Vec::with_capacity(tables.iter().map(|table| table.map.tablets.len()).sum()),
            replicas: Vec::new(),
            loads: vec![Amounts::default(); nodes],
            listed: vec![Vec::new(); nodes],
            sums: vec![Amounts::default(); data_centers],
            means: vec![MEANS_MIN; data_centers],
            weights: vec![0.0; data_centers],
        };
        for (table, view) in tables.iter().enumerate() {
            for (position, tablet) in view.map.tablets.iter().enumerate() {
                let figures = view.figures.get(position).copied().unwrap_or_default();
                let units = figures.units_lasting.max(0.0) / tablet.replicas.len().max(1) as f64;
                let amounts = [figures.bytes as f64, units, 1.0];
                let start = loads.replicas.len();
                let moves = tablet.goal.is_some();
                for host_id in tablet.next() {
                    let Some(place) = roster.place(*host_id) else {
                        loads.replicas.push(NOWHERE);
                        continue;
                    };
                    loads.replicas.push(place as u32);
                    add(&mut loads.loads[place], &amounts, 1.0);
                    add(&mut loads.sums[roster.data_center[place]], &amounts, 1.0);
                    if !moves {
                        loads.listed[place].push(loads.tablets.len() as u32);
                    }
                }
                let replicas = (start, loads.replicas.len() - start);
                loads.tablets.push(Entry { position: (table, position), amounts, replicas, moves });
            }
        }
        for place in (0..nodes).filter(|place| !roster.nodes[*place].leaves) {
            loads.weights[roster.data_center[place]] += roster.weight(place);
        }
        for (data_center, means) in loads.means.iter_mut().enumerate() {
            for (at, mean) in means.iter_mut().enumerate() {
                *mean = (loads.sums[data_center][at] / loads.weights[data_center].max(1.0)).max(*mean);
            }
        }
        loads
    }

    /// What a place has by its weight, of the mean.
    fn ratios(&self, place: usize) -> Amounts {
        let (means, weight) = (&self.means[self.roster.data_center[place]], self.roster.weight(place));
        std::array::from_fn(|at| self.loads[place][at] / weight / means[at])
    }

    /// Whether the data centre of a place has anything of an amount.
    fn has_any(&self, place: usize, at: usize) -> bool {
        self.sums[self.roster.data_center[place]][at] > 0.0
    }

    /// The ratio that all nodes of the data centre would have if they were equally full: 1, or less below the smallest
    /// mean.
    fn target(&self, place: usize, at: usize) -> f64 {
        let data_center = self.roster.data_center[place];
        self.sums[data_center][at] / self.weights[data_center].max(1.0) / self.means[data_center][at]
    }

    /// The node to take a tablet from, if one has to give any.
    fn fullest(&self, is_stuck: &[bool]) -> Option<usize> {
        let mut least = vec![[f64::INFINITY; 3]; self.means.len()];
        let ratios: Vec<Amounts> = (0..self.loads.len()).map(|place| self.ratios(place)).collect();
        for (place, ratios) in ratios.iter().enumerate().filter(|(place, _)| self.roster.nodes[*place].gains()) {
            let least = &mut least[self.roster.data_center[place]];
            least.iter_mut().zip(ratios).for_each(|(least, ratio)| *least = ratio.min(*least));
        }
        let is_uneven = |place: usize| {
            let least = &least[self.roster.data_center[place]];
            ratios[place].iter().zip(least).any(|(ratio, least)| 2.0 * (ratio - least) > MOVE_PRICE)
        };
        let gives = |place: &usize| {
            let node = self.roster.nodes[*place];
            !is_stuck[*place] && !self.listed[*place].is_empty() && (node.leaves || (node.gains() && is_uneven(*place)))
        };
        let total = |place: usize| ratios[place].iter().zip(SHARES).map(|(ratio, share)| ratio * share).sum::<f64>();
        let is_before = |a: &usize, b: &usize| {
            let leaves = |place: usize| self.roster.nodes[place].leaves;
            leaves(*a).cmp(&leaves(*b)).then(total(*a).total_cmp(&total(*b))).then(b.cmp(a))
        };
        (0..self.loads.len()).filter(gives).max_by(is_before)
    }

    /// The best move of a tablet from a node, if any is worth it.
    fn best(&self, from: usize) -> Option<Move> {
        let leaves = self.roster.nodes[from].leaves;
        let best = self.best_of(from, &self.candidates(from, EMPTIEST));
        if best.is_none() && leaves {
            return self.best_of(from, &self.candidates(from, usize::MAX));
        }
        best
    }

    /// The nodes that tablets of a node could go to, by rack, the `emptiest` of each by each amount.
    fn candidates(&self, from: usize, emptiest: usize) -> Vec<(usize, Vec<Candidate>)> {
        let roster = self.roster;
        let own = self.ratios(from);
        let leaves = roster.nodes[from].leaves;
        let mut racks: Vec<Vec<(usize, Amounts)>> = vec![Vec::new(); roster.racks];
        for place in 0..self.loads.len() {
            let is_near = roster.data_center[place] == roster.data_center[from] && place != from;
            if is_near && roster.nodes[place].gains() {
                let ratios = self.ratios(place);
                if leaves || ratios.iter().zip(&own).any(|(ratio, own)| ratio < own) {
                    racks[roster.rack[place]].push((place, ratios));
                }
            }
        }
        let candidate = |(place, ratios): (usize, Amounts)| Candidate {
            place,
            slopes: std::array::from_fn(|at| 2.0 * SHARES[at] * (own[at] - ratios[at])),
            loss: roster.weight(from).recip() + roster.weight(place).recip(),
        };
        let mut found = Vec::new();
        for (rack, nodes) in racks.into_iter().enumerate().filter(|(_, nodes)| !nodes.is_empty()) {
            let mut chosen: Vec<(usize, Amounts)> = Vec::new();
            if nodes.len() <= 3 * EMPTIEST || emptiest >= nodes.len() {
                chosen = nodes;
            } else {
                for at in 0..3 {
                    let mut order: Vec<&(usize, Amounts)> = nodes.iter().collect();
                    order.select_nth_unstable_by(emptiest, |a, b| a.1[at].total_cmp(&b.1[at]).then(a.0.cmp(&b.0)));
                    chosen.extend(order[..emptiest].iter().copied());
                }
                chosen.sort_by_key(|(place, _)| *place);
                chosen.dedup_by_key(|(place, _)| *place);
            }
            found.push((rack, chosen.into_iter().map(candidate).collect()));
        }
        found
    }

    fn best_of(&self, from: usize, candidates: &[(usize, Vec<Candidate>)]) -> Option<Move> {
        let (roster, leaves) = (self.roster, self.roster.nodes[from].leaves);
        let (data_center, own_rack) = (roster.data_center[from], roster.rack[from]);
        let means = &self.means[data_center];
        let all = || candidates.iter().flat_map(|(_, nodes)| nodes);
        let steepest: Amounts =
            std::array::from_fn(|at| all().map(|node| node.slopes[at]).fold(f64::NEG_INFINITY, f64::max));
        let loss_least = all().map(|node| node.loss).fold(f64::INFINITY, f64::min);
        let mut best: Option<Move> = None;
        for (listed, tablet) in self.listed[from].iter().enumerate() {
            let entry = &self.tablets[*tablet as usize];
            if entry.moves {
                continue;
            }
            let replicas = &self.replicas[entry.replicas.0..][..entry.replicas.1];
            let has = |place: usize| replicas.contains(&(place as u32));
            let has_rack = |rack: usize| {
                let others = replicas.iter().filter(|place| **place != NOWHERE && **place as usize != from);
                others.into_iter().any(|place| roster.rack[*place as usize] == rack)
            };
            let parts: Amounts = std::array::from_fn(|at| entry.amounts[at] / means[at]);
            let square: f64 = (0..3).map(|at| SHARES[at] * parts[at] * parts[at]).sum();
            let price: f64 = (0..3).map(|at| SHARES[at] * parts[at]).sum::<f64>() * MOVE_PRICE;
            let is_alone = !has_rack(own_rack);
            // Only a tablet that shares its rack can be spread over more of them. Most tablets end here.
            let (racks_most, least) = if is_alone { (0, price) } else { (1, price * RACK_PRICE) };
            let bound: f64 = (0..3).map(|at| steepest[at] * parts[at]).sum::<f64>() - square * loss_least;
            let is_beaten = best.as_ref().is_some_and(|best| best.racks >= racks_most && bound <= best.gain);
            if is_beaten || (bound <= least && !leaves) {
                continue;
            }
            for (rack, nodes) in candidates {
                let racks = if *rack == own_rack { 0 } else { i32::from(!has_rack(*rack)) - i32::from(is_alone) };
                if racks < 0 && !leaves {
                    continue;
                }
                let least = match (leaves, racks) {
                    (true, _) => f64::NEG_INFINITY,
                    (false, 0) => price,
                    (false, _) => price * RACK_PRICE,
                };
                for node in nodes {
                    let slope: f64 = (0..3).map(|at| node.slopes[at] * parts[at]).sum();
                    let gain = slope - square * node.loss;
                    let is_better = best.as_ref().is_none_or(|best| (racks, gain) > (best.racks, best.gain));
                    if gain > least && is_better && !has(node.place) {
                        best = Some(Move { tablet: *tablet as usize, listed, to: node.place, racks, gain });
                    }
                }
            }
        }
        best
    }

    fn make(&mut self, from: usize, best: &Move) {
        let entry = &mut self.tablets[best.tablet];
        entry.moves = true;
        let replicas = &mut self.replicas[entry.replicas.0..][..entry.replicas.1];
        replicas.iter_mut().filter(|place| **place as usize == from).for_each(|place| *place = best.to as u32);
        add(&mut self.loads[from], &entry.amounts, -1.0);
        add(&mut self.loads[best.to], &entry.amounts, 1.0);
        self.listed[from].swap_remove(best.listed);
    }
}

fn add(sum: &mut Amounts, amounts: &Amounts, times: f64) {
    sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * times);
}

#[cfg(test)]
#[path = "balance_tests.rs"]
mod tests;
