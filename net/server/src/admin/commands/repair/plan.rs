//! Which ranges a repair covers, and with which nodes.
//!
//! 1. The ranges are those that this node has, those that it owns first (`-pr`), or the one that was asked for.
//! 2. The other nodes of each are its replicas, as far as data centres or hosts were not restricted.
//! 3. Ranges with the same nodes are one session, in the order in which they come.

use super::options::RepairOptions;
use cluster::placement::KeyspacePlacement;
use cluster::topology::{NodeIndex, Topology};
use model::token::RingPosition;
use model::{RingToken, TokenRange};
use std::fmt;

/// The tokens in `(after, until]`, which may go around the end of the ring.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RingPart {
    pub(super) after: RingToken,
    pub(super) until: RingToken,
}

impl fmt::Display for RingPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{}]", self.after, self.until)
    }
}

impl RingPart {
    /// The parts that do not go around the end of the ring.
    fn unwrapped(&self) -> Vec<TokenRange> {
        let position = |token: &RingToken| Some(RingPosition { token: token.clone(), is_after: true });
        if self.after < self.until {
            return vec![TokenRange::between(self.after.clone(), self.until.clone())];
        }
        let mut parts = vec![TokenRange { start: position(&self.after), end: None }];
        if !self.until.is_minimum() {
            parts.push(TokenRange { start: None, end: position(&self.until) });
        }
        parts
    }

    /// Whether all tokens of another part are in this one.
    pub(super) fn contains(&self, other: &RingPart) -> bool {
        let is_whole = |part: &RingPart| part.after == part.until;
        if is_whole(self) || is_whole(other) {
            return is_whole(self);
        }
        // The order in which tokens come from the start of this part once around the ring.
        let place = |token: &RingToken| (*token <= self.after, token.clone());
        let end = place(&other.until);
        end <= place(&self.until) && (other.after == self.after || place(&other.after) < end)
    }

    /// Whether any token is in both.
    fn intersects(&self, other: &RingPart) -> bool {
        let overlap = |a: &TokenRange, b: &TokenRange| {
            let before = |end: &Option<RingPosition>, start: &Option<RingPosition>| match (end, start) {
                (Some(end), Some(start)) => end.token <= start.token,
                _ => false,
            };
            !before(&a.end, &b.start) && !before(&b.end, &a.start)
        };
        self.unwrapped().iter().any(|a| other.unwrapped().iter().any(|b| overlap(a, b)))
    }
}

/// Ranges that are repaired with the same nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Session {
    pub(super) ranges: Vec<RingPart>,
    /// The other nodes.
    pub(super) others: Vec<NodeIndex>,
}

impl Session {
    /// The ranges as they are scanned: neighbours are one, none goes around the end of the ring.
    pub(super) fn scanned(&self) -> Vec<TokenRange> {
        let mut parts: Vec<TokenRange> = self.ranges.iter().flat_map(RingPart::unwrapped).collect();
        let start = |part: &TokenRange| part.start.as_ref().map(|start| start.token.clone());
        parts.sort_by_key(start);
        let mut joined: Vec<TokenRange> = Vec::new();
        for part in parts {
            match joined.last_mut().filter(|last| last.end.is_some() && last.end == part.start) {
                Some(last) => last.end = part.end,
                None => joined.push(part),
            }
        }
        joined
    }

    /// The ranges as Java prints lists.
    pub(super) fn listed(&self) -> String {
        format!("[{}]", self.ranges.iter().map(RingPart::to_string).collect::<Vec<_>>().join(", "))
    }
}

/// The ranges of a repair of a keyspace.
pub(super) fn ranges(topology: &Topology, placed: &KeyspacePlacement, options: &RepairOptions) -> Vec<RingPart> {
    if let Some(part) = &options.range {
        return vec![part.clone()];
    }
    let is_local = options.data_centers.len() == 1 && options.hosts.is_empty();
    let center = topology.data_center_of(topology.here());
    let is_asked = |part: &RingPart| {
        let nodes = placed.nodes_of(&part.until);
        if !options.primary_range {
            return nodes.contains(&topology.here());
        }
        let mut counted = nodes.iter().filter(|node| !is_local || topology.data_center_of(**node) == center);
        counted.next() == Some(&topology.here())
    };
    all(placed).into_iter().filter(is_asked).collect()
}

/// All ranges of the ring, or of a table's tablets.
fn all(placed: &KeyspacePlacement) -> Vec<RingPart> {
    placed.listed().into_iter().map(|(after, until)| RingPart { after, until }).collect()
}

/// The sessions of a repair of `ranges`.
///
/// # Errors
/// What operators are told: the nodes that were asked for do not have a range, or no other node has it.
pub(super) fn sessions(
    topology: &Topology,
    placed: &KeyspacePlacement,
    keyspace: &str,
    options: &RepairOptions,
    ranges: &[RingPart],
) -> Result<Vec<Session>, String> {
    let here = topology.here();
    let own: Vec<RingPart> =
        all(placed).into_iter().filter(|part| placed.nodes_of(&part.until).contains(&here)).collect();
    let mut sessions: Vec<Session> = Vec::new();
    for range in ranges {
        let mut others: Vec<NodeIndex> = Vec::new();
        if let Some(containing) = own.iter().find(|part| part.contains(range)) {
            others.extend(placed.nodes_of(&containing.until).iter().copied().filter(|node| *node != here));
        } else if let Some(part) = own.iter().find(|part| part.intersects(range)) {
            return Err(format!(
                "Requested range {range} intersects a local range ({part}) but is not fully contained in one; this \
                 would lead to imprecise repair. keyspace: {keyspace}"
            ));
        }
        if !options.data_centers.is_empty() {
            others.retain(|node| options.data_centers.contains(&topology.node(*node).data_center));
        } else if !options.hosts.is_empty() {
            others = of_hosts(topology, options, range, &others)?;
        }
        if others.is_empty() {
            if options.ignore_unreplicated {
                continue;
            }
            return Err(format!("Nothing to repair for {range} in {keyspace} - aborting"));
        }
        others.sort_unstable();
        match sessions.iter_mut().find(|session| session.others == others) {
            Some(session) => session.ranges.push(range.clone()),
            None => sessions.push(Session { ranges: vec![range.clone()], others }),
        }
    }
    Ok(sessions)
}

/// Those of the hosts that were asked for that have a range.
fn of_hosts(
    topology: &Topology,
    options: &RepairOptions,
    range: &RingPart,
    others: &[NodeIndex],
) -> Result<Vec<NodeIndex>, String> {
    let mut is_here = false;
    let mut chosen = Vec::new();
    for host in &options.hosts {
        let Ok(address) = host.parse::<std::net::IpAddr>() else {
            return Err(format!("Unknown host specified {host}"));
        };
        let is_it = |node: &NodeIndex| topology.node(*node).address.ip() == address;
        is_here |= is_it(&topology.here());
        chosen.extend(others.iter().copied().filter(is_it));
    }
    if !is_here {
        return Err("The current host must be part of the repair".into());
    }
    if chosen.is_empty() {
        let asked = options.hosts.join(", ");
        let described = others.iter().map(|node| format!("Full(/{},{range})", topology.node(*node).address));
        return Err(format!(
            "Specified hosts [{asked}] do not share range {range} needed for repair. Either restrict repair ranges \
             with -st/-et options, or specify one of the neighbors that share this range with this node: [{}].",
            described.collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(after: i64, until: i64) -> RingPart {
        RingPart { after: RingToken::Murmur3(after), until: RingToken::Murmur3(until) }
    }

    #[test]
    fn parts_know_what_they_contain() {
        let plain = part(10, 20);
        for (other, is_inside, meets) in [
            (part(10, 20), true, true),
            (part(10, 11), true, true),
            (part(19, 20), true, true),
            (part(9, 12), false, true),
            (part(15, 21), false, true),
            (part(20, 30), false, false),
            (part(0, 10), false, false),
            (part(15, 12), false, true),
            (part(20, 10), false, false),
            (part(5, 5), false, true),
        ] {
            assert_eq!((plain.contains(&other), plain.intersects(&other)), (is_inside, meets), "{other}");
        }
        // A part that goes around the end of the ring.
        let around = part(20, 10);
        for (other, is_inside) in
            [(part(20, 10), true), (part(30, 5), true), (part(0, 10), true), (part(30, 40), true), (part(5, 15), false)]
        {
            assert_eq!(around.contains(&other), is_inside, "{other}");
        }
        assert!(part(7, 7).contains(&around), "one token is the whole ring");
    }

    #[test]
    fn neighbours_are_scanned_as_one() {
        let session = |ranges: &[RingPart]| Session { ranges: ranges.to_vec(), others: Vec::new() };
        let whole = session(&[part(20, 30), part(30, 10), part(10, 20)]);
        assert_eq!(whole.scanned(), [TokenRange::FULL]);
        let scanned = session(&[part(30, 40), part(10, 20), part(20, 30), part(50, 5)]).scanned();
        let between = |after, until| TokenRange::between(RingToken::Murmur3(after), RingToken::Murmur3(until));
        assert_eq!(scanned, [between(i64::MIN, 5), between(10, 40), between(50, i64::MIN)]);
        assert_eq!(session(&[part(1, 2), part(4, 3)]).listed(), "[(1,2], (4,3]]");
    }
}
