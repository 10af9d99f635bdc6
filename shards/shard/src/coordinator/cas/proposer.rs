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
//! With a single replica steps 4 and 5 are one: what it accepts is decided.
//!
//! Invariants: an answer to another ballot or step is ignored; a proposal that a replica may have accepted, but no
//! majority has, is reported as unknown, never as failed.

use crate::paxos::ballot::Ballot;
use crate::paxos::{Acceptance, Promise, Proposal};

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
    Repairing { ballot: Ballot, have: usize, left: usize },
    Reading,
    Proposing { proposal: Proposal<U>, purpose: Purpose, accepted: usize },
    Committing { proposal: Proposal<U>, purpose: Purpose, committed: usize },
    Ended,
}

/// One round about one partition; the module's head has the steps.
pub(crate) struct Proposer<U> {
    replicas: usize,
    /// How many of them must agree.
    needed: usize,
    /// Replicas that must have a commit before the client is answered.
    commits_wanted: usize,
    /// Whether the only replica commits what it accepts in the same step.
    settles: bool,
    ballot: Ballot,
    /// Replicas that did not do what the current step needs.
    lost: usize,
    failed: usize,
    /// The highest ballot for which a replica refused.
    highest: Ballot,
    /// Replicas that did what the current or the last step needs.
    received: usize,
    /// How often the round had to begin again.
    contentions: u16,
    phase: Phase<U>,
}

impl<U: Clone> Proposer<U> {
    /// A proposer for `replicas` replicas, of which `commits_wanted` must have a commit before the client is answered;
    /// also returns its first command.
    pub(crate) fn begin(replicas: usize, commits_wanted: usize, ballot: Ballot) -> (Proposer<U>, Command<U>) {
        let mut proposer = Proposer {
            replicas,
            needed: replicas / 2 + 1,
            commits_wanted: commits_wanted.min(replicas),
            settles: false,
            ballot,
            lost: 0,
            failed: 0,
            highest: ballot,
            received: 0,
            contentions: 0,
            phase: Phase::Ended,
        };
        let command = proposer.prepare(ballot);
        (proposer, command)
    }

    /// A proposer for `replicas` replicas, of which `needed` must agree: a majority at least.
    pub(crate) fn begin_with(replicas: usize, needed: usize, ballot: Ballot) -> (Proposer<U>, Command<U>) {
        let (proposer, command) = Proposer::begin(replicas, needed, ballot);
        (Proposer { needed: needed.max(proposer.needed), ..proposer }, command)
    }

    /// A proposer for a single replica, which accepts and commits in one step.
    pub(crate) fn alone(ballot: Ballot) -> (Proposer<U>, Command<U>) {
        let (proposer, command) = Proposer::begin(1, 1, ballot);
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
        self.received
    }

    fn enter(&mut self, phase: Phase<U>) {
        if !matches!(phase, Phase::Ended) {
            self.received = 0;
        }
        (self.lost, self.failed, self.phase) = (0, 0, phase);
    }

    fn majority(&self) -> usize {
        self.needed
    }

    /// Whether the replicas that are left are fewer than `wanted`.
    fn out_of_reach(&self, wanted: usize) -> bool {
        self.replicas - self.lost < wanted
    }

    /// Takes a replica's answer to [`Command::Prepare`].
    pub(crate) fn promised(&mut self, replica: usize, ballot: Ballot, answer: Promise<U>) -> Option<Command<U>> {
        let majority = self.majority();
        let Phase::Preparing { promised, accepted, committed } = &mut self.phase else { return None };
        if ballot != self.ballot {
            return None;
        }
        match answer {
            Promise::Refused(latest) => {
                self.highest = self.highest.max(latest);
                return self.lost_one();
            }
            Promise::Promised { accepted: theirs, committed: last } => {
                self.received += 1;
                promised.push((replica, last.as_ref().map(|proposal| proposal.ballot)));
                *accepted = later(accepted.take(), theirs);
                *committed = later(committed.take(), last);
            }
        }
        if promised.len() < majority {
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
            let (have, left) = (promised.len() - missing.len(), missing.len());
            self.enter(Phase::Repairing { ballot: proposal.ballot, have, left });
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
            None if self.replicas == 1 => self.over(RoundEnd::Unchanged),
            None => self.propose(None, Purpose::Order),
        })
    }

    fn propose(&mut self, update: Option<U>, purpose: Purpose) -> Command<U> {
        let proposal = Proposal { ballot: self.ballot, update };
        self.enter(Phase::Proposing { proposal: proposal.clone(), purpose, accepted: 0 });
        Command::Propose(proposal)
    }

    /// Takes a replica's answer to [`Command::Propose`].
    pub(crate) fn accepted(&mut self, ballot: Ballot, answer: Acceptance) -> Option<Command<U>> {
        let majority = self.majority();
        let Phase::Proposing { accepted, .. } = &mut self.phase else { return None };
        if ballot != self.ballot {
            return None;
        }
        match answer {
            Acceptance::Accepted => {
                self.received += 1;
                *accepted += 1;
            }
            Acceptance::Refused(latest) => {
                self.highest = self.highest.max(latest);
                return self.lost_one();
            }
        }
        let done = *accepted;
        if done < majority {
            // The other replicas cannot make a majority any more.
            let unknown = self.out_of_reach(majority);
            return unknown.then(|| self.over(RoundEnd::Unknown { accepted: done }));
        }
        let Phase::Proposing { proposal, purpose, .. } = std::mem::replace(&mut self.phase, Phase::Ended) else {
            return None;
        };
        if purpose == Purpose::Order {
            return Some(self.over(RoundEnd::Unchanged));
        }
        self.enter(Phase::Committing { proposal: proposal.clone(), purpose, committed: 0 });
        if self.settles {
            return self.committed(ballot);
        }
        Some(Command::Commit { proposal, to: (0..self.replicas).collect() })
    }

    /// Takes the news that a replica has the commit of `ballot`.
    pub(crate) fn committed(&mut self, ballot: Ballot) -> Option<Command<U>> {
        let majority = self.majority();
        match &mut self.phase {
            Phase::Repairing { ballot: of, have, left } if *of == ballot => {
                *have += 1;
                *left -= 1;
                if *have < majority {
                    return None;
                }
                self.enter(Phase::Reading);
                Some(Command::Read)
            }
            Phase::Committing { proposal, purpose, committed } if proposal.ballot == ballot => {
                *committed += 1;
                let (done, purpose) = (*committed, *purpose);
                match purpose {
                    Purpose::Own if done >= self.commits_wanted => Some(self.over(RoundEnd::Applied)),
                    Purpose::Finish if done >= majority => Some(self.again()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Takes the news that a replica did not, and will not, answer what was sent with `ballot`.
    pub(crate) fn failed(&mut self, ballot: Ballot) -> Option<Command<U>> {
        let majority = self.majority();
        if let Phase::Repairing { ballot: of, have, left } = &mut self.phase {
            if *of == ballot {
                *left -= 1;
            }
            return (*have + *left < majority).then(|| self.over(RoundEnd::Unprepared));
        }
        if ballot != self.ballot {
            return None;
        }
        self.failed += 1;
        self.lost_one()
    }

    /// Counts one more replica that will not do what the current step needs.
    fn lost_one(&mut self) -> Option<Command<U>> {
        self.lost += 1;
        let wanted = match &self.phase {
            Phase::Committing { purpose: Purpose::Own, .. } => self.commits_wanted,
            _ => self.majority(),
        };
        if !self.out_of_reach(wanted) {
            return None;
        }
        Some(match &self.phase {
            Phase::Preparing { .. } if self.replicas - self.failed < self.majority() => self.over(RoundEnd::Unprepared),
            Phase::Preparing { .. } => self.again(),
            // Refused by every replica, a proposal has no effect; accepted by one, it may win some day.
            Phase::Proposing { purpose: Purpose::Own, accepted, .. } if *accepted > 0 || self.failed > 0 => {
                let accepted = *accepted;
                self.over(RoundEnd::Unknown { accepted })
            }
            Phase::Proposing { .. } if self.replicas - self.failed < self.majority() => self.over(RoundEnd::Unprepared),
            // Replicas that have not answered yet may still accept it.
            Phase::Proposing { purpose: Purpose::Own, .. } if self.lost < self.replicas => return None,
            Phase::Proposing { .. } => self.again(),
            Phase::Committing { purpose: Purpose::Own, committed, .. } => {
                let committed = *committed;
                self.over(RoundEnd::Uncommitted { committed })
            }
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
