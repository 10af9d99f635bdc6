//! This node as a member of the cluster: opening the log at a start, the first member of a new cluster, and what a
//! start tells the others.

use super::log_store::TableLog;
use super::machine::{Machine, place};
use super::owed_truncations;
use super::peers::PeerTransport;
use super::snapshot;
use super::stored_metadata::{self, Found};
use crate::messages::admin::Members;
use crate::operations::ring_changes::{changes_of, nodes_here};
use crate::schema;
use crate::schema::local::{Identity, RELEASE_VERSION};
use crate::shard_state::{ProposalError, Shard};
use crate::start_error::StartError;
use cluster::metadata::{Command, Member, MemberState, Metadata};
use cluster::topology::{NodeIndex, features};
use consensus::{Config, Group, Timings};
use engine::Store;
use model::Schema;
use runtime::Class;
use std::time::Duration;

/// The oldest and the newest version of messages between nodes that this program speaks.
const MESSAGES: (u16, u16) = (1, 1);
/// How long the first entries of a cluster may take, which only this node's disk decides on.
const CREATION_TIMEOUT: Duration = Duration::from_secs(60);

/// The nodes that data were placed on when this node ran last, for the time until the log is open; `None` if it belongs
/// to no cluster.
pub(crate) async fn stored_members(
    store: &Store,
    schema: &Schema,
    identity: &Identity,
) -> Result<Option<Members>, StartError> {
    let Some(Found { metadata, .. }) = stored_metadata::read(store, schema).await? else { return Ok(None) };
    let nodes = nodes_here(&metadata, identity.host_id, schema.partitioner);
    let here = nodes.iter().position(|node| node.host_id == identity.host_id);
    Ok(here.map(|here| Members {
        epoch: metadata.members_epoch,
        nodes,
        here: NodeIndex(here as u16),
        changes: changes_of(&metadata, schema.partitioner),
    }))
}

/// This node as it describes itself to the others.
pub(super) fn own_member(shard: &Shard) -> Member {
    let (config, node) = (shard.config(), shard.identity().node(shard.config(), runtime::shard_count() as u16));
    Member {
        state: MemberState::Normal,
        address: node.address,
        native_address: config.native_address(),
        data_center: node.data_center,
        rack: node.rack,
        tokens: node.tokens.iter().map(|token| token.to_string()).collect(),
        shards: node.shards.shards,
        ignore_msb: node.shards.ignore_msb,
        release_version: RELEASE_VERSION.into(),
        messages: MESSAGES,
        features: node.features,
    }
}

/// Stores, before a node has an identity, that it has to join a cluster: it may crash before it has, and data of a node
/// that belongs to no cluster are otherwise from before there were clusters. A node without other seeds need not join.
pub(crate) async fn note_joining(store: &Store, schema: &Schema, config: &crate::Config) -> Result<(), StartError> {
    let own = config.storage_address();
    if config.seeds.iter().any(|seed| *seed != own) {
        let none = Metadata::default();
        let stored = stored_metadata::written(schema, &none, &none, runtime::wall_micros());
        store.apply(stored, true).await.map_err(failed)?;
        store.sync().await.map_err(failed)?;
    }
    Ok(())
}

/// Opens the log on shard 0, at the end of a start. A node that has no seeds to ask, or that has data of its own from
/// before there were clusters, becomes a cluster of one; any other one that belongs to none has to join
/// ([`Shard::join_cluster`]).
pub(crate) async fn open(shard: &Shard) -> Result<(), StartError> {
    let stored = stored_metadata::read(shard.store(), &shard.schema()).await?;
    let must_join = stored.is_some() && !shard.other_seeds().is_empty();
    if let Some(Found { metadata, in_rows }) = stored {
        check_unchanged(shard, &metadata)?;
        if !in_rows {
            let all =
                stored_metadata::written(&shard.schema(), &Metadata::default(), &metadata, shard.clock().timestamp());
            shard.store().apply(all, true).await.map_err(failed)?;
            shard.store().sync().await.map_err(failed)?;
        }
        place(shard, &metadata).await.map_err(failed)?;
        owed_truncations::announce(shard, &Metadata::default(), &metadata).await.map_err(failed)?;
        shard.metadata().advance(metadata);
    }
    let config = Config { me: shard.host_id(), timings: Timings::default() };
    let (log, transport) = (TableLog::new(shard.clone()), PeerTransport::new(shard.clone()));
    let group = Group::start(config, log, transport, Machine::new(shard.clone())).await.map_err(failed)?;
    shard.metadata().open(&group);
    let metadata = shard.metadata().current();
    if metadata.cluster_id.is_nil() {
        if !must_join {
            create(shard).await?;
        }
    } else if metadata.members.len() == 1 {
        announce_restart(shard).await.map_err(|error| StartError::Failed(format!("{error:?}")))?;
    }
    runtime::spawn_in(Class::Background, super::group_members::keep(shard.clone(), group));
    runtime::spawn_in(Class::Background, owed_truncations::keep_told(shard.clone()));
    runtime::spawn_in(Class::Background, super::joining::keep_telling(shard.clone()));
    runtime::spawn_in(Class::Background, super::receiving::keep(shard.clone()));
    runtime::spawn_in(Class::Background, super::settling::keep(shard.clone()));
    runtime::spawn_in(Class::Background, super::tablet_balance::keep(shard.clone()));
    runtime::spawn_in(Class::Background, super::tablet_cleaning::keep(shard.clone()));
    runtime::spawn_in(Class::Background, super::sub_partition_growth::keep(shard.clone()));
    runtime::spawn_in(Class::Background, super::key_growth::keep(shard.clone()));
    if shard.config().auto_cleanup {
        runtime::spawn_in(Class::Background, super::stale_data::keep_clean(shard.clone()));
    }
    Ok(())
}

/// Makes this node the first member of a new cluster, with the keyspaces that it has.
pub(super) async fn create(shard: &Shard) -> Result<(), StartError> {
    let Some(group) = shard.metadata().group() else { return Ok(()) };
    group.create().await.map_err(failed)?;
    let (schema, schema_timestamp) = (shard.schema(), shard.clock().timestamp());
    let command = Command::Create {
        cluster_id: crate::schema::random_uuid(),
        cluster_name: shard.config().cluster_name.clone(),
        partitioner: shard.config().partitioner.simple_name().into(),
        schema_version: schema.version,
        schema_timestamp,
        keyspaces: snapshot::compressed_keyspaces(&schema, schema_timestamp),
        host_id: shard.host_id(),
        member: Box::new(own_member(shard)),
    };
    let deadline = runtime::now().after(CREATION_TIMEOUT);
    match shard.metadata().propose(&command, deadline).await {
        Ok(_) | Err(ProposalError::Rejected(_)) => Ok(()),
        Err(ProposalError::NotMade(text) | ProposalError::Unknown(text)) => Err(StartError::Failed(text)),
    }
}

/// Refuses what must not change from one start to the next, with Cassandra's texts.
pub(super) fn check_unchanged(shard: &Shard, metadata: &Metadata) -> Result<(), StartError> {
    let config = shard.config();
    let refuse = |text: String| Err(StartError::Failed(text));
    if metadata.left.contains(&shard.host_id()) {
        return Err(schema::Error::Decommissioned.into());
    }
    let Some(member) = metadata.members.get(&shard.host_id()) else { return Ok(()) };
    if metadata.cluster_name != config.cluster_name {
        let (saved, configured) = (&metadata.cluster_name, &config.cluster_name);
        return refuse(format!("Saved cluster name {saved} != configured name {configured}"));
    }
    // A node that is replacing another one has no tokens of its own yet.
    if config.num_tokens != member.tokens.len() && !member.tokens.is_empty() {
        let (before, now) = (member.tokens.len(), config.num_tokens);
        return refuse(format!("Cannot change the number of tokens from {before} to {now}"));
    }
    for (what, flag, ignored, now, before) in [
        ("data center", "ignore_dc", config.ignore_dc, &config.data_center, &member.data_center),
        ("rack", "ignore_rack", config.ignore_rack, &config.rack, &member.rack),
    ] {
        if now != before && !ignored {
            return refuse(format!(
                "Cannot start node if snitch's {what} ({now}) differs from previous {what} ({before}). Please fix the \
                 snitch configuration, decommission and rebootstrap this node or use the flag \
                 -Dcassandra.{flag}=true."
            ));
        }
    }
    Ok(())
}

/// Tells the others what has changed about this node since they last heard of it, if anything has.
pub(super) async fn announce_restart(shard: &Shard) -> Result<(), ProposalError> {
    announce_relocation(shard).await?;
    let Some(now) = changed_member(shard, &shard.metadata().current()) else { return Ok(()) };
    let restart = Command::Restart { host_id: shard.host_id(), member: Box::new(now) };
    shard.metadata().propose(&restart, runtime::now().after(CREATION_TIMEOUT)).await.map(|_| ())
}

/// This node, if it is a member and not as the metadata have it.
pub(super) fn changed_member(shard: &Shard, metadata: &Metadata) -> Option<Member> {
    let known = metadata.members.get(&shard.host_id())?;
    let Member { state, tokens, data_center, rack, .. } = Member::clone(known);
    let now = Member { state, tokens, data_center, rack, ..own_member(shard) };
    (**known != now).then_some(now)
}

pub(super) fn failed(error: impl std::fmt::Display) -> StartError {
    StartError::Failed(format!("the cluster's metadata: {error}"))
}

/// Tells the others that this node is in another data centre or rack than before, which [`check_unchanged`] has let
/// pass.
async fn announce_relocation(shard: &Shard) -> Result<(), ProposalError> {
    let (metadata, host_id, config) = (shard.metadata().current(), shard.host_id(), shard.config());
    let Some(known) = metadata.members.get(&host_id) else { return Ok(()) };
    if (&known.data_center, &known.rack) == (&config.data_center, &config.rack) {
        return Ok(());
    }
    let others = metadata.members.iter().filter(|(id, _)| **id != host_id);
    if others.into_iter().any(|(_, member)| member.features & features::RELOCATIONS == 0) {
        let text = "not all nodes have a version that knows of nodes in other data centres than before";
        return Err(ProposalError::NotMade(text.into()));
    }
    tracing::warn!(
        data_center = %config.data_center,
        rack = %config.rack,
        "this node is in another place than before ({}, {}): run repair, because no data is moved",
        known.data_center,
        known.rack
    );
    let (data_center, rack) = (config.data_center.clone(), config.rack.clone());
    let relocate = Command::Relocate { host_id, data_center, rack };
    shard.metadata().propose(&relocate, runtime::now().after(CREATION_TIMEOUT)).await.map(|_| ())
}
