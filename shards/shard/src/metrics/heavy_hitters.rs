//! Which of many keys come most often, in bounded memory.
//!
//! Space-Saving (Metwally, Agrawal and El Abbadi: Efficient computation of frequent and top-k elements in data streams,
//! 2005): a fixed number of counters; a key without one takes over the one with the lowest count, which becomes its
//! error. Counters are a heap with the lowest first, so that a key costs a few steps.
//!
//! Invariants: a count is at most its key's true weight plus its error, and at least that weight; every key that has
//! more than the total divided by the number of counters is counted.

use model::HashMap;
use std::borrow::Borrow;
use std::hash::Hash;

/// Counts of the most frequent keys.
#[derive(Clone, Debug)]
pub(crate) struct HeavyHitters<K> {
    capacity: usize,
    /// Positions in `heap`.
    places: HashMap<K, usize>,
    /// A counter is at most its children, which are at twice its position, and one and two further.
    heap: Vec<Counted<K>>,
    total: u64,
}

/// A key with its count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counted<K> {
    /// The key.
    pub(crate) key: K,
    /// Its weight, and perhaps up to `error` more.
    pub(crate) count: u64,
    /// The count of the key that it has replaced.
    pub(crate) error: u64,
    /// What else its owner counts since the key has its counter: two numbers of uses.
    pub(crate) uses: [u64; 2],
}

impl<K: Clone + Eq + Hash> HeavyHitters<K> {
    /// Counters for so many keys, at least one.
    pub(crate) fn new(capacity: usize) -> HeavyHitters<K> {
        HeavyHitters { capacity: capacity.max(1), places: HashMap::default(), heap: Vec::new(), total: 0 }
    }

    /// Adds a weight to a key, and one to its uses of the first or of the second kind.
    pub(crate) fn add_use(&mut self, key: &K, weight: u64, kind: usize) {
        self.add(key, weight);
        if let Some(at) = self.places.get(key).copied() {
            self.heap[at].uses[kind & 1] += 1;
        }
    }

    /// Adds a weight to a key, which is copied if it has no counter yet.
    pub(crate) fn add<Q>(&mut self, key: &Q, weight: u64)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.total = self.total.saturating_add(weight);
        if let Some(at) = self.places.get(key).copied() {
            self.heap[at].count = self.heap[at].count.saturating_add(weight);
            return self.sink(at);
        }
        if self.heap.len() < self.capacity {
            self.heap.push(Counted { key: key.to_owned(), count: weight, error: 0, uses: [0; 2] });
            self.places.insert(key.to_owned(), self.heap.len() - 1);
            return self.rise(self.heap.len() - 1);
        }
        let error = self.heap[0].count;
        let replaced = Counted { key: key.to_owned(), count: error.saturating_add(weight), error, uses: [0; 2] };
        let gone = std::mem::replace(&mut self.heap[0], replaced);
        self.places.remove::<K>(&gone.key);
        self.places.insert(key.to_owned(), 0);
        self.sink(0);
    }

    /// The weight of all keys together.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The counters, the highest first.
    pub(crate) fn top(&self) -> Vec<Counted<K>> {
        let mut all = self.heap.clone();
        all.sort_by_key(|counted| std::cmp::Reverse(counted.count));
        all
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for at in [a, b] {
            if let Some(place) = self.places.get_mut(&self.heap[at].key) {
                *place = at;
            }
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at].count < self.heap[(at - 1) / 2].count {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter().filter(|child| *child < self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child].count) else { return };
            if self.heap[least].count >= self.heap[at].count {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn counts_are_within_their_errors() {
        let mut sketch = HeavyHitters::new(16);
        let mut truth: BTreeMap<u64, u64> = BTreeMap::new();
        let mut state = 7u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Key 0 gets half of the weight, key 1 a quarter, and so on; the rest is spread over a thousand keys.
            let at = (state >> 33).trailing_zeros().min(3);
            let key = if at == 3 { 3 + (state >> 40) % 1_000 } else { u64::from(at) };
            let weight = 1 + (state >> 60);
            sketch.add(&key, weight);
            *truth.entry(key).or_default() += weight;
        }
        let top = sketch.top();
        assert_eq!(top.len(), 16, "no more keys than counters");
        assert_eq!(top[..3].iter().map(|counted| counted.key).collect::<Vec<u64>>(), [0, 1, 2]);
        for Counted { key, count, error, .. } in top {
            let weight = truth[&key];
            assert!(count >= weight && count - error <= weight, "{key}: {count} ± {error}, {weight}");
        }
        assert_eq!(sketch.total(), truth.values().sum::<u64>());
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut sketch = HeavyHitters::new(3);
        for key in ["a", "b", "a", "c", "a", "b"] {
            sketch.add(&key, 1);
        }
        let exact = |key, count| Counted { key, count, error: 0, uses: [0; 2] };
        assert_eq!(sketch.top(), [exact("a", 3), exact("b", 2), exact("c", 1)]);
        sketch.add(&"d", 1);
        let taken_over = Counted { key: "d", count: 2, error: 1, uses: [0; 2] };
        assert!(sketch.top().contains(&taken_over), "it takes over the lowest");
        sketch.add_use(&"a", 2, 1);
        assert_eq!(sketch.top()[0], Counted { key: "a", count: 5, error: 0, uses: [0, 1] });
    }
}
