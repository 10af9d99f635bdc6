//! Ranges of the ring with the nodes that have them.

use crate::topology::{NodeIndex, Ring};
use model::token::{RingPosition, TokenRange};
use model::{RingToken, Token};

/// The ring as ranges, each with its nodes. The first range wraps around: it also holds the tokens above the last end.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Ranges {
    /// The first 64 bits of the last tokens of the ranges, ascending; empty if there is only one range. A lookup seldom
    /// needs more.
    prefixes: Vec<Token>,
    /// The same tokens as a whole.
    ends: Vec<RingToken>,
    /// The nodes of each range, `width` of them, one range after another.
    nodes: Vec<NodeIndex>,
    /// How many nodes each range has.
    width: usize,
}

/// A range of the ring that does not wrap around, and its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingRange<'p> {
    /// The token before the first; `None` if the range begins with the ring.
    pub after: Option<&'p RingToken>,
    /// The last token; `None` if the range ends with the ring.
    pub until: Option<&'p RingToken>,
    /// The nodes that have it, its owner first.
    pub nodes: &'p [NodeIndex],
}

impl RingRange<'_> {
    /// Whether it begins where the ring ends: nothing is in it.
    pub(super) fn is_past_the_ring(&self) -> bool {
        self.after == Some(&RingToken::Murmur3(i64::MAX))
    }

    /// The keys of the range that lie in `limits`, which must overlap it.
    pub fn within(&self, limits: &TokenRange) -> TokenRange {
        let position = |token: &RingToken| RingPosition { token: token.clone(), is_after: true };
        let order = |a: &RingPosition, b: &RingPosition| (&a.token, a.is_after).cmp(&(&b.token, b.is_after));
        let (after, until) = (self.after.map(position), self.until.map(position));
        let start = match (after, limits.start.clone()) {
            (Some(a), Some(b)) => Some(if order(&a, &b).is_gt() { a } else { b }),
            (a, b) => a.or(b),
        };
        let end = match (until, limits.end.clone()) {
            (Some(a), Some(b)) => Some(if order(&a, &b).is_lt() { a } else { b }),
            (a, b) => a.or(b),
        };
        TokenRange { start, end }
    }
}

impl Ranges {
    /// One range, which these nodes have.
    pub(super) fn everything_on(nodes: Vec<NodeIndex>) -> Ranges {
        Ranges { prefixes: Vec::new(), ends: Vec::new(), width: nodes.len(), nodes }
    }

    /// The ranges that end at the tokens of `ring`. `replicas` is given the position on the ring of each range's
    /// end, and a list to which it adds the nodes that have the range; there must be as many for each.
    pub(super) fn of_ring(ring: &Ring, replicas: impl Fn(usize, &mut Vec<NodeIndex>)) -> Ranges {
        let mut ranges = Ranges::everything_on(Vec::new());
        if ring.is_empty() {
            return ranges;
        }
        let mut chosen = Vec::new();
        for (at, (token, _)) in ring.iter().enumerate() {
            chosen.clear();
            replicas(at, &mut chosen);
            ranges.push(token, &chosen);
        }
        ranges.join_the_ends();
        ranges.prefixes = ranges.ends.iter().map(RingToken::token).collect();
        ranges
    }

    /// The ranges of a table's tablets, in order: the end of each, `None` for the last, with its nodes, as many for
    /// each.
    pub(super) fn of_tablets(tablets: impl Iterator<Item = (Option<i64>, Vec<NodeIndex>)>) -> Ranges {
        let mut ranges = Ranges::everything_on(Vec::new());
        for (until, nodes) in tablets {
            ranges.push(&RingToken::Murmur3(until.unwrap_or(i64::MAX)), &nodes);
        }
        if !ranges.ends.is_empty() {
            ranges.join_the_ends();
        }
        ranges.prefixes = ranges.ends.iter().map(RingToken::token).collect();
        ranges
    }

    /// Adds the range that ends at `end`, which is above all ends so far.
    fn push(&mut self, end: &RingToken, nodes: &[NodeIndex]) {
        assert!(self.ends.is_empty() || self.width == nodes.len(), "all ranges have as many replicas");
        self.width = nodes.len();
        match self.ends.last_mut() {
            Some(last) if self.nodes[self.nodes.len() - self.width..] == *nodes => *last = end.clone(),
            _ => {
                self.ends.push(end.clone());
                self.nodes.extend_from_slice(nodes);
            }
        }
    }

    /// Makes one range of the first and the last if they have the same nodes.
    fn join_the_ends(&mut self) {
        let last = self.nodes.len() - self.width;
        if self.nodes[..self.width] == self.nodes[last..] {
            self.ends.pop();
            self.nodes.truncate(last.max(self.width));
        }
        if self.ends.len() == 1 {
            self.ends.clear();
        }
    }

    /// The last tokens of the ranges, ascending; none if there is only one range.
    pub(super) fn ends(&self) -> &[RingToken] {
        &self.ends
    }

    /// The nodes of the first range.
    pub(super) fn first(&self) -> &[NodeIndex] {
        &self.nodes[..self.width]
    }

    /// The nodes of a key, given with the first 64 bits of its token.
    #[inline]
    pub(super) fn of_key(&self, token: Token, key: &[u8]) -> &[NodeIndex] {
        if self.prefixes.is_empty() {
            return &self.nodes;
        }
        let mut range = self.prefixes.partition_point(|end| *end < token);
        // Ends that begin as the key's token does.
        while self.prefixes.get(range) == Some(&token) && self.ends[range].is_before_key(token, key) {
            range += 1;
        }
        self.at(range)
    }

    /// The nodes of a token.
    pub(super) fn of_token(&self, token: &RingToken) -> &[NodeIndex] {
        self.at(self.ends.partition_point(|end| end < token))
    }

    /// The nodes of a range; the one after the last is the first again.
    fn at(&self, range: usize) -> &[NodeIndex] {
        let range = if range == self.ends.len() { 0 } else { range };
        &self.nodes[range * self.width..][..self.width]
    }

    /// The ranges that contain keys of `limits`, ascending.
    pub(super) fn overlapping(&self, limits: &TokenRange) -> impl Iterator<Item = RingRange<'_>> {
        let begin = limits.start.as_ref().map_or(0, |start| {
            self.ends.partition_point(|end| *end < start.token || start.is_after && *end == start.token)
        });
        let end = match &limits.end {
            None => self.ends.len(),
            Some(last) => self.ends.partition_point(|end| *end < last.token),
        };
        let is_empty = match (&limits.start, &limits.end) {
            (Some(start), Some(end)) => (&start.token, start.is_after) >= (&end.token, end.is_after),
            _ => false,
        };
        let range = move |at: usize| RingRange {
            after: at.checked_sub(1).map(|before| &self.ends[before]),
            until: self.ends.get(at),
            nodes: self.at(at),
        };
        (begin..=end).filter(move |_| !is_empty).map(range).filter(|range| !range.is_past_the_ring())
    }
}

/// The positions of a ring of `len` tokens, once around from `start`.
pub(super) fn around(start: usize, len: usize) -> impl Iterator<Item = usize> {
    (start..len).chain(0..start)
}
