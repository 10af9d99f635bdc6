//! How a node ends, and why.

use shard::StartError;

/// How a node ended: the process's exit code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Exit {
    /// It was told to stop and stopped in order.
    Stopped = 0,
    /// A wrong option, a busy port or directory, or a disk that failed during the start.
    Misconfigured = 1,
    /// Data on disk cannot be trusted.
    Corrupt = 3,
    /// The disk failed while the node served, and its failure policy is `die`. The code is Cassandra's.
    DiskFailed = 100,
}

/// Why a node cannot go on, and the exit code that follows.
#[derive(Debug)]
pub struct StopReason {
    /// The reason, for the log.
    pub text: String,
    /// How the process ends.
    pub exit: Exit,
}

impl From<StartError> for StopReason {
    fn from(error: StartError) -> StopReason {
        match error {
            StartError::Corrupt(text) => StopReason { text, exit: Exit::Corrupt },
            StartError::Failed(text) => StopReason { text, exit: Exit::Misconfigured },
            other => StopReason { text: format!("{other:?}"), exit: Exit::Misconfigured },
        }
    }
}
