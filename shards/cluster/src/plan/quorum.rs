//! Who must agree so that something is decided: a majority of the replicas by which data is read now and, while these
//! change, also one of those by which it is going to be read. Two decisions then have a replica in common, whether they
//! were made before, during or after the change. (Joint consensus, Ongaro: Consensus, 2014, §4.3.)

use smallvec::SmallVec;

/// In which of the two sets a replica is, or how many replicas of each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Votes {
    /// Of the replicas by which data is read now.
    pub now: u32,
    /// Of those by which it is going to be read; none if these are the same.
    pub next: u32,
}

impl Votes {
    fn cover(self, needed: Votes) -> bool {
        self.now >= needed.now && self.next >= needed.next
    }
}

impl std::ops::AddAssign for Votes {
    fn add_assign(&mut self, more: Votes) {
        self.now += more.now;
        self.next += more.next;
    }
}

impl std::ops::SubAssign for Votes {
    fn sub_assign(&mut self, fewer: Votes) {
        self.now -= fewer.now;
        self.next -= fewer.next;
    }
}

/// The replicas that are asked for a decision, by number, and how many of them must agree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quorum {
    votes: SmallVec<[Votes; 3]>,
    all: Votes,
    needed: Votes,
}

impl Quorum {
    /// A majority of so many replicas, which do not change.
    pub fn majority_of(replicas: usize) -> Quorum {
        Quorum::of((0..replicas).map(|_| Votes { now: 1, next: 0 }))
    }

    /// A majority of each set, of replicas of which it is known in which sets they are. Without a replica nobody can
    /// agree now; nothing is needed of a set of next ones that is empty.
    pub fn of(votes: impl IntoIterator<Item = Votes>) -> Quorum {
        let votes: SmallVec<[Votes; 3]> = votes.into_iter().collect();
        let mut all = Votes::default();
        votes.iter().for_each(|vote| all += *vote);
        let next = if all.next == 0 { 0 } else { all.next / 2 + 1 };
        Quorum { votes, all, needed: Votes { now: all.now / 2 + 1, next } }
    }

    /// How many replicas there are.
    pub fn replicas(&self) -> usize {
        self.votes.len()
    }

    /// How many must agree of each set.
    pub fn needed(&self) -> Votes {
        self.needed
    }

    /// The sets of a replica, by its number; none if there is no such replica.
    pub fn votes_of(&self, replica: usize) -> Votes {
        self.votes.get(replica).copied().unwrap_or_default()
    }

    /// Whether these are enough.
    pub fn is_met_by(&self, votes: Votes) -> bool {
        votes.cover(self.needed)
    }

    /// Whether all but these are enough. A replica that is counted twice makes it no.
    pub fn may_lack(&self, lost: Votes) -> bool {
        let (now, next) = (self.all.now.saturating_sub(lost.now), self.all.next.saturating_sub(lost.next));
        Votes { now, next }.cover(self.needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: u32 = 5;

    fn joint(now: u32, next: u32) -> (Vec<u32>, Quorum) {
        let nodes: Vec<u32> = (0..NODES).filter(|node| (now | next) >> node & 1 == 1).collect();
        let votes = nodes.iter().map(|node| Votes { now: now >> node & 1, next: next >> node & 1 });
        let quorum = Quorum::of(votes);
        (nodes, quorum)
    }

    /// All sets of nodes that are enough, as bits.
    fn enough(now: u32, next: u32) -> Vec<u32> {
        let (nodes, quorum) = joint(now, next);
        let sets = 0..1_u32 << nodes.len();
        let met = |set: &u32| {
            let mut votes = Votes::default();
            (0..nodes.len()).filter(|at| set >> at & 1 == 1).for_each(|at| votes += quorum.votes_of(at));
            quorum.is_met_by(votes)
        };
        let bits = |set: u32| nodes.iter().enumerate().map(|(at, node)| (set >> at & 1) << node).sum();
        sets.filter(met).map(bits).collect()
    }

    #[test]
    fn decisions_of_before_during_and_after_a_change_meet() {
        for (now, next) in (1..1 << NODES).flat_map(|now| (1..1 << NODES).map(move |next| (now, next))) {
            let during = enough(now, next);
            for others in [enough(now, 0), enough(next, 0), during.clone()] {
                for one in &during {
                    assert!(others.iter().all(|other| one & other != 0), "{now:b} to {next:b}: {one:b}");
                }
            }
        }
    }

    #[test]
    fn a_majority_may_lack_the_others() {
        let quorum = Quorum::majority_of(5);
        let of = |now| Votes { now, next: 0 };
        assert_eq!((quorum.replicas(), quorum.needed()), (5, of(3)));
        assert_eq!((quorum.is_met_by(of(2)), quorum.is_met_by(of(3))), (false, true));
        assert_eq!((quorum.may_lack(of(2)), quorum.may_lack(of(3))), (true, false));
        assert_eq!((quorum.votes_of(4), quorum.votes_of(5)), (of(1), of(0)));
        assert!(!Quorum::majority_of(0).may_lack(of(0)), "nobody can agree");
    }

    #[test]
    fn two_of_three_decide_while_one_replica_becomes_three() {
        let met = enough(0b001, 0b111);
        assert_eq!(met, [0b011, 0b101, 0b111]);
        let (_, quorum) = joint(0b001, 0b111);
        assert!(quorum.may_lack(quorum.votes_of(1)) && !quorum.may_lack(quorum.votes_of(0)));
    }
}
