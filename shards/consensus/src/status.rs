//! A member's view of its group, for operators.

use std::collections::BTreeMap;
use uuid::Uuid;

/// A member's view of its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The member itself.
    pub me: Uuid,
    /// The member's term.
    pub term: u64,
    /// The leader, if one is known. A leader that has not heard from a majority for long is none.
    pub leader: Option<Uuid>,
    /// The members that vote, in order of their ids. During a change of voters those of before and after it.
    pub voters: Vec<Uuid>,
    /// The members that only listen.
    pub learners: Vec<Uuid>,
    /// Whether a change of voters has begun and not ended. If its proposer died, the next change ends it.
    pub changing: bool,
    /// The index of the last record of the member's log.
    pub last: u64,
    /// The index of the last record that the member knows to be decided.
    pub decided: u64,
    /// The index of the last record that the member has applied.
    pub applied: u64,
    /// The index up to which the member's snapshot goes; 0 without one.
    pub snapshot: u64,
    /// On the leader: how many records each other member lacks.
    pub lag: BTreeMap<Uuid, u64>,
    /// Why the member has stopped taking part, if it has.
    pub failure: Option<String>,
}

impl Status {
    /// Whether the member belongs to a group that it knows of.
    pub fn is_member(&self) -> bool {
        self.voters.contains(&self.me) || self.learners.contains(&self.me)
    }

    /// Whether the member votes.
    pub fn is_voter(&self) -> bool {
        self.voters.contains(&self.me)
    }
}
