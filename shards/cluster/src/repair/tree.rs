//! Trees of one level: the leaves of a segment, and sums of digests.

use model::token::RingPosition;
use model::{Partitioner, RingToken, Token, TokenRange};
use std::collections::BTreeMap;

/// Most leaves of a tree.
pub const LEAVES_MAX: u16 = 4096;

/// The leaves of a segment: parts of equal size of its tokens' prefixes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaves {
    partitioner: Partitioner,
    range: TokenRange,
    /// The first prefix, and how many there are besides it.
    first: u64,
    span: u64,
    count: u16,
}

impl Leaves {
    /// The leaves of the keys of `range`, at least 1 and at most [`LEAVES_MAX`].
    pub fn new(partitioner: Partitioner, range: TokenRange, count: u16) -> Leaves {
        let prefix = |position: &RingPosition| position.token.token().prefix();
        let first = range.start.as_ref().map_or(0, prefix);
        let last = range.end.as_ref().map_or(u64::MAX, prefix);
        Leaves { partitioner, range, first, span: last.saturating_sub(first), count: count.clamp(1, LEAVES_MAX) }
    }

    /// The keys of the segment.
    pub fn range(&self) -> &TokenRange {
        &self.range
    }

    /// How many leaves there are.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The leaf of a key of the range, given with the prefix of its token.
    pub fn leaf_of(&self, token: Token) -> u16 {
        let at = token.prefix().saturating_sub(self.first).min(self.span);
        (u128::from(at) * u128::from(self.count) / (u128::from(self.span) + 1)) as u16
    }

    /// The keys of neighbouring leaves, `first` to `last`; perhaps others as well under partitioners of which a token
    /// cannot be told by its prefix.
    pub fn range_of(&self, first: u16, last: u16) -> TokenRange {
        if self.partitioner != Partitioner::Murmur3 {
            return self.range.clone();
        }
        // The first prefix of a leaf.
        let begin = |leaf: u16| {
            let at = (u128::from(leaf) * (u128::from(self.span) + 1)).div_ceil(u128::from(self.count));
            u128::from(self.first) + at
        };
        // Before all keys of a prefix; where leaves are more than prefixes, the last of them begin behind all.
        let before = |prefix: u128| {
            let token = RingToken::Murmur3(Token::from_prefix(u64::try_from(prefix).ok()?).0);
            Some(RingPosition { token, is_after: false })
        };
        let (start, end) = (self.range.start.clone(), self.range.end.clone());
        TokenRange {
            start: if first == 0 { start } else { before(begin(first)).or(end.clone()) },
            end: if last + 1 < self.count { before(begin(last + 1)).or(end) } else { end },
        }
    }
}

/// What a replica has of a segment: sums of digests, one of each leaf.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// How many partitions there are.
    pub partitions: u64,
    /// How many bytes of rows they have, roughly.
    pub bytes: u64,
    /// The sums; none if there are no partitions.
    pub sums: Vec<u64>,
}

impl Tree {
    /// Adds a partition in a leaf of `leaves`.
    pub fn add(&mut self, leaves: &Leaves, token: Token, digest: u64, bytes: u64) {
        self.sums.resize(leaves.count.into(), 0);
        let sum = &mut self.sums[usize::from(leaves.leaf_of(token))];
        *sum = sum.wrapping_add(digest);
        self.partitions += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds what another core has of the same segment.
    pub fn merge(&mut self, other: &Tree) {
        if self.sums.len() < other.sums.len() {
            self.sums.resize(other.sums.len(), 0);
        }
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, other)| *sum = sum.wrapping_add(*other));
        self.partitions = self.partitions.saturating_add(other.partitions);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// The sum of a leaf.
    fn sum(&self, leaf: u16) -> u64 {
        self.sums.get(usize::from(leaf)).copied().unwrap_or(0)
    }
}

/// In how many leaves each two of the trees differ, by their places; those that are equal are left out.
pub fn differing_pairs(leaves: &Leaves, trees: &[Tree]) -> BTreeMap<(usize, usize), u64> {
    let pairs = (0..trees.len()).flat_map(|one| (one + 1..trees.len()).map(move |other| (one, other)));
    let count = |(one, other): (usize, usize)| {
        (0..leaves.count).filter(|leaf| trees[one].sum(*leaf) != trees[other].sum(*leaf)).count() as u64
    };
    pairs.map(|pair| (pair, count(pair))).filter(|(_, count)| *count > 0).collect()
}

/// The leaves in which some of the trees differ, ascending.
pub fn differing(leaves: &Leaves, trees: &[Tree]) -> Vec<u16> {
    let Some((first, others)) = trees.split_first() else { return Vec::new() };
    let differs = |leaf: &u16| others.iter().any(|other| other.sum(*leaf) != first.sum(*leaf));
    (0..leaves.count).filter(differs).collect()
}

/// Neighbours among ascending leaves as runs, each its first and last leaf.
pub fn runs(leaves: &[u16]) -> Vec<(u16, u16)> {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for leaf in leaves {
        match runs.last_mut().filter(|(_, last)| *last + 1 == *leaf) {
            Some((_, last)) => *last = *leaf,
            None => runs.push((*leaf, *leaf)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::arbitrary::generator;
    use std::collections::BTreeSet;

    fn range(after: i64, until: i64) -> TokenRange {
        TokenRange::between(RingToken::Murmur3(after), RingToken::Murmur3(until))
    }

    #[test]
    fn leaves_cover_every_token_of_their_range_once() {
        for (after, until) in [(0, 10), (-5, 5), (i64::MIN, i64::MIN), (i64::MAX - 3, i64::MIN), (i64::MIN, 7)] {
            for count in [1, 2, 3, 7, LEAVES_MAX] {
                let leaves = Leaves::new(Partitioner::Murmur3, range(after, until), count);
                let last = if until == i64::MIN { i64::MAX } else { until };
                for token in [after.saturating_add(1), after.saturating_add(2), last - 1, last] {
                    if token <= after || token > last {
                        continue;
                    }
                    let leaf = leaves.leaf_of(Token(token));
                    let part = leaves.range_of(leaf, leaf);
                    assert!(leaf < count && part.contains(Token(token), &[]), "{token} of ({after},{until}]: {leaf}");
                    let before = leaf.checked_sub(1).map(|before| leaves.range_of(0, before));
                    assert!(before.is_none_or(|before| !before.contains(Token(token), &[])), "{token} is in one leaf");
                }
            }
        }
        assert_eq!(Leaves::new(Partitioner::Murmur3, TokenRange::FULL, LEAVES_MAX + 1).count(), LEAVES_MAX);
        assert_eq!(Leaves::new(Partitioner::Murmur3, TokenRange::FULL, 0).count(), 1);
    }

    #[test]
    fn neighbouring_leaves_are_runs() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[1, 2, 3, 5, 7, 8]), [(1, 3), (5, 5), (7, 8)]);
    }

    #[test]
    fn exactly_the_leaves_of_partitions_that_differ_are_found() {
        for seed in 0..300 {
            let mut below = generator(seed);
            let tokens: BTreeSet<i64> = (0..below(200)).map(|_| Token::from_prefix(1 + below(u64::MAX)).0).collect();
            let (count, cores) = (1 + below(300) as u16, 1 + below(4) as usize);
            let leaves = Leaves::new(Partitioner::Murmur3, TokenRange::FULL, count);
            let mut one = Tree::default();
            // The other replica has its partitions on several cores, and some that differ.
            let mut parts = vec![Tree::default(); cores];
            let mut expected = BTreeSet::new();
            for (at, token) in tokens.iter().map(|token| Token(*token)).enumerate() {
                let digest = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(at as u64 + 1);
                let is_changed = below(40) == 0;
                one.add(&leaves, token, digest, 1);
                parts[at % cores].add(&leaves, token, if is_changed { digest.wrapping_mul(3) } else { digest }, 1);
                expected.extend(is_changed.then(|| leaves.leaf_of(token)));
            }
            let mut other = Tree::default();
            parts.iter().for_each(|part| other.merge(part));
            let expected: Vec<u16> = expected.into_iter().collect();
            assert_eq!(differing(&leaves, &[one, other]), expected, "seed {seed}");
        }
    }
}
