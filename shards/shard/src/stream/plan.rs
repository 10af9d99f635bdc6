//! What is streamed: the plan of an operation, its result, and why it fails.

use model::{Failure, TableId, TokenRange};
use std::fmt;
use uuid::Uuid;

/// Data to be fetched from other nodes on behalf of one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPlan {
    /// The operation's id. What a plan with this id has fetched before a crash, and not yet taken in, is used again.
    pub id: Uuid,
    /// What the data is fetched for.
    pub operation: StreamOperation,
    /// What is fetched, and from where.
    pub parts: Vec<StreamPart>,
}

/// Ranges of a keyspace that one node has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPart {
    /// The host id of the node that is asked.
    pub source: Uuid,
    /// The keyspace.
    pub keyspace: String,
    /// Which of its tables; `None` for all that it has when the plan begins. Indexes are built here.
    pub tables: Option<Vec<TableId>>,
    /// The ranges of the ring. They may meet and overlap.
    pub ranges: Vec<TokenRange>,
}

/// What data is streamed for. The texts are Cassandra's, but for the last three, which it does not have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum StreamOperation {
    /// A node joins.
    Bootstrap = 1,
    /// A node leaves.
    Unbootstrap = 2,
    /// A node that is gone is removed.
    RestoreReplicaCount = 3,
    /// A node takes another token.
    Relocation = 4,
    /// A node fetches what it should have.
    Rebuild = 5,
    /// Replicas are made equal.
    Repair = 6,
    /// The replication of a keyspace changes.
    Replicate = 7,
    /// A node takes the place of one that is gone.
    Replace = 8,
    /// A node fetches what another one has read from a snapshot.
    Restore = 9,
}

impl StreamOperation {
    /// All of them, by number.
    pub const ALL: [StreamOperation; 9] = [
        StreamOperation::Bootstrap,
        StreamOperation::Unbootstrap,
        StreamOperation::RestoreReplicaCount,
        StreamOperation::Relocation,
        StreamOperation::Rebuild,
        StreamOperation::Repair,
        StreamOperation::Replicate,
        StreamOperation::Replace,
        StreamOperation::Restore,
    ];

    /// The text for operators.
    pub fn text(self) -> &'static str {
        match self {
            StreamOperation::Bootstrap => "Bootstrap",
            StreamOperation::Unbootstrap => "Unbootstrap",
            StreamOperation::RestoreReplicaCount => "Restore replica count",
            StreamOperation::Relocation => "Relocation",
            StreamOperation::Rebuild => "Rebuild",
            StreamOperation::Repair => "Repair",
            StreamOperation::Replicate => "Replicate",
            StreamOperation::Replace => "Replace",
            StreamOperation::Restore => "Restore",
        }
    }

    /// The operation with a number.
    pub fn of(number: u8) -> Option<StreamOperation> {
        StreamOperation::ALL.into_iter().find(|operation| *operation as u8 == number)
    }
}

/// What a plan has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamSummary {
    /// Files that were received, and those of an earlier run of the plan that were used again.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
}

/// Why a plan was not carried out. What was taken in until then stays; running the plan again does the rest.
#[derive(Clone, PartialEq, Debug)]
pub enum StreamError {
    /// No other node of the cluster has this host id.
    UnknownSource(Uuid),
    /// The node's version of this program does not stream.
    Unsupported(Uuid),
    /// The node did not answer, or its answers made no sense, again and again.
    Unreachable(Uuid, String),
    /// The disks of this node have less room than the data needs, with a margin.
    DiskFull {
        /// Bytes that are to come.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// Something failed on this node, or it is stopping.
    Failed(Failure),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::UnknownSource(host_id) => write!(f, "no node has the host id {host_id}"),
            StreamError::Unsupported(host_id) => write!(f, "the version of node {host_id} cannot stream"),
            StreamError::Unreachable(host_id, text) => write!(f, "streaming from {host_id} failed: {text}"),
            StreamError::DiskFull { needed, available } => {
                write!(f, "Not enough space: {needed} bytes are to come, and {available} are free")
            }
            StreamError::Failed(failure) => write!(f, "{failure}"),
        }
    }
}

impl From<Failure> for StreamError {
    fn from(failure: Failure) -> StreamError {
        StreamError::Failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_operations_are_one_to_one() {
        for number in 0..=u8::MAX {
            let found = StreamOperation::of(number);
            assert_eq!(found.is_some(), (1..=9).contains(&number), "{number}");
            assert!(found.is_none_or(|operation| operation as u8 == number));
        }
    }
}
