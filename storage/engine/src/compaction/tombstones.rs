//! Decides when an SSTable is compacted alone for its tombstones, and which expired SSTables may be dropped unread.

use super::{Candidate, Moment};
use model::Token;
use model::compaction::CommonOptions;

/// The ids of those SSTables in `among` that may be dropped without being read: everything in them is deleted or
/// expired, and they shadow nothing, as all data in memtables and in overlapping SSTables of `all` is newer. With
/// `ignore_overlaps` only the first condition is checked.
pub fn fully_expired(
    among: &[&Candidate],
    all: &[Candidate],
    common: &CommonOptions,
    moment: &Moment,
    ignore_overlaps: bool,
) -> Vec<u64> {
    if common.only_repaired && !among.iter().all(|candidate| candidate.repaired) {
        return Vec::new();
    }
    let is_dead = |candidate: &Candidate| candidate.max_local_deletion_time < moment.gc_before;
    let dead: Vec<&Candidate> = among.iter().copied().filter(|candidate| is_dead(candidate)).collect();
    if dead.is_empty() || ignore_overlaps {
        return dead.iter().map(|candidate| candidate.id).collect();
    }
    let overlaps_one = |other: &Candidate| among.iter().any(|candidate| candidate.overlaps(other));
    let living = all.iter().filter(|other| !is_dead(other) && overlaps_one(other));
    let oldest = living.map(|other| other.min_timestamp).chain(moment.memtable_min_timestamp).min().unwrap_or(i64::MAX);
    dead.iter().filter(|candidate| candidate.max_timestamp < oldest).map(|candidate| candidate.id).collect()
}

/// Whether compacting an SSTable alone would purge enough tombstones to be worth it.
pub(super) fn is_worth_it(candidate: &Candidate, all: &[Candidate], common: &CommonOptions, moment: &Moment) -> bool {
    // The droppable ratio is an estimate. Without a least age, an SSTable might be rewritten for it again and again.
    let age = moment.now.saturating_sub(candidate.created_at);
    if !common.tombstone_compactions
        || !candidate.is_free()
        || age < common.tombstone_interval_seconds
        || candidate.droppable_ratio <= common.tombstone_threshold
    {
        return false;
    }
    if common.unchecked_tombstones {
        return true;
    }
    let others: Vec<&Candidate> =
        all.iter().filter(|other| other.id != candidate.id && other.overlaps(candidate)).collect();
    others.is_empty()
        || !fully_expired(&[candidate], all, common, moment, false).is_empty()
        || uncovered(candidate, &others) * candidate.droppable_ratio > common.tombstone_threshold
}

/// The fraction of an SSTable's token range that no other SSTable covers.
fn uncovered(candidate: &Candidate, others: &[&Candidate]) -> f64 {
    let width = |from: i128, to: i128| (to - from + 1).max(0) as f64;
    let place = |token: Token| i128::from(token.0);
    let (first, last) = (place(candidate.first), place(candidate.last));
    let mut ranges: Vec<(i128, i128)> = others.iter().map(|other| (place(other.first), place(other.last))).collect();
    ranges.sort_unstable();
    let (mut at, mut free) = (first, 0.0);
    for (from, to) in ranges {
        if from > at {
            free += width(at, (from - 1).min(last));
        }
        at = at.max(to + 1);
        if at > last {
            break;
        }
    }
    if at <= last {
        free += width(at, last);
    }
    free / width(first, last)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{common, moment, sstable};
    use super::*;

    #[test]
    fn expired_ones_go_unless_they_shadow_something() {
        let dead = Candidate { max_local_deletion_time: 10, max_timestamp: 50, ..sstable(1, 100, 0, 99) };
        let old = Candidate { min_timestamp: 40, max_timestamp: 60, ..sstable(2, 100, 50, 150) };
        let new = Candidate { min_timestamp: 51, ..old.clone() };
        let far = Candidate { first: Token(200), last: Token(300), ..old.clone() };
        let at = moment(1000);
        let gone = |other: &Candidate, at: &Moment, ignore| {
            !fully_expired(&[&dead], &[dead.clone(), other.clone()], &common(), at, ignore).is_empty()
        };
        assert!(!gone(&old, &at, false) && gone(&old, &at, true));
        assert!(gone(&new, &at, false) && gone(&far, &at, false));
        assert!(!gone(&new, &Moment { memtable_min_timestamp: Some(50), ..at }, false));
        assert!(!gone(&new, &Moment { gc_before: 10, ..at }, false));
        let only = CommonOptions { only_repaired: true, ..common() };
        assert!(fully_expired(&[&dead], std::slice::from_ref(&dead), &only, &at, true).is_empty());
    }

    #[test]
    fn single_compactions_need_age_and_room() {
        let one = Candidate { droppable_ratio: 0.5, created_at: 0, ..sstable(1, 100, 0, 99) };
        let at = moment(86_400);
        let worth = |one: &Candidate, others: &[Candidate], common: &CommonOptions, at: &Moment| {
            let all: Vec<Candidate> = others.iter().chain([one]).cloned().collect();
            is_worth_it(one, &all, common, at)
        };
        assert!(worth(&one, &[], &common(), &at));
        assert!(!worth(&one, &[], &common(), &moment(86_399)));
        assert!(!worth(&Candidate { droppable_ratio: 0.2, ..one.clone() }, &[], &common(), &at));
        let over = sstable(2, 100, 0, 59);
        assert!(!worth(&one, std::slice::from_ref(&over), &common(), &at), "0.4 of it is alone");
        assert!(worth(&one, &[sstable(2, 100, 0, 49)], &common(), &at), "half of it is alone");
        let unchecked = CommonOptions { unchecked_tombstones: true, ..common() };
        assert!(worth(&one, &[over], &unchecked, &at));
        let never = CommonOptions { tombstone_compactions: false, ..unchecked };
        assert!(!worth(&one, &[], &never, &at));
    }

    #[test]
    fn what_is_uncovered_is_counted_once() {
        let one = sstable(1, 1, 0, 99);
        let others = [sstable(2, 1, -50, 9), sstable(3, 1, 5, 19), sstable(4, 1, 90, 500), sstable(5, 1, 600, 700)];
        assert_eq!(uncovered(&one, &others.iter().collect::<Vec<_>>()), 0.7);
        assert_eq!(uncovered(&one, &[]), 1.0);
        let ring = sstable(6, 1, i64::MIN, i64::MAX);
        assert_eq!(uncovered(&one, &[&ring]), 0.0);
        assert_eq!(uncovered(&ring, &[&ring]), 0.0);
    }
}
