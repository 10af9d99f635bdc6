//! Requests of other nodes, and the functions that serve them.

use crate::ports::Unreadable;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use uuid::Uuid;

/// Answers a request of the node `from`.
pub(crate) async fn serve(_shard: &Shard, _from: Uuid, verb: u8, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
    match Verb::of(verb) {
        Some(Verb::Echo) if body.is_empty() => Ok(Vec::new()),
        _ => Err(Unreadable),
    }
}
