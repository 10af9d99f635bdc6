//! The steps of starting all cores of a node together, in the order in which they are sent; the module `start` runs
//! them.

use crate::messages::admin::Members;
use crate::schema::local::Identity;
use crate::schema::prepared::StoredStatement;
use engine::store::Truncation;
use model::{Schema, TableId};
use std::sync::Arc;

/// A step, sent between shard 0 and each other shard.
#[derive(Debug)]
pub(crate) enum StartStep {
    /// To shard 0: the log is open; has the highest segment counter found.
    Opened(Result<u64, StepError>),
    /// From shard 0: load this schema and replay the log.
    Load {
        /// The schema.
        schema: Arc<Schema>,
        /// Recorded truncations.
        truncations: Vec<(TableId, Truncation)>,
        /// A number above every segment counter of the node.
        counter_floor: u64,
    },
    /// To shard 0: the SSTables are open and the log is replayed; has the time that the log recorded.
    Replayed(Result<Option<i64>, StepError>),
    /// From shard 0: every shard has listed its SSTables, so new ones may be written.
    Begin,
    /// To shard 0: the store takes writes; has whether all replayed records are in SSTables.
    Begun(Result<bool, StepError>),
    /// From shard 0: the node's identity and the prepared statements.
    Ready {
        /// The node's identity.
        identity: Identity,
        /// The nodes that data were placed on when the node ran last; `None` if it belongs to no cluster yet.
        members: Option<Arc<Members>>,
        /// Prepared statements.
        statements: Arc<[StoredStatement]>,
        /// At or above the timestamps of the last change of the schema and of the writes of earlier runs, microseconds.
        timestamp: i64,
    },
    /// To shard 0: this shard is ready to serve.
    Serving,
    /// From shard 0: all shards serve; has whether all replayed records are in SSTables and no segment of an earlier
    /// run is left.
    Go(bool),
    /// From shard 0: a shard failed, so all give up.
    Abort(StepError),
}

/// Why a shard did not start, in a form that can be sent to another shard.
#[derive(Clone, Debug)]
pub(crate) struct StepError {
    /// Whether data on disk cannot be trusted.
    pub(crate) corrupt: bool,
    /// What happened.
    pub(crate) text: String,
}
