//! The counts and the verdict of a run with replicated tables.

use crate::seeds::SeedReport;

/// What happened in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplicatedReport {
    /// The seed.
    pub seed: u64,
    /// The nodes.
    pub nodes: u64,
    /// Statements answered.
    pub answered: u64,
    /// Reads checked.
    pub reads_checked: u64,
    /// Conditional changes and SERIAL reads answered.
    pub decisions: u64,
    /// Logged batches sent by the client that sends nothing else.
    pub batches: u64,
    /// Keys that all replicas acknowledged as deleted.
    pub deletions: u64,
    /// Whether the replicas were compared before any read could make them equal: 1 or 0.
    pub converged: u64,
    /// Crashes of nodes.
    pub crashes: u64,
    /// Nodes that joined while clients sent requests.
    pub joins: u64,
    /// Nodes that left.
    pub leaves: u64,
    /// Nodes that died and were replaced.
    pub replaced: u64,
    /// Changes of the number of replicas.
    pub replicated: u64,
    /// Splits, merges and moves of tablets that an operator has begun.
    pub tablet_changes: u64,
    /// The most tablets that there were after a round, of all tables.
    pub tablets: u64,
    /// Files of SSTables that were damaged.
    pub damaged: u64,
    /// Repairs that were begun while clients sent requests.
    pub repairs: u64,
    /// Those of them that succeeded.
    pub repaired: u64,
    /// Cuts and disturbances of the network, slow disks, pauses of processes.
    pub faults: u64,
    /// The faults in their order, each with when it began, virtual milliseconds.
    pub struck: Vec<String>,
    /// Simulator events.
    pub events: u64,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// The first broken rule, if any.
    pub violation: Option<String>,
}

impl SeedReport for ReplicatedReport {
    fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    fn add(&mut self, other: &ReplicatedReport) {
        for (sum, count) in [
            (&mut self.nodes, other.nodes),
            (&mut self.answered, other.answered),
            (&mut self.reads_checked, other.reads_checked),
            (&mut self.decisions, other.decisions),
            (&mut self.batches, other.batches),
            (&mut self.deletions, other.deletions),
            (&mut self.converged, other.converged),
            (&mut self.crashes, other.crashes),
            (&mut self.joins, other.joins),
            (&mut self.leaves, other.leaves),
            (&mut self.replaced, other.replaced),
            (&mut self.replicated, other.replicated),
            (&mut self.tablet_changes, other.tablet_changes),
            (&mut self.damaged, other.damaged),
            (&mut self.repairs, other.repairs),
            (&mut self.repaired, other.repaired),
            (&mut self.faults, other.faults),
            (&mut self.events, other.events),
        ] {
            *sum += count;
        }
        self.tablets = self.tablets.max(other.tablets);
    }

    fn totals(&self) -> String {
        let ReplicatedReport { nodes, answered, reads_checked, decisions, batches, deletions, .. } = self;
        let ReplicatedReport { converged, crashes, faults, events, .. } = self;
        let ReplicatedReport { joins, leaves, replaced, replicated, damaged, repairs, repaired, .. } = self;
        let ReplicatedReport { tablet_changes, tablets, .. } = self;
        format!(
            "{nodes} nodes in all; {answered} statements, {reads_checked} reads checked, {decisions} decisions, {batches} \
             batches, {deletions} deletions; {joins} joins, {leaves} leaves, {replaced} nodes replaced, {replicated} \
             changes of replication, {tablet_changes} of tablets, of which there were {tablets} at most; {repairs} repairs, {repaired} to their end; {damaged} damaged files; {crashes} crashes, \
             {faults} other faults; {converged} runs with equal \
             replicas before any repair; {events} events"
        )
    }
}
