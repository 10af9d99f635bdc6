//! What members send each other, as bytes.
//!
//! ```text
//! request   version u8 (1) · kind u8 · content
//!   1 append          vote · optional log id before · optional log id decided · count u32 · entry ...
//!   2 vote, 3 pre-vote  vote · optional log id of the last entry · transfer u8
//!   4 snapshot part   vote · hash u64 and length u64 of the whole · offset u64 · bytes
//!   5 transfer        vote · target uuid · optional log id of the last entry
//!   6 propose         milliseconds u32 · id uuid · command bytes
//!   7 change members  milliseconds u32 · change u8 (0 add learner, 1 remove, 2 set voters) · count u32 · uuid ...
//!   8 read index      milliseconds u32
//! answer    version u8 (1) · kind u8 · content
//!   1 appended · 2 appended in part: optional log id · 3 conflict · 4 higher vote: vote
//!   5 voted: vote · granted u8 · optional log id of the last entry
//!   6 send on from: offset u64 · 7 snapshot installed: vote
//!   8 transferred · 9 not transferred
//!   10 applied: index u64 · answer bytes · 11 index u64
//!   12 not the leader · 13 no majority · 14 unknown outcome · 15 refused: uuid · 16 a change is under way
//!   17 stopped · 18 bad message · 19 no voter would be left
//! ```
//! Log ids, votes and entries are those of [`crate::records`]. `milliseconds` is how long the sender waits.

use crate::bytes::{Put, Take};
use crate::limits::{ANSWER_BYTES_MAX, COMMAND_BYTES_MAX, MEMBERS_MAX, SNAPSHOT_PART_BYTES};
use crate::records::{put_entry, put_optional_log_id, put_vote, take_entry, take_optional_log_id, take_vote};
use crate::types::{Applied, Entry, LogId, Proposal, Vote};
use openraft::vote::RaftLeaderId;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

const VERSION: u8 = 1;

/// A question to a member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Request {
    Append { vote: Vote, before: Option<LogId>, decided: Option<LogId>, entries: Vec<Entry> },
    Vote(Ballot),
    PreVote(Ballot),
    SnapshotPart { vote: Vote, hash: u64, len: u64, offset: u64, bytes: Vec<u8> },
    Transfer { vote: Vote, target: Uuid, last: Option<LogId> },
    Propose { wait: Duration, proposal: Proposal },
    ChangeMembers { wait: Duration, change: MemberChange },
    ReadIndex { wait: Duration },
}

impl Request {
    /// The vote of the leader or candidate that sends it, if it names one.
    pub(crate) fn vote(&self) -> Option<Vote> {
        match self {
            Request::Append { vote, .. } | Request::SnapshotPart { vote, .. } | Request::Transfer { vote, .. } => {
                Some(*vote)
            }
            Request::Vote(ballot) | Request::PreVote(ballot) => Some(ballot.vote),
            Request::Propose { .. } | Request::ChangeMembers { .. } | Request::ReadIndex { .. } => None,
        }
    }
}

/// What a candidate shows to voters.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ballot {
    pub(crate) vote: Vote,
    pub(crate) last: Option<LogId>,
    /// Whether the leader asked for the election, so that its lease does not count.
    pub(crate) transfer: bool,
}

/// A change of the members of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MemberChange {
    /// Adds members that do not vote.
    AddLearners(BTreeSet<Uuid>),
    /// Removes members.
    Remove(BTreeSet<Uuid>),
    /// Makes these members the voters, and all others learners.
    SetVoters(BTreeSet<Uuid>),
}

/// A member's answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer {
    Appended,
    AppendedInPart(Option<LogId>),
    Conflict,
    HigherVote(Vote),
    Voted {
        vote: Vote,
        granted: bool,
        last: Option<LogId>,
    },
    /// The part of the snapshot that is missing begins at this offset.
    SendOnFrom(u64),
    Installed(Vote),
    Transferred,
    NotTransferred,
    Applied(Applied),
    Index(u64),
    NotLeader,
    NoMajority,
    UnknownOutcome,
    NotAMember(Uuid),
    ChangeUnderWay,
    Stopped,
    BadMessage,
    NoVoter,
}

fn put_wait(out: &mut Vec<u8>, wait: Duration) {
    out.put_u32(wait.as_millis().min(u128::from(u32::MAX)) as u32);
}

fn take_wait(take: &mut Take<'_>) -> Option<Duration> {
    take.u32().map(|millis| Duration::from_millis(millis.into()))
}

fn put_ballot(out: &mut Vec<u8>, ballot: &Ballot) {
    put_vote(out, &ballot.vote);
    put_optional_log_id(out, ballot.last.as_ref());
    out.put_u8(u8::from(ballot.transfer));
}

fn take_ballot(take: &mut Take<'_>) -> Option<Ballot> {
    Some(Ballot { vote: take_vote(take)?, last: take_optional_log_id(take)?, transfer: take.bool()? })
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Request::Append { vote, before, decided, entries } => {
                out.put_u8(1);
                put_vote(&mut out, vote);
                put_optional_log_id(&mut out, before.as_ref());
                put_optional_log_id(&mut out, decided.as_ref());
                out.put_u32(entries.len() as u32);
                entries.iter().for_each(|entry| put_entry(&mut out, entry));
            }
            Request::Vote(ballot) => {
                out.put_u8(2);
                put_ballot(&mut out, ballot);
            }
            Request::PreVote(ballot) => {
                out.put_u8(3);
                put_ballot(&mut out, ballot);
            }
            Request::SnapshotPart { vote, hash, len, offset, bytes } => {
                out.put_u8(4);
                put_vote(&mut out, vote);
                out.put_u64(*hash);
                out.put_u64(*len);
                out.put_u64(*offset);
                out.put_bytes(bytes);
            }
            Request::Transfer { vote, target, last } => {
                out.put_u8(5);
                put_vote(&mut out, vote);
                out.put_uuid(*target);
                put_optional_log_id(&mut out, last.as_ref());
            }
            Request::Propose { wait, proposal } => {
                out.put_u8(6);
                put_wait(&mut out, *wait);
                out.put_uuid(proposal.id);
                out.put_bytes(&proposal.command);
            }
            Request::ChangeMembers { wait, change } => {
                out.put_u8(7);
                put_wait(&mut out, *wait);
                let (kind, members) = match change {
                    MemberChange::AddLearners(members) => (0, members),
                    MemberChange::Remove(members) => (1, members),
                    MemberChange::SetVoters(members) => (2, members),
                };
                out.put_u8(kind);
                out.put_u32(members.len() as u32);
                members.iter().for_each(|member| out.put_uuid(*member));
            }
            Request::ReadIndex { wait } => {
                out.put_u8(8);
                put_wait(&mut out, *wait);
            }
        }
        out
    }

    /// The request in `bytes`; `None` if they are none, or none that a member can have sent.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Request> {
        let mut take = Take(bytes);
        if take.u8()? != VERSION {
            return None;
        }
        let take_part = &mut take;
        let request = match take_part.u8()? {
            1 => take_append(take_part)?,
            2 => Request::Vote(take_ballot(take_part)?),
            3 => Request::PreVote(take_ballot(take_part)?),
            4 => Request::SnapshotPart {
                vote: take_vote(take_part)?,
                hash: take_part.u64()?,
                len: take_part.u64()?,
                offset: take_part.u64()?,
                bytes: take_part.bytes(SNAPSHOT_PART_BYTES)?.to_vec(),
            },
            5 => Request::Transfer {
                vote: take_vote(take_part)?,
                target: take_part.uuid()?,
                last: take_optional_log_id(take_part)?,
            },
            6 => {
                let wait = take_wait(take_part)?;
                let (id, command) = (take_part.uuid()?, take_part.bytes(COMMAND_BYTES_MAX)?.to_vec());
                Request::Propose { wait, proposal: Proposal { id, command } }
            }
            7 => {
                let (wait, kind) = (take_wait(take_part)?, take_part.u8()?);
                let count = take_part.count(16).filter(|count| *count <= MEMBERS_MAX)?;
                let members = (0..count).map(|_| take_part.uuid()).collect::<Option<BTreeSet<_>>>()?;
                let change = match kind {
                    0 => MemberChange::AddLearners(members),
                    1 => MemberChange::Remove(members),
                    2 => MemberChange::SetVoters(members),
                    _ => return None,
                };
                Request::ChangeMembers { wait, change }
            }
            8 => Request::ReadIndex { wait: take_wait(take_part)? },
            _ => return None,
        };
        take.end(request)
    }
}

/// Entries that follow each other and what is before them, all of terms up to the leader's.
fn take_append(take: &mut Take<'_>) -> Option<Request> {
    let vote = take_vote(take)?;
    let (before, decided) = (take_optional_log_id(take)?, take_optional_log_id(take)?);
    let count = take.count(17)?;
    let entries = (0..count).map(|_| take_entry(take)).collect::<Option<Vec<_>>>()?;
    let mut last = before;
    for entry in &entries {
        let follows = entry.log_id.index == last.map_or(0, |last| last.index.wrapping_add(1));
        if !follows || Some(entry.log_id) <= last {
            return None;
        }
        last = Some(entry.log_id);
    }
    let term = vote.leader_id.term();
    let in_term = |id: Option<LogId>| id.is_none_or(|id| *id.leader_id <= term);
    (vote.committed && in_term(last) && in_term(decided)).then_some(Request::Append { vote, before, decided, entries })
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Answer::Appended => out.put_u8(1),
            Answer::AppendedInPart(id) => {
                out.put_u8(2);
                put_optional_log_id(&mut out, id.as_ref());
            }
            Answer::Conflict => out.put_u8(3),
            Answer::HigherVote(vote) => {
                out.put_u8(4);
                put_vote(&mut out, vote);
            }
            Answer::Voted { vote, granted, last } => {
                out.put_u8(5);
                put_vote(&mut out, vote);
                out.put_u8(u8::from(*granted));
                put_optional_log_id(&mut out, last.as_ref());
            }
            Answer::SendOnFrom(offset) => {
                out.put_u8(6);
                out.put_u64(*offset);
            }
            Answer::Installed(vote) => {
                out.put_u8(7);
                put_vote(&mut out, vote);
            }
            Answer::Transferred => out.put_u8(8),
            Answer::NotTransferred => out.put_u8(9),
            Answer::Applied(applied) => {
                out.put_u8(10);
                out.put_u64(applied.index);
                out.put_bytes(&applied.answer);
            }
            Answer::Index(index) => {
                out.put_u8(11);
                out.put_u64(*index);
            }
            Answer::NotLeader => out.put_u8(12),
            Answer::NoMajority => out.put_u8(13),
            Answer::UnknownOutcome => out.put_u8(14),
            Answer::NotAMember(member) => {
                out.put_u8(15);
                out.put_uuid(*member);
            }
            Answer::ChangeUnderWay => out.put_u8(16),
            Answer::Stopped => out.put_u8(17),
            Answer::BadMessage => out.put_u8(18),
            Answer::NoVoter => out.put_u8(19),
        }
        out
    }

    /// The answer in `bytes`, `None` if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Answer> {
        let mut take = Take(bytes);
        if take.u8()? != VERSION {
            return None;
        }
        let answer = match take.u8()? {
            1 => Answer::Appended,
            2 => Answer::AppendedInPart(take_optional_log_id(&mut take)?),
            3 => Answer::Conflict,
            4 => Answer::HigherVote(take_vote(&mut take)?),
            5 => {
                let (vote, granted) = (take_vote(&mut take)?, take.bool()?);
                Answer::Voted { vote, granted, last: take_optional_log_id(&mut take)? }
            }
            6 => Answer::SendOnFrom(take.u64()?),
            7 => Answer::Installed(take_vote(&mut take)?),
            8 => Answer::Transferred,
            9 => Answer::NotTransferred,
            10 => {
                let index = take.u64()?;
                Answer::Applied(Applied { index, answer: take.bytes(ANSWER_BYTES_MAX)?.to_vec() })
            }
            11 => Answer::Index(take.u64()?),
            12 => Answer::NotLeader,
            13 => Answer::NoMajority,
            14 => Answer::UnknownOutcome,
            15 => Answer::NotAMember(take.uuid()?),
            16 => Answer::ChangeUnderWay,
            17 => Answer::Stopped,
            18 => Answer::BadMessage,
            19 => Answer::NoVoter,
            _ => return None,
        };
        take.end(answer)
    }
}

#[cfg(test)]
mod tests;
