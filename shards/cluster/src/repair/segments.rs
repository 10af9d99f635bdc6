//! Segments of a range, each with as many partitions as a tree can tell apart, or as much data as one pass should read.
//!
//! How many partitions a range has is not known before it was read: the first segment is small, and each further one as
//! large as those before suggest. Under partitioners other than Murmur3 a range is one segment, because tokens in
//! between cannot be made.
//!
//! Invariants: the segments follow each other, and together are the range.

use super::tree::{LEAVES_MAX, Leaves, Tree};
use model::token::RingPosition;
use model::{Partitioner, RingToken, Token, TokenRange};

/// How many partitions a leaf should have: fewer make trees large, more make lists of partitions long.
const LEAF_PARTITIONS: u64 = 8;
/// How many partitions a segment should have.
const SEGMENT_PARTITIONS: u64 = LEAVES_MAX as u64 * LEAF_PARTITIONS;
/// How many bytes of rows a segment should have.
const SEGMENT_BYTES: u64 = 64 << 20;
/// The part of a range that its first segment is.
const FIRST_PART: u64 = 256;
/// How much larger a segment may be than the one before it.
const GROWTH_MAX: u64 = 16;

/// The segments of a range that are left.
#[derive(Clone, Debug)]
pub struct Segments {
    partitioner: Partitioner,
    /// What is left; `None` at the end.
    rest: Option<TokenRange>,
    /// How many prefixes of tokens the next segment has.
    span: u64,
}

impl Segments {
    /// All segments of a range. `span` is what [`Segments::span`] said of a similar one.
    pub fn new(partitioner: Partitioner, range: TokenRange, span: Option<u64>) -> Segments {
        let span = span.unwrap_or_else(|| prefixes(&range).1 / FIRST_PART).max(1);
        Segments { partitioner, rest: Some(range), span }
    }

    /// How many prefixes of tokens the next segment has, unless the range ends before.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// The next segment; `None` if there is none.
    pub fn advance(&mut self) -> Option<Leaves> {
        let mut range = self.rest.take()?;
        let (first, span) = prefixes(&range);
        // What would be a tiny rest belongs to this segment.
        if self.partitioner == Partitioner::Murmur3 && span.saturating_sub(self.span) > self.span / 4 {
            let token = RingToken::Murmur3(Token::from_prefix(first + self.span).0);
            let position = RingPosition { token, is_after: true };
            self.rest = Some(TokenRange { start: Some(position.clone()), end: range.end.take() });
            range.end = Some(position);
        }
        Some(Leaves::new(self.partitioner, range, LEAVES_MAX))
    }

    /// Takes what replicas have of the last segment, to size the next ones.
    pub fn read(&mut self, trees: &[Tree]) {
        let partitions = trees.iter().map(|tree| tree.partitions).max().unwrap_or(0).max(1);
        let bytes = trees.iter().map(|tree| tree.bytes).max().unwrap_or(0).max(1);
        let fits = |span: u64, wanted: u64, found: u64| {
            (u128::from(span) * u128::from(wanted) / u128::from(found)).clamp(1, u128::from(u64::MAX)) as u64
        };
        let wanted = fits(self.span, SEGMENT_PARTITIONS, partitions).min(fits(self.span, SEGMENT_BYTES, bytes));
        self.span = wanted.min(self.span.saturating_mul(GROWTH_MAX));
    }
}

/// The first prefix of the tokens of a range, and how many there are besides it.
fn prefixes(range: &TokenRange) -> (u64, u64) {
    let prefix = |position: &RingPosition| position.token.token().prefix();
    let first = range.start.as_ref().map_or(0, prefix);
    (first, range.end.as_ref().map_or(u64::MAX, prefix).saturating_sub(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(partitioner: Partitioner, range: TokenRange, tree: &Tree) -> Vec<TokenRange> {
        let mut segments = Segments::new(partitioner, range, None);
        let mut found = Vec::new();
        while let Some(leaves) = segments.advance() {
            found.push(leaves.range().clone());
            segments.read(std::slice::from_ref(tree));
            assert!(found.len() < 10_000);
        }
        found
    }

    #[test]
    fn segments_follow_each_other_and_are_the_range() {
        let dense = Tree { partitions: SEGMENT_PARTITIONS, bytes: 1, sums: Vec::new() };
        let wide = Tree { partitions: 1, bytes: SEGMENT_BYTES, sums: Vec::new() };
        for (after, until) in [(0, 10), (0, 1), (i64::MIN, i64::MIN), (-5_000_000, i64::MIN), (i64::MIN, 7)] {
            let range = TokenRange::between(RingToken::Murmur3(after), RingToken::Murmur3(until));
            for tree in [&Tree::default(), &dense, &wide] {
                let found = all(Partitioner::Murmur3, range.clone(), tree);
                assert_eq!(found.first().and_then(|first| first.start.clone()), range.start);
                assert_eq!(found.last().and_then(|last| last.end.clone()), range.end);
                assert!(found.windows(2).all(|pair| pair[0].end.is_some() && pair[0].end == pair[1].start));
                assert!(found.iter().all(|part| part.start != part.end || part.start.is_none()));
            }
        }
    }

    #[test]
    fn few_partitions_need_few_segments() {
        assert!(all(Partitioner::Murmur3, TokenRange::FULL, &Tree::default()).len() <= 4);
        let dense = Tree { partitions: SEGMENT_PARTITIONS, bytes: 1, sums: Vec::new() };
        assert!(
            (200..300).contains(&all(Partitioner::Murmur3, TokenRange::FULL, &dense).len()),
            "as many as the first suggests"
        );
        let range = TokenRange::between(RingToken::ByteOrdered([1].into()), RingToken::ByteOrdered([9].into()));
        assert_eq!(all(Partitioner::ByteOrdered, range.clone(), &dense), [range]);
    }
}
