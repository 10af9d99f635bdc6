//! Requests of other nodes, and the functions that serve them.

use crate::metadata;
use crate::ports::Unreadable;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use runtime::ShardId;
use uuid::Uuid;

/// Answers a request of the node `from`.
pub(crate) async fn serve(shard: &Shard, _from: Uuid, verb: u8, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let verb = Verb::of(verb);
    // The metadata are on shard 0, and so are the connections over which other nodes ask for them.
    if let Some(verb) = verb
        && shard.id() == ShardId(0)
        && let Some(answer) = metadata::peers::serve(shard, verb, body).await
    {
        return answer;
    }
    match verb {
        Some(Verb::Echo) if body.is_empty() => Ok(Vec::new()),
        _ => Err(Unreadable),
    }
}
