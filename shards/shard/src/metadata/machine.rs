//! Applying what the cluster has agreed on: [`consensus::StateMachine`].

use super::snapshot::{self, Snapshot};
use super::{owed_truncations, peer_rows, ring_operations, stored_metadata};
use crate::definitions::step::{self, Prepared, Step};
use crate::messages::admin::RingChanges;
use crate::operations::ring_changes::{changes_of, nodes_here};
use crate::schema::local;
use crate::shard_state::Shard;
use cluster::metadata::{Command, Metadata, Rejected, SchemaUpdate, Stage};
use consensus::{StateMachine, StoreError};
use model::{Failure, RingToken};
use runtime::sync::join_all;

/// The metadata and the schema of this node.
pub(super) struct Machine {
    shard: Shard,
}

impl Machine {
    pub(super) fn new(shard: Shard) -> Machine {
        Machine { shard }
    }

    /// Makes a change of the schema on this node: as it has worked it out itself, or as its rows tell.
    async fn change_schema(&self, update: &SchemaUpdate) -> Result<(), Failure> {
        let _turn = self.shard.definitions().begin().await;
        if let Some(own) = self.shard.metadata().take_own(update.after) {
            return own.await;
        }
        self.follow(update).await
    }

    async fn follow(&self, update: &SchemaUpdate) -> Result<(), Failure> {
        let step = Step::learned(&self.shard, update)?;
        let prepared = step.prepare(&self.shard).await.unwrap_or_else(|failure| {
            tracing::error!(%failure, "a change of the schema is made without what should come before it");
            Prepared::default()
        });
        step.make(&self.shard, prepared).await
    }

    /// Makes the schema of this node that of a snapshot.
    async fn become_like(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let _turn = self.shard.definitions().begin().await;
        let changes = snapshot.changes_of(&self.shard.schema()).map_err(|error| StoreError(error.to_string()))?;
        for update in &changes {
            self.follow(update).await.map_err(failed)?;
        }
        let (version, timestamp) = (snapshot.metadata.schema_version, snapshot.metadata.schema_timestamp);
        step::adopt_version(&self.shard, version, timestamp).await.map_err(failed)
    }

    /// Stores the operations and tablets of `after` with what is current: the schema changes before the entry is stored
    /// as a whole, and a node that starts again in between must know which replicas have the data. It applies the entry
    /// again, to the same effect, because an operation that fetches gives way to the change of the same keyspace.
    async fn store_operations(&self, current: &Metadata, after: &Metadata) -> Result<(), StoreError> {
        let shard = &self.shard;
        let (operations, tablets, to_ring) = (after.operations.clone(), after.tablets.clone(), after.to_ring.clone());
        let mut stored = Metadata { operations, tablets, to_ring, ..current.clone() };
        if stored.operations != current.operations {
            stored.operations.values_mut().for_each(|operation| operation.stage = Stage::Fetching);
        }
        let row = stored_metadata::written(&shard.schema(), current, &stored, shard.clock().timestamp());
        shard.store().apply(row, true).await.map_err(|error| StoreError(error.to_string()))?;
        shard.store().sync().await.map_err(|error| StoreError(error.to_string()))
    }

    /// Stores `metadata` and makes them the current ones; places data on their members.
    async fn advance(&self, metadata: Metadata) -> Result<(), StoreError> {
        let shard = &self.shard;
        let timestamp = shard.clock().timestamp();
        let before = shard.metadata().current();
        let rows = peer_rows::changes(&shard.schema(), shard.host_id(), (&before, &metadata), timestamp);
        let written = join_all(rows.into_iter().map(|row| shard.store().apply(row, true)).collect()).await;
        written.into_iter().collect::<Result<(), _>>().map_err(|error| StoreError(error.to_string()))?;
        if let Some((known, tokens)) = new_tokens(shard, &before, &metadata) {
            let changed = local::tokens_changed(&shard.schema(), (&known, &tokens), timestamp);
            shard.store().apply(changed, true).await.map_err(|error| StoreError(error.to_string()))?;
        }
        owed_truncations::make(shard, &metadata, before.epoch).await.map_err(failed)?;
        let stored = stored_metadata::written(&shard.schema(), &before, &metadata, timestamp);
        shard.store().apply(stored, true).await.map_err(|error| StoreError(error.to_string()))?;
        shard.store().sync().await.map_err(|error| StoreError(error.to_string()))?;
        if metadata.members_epoch != before.members_epoch {
            place(shard, &metadata).await?;
        }
        owed_truncations::announce(shard, &before, &metadata).await.map_err(failed)?;
        runtime::fault::believe(metadata.cluster_id.as_u128(), metadata.epoch, || {
            runtime::hash64(&Snapshot::encode(&metadata, &shard.schema_ref()))
        });
        ring_operations::tell_stage(&before, &metadata);
        shard.metadata().advance(metadata);
        Ok(())
    }
}

/// The change of the schema of a command that also says who has the data.
fn moved_schema(command: &Command) -> Option<&SchemaUpdate> {
    match command {
        Command::Replicate { update, .. } => Some(update),
        Command::Tablets { with: Some(with), .. } => match &**with {
            Command::Schema(update) | Command::Replicate { update, .. } => Some(update),
            _ => None,
        },
        _ => None,
    }
}

/// The tokens that this node has got, if they are others than those that it had: when it joined, took the place of
/// another node, or moved.
fn new_tokens(shard: &Shard, before: &Metadata, after: &Metadata) -> Option<(Vec<RingToken>, Vec<RingToken>)> {
    let host_id = shard.host_id();
    let of = |metadata: &Metadata| metadata.members.get(&host_id).map(|member| member.tokens_in(shard.partitioner()));
    let known = of(before).filter(|tokens| !tokens.is_empty()).unwrap_or_else(|| shard.identity().tokens.clone());
    let tokens = of(after).filter(|tokens| !tokens.is_empty())?;
    (tokens != known).then_some((known, tokens))
}

/// Places data on the members, if this node is one and they are not those that it knows, as of the epoch at which they
/// changed last: that is the same on every node, however often it has started.
pub(super) async fn place(shard: &Shard, metadata: &Metadata) -> Result<(), StoreError> {
    let (nodes, topology) = (nodes_here(metadata, shard.host_id(), shard.partitioner()), shard.topology());
    let is_member = metadata.members.contains_key(&shard.host_id());
    if is_member && (metadata.members_epoch > topology.epoch() || nodes != topology.nodes()) {
        let changes = changes_of(metadata, shard.partitioner());
        shard.switch_changing_topology(nodes, changes, metadata.members_epoch).await.map_err(failed)?;
    }
    Ok(())
}

/// Keeps the replicas of keyspaces whose replication is about to change in the schema, and the pending replicas that
/// the operations under way have on this node; places new tables by their tablets and sub-partitions. `metadata` become
/// current only after the schema has changed.
async fn keep_replicas(shard: &Shard, metadata: &Metadata) -> Result<(), StoreError> {
    let topology = shard.topology();
    let is_by_ring =
        metadata.operations.is_empty() && metadata.tablets.is_empty() && metadata.sub_partitions.is_empty();
    if is_by_ring || !metadata.members.contains_key(&shard.host_id()) {
        return Ok(());
    }
    let current = shard.metadata().current();
    let (replication_before, tablets) = (metadata.replication_before(), metadata.placed_tablets());
    let sub_partitions = metadata.sub_partitions.clone();
    let changes =
        RingChanges { replication_before, tablets, sub_partitions, ..changes_of(&current, shard.partitioner()) };
    shard.switch_changing_topology(topology.nodes().to_vec(), changes, topology.epoch()).await.map_err(failed)
}

fn failed(failure: Failure) -> StoreError {
    StoreError(failure.to_string())
}

impl StateMachine for Machine {
    async fn apply(&self, index: u64, command: &[u8]) -> Result<Vec<u8>, StoreError> {
        let current = self.shard.metadata().current();
        if index <= current.epoch {
            // An earlier run has applied it, and nobody waits for the answer any more.
            return Ok(Rejected::encode_answer(&Ok(())));
        }
        let command = Command::decode(command).map_err(|error| StoreError(error.to_string()))?;
        let mut metadata = Metadata::clone(&current);
        let answer = metadata.apply(index, &command);
        match (&answer, &command) {
            (Ok(()), Command::Schema(update)) => self.change_schema(update).await.map_err(failed)?,
            (Ok(()), command) if let Some(update) = moved_schema(command) => {
                // Else requests would go to the new replicas as if these had the data already.
                keep_replicas(&self.shard, &metadata).await?;
                self.store_operations(&current, &metadata).await?;
                self.change_schema(update).await.map_err(failed)?;
            }
            (Ok(()), Command::Create { keyspaces, .. }) => {
                let schema = self.shard.schema();
                let first = snapshot::with_keyspaces(&schema, keyspaces, metadata.clone()).map_err(StoreError)?;
                self.become_like(&first).await?;
            }
            _ => {}
        }
        self.advance(metadata).await?;
        Ok(Rejected::encode_answer(&answer))
    }

    fn snapshot(&self) -> Vec<u8> {
        Snapshot::encode(&self.shard.metadata().current(), &self.shard.schema_ref())
    }

    async fn restore(&self, index: u64, snapshot: &[u8]) -> Result<(), StoreError> {
        if index <= self.shard.metadata().current().epoch {
            return Ok(());
        }
        let snapshot = Snapshot::decode(&self.shard.schema(), snapshot).map_err(StoreError)?;
        keep_replicas(&self.shard, &snapshot.metadata).await?;
        self.become_like(&snapshot).await?;
        self.advance(snapshot.metadata).await
    }
}
