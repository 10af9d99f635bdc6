//! The proposer of Paxos: brings one decision about a partition to a majority of its replicas. Pure: it takes answers
//! and returns what to send.
//!
//! 1. Prepare: a ballot is sent to all replicas until a majority has promised it.
//! 2. Repair: a proposal that an earlier round left accepted is proposed and committed under this ballot, then the work
//!    begins anew with the next ballot. Replicas that lack the last commit are sent it.
//! 3. Read: the caller reads and decides, knowing that nothing was decided since the promise.
//! 4. Propose: the change, or an empty proposal if nothing is to be changed, so that a proposal which an earlier round
//!    left with a minority cannot be decided after this decision. A single replica needs no empty proposal: it knows
//!    all rounds.
//! 5. Commit: what a majority has accepted is sent to all.
//!
//! With a single replica steps 4 and 5 are one: what it accepts is decided. While replicas change, a majority means one
//! of those before and one of those after the change ([`Quorum`]).
//!
//! Invariants: an answer to another ballot or step is ignored; a proposal that a replica may have accepted, but no
//! majority has, is reported as unknown, never as failed.

use crate::paxos::ballot::Ballot;
use crate::paxos::{Acceptance, Promise, Proposal};
use cluster::plan::{Quorum, Votes};

/// What the caller must do next. Answers are passed to the methods of [`Proposer`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Command<U> {
    /// Ask every replica for a promise.
    Prepare(Ballot),
    /// Ask every replica to accept; a replica of [`Proposer::alone`] also commits.
    Propose(Proposal<U>),
    /// Send a commit to these replicas.
    Commit {
        /// What was decided.
        proposal: Proposal<U>,
        /// The replicas that need it, by number.
        to: Vec<usize>,
    },
    /// Read from a majority and decide.
    Read,
    /// Begin again with a ballot above this one.
    Begin(Ballot),
    /// The round is over.
    End(RoundEnd),
}

/// How a decision ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoundEnd {
    /// The change was committed.
    Applied,
    /// There was nothing to change.
    Unchanged,
    /// Too few replicas answered before anything was proposed.
    Unprepared,
    /// Fewer than a majority are known to have accepted the change: it may still be applied some day.
    Unknown {
        /// Replicas that accepted.
        accepted: usize,
    },
    /// The change is decided and will be applied, but fewer replicas than required have it so far.
    Uncommitted {
        /// Replicas that have it.
        committed: usize,
    },
}

/// Why something is proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// It is the caller's change.
    Own,
    /// It finishes another proposer's round.
    Finish,
    /// It is empty and only keeps rounds in order.
    Order,
}

enum Phase<U> {
    Preparing { promised: Vec<(usize, Option<Ballot>)>, accepted: Option<Proposal<U>>, committed: Option<Proposal<U>> },
    Repairing { ballot: Ballot, have: Votes, left: Vec<usize> },
    Reading,
    Proposing { proposal: Proposal<U>, purpose: Purpose },
    Committing { proposal: Proposal<U>, purpose: Purpose },
    Ended,
}

/// Some of the replicas.
#[derive(Clone, Copy, Default)]
struct Tally {
    count: usize,
    votes: Votes,
}

impl Tally {
    fn add(&mut self, votes: Votes) {
        self.count += 1;
        self.votes += votes;
    }
}

/// One round about one partition; the module's head has the steps.
pub(crate) struct Proposer<U> {
    /// The replicas, and who of them must agree.
    quorum: Quorum,
    /// Replicas that must have a commit before the client is answered.
    commits_wanted: usize,
    /// Whether the only replica commits what it accepts in the same step.
    settles: bool,
    ballot: Ballot,
    /// Replicas that did what the current or the last step needs.
    done: Tally,
    /// Replicas that did not do what the current step needs.
    lost: Tally,
    /// Those of them that gave no answer.
    failed: Tally,
    /// The highest ballot for which a replica refused.
    highest: Ballot,
    /// How often the round had to begin again.
    contentions: u16,
    phase: Phase<U>,
}

impl<U: Clone> Proposer<U> {
    /// A proposer for the replicas of `quorum`, of which `commits_wanted` must have a commit before the client is
    /// answered; also returns its first command.
    pub(crate) fn begin(quorum: Quorum, commits_wanted: usize, ballot: Ballot) -> (Proposer<U>, Command<U>) {
        let mut proposer = Proposer {
            commits_wanted: commits_wanted.min(quorum.replicas()),
            quorum,
            settles: false,
            ballot,
            done: Tally::default(),
            lost: Tally::default(),
            failed: Tally::default(),
            highest: ballot,
            contentions: 0,
            phase: Phase::Ended,
        };
        let command = proposer.prepare(ballot);
        (proposer, command)
    }

    /// A proposer for a single replica, which accepts and commits in one step.
    pub(crate) fn alone(ballot: Ballot) -> (Proposer<U>, Command<U>) {
        let (proposer, command) = Proposer::begin(Quorum::majority_of(1), 1, ballot);
        (Proposer { settles: true, ..proposer }, command)
    }

    /// Continues with a new ballot after [`Command::Begin`].
    pub(crate) fn prepare(&mut self, ballot: Ballot) -> Command<U> {
        self.ballot = ballot;
        self.highest = self.highest.max(ballot);
        self.enter(Phase::Preparing { promised: Vec::new(), accepted: None, committed: None });
        Command::Prepare(ballot)
    }

    /// The ballot of the round under way.
    pub(crate) fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// How often the round had to begin again.
    pub(crate) fn contentions(&self) -> u16 {
        self.contentions
    }

    /// How many replicas have done what the step under way needs, or the last one if the round is over.
    pub(crate) fn received(&self) -> usize {
        self.done.count
    }

    fn enter(&mut self, phase: Phase<U>) {
        if !matches!(phase, Phase::Ended) {
            self.done = Tally::default();
        }
        (self.lost, self.failed, self.phase) = (Tally::default(), Tally::default(), phase);
    }

    /// Whether enough replicas have done what the step under way needs.
    fn is_agreed(&self) -> bool {
        self.quorum.is_met_by(self.done.votes)
    }

    /// Takes a replica's answer to [`Command::Prepare`].
    pub(crate) fn promised(&mut self, replica: usize, ballot: Ballot, answer: Promise<U>) -> Option<Command<U>> {
        let Phase::Preparing { promised, accepted, committed } = &mut self.phase else { return None };
        if ballot != self.ballot {
            return None;
        }
        match answer {
            Promise::Refused(latest) => {
                self.highest = self.highest.max(latest);
                return self.lost_one(replica);
            }
            Promise::Promised { accepted: theirs, committed: last } => {
                self.done.add(self.quorum.votes_of(replica));
                promised.push((replica, last.as_ref().map(|proposal| proposal.ballot)));
                *accepted = later(accepted.take(), theirs);
                *committed = later(committed.take(), last);
            }
        }
        if !self.quorum.is_met_by(self.done.votes) {
            return None;
        }
        let (accepted, committed, promised) = (accepted.take(), committed.take(), std::mem::take(promised));
        let last = committed.as_ref().map(|proposal| proposal.ballot);
        // An accepted proposal that may have been decided comes first.
        if let Some(update) = accepted.filter(|proposal| Some(proposal.ballot) > last).and_then(|left| left.update) {
            return Some(self.propose(Some(update), Purpose::Finish));
        }
        let missing: Vec<usize> =
            promised.iter().filter(|(_, known)| *known < last).map(|(replica, _)| *replica).collect();
        if let (Some(proposal), false) = (committed, missing.is_empty()) {
            let mut have = self.done.votes;
            missing.iter().for_each(|replica| have -= self.quorum.votes_of(*replica));
            self.enter(Phase::Repairing { ballot: proposal.ballot, have, left: missing.clone() });
            return Some(Command::Commit { proposal, to: missing });
        }
        self.enter(Phase::Reading);
        Some(Command::Read)
    }

    /// Takes the caller's decision after [`Command::Read`]: the change, or `None` if nothing is to be changed.
    pub(crate) fn decided(&mut self, update: Option<U>) -> Option<Command<U>> {
        let Phase::Reading = self.phase else { return None };
        Some(match update {
            Some(update) => self.propose(Some(update), Purpose::Own),
            None if self.quorum.replicas() == 1 => self.over(RoundEnd::Unchanged),
            None => self.propose(None, Purpose::Order),
        })
    }

    fn propose(&mut self, update: Option<U>, purpose: Purpose) -> Command<U> {
        let proposal = Proposal { ballot: self.ballot, update };
        self.enter(Phase::Proposing { proposal: proposal.clone(), purpose });
        Command::Propose(proposal)
    }

    /// Takes a replica's answer to [`Command::Propose`].
    pub(crate) fn accepted(&mut self, replica: usize, ballot: Ballot, answer: Acceptance) -> Option<Command<U>> {
        if ballot != self.ballot || !matches!(self.phase, Phase::Proposing { .. }) {
            return None;
        }
        match answer {
            Acceptance::Accepted => self.done.add(self.quorum.votes_of(replica)),
            Acceptance::Refused(latest) => {
                self.highest = self.highest.max(latest);
                return self.lost_one(replica);
            }
        }
        if !self.is_agreed() {
            // The other replicas cannot make a majority any more.
            let unknown = !self.quorum.may_lack(self.lost.votes);
            return unknown.then(|| self.over(RoundEnd::Unknown { accepted: self.done.count }));
        }
        let Phase::Proposing { proposal, purpose } = std::mem::replace(&mut self.phase, Phase::Ended) else {
            return None;
        };
        if purpose == Purpose::Order {
            return Some(self.over(RoundEnd::Unchanged));
        }
        self.enter(Phase::Committing { proposal: proposal.clone(), purpose });
        if self.settles {
            return self.committed(replica, ballot);
        }
        Some(Command::Commit { proposal, to: (0..self.quorum.replicas()).collect() })
    }

    /// Takes the news that a replica has the commit of `ballot`.
    pub(crate) fn committed(&mut self, replica: usize, ballot: Ballot) -> Option<Command<U>> {
        let votes = self.quorum.votes_of(replica);
        match &mut self.phase {
            Phase::Repairing { ballot: of, have, left } if *of == ballot => {
                let at = left.iter().position(|awaited| *awaited == replica)?;
                left.swap_remove(at);
                *have += votes;
                if !self.quorum.is_met_by(*have) {
                    return None;
                }
                self.enter(Phase::Reading);
                Some(Command::Read)
            }
            Phase::Committing { proposal, purpose } if proposal.ballot == ballot => {
                let purpose = *purpose;
                self.done.add(votes);
                match purpose {
                    Purpose::Own if self.done.count >= self.commits_wanted => Some(self.over(RoundEnd::Applied)),
                    Purpose::Finish if self.is_agreed() => Some(self.again()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Takes the news that a replica did not, and will not, answer what was sent with `ballot`.
    pub(crate) fn failed(&mut self, replica: usize, ballot: Ballot) -> Option<Command<U>> {
        let votes = self.quorum.votes_of(replica);
        if let Phase::Repairing { ballot: of, have, left } = &mut self.phase {
            let at = left.iter().position(|awaited| *of == ballot && *awaited == replica)?;
            left.swap_remove(at);
            let mut most = *have;
            left.iter().for_each(|replica| most += self.quorum.votes_of(*replica));
            return (!self.quorum.is_met_by(most)).then(|| self.over(RoundEnd::Unprepared));
        }
        if ballot != self.ballot {
            return None;
        }
        self.failed.add(votes);
        self.lost_one(replica)
    }

    /// Counts one more replica that will not do what the current step needs.
    fn lost_one(&mut self, replica: usize) -> Option<Command<U>> {
        self.lost.add(self.quorum.votes_of(replica));
        let replicas = self.quorum.replicas();
        let may_agree = match &self.phase {
            Phase::Committing { purpose: Purpose::Own, .. } => replicas - self.lost.count >= self.commits_wanted,
            _ => self.quorum.may_lack(self.lost.votes),
        };
        if may_agree {
            return None;
        }
        let is_unreached = !self.quorum.may_lack(self.failed.votes);
        let done = self.done.count;
        Some(match &self.phase {
            Phase::Preparing { .. } if is_unreached => self.over(RoundEnd::Unprepared),
            Phase::Preparing { .. } => self.again(),
            // Refused by every replica, a proposal has no effect; accepted by one, it may win some day.
            Phase::Proposing { purpose: Purpose::Own, .. } if done > 0 || self.failed.count > 0 => {
                self.over(RoundEnd::Unknown { accepted: done })
            }
            Phase::Proposing { .. } if is_unreached => self.over(RoundEnd::Unprepared),
            // Replicas that have not answered yet may still accept it.
            Phase::Proposing { purpose: Purpose::Own, .. } if self.lost.count < replicas => return None,
            Phase::Proposing { .. } => self.again(),
            Phase::Committing { purpose: Purpose::Own, .. } => self.over(RoundEnd::Uncommitted { committed: done }),
            Phase::Committing { .. } => self.again(),
            Phase::Repairing { .. } | Phase::Reading | Phase::Ended => return None,
        })
    }

    fn again(&mut self) -> Command<U> {
        self.contentions = self.contentions.saturating_add(1);
        self.enter(Phase::Ended);
        Command::Begin(self.highest)
    }

    fn over(&mut self, how: RoundEnd) -> Command<U> {
        self.enter(Phase::Ended);
        Command::End(how)
    }
}

/// The proposal with the higher ballot.
fn later<U>(one: Option<Proposal<U>>, other: Option<Proposal<U>>) -> Option<Proposal<U>> {
    match (&one, &other) {
        (Some(a), Some(b)) if b.ballot > a.ballot => other,
        (None, _) => other,
        _ => one,
    }
}

#[cfg(test)]
#[path = "proposer_tests.rs"]
mod tests;
