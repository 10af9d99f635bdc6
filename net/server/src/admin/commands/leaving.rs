//! Commands that take nodes into the ring, out of it and to another place of it: `join`, `decommission`, `removenode`,
//! `assassinate`, `move`, `rebuild`; `abortbootstrap`, `abortdecommission` and `abortmove`, which Cassandra has from
//! version 6 on; and `recoveragreement`, which Cassandra does not have.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::{LeavingState, NodeState};
use cluster::metadata::MemberState;
use shard::{AbortedOperation, RebuildRequest, RingError};
use std::net::IpAddr;
use uuid::Uuid;

/// What `recoveragreement` says of itself.
const RECOVERY_WARNING: &str = "A majority of the nodes that vote on changes of the schema and of the ring must be lost \
                                for good: changes that only they had are lost. Wipe the data directories of the lost \
                                nodes before any of them starts again, also those of nodes that are only cut off.";

/// `join`: a node that was started with `join_ring: false` becomes part of the ring.
pub(crate) async fn join(node: &NodeState) -> Result<(), CommandError> {
    match node.shard.join_ring().await.map_err(failed)? {
        true => Ok(()),
        false => usage("This node has already joined the ring."),
    }
}

/// `decommission`: the node gives up its place, and serves no more clients.
pub(crate) async fn decommission(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    if node.has_left() {
        out.push_str("Node was already decommissioned.\n");
        return Ok(());
    }
    if node.leaving.replace(LeavingState::UnderWay) == LeavingState::UnderWay {
        return usage("Unsupported operation: Node is still decommissioning.");
    }
    let done = node.shard.decommission(request.has("-f")).await;
    node.leaving.set(if done.is_ok() { LeavingState::None } else { LeavingState::Failed });
    done.map_err(|error| match error {
        RingError::Unsupported(text) => CommandError::Usage(format!("Unsupported operation: {text}")),
        RingError::Failed(text) => CommandError::Failed(text),
    })?;
    node.gossip.leave().await;
    tracing::info!("DECOMMISSIONED");
    node.drain.set();
    node.drained.wait().await;
    Ok(())
}

/// `move`: the node takes another token.
pub(crate) async fn move_to(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let Some(token) = request.arguments.first() else { return usage("Required parameters are missing: new_token") };
    node.shard.move_to(token).await.map_err(failed)
}

/// `rebuild`: the node fetches what it should have from other replicas.
pub(crate) async fn rebuild(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let keyspace = request.option("-ks").map(str::to_owned);
    if let Some(name) = &keyspace
        && node.shard.schema().keyspace(name).is_none()
    {
        return Err(CommandError::Failed(format!("Keyspace [{name}] does not exist.")));
    }
    let hosts = |text: &str| -> Result<Vec<IpAddr>, CommandError> {
        let host = |host: &str| {
            host.trim().parse().map_err(|_| CommandError::Failed(format!("{host}: Name or service not known")))
        };
        text.split(',').map(host).collect()
    };
    let asked = RebuildRequest {
        data_center: request.arguments.first().cloned(),
        keyspace,
        tokens: request.option("-ts").map(str::to_owned),
        sources: request.option("-s").map(hosts).transpose()?,
        excludes_local: request.has("--exclude-local-dc"),
    };
    if asked.keyspace.is_none() && asked.tokens.is_some() {
        return usage("Cannot specify tokens without keyspace.");
    }
    node.shard.rebuild(&asked).await.map_err(|error| match error {
        RingError::Unsupported(text) => CommandError::Usage(text),
        RingError::Failed(text) => CommandError::Failed(text),
    })
}

/// `bootstrap resume`: a node that joins goes on by itself, whatever stopped it, so there is nothing to resume.
pub(crate) fn bootstrap(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    match request.arguments.first().map(String::as_str) {
        Some("resume") if node.shard.member_state() == Some(MemberState::Joining) => Ok(()),
        Some("resume") if request.has("-f") => {
            out.push_str("Node is already bootstrapped.\n");
            Ok(())
        }
        Some("resume") => Err(CommandError::Failed("'nodetool bootstrap resume' is disabled.".into())),
        _ => usage("Required parameters are missing: resume"),
    }
}

/// `removenode`: removes a node that is down.
pub(crate) async fn remove_node(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    match request.arguments.first().map(String::as_str) {
        None => usage("Required parameters are missing: remove_operation"),
        Some("status") => {
            let removals = node.shard.removals();
            match removals.is_empty() {
                true => out.push_str("RemovalStatus: No token removals in process.\n"),
                false => removals.iter().for_each(|host_id| {
                    out.push_str(&format!(
                        "RemovalStatus: Removing {host_id}. Waiting for replicas to receive its data.\n"
                    ));
                }),
            }
            Ok(())
        }
        Some("force") => {
            if node.shard.force_removals().await.map_err(failed)?.is_empty() {
                out.push_str("RemovalStatus: No token removals in process.\n");
            }
            Ok(())
        }
        Some(text) => {
            let host_id: Uuid =
                text.parse().map_err(|_| CommandError::Usage(format!("Invalid UUID string: {text}")))?;
            node.shard.remove_node(host_id).await.map_err(failed)
        }
    }
}

/// `assassinate`: removes the node at an address, whatever it does.
pub(crate) async fn assassinate(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let Some(text) = request.arguments.first() else { return usage("Required parameters are missing: ip_address") };
    let address: IpAddr =
        text.parse().map_err(|_| CommandError::Failed(format!("{text}: Name or service not known")))?;
    node.gossip.convict(address);
    let (address, token) = node.shard.assassinate(address).await.map_err(failed)?;
    node.gossip.assassinate(address, &token);
    Ok(())
}

/// The node that a command names by `--node ID` or `--ip ADDRESS`.
fn named(node: &NodeState, request: &Request) -> Result<Option<Uuid>, CommandError> {
    if let Some(text) = request.option("--node") {
        let host_id = text.parse().map_err(|_| CommandError::Usage(format!("Invalid UUID string: {text}")))?;
        return Ok(Some(host_id));
    }
    let Some(text) = request.option("--ip") else { return Ok(None) };
    let unknown = || CommandError::Failed(format!("{text}: Name or service not known"));
    let address: IpAddr = text.parse().map_err(|_| unknown())?;
    node.shard.member_at(address).map(Some).ok_or_else(unknown)
}

/// `abortbootstrap`: the cluster forgets a node that is down and has not joined yet.
pub(crate) async fn abort_bootstrap(node: &NodeState, request: &Request) -> Result<(), CommandError> {
    let Some(host_id) = named(node, request)? else {
        return usage("Either --node or --ip needs to be set");
    };
    node.shard.abort_bootstrap(host_id).await.map_err(failed)
}

/// `abortdecommission`, `abortmove`: what a node has begun, this one if none is named, is undone.
pub(crate) async fn abort(node: &NodeState, request: &Request, aborted: AbortedOperation) -> Result<(), CommandError> {
    node.shard.abort_operation(named(node, request)?, aborted).await.map_err(failed)
}

/// `recoveragreement --force`: makes the members that are alive those that vote.
pub(crate) async fn recover(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    if !request.has("-f") {
        return usage(format!("{RECOVERY_WARNING} Say so with --force."));
    }
    let voters = node.shard.recover_agreement().await.map_err(failed)?;
    out.push_str(RECOVERY_WARNING);
    out.push_str("\nNow these nodes vote:\n");
    voters.iter().for_each(|voter| out.push_str(&format!("  {voter}\n")));
    Ok(())
}

fn failed(error: RingError) -> CommandError {
    match error {
        RingError::Unsupported(text) | RingError::Failed(text) => CommandError::Failed(text),
    }
}
