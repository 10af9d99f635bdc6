//! The acceptor of Paxos: what a replica promises, accepts and commits for one partition of one table. Pure;
//! `replica::paxos_acceptor` stores its state.
//!
//! 1. A ballot that is later than all that the replica has heard of, by a microsecond at least, is promised: from then
//!    on nothing below it is accepted. The answer says what was accepted but not committed, and what was committed
//!    last.
//! 2. A proposal is accepted unless a higher ballot was promised.
//! 3. A commit, which a majority has accepted, is applied and remembered; accepted proposals up to it are forgotten.
//!
//! With a single replica, accepting is deciding: a proposal is then accepted and committed in one step.
//!
//! State and changes are stored with the ballot's microsecond as their timestamp, and of equal timestamps the larger
//! value would win. So a replica promises one ballot of a microsecond; then at most one of them has the promises of a
//! majority and is ever proposed.
//!
//! Invariants: the highest ballot heard of never goes down; an answer is given only when the state that it describes is
//! durable. The promise of an only replica need not be durable: every proposer with a lower ballot waits for the same
//! lock and ends when the process does.

pub(crate) mod ballot;
pub(crate) mod columns;
pub(crate) mod recent;
pub(crate) mod unsettled;

use ballot::Ballot;

/// An update: an encoded mutation of the partition.
pub(crate) type Update = Vec<u8>;

/// What a round proposes to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Proposal<U> {
    /// The ballot of the round.
    pub(crate) ballot: Ballot,
    /// The change; `None` for a round that changes nothing and is proposed only to be ordered.
    pub(crate) update: Option<U>,
}

/// What a replica remembers about a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Acceptor<U> {
    /// The highest ballot promised.
    pub(crate) promised: Option<Ballot>,
    /// The proposal accepted last.
    pub(crate) accepted: Option<Proposal<U>>,
    /// The proposal committed last.
    pub(crate) committed: Option<Proposal<U>>,
}

impl<U> Default for Acceptor<U> {
    fn default() -> Acceptor<U> {
        Acceptor { promised: None, accepted: None, committed: None }
    }
}

/// The answer to the request for a promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Promise<U> {
    /// Nothing below the ballot will be accepted.
    Promised {
        /// What was accepted after the last commit.
        accepted: Option<Proposal<U>>,
        /// What was committed last.
        committed: Option<Proposal<U>>,
    },
    /// The replica has heard of this ballot, which is not a microsecond before the one that asked.
    Refused(Ballot),
}

/// The answer to a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acceptance {
    /// Every later ballot will be told about it, until it or a later proposal is committed.
    Accepted,
    /// The replica has heard of this ballot, which is above the proposal's.
    Refused(Ballot),
}

impl<U: Clone> Acceptor<U> {
    /// The ballot of a change that was accepted, and of which the replica does not know whether it was committed. What
    /// was proposed only to be ordered is no change.
    pub(crate) fn unfinished(&self) -> Option<Ballot> {
        let committed = self.committed.as_ref().map(|proposal| proposal.ballot);
        let accepted = self.accepted.as_ref().filter(|proposal| proposal.update.is_some());
        accepted.map(|proposal| proposal.ballot).filter(|ballot| Some(*ballot) > committed)
    }

    /// The highest ballot heard of.
    fn latest(&self) -> Option<Ballot> {
        let accepted = self.accepted.as_ref().map(|proposal| proposal.ballot);
        let committed = self.committed.as_ref().map(|proposal| proposal.ballot);
        self.promised.max(accepted).max(committed)
    }

    /// Asks for the promise to accept nothing below `ballot`.
    pub(crate) fn prepare(&mut self, ballot: Ballot) -> Promise<U> {
        if let Some(latest) = self.latest().filter(|latest| latest.micros() >= ballot.micros()) {
            return Promise::Refused(latest);
        }
        self.promised = Some(ballot);
        let committed = self.committed.clone();
        let since = committed.as_ref().map(|proposal| proposal.ballot);
        let accepted = self.accepted.clone().filter(|proposal| Some(proposal.ballot) > since);
        Promise::Promised { accepted, committed }
    }

    /// Asks to accept a proposal.
    pub(crate) fn accept(&mut self, proposal: Proposal<U>) -> Acceptance {
        if let Some(latest) = self.latest().filter(|latest| *latest > proposal.ballot) {
            return Acceptance::Refused(latest);
        }
        self.promised = Some(proposal.ballot);
        self.accepted = Some(proposal);
        Acceptance::Accepted
    }

    /// Asks the only replica to accept a proposal, which also decides and commits it.
    pub(crate) fn settle(&mut self, proposal: Proposal<U>) -> Acceptance {
        let answer = self.accept(proposal.clone());
        if answer == Acceptance::Accepted {
            self.commit(proposal);
        }
        answer
    }

    /// Records a commit and returns whether it is the latest. An earlier one must be applied as well; its timestamp
    /// keeps it in order.
    pub(crate) fn commit(&mut self, proposal: Proposal<U>) -> bool {
        let ballot = proposal.ballot;
        if self.committed.as_ref().is_some_and(|committed| committed.ballot >= ballot) {
            return false;
        }
        if self.accepted.as_ref().is_some_and(|accepted| accepted.ballot <= ballot) {
            self.accepted = None;
        }
        self.committed = Some(proposal);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::ballot::Scope;
    use super::*;

    fn at(micros: i64) -> Ballot {
        Ballot::new(micros, Scope::Global, 0)
    }

    fn proposal(micros: i64, update: u32) -> Proposal<u32> {
        Proposal { ballot: at(micros), update: Some(update) }
    }

    #[test]
    fn one_ballot_of_a_microsecond_is_promised() {
        let ballots = [1 << 40, 3 << 40, 2 << 40].map(|random| Ballot::new(5, Scope::Global, random));
        for first in ballots {
            let mut acceptor = Acceptor::<u32>::default();
            assert!(matches!(acceptor.prepare(first), Promise::Promised { .. }));
            for other in ballots {
                assert_eq!(acceptor.prepare(other), Promise::Refused(first));
            }
            assert!(matches!(acceptor.prepare(at(6)), Promise::Promised { .. }));
        }
    }

    #[test]
    fn a_promise_binds() {
        let mut acceptor = Acceptor::default();
        assert_eq!(acceptor.prepare(at(5)), Promise::Promised { accepted: None, committed: None });
        assert_eq!(acceptor.prepare(at(5)), Promise::Refused(at(5)));
        assert_eq!(acceptor.prepare(at(4)), Promise::Refused(at(5)));
        assert_eq!(acceptor.accept(proposal(4, 1)), Acceptance::Refused(at(5)));
        assert_eq!(acceptor.accept(proposal(5, 1)), Acceptance::Accepted);
        let accepted = Some(proposal(5, 1));
        assert_eq!(acceptor.prepare(at(6)), Promise::Promised { accepted, committed: None });
        assert_eq!(acceptor.accept(proposal(5, 1)), Acceptance::Refused(at(6)));
    }

    #[test]
    fn a_commit_ends_what_was_accepted_up_to_it() {
        let mut acceptor = Acceptor::default();
        acceptor.accept(proposal(5, 1));
        assert!(acceptor.commit(proposal(5, 1)));
        let committed = Some(proposal(5, 1));
        assert_eq!(acceptor.prepare(at(6)), Promise::Promised { accepted: None, committed: committed.clone() });
        acceptor.accept(proposal(6, 2));
        assert!(!acceptor.commit(proposal(4, 9)), "an old commit changes nothing");
        assert_eq!(acceptor.prepare(at(7)), Promise::Promised { accepted: Some(proposal(6, 2)), committed });
        assert_eq!(acceptor.prepare(at(3)), Promise::Refused(at(7)));
    }

    #[test]
    fn what_is_settled_is_committed_at_once() {
        let mut acceptor = Acceptor::default();
        acceptor.accept(proposal(4, 9));
        acceptor.prepare(at(6));
        assert_eq!(acceptor.settle(proposal(5, 1)), Acceptance::Refused(at(6)));
        assert_eq!(acceptor.settle(proposal(6, 1)), Acceptance::Accepted);
        let committed = Some(proposal(6, 1));
        assert_eq!(acceptor.prepare(at(7)), Promise::Promised { accepted: None, committed });
    }

    #[test]
    fn a_commit_alone_refuses_what_is_not_above_it() {
        let mut acceptor = Acceptor::default();
        acceptor.commit(proposal(5, 1));
        assert_eq!(acceptor.prepare(at(5)), Promise::Refused(at(5)));
        assert_eq!(acceptor.accept(proposal(4, 2)), Acceptance::Refused(at(5)));
    }
}
