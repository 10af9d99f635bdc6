//! Range tombstones of one partition, as ranges that do not overlap; each carries the newest deletion that covers it.
//!
//! Invariants: ranges are sorted by their comparable start; no two overlap; neighbours that touch have different
//! deletions; no range is empty.

use model::mutation::Clustering;
use model::row::Deletion;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound as Side;
use std::rc::Rc;

/// A range `[start, end)` of comparable forms, and its deletion.
#[derive(Clone, Copy, Debug)]
pub struct RangeTombstone<'a> {
    /// Inclusive start.
    pub start: &'a Bound,
    /// Exclusive end.
    pub end: &'a Bound,
    /// The deletion of everything in the range.
    pub deletion: Deletion,
}

/// A bound, shared between the versions of a partition: its comparable form, which orders it, followed by the
/// clustering values from which that was made.
#[derive(Clone, Debug)]
pub struct Bound {
    bytes: Rc<[u8]>,
    comparable_len: usize,
}

impl Bound {
    /// A bound from a comparable form and the clustering values from which that was made.
    pub fn new(comparable: &[u8], prefix: Clustering<'_>) -> Bound {
        Bound { bytes: [comparable, prefix.0].concat().into(), comparable_len: comparable.len() }
    }

    /// The comparable form.
    pub fn comparable(&self) -> &[u8] {
        self.bytes.get(..self.comparable_len).unwrap_or_default()
    }

    /// The clustering values.
    pub fn prefix(&self) -> Clustering<'_> {
        Clustering(self.bytes.get(self.comparable_len..).unwrap_or_default())
    }
}

impl Borrow<[u8]> for Bound {
    fn borrow(&self) -> &[u8] {
        self.comparable()
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Bound) -> Ordering {
        self.comparable().cmp(other.comparable())
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Bound) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Bound) -> bool {
        self.comparable() == other.comparable()
    }
}

impl Eq for Bound {}

/// Start, end and deletion of a range.
type Piece = (Bound, Bound, Deletion);

/// The range tombstones of one partition.
#[derive(Clone, Default, Debug)]
pub struct RangeTombstones {
    /// From the start of a range to its end and deletion.
    ranges: BTreeMap<Bound, (Bound, Deletion)>,
}

/// Memory of one range apart from its bounds' bytes: two pointers to bounds with their reference counts, a deletion,
/// and a share of a map node.
const RANGE_BYTES: usize = 128;

impl RangeTombstones {
    /// Adds a range and merges it with existing ones; an empty range or a live deletion changes nothing. Returns the
    /// bytes of memory added.
    pub fn insert(&mut self, start: Bound, end: Bound, deletion: Deletion) -> usize {
        if start >= end || deletion.is_live() {
            return 0;
        }
        let mut pieces: Vec<Piece> = Vec::new();
        let mut from = start.clone();
        for (old_start, old_end, old) in self.overlapping(&start, &end) {
            if old_start < start {
                pieces.push((old_start.clone(), from.clone(), old));
            }
            if old_start > from {
                pieces.push((from, old_start.clone(), deletion));
            }
            let shared_start = if old_start < start { start.clone() } else { old_start.clone() };
            let shared_end = if old_end > end { end.clone() } else { old_end.clone() };
            pieces.push((shared_start, shared_end.clone(), old.max(deletion)));
            if old_end > end {
                pieces.push((end.clone(), old_end.clone(), old));
            }
            from = shared_end;
            self.ranges.remove(&old_start);
        }
        if from < end {
            pieces.push((from, end, deletion));
        }
        let mut added = 0;
        for (start, end, deletion) in pieces {
            added += RANGE_BYTES + start.bytes.len() + end.bytes.len();
            self.add_piece(start, end, deletion);
        }
        added
    }

    /// The deletion in force at a comparable form.
    pub fn deletion_at(&self, comparable: &[u8]) -> Deletion {
        match self.ranges.range::<[u8], _>((Side::Unbounded, Side::Included(comparable))).next_back() {
            Some((_, (end, deletion))) if comparable < end.comparable() => *deletion,
            _ => Deletion::LIVE,
        }
    }

    /// The first range that ends after the comparable form `position`.
    pub fn first_ending_after(&self, position: &[u8]) -> Option<RangeTombstone<'_>> {
        let before = self.ranges.range::<[u8], _>((Side::Unbounded, Side::Included(position))).next_back();
        if let Some((start, (end, deletion))) = before
            && position < end.comparable()
        {
            return Some(RangeTombstone { start, end, deletion: *deletion });
        }
        self.first_starting_after(position)
    }

    /// The last range that starts before `position`, or the last range of all if `position` is `None`.
    pub fn last_starting_before(&self, position: Option<&[u8]>) -> Option<RangeTombstone<'_>> {
        let end = position.map_or(Side::Unbounded, Side::Excluded);
        let (start, (end, deletion)) = self.ranges.range::<[u8], _>((Side::Unbounded, end)).next_back()?;
        Some(RangeTombstone { start, end, deletion: *deletion })
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn first_starting_after(&self, position: &[u8]) -> Option<RangeTombstone<'_>> {
        let (start, (end, deletion)) =
            self.ranges.range::<[u8], _>((Side::Excluded(position), Side::Unbounded)).next()?;
        Some(RangeTombstone { start, end, deletion: *deletion })
    }

    fn overlapping(&self, start: &Bound, end: &Bound) -> Vec<Piece> {
        let before = (Side::Unbounded, Side::Included(start.comparable()));
        let first = self.ranges.range::<[u8], _>(before).next_back();
        let first = first.filter(|(_, (old_end, _))| old_end > start);
        let inside = (Side::Excluded(start.comparable()), Side::Excluded(end.comparable()));
        let rest = self.ranges.range::<[u8], _>(inside);
        first.into_iter().chain(rest).map(|(start, (end, deletion))| (start.clone(), end.clone(), *deletion)).collect()
    }

    /// Adds a range that overlaps no other, and joins it with touching neighbours that have the same deletion.
    fn add_piece(&mut self, start: Bound, end: Bound, deletion: Deletion) {
        let mut start = start;
        let mut end = end;
        let before = (Side::Unbounded, Side::Excluded(start.comparable()));
        if let Some((before_start, (before_end, before_deletion))) = self.ranges.range::<[u8], _>(before).next_back()
            && *before_end == start
            && *before_deletion == deletion
        {
            start = before_start.clone();
        }
        if let Some((after_end, after_deletion)) = self.ranges.get(&end)
            && *after_deletion == deletion
        {
            let after_end = after_end.clone();
            self.ranges.remove(&end);
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

    fn bound(comparable: &[u8]) -> Bound {
        Bound::new(comparable, Clustering(comparable))
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
                tombstones.insert(bound(&[a]), bound(&[b]), d);
                for slot in model.iter_mut().take(b as usize).skip(a as usize) {
                    *slot = slot.max(d);
                }
                for (position, expected) in model.iter().enumerate() {
                    assert_eq!(tombstones.deletion_at(&[position as u8]), *expected, "seed {seed} at {position}");
                }
                let mut last: Option<(Bound, Deletion)> = None;
                let mut next = tombstones.first_ending_after(&[]);
                let mut count = 0;
                while let Some(range) = next {
                    assert!(range.start < range.end);
                    assert_eq!(range.end.prefix().0, range.end.comparable());
                    if let Some((end, d)) = &last {
                        assert!(end <= range.start, "overlap");
                        assert!(end < range.start || *d != range.deletion, "neighbours to be joined");
                    }
                    last = Some((range.end.clone(), range.deletion));
                    count += 1;
                    next = tombstones.first_ending_after(range.end.comparable());
                }
                assert_eq!(count, tombstones.len());
                let mut next = tombstones.last_starting_before(None);
                while let Some(range) = next {
                    count -= 1;
                    next = tombstones.last_starting_before(Some(range.start.comparable()));
                }
                assert_eq!(count, 0);
            }
        }
    }

    #[test]
    fn empty_and_live_ranges_change_nothing() {
        let mut tombstones = RangeTombstones::default();
        tombstones.insert(bound(b"b"), bound(b"a"), deletion(1));
        tombstones.insert(bound(b"a"), bound(b"a"), deletion(1));
        tombstones.insert(bound(b"a"), bound(b"b"), Deletion::LIVE);
        assert!(tombstones.is_empty());
    }
}
