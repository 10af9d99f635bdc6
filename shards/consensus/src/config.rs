//! What a member is told when it starts.

use std::time::Duration;
use uuid::Uuid;

/// Who a member is, and its timings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The member's host id.
    pub me: Uuid,
    /// The same on all members.
    pub timings: Timings,
}

/// How long members wait for each other, and how long the log grows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timings {
    /// How often a leader sends something to every member, and how long it waits for an answer: more than the round
    /// trip between any two members.
    pub heartbeat: Duration,
    /// A voter that hears nothing from a leader for a random time between these two holds an election. The shorter
    /// one must be longer than `heartbeat`.
    pub election: (Duration, Duration),
    /// After how many further records a member takes a snapshot.
    pub snapshot_after: u64,
    /// How many records before a snapshot are kept for members that are a little behind.
    pub records_kept: u64,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings {
            heartbeat: Duration::from_millis(300),
            election: (Duration::from_millis(900), Duration::from_millis(1_800)),
            snapshot_after: 2_000,
            records_kept: 500,
        }
    }
}

impl Timings {
    /// The same in openraft's form.
    pub(crate) fn openraft(&self) -> openraft::Config {
        let millis = |duration: Duration| duration.as_millis() as u64;
        openraft::Config {
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election.0),
            election_timeout_max: millis(self.election.1),
            install_snapshot_timeout: millis(SNAPSHOT_WAIT_MAX),
            snapshot_policy: openraft::SnapshotPolicy::LogsSinceLast(self.snapshot_after),
            max_in_snapshot_log_to_keep: self.records_kept,
            // A member is sent the snapshot when the records that it needs are gone.
            replication_lag_threshold: u64::MAX,
            max_payload_entries: APPEND_ENTRIES_MAX,
            // A voter that cannot win does not raise the term of the others.
            enable_pre_vote: Some(true),
            // A leader that starts again would otherwise go on in its old term, knowing fewer records to be decided
            // than it had answered: a read barrier would then be too low.
            enable_leader_restore: Some(false),
            ..openraft::Config::default()
        }
    }
}

/// How long a member may take to install a snapshot.
const SNAPSHOT_WAIT_MAX: Duration = Duration::from_secs(60);
/// How many records one message carries at most.
const APPEND_ENTRIES_MAX: u64 = 1_000;
