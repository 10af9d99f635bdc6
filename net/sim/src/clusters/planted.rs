//! Bugs of a node that a run has on purpose, so that tests see that a judge finds each of them.
//!
//! No bug is in the code of a node: it is made of what surrounds the node. Its disks lose what was durable, its clock
//! stands still, it is configured not to do something, or clients ask for less than what the judges take them to get.

use clap::ValueEnum;

/// A bug that a run has from its beginning or from some moment on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Planted {
    /// Changes of the schema: crashes take the end of the commit log.
    ForgetfulDisks,
    /// Changes of the schema: a node that has crashed is never started again, nor removed from the ring.
    LostNode,
    /// Changes of the schema: a node is cut off, and stays so.
    LastingCut,
    /// Replicated tables: coordinators answer as if they had counted an acknowledgement twice. Clients ask for ONE
    /// where the judges take them to ask for QUORUM.
    CountedTwice,
    /// Replicated tables: replicas acknowledge before their log is durable. Every fault is a crash of two nodes that
    /// takes the end of their commit logs.
    AcksBeforeLog,
    /// Conditional changes of replicated tables: acceptors forget what they promised and accepted, as in
    /// `AcksBeforeLog`.
    ForgetfulAcceptors,
    /// Replicated tables: reads write nothing to replicas that lack what they show.
    NoReadRepair,
    /// Replicated tables: what a replica misses is not kept for it.
    NoHints,
    /// Replicated tables: hints are delivered though what they need to be harmless is forgotten, because the clock of
    /// the node that keeps them stands still.
    LateHints,
    /// Replicated tables: batches that are taken to be logged are not. Every fault is a crash of a node
    /// that has been cut off for a moment.
    NoBatchLog,
    /// One node is slow: nodes wait for longer than the judge takes them to.
    PatientNodes,
    /// One node is slow: the replicas that are asked first stay so, however slow they are.
    SlowReplicas,
}

impl Planted {
    /// Whether it is planted in runs of replicated tables, not in runs that change the schema.
    pub fn is_replicated(self) -> bool {
        !matches!(self, Planted::ForgetfulDisks | Planted::LostNode | Planted::LastingCut) && !self.is_of_slow_node()
    }

    /// Whether it is planted in runs of which one node is slow.
    pub fn is_of_slow_node(self) -> bool {
        matches!(self, Planted::PatientNodes | Planted::SlowReplicas)
    }

    /// Whether crashes take the end of the commit log.
    pub(super) fn forgets(self) -> bool {
        matches!(self, Planted::ForgetfulDisks | Planted::AcksBeforeLog | Planted::ForgetfulAcceptors)
    }

    /// Whether every fault is a crash, because the bug shows in crashes alone.
    pub(super) fn crashes_only(self) -> bool {
        matches!(self, Planted::AcksBeforeLog | Planted::ForgetfulAcceptors | Planted::NoBatchLog)
    }
}
