//! Range tombstones of one partition: ranges of comparable bounds that do not overlap, each with the newest deletion.
//!
//! Invariants: sorted; no two ranges overlap; neighbours that touch have different deletions; no range is empty.

use model::row::Deletion;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

/// A range `[start, end)` of comparable forms and what deletes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeTombstone<'a> {
    /// Inclusive start.
    pub start: &'a [u8],
    /// Exclusive end.
    pub end: &'a [u8],
    /// What everything inside is deleted by.
    pub deletion: Deletion,
}

/// A bound, shared between the versions of a partition.
type Bytes = Rc<[u8]>;
/// Start, end and deletion of a range.
type Piece = (Bytes, Bytes, Deletion);

/// See the module.
#[derive(Clone, Default, Debug)]
pub struct RangeTombstones {
    /// Start to end and deletion.
    ranges: BTreeMap<Bytes, (Bytes, Deletion)>,
}

/// Memory of one range beside its bound's bytes: two pointers to a bound with its counts, a deletion, a share of a node.
const RANGE_BYTES: usize = 112;

impl RangeTombstones {
    /// Adds a range and merges it with those there; an empty range changes nothing. Returns bytes of memory added.
    pub fn insert(&mut self, start: &[u8], end: &[u8], deletion: Deletion) -> usize {
        if start >= end || deletion.is_live() {
            return 0;
        }
        let mut pieces: Vec<Piece> = Vec::new();
        let mut from: Rc<[u8]> = start.into();
        let until: Rc<[u8]> = end.into();
        for (old_start, old_end, old) in self.overlapping(start, end) {
            if *old_start < *start {
                pieces.push((old_start.clone(), from.clone(), old));
            }
            if *old_start > *from {
                pieces.push((from, old_start.clone(), deletion));
            }
            let shared_start = if *old_start < *start { start.into() } else { old_start.clone() };
            let shared_end = if *old_end > *end { until.clone() } else { old_end.clone() };
            pieces.push((shared_start, shared_end.clone(), old.max(deletion)));
            if *old_end > *end {
                pieces.push((until.clone(), old_end.clone(), old));
            }
            from = shared_end;
            self.ranges.remove(&*old_start);
        }
        if *from < *until {
            pieces.push((from, until, deletion));
        }
        let mut added = 0;
        for (start, end, deletion) in pieces {
            added += RANGE_BYTES + start.len() + end.len();
            self.add_piece(start, end, deletion);
        }
        added
    }

    /// The deletion in force at a comparable form.
    pub fn deletion_at(&self, comparable: &[u8]) -> Deletion {
        match self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(comparable))).next_back() {
            Some((_, (end, deletion))) if comparable < &**end => *deletion,
            _ => Deletion::LIVE,
        }
    }

    /// The first range that ends after `position`.
    pub fn first_ending_after(&self, position: &[u8]) -> Option<RangeTombstone<'_>> {
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(position))).next_back();
        if let Some((start, (end, deletion))) = before
            && position < &**end
        {
            return Some(RangeTombstone { start, end, deletion: *deletion });
        }
        self.first_starting_after(position)
    }

    /// The last range that starts before `position`; `None` for the position: the last of all.
    pub fn last_starting_before(&self, position: Option<&[u8]>) -> Option<RangeTombstone<'_>> {
        let end = position.map_or(Bound::Unbounded, Bound::Excluded);
        let (start, (end, deletion)) = self.ranges.range::<[u8], _>((Bound::Unbounded, end)).next_back()?;
        Some(RangeTombstone { start, end, deletion: *deletion })
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn first_starting_after(&self, position: &[u8]) -> Option<RangeTombstone<'_>> {
        let (start, (end, deletion)) =
            self.ranges.range::<[u8], _>((Bound::Excluded(position), Bound::Unbounded)).next()?;
        Some(RangeTombstone { start, end, deletion: *deletion })
    }

    fn overlapping(&self, start: &[u8], end: &[u8]) -> Vec<Piece> {
        let first = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(start))).next_back();
        let first = first.filter(|(_, (old_end, _))| **old_end > *start);
        let rest = self.ranges.range::<[u8], _>((Bound::Excluded(start), Bound::Excluded(end)));
        first.into_iter().chain(rest).map(|(start, (end, deletion))| (start.clone(), end.clone(), *deletion)).collect()
    }

    /// Adds a piece that overlaps nothing, joined with neighbours of the same deletion.
    fn add_piece(&mut self, start: Rc<[u8]>, end: Rc<[u8]>, deletion: Deletion) {
        let mut start = start;
        let mut end = end;
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&*start))).next_back();
        if let Some((before_start, (before_end, before_deletion))) = before
            && **before_end == *start
            && *before_deletion == deletion
        {
            start = before_start.clone();
        }
        if let Some((after_end, after_deletion)) = self.ranges.get(&*end)
            && *after_deletion == deletion
        {
            let after_end = after_end.clone();
            self.ranges.remove(&*end);
            end = after_end;
        }
        self.ranges.insert(start, (end, deletion));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::rng::Rng;

    fn deletion(timestamp: i64) -> Deletion {
        Deletion { timestamp, local_deletion_time: timestamp }
    }

    #[test]
    fn s12_random_overlaps_match_a_model() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut tombstones = RangeTombstones::default();
            let mut model = [Deletion::LIVE; 64];
            for _ in 0..40 {
                let (a, b) = (rng.below(64) as u8, rng.below(64) as u8);
                let d = deletion(rng.below(8) as i64);
                tombstones.insert(&[a], &[b], d);
                for slot in model.iter_mut().take(b as usize).skip(a as usize) {
                    *slot = slot.max(d);
                }
                for (position, expected) in model.iter().enumerate() {
                    assert_eq!(tombstones.deletion_at(&[position as u8]), *expected, "seed {seed} at {position}");
                }
                let mut last: Option<(Vec<u8>, Deletion)> = None;
                let mut next = tombstones.first_ending_after(&[]);
                let mut count = 0;
                while let Some(range) = next {
                    assert!(range.start < range.end);
                    if let Some((end, d)) = &last {
                        assert!(**end <= *range.start, "overlap");
                        assert!(**end < *range.start || *d != range.deletion, "neighbours to be joined");
                    }
                    last = Some((range.end.to_vec(), range.deletion));
                    count += 1;
                    next = tombstones.first_ending_after(range.end);
                }
                assert_eq!(count, tombstones.len());
                let mut next = tombstones.last_starting_before(None);
                while let Some(range) = next {
                    count -= 1;
                    next = tombstones.last_starting_before(Some(range.start));
                }
                assert_eq!(count, 0);
            }
        }
    }

    #[test]
    fn empty_and_live_ranges_change_nothing() {
        let mut tombstones = RangeTombstones::default();
        tombstones.insert(b"b", b"a", deletion(1));
        tombstones.insert(b"a", b"a", deletion(1));
        tombstones.insert(b"a", b"b", Deletion::LIVE);
        assert!(tombstones.is_empty());
    }
}
