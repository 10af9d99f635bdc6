//! Operations that move data, as this node begins and awaits them on shard 0.
//!
//! 1. Who gains something follows from the members, the schema and the operation (`operations::ring_changes`). The
//!    proposal names these nodes, and is refused if members or schema have changed meanwhile; then it is worked out
//!    anew.
//! 2. While another operation is under way, a new one waits for its turn. The removal of a dead node does not wait for
//!    what cannot end without that node: this is undone, or ended without it.
//! 3. The nodes that gain something fetch it by themselves ([`super::receiving`]). After the last of them the leader of
//!    the group ends the operation ([`super::settling`]).

use super::leaving::RingError;
use super::settling;
use crate::operations::ring_changes::receivers;
use crate::operations::tablet_plans;
use crate::shard_state::{ProposalError, Shard};
use cluster::metadata::{Command, Metadata, OperationKind, Rejected, Stage};
use cluster::topology::features;
use runtime::Instant;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// How long the cluster may take to agree on the beginning of an operation.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an operation that an operator waits for waits for its turn.
pub(super) const TURN_TIMEOUT: Duration = Duration::from_secs(3600);
/// How often a node that waits for its turn looks again, if nothing it knows of has changed.
pub(super) const TURN_PERIOD: Duration = Duration::from_secs(1);

/// Tells the simulator how far an operation is, so that it knows what a fault meets.
pub(super) fn tell_stage(before: &Metadata, after: &Metadata) {
    for operation in after.operations.values() {
        runtime::fault::reached(match operation.stage {
            Stage::Fetching
                if before.operations.values().any(|was| was.receivers.len() > operation.receivers.len()) =>
            {
                "operation received by some"
            }
            Stage::Fetching => "operation begun",
            Stage::Switched => "operation switched",
            Stage::Settled => "operation settled",
        });
    }
    if after.operations.is_empty() && !before.operations.is_empty() {
        runtime::fault::reached("operation ended");
    }
}

impl Shard {
    /// Begins an operation, once no other one is under way. Returns its id.
    ///
    /// # Errors
    /// The cluster refuses it, does not agree, or other operations were under way until `deadline`.
    pub(crate) async fn begin_operation(&self, kind: OperationKind, deadline: Instant) -> Result<u64, RingError> {
        if !self.topology().all_have(features::OPERATIONS) {
            let text = "A node of the cluster runs a version that does not move data. Upgrade all nodes first.";
            return Err(RingError::Unsupported(text.into()));
        }
        let mut is_told = false;
        loop {
            let seen = self.metadata().current();
            let mut begun = Metadata::clone(&seen);
            let command = |receivers| Command::Begin {
                kind: kind.clone(),
                receivers,
                members_epoch: seen.members_epoch,
                schema_version: seen.schema_version,
            };
            // With a receiver, or it would be at its end at once.
            let begun_here = command(BTreeSet::from([self.host_id()]));
            let mut tried = begun.apply(seen.epoch + 1, &begun_here);
            let updates = tablet_plans::of_operation(self, &begun, &kind);
            if tried.is_ok() && !updates.is_empty() {
                begun = Metadata::clone(&seen);
                tried = begun.apply(seen.epoch + 1, &tablet_plans::joined(begun_here, updates.clone(), &seen));
            }
            let rejected = match tried {
                Ok(()) => {
                    let receivers = receivers(self, &begun, &self.schema());
                    // A removal that goes beside another one finds its receivers prepared, and may not wait for them.
                    let goes_beside = seen
                        .operations
                        .values()
                        .any(|operation| matches!(operation.kind, OperationKind::Remove { .. }));
                    if !goes_beside && !self.prepare_receivers(&receivers, deadline).await {
                        let text = "Nodes that gain data have not removed in time what they have of lost ranges.";
                        return Err(RingError::Unsupported(text.into()));
                    }
                    let proposal = command(receivers);
                    let proposal = tablet_plans::joined(proposal, updates, &seen);
                    let until = runtime::now().after(AGREEMENT_TIMEOUT);
                    match self.metadata().propose(&proposal, until).await {
                        Ok(epoch) => return Ok(epoch),
                        Err(ProposalError::Rejected(rejected)) => rejected,
                        Err(error @ ProposalError::Unknown(_)) => {
                            // What began all the same must not be left alone.
                            let changed = self.metadata().wait_for(seen.epoch + 1);
                            runtime::timeout(AGREEMENT_TIMEOUT, changed).await;
                            let now = self.metadata().current();
                            let began = now.operations.iter().find(|(_, operation)| operation.kind == kind);
                            return began.map(|(id, _)| *id).ok_or_else(|| error.into());
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(rejected) => rejected,
            };
            let is_a_matter_of_time = matches!(
                rejected,
                Rejected::OperationUnderWay(_) | Rejected::MembersMoved(_) | Rejected::SchemaMoved { .. }
            );
            if !is_a_matter_of_time || runtime::now() >= deadline {
                return Err(RingError::Unsupported(rejected.to_string()));
            }
            if let Rejected::OperationUnderWay(_) = rejected {
                if !is_told {
                    tracing::info!("{kind}, once this has ended: {rejected}");
                    is_told = true;
                }
                if let OperationKind::Remove { host_id } = kind {
                    self.make_way(&seen, host_id).await;
                }
            }
            let changed = self.metadata().wait_for(seen.epoch + 1);
            runtime::timeout(TURN_PERIOD, changed).await;
        }
    }

    /// Undoes what waits for a dead node that is to be removed, so that this one fetches its share, and ends what waits
    /// for it to hear that its data is read elsewhere. Whoever has begun what is undone hears of that, or begins anew.
    async fn make_way(&self, metadata: &Metadata, dead: Uuid) {
        for (id, operation) in &metadata.operations {
            let may_be_undone =
                !matches!(operation.kind, OperationKind::Remove { .. } | OperationKind::Replicate { .. });
            let made = match operation.stage {
                Stage::Fetching if may_be_undone && operation.receivers.contains(&dead) => {
                    tracing::warn!("{}: undone, because it waits for node {dead}, which is removed", operation.kind);
                    let until = runtime::now().after(AGREEMENT_TIMEOUT);
                    let undone = self.metadata().propose(&Command::Abort { operation: *id }, until).await;
                    undone.map(drop).map_err(|error| format!("{error:?}"))
                }
                Stage::Switched => settling::settle(self, *id, operation, Some(dead)).await,
                _ => continue,
            };
            if let Err(text) = made {
                tracing::info!("{}: {text}", operation.kind);
            }
        }
    }

    /// Waits until an operation has ended, was undone, or, if it is that of a node that leaves, nobody reads from it.
    pub(crate) async fn operation_received(&self, id: u64) {
        let is_received = |metadata: &Metadata| {
            metadata.operations.get(&id).is_none_or(|operation| operation.stage == Stage::Settled)
        };
        self.metadata().wait_until(is_received).await;
    }
}
