//! `describecluster`: the versions of schema and program that the nodes have, which of them live, and the keyspaces.

use super::ring;
use super::table_names::keyspaces;
use crate::admin::error::CommandError;
use crate::config::RELEASE_VERSION;
use crate::node_state::NodeState;
use cluster::metadata::{MemberState, Metadata};
use cluster::topology::Node;
use shard::AgreementStatus;
use std::collections::BTreeMap;
use std::fmt::Write;
use uuid::Uuid;

/// `describecluster`.
pub(crate) async fn describe(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let shard = &node.shard;
    let config = shard.node_config();
    let schema = shard.schema();
    let topology = shard.topology();
    let metadata = shard.cluster_metadata();
    // Asked now, because what gossip says of the schema is as old as its last round.
    let answers = shard.schema_versions().await;
    let is_up = |member: &Node| node.gossip.view(|gossiper| gossiper.is_alive(member.address));
    // A node that has left still knows the ring that it was part of.
    let members = topology.nodes().iter().filter(|member| !metadata.left.contains(&member.host_id));
    let mut members: Vec<&Node> = members.collect();
    members.sort_by_key(|member| member.address);
    let (mut schemas, mut versions): (BTreeMap<String, Vec<String>>, BTreeMap<String, Vec<String>>) =
        Default::default();
    let mut unreachable = Vec::new();
    for member in &members {
        let version = match member.host_id == shard.host_id() {
            true => Some(schema.version),
            false => answers.get(&member.host_id).copied().flatten(),
        };
        match version.filter(|_| is_up(member)) {
            Some(version) => {
                schemas.entry(version.to_string()).or_default().push(member.address.ip().to_string());
            }
            None => unreachable.push(member.address.ip().to_string()),
        }
        let release = metadata.members.get(&member.host_id).map(|known| known.release_version.clone());
        let release = release.unwrap_or_else(|| RELEASE_VERSION.into());
        versions.entry(release).or_default().push(member.address.to_string());
    }
    let _ = write!(
        out,
        "Cluster Information:\n\tName: {}\n\tSnitch: {}\n\tDynamicEndPointSnitch: {}\n\tPartitioner: {}\n\
         \tSchema versions:\n",
        config.cluster_name,
        node.config.snitch.class_name(),
        if config.dynamic_snitch.is_some() { "enabled" } else { "disabled" },
        config.partitioner.class_name(),
    );
    for (version, nodes) in &schemas {
        let _ = writeln!(out, "\t\t{version}: [{}]\n", nodes.join(", "));
    }
    if !unreachable.is_empty() {
        let _ = writeln!(out, "\t\tUNREACHABLE: [{}]\n", unreachable.join(", "));
    }
    let in_state = |state| metadata.members.values().filter(|member| member.state == state).count();
    let _ = write!(
        out,
        "Stats for all nodes:\n\tLive: {}\n\tJoining: {}\n\tMoving: {}\n\tLeaving: {}\n\tUnreachable: {}\n\n\
         Data Centers: \n",
        members.len() - unreachable.len(),
        in_state(MemberState::Joining),
        in_state(MemberState::Moving),
        in_state(MemberState::Leaving),
        unreachable.len(),
    );
    for data_center in topology.data_centers() {
        let here = || members.iter().filter(|member| member.data_center == *data_center);
        let down = here().filter(|member| !is_up(member)).count();
        let _ = writeln!(out, "\t{data_center} #Nodes: {} #Down: {down}", here().count());
    }
    out.push_str("\nDatabase versions:\n");
    for (version, nodes) in &versions {
        let _ = writeln!(out, "\t{version}: [{}]", nodes.join(", "));
    }
    out.push_str("\nKeyspaces:\n");
    for keyspace in keyspaces(&schema) {
        let (class, options) = &replication(keyspace);
        let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let _ = writeln!(out, "\t{} -> Replication class: {class} {{{}}}", keyspace.name, options.join(", "));
    }
    if let Some(note) = ring::ownership(node, &schema, None)?.note {
        let _ = writeln!(out, "\nNote: {note}");
    }
    if let Some(agreement) = shard.agreement() {
        metadata_log(&agreement, &metadata, out);
    }
    Ok(())
}

/// What Cassandra does not have: up to where the nodes agree, and who decides.
fn metadata_log(agreement: &AgreementStatus, metadata: &Metadata, out: &mut String) {
    let shown = |host_id: &Uuid| match metadata.members.get(host_id) {
        Some(member) => member.address.ip().to_string(),
        None => host_id.to_string(),
    };
    let mut voters: Vec<String> = agreement.voters.iter().map(shown).collect();
    voters.sort();
    let leader = agreement.leader.as_ref().map_or("none".into(), shown);
    let (epoch, voters) = (agreement.epoch, voters.join(", "));
    let _ = write!(out, "\nMetadata Log:\n\tEpoch: {epoch}\n\tLeader: {leader}\n\tVoters: [{voters}]\n");
    if let Some(failure) = &agreement.failure {
        let _ = writeln!(out, "\tThis node takes no part any more: {failure}");
    }
}

/// The replication of a keyspace: its class without the package, and its options.
pub(crate) fn replication(keyspace: &model::Keyspace) -> (String, Vec<(String, String)>) {
    let class = keyspace.replication.class.rsplit('.').next().unwrap_or_default();
    let options = keyspace.replication.options.iter().map(|(name, value)| (name.clone(), value.clone()));
    (class.to_owned(), options.collect())
}
