//! Random choices: one seeded source, features that may be left out, and how often to make deliberate mistakes.

use runtime::rng::Rng;
use std::collections::BTreeSet;

/// The features that the generator may use, by the names under which they can be left out.
pub(crate) const FEATURES: [&str; 36] = [
    "aggregate",
    "alter",
    "alter_type",
    "arithmetic",
    "batch",
    "cast",
    "collection",
    "compact",
    "conditional",
    "contains",
    "counter",
    // Cassandra goes on from counts that were deleted if its counter cache has them: it needs `counter_cache_size:
    // 0MiB`.
    "counter_delete",
    "default_ttl",
    "descending",
    "describe",
    "distinct",
    "element",
    "empty",
    "filtering",
    "frozen",
    "function",
    "group_by",
    "in",
    "index",
    "json",
    "mask",
    "multi_column",
    "paging",
    "per_partition_limit",
    "prepared",
    "static",
    "token",
    "ttl",
    "tuple",
    "udt",
    "vector",
];

/// Where a mistake is possible, one choice in so many is one.
const SLIP_EVERY: usize = 160;

/// The source of every choice of a script.
pub(crate) struct Dice {
    rng: Rng,
    without: BTreeSet<String>,
    /// Whether mistakes may be made; not while the first schema is created.
    pub(crate) slips: bool,
}

impl Dice {
    /// Dice with a seed that never choose a feature named in `without`.
    pub(crate) fn new(seed: u64, without: &BTreeSet<String>) -> Dice {
        Dice { rng: Rng::new(seed), without: without.clone(), slips: false }
    }

    /// A number from `0..n`, each as likely.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// True `n` times in a hundred.
    pub(crate) fn percent(&mut self, n: usize) -> bool {
        self.below(100) < n
    }

    /// An element of a list that is not empty.
    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Whether a feature may be used.
    pub(crate) fn has(&self, feature: &str) -> bool {
        debug_assert!(FEATURES.contains(&feature), "{feature}");
        !self.without.contains(feature)
    }

    /// Whether to use a feature, `n` times in a hundred.
    pub(crate) fn use_of(&mut self, feature: &str, n: usize) -> bool {
        // The choice is drawn either way: leaving a feature out keeps the rest of a script similar.
        let drawn = self.percent(n);
        drawn && self.has(feature)
    }

    /// Whether to make a mistake here.
    pub(crate) fn slip(&mut self) -> bool {
        let drawn = self.one_in(SLIP_EVERY);
        drawn && self.slips
    }

    /// An index, as likely as its weight.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("the draw is below the sum")
    }

    /// Shuffles a list.
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}
