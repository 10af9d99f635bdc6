//! Giving a group new voters without its old ones' consent.
//!
//! 1. openraft is shut down, so that nothing else changes what is stored.
//! 2. The vote goes to a term far beyond any that the group has seen, and a record with the new voters goes to the end
//!    of the log, in that term.
//! 3. openraft starts anew. No other member has a log of such a term, so this one wins the next election; its log then
//!    replaces whatever differs elsewhere.

use crate::error::ProposeError;
use crate::member::Member;
use crate::ports::StoreError;
use crate::types::{Entry, Membership, Payload, Vote, log_id};
use openraft::EmptyNode;
use openraft::rt::WatchReceiver;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// How far a recovery goes beyond the term of its member at least. Elections count terms up by one, so that no member
/// can have come that far; the random rest keeps two recoveries apart.
const TERMS: u64 = 1 << 24;

/// Does it; the new openraft runs when this returns.
pub(crate) async fn recover(member: &Member, voters: BTreeSet<Uuid>) -> Result<(), ProposeError> {
    if voters.is_empty() {
        return Err(ProposeError::NoVoter);
    }
    let raft = member.raft();
    let nodes: BTreeMap<Uuid, EmptyNode> = {
        let metrics = raft.server_metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.nodes().map(|(node, empty)| (*node, empty.clone())).collect()
    };
    if let Some(stranger) = voters.iter().find(|voter| !nodes.contains_key(voter)) {
        return Err(ProposeError::NotAMember(*stranger));
    }
    let _ = raft.shutdown().await;
    let stopped = |error: StoreError| ProposeError::Stopped(member.failure.reason().unwrap_or(error));
    let failed = |error: std::io::Error| stopped(StoreError(error.to_string()));

    let term = member.log.vote().map_or(0, |vote| vote.leader_id.term) + TERMS + runtime::rng::below(TERMS);
    let index = member.log.last().map_or(0, |last| last.index + 1);
    let membership = Membership::new(vec![voters], nodes).map_err(|error| stopped(StoreError(error.to_string())))?;
    member.log.put_vote(Vote::new(term, member.config.me)).await.map_err(failed)?;
    let entry = Entry { log_id: log_id(term, index), payload: Payload::Membership(membership) };
    member.log.put_entries(vec![entry]).await.map_err(failed)?;
    member.restart().await.map_err(stopped)
}
