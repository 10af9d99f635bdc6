//! When tablets are split in two and two become one.
//!
//! 1. A tablet above its target of bytes, or its limit of request units, is split at the median that replicas report.
//!    If the median is its last token, one partition is half of it: that token then stands alone. A tablet of one token
//!    is never split.
//! 2. A table with fewer tablets than it is to have splits its largest, then its widest, wherever there is no median in
//!    the middle of the tokens.
//! 3. Neighbours with the same replicas become one if both together are below a quarter of both limits. A half of a
//!    tablet that was split has about half of a limit, so a load must change by half before anything is undone, and
//!    stay so for minutes.
//! 4. When there is nothing more to split or to merge, a tablet whose neighbour is as cold goes to the neighbour's
//!    replicas, so that they can become one. They do before the next balancing, which might part them.
//!
//! A tablet takes part in one change of a round, and in none while it moves, unless it is above its maximum of bytes.

use super::roster::Roster;
use super::{Limits, PlannedNode, TableView, TabletFigures};
use crate::tablets::{TABLETS_MAX, Tablet, TabletChange, TabletMap};

/// Most changes of a table at once.
pub const CHANGES_MAX: usize = 16;
/// Two tablets are merged if together they have less than this part of each limit.
const MERGE_SHARE: f64 = 0.25;

/// The next splits and merges of a table, the most urgent first, at most [`CHANGES_MAX`].
pub fn split_and_merge(view: &TableView<'_>) -> Vec<TabletChange> {
    let tablets = &view.map.tablets;
    let limits = &view.limits;
    let mut changes = Vec::new();
    let mut is_changed = vec![false; tablets.len()];
    let room = (limits.tablets_max as usize).min(TABLETS_MAX).saturating_sub(tablets.len());
    let mut full: Vec<(f64, usize, i64)> = Vec::new();
    for (at, (tablet, figures)) in tablets.iter().zip(view.figures).enumerate() {
        let fullness = fullness(limits, figures);
        let may_split = tablet.goal.is_none() || figures.bytes > limits.bytes_max;
        if fullness > 1.0
            && may_split
            && let Some(cut) = figures.middle.and_then(|middle| cut(view.map, at, middle))
        {
            full.push((fullness, at, cut));
        }
    }
    full.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, at, cut) in full.into_iter().take(room.min(CHANGES_MAX)) {
        is_changed[at] = true;
        changes.push(TabletChange::Split { until: tablets[at].until, at: cut });
    }
    let lacking = (limits.tablets_min as usize).saturating_sub(tablets.len() + changes.len());
    let left = lacking.min(CHANGES_MAX - changes.len()).min(room - changes.len());
    changes.extend(splits_to_the_minimum(view, &mut is_changed, left));
    changes.extend(merges(view, &is_changed, CHANGES_MAX - changes.len()));
    changes
}

/// At most `moves_max` moves of tablets to the replicas of a neighbour with which they could be merged; none as long as
/// [`split_and_merge`] has anything to do. The smaller of the two moves, as a whole, unless a node there may not gain.
///
/// # Panics
/// If a node has no weight.
pub fn colocate(nodes: &[PlannedNode], view: &TableView<'_>, moves_max: usize) -> Vec<TabletChange> {
    if spare(view) == 0 || !split_and_merge(view).is_empty() {
        return Vec::new();
    }
    let roster = Roster::new(nodes);
    let tablets = &view.map.tablets;
    let gains = |host_id| roster.place(host_id).is_some_and(|place| roster.nodes[place].gains());
    let may_go = |from: usize, to: usize| {
        let mut goal = tablets[to].replicas.iter();
        goal.all(|host_id| gains(*host_id) || tablets[from].replicas.contains(host_id))
    };
    let order = |at: usize| match view.figures[at].bytes <= view.figures[at + 1].bytes {
        true => [(at, at + 1), (at + 1, at)],
        false => [(at + 1, at), (at, at + 1)],
    };
    let way = |at: usize| order(at).into_iter().find(|(from, to)| may_go(*from, *to));
    let pairs = cold_pairs(view, &vec![false; tablets.len()]);
    let pairs = apart(pairs.into_iter().filter(|at| way(*at).is_some()), spare(view).min(moves_max), tablets.len());
    let change = |(from, to): (usize, usize)| TabletChange::Move {
        until: tablets[from].until,
        goal: tablets[to].replicas.clone(),
    };
    pairs.into_iter().filter_map(way).map(change).collect()
}

/// How full a tablet is, 1 being the more urgent of its limits.
fn fullness(limits: &Limits, figures: &TabletFigures) -> f64 {
    let of = |amount: f64, limit: f64| if limit > 0.0 { amount / limit } else { 0.0 };
    of(figures.bytes as f64, limits.bytes_target as f64).max(of(figures.units, limits.units_max))
}

/// Where the tablet at a position is cut for its median, if it can be.
fn cut(map: &TabletMap, at: usize, middle: i64) -> Option<i64> {
    let (first, last) = tokens(map, at);
    let cut = if middle == last { middle.checked_sub(1)? } else { middle };
    (first <= cut && cut < last).then_some(cut)
}

/// The first and the last token of a tablet.
fn tokens(map: &TabletMap, at: usize) -> (i64, i64) {
    let start = at.checked_sub(1).and_then(|before| map.tablets[before].until);
    (start.map_or(i64::MIN, |start| start.saturating_add(1)), map.tablets[at].until.unwrap_or(i64::MAX))
}

fn splits_to_the_minimum(view: &TableView<'_>, is_changed: &mut [bool], count: usize) -> Vec<TabletChange> {
    if count == 0 {
        return Vec::new();
    }
    let figures = |at: usize| view.figures.get(at).copied().unwrap_or_default();
    let mut candidates: Vec<(u64, i128, usize)> = Vec::new();
    for (at, tablet) in view.map.tablets.iter().enumerate() {
        let (first, last) = tokens(view.map, at);
        if tablet.goal.is_none() && !is_changed[at] && first < last {
            candidates.push((figures(at).bytes, i128::from(last) - i128::from(first), at));
        }
    }
    candidates.sort_by_key(|(bytes, width, at)| (std::cmp::Reverse((*bytes, *width)), *at));
    let split = |(_, width, at): (u64, i128, usize)| {
        let middle = (i128::from(tokens(view.map, at).0) + width / 2) as i64;
        let cut = figures(at).middle.and_then(|middle| cut(view.map, at, middle)).unwrap_or(middle);
        is_changed[at] = true;
        TabletChange::Split { until: view.map.tablets[at].until, at: cut }
    };
    candidates.into_iter().take(count).map(split).collect()
}

fn merges(view: &TableView<'_>, is_changed: &[bool], count: usize) -> Vec<TabletChange> {
    let tablets = &view.map.tablets;
    let alike = cold_pairs(view, is_changed).into_iter().filter(|at| are_alike(&tablets[*at], &tablets[*at + 1]));
    let pairs = apart(alike, spare(view).min(count), tablets.len());
    pairs.into_iter().filter_map(|at| Some(TabletChange::Merge { until: tablets[at].until? })).collect()
}

/// How many tablets more than its minimum a table has.
fn spare(view: &TableView<'_>) -> usize {
    view.map.tablets.len().saturating_sub(view.limits.tablets_min.max(1) as usize)
}

/// The first of each two neighbours that are cold enough to be one, the coldest first.
fn cold_pairs(view: &TableView<'_>, is_changed: &[bool]) -> Vec<usize> {
    let tablets = &view.map.tablets;
    let is_still = |at: usize| tablets[at].goal.is_none() && !is_changed[at];
    let mut pairs: Vec<(f64, usize)> = Vec::new();
    for (at, figures) in view.figures.windows(2).take(tablets.len().saturating_sub(1)).enumerate() {
        let bytes = figures[0].bytes.saturating_add(figures[1].bytes);
        let units: f64 = figures.iter().map(|figures| figures.units.max(figures.units_lasting)).sum();
        let both = TabletFigures { bytes, units, ..TabletFigures::default() };
        let fullness = fullness(&view.limits, &both);
        if fullness < MERGE_SHARE && is_still(at) && is_still(at + 1) {
            pairs.push((fullness, at));
        }
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    pairs.into_iter().map(|(_, at)| at).collect()
}

/// The first `count` of pairs of neighbours that have no tablet in common.
fn apart(pairs: impl Iterator<Item = usize>, count: usize, tablets: usize) -> Vec<usize> {
    let mut is_taken = vec![false; tablets];
    let mut chosen = Vec::new();
    for at in pairs {
        if chosen.len() < count && !is_taken[at] && !is_taken[at + 1] {
            is_taken[at..=at + 1].fill(true);
            chosen.push(at);
        }
    }
    chosen
}

/// Whether two tablets have the same replicas, in whatever order.
fn are_alike(a: &Tablet, b: &Tablet) -> bool {
    a.replicas.len() == b.replicas.len() && a.replicas.iter().all(|node| b.replicas.contains(node))
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
