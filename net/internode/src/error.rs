//! How calls fail.

use crate::identity::Refusal;
use num_enum::FromPrimitive;
use std::fmt;

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// Not sent: there is no connection, and none could be made just now.
    Unreachable,
    /// Not sent: one of the nodes refuses the other.
    Refused(Refusal),
    /// Not sent: too many bytes or calls wait.
    Overloaded,
    /// Not sent: the body is longer than `internode_max_message_size`.
    TooLong,
    /// No answer before the deadline; the message may have been served.
    Expired,
    /// The connection broke; the message may have been served.
    Disconnected,
    /// The other node says that there is no answer.
    Failed(FailureReason),
}

impl CallError {
    /// Whether the message has certainly not been served and will not be.
    pub fn is_definite(&self) -> bool {
        match self {
            CallError::Unreachable | CallError::Refused(_) | CallError::Overloaded | CallError::TooLong => true,
            CallError::Failed(reason) => matches!(reason, FailureReason::Expired | FailureReason::NotUnderstood),
            CallError::Expired | CallError::Disconnected => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Unreachable => f.write_str("the node cannot be reached"),
            CallError::Refused(refusal) => write!(f, "refused: {refusal}"),
            CallError::Overloaded => f.write_str("too much waits to be sent to the node"),
            CallError::TooLong => f.write_str("the message is longer than internode_max_message_size"),
            CallError::Expired => f.write_str("no answer in time"),
            CallError::Disconnected => f.write_str("the connection broke"),
            CallError::Failed(reason) => write!(f, "the node gave no answer: {reason:?}"),
        }
    }
}

/// Why a node gives no answer, by the numbers in failure frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromPrimitive)]
#[repr(u8)]
pub enum FailureReason {
    /// The handler dropped the message, or something that a newer version calls by another name.
    #[num_enum(default)]
    Unanswered = 0,
    /// It had expired before it was served.
    Expired = 1,
    /// The answer is longer than `internode_max_message_size`.
    ReplyTooLong = 2,
    /// Too many bytes of answers wait.
    Overloaded = 3,
    /// The verb or the body means nothing to the other node.
    NotUnderstood = 4,
}
