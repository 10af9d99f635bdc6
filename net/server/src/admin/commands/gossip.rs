//! Commands about gossip: `gossipinfo`, `failuredetector`, `statusgossip`, `disablegossip`, `enablegossip`, `getseeds`,
//! `reloadseeds`.

use crate::admin::error::CommandError;
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use cluster::gossip::{ApplicationState, EndpointState, Gossiper};
use std::fmt::Write;
use std::net::SocketAddr;

/// `gossipinfo`.
pub(crate) fn info(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    // Addresses that have no names are shown without the slash that separates a name from an address.
    let slash = if request.has("-r") { "" } else { "/" };
    node.gossip.mark_left();
    node.gossip.view(|gossiper| {
        for (address, state) in gossiper.states() {
            let _ = writeln!(out, "{slash}{}", address.ip());
            describe(state, out);
        }
    });
    out.push('\n');
    Ok(())
}

fn describe(state: &EndpointState, out: &mut String) {
    let _ = writeln!(out, "  generation:{}\n  heartbeat:{}", state.generation, state.heartbeat);
    for (number, value) in state.values().iter().filter(|(number, _)| *number != ApplicationState::TOKENS) {
        let (version, text) = (value.version, &value.value);
        let _ = match number.name() {
            Some(name) => writeln!(out, "  {name}:{version}:{text}"),
            None => writeln!(out, "  X{}:{version}:{text}", number.0),
        };
    }
    match state.get(ApplicationState::TOKENS) {
        Some(tokens) => {
            let _ = writeln!(out, "  TOKENS:{}:<hidden>", tokens.version);
        }
        None => out.push_str("  TOKENS: not present\n"),
    }
}

/// `failuredetector`.
pub(crate) fn failure_detector(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let _ = writeln!(out, "{:>10},{:>16}", "Endpoint", "Phi");
    node.gossip.view(|gossiper| {
        for (address, phi) in gossiper.phis() {
            let _ = writeln!(out, "{:>10},{phi:>16.8}", format!("/{}", address.ip()));
        }
    });
    Ok(())
}

/// `statusgossip`.
pub(crate) fn status(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    out.push_str(if node.gossip.is_running() { "running\n" } else { "not running\n" });
    Ok(())
}

/// `disablegossip`.
pub(crate) fn disable(node: &NodeState) -> Result<(), CommandError> {
    node.gossip.disable();
    Ok(())
}

/// `enablegossip`.
pub(crate) fn enable(node: &NodeState) -> Result<(), CommandError> {
    node.gossip.enable();
    Ok(())
}

/// `getseeds`; `what` begins the line.
pub(crate) fn seeds(node: &NodeState, what: &str, out: &mut String) -> Result<(), CommandError> {
    let shown = |gossiper: &Gossiper| gossiper.seeds().map(|seed: SocketAddr| format!(" /{seed}")).collect::<String>();
    let seeds = node.gossip.view(shown);
    if seeds.is_empty() {
        out.push_str("Seed node list does not contain any remote node IPs\n");
    } else {
        let _ = writeln!(out, "{what}, excluding the current node's IP:{seeds}");
    }
    Ok(())
}

/// `reloadseeds`.
pub(crate) fn reload_seeds(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    if let Err(error) = node.gossip.reload_seeds() {
        tracing::warn!("Error while getting seed node list: {error}");
        out.push_str("Failed to reload the seed node list. See log for details.\n");
        return Ok(());
    }
    seeds(node, "Updated seed node IP list", out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_shown_as_cassandra_shows_it() {
        let mut out = String::new();
        describe(&EndpointState::new(1_795_399_820, 218), &mut out);
        assert_eq!(out, "  generation:1795399820\n  heartbeat:218\n  TOKENS: not present\n");
    }
}
