//! What the node does when its disk fails: `disk_failure_policy`, `commit_failure_policy`.

use super::{ConfigError, Given, error};

/// `disk_failure_policy`: what the node does when reading or writing the files of tables fails while it serves. During
/// the start every such failure ends the process, except that it goes on without SSTables that cannot be opened if
/// other nodes have their rows, unless the policy is `die` or `stop_paranoid`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DiskFailurePolicy {
    /// The process ends, even if only one SSTable is damaged.
    Die,
    /// The node stops serving clients, even if only one SSTable is damaged; nodetool is still answered.
    StopParanoid,
    /// The node stops serving clients; nodetool is still answered. A damaged SSTable only fails the reads that need it.
    #[default]
    Stop,
    /// Behaves as [`DiskFailurePolicy::Stop`]: Cassandra would go on with its other data directories, but a core here
    /// writes to one only.
    BestEffort,
    /// The requests that meet the failure fail.
    Ignore,
}

/// `commit_failure_policy`: what the node does when the commit log fails. The log takes no more writes in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CommitFailurePolicy {
    /// The process ends.
    Die,
    /// The node stops serving clients; nodetool is still answered.
    #[default]
    Stop,
    /// Writes fail, reads are answered.
    StopCommit,
    /// Behaves as [`CommitFailurePolicy::StopCommit`].
    Ignore,
}

impl DiskFailurePolicy {
    /// Whether a node starts without SSTables that cannot be opened, if others have their rows. Cassandra does not with
    /// `stop` either, because what is in them would be missing unnoticed; here reads of it fail until it was fetched.
    pub(super) fn opens_without_damaged(self) -> bool {
        !matches!(self, DiskFailurePolicy::Die | DiskFailurePolicy::StopParanoid)
    }

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            DiskFailurePolicy::Die => "die",
            DiskFailurePolicy::StopParanoid => "stop_paranoid",
            DiskFailurePolicy::Stop => "stop",
            DiskFailurePolicy::BestEffort => "best_effort",
            DiskFailurePolicy::Ignore => "ignore",
        }
    }
}

impl CommitFailurePolicy {
    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            CommitFailurePolicy::Die => "die",
            CommitFailurePolicy::Stop => "stop",
            CommitFailurePolicy::StopCommit => "stop_commit",
            CommitFailurePolicy::Ignore => "ignore",
        }
    }
}

impl Given {
    pub(super) fn disk_failure_policy(&self) -> Result<DiskFailurePolicy, ConfigError> {
        use DiskFailurePolicy::*;
        let Some(name) = self.text("disk_failure_policy")? else { return Ok(DiskFailurePolicy::default()) };
        let known = [Die, StopParanoid, Stop, BestEffort, Ignore].into_iter().find(|policy| policy.name() == name);
        known.map_or_else(
            || {
                error(format!(
                    "disk_failure_policy: {name} is not one of die, stop_paranoid, stop, best_effort, ignore"
                ))
            },
            Ok,
        )
    }

    pub(super) fn commit_failure_policy(&self) -> Result<CommitFailurePolicy, ConfigError> {
        use CommitFailurePolicy::*;
        let Some(name) = self.text("commit_failure_policy")? else { return Ok(CommitFailurePolicy::default()) };
        let known = [Die, Stop, StopCommit, Ignore].into_iter().find(|policy| policy.name() == name);
        known.map_or_else(
            || error(format!("commit_failure_policy: {name} is not one of die, stop, stop_commit, ignore")),
            Ok,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn policies_by_name() {
        let read = |file: &str| Config::read(file, &[]).map_err(|error| error.0);
        let default = read("").expect("reads");
        assert_eq!(default.disk_failure_policy, DiskFailurePolicy::Stop);
        assert_eq!(default.commit_failure_policy, CommitFailurePolicy::Stop);
        let given = read("disk_failure_policy: stop_paranoid\ncommit_failure_policy: stop_commit").expect("reads");
        assert_eq!(given.disk_failure_policy, DiskFailurePolicy::StopParanoid);
        assert_eq!(given.commit_failure_policy, CommitFailurePolicy::StopCommit);
        let given = read("disk_failure_policy: best_effort").expect("reads");
        assert_eq!(given.disk_failure_policy, DiskFailurePolicy::BestEffort);
        for wrong in ["disk_failure_policy: no", "commit_failure_policy: best_effort"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
