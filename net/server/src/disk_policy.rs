//! Applies the policies for failing disks, `disk_failure_policy` and `commit_failure_policy`.

use crate::config::{CommitFailurePolicy, Config, DiskFailurePolicy};
use shard::{Fault, FaultKind};

/// What the node does after a failure of its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Consequence {
    /// Only the requests that met the failure fail.
    Errors,
    /// The node stops serving clients.
    StopServing,
    /// The process ends.
    Die,
}

/// Decides what the node does after a failure, and logs the failure.
pub(crate) fn decide(config: &Config, fault: &Fault) -> Consequence {
    use DiskFailurePolicy as Disk;
    let (disk, commit) = (config.disk_failure_policy, config.commit_failure_policy);
    let consequence = match (fault.kind, disk, commit) {
        (FaultKind::Disk | FaultKind::Sstable, Disk::Die, _) => Consequence::Die,
        (FaultKind::Disk | FaultKind::Sstable, Disk::StopParanoid, _) => Consequence::StopServing,
        (FaultKind::Disk, Disk::Stop | Disk::BestEffort, _) => Consequence::StopServing,
        (FaultKind::Disk, Disk::Ignore, _) | (FaultKind::Sstable, Disk::Stop | Disk::BestEffort | Disk::Ignore, _) => {
            Consequence::Errors
        }
        (FaultKind::Log, _, CommitFailurePolicy::Die) => Consequence::Die,
        (FaultKind::Log, _, CommitFailurePolicy::Stop) => Consequence::StopServing,
        (FaultKind::Log, _, CommitFailurePolicy::StopCommit | CommitFailurePolicy::Ignore) => Consequence::Errors,
    };
    let policy = if fault.kind == FaultKind::Log { commit.name() } else { disk.name() };
    match consequence {
        Consequence::Errors => tracing::error!(policy, "{}: requests that need it fail", fault.text),
        Consequence::StopServing => tracing::error!(policy, "{}: clients are served no more", fault.text),
        Consequence::Die => tracing::error!(policy, "{}: the node ends", fault.text),
    }
    consequence
}
