//! The nodes of the cluster, as the cores of this one know them: who has data, and who is believed to be alive. Both
//! are replaced on all cores while requests are served.

use crate::messages::admin::Members;
use crate::messages::{Reply, Request};
use crate::ports::{PeerFailure, PeerLane};
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::topology::{Node, NodeIndex, Topology};
use model::Failure;
use runtime::Instant;
use runtime::sync::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

impl Shard {
    /// Places data on `nodes`, this one among them, as of an epoch of the cluster's metadata. On return all cores do;
    /// requests that began before go on with the nodes that they know. Which nodes are alive is known by host id and
    /// stays. An epoch before the current one changes nothing.
    ///
    /// # Errors
    /// Server error if this node is not among them, or they are too many.
    pub async fn switch_topology(&self, nodes: Vec<Node>, epoch: u64) -> Result<(), Failure> {
        let here = nodes.iter().position(|node| node.host_id == self.host_id());
        let Some(here) = here.and_then(|at| u16::try_from(at).ok()).filter(|_| nodes.len() <= NODES_MAX) else {
            return Err(Failure::server("The cluster's metadata does not have this node, or has too many"));
        };
        let members = Arc::new(Members { epoch, nodes, here: NodeIndex(here) });
        let replies = self.call_all(|| Request::SwitchTopology(members.clone())).await;
        replies.into_iter().try_for_each(Reply::done)
    }

    /// Takes the host ids of the nodes that are believed to be alive; this one always is. On return all cores know.
    pub async fn switch_live_nodes(&self, live: BTreeSet<Uuid>) -> Result<(), Failure> {
        let live = Arc::new(live);
        let replies = self.call_all(|| Request::SwitchLiveNodes(live.clone())).await;
        replies.into_iter().try_for_each(Reply::done)
    }
}

impl Shard {
    /// Waits until every node that is believed to be alive has applied the entry at `epoch` of the metadata log, or
    /// `deadline` has come. Returns a warning for each that has not confirmed it.
    pub(crate) async fn confirm(&self, epoch: u64, deadline: Instant) -> Vec<String> {
        let topology = self.topology();
        let ask = |(at, node): (usize, &Node)| {
            let at = NodeIndex(at as u16);
            let is_asked = at != topology.here() && topology.live().contains(at);
            is_asked.then(|| {
                let body = epoch.to_le_bytes().to_vec();
                let call = self.peers().call(node, PeerLane::Urgent, Verb::AwaitEpoch, body, deadline);
                let address = node.address;
                async move {
                    match call.await {
                        // A node that cannot be reached hears of the change before it serves clients again.
                        Ok(_) | Err(PeerFailure::NotSent) => None,
                        Err(_) => Some(format!("Node /{address} has not confirmed the change of the schema in time")),
                    }
                }
            })
        };
        let asked = topology.nodes().iter().enumerate().filter_map(ask).collect();
        join_all(asked).await.into_iter().flatten().collect()
    }
}

/// Most nodes of a cluster.
const NODES_MAX: usize = u16::MAX as usize;

/// Places data on the nodes of `members` on this core, unless it knows later ones.
pub(crate) fn adopt(shard: &Shard, members: &Members) {
    if members.epoch >= shard.topology().epoch() {
        shard.set_topology(Topology::new(members.nodes.clone(), members.here, members.epoch));
    }
}
