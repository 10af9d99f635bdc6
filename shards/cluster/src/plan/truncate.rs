//! TRUNCATE: every node takes part, whatever the level and the replication of the table.
//!
//! Those that are down owe the truncation, which the cluster has to agree on: nodes that are known to be down before
//! the others truncate, and those that turn out to be down when they are asked. If not all nodes of the cluster can owe
//! one, all must be alive, as in Cassandra.

use super::tally::reason_of;
use crate::topology::{LiveNodes, NodeIndex, Topology, features};
use model::failure::{FailureReason, Outcome};
use model::{ErrorCode, Failure};
use std::fmt::Write;

/// The truncation of one table on all nodes.
#[derive(Debug)]
pub struct TruncatePlan {
    /// The nodes that have not answered.
    open: Vec<NodeIndex>,
    /// The nodes that are down.
    absent: Vec<NodeIndex>,
    can_owe: bool,
    done: usize,
    failures: Vec<(NodeIndex, FailureReason)>,
    may_be_applied: bool,
}

impl TruncatePlan {
    /// A truncation on all nodes of `topology`.
    ///
    /// # Errors
    /// Truncate error if one is not alive and cannot owe the truncation.
    pub fn new(topology: &Topology, live: &LiveNodes) -> Result<TruncatePlan, Failure> {
        let all = (0..topology.nodes().len() as u16).map(NodeIndex);
        let (open, absent): (Vec<_>, Vec<_>) = all.partition(|node| live.contains(*node));
        let can_owe = topology.nodes().len() > 1 && topology.all_have(features::OWED_TRUNCATIONS);
        if !absent.is_empty() && !can_owe {
            return Err(TruncatePlan::refused());
        }
        Ok(TruncatePlan { open, absent, can_owe, done: 0, failures: Vec::new(), may_be_applied: false })
    }

    /// The failure of a truncation that some nodes would owe, if the cluster does not agree on that.
    pub fn refused() -> Failure {
        failure("Cannot achieve consistency level ALL")
    }

    /// The nodes to ask.
    pub fn targets(&self) -> &[NodeIndex] {
        &self.open
    }

    /// Takes the nodes that are known to be down, since this was asked last. They owe the truncation.
    pub fn take_absent(&mut self) -> Vec<NodeIndex> {
        std::mem::take(&mut self.absent)
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
        let reason = reason_of(&failure);
        if self.can_owe && reason == FailureReason::NodeDown {
            self.absent.push(node);
            return self.result(topology);
        }
        self.may_be_applied |= failure.outcome == Outcome::Unknown;
        self.failures.push((node, reason));
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
