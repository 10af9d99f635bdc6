//! TRUNCATE: every node must be alive and take part, whatever the level and the replication of the table.

use super::tally::reason_of;
use crate::topology::{LiveNodes, NodeIndex, Topology};
use model::failure::{FailureReason, Outcome};
use model::{ErrorCode, Failure};
use std::fmt::Write;

/// The truncation of one table on all nodes.
#[derive(Debug)]
pub struct TruncatePlan {
    /// The nodes that have not answered.
    open: Vec<NodeIndex>,
    done: usize,
    failures: Vec<(NodeIndex, FailureReason)>,
    may_be_applied: bool,
}

impl TruncatePlan {
    /// A truncation on all nodes of `topology`.
    ///
    /// # Errors
    /// Truncate error if one is not alive.
    pub fn new(topology: &Topology, live: &LiveNodes) -> Result<TruncatePlan, Failure> {
        let all = (0..topology.nodes().len() as u16).map(NodeIndex);
        if !all.clone().all(|node| live.contains(node)) {
            return Err(failure("Cannot achieve consistency level ALL"));
        }
        Ok(TruncatePlan { open: all.collect(), done: 0, failures: Vec::new(), may_be_applied: false })
    }

    /// The nodes to ask.
    pub fn targets(&self) -> &[NodeIndex] {
        &self.open
    }

    /// Takes the news that a node has truncated the table. Returns what the client is told if that was the last node.
    pub fn truncated(&mut self, node: NodeIndex, topology: &Topology) -> Option<Result<(), Failure>> {
        self.close(node)?;
        self.done += 1;
        self.result(topology)
    }

    /// Takes the news that a node has not truncated the table. Returns what the client is told if that was the last
    /// node. The failure of the only node is passed on as it is.
    pub fn failed(&mut self, node: NodeIndex, failure: Failure, topology: &Topology) -> Option<Result<(), Failure>> {
        self.close(node)?;
        if topology.nodes().len() == 1 {
            return Some(Err(failure));
        }
        self.may_be_applied |= failure.outcome == Outcome::Unknown;
        self.failures.push((node, reason_of(&failure)));
        self.result(topology)
    }

    /// Takes the end of the request's time: the failure that the client gets. Nodes may truncate the table later.
    pub fn expired(&self) -> Failure {
        failure(&format!("Truncate timed out - received only {} responses", self.done)).unknown()
    }

    /// Ends waiting for a node; `None` if it was not awaited.
    fn close(&mut self, node: NodeIndex) -> Option<()> {
        let at = self.open.iter().position(|open| *open == node)?;
        self.open.remove(at);
        Some(())
    }

    fn result(&self, topology: &Topology) -> Option<Result<(), Failure>> {
        if !self.open.is_empty() {
            return None;
        }
        if self.failures.is_empty() {
            return Some(Ok(()));
        }
        if self.failures.iter().all(|(_, reason)| *reason == FailureReason::Timeout) {
            return Some(Err(self.expired()));
        }
        let mut text = String::from("Truncate failed on ");
        for (at, (node, reason)) in self.failures.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let _ = write!(text, "{comma}replica /{} -> {}", topology.node(*node).address, reason.name());
        }
        let failure = Failure::new(ErrorCode::Truncate, text);
        Some(Err(if self.done > 0 || self.may_be_applied { failure.unknown() } else { failure }))
    }
}

/// The error of a truncation that did not happen on all nodes.
fn failure(text: &str) -> Failure {
    Failure::new(ErrorCode::Truncate, format!("Error during truncate: {text}"))
}

#[cfg(test)]
#[path = "truncate_tests.rs"]
mod tests;
