//! The nodes of the cluster, as the cores of this one know them: who has data, and who is believed to be alive. Both
//! are replaced on all cores while requests are served.

use crate::coordinator::hints;
use crate::messages::admin::{Members, RingChanges};
use crate::messages::{Reply, Request};
use crate::ports::{PeerFailure, PeerLane, Presence};
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::topology::{Node, NodeIndex, Topology};
use model::Failure;
use runtime::sync::join_all;
use runtime::{Class, Instant};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

impl Shard {
    /// Places data on `nodes`, this one among them, as of an epoch of the cluster's metadata. On return all cores do;
    /// requests that began before go on with the nodes that they know. Which nodes are alive is known by host id and
    /// stays. An epoch before the current one changes nothing.
    ///
    /// # Errors
    /// Server error if this node is not among them, or they are too many.
    pub async fn switch_topology(&self, nodes: Vec<Node>, epoch: u64) -> Result<(), Failure> {
        self.switch_changing_topology(nodes, RingChanges::default(), epoch).await
    }

    /// The same while operations are under way.
    pub(crate) async fn switch_changing_topology(
        &self,
        nodes: Vec<Node>,
        changes: RingChanges,
        epoch: u64,
    ) -> Result<(), Failure> {
        let here = nodes.iter().position(|node| node.host_id == self.host_id());
        let Some(here) = here.and_then(|at| u16::try_from(at).ok()).filter(|_| nodes.len() <= NODES_MAX) else {
            return Err(Failure::server("The cluster's metadata does not have this node, or has too many"));
        };
        let members = Arc::new(Members { epoch, nodes, here: NodeIndex(here), changes });
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
    /// Waits until every node that is not down has applied the entry at `epoch` of the metadata log, or
    /// `deadline` has come. Returns a warning for each that has not confirmed it.
    pub(crate) async fn confirm(&self, epoch: u64, deadline: Instant) -> Vec<String> {
        // Not the topology, which counts as in use by a request as long as it is held.
        let asked: Vec<(Node, bool)> = {
            let topology = self.topology();
            let others = (0..topology.nodes().len() as u16).map(NodeIndex).filter(|at| *at != topology.here());
            others.map(|at| (topology.node(at).clone(), topology.live().contains(at))).collect()
        };
        let ask = |(node, is_live): (Node, bool)| async move {
            let warning = || format!("Node /{} has not confirmed the change of the schema in time", node.address);
            (!self.confirmed_by(&node, is_live, epoch, deadline).await).then(warning)
        };
        join_all(asked.into_iter().map(ask).collect()).await.into_iter().flatten().collect()
    }
}

impl Shard {
    /// Waits until a node has applied the entry at `epoch`, or turns out to be down: then it hears of it before it
    /// serves clients again ([`Shard::join_cluster`]).
    ///
    /// What is known of a node that cannot be called may be old, so it is looked at, after the entry was decided. It is
    /// down when its machine refuses connections: its process does not run, or has not begun to catch up. It counts as
    /// down when nothing answers, and no connection to it could be made for [`UNREACHABLE_FOR`] or it is not believed
    /// to be alive: if it runs, it is cut off, and serves what it knows until it is connected again. One that is not
    /// believed to be alive, perhaps because it has just started, has [`SILENT_FOR`] to show that it is.
    async fn confirmed_by(&self, node: &Node, is_live: bool, epoch: u64, deadline: Instant) -> bool {
        let answered_by = if is_live { deadline } else { deadline.min(runtime::now().after(SILENT_FOR)) };
        loop {
            // A call would wait for the next attempt to connect.
            let is_unreachable = self.peers().unreachable_for(node) >= UNREACHABLE_FOR;
            if is_unreachable && self.peers().presence(node).await != Presence::Listening {
                return true;
            }
            let body = epoch.to_le_bytes();
            let called = self.peers().call(node, PeerLane::Urgent, Verb::AwaitEpoch, &body, answered_by).await;
            let presence = match called {
                Ok(_) => return true,
                Err(PeerFailure::NotSent) if !is_unreachable => self.peers().presence(node).await,
                Err(_) => Presence::Listening,
            };
            if presence == Presence::Gone || presence == Presence::Silent && !is_live {
                return true;
            }
            if runtime::now() >= answered_by {
                return !is_live;
            }
            // A connection that was lost is made again a moment later.
            runtime::sleep(CONFIRMATION_PAUSE).await;
        }
    }
}

/// For how long no connection to a node can be made before it counts as down: longer than links rest after a failure.
const UNREACHABLE_FOR: Duration = Duration::from_secs(2);
/// How long a node that is not believed to be alive may take to show that it is.
const SILENT_FOR: Duration = Duration::from_secs(1);
/// Pause before a node is asked again.
const CONFIRMATION_PAUSE: Duration = Duration::from_millis(50);

/// How long links to a node are kept after it has left.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// Most nodes of a cluster.
const NODES_MAX: usize = u16::MAX as usize;

/// The addresses at which there is no node any more.
fn addresses_gone<'n>(before: &'n [Node], after: &'n [Node]) -> impl Iterator<Item = SocketAddr> {
    let stays = |node: &&Node| after.iter().any(|now| now.address == node.address);
    before.iter().filter(move |node| !stays(node)).map(|node| node.address)
}

/// Ends the links to an address where there is no node any more. Not at once, because the node that has left is to hear
/// that it has.
async fn forget_later(shard: Shard, address: SocketAddr) {
    runtime::sleep(FORGOTTEN_AFTER).await;
    if shard.topology().nodes().iter().all(|node| node.address != address) {
        shard.peers().forget(address);
    }
}

/// Deletes the hints for a node that has left.
async fn delete_hints(shard: Shard, host_id: Uuid) {
    match hints::files::delete_all(&shard, host_id).await {
        Ok(0) => {}
        Ok(files) => tracing::info!("Node {host_id} has left: {files} files of hints for it are deleted"),
        Err(error) => tracing::warn!(%error, "hints for {host_id}, which has left, are not deleted"),
    }
}

/// Places data on the nodes of `members` on this core, unless it knows later ones.
pub(crate) fn adopt(shard: &Shard, members: &Members) {
    let before = shard.topology();
    if members.epoch >= before.epoch() {
        for address in addresses_gone(before.nodes(), &members.nodes) {
            runtime::spawn_in(Class::Background, forget_later(shard.clone(), address));
        }
        for node in before.nodes().iter().filter(|node| members.nodes.iter().all(|now| now.host_id != node.host_id)) {
            runtime::spawn_in(Class::Background, delete_hints(shard.clone(), node.host_id));
        }
        let mut topology = Topology::new(members.nodes.clone(), members.here, members.epoch);
        if members.changes.next_tokens.len() == members.nodes.len() {
            topology = topology.becoming(&members.changes.next_tokens);
        }
        shard.set_topology(topology, &members.changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Partitioner, ShardMap};

    #[test]
    fn links_end_where_there_is_no_node_any_more() {
        let node = |host_id: u128, address: u8| Node {
            host_id: Uuid::from_u128(host_id),
            address: ([127, 0, 0, address], 7000).into(),
            data_center: String::new(),
            rack: String::new(),
            shards: ShardMap::new(Partitioner::Murmur3, 1),
            tokens: Vec::new(),
            features: 0,
        };
        let gone = |before: &[Node], after: &[Node]| -> Vec<u8> {
            let last = |address: SocketAddr| address.to_string().as_bytes()["127.0.0.".len()] - b'0';
            addresses_gone(before, after).map(last).collect()
        };
        let three = [node(1, 1), node(2, 2), node(3, 3)];
        assert_eq!(gone(&three, &three), [0; 0]);
        assert_eq!(gone(&three[..2], &three), [0; 0], "one joins");
        assert_eq!(gone(&three, &three[..2]), [3], "one leaves");
        assert_eq!(gone(&three, &[node(1, 1), node(2, 2), node(3, 4)]), [3], "one has moved");
        assert_eq!(gone(&three, &[node(1, 1), node(2, 2), node(4, 3)]), [0; 0], "another has its address");
    }
}
