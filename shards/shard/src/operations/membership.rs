//! The nodes of the cluster, as the cores of this one know them: who has data, and who is believed to be alive. Both
//! are replaced on all cores while requests are served.

use crate::messages::admin::Members;
use crate::messages::{Reply, Request};
use crate::shard_state::Shard;
use cluster::topology::{Node, NodeIndex, Topology};
use model::Failure;
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

/// Most nodes of a cluster.
const NODES_MAX: usize = u16::MAX as usize;

/// Places data on the nodes of `members` on this core, unless it knows later ones.
pub(crate) fn adopt(shard: &Shard, members: &Members) {
    if members.epoch >= shard.topology().epoch() {
        shard.set_topology(Topology::new(members.nodes.clone(), members.here, members.epoch));
    }
}
