//! Steps of starting all cores of a node together, in the order in which they are sent: see `start`.

use crate::schema::local::Identity;
use crate::schema::prepared::StoredStatement;
use engine::store::Truncation;
use model::{Schema, TableId};
use std::sync::Arc;

/// A step, sent between shard 0 and each other shard.
#[derive(Debug)]
pub(crate) enum StartStep {
    /// To shard 0: the log is open. The highest segment counter found.
    Opened(Result<u64, StepError>),
    /// From shard 0: load this schema and replay the log.
    Load {
        /// The schema.
        schema: Arc<Schema>,
        /// Recorded truncations.
        truncations: Vec<(TableId, Truncation)>,
        /// Above every segment counter of the node.
        counter_floor: u64,
    },
    /// To shard 0: the SSTables are open and the log is replayed. The time that the log recorded.
    Replayed(Result<Option<i64>, StepError>),
    /// From shard 0: every shard has looked for SSTables; new ones may be made.
    Begin,
    /// To shard 0: the store takes writes. Whether all that was replayed is in SSTables.
    Begun(Result<bool, StepError>),
    /// From shard 0: who the node is and what is prepared.
    Ready {
        /// Who the node is.
        identity: Identity,
        /// Prepared statements.
        statements: Arc<[StoredStatement]>,
        /// At or above the timestamps of the last change of the schema and of the writes of earlier runs, microseconds.
        timestamp: i64,
    },
    /// To shard 0: ready to serve.
    Serving,
    /// From shard 0: all serve. Whether what was replayed is in SSTables and no segment of an earlier run is left.
    Go(bool),
    /// From shard 0: a shard failed; all give up.
    Abort(StepError),
}

/// Why a shard did not start, in the form in which it is told to another shard.
#[derive(Clone, Debug)]
pub(crate) struct StepError {
    /// Whether data on disk cannot be trusted.
    pub(crate) corrupt: bool,
    /// What happened.
    pub(crate) text: String,
}
