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

use super::leaving::RingError;
use super::membership::{announce_restart, changed_member, check_unchanged, create, own_member};
use super::peers::{Allocation, ClusterState, JoinAnswer, JoinRequest};
use super::ring_operations::TURN_PERIOD;
use crate::config::ReplaceAddress;
use crate::peer::control::{decoded, encoded};
use crate::ports::PeerLane;
use crate::shard_state::{ProposalError, Shard};
use crate::start_error::StartError;
use crate::verbs::Verb;
use cluster::gossip::{ClockOffset, Clocks};
use cluster::metadata::{Command, MemberState, Metadata, OperationKind, Rejected};
use cluster::topology::{Node, NodeIndex};
use model::ShardMap;
use runtime::Class;
use runtime::sync::join_all;
use std::collections::BTreeMap;
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
/// How long a node that joins waits until all others take it for alive.
const SEEN_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the cluster may take to make this node a part of it.
const JOIN_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a node that joins waits for its turn: others may have much to fetch.
const JOIN_TURN_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Pause before a node that was stopped while it was leaving tries again to leave.
const LEAVE_PAUSE: Duration = Duration::from_secs(5);
/// How long a node whose join was undone lets others go first.
const NEXT_TURN_PAUSE: Duration = Duration::from_secs(5);
/// How long a member that starts again waits to hear what it missed, and then for each step of making up for it.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a node tells once more what has changed about it.
const TELL_PAUSE: Duration = Duration::from_secs(1);

impl Shard {
    /// The seeds without this node.
    pub fn other_seeds(&self) -> Vec<SocketAddr> {
        let own = self.config().storage_address();
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
        self.metadata().current().left.contains(&host_id) || (host_id == self.host_id() && self.metadata().is_removed())
    }

    /// Waits until this node is no member any more. To be called on shard 0.
    pub async fn left(&self) {
        self.metadata().left(self.host_id()).await;
    }

    /// Whether a node has left by itself, as far as shard 0 has heard since it started; others have removed any other
    /// node that has left.
    pub fn has_departed(&self, host_id: Uuid) -> bool {
        self.metadata().has_departed(host_id)
    }

    /// Makes this node a member of its cluster, or hears what it missed if it is one. To be called on shard 0, once
    /// this node answers others, before clients are served.
    ///
    /// # Errors
    /// No cluster could be found, or it does not take this node; the text is for the operator.
    pub async fn join_cluster(&self) -> Result<(), StartError> {
        if let Some(replace) = self.config().replace_address
            && self.metadata().current().members.contains_key(&self.host_id())
            && self.metadata().current().operation_of(self.host_id()).is_none()
            && self.member_state() != Some(MemberState::Joining)
        {
            if !replace.first_boot {
                let text = "Cannot replace address with a node that is already bootstrapped";
                return Err(StartError::Failed(text.into()));
            }
            tracing::info!("Replace address on the first boot requested; this node is already bootstrapped");
        }
        if self.metadata().current().cluster_id.is_nil() {
            join(self).await?;
        } else if self.metadata().current().members.len() > 1 {
            self.catch_up().await?;
        }
        if self.member_state().is_none() {
            // It stopped while it joined, with a log that does not reach to its own joining.
            check_not_removed(self).await?;
            join(self).await?;
        }
        settle(self).await
    }

    /// Makes this node part of the ring if it is not, and if `join_ring` says so.
    async fn enter_ring_as_configured(&self) -> Result<(), StartError> {
        if self.member_state() != Some(MemberState::Joining) {
            return Ok(());
        }
        if !self.config().join_ring {
            tracing::info!("Not joining ring as requested. Use `nodetool join` to initiate ring joining");
            return Ok(());
        }
        self.enter_ring().await.map_err(|error| {
            let (RingError::Unsupported(text) | RingError::Failed(text)) = error;
            StartError::Failed(format!("the node did not become part of the ring: {text}"))
        })
    }

    /// Makes this node, a joining member, part of the ring: with the data of its ranges, if `auto_bootstrap` says so.
    async fn enter_ring(&self) -> Result<(), RingError> {
        let host_id = self.host_id();
        if self.config().auto_bootstrap {
            tracing::info!("JOINING: Starting to bootstrap...");
            self.bootstrap().await?;
            tracing::info!("Bootstrap completed for tokens {:?}", self.own_tokens());
        }
        tracing::info!("JOINING: Finish joining ring");
        while self.member_state() == Some(MemberState::Joining) {
            let seen = self.metadata().current().epoch;
            let deadline = runtime::now().after(JOIN_TIMEOUT);
            match self.metadata().propose(&Command::FinishJoin { host_id }, deadline).await {
                // Others gain and lose ranges now.
                Err(ProposalError::Rejected(Rejected::OperationUnderWay(_))) => {
                    runtime::timeout(TURN_PERIOD, self.metadata().wait_for(seen + 1)).await;
                }
                proposed => drop(proposed?),
            }
        }
        let own: SocketAddr = self.config().storage_address();
        tracing::info!("Node /{own} state jump to NORMAL");
        Ok(())
    }

    /// Fetches what this node, a joining member, is going to own, and owns it then.
    async fn bootstrap(&self) -> Result<(), RingError> {
        let host_id = self.host_id();
        let mut is_first = true;
        while self.member_state() == Some(MemberState::Joining) {
            // Undone, because too few nodes were alive: others have the next turn.
            if !std::mem::take(&mut is_first) {
                runtime::sleep(NEXT_TURN_PAUSE).await;
            }
            let under_way = self.metadata().current().operation_of(host_id).map(|(id, _)| id);
            let id = match under_way {
                Some(id) => id,
                None => {
                    self.seen_by_all(runtime::now().after(SEEN_TIMEOUT)).await;
                    self.begin_operation(self.entrance(), runtime::now().after(JOIN_TURN_TIMEOUT)).await?
                }
            };
            self.operation_received(id).await;
        }
        Ok(())
    }

    /// The operation by which this node, a joining member, becomes part of the ring.
    fn entrance(&self) -> OperationKind {
        let (host_id, metadata) = (self.host_id(), self.metadata().current());
        let has_tokens = metadata.members.get(&host_id).is_some_and(|own| !own.tokens.is_empty());
        let replace = self.config().replace_address.filter(|_| !has_tokens);
        match replace.and_then(|replace| metadata.replaced_at(replace.address, host_id)) {
            Some(replaced) => OperationKind::Replace { host_id, replaced },
            None => OperationKind::Join { host_id },
        }
    }

    /// The tokens that this node owns or claims, in their textual form.
    fn own_tokens(&self) -> Vec<String> {
        self.metadata().current().members.get(&self.host_id()).map(|own| own.tokens.clone()).unwrap_or_default()
    }

    /// Makes this node, a member without ranges, part of the ring. Returns false if it is part of it already. To be
    /// called on shard 0.
    ///
    /// # Errors
    /// The cluster did not agree.
    pub async fn join_ring(&self) -> Result<bool, RingError> {
        if self.member_state() != Some(MemberState::Joining) {
            return Ok(false);
        }
        tracing::info!("Joining ring by operator request");
        self.enter_ring().await?;
        Ok(true)
    }

    /// The version of the schema that each other node that is believed to be alive serves; `None` if it does not say.
    /// To be called on shard 0.
    pub async fn schema_versions(&self) -> BTreeMap<Uuid, Option<Uuid>> {
        let asked: Vec<Node> = {
            let topology = self.topology();
            let nodes = (0..topology.nodes().len() as u16).map(NodeIndex);
            let others = nodes.filter(|at| *at != topology.here() && topology.live().contains(*at));
            others.map(|at| topology.node(at).clone()).collect()
        };
        let ask = |node: Node| async move {
            (node.host_id, state_of(self, &node).await.map(|told| told.state.schema_version))
        };
        join_all(asked.into_iter().map(ask).collect()).await.into_iter().collect()
    }

    /// Hears what was decided while this node was down, if a majority can be reached, however much that is; else it
    /// goes on with what it has, because data never wait for agreement.
    ///
    /// # Errors
    /// The node was removed meanwhile, which nobody tells one that is no member.
    async fn catch_up(&self) -> Result<(), StartError> {
        if let Err(error) = hear_and_tell(self).await {
            check_not_removed(self).await?;
            tracing::warn!(error, "the node may lack changes of the schema");
        }
        Ok(())
    }
}

/// Hears what was decided so far, then tells the others what has changed about this node, such as the number of its
/// cores. In this order, because it may have told them something else before a crash.
async fn hear_and_tell(shard: &Shard) -> Result<(), String> {
    let Some(group) = shard.metadata().group() else { return Ok(()) };
    let deadline = runtime::now().after(CATCH_UP_TIMEOUT);
    let index = group.read_index(deadline).await.map_err(|error| error.to_string())?;
    if !group.follow(index, CATCH_UP_TIMEOUT).await {
        return Err(format!("it is at {} of {index}", group.applied()));
    }
    announce_restart(shard).await.map_err(|error| format!("{error:?}"))
}

/// Tells the others what this node is like whenever they take it for something else: nodes that believe it to have
/// other cores fetch its data in vain. A start tells nothing if no majority can be reached, and what an earlier start
/// has told may be decided after what the present one has.
pub(super) async fn keep_telling(shard: Shard) {
    loop {
        shard.metadata().wait_until(|metadata| changed_member(&shard, metadata).is_some()).await;
        if let Err(error) = hear_and_tell(&shard).await {
            tracing::debug!(error, "the cluster does not know what has changed about this node");
        }
        runtime::sleep(TELL_PAUSE).await;
    }
}

/// Refuses to start if the other members say that this node is none any more.
async fn check_not_removed(shard: &Shard) -> Result<(), StartError> {
    match is_removed(shard).await {
        true => Err(StartError::Failed(Rejected::HasLeft(shard.host_id()).to_string())),
        false => Ok(()),
    }
}

/// Asks the other members whether this node is none of them any more.
pub(super) async fn is_removed(shard: &Shard) -> bool {
    let (host_id, deadline) = (shard.host_id(), runtime::now().after(ASK_TIMEOUT));
    let mut others = shard.metadata().current().nodes();
    others.retain(|node| node.host_id != host_id);
    let ask = |node: Node| async move {
        let call = shard.peers().call(&node, PeerLane::Urgent, Verb::ClusterState, &[], deadline);
        call.await.is_err() && shard.peers().says_left(&node)
    };
    join_all(others.into_iter().map(ask).collect()).await.contains(&true)
}

async fn join(shard: &Shard) -> Result<(), StartError> {
    let own: SocketAddr = shard.config().storage_address();
    let seeds = shard.other_seeds();
    // A cluster that this node has heard of is never left for one of its own.
    let may_create = shard.config().seeds.contains(&own) && shard.metadata().current().cluster_id.is_nil();
    let began = runtime::now();
    loop {
        let strangers: Vec<Node> = seeds.iter().map(|seed| stranger(shard, *seed)).collect();
        let states = join_all(strangers.iter().map(|seed| state_of(shard, seed)).collect()).await;
        let mut lower_seed_comes = false;
        for (seed, state) in seeds.iter().zip(&states) {
            match state {
                Some(Told { state, ahead }) => {
                    check_cluster(shard, *seed, state)?;
                    if state.cluster_id.is_some() {
                        check_clock(*seed, state.wall_micros, *ahead, shard.config().clock_skew_max)?;
                        return join_through(shard, *seed).await;
                    }
                    lower_seed_comes |= *seed < own;
                }
                None => lower_seed_comes |= *seed < own && runtime::now().since(began) < LOWER_SEEDS_WAIT,
            }
        }
        if may_create && !lower_seed_comes {
            return create(shard).await;
        }
        if !may_create && runtime::now().since(began) > SEARCH_TIMEOUT {
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
        features: 0,
    }
}

/// What a node says of its cluster.
struct Told {
    state: ClusterState,
    /// How far the node's clock is ahead of this node's.
    ahead: ClockOffset,
}

/// What a node says of its cluster; `None` if it does not answer.
async fn state_of(shard: &Shard, node: &Node) -> Option<Told> {
    let began = runtime::now();
    let call = shard.peers().call(node, PeerLane::Urgent, Verb::ClusterState, &[], began.after(ASK_TIMEOUT));
    let state: ClusterState = decoded(&call.await.ok()?)?;
    let now = Clocks { monotonic: Duration::from_nanos(runtime::now().0), wall: runtime::wall_micros() };
    let ahead = ClockOffset::measured(now, Duration::from_nanos(began.0), state.wall_micros)?;
    Some(Told { state, ahead })
}

/// Refuses to join while the clocks differ so much that later writes would lose against earlier ones.
fn check_clock(seed: SocketAddr, wall_there: i64, ahead: ClockOffset, limit: Duration) -> Result<(), StartError> {
    if !ahead.exceeds(limit) {
        return Ok(());
    }
    let shown = |micros: i64| model::text::instant::format(micros / 1000);
    let (theirs, own) = (shown(wall_there), shown(wall_there.saturating_sub(ahead.micros)));
    let (differ, limit) = (ahead.micros.unsigned_abs() / 1000, limit.as_millis());
    Err(StartError::Failed(format!(
        "The clock of /{seed} says {theirs} where the clock of this node says {own}: they differ by {differ} ms, and \
         at most {limit} ms (clock_skew_max) are allowed. Set the clocks right and start the node again."
    )))
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
    let config = shard.config();
    let factor = config.allocate_for_factor.filter(|_| config.initial_tokens.is_empty());
    let allocation = factor.map(|factor| Allocation { tokens: config.num_tokens as u16, factor });
    let member = Box::new(own_member(shard));
    let (command, allocation) = match config.replace_address {
        None => (Command::Join { host_id, member }, allocation),
        Some(ReplaceAddress { address, .. }) => {
            tracing::info!("Gathering node replacement information for /{address}");
            (Command::JoinToReplace { host_id, member, address }, None)
        }
    };
    let request = encoded(&JoinRequest { command: command.encode(), allocation });
    let deadline = runtime::now().after(JOIN_TIMEOUT);
    tracing::info!(%seed, "JOINING: waiting for the cluster to take this node in");
    loop {
        let node = stranger(shard, seed);
        let answer = shard.peers().call(&node, PeerLane::Urgent, Verb::Join, &request, deadline).await;
        match answer.ok().and_then(|answer| decoded(&answer)) {
            Some(JoinAnswer::Joined(_) | JoinAnswer::Refused(Rejected::KnownMember(_))) => break,
            Some(JoinAnswer::Refused(rejected)) => return Err(StartError::Failed(rejected.to_string())),
            Some(JoinAnswer::NotNow(reason)) if reason.starts_with("Cannot replace a live node") => {
                return Err(StartError::Failed(format!("{reason}... ")));
            }
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
    Ok(())
}

/// Ends what was begun with this node: one that joins, or that stopped before it had joined, becomes part of the ring;
/// one that stopped while it was leaving goes on with that.
async fn settle(shard: &Shard) -> Result<(), StartError> {
    check_unchanged(shard, &shard.metadata().current())?;
    match shard.member_state() {
        Some(MemberState::Joining) => shard.enter_ring_as_configured().await,
        // What had begun goes on.
        Some(MemberState::Leaving) if shard.metadata().current().operation_of(shard.host_id()).is_some() => {
            runtime::spawn_in(Class::Background, leave_further(shard.clone()));
            Ok(())
        }
        Some(MemberState::Leaving) => {
            let stays = Command::AbortLeave { host_id: shard.host_id() };
            if let Err(error) = shard.metadata().propose(&stays, runtime::now().after(CATCH_UP_TIMEOUT)).await {
                // It has its data, and serves them as before.
                tracing::warn!(?error, "the node is leaving the ring as before");
            }
            Ok(())
        }
        Some(MemberState::Normal | MemberState::Moving) | None => Ok(()),
    }
}

/// Goes on with leaving the ring after a restart, until the node has left or its leaving was undone. Who waits for
/// [`Shard::left`] then stops serving clients.
async fn leave_further(shard: Shard) {
    while shard.member_state() == Some(MemberState::Leaving) && !shard.store().is_closing() {
        match shard.decommission(true).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(?error, "the node is leaving the ring as before, trying again"),
        }
        runtime::sleep(LEAVE_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_too_much_are_both_named() {
        let (seed, limit) = (([127, 0, 0, 1], 7000).into(), Duration::from_secs(10));
        let ahead = |micros| ClockOffset { micros, error_micros: 1_000 };
        let checked = |micros| check_clock(seed, 1_795_446_000_000_000, ahead(micros), limit);
        for micros in [0, 10_001_000, -10_001_000] {
            assert!(checked(micros).is_ok(), "{micros}");
        }
        let Err(StartError::Failed(text)) = checked(-10_002_000) else { panic!("it is refused") };
        assert_eq!(
            text,
            "The clock of /127.0.0.1:7000 says 2026-11-23T15:00:00Z where the clock of this node says \
             2026-11-23T15:00:10.002Z: they differ by 10002 ms, and at most 10000 ms (clock_skew_max) are allowed. Set \
             the clocks right and start the node again."
        );
        assert!(checked(10_002_000).is_err());
    }
}
