//! Replicas to be: the nodes that gain ranges by the operations under way. They get every write and are not read.
//!
//! 1. The ring and the replication of a keyspace as they are give its natural replicas; as they are going to be once
//!    all operations have ended, its next ones.
//! 2. Both cut the ring into ranges. Within the finer pieces that the two make together, the pending replicas are the
//!    next ones that are not natural yet.
//! 3. Whoever gains a range fetches it ([`Gain`]). If a write that a majority of the natural replicas has acknowledged
//!    could be missed by a majority of the next ones all the same, because it was acknowledged by those that lose the
//!    range, then those that keep it fetch it too.
//!
//! That is enough: let n replicas become m, of which g are new ones that fetch all that a majority has acknowledged,
//! and let u of the old ones lose the range without one of the new ones that takes exactly their place. A write that a
//! majority q(n) has acknowledged is then on g + q(n) - u of the m at least, and a majority q(m) of them meets it if
//! g + q(n) - u + q(m) > m. Else all that keep the range fetch it, and everybody has it. With as many replicas as
//! before, or more, u is at most g, and the first always holds. The same is true in each data centre for its own
//! majorities. What is acknowledged while data is fetched needs a majority of the next replicas by itself
//! (`plan::tally`).
//!
//! Invariants: natural and pending replicas of a token have no node in common; when an operation ends, what was
//! pending by it has become natural.

use super::ring::{Ranges, RingRange};
use crate::topology::{DataCenter, LiveNodes, NodeIndex, Topology};
use model::token::{RingPosition, TokenRange};
use model::{RingToken, Token};
use smallvec::SmallVec;

/// How the replicas of a ring are going to change; those of most tokens stay.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct PendingRanges {
    /// The first 64 bits of the ends of the pieces, ascending. The piece after the last end is the first one again.
    prefixes: Vec<Token>,
    /// The same ends as a whole.
    ends: Vec<RingToken>,
    /// What changes in each piece; one more than there are ends if there is no end.
    pieces: Vec<Change>,
}

/// How the replicas of a token are going to change.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Change {
    /// The pending replicas.
    pub(super) gaining: SmallVec<[NodeIndex; 2]>,
    /// The natural ones that are going to have it no more.
    pub(super) losing: SmallVec<[NodeIndex; 2]>,
}

impl Change {
    fn of(natural: &[NodeIndex], next: &[NodeIndex]) -> Change {
        Change { gaining: missing(natural, next), losing: missing(next, natural) }
    }

    /// Whether the replicas stay.
    pub(super) fn is_none(&self) -> bool {
        self.gaining.is_empty() && self.losing.is_empty()
    }
}

/// A range that a node has to fetch before the operations under way may end: it gains it, or keeps it and may lack
/// writes that only those have which lose it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gain {
    /// The node that fetches it.
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
    /// no majority may be disjoint from the sources. The receiver itself is one if it has the range already. Nodes of
    /// its data centre are taken first.
    pub fn sources(&self, topology: &Topology, live: &LiveNodes) -> Option<Vec<NodeIndex>> {
        if let Some(replaced) = self.replaces.filter(|replaced| live.contains(*replaced)) {
            return Some(vec![replaced]);
        }
        let center = topology.data_center_of(self.receiver);
        let (mut near, far): (Vec<NodeIndex>, Vec<NodeIndex>) =
            self.natural.iter().partition(|node| topology.data_center_of(**node) == center);
        near.sort_by_key(|node| *node != self.receiver);
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

impl Gain {
    /// All nodes that have the range but for those that are `gone` for good, when too few are left for
    /// [`Gain::sources`]: there is nothing better any more. `None` if one of them is only down, and may come back.
    pub fn remaining(&self, live: &LiveNodes, gone: impl Fn(NodeIndex) -> bool) -> Option<Vec<NodeIndex>> {
        let left: Vec<NodeIndex> = self.natural.iter().copied().filter(|node| !gone(*node)).collect();
        left.iter().all(|node| live.contains(*node)).then_some(left)
    }
}

impl PendingRanges {
    /// What is pending between two sets of ranges; `None` if nothing is.
    pub(super) fn between(natural: &Ranges, next: &Ranges) -> Option<PendingRanges> {
        let mut pending = PendingRanges { prefixes: Vec::new(), ends: Vec::new(), pieces: Vec::new() };
        for end in joint_ends(natural, next) {
            let change = Change::of(natural.of_token(&end), next.of_token(&end));
            pending.ends.push(end);
            pending.pieces.push(change);
        }
        if pending.ends.is_empty() {
            pending.pieces.push(Change::of(natural.first(), next.first()));
        }
        pending.prefixes = pending.ends.iter().map(RingToken::token).collect();
        pending.pieces.iter().any(|change| !change.is_none()).then_some(pending)
    }

    /// What changes for a key, given with the first 64 bits of its token.
    pub(super) fn of_key(&self, token: Token, key: &[u8]) -> &Change {
        let mut piece = self.prefixes.partition_point(|end| *end < token);
        // Ends that begin as the key's token does.
        while self.prefixes.get(piece) == Some(&token) && self.ends[piece].is_before_key(token, key) {
            piece += 1;
        }
        self.pieces.get(piece).unwrap_or(&self.pieces[0])
    }

    /// What changes for a token.
    pub(super) fn of_token(&self, token: &RingToken) -> &Change {
        self.pieces.get(self.ends.partition_point(|end| end < token)).unwrap_or(&self.pieces[0])
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
        let piece = RingRange { after, until, nodes: &before };
        if piece.is_past_the_ring() {
            continue;
        }
        let range = piece.within(&TokenRange::FULL);
        for (receiver, replaces) in receivers(&before, &later, &center) {
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

/// The nodes that have to fetch a range when its replicas become others, and whose place each takes.
fn receivers(
    before: &[NodeIndex],
    later: &[NodeIndex],
    center: impl Fn(NodeIndex) -> DataCenter,
) -> Vec<(NodeIndex, Option<NodeIndex>)> {
    let count = |nodes: &[NodeIndex], there: DataCenter| nodes.iter().filter(|node| center(**node) == there).count();
    let mut losing = missing(later, before);
    let mut receivers = Vec::new();
    for receiver in missing(before, later) {
        let there = center(receiver);
        // With fewer replicas than before, in all or in its data centre, what one node had is not enough: the majority
        // that acknowledged a write may be those whose place nobody takes.
        let is_one_for_one = before.len() <= later.len() && count(before, there) <= count(later, there);
        let paired = losing.iter().position(|node| center(*node) == there).filter(|_| is_one_for_one);
        receivers.push((receiver, paired.map(|at| losing.remove(at))));
    }
    // Now `losing` are those whose place nobody takes.
    let unpaired: Vec<NodeIndex> = receivers.iter().filter(|it| it.1.is_none()).map(|it| it.0).collect();
    let keeping = before.iter().filter(|node| later.contains(node)).copied();
    let lacking = keeping.filter(|node| {
        let there = center(*node);
        may_miss(before.len(), later.len(), unpaired.len(), losing.len())
            || may_miss(count(before, there), count(later, there), count(&unpaired, there), count(&losing, there))
    });
    let lacking: Vec<NodeIndex> = lacking.collect();
    receivers.extend(lacking.into_iter().map(|node| (node, None)));
    receivers
}

/// Whether some majority of `later` replicas may miss what a majority of `before` has acknowledged, when `gaining` of
/// them have fetched that and `losing` that had it are not among them.
fn may_miss(before: usize, later: usize, gaining: usize, losing: usize) -> bool {
    let majority = |all: usize| all / 2 + 1;
    let have = gaining + majority(before).saturating_sub(losing);
    have + majority(later) <= later
}

/// Whether the next nodes of a range that changes are a majority of themselves without those that are `among` some.
pub(super) fn may_be_read_without(natural: &Ranges, next: &Ranges, is_among: impl Fn(NodeIndex) -> bool) -> bool {
    let ends = joint_ends(natural, next);
    let pieces = ends.iter().map(|end| (natural.of_token(end), next.of_token(end)));
    let whole = ends.is_empty().then(|| (natural.first(), next.first()));
    let may_be = |nodes: &[NodeIndex]| nodes.iter().filter(|node| !is_among(**node)).count() > nodes.len() / 2;
    pieces.chain(whole).any(|(natural, next)| !missing(natural, next).is_empty() && may_be(next))
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
