//! Replicas to be: the nodes that gain ranges by the operations under way. They get every write and are not read.
//!
//! 1. The ring and the replication of a keyspace as they are give its natural replicas; as they are going to be once
//!    all operations have ended, its next ones.
//! 2. Both cut the ring into ranges. Within the finer pieces that the two make together, the pending replicas are the
//!    next ones that are not natural yet.
//!
//! Invariants: natural and pending replicas of a token have no node in common; when an operation ends, what was
//! pending by it has become natural.

use super::ring::{Ranges, RingRange};
use crate::topology::{DataCenter, LiveNodes, NodeIndex, Topology};
use model::token::{RingPosition, TokenRange};
use model::{RingToken, Token};
use smallvec::SmallVec;

/// The pending replicas of a ring; of most tokens there are none.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct PendingRanges {
    /// The first 64 bits of the ends of the pieces, ascending. The piece after the last end is the first one again.
    prefixes: Vec<Token>,
    /// The same ends as a whole.
    ends: Vec<RingToken>,
    /// The pending replicas of each piece; one more than there are ends if there is no end.
    nodes: Vec<SmallVec<[NodeIndex; 2]>>,
}

/// A range that a node gains when the operations under way end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gain {
    /// The node that gains it.
    pub receiver: NodeIndex,
    /// The keys.
    pub range: TokenRange,
    /// The nodes that have it now, its owner first.
    pub natural: Vec<NodeIndex>,
    /// The one of them, of the same data centre, whose place the receiver takes, and which will not have it any more.
    /// None if the range gets more replicas than it had, or fewer.
    pub replaces: Option<NodeIndex>,
}

impl Gain {
    /// The nodes from which the receiver has to fetch the range, so that it has every write that a majority of the
    /// natural replicas, in its data centre or in all, has acknowledged. `None` if too few of them are alive.
    ///
    /// If the one that it replaces is alive, that one's data is enough: whoever had a write besides still has it. Else
    /// no majority may be disjoint from the sources. Nodes of the receiver's data centre are taken first.
    pub fn sources(&self, topology: &Topology, live: &LiveNodes) -> Option<Vec<NodeIndex>> {
        if let Some(replaced) = self.replaces.filter(|replaced| live.contains(*replaced)) {
            return Some(vec![replaced]);
        }
        let center = topology.data_center_of(self.receiver);
        let (mut near, far): (Vec<NodeIndex>, Vec<NodeIndex>) =
            self.natural.iter().partition(|node| topology.data_center_of(**node) == center);
        let needed = |all: usize| all - all / 2;
        let needed_near = needed(near.len());
        near.retain(|node| live.contains(*node));
        if near.len() < needed_near {
            return None;
        }
        let wanted = needed(self.natural.len());
        let far = far.into_iter().filter(|node| live.contains(*node));
        let mut sources: Vec<NodeIndex> = near.into_iter().take(wanted.max(needed_near)).collect();
        let missing = wanted.saturating_sub(sources.len());
        sources.extend(far.take(missing));
        (sources.len() >= wanted).then_some(sources)
    }
}

impl PendingRanges {
    /// What is pending between two sets of ranges; `None` if nothing is.
    pub(super) fn between(natural: &Ranges, next: &Ranges) -> Option<PendingRanges> {
        let mut pending = PendingRanges { prefixes: Vec::new(), ends: Vec::new(), nodes: Vec::new() };
        for end in joint_ends(natural, next) {
            let nodes = missing(natural.of_token(&end), next.of_token(&end));
            pending.ends.push(end);
            pending.nodes.push(nodes);
        }
        if pending.ends.is_empty() {
            pending.nodes.push(missing(natural.first(), next.first()));
        }
        pending.prefixes = pending.ends.iter().map(RingToken::token).collect();
        pending.nodes.iter().any(|nodes| !nodes.is_empty()).then_some(pending)
    }

    /// The pending replicas of a key, given with the first 64 bits of its token.
    pub(super) fn of_key(&self, token: Token, key: &[u8]) -> &[NodeIndex] {
        let mut piece = self.prefixes.partition_point(|end| *end < token);
        // Ends that begin as the key's token does.
        while self.prefixes.get(piece) == Some(&token) && self.ends[piece].is_before_key(token, key) {
            piece += 1;
        }
        self.nodes.get(piece).unwrap_or(&self.nodes[0])
    }

    /// The pending replicas of a token.
    pub(super) fn of_token(&self, token: &RingToken) -> &[NodeIndex] {
        self.nodes.get(self.ends.partition_point(|end| end < token)).unwrap_or(&self.nodes[0])
    }
}

/// What nodes gain when the ranges of a keyspace become others; `center` tells where a node is. Ranges do not wrap
/// around.
pub(super) fn gains(natural: &Ranges, next: &Ranges, center: impl Fn(NodeIndex) -> DataCenter) -> Vec<Gain> {
    let mut gains: Vec<Gain> = Vec::new();
    let ends = joint_ends(natural, next);
    // The piece that wraps around is two: one before the first end, one after the last.
    for at in 0..=ends.len() {
        let (after, until) = (at.checked_sub(1).map(|before| &ends[before]), ends.get(at));
        let of = |ranges: &Ranges| match until.or(ends.first()) {
            Some(end) => ranges.of_token(end).to_vec(),
            None => ranges.first().to_vec(),
        };
        let (before, later) = (of(natural), of(next));
        let mut losing = missing(&later, &before);
        let range = RingRange { after, until, nodes: &before }.within(&TokenRange::FULL);
        for receiver in missing(&before, &later) {
            let is_there = |node: &NodeIndex| center(*node) == center(receiver);
            let count = |nodes: &[NodeIndex]| nodes.iter().copied().filter(is_there).count();
            // With fewer replicas than before, in all or in its data centre, what one node had is not enough: the
            // majority that acknowledged a write may be those whose place nobody takes.
            let is_one_for_one = before.len() <= later.len() && count(&before) <= count(&later);
            let paired = losing.iter().position(is_there).filter(|_| is_one_for_one);
            let replaces = paired.map(|at| losing.remove(at));
            // Neighbouring pieces with the same nodes are one range.
            let adjoins = |gain: &Gain| {
                gain.receiver == receiver
                    && gain.natural == before
                    && gain.replaces == replaces
                    && is_same(gain.range.end.as_ref(), range.start.as_ref())
            };
            match gains.iter_mut().rev().find(|gain| adjoins(gain)) {
                Some(gain) => gain.range.end.clone_from(&range.end),
                None => {
                    gains.push(Gain { receiver, range: range.clone(), natural: before.clone(), replaces });
                }
            }
        }
    }
    gains
}

/// Whether of each range whose nodes change a majority of the next ones is among nodes.
pub(super) fn has_majorities(natural: &Ranges, next: &Ranges, is_among: impl Fn(NodeIndex) -> bool) -> bool {
    let ends = joint_ends(natural, next);
    let pieces = ends.iter().map(|end| (natural.of_token(end), next.of_token(end)));
    let whole = ends.is_empty().then(|| (natural.first(), next.first()));
    let has_one = |nodes: &[NodeIndex]| nodes.iter().filter(|node| is_among(**node)).count() > nodes.len() / 2;
    pieces.chain(whole).all(|(natural, next)| missing(natural, next).is_empty() || has_one(next))
}

fn is_same(end: Option<&RingPosition>, start: Option<&RingPosition>) -> bool {
    matches!((end, start), (Some(end), Some(start)) if end.token == start.token && end.is_after == start.is_after)
}

/// The ends of both sets of ranges, ascending, each once.
fn joint_ends(natural: &Ranges, next: &Ranges) -> Vec<RingToken> {
    let mut ends: Vec<RingToken> = natural.ends().iter().chain(next.ends()).cloned().collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// The nodes of `all` that are not among `present`.
fn missing(present: &[NodeIndex], all: &[NodeIndex]) -> SmallVec<[NodeIndex; 2]> {
    all.iter().copied().filter(|node| !present.contains(node)).collect()
}

#[cfg(test)]
#[path = "pending_tests.rs"]
mod tests;
