//! The byte maps of what a member stores; messages use the same parts.
//!
//! ```text
//! log id      term u64 · index u64
//! vote        term u64 · node uuid · committed u8 (1 once that node has won the term)
//! membership  count u32 · per configuration (two while it changes): count u32 · voter uuid ...
//!             count u32 · member uuid ...                                                     (voters and learners)
//! entry       term u64 · index u64 · kind u8 · content
//!             kind 0: nothing (a leader's first entry) · 1: id uuid, command bytes · 2: membership
//! snapshot    log id of the last applied entry · log id of the membership · membership · data bytes
//! ```
//! What is stored begins with the version of the format, 1. An optional part is a byte, 0 or 1, and the part.

use crate::bytes::{Put, Take};
use crate::limits::{COMMAND_BYTES_MAX, MEMBERS_MAX, NUMBER_MAX, SNAPSHOT_BYTES_MAX};
use crate::types::{
    Entry, LogId, Membership, Payload, Proposal, SnapshotData, SnapshotMeta, StoredMembership, Vote, log_id,
};
use openraft::EmptyNode;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The version of stored records.
const VERSION: u8 = 1;
/// A joint membership has the voters of before and after the change.
const CONFIGURATIONS_MAX: usize = 2;

const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// A term or an index.
fn take_number(take: &mut Take<'_>) -> Option<u64> {
    take.u64().filter(|number| *number <= NUMBER_MAX)
}

pub(crate) fn put_log_id(out: &mut Vec<u8>, id: &LogId) {
    out.put_u64(*id.leader_id);
    out.put_u64(id.index);
}

pub(crate) fn take_log_id(take: &mut Take<'_>) -> Option<LogId> {
    let (term, index) = (take_number(take)?, take_number(take)?);
    Some(log_id(term, index))
}

pub(crate) fn put_optional_log_id(out: &mut Vec<u8>, id: Option<&LogId>) {
    out.put_u8(u8::from(id.is_some()));
    if let Some(id) = id {
        put_log_id(out, id);
    }
}

pub(crate) fn take_optional_log_id(take: &mut Take<'_>) -> Option<Option<LogId>> {
    if take.bool()? { take_log_id(take).map(Some) } else { Some(None) }
}

pub(crate) fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    out.put_u64(vote.leader_id.term);
    out.put_uuid(vote.leader_id.voted_for);
    out.put_u8(u8::from(vote.committed));
}

pub(crate) fn take_vote(take: &mut Take<'_>) -> Option<Vote> {
    let (term, node, committed) = (take_number(take)?, take.uuid()?, take.bool()?);
    Some(if committed { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

fn put_membership(out: &mut Vec<u8>, membership: &Membership) {
    let configurations = membership.get_joint_config();
    out.put_u32(configurations.len() as u32);
    for voters in configurations {
        out.put_u32(voters.len() as u32);
        voters.iter().for_each(|voter| out.put_uuid(*voter));
    }
    out.put_u32(membership.nodes().count() as u32);
    membership.nodes().for_each(|(member, _)| out.put_uuid(*member));
}

fn take_membership(take: &mut Take<'_>) -> Option<Membership> {
    let uuids = |take: &mut Take<'_>| {
        let count = take.count(16).filter(|count| *count <= MEMBERS_MAX)?;
        (0..count).map(|_| take.uuid()).collect::<Option<BTreeSet<_>>>()
    };
    let count = take.count(4).filter(|count| *count <= CONFIGURATIONS_MAX)?;
    let configurations = (0..count).map(|_| uuids(take)).collect::<Option<Vec<_>>>()?;
    let members: BTreeMap<_, _> = uuids(take)?.into_iter().map(|member| (member, EmptyNode::new())).collect();
    if configurations.is_empty() && members.is_empty() {
        return Some(Membership::default());
    }
    Membership::new(configurations, members).ok()
}

pub(crate) fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_log_id(out, &entry.log_id);
    match &entry.payload {
        Payload::Blank => out.put_u8(BLANK),
        Payload::Normal(proposal) => {
            out.put_u8(NORMAL);
            out.put_uuid(proposal.id);
            out.put_bytes(&proposal.command);
        }
        Payload::Membership(membership) => {
            out.put_u8(MEMBERSHIP);
            put_membership(out, membership);
        }
    }
}

pub(crate) fn take_entry(take: &mut Take<'_>) -> Option<Entry> {
    let log_id = take_log_id(take)?;
    let payload = match take.u8()? {
        BLANK => Payload::Blank,
        NORMAL => Payload::Normal(Proposal { id: take.uuid()?, command: take.bytes(COMMAND_BYTES_MAX)?.to_vec() }),
        MEMBERSHIP => Payload::Membership(take_membership(take)?),
        _ => return None,
    };
    Some(Entry { log_id, payload })
}

/// About the length of an entry's bytes.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    64 + match &entry.payload {
        Payload::Blank => 0,
        Payload::Normal(proposal) => proposal.command.len(),
        Payload::Membership(membership) => 32 * membership.nodes().count(),
    }
}

fn put_snapshot(out: &mut Vec<u8>, meta: &SnapshotMeta, data: &[u8]) {
    put_optional_log_id(out, meta.last_log_id.as_ref());
    put_optional_log_id(out, meta.last_membership.log_id().as_ref());
    put_membership(out, meta.last_membership.membership());
    out.put_bytes(data);
}

fn take_snapshot(take: &mut Take<'_>) -> Option<(SnapshotMeta, SnapshotData)> {
    let last_log_id = take_optional_log_id(take)?;
    let membership_log_id = take_optional_log_id(take)?;
    if membership_log_id > last_log_id {
        return None;
    }
    let last_membership = StoredMembership::new(membership_log_id, take_membership(take)?);
    let data = take.bytes(SNAPSHOT_BYTES_MAX)?.to_vec();
    Some((SnapshotMeta { last_log_id, last_membership }, Rc::new(data)))
}

/// Stored bytes of `put`.
fn stored(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![VERSION];
    put(&mut out);
    out
}

/// What `take` finds in stored bytes.
fn loaded<T>(bytes: &[u8], take: impl FnOnce(&mut Take<'_>) -> Option<T>) -> Option<T> {
    let mut rest = Take(bytes);
    if rest.u8()? != VERSION {
        return None;
    }
    let value = take(&mut rest)?;
    rest.end(value)
}

pub(crate) fn stored_vote(vote: &Vote) -> Vec<u8> {
    stored(|out| put_vote(out, vote))
}

pub(crate) fn loaded_vote(bytes: &[u8]) -> Option<Vote> {
    loaded(bytes, take_vote)
}

pub(crate) fn stored_mark(mark: &LogId) -> Vec<u8> {
    stored(|out| put_log_id(out, mark))
}

pub(crate) fn loaded_mark(bytes: &[u8]) -> Option<LogId> {
    loaded(bytes, take_log_id)
}

pub(crate) fn stored_entry(entry: &Entry) -> Vec<u8> {
    stored(|out| put_entry(out, entry))
}

pub(crate) fn loaded_entry(bytes: &[u8]) -> Option<Entry> {
    loaded(bytes, take_entry)
}

pub(crate) fn stored_snapshot(meta: &SnapshotMeta, data: &[u8]) -> Vec<u8> {
    stored(|out| put_snapshot(out, meta, data))
}

pub(crate) fn loaded_snapshot(bytes: &[u8]) -> Option<(SnapshotMeta, SnapshotData)> {
    loaded(bytes, take_snapshot)
}
