//! Why a shard did not start.

use crate::schema;

/// The reason why a shard did not start; it determines the exit code of the node.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// Data on disk cannot be trusted: exit code 3.
    Corrupt(String),
    /// Anything else: exit code 1.
    Failed(String),
}

impl From<schema::Error> for StartError {
    fn from(error: schema::Error) -> StartError {
        match error {
            schema::Error::Malformed { .. } | schema::Error::Store(engine::Error::Corrupt { .. }) => {
                StartError::Corrupt(error.to_string())
            }
            schema::Error::Store(_)
            | schema::Error::OtherPartitioner { .. }
            | schema::Error::Unsupported { .. }
            | schema::Error::Decommissioned => StartError::Failed(error.to_string()),
        }
    }
}
