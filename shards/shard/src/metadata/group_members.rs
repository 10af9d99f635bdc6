//! What the leader of the group does for it: the members of the group are those of the cluster, and the voters are well
//! spread.
//!
//! The metadata say who belongs to the cluster. A leader compares the group with them after every change and from time
//! to time, so a leader that dies in the middle is followed by one that goes on.

use crate::shard_state::Shard;
use cluster::metadata::{Member, MemberState, Metadata};
use cluster::topology::NodeIndex;
use consensus::{Candidate, Group, ProposeError, choose_voters};
use runtime::sync::race;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

// The members of the group are those of the cluster.
const _: () = assert!(consensus::MEMBERS_MAX >= cluster::metadata::MEMBERS_MAX);

/// How often a leader looks whether voters have to be replaced.
const PERIOD: Duration = Duration::from_secs(1);
/// How long one change of the group may take.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps the group as it should be while this node leads it, until the node stops.
pub(crate) async fn keep(shard: Shard, group: Group) {
    while !shard.store().is_closing() {
        let metadata = shard.metadata().current();
        let mut is_arranged = true;
        if group.leader() == Some(shard.host_id())
            && let Err(error) = arrange(&shard, &group, &metadata).await
        {
            tracing::info!(%error, "the members of the metadata group are as before");
            is_arranged = false;
        }
        let change = shard.metadata().wait_for(metadata.epoch + 1);
        if metadata.members.len() > 1 || !is_arranged {
            race(runtime::sleep(PERIOD), change).await;
        } else {
            // Nobody's death can make another voter necessary.
            change.await;
        }
    }
}

/// Makes the members of the group those of the cluster, one step after the other.
async fn arrange(shard: &Shard, group: &Group, metadata: &Metadata) -> Result<(), ProposeError> {
    let status = group.status();
    let present: BTreeSet<Uuid> = status.voters.iter().chain(&status.learners).copied().collect();
    let wanted: BTreeSet<Uuid> = metadata.members.keys().copied().collect();
    let deadline = || runtime::now().after(CHANGE_TIMEOUT);
    let missing: BTreeSet<Uuid> = wanted.difference(&present).copied().collect();
    if !missing.is_empty() {
        group.add_learners(missing, deadline()).await?;
    }
    let voters: BTreeSet<Uuid> = status.voters.iter().copied().collect();
    let chosen = choose_voters(&candidates(shard, metadata), &voters);
    if (chosen != voters || status.changing) && !chosen.is_empty() {
        group.set_voters(chosen, deadline()).await?;
    }
    let surplus: BTreeSet<Uuid> = present.difference(&wanted).copied().collect();
    if !surplus.is_empty() && !wanted.is_empty() {
        group.remove(surplus, deadline()).await?;
    }
    Ok(())
}

/// The members that may vote: those that are part of the ring and stay.
fn candidates(shard: &Shard, metadata: &Metadata) -> Vec<Candidate> {
    let topology = shard.topology();
    let nodes = topology.nodes().iter().zip((0..).map(NodeIndex));
    let live: BTreeSet<Uuid> =
        nodes.filter(|(_, at)| topology.live().contains(*at)).map(|(node, _)| node.host_id).collect();
    let stays = |member: &Member| matches!(member.state, MemberState::Normal | MemberState::Moving);
    let staying = metadata.members.iter().filter(|(_, member)| stays(member));
    let candidate = |(id, member): (&Uuid, &Arc<Member>)| Candidate {
        node: *id,
        data_centre: member.data_center.clone(),
        rack: member.rack.clone(),
        alive: live.contains(id),
    };
    staying.map(candidate).collect()
}
