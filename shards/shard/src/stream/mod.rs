//! Streaming: SSTables, or ranges of them, from other nodes.
//!
//! [`fetch`] is what operations on the ring call. The receiver leads: it asks for what it lacks and may ask again.

#![allow(dead_code, unused_imports, reason = "operations on the ring are to use it")]

mod plan;

pub(crate) use plan::{StreamError, StreamOperation, StreamPart, StreamPlan, StreamSummary};

use crate::shard_state::Shard;

/// Fetches what a plan names. To be called on shard 0. Returns when all of it is durable, and readers of this node see
/// it. May be run again at any time, with the same id: then what came before is not fetched again as far as it is known
/// to be complete. Tables that are dropped meanwhile are left out.
///
/// # Errors
/// See [`StreamError`]. A node that does not answer is asked again for a while before.
pub(crate) async fn fetch(shard: &Shard, plan: StreamPlan) -> Result<StreamSummary, StreamError> {
    let topology = shard.topology();
    for part in &plan.parts {
        if !topology.nodes().iter().any(|node| node.host_id == part.source) {
            return Err(StreamError::UnknownSource(part.source));
        }
        return Err(StreamError::Unsupported(part.source));
    }
    Ok(StreamSummary::default())
}
