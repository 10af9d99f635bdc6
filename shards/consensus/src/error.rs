//! Why a group did not do what it was asked.

use crate::ports::StoreError;
use std::fmt;
use uuid::Uuid;

/// Why a proposal, a change of members or a read barrier was not answered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProposeError {
    /// No leader was known, or none could be reached, until the deadline. Nothing was changed.
    NoLeader,
    /// The leader could not reach a majority of the voters until the deadline. Nothing was changed.
    NoMajority,
    /// The command was sent on its way, and nobody said what became of it until the deadline: it may take effect, now
    /// or later, or never.
    Unknown,
    /// The command is longer than [`crate::COMMAND_BYTES_MAX`].
    TooLong(usize),
    /// This node is no member of the group, so that it cannot vote or be removed.
    NotAMember(Uuid),
    /// A group needs a voter.
    NoVoter,
    /// This member has stopped taking part.
    Stopped(StoreError),
}

impl fmt::Display for ProposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProposeError::NoLeader => f.write_str("the cluster's metadata log has no leader that can be reached"),
            ProposeError::NoMajority => {
                f.write_str("a majority of the voters of the cluster's metadata log cannot be reached")
            }
            ProposeError::Unknown => f.write_str("the outcome of the change of metadata is not known"),
            ProposeError::TooLong(bytes) => write!(f, "a change of metadata of {bytes} bytes"),
            ProposeError::NotAMember(node) => write!(f, "node {node} is no member of the cluster's metadata log"),
            ProposeError::NoVoter => f.write_str("the cluster's metadata log needs a voter"),
            ProposeError::Stopped(error) => write!(f, "this node's metadata log has stopped: {error}"),
        }
    }
}

impl std::error::Error for ProposeError {}
