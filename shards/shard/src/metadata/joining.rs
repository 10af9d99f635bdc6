//! Becoming a member of a cluster, before the node serves clients.
//!
//! 1. Ask the seeds which cluster they belong to.
//! 2. One of them belongs to a cluster: ask it to propose that this node joins. The leader sends the log; when this
//!    node has applied the entry of its own joining, it serves the schema of the cluster. Then it becomes part of the
//!    ring.
//! 3. None does, and this node is a seed: the seed with the lowest address makes the cluster. A seed that is not
//!    the lowest waits for those before it, but not for ever, because they may be down.
//!
//! Invariants: a node that is no seed never makes a cluster; a node joins no cluster of another name or partitioner.

use super::membership::{announce_restart, create, own_member};
use super::peers::{ClusterState, JoinAnswer, decoded};
use crate::ports::PeerLane;
use crate::shard_state::Shard;
use crate::start_error::StartError;
use crate::verbs::Verb;
use cluster::metadata::{Command, MemberState, Metadata, Rejected};
use cluster::topology::Node;
use model::ShardMap;
use runtime::sync::join_all;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// How long a seed may take to tell which cluster it belongs to.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before the seeds are asked again.
const ASK_PAUSE: Duration = Duration::from_millis(100);
/// How long a seed waits for seeds with lower addresses before it makes a cluster without them.
const LOWER_SEEDS_WAIT: Duration = Duration::from_secs(5);
/// How long a node that is no seed looks for a cluster: Cassandra's `ring_delay_ms`.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the cluster may take to make this node a part of it.
const JOIN_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a member that starts again waits to hear what it missed.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);

impl Shard {
    /// The seeds without this node.
    pub fn other_seeds(&self) -> Vec<SocketAddr> {
        let own = self.config().storage_address().into();
        self.config().seeds.iter().copied().filter(|seed| *seed != own).collect()
    }

    /// The id of the cluster that this node belongs to, if it belongs to one. To be asked on shard 0.
    pub fn cluster_id(&self) -> Option<Uuid> {
        let metadata = self.metadata().current();
        (!metadata.cluster_id.is_nil()).then_some(metadata.cluster_id)
    }

    /// Whether this node belongs to a cluster of its own. To be asked on shard 0.
    pub fn is_alone(&self) -> bool {
        self.cluster_id().is_some() && self.metadata().current().members.len() == 1
    }

    /// What the members of the cluster agree on, as far as this node has heard. To be asked on shard 0.
    pub fn cluster_metadata(&self) -> Rc<Metadata> {
        self.metadata().current()
    }

    /// Whether a node has left the cluster, as far as this core knows: shard 0 does.
    pub fn has_left(&self, host_id: Uuid) -> bool {
        self.metadata().current().left.contains(&host_id)
    }

    /// Makes this node a member of its cluster, or hears what it missed if it is one. To be called on shard 0, once
    /// this node answers others, before clients are served.
    ///
    /// # Errors
    /// No cluster could be found, or it does not take this node; the text is for the operator.
    pub async fn join_cluster(&self) -> Result<(), StartError> {
        if self.metadata().current().cluster_id.is_nil() {
            return join(self).await;
        }
        if self.metadata().current().members.len() > 1 {
            self.catch_up().await;
        }
        Ok(())
    }

    /// Hears what was decided while this node was down, if a majority can be reached; else it goes on with what it has,
    /// because data never wait for agreement.
    async fn catch_up(&self) {
        let Some(group) = self.metadata().group() else { return };
        let deadline = runtime::now().after(CATCH_UP_TIMEOUT);
        let caught_up = match group.read_index(deadline).await {
            Ok(index) => group.wait_applied(index, deadline).await,
            Err(error) => {
                tracing::warn!(%error, "the node may lack changes of the schema");
                false
            }
        };
        if caught_up && let Err(error) = announce_restart(self).await {
            tracing::warn!(?error, "the cluster does not know what has changed about this node");
        }
    }
}

async fn join(shard: &Shard) -> Result<(), StartError> {
    let own: SocketAddr = shard.config().storage_address().into();
    let seeds = shard.other_seeds();
    let is_seed = shard.config().seeds.contains(&own);
    let began = runtime::now();
    loop {
        let states = join_all(seeds.iter().map(|seed| state_of(shard, *seed)).collect()).await;
        let mut lower_seed_comes = false;
        for (seed, state) in seeds.iter().zip(&states) {
            match state {
                Some(state) => {
                    check_cluster(shard, *seed, state)?;
                    if state.cluster_id.is_some() {
                        return join_through(shard, *seed).await;
                    }
                    lower_seed_comes |= *seed < own;
                }
                None => lower_seed_comes |= *seed < own && runtime::now().since(began) < LOWER_SEEDS_WAIT,
            }
        }
        if is_seed && !lower_seed_comes {
            return create(shard).await;
        }
        if !is_seed && runtime::now().since(began) > SEARCH_TIMEOUT {
            return Err(StartError::Failed("Unable to gossip with any peers".into()));
        }
        runtime::sleep(ASK_PAUSE).await;
    }
}

/// A node of which nothing but the address is known.
fn stranger(shard: &Shard, address: SocketAddr) -> Node {
    Node {
        host_id: Uuid::nil(),
        address,
        data_center: String::new(),
        rack: String::new(),
        shards: ShardMap::new(shard.config().partitioner, 1),
        tokens: Vec::new(),
    }
}

/// What a seed says of its cluster; `None` if it does not answer.
async fn state_of(shard: &Shard, seed: SocketAddr) -> Option<ClusterState> {
    let deadline = runtime::now().after(ASK_TIMEOUT);
    let node = stranger(shard, seed);
    let call = shard.peers().call(&node, PeerLane::Urgent, Verb::ClusterState, &[], deadline);
    decoded(&call.await.ok()?)
}

/// Refuses a cluster of another name or partitioner, with Cassandra's texts.
fn check_cluster(shard: &Shard, seed: SocketAddr, state: &ClusterState) -> Result<(), StartError> {
    let config = shard.config();
    let refuse = |what: &str, theirs: &str, own: &str| {
        Err(StartError::Failed(format!("{what} mismatch from {seed} {theirs}!={own}")))
    };
    if state.cluster_name != config.cluster_name {
        return refuse("ClusterName", &state.cluster_name, &config.cluster_name);
    }
    match config.partitioner.simple_name() {
        own if own != state.partitioner => refuse("Partitioner", &state.partitioner, own),
        _ => Ok(()),
    }
}

/// Joins the cluster that `seed` belongs to.
async fn join_through(shard: &Shard, seed: SocketAddr) -> Result<(), StartError> {
    let host_id = shard.host_id();
    let command = Command::Join { host_id, member: Box::new(own_member(shard)) };
    let deadline = runtime::now().after(JOIN_TIMEOUT);
    tracing::info!(%seed, "JOINING: waiting for the cluster to take this node in");
    loop {
        let (node, body) = (stranger(shard, seed), command.encode());
        let answer = shard.peers().call(&node, PeerLane::Urgent, Verb::Join, &body, deadline).await;
        match answer.ok().and_then(|answer| decoded(&answer)) {
            Some(JoinAnswer::Joined(_) | JoinAnswer::Refused(Rejected::KnownMember(_))) => break,
            Some(JoinAnswer::Refused(rejected)) => return Err(StartError::Failed(rejected.to_string())),
            Some(JoinAnswer::NotNow(reason)) => tracing::warn!(%reason, "the cluster does not agree, asking again"),
            None => tracing::warn!(%seed, "the seed does not answer, asking again"),
        }
        if runtime::now() >= deadline {
            return Err(StartError::Failed(format!("the cluster of {seed} did not take this node in")));
        }
        runtime::sleep(ASK_PAUSE).await;
    }
    let is_member = shard.metadata().wait_until(|metadata| metadata.members.contains_key(&host_id));
    let left = deadline.since(runtime::now());
    if runtime::timeout(left, is_member).await.is_none() {
        return Err(StartError::Failed(format!("the cluster of {seed} did not send its metadata")));
    }
    let state = shard.metadata().current().members.get(&host_id).map(|member| member.state);
    if state == Some(MemberState::Joining) {
        let finished = shard.metadata().propose(&Command::FinishJoin { host_id }, deadline).await;
        finished.map_err(|error| StartError::Failed(format!("the node did not become part of the ring: {error:?}")))?;
    }
    let own: SocketAddr = shard.config().storage_address().into();
    tracing::info!("Node /{own} state jump to NORMAL");
    Ok(())
}
