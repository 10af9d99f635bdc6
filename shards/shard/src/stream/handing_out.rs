//! Handing out what one node has of a table to the nodes that should have it: after an import of SSTables that belong
//! to the whole ring.
//!
//! 1. The node asks every other replica of the keyspace to fetch its ranges from it, and asks again until that is done:
//!    the body of the verb `FetchTable` is an [`Ask`] in postcard's encoding, the answer a [`FetchState`].
//! 2. Whoever is asked carries out a plan of streaming in a task of its own ([`serve`]).
//!
//! Invariants: it is done only if all replicas were alive and the ring stayed as it was; done again, it fetches no
//! more than what has changed.

use super::{StreamOperation, StreamPart, StreamPlan, StreamSummary};
use crate::peer::control::{decoded, encoded};
use crate::ports::{PeerFailure, PeerLane, Unreadable};
use crate::schema::random_uuid;
use crate::shard_state::Shard;
use crate::shard_state::table_fetches::FetchState;
use crate::verbs::Verb;
use cluster::topology::{Node, features};
use model::{Failure, Table, TableId, TokenRange};
use runtime::sync::join_all;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// How long an answer that the fetch is under way may take.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// How long another node may take to answer, or to begin.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// How often in a row a node may give no answer.
const SILENCES_MAX: u32 = 4;

/// What another node is asked to fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Ask {
    plan: Uuid,
    table: [u8; 16],
    /// The host id of the node that has the data.
    source: Uuid,
}

impl Shard {
    /// Has every other replica of a table fetch from this node what it should have of it, and returns what was
    /// fetched. To be called on shard 0.
    ///
    /// # Errors
    /// A replica is down or failed, or data moves; the text is for the operator.
    pub async fn hand_out(&self, table: &Table) -> Result<StreamSummary, Failure> {
        let epoch = self.epoch();
        let receivers = receivers(self, table)?;
        let ask = Ask { plan: random_uuid(), table: table.id.0, source: self.host_id() };
        let mut sum = StreamSummary::default();
        for fetched in join_all(receivers.iter().map(|node| Box::pin(fetched_by(self, node, ask))).collect()).await {
            let fetched = fetched?;
            sum.files += fetched.files;
            sum.bytes += fetched.bytes;
        }
        match self.epoch() == epoch {
            true => Ok(sum),
            false => Err(Failure::server("the ring has changed meanwhile")),
        }
    }
}

/// The other replicas of a table.
///
/// # Errors
/// One of them is down, or runs a version that cannot fetch, or ranges of the keyspace move.
fn receivers(shard: &Shard, table: &Table) -> Result<Vec<Node>, Failure> {
    let placement = shard.placement();
    let topology = placement.topology();
    let placed = placement.table(table.id).map(|placed| placed.keyspace());
    let placed = placed.ok_or_else(|| Failure::server(format!("{} was dropped", table.full_name())))?;
    if !placed.gains().is_empty() {
        return Err(Failure::server(format!("nodes gain ranges of {}", table.full_name())));
    }
    let mut replicas: Vec<_> = placed.ranges(&TokenRange::FULL).flat_map(|range| range.nodes.to_vec()).collect();
    replicas.sort_unstable();
    replicas.dedup();
    replicas.retain(|replica| *replica != topology.here());
    if let Some(down) = replicas.iter().find(|replica| !topology.live().contains(**replica)) {
        return Err(Failure::server(format!("the replica /{} is down", topology.node(*down).address)));
    }
    if !topology.all_have(features::CLUSTER_SNAPSHOTS) {
        return Err(Failure::server("A node of the cluster runs a version that cannot fetch restored tables"));
    }
    Ok(replicas.into_iter().map(|replica| topology.node(replica).clone()).collect())
}

/// Has one node fetch, and waits for it.
async fn fetched_by(shard: &Shard, node: &Node, ask: Ask) -> Result<StreamSummary, Failure> {
    let failed = |text: String| Failure::server(format!("/{}: {text}", node.address));
    let (body, mut silences) = (encoded(&ask), 0);
    loop {
        let deadline = runtime::now().after(ANSWER_TIMEOUT);
        let answer = shard.peers().call(node, PeerLane::Bulk, Verb::FetchTable, &body, deadline).await;
        match answer.map(|answer| decoded::<FetchState>(&answer)) {
            Ok(Some(FetchState::UnderWay)) => silences = 0,
            Ok(Some(FetchState::Done { files, bytes })) => return Ok(StreamSummary { files, bytes }),
            Ok(Some(FetchState::Failed(text))) => return Err(failed(text)),
            Ok(None) | Err(PeerFailure::Refused) => return Err(failed("it cannot serve the request".into())),
            Err(_) => {
                silences += 1;
                if silences >= SILENCES_MAX {
                    return Err(failed("it does not answer".into()));
                }
                runtime::sleep(Duration::from_secs(1)).await;
            }
        }
        if shard.is_draining() {
            return Err(Failure::overloaded("The node is stopping"));
        }
    }
}

/// Serves a request of another node on shard 0: begins to fetch unless that is under way or has ended.
pub(crate) async fn serve(shard: &Shard, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let ask = decoded::<Ask>(body).ok_or(Unreadable)?;
    let fetches = shard.table_fetches();
    if fetches.state(ask.plan).is_none() {
        if let Err(failure) = fetches.begin(ask.plan) {
            return Ok(encoded(&FetchState::Failed(failure.text.to_string())));
        }
        let shard = shard.clone();
        runtime::spawn(async move {
            let ended = match fetch(&shard, ask).await {
                Ok(StreamSummary { files, bytes }) => FetchState::Done { files, bytes },
                Err(text) => FetchState::Failed(text),
            };
            shard.table_fetches().end(ask.plan, ended);
        });
    }
    let state = fetches.ended(ask.plan, ANSWER_WAIT).await;
    Ok(encoded(&state.unwrap_or(FetchState::UnderWay)))
}

/// Fetches what this node should have.
async fn fetch(shard: &Shard, ask: Ask) -> Result<StreamSummary, String> {
    let _pass = shard.enter().map_err(|failure| failure.text.to_string())?;
    let table = shard.schema().table_by_id(TableId(ask.table)).cloned().ok_or("it does not know the table")?;
    let ranges = shard.owned_ranges(table.id).ok_or("it gains ranges of the table")?;
    let part = StreamPart {
        source: ask.source,
        keyspace: table.keyspace.clone(),
        tables: Some(vec![table.id]),
        ranges: ranges.to_vec(),
    };
    let plan = StreamPlan { id: ask.plan, operation: StreamOperation::Restore, parts: vec![part] };
    let summary = super::fetch(shard, plan).await.map_err(|error| error.to_string())?;
    super::forget(shard, ask.plan).await.map_err(|error| error.to_string())?;
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_requests_and_answers_stay() {
        let ask = Ask { plan: Uuid::from_u128(1), table: [7; 16], source: Uuid::from_u128(2) };
        let mut expected = vec![16];
        expected.extend_from_slice(&[0; 15]);
        expected.push(1);
        expected.extend_from_slice(&[7; 16]);
        expected.push(16);
        expected.extend_from_slice(&[0; 15]);
        expected.push(2);
        assert_eq!(encoded(&ask), expected);
        assert_eq!(decoded(&expected), Some(ask));
        assert!((0..expected.len()).all(|len| decoded::<Ask>(&expected[..len]).is_none()));
        assert_eq!(encoded(&FetchState::UnderWay), [0]);
        assert_eq!(encoded(&FetchState::Done { files: 1, bytes: 300 }), [1, 1, 0xac, 2]);
        assert_eq!(encoded(&FetchState::Failed("x".into())), [2, 1, b'x']);
    }
}
