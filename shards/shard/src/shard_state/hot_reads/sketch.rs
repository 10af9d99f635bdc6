//! Which partitions this core reads most, in constant memory and without allocating: a table of counters with tags.
//!
//! 1. The hash of a partition names a bucket and a tag. A bucket has [`WAYS`] counters, each of the tag that it is for.
//! 2. A read adds one to the counter of its tag. If its bucket has none, it takes the counter that is zero, or takes
//!    one from the lowest: as in the sketches of Misra and Gries (Finding repeated elements, 1982), what comes often
//!    outlasts what comes seldom.
//! 3. Counts begin again with each window.
//! 4. A tag that was marked keeps its counter until it is cleared, so that a partition that is known to be hot is found
//!    by its first read of a window.
//!
//! Invariants: a count is never higher than the reads of partitions with that hash; two partitions with one hash, of 40
//! bits, are taken for one, so whoever is told of a hot one compares its key.

/// Buckets of the table; a power of two.
const BUCKETS: usize = 256;
/// Counters of a bucket.
const WAYS: usize = 4;

/// The counters of one core: 12 KiB.
pub(super) struct Sketch {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    window: u32,
    counters: [Counter; WAYS],
}

#[derive(Clone, Copy, Default)]
struct Counter {
    tag: u32,
    /// Reads of this window; the counter is free if there are none and it is not marked.
    reads: u32,
    is_marked: bool,
}

impl Sketch {
    pub(super) fn new() -> Sketch {
        Sketch { buckets: vec![Bucket::default(); BUCKETS] }
    }

    /// Counts a read of the partitions with `hash` in a window, whose numbers ascend. Returns whether one of them is
    /// marked, or this is the read number `threshold` of the window or a later one.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, window: u32, threshold: u32) -> bool {
        let (bucket, tag) = place(hash);
        let bucket = &mut self.buckets[bucket];
        if bucket.window != window {
            bucket.begin(window);
        }
        if let Some(counter) = bucket.counters.iter_mut().find(|counter| counter.tag == tag) {
            counter.reads = counter.reads.saturating_add(1);
            return counter.is_marked || counter.reads >= threshold;
        }
        let free = bucket.counters.iter_mut().filter(|counter| !counter.is_marked);
        match free.min_by_key(|counter| counter.reads) {
            Some(counter) if counter.reads == 0 => {
                *counter = Counter { tag, reads: 1, is_marked: false };
                threshold <= 1
            }
            Some(counter) => {
                counter.reads -= 1;
                false
            }
            None => false,
        }
    }

    /// Keeps the counter of a hash, which was just counted, until it is cleared.
    pub(super) fn mark(&mut self, hash: u64) {
        self.set_marked(hash, true);
    }

    /// Undoes [`Sketch::mark`].
    pub(super) fn clear(&mut self, hash: u64) {
        self.set_marked(hash, false);
    }

    fn set_marked(&mut self, hash: u64, is_marked: bool) {
        let (bucket, tag) = place(hash);
        if let Some(counter) = self.buckets[bucket].counters.iter_mut().find(|counter| counter.tag == tag) {
            counter.is_marked = is_marked;
        }
    }
}

impl Bucket {
    #[cold]
    fn begin(&mut self, window: u32) {
        self.window = window;
        self.counters.iter_mut().for_each(|counter| counter.reads = 0);
    }
}

/// The bucket and the tag of a hash.
fn place(hash: u64) -> (usize, u32) {
    ((hash >> 56) as usize % BUCKETS, (hash >> 24) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash in a bucket.
    fn hash(bucket: u64, tag: u64) -> u64 {
        bucket << 56 | tag << 24
    }

    #[test]
    fn what_is_read_often_is_found_among_many() {
        let mut sketch = Sketch::new();
        let mut found = Vec::new();
        for round in 0..1_000 {
            for hot in [1, 2] {
                if sketch.note(hash(7, hot), 1, 500) {
                    found.push((round, hot));
                }
            }
            assert!(!sketch.note(hash(7, 1_000 + round), 1, 500), "it is read once");
        }
        let first = |hot| found.iter().find(|(_, found)| *found == hot).map(|(round, _)| *round);
        assert!(first(1).is_some_and(|round| (499..700).contains(&round)), "{:?}", first(1));
        assert!(first(2).is_some_and(|round| (499..700).contains(&round)), "{:?}", first(2));
    }

    #[test]
    fn counts_begin_again_with_a_window() {
        let mut sketch = Sketch::new();
        let mut note = |window| sketch.note(hash(0, 5), window, 3);
        assert_eq!([note(1), note(1), note(1), note(1)], [false, false, true, true]);
        assert_eq!([note(2), note(2), note(2)], [false, false, true]);
    }

    #[test]
    fn what_is_marked_is_known_until_it_is_cleared() {
        let mut sketch = Sketch::new();
        for tag in 1..=WAYS as u64 {
            assert!(sketch.note(hash(3, tag), 1, 1));
            sketch.mark(hash(3, tag));
        }
        assert!(!sketch.note(hash(3, 99), 1, 1), "a bucket has so many");
        assert!(sketch.note(hash(3, 2), 9, 1_000), "by its first read of a window");
        sketch.clear(hash(3, 2));
        assert!(!sketch.note(hash(3, 2), 9, 1_000));
        assert!(sketch.note(hash(3, 99), 10, 1), "there is room again");
    }
}
