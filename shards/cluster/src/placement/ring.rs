//! Ranges of the ring with the nodes that have them.

use crate::topology::{NodeIndex, Topology};
use model::Token;

/// The ring as ranges, each with its nodes. The first range wraps around: it also holds the tokens above the last end.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Ranges {
    /// The last tokens of the ranges, ascending; empty if there is only one range.
    ends: Vec<Token>,
    /// The nodes of each range, `width` of them, one range after another.
    nodes: Vec<NodeIndex>,
    /// How many nodes each range has.
    width: usize,
}

/// A range of the ring that does not wrap around, and its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingRange<'p> {
    /// The token before the first; `None` if the range begins with the ring.
    pub after: Option<Token>,
    /// The last token.
    pub until: Token,
    /// The nodes that have it, its owner first.
    pub nodes: &'p [NodeIndex],
}

impl Ranges {
    /// One range, which these nodes have.
    pub(super) fn everything_on(nodes: Vec<NodeIndex>) -> Ranges {
        Ranges { ends: Vec::new(), width: nodes.len(), nodes }
    }

    /// The ranges that end at the tokens of `topology`. `replicas` is given the position on the ring of each range's
    /// end, and a list to which it adds the nodes that have the range; there must be as many for each.
    pub(super) fn of_ring(topology: &Topology, replicas: impl Fn(usize, &mut Vec<NodeIndex>)) -> Ranges {
        let ring = topology.ring();
        let mut ranges = Ranges { ends: Vec::new(), nodes: Vec::new(), width: 0 };
        if ring.is_empty() {
            return ranges;
        }
        let mut chosen = Vec::new();
        for (at, (token, _)) in ring.iter().enumerate() {
            chosen.clear();
            replicas(at, &mut chosen);
            ranges.push(*token, &chosen);
        }
        ranges.join_the_ends();
        ranges
    }

    /// Adds the range that ends at `end`, which is above all ends so far.
    fn push(&mut self, end: Token, nodes: &[NodeIndex]) {
        assert!(self.ends.is_empty() || self.width == nodes.len(), "all ranges have as many replicas");
        self.width = nodes.len();
        match self.ends.last_mut() {
            Some(last) if self.nodes[self.nodes.len() - self.width..] == *nodes => *last = end,
            _ => {
                self.ends.push(end);
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

    /// The nodes of a token.
    #[inline]
    pub(super) fn of(&self, token: Token) -> &[NodeIndex] {
        if self.ends.is_empty() {
            return &self.nodes;
        }
        self.at(self.ends.partition_point(|end| *end < token))
    }

    /// The nodes of a range; the one after the last is the first again.
    fn at(&self, range: usize) -> &[NodeIndex] {
        let range = if range == self.ends.len() { 0 } else { range };
        &self.nodes[range * self.width..][..self.width]
    }

    /// The ranges that contain tokens of `first..=last`, ascending.
    pub(super) fn between(&self, first: Token, last: Token) -> impl Iterator<Item = RingRange<'_>> {
        let begin = self.ends.partition_point(|end| *end < first);
        let end = self.ends.partition_point(|end| *end < last);
        let range = move |at: usize| RingRange {
            after: at.checked_sub(1).map(|before| self.ends[before]),
            until: self.ends.get(at).copied().unwrap_or(Token::MAX),
            nodes: if self.ends.is_empty() { &self.nodes } else { self.at(at) },
        };
        (begin..=end).filter(move |_| first <= last).map(range)
    }
}

/// The positions of a ring of `len` tokens, once around from `start`.
pub(super) fn around(start: usize, len: usize) -> impl Iterator<Item = usize> {
    (start..len).chain(0..start)
}
