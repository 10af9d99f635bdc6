//! Leaving the cluster: a node that gives up its place, and nodes that are removed by others.
//!
//! A node that leaves begins an operation; the others fetch what they gain by it ([`super::receiving`]). When they have
//! it, the node hands on its hints, gives up its vote and is removed. After a crash in between it goes on.
//!
//! Once a removal is decided, the other nodes have nothing more to do with the node that is gone, so the entry may
//! never reach it: when its links broke, they refuse new ones. That refusal is how it hears
//! ([`Shard::hears_that_it_left`]).

use super::joining::is_removed;
use super::ring_operations::TURN_TIMEOUT;
use crate::definitions;
use crate::schema::local;
use crate::shard_state::{ProposalError, Shard};
use cluster::metadata::{Command, MemberState, Metadata, OperationKind, Rejected, Stage};
use cluster::topology::NodeIndex;
use consensus::ProposeError;
use runtime::Instant;
use runtime::sync::{Either, race};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use uuid::Uuid;

/// How long the cluster may take to agree on a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a node that leaves asks the others whether it has left already.
const ASK_PERIOD: Duration = Duration::from_secs(2);
/// How often a node that leaves looks whether it still votes.
const VOTE_PERIOD: Duration = Duration::from_millis(100);
/// How long a node that leaves waits for the entry that removes it, once the others have agreed on it.
const HEAR_TIMEOUT: Duration = Duration::from_secs(2);

/// Why an operation on the ring was refused, with Cassandra's text where it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RingError {
    /// The operation does not suit the state of the cluster; nothing was changed.
    Unsupported(String),
    /// The cluster did not agree, or not in time.
    Failed(String),
}

/// What of a node is undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbortedOperation {
    /// It was leaving.
    Leave,
    /// It was moving.
    Move,
}

impl AbortedOperation {
    /// Cassandra's word for it.
    fn name(self) -> &'static str {
        match self {
            AbortedOperation::Leave => "decommission",
            AbortedOperation::Move => "move",
        }
    }
}

/// What this node knows of the agreement of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgreementStatus {
    /// The entry of the metadata log that this node has applied last.
    pub epoch: u64,
    /// The host id of the node that leads the agreement, if one is known.
    pub leader: Option<Uuid>,
    /// The host ids of the nodes that vote.
    pub voters: Vec<Uuid>,
    /// Why this node takes no part any more, if so.
    pub failure: Option<String>,
}

impl From<ProposalError> for RingError {
    fn from(error: ProposalError) -> RingError {
        match error {
            ProposalError::Rejected(rejected) => RingError::Unsupported(rejected.to_string()),
            ProposalError::NotMade(text) | ProposalError::Unknown(text) => RingError::Failed(text),
        }
    }
}

impl Shard {
    /// What this node knows of the agreement of the cluster; `None` before it has opened its log. To be asked on
    /// shard 0.
    pub fn agreement(&self) -> Option<AgreementStatus> {
        let status = self.metadata().group()?.status();
        let epoch = self.metadata().current().epoch;
        Some(AgreementStatus { epoch, leader: status.leader, voters: status.voters, failure: status.failure })
    }

    /// Where this node is on its way into or out of the ring; `None` if it is no member. To be asked on shard 0.
    pub fn member_state(&self) -> Option<MemberState> {
        self.metadata().current().members.get(&self.host_id()).map(|member| member.state)
    }

    /// Takes this node out of the ring for good. To be called on shard 0.
    ///
    /// # Errors
    /// It is no part of the ring or the only node, too few nodes would be left for a keyspace, or no other node takes
    /// its hints; `force` passes over all but the first two.
    pub async fn decommission(&self, force: bool) -> Result<(), RingError> {
        let metadata = self.metadata().current();
        let normal = metadata.members.values().filter(|member| member.state == MemberState::Normal).count();
        let state = self.member_state();
        if !matches!(state, Some(MemberState::Normal | MemberState::Leaving)) {
            return Err(RingError::Unsupported("local node is not a member of the token ring yet".into()));
        }
        if normal - usize::from(state == Some(MemberState::Normal)) == 0 {
            return Err(RingError::Unsupported(Rejected::LastMember.to_string()));
        }
        if !force {
            self.check_replication(metadata.members.len())?;
        }
        match race(self.leave(state, force), self.hears_that_it_left()).await {
            Either::Left(left) => left?,
            Either::Right(()) => self.metadata().set_removed(),
        }
        // Without it the next start hears from the others that the node has left.
        if let Err(failure) = definitions::change_local(self, local::decommissioned).await {
            tracing::warn!(%failure, "system.local does not say that the node was decommissioned");
        }
        Ok(())
    }

    async fn leave(&self, state: Option<MemberState>, force: bool) -> Result<(), RingError> {
        let host_id = self.host_id();
        let under_way = self.metadata().current().operation_of(host_id).map(|(id, _)| id);
        let id = match under_way {
            _ if state == Some(MemberState::Normal) => {
                let turn = runtime::now().after(TURN_TIMEOUT);
                Some(self.begin_operation(OperationKind::Leave { host_id }, turn).await?)
            }
            under_way => under_way,
        };
        tracing::info!("LEAVING: replaying batch log and streaming data to other nodes");
        if let Some(id) = id {
            self.operation_received(id).await;
        }
        if !has_given_up_its_ranges(&self.metadata().current(), host_id) {
            let text = match self.member_state() {
                Some(MemberState::Normal) => "the decommission was aborted",
                _ => "another operation has taken the place of this one, and the others may lack data of this node",
            };
            return Err(RingError::Failed(text.into()));
        }
        tracing::info!("LEAVING: streaming hints to other nodes");
        if let Err(failure) = self.hand_on_hints().await {
            if !force {
                return Err(RingError::Failed(failure.text.into_owned()));
            }
            tracing::warn!(%failure, "hints of this node are lost");
        }
        self.stop_voting().await?;
        let removal = Command::Remove { host_id };
        let epoch = match self.metadata().agree(&removal, runtime::now().after(STEP_TIMEOUT)).await {
            // An earlier attempt was made after all.
            Err(ProposalError::Rejected(Rejected::UnknownMember(_))) => self.metadata().current().epoch,
            agreed => agreed?,
        };
        // Others need not tell it any more.
        if runtime::timeout(HEAR_TIMEOUT, self.metadata().wait_for(epoch)).await.is_none() {
            self.metadata().set_removed();
        }
        Ok(())
    }

    /// Waits until this node, which is leaving, is no voter of the metadata log any more: a voter that went would take
    /// its vote with it, and one of two voters that is left behind could decide nothing.
    async fn stop_voting(&self) -> Result<(), RingError> {
        let Some(group) = self.metadata().group() else { return Ok(()) };
        let host_id = self.host_id();
        let deadline = runtime::now().after(STEP_TIMEOUT);
        while group.status().voters.contains(&host_id) {
            if runtime::now() >= deadline {
                return Err(RingError::Failed("no other node has taken over this node's vote on the metadata".into()));
            }
            runtime::sleep(VOTE_PERIOD).await;
        }
        Ok(())
    }

    /// Waits until another member refuses to talk to this node, because the cluster has removed it.
    async fn hears_that_it_left(&self) {
        loop {
            runtime::sleep(ASK_PERIOD).await;
            if is_removed(self).await {
                return;
            }
        }
    }

    /// Removes a node that is down. To be called on shard 0.
    ///
    /// # Errors
    /// The host id is unknown, this node's, or that of a node that is alive.
    pub async fn remove_node(&self, host_id: Uuid) -> Result<(), RingError> {
        let unsupported = |text: String| Err(RingError::Unsupported(text));
        let metadata = self.metadata().current();
        let Some(member) = metadata.members.get(&host_id) else { return unsupported("Host ID not found.".into()) };
        if host_id == self.host_id() {
            return unsupported("Cannot remove self".into());
        }
        if self.is_live(host_id) {
            return unsupported(format!(
                "Node /{} is alive and owns this ID. Use decommission command to remove it from the ring",
                member.address
            ));
        }
        if member.state == MemberState::Joining {
            return self.remove(host_id, runtime::now().after(STEP_TIMEOUT)).await;
        }
        let id = match metadata.operation_of(host_id) {
            Some((id, operation)) if matches!(operation.kind, OperationKind::Remove { .. }) => id,
            // It died after the others had fetched all that they gain by its leaving.
            Some((_, operation))
                if matches!(operation.kind, OperationKind::Leave { .. }) && operation.stage != Stage::Fetching =>
            {
                return self.remove(host_id, runtime::now().after(STEP_TIMEOUT)).await;
            }
            _ => {
                let turn = runtime::now().after(TURN_TIMEOUT);
                self.begin_operation(OperationKind::Remove { host_id }, turn).await?
            }
        };
        self.operation_received(id).await;
        Ok(())
    }

    /// Undoes what an operator has begun with a node, this one if none is given, and what has not been read from its
    /// new places yet: its leaving or its move. To be called on shard 0.
    ///
    /// # Errors
    /// No such operation is under way, it cannot be undone any more, or the cluster does not agree.
    pub async fn abort_operation(&self, node: Option<Uuid>, aborted: AbortedOperation) -> Result<(), RingError> {
        let host_id = node.unwrap_or(self.host_id());
        let metadata = self.metadata().current();
        let member = metadata.members.get(&host_id);
        let state = member.ok_or_else(|| RingError::Failed(format!("Host ID {host_id} not found.")))?.state;
        let is_it = |kind: &OperationKind| match aborted {
            AbortedOperation::Leave => matches!(kind, OperationKind::Leave { .. }),
            AbortedOperation::Move => matches!(kind, OperationKind::Move { .. }),
        };
        let (what, found) = (aborted.name(), metadata.operation_of(host_id).filter(|(_, found)| is_it(&found.kind)));
        let Some((id, operation)) = found else {
            return Err(RingError::Failed(format!(
                "Can't abort {what} for node {host_id} since the state is {}",
                format!("{state:?}").to_uppercase()
            )));
        };
        if operation.stage != Stage::Fetching {
            let text = format!("Can't abort {what} for node {host_id}: its data is read from where it has come to");
            return Err(RingError::Failed(text));
        }
        let abort = Command::Abort { operation: id };
        self.metadata().propose(&abort, runtime::now().after(STEP_TIMEOUT)).await.map(drop).map_err(RingError::from)
    }

    /// Makes the cluster forget a node that is down and has not joined yet. To be called on shard 0.
    ///
    /// # Errors
    /// It is no such node, or the cluster does not agree.
    pub async fn abort_bootstrap(&self, host_id: Uuid) -> Result<(), RingError> {
        let metadata = self.metadata().current();
        let member = metadata.members.get(&host_id);
        let state = member.ok_or_else(|| RingError::Failed(format!("Host ID {host_id} not found.")))?.state;
        if self.is_live(host_id) {
            return Err(RingError::Failed(format!("Can't abort bootstrap for {host_id} - it is alive")));
        }
        let is_switched = metadata.operation_of(host_id).is_some_and(|(_, found)| found.stage != Stage::Fetching);
        if state != MemberState::Joining || is_switched {
            return Err(RingError::Failed(format!(
                "Can't abort bootstrap for node {host_id} since the state is {}",
                format!("{state:?}").to_uppercase()
            )));
        }
        self.remove(host_id, runtime::now().after(STEP_TIMEOUT)).await
    }

    /// The host id of the member at an address.
    pub fn member_at(&self, address: IpAddr) -> Option<Uuid> {
        let metadata = self.metadata().current();
        metadata.members.iter().find(|(_, member)| member.address.ip() == address).map(|(id, _)| *id)
    }

    /// Ends the removal of nodes that are down without waiting for the data that others gain by it. Returns the host
    /// ids of these nodes. To be called on shard 0.
    ///
    /// # Errors
    /// The cluster does not agree.
    pub async fn force_removals(&self) -> Result<Vec<Uuid>, RingError> {
        let removals = self.removals();
        for host_id in &removals {
            self.remove(*host_id, runtime::now().after(STEP_TIMEOUT)).await?;
        }
        Ok(removals)
    }

    /// The host ids of the nodes that are being removed because they are down. To be called on shard 0.
    pub fn removals(&self) -> Vec<Uuid> {
        let metadata = self.metadata().current();
        let removed = |operation: &cluster::metadata::Operation| match operation.kind {
            OperationKind::Remove { host_id } => Some(host_id),
            _ => None,
        };
        metadata.operations.values().filter_map(removed).collect()
    }

    /// Removes the node at an address, whatever it does; an address that no node has is ignored. Returns the address
    /// for other nodes and the first token of the node, or of an address that no node has a random token. To be called
    /// on shard 0.
    ///
    /// # Errors
    /// It is this node, or the cluster does not agree.
    pub async fn assassinate(&self, address: IpAddr) -> Result<(SocketAddr, String), RingError> {
        let metadata = self.metadata().current();
        let found = metadata.members.iter().find(|(_, member)| member.address.ip() == address);
        let Some((host_id, member)) = found else {
            let tokens = self.partitioner().random_tokens(1, &mut runtime::rng::u64);
            let token = tokens.first().map(|token| token.to_string()).unwrap_or_default();
            return Ok((SocketAddr::new(address, self.config().storage_port), token));
        };
        if *host_id == self.host_id() {
            return Err(RingError::Unsupported("Cannot remove self".into()));
        }
        self.remove(*host_id, runtime::now().after(STEP_TIMEOUT)).await?;
        Ok((member.address, member.tokens.iter().min().cloned().unwrap_or_default()))
    }

    /// Gives the agreement of the cluster new voters, those members that are alive, when a majority of the old ones is
    /// lost for good. Changes that only the lost ones had are lost; they must never come back. To be called on
    /// shard 0 of one node.
    ///
    /// # Errors
    /// This node is no member.
    pub async fn recover_agreement(&self) -> Result<BTreeSet<Uuid>, RingError> {
        let metadata = self.metadata().current();
        let (host_id, group) = (self.host_id(), self.metadata().group());
        let Some(group) = group.filter(|_| metadata.members.contains_key(&host_id)) else {
            return Err(RingError::Unsupported("This node has not joined the cluster yet".into()));
        };
        let alive = metadata.members.keys().copied().filter(|id| *id == host_id || self.is_live(*id));
        let voters: BTreeSet<Uuid> = alive.collect();
        let recovered = group.recover(voters.clone()).await;
        recovered.map_err(|error: ProposeError| RingError::Failed(error.to_string()))?;
        Ok(voters)
    }

    async fn remove(&self, host_id: Uuid, deadline: Instant) -> Result<(), RingError> {
        match self.metadata().propose(&Command::Remove { host_id }, deadline).await {
            // An earlier attempt was made after all.
            Err(ProposalError::Rejected(Rejected::UnknownMember(_))) => Ok(()),
            result => Ok(result.map(|_| ())?),
        }
    }

    /// Whether a node is a member and believed to be alive, as this core knows.
    pub(crate) fn is_live(&self, host_id: Uuid) -> bool {
        let topology = self.topology();
        let at = topology.nodes().iter().position(|node| node.host_id == host_id);
        at.is_some_and(|at| topology.live().contains(NodeIndex(at as u16)))
    }

    /// Refuses to leave if a keyspace wants as many replicas as there are nodes.
    fn check_replication(&self, nodes: usize) -> Result<(), RingError> {
        let schema = self.schema();
        let placed = schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual() && !keyspace.is_local());
        for keyspace in placed {
            let factors = keyspace.replication.options.values().filter_map(|factor| factor.parse::<usize>().ok());
            let factor = factors.max().unwrap_or_default();
            if nodes <= factor {
                return Err(RingError::Unsupported(format!(
                    "Not enough live nodes to maintain replication factor in keyspace {} (RF = {factor}, N = {nodes}). \
                     Perform a forceful decommission to ignore.",
                    keyspace.name
                )));
            }
        }
        Ok(())
    }
}

/// Whether the others have all that a node has that is leaving. While it stood still, they may have taken it for dead
/// and begun to remove it; then they still fetch what they gain, and it must not go before.
fn has_given_up_its_ranges(metadata: &Metadata, host_id: Uuid) -> bool {
    match metadata.operation_of(host_id) {
        Some((_, operation)) => {
            matches!(operation.kind, OperationKind::Leave { .. }) && operation.stage == Stage::Settled
        }
        // One that began to leave before leaving moved data has no operation.
        None => metadata.members.get(&host_id).is_none_or(|own| own.state == MemberState::Leaving),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::metadata::{Member, Operation};
    use std::sync::Arc;

    fn metadata(state: MemberState, operation: Option<(OperationKind, Stage)>) -> Metadata {
        let member = Member {
            state,
            address: ([127, 0, 0, 1], 7000).into(),
            native_address: ([127, 0, 0, 1], 9042).into(),
            data_center: "dc".into(),
            rack: "r".into(),
            tokens: vec!["5".into()],
            shards: 1,
            ignore_msb: 12,
            release_version: "5.0.9".into(),
            messages: (1, 1),
            features: 0,
        };
        let operation =
            operation.map(|(kind, stage)| (3, Operation { kind, since: 3, receivers: BTreeSet::new(), stage }));
        Metadata {
            members: [(Uuid::from_u128(1), Arc::new(member))].into(),
            operations: operation.into_iter().collect(),
            ..Metadata::default()
        }
    }

    /// A removal by others that overtakes the leaving fetches what the node still has.
    #[test]
    fn d8_a_node_does_not_go_before_the_others_have_what_it_has() {
        let host_id = Uuid::from_u128(1);
        let may_go = |state, operation| has_given_up_its_ranges(&metadata(state, operation), host_id);
        let leaves = |stage| Some((OperationKind::Leave { host_id }, stage));
        let is_removed = |stage| Some((OperationKind::Remove { host_id }, stage));
        assert!(may_go(MemberState::Leaving, leaves(Stage::Settled)));
        for stage in [Stage::Fetching, Stage::Switched] {
            assert!(!may_go(MemberState::Leaving, leaves(stage)), "{stage:?}");
            assert!(!may_go(MemberState::Leaving, is_removed(stage)), "overtaken, {stage:?}");
        }
        assert!(!may_go(MemberState::Normal, None), "it was undone");
        assert!(may_go(MemberState::Leaving, None), "begun by an earlier version");
        assert!(has_given_up_its_ranges(&Metadata::default(), host_id), "it is gone already");
    }
}
