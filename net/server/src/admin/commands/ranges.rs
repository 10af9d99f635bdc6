//! Commands about the ranges of a keyspace: `describering` and `getendpoints`.

use super::imports::key_of;
use super::table_names::keyspaces;
use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use cluster::topology::{NodeIndex, Topology};
use model::Keyspace;
use std::fmt::Write;
use std::sync::Arc;

/// `describering`: every range of the ring with its replicas, in the order of their tokens.
pub(crate) fn describe_ring(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let Some(name) = request.arguments.first() else { return usage("Required parameters are missing: keyspace") };
    let schema = node.shard.schema();
    let _ = write!(out, "Schema Version:{}\nTokenRange: \n", schema.version);
    let failed = |text: String| Err(CommandError::Failed(text));
    let Some(keyspace) = keyspaces(&schema).find(|keyspace| keyspace.name == *name) else {
        return failed(format!("No such keyspace: {name}"));
    };
    if keyspace.is_local() {
        return failed(format!("There is no ring for the keyspace: {name}"));
    }
    let placement = node.shard.placement();
    let topology = placement.topology();
    let placed = match (request.arguments.get(1), keyspace.tablets) {
        (None, Some(_)) => return usage(format!("The tables of {name} have tablets of their own: name one")),
        (None, None) => placement.keyspace(name),
        (Some(table), _) => match keyspace.tables.get(table) {
            Some(table) => placement.table(table.id).map(|placed| placed.keyspace()),
            None => return usage(format!("Unknown table '{table}' in keyspace '{name}'")),
        },
    };
    let Some(placed) = placed else { return Ok(()) };
    let metadata = node.shard.cluster_metadata();
    for (start, end) in placed.listed() {
        let nodes = placed.nodes_of(&end);
        let clients = |at: &NodeIndex| {
            let node = topology.node(*at);
            let member = metadata.members.get(&node.host_id);
            member.map_or(node.address.ip(), |member| member.native_address.ip()).to_string()
        };
        let details = |at: &NodeIndex| {
            let node = topology.node(*at);
            let (host, data_center, rack) = (node.address.ip(), &node.data_center, &node.rack);
            format!("EndpointDetails(host:{host}, datacenter:{data_center}, rack:{rack})")
        };
        let listed = |text: &dyn Fn(&NodeIndex) -> String| nodes.iter().map(text).collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            out,
            "\tTokenRange(start_token:{start}, end_token:{end}, endpoints:[{}], rpc_endpoints:[{}], \
             endpoint_details:[{}])",
            listed(&|at| address(topology, *at)),
            listed(&clients),
            listed(&details),
        );
    }
    Ok(())
}

/// `getendpoints`: the replicas of a partition.
pub(crate) fn endpoints(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    let [keyspace, table, key] = request.arguments.as_slice() else {
        return usage("getendpoints requires keyspace, table and partition key arguments");
    };
    let schema = node.shard.schema();
    let known = |known: &&Arc<Keyspace>| known.name == *keyspace;
    let Some(known) = keyspaces(&schema).find(known) else { return usage(format!("Unknown keyspace '{keyspace}'")) };
    let Some(table) = known.tables.get(table) else {
        return usage(format!("Unknown table '{table}' in keyspace '{keyspace}'"));
    };
    let key = key_of(table, key).map_err(CommandError::Failed)?;
    let placement = node.shard.placement();
    if let Some(placed) = placement.table(table.id) {
        for at in placed.keyspace().nodes_of(&schema.partitioner.ring_token(&key)) {
            let _ = writeln!(out, "{}", address(placement.topology(), *at));
        }
    }
    Ok(())
}

fn address(topology: &Topology, at: NodeIndex) -> String {
    topology.node(at).address.ip().to_string()
}
