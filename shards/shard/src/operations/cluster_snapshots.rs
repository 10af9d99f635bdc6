//! Snapshots of tables on all nodes, at one point of the metadata log: the same schema and the same ring.
//!
//! 1. The node that is asked names the point at which it is itself.
//! 2. Every node takes the snapshot at that point, and changes neither schema nor ring meanwhile ([`serve`]). One that
//!    has not come so far waits; one that is beyond says so.
//! 3. Unless all have taken it, those that have remove it. If some were at another point, all begin again at a later
//!    one.
//!
//! Every write that a client was acknowledged before the snapshot was asked for is in it on as many nodes as it was
//! acknowledged by. What is written meanwhile may be in it on some of them.
//!
//! Body of the verb `ClusterSnapshot`: [`Ask`] in postcard's encoding; its answer: [`Told`].

use crate::peer::control::{decoded, encoded};
use crate::ports::{PeerFailure, PeerLane, Unreadable};
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::metadata::ClusterDescription;
use cluster::topology::{Node, NodeIndex, features};
use engine::snapshot::Snapshot;
use model::{Failure, Table, TableId};
use runtime::sync::join_all;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a node may take for its snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a node may take to come to the point that is named.
const POINT_WAIT: Duration = Duration::from_secs(10);
/// How often all begin again.
const ATTEMPTS_MAX: usize = 5;

/// Where a node is in the metadata log, as far as schema and ring are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Point {
    epoch: u64,
    members_epoch: u64,
    schema_version: Uuid,
}

/// What a node is asked to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Ask {
    /// Take a snapshot.
    Take { point: Point, tag: String, tables: Vec<[u8; 16]>, flush: bool, ttl_seconds: Option<u64> },
    /// Remove the snapshots with a tag, of these keyspaces, or of all if none is named.
    Clear { tag: String, keyspaces: Vec<String> },
}

/// What a node says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Told {
    Done,
    /// It is at another point.
    Elsewhere,
    Failed(String),
}

impl Shard {
    /// Takes a snapshot of some tables on all nodes. `flush`: include what is in memtables. `ttl`: the snapshot is
    /// removed after this time. To be called on shard 0.
    ///
    /// # Errors
    /// A node is down, or failed, or the schema or the ring change all the time; the text is for the operator.
    pub async fn take_cluster_snapshot(
        &self,
        tag: &str,
        tables: &[Arc<Table>],
        flush: bool,
        ttl: Option<Duration>,
    ) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS_MAX {
            let ask = Ask::Take {
                point: self.point(),
                tag: tag.to_owned(),
                tables: tables.iter().map(|table| table.id.0).collect(),
                flush,
                ttl_seconds: ttl.map(|ttl| ttl.as_secs()),
            };
            match self.attempt(&ask, tag, tables).await? {
                Told::Done => return Ok(()),
                Told::Elsewhere => runtime::sleep(Duration::from_millis(100)).await,
                Told::Failed(text) => return Err(Failure::server(text)),
            }
        }
        Err(Failure::server("the schema or the ring changes all the time, so there is no point for a snapshot"))
    }

    /// Removes the snapshots with a tag on all nodes, of these keyspaces, or of all if none is named. To be called on
    /// shard 0.
    ///
    /// # Errors
    /// A node is down, or failed.
    pub async fn clear_cluster_snapshots(&self, tag: &str, keyspaces: &[String]) -> Result<(), Failure> {
        let ask = Ask::Clear { tag: tag.to_owned(), keyspaces: keyspaces.to_vec() };
        for (node, told) in self.ask_all(&ask, self.all_nodes()?).await {
            if let Told::Failed(text) = told {
                return Err(Failure::server(format!("/{}: {text}", node.address)));
            }
        }
        Ok(())
    }

    /// What all nodes say together. Unless all have taken a snapshot, nobody keeps one.
    async fn attempt(&self, ask: &Ask, tag: &str, tables: &[Arc<Table>]) -> Result<Told, Failure> {
        let told = self.ask_all(ask, self.all_nodes()?).await;
        let failed = told.iter().find_map(|(node, told)| match told {
            Told::Failed(text) => Some(format!("/{}: {text}", node.address)),
            _ => None,
        });
        let attempt = match failed {
            Some(text) => Told::Failed(text),
            None if told.iter().any(|(_, told)| *told == Told::Elsewhere) => Told::Elsewhere,
            None => return Ok(Told::Done),
        };
        let keyspaces = keyspaces_of(tables);
        let taken = told.into_iter().filter(|(_, told)| *told == Told::Done).map(|(node, _)| node).collect();
        for (node, told) in self.ask_all(&Ask::Clear { tag: tag.to_owned(), keyspaces }, taken).await {
            if told != Told::Done {
                tracing::warn!("a snapshot {tag} that not all nodes have stays on /{}", node.address);
            }
        }
        Ok(attempt)
    }

    /// All nodes of the cluster, if they are alive and can take such snapshots.
    fn all_nodes(&self) -> Result<Vec<Node>, Failure> {
        let topology = self.topology();
        if !topology.all_have(features::CLUSTER_SNAPSHOTS) {
            return Err(Failure::server("A node of the cluster runs a version without snapshots of clusters"));
        }
        let mut nodes = Vec::new();
        for at in (0..topology.nodes().len() as u16).map(NodeIndex) {
            let node = topology.node(at);
            if at != topology.here() && !topology.live().contains(at) {
                return Err(Failure::server(format!("/{} is down", node.address)));
            }
            nodes.push(node.clone());
        }
        Ok(nodes)
    }

    /// Asks some nodes at once, this one among them if it is one of them.
    async fn ask_all(&self, ask: &Ask, nodes: Vec<Node>) -> Vec<(Node, Told)> {
        let body = encoded(ask);
        let deadline = runtime::now().after(SNAPSHOT_TIMEOUT);
        let asked = nodes.into_iter().map(|node| {
            let body = &body;
            async move {
                if node.host_id == self.host_id() {
                    let told = run(self, ask.clone()).await;
                    return (node, told);
                }
                let call = self.peers().call(&node, PeerLane::Bulk, Verb::ClusterSnapshot, body, deadline);
                let told = match call.await {
                    Ok(answer) => decoded(&answer).unwrap_or_else(|| Told::Failed("its answer cannot be read".into())),
                    Err(PeerFailure::NotSent | PeerFailure::Overloaded) => Told::Failed("it cannot be reached".into()),
                    Err(_) => Told::Failed("it did not answer; it may have taken its snapshot".into()),
                };
                (node, told)
            }
        });
        join_all(asked.map(Box::pin).collect()).await
    }

    /// Where this node is.
    fn point(&self) -> Point {
        let metadata = self.metadata().current();
        Point { epoch: metadata.epoch, members_epoch: metadata.members_epoch, schema_version: self.schema().version }
    }

    fn is_at(&self, point: &Point) -> bool {
        let here = self.point();
        (here.members_epoch, here.schema_version) == (point.members_epoch, point.schema_version)
    }
}

/// Serves a request of another node on shard 0.
pub(crate) async fn serve(shard: &Shard, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let ask = decoded::<Ask>(body).ok_or(Unreadable)?;
    Ok(encoded(&run(shard, ask).await))
}

async fn run(shard: &Shard, ask: Ask) -> Told {
    let done = match ask {
        Ask::Take { point, tag, tables, flush, ttl_seconds } => {
            let reached = runtime::timeout(POINT_WAIT, shard.metadata().wait_for(point.epoch)).await;
            // No change of the schema is made while this is held.
            let _turn = shard.definitions().begin().await;
            if reached.is_none() || !shard.is_at(&point) {
                return Told::Elsewhere;
            }
            let schema = shard.schema();
            let found = tables.iter().map(|id| schema.table_by_id(TableId(*id)).cloned());
            let Some(tables) = found.collect::<Option<Vec<Arc<Table>>>>() else { return Told::Elsewhere };
            let (metadata, host_id) = (shard.metadata().current(), shard.host_id());
            // The log may be further already than the schema that this node serves, which stands still now.
            let Point { epoch, schema_version, .. } = point;
            let describe = |keyspace| {
                let now = ClusterDescription::of(&metadata, host_id, keyspace);
                ClusterDescription { epoch, schema_version, ..now }
            };
            let ttl = ttl_seconds.map(Duration::from_secs);
            let taken = shard.take_described_snapshot(&tag, &tables, flush, ttl, Some(&describe)).await;
            if taken.is_ok() && !shard.is_at(&point) {
                // The ring has changed.
                let cleared = shard.clear_snapshots(|found| is_meant(found, &tag, &keyspaces_of(&tables))).await;
                return cleared.map_or_else(|failure| Told::Failed(failure.text.to_string()), |()| Told::Elsewhere);
            }
            taken
        }
        Ask::Clear { tag, keyspaces } => shard.clear_snapshots(|found| is_meant(found, &tag, &keyspaces)).await,
    };
    done.map_or_else(|failure| Told::Failed(failure.text.to_string()), |()| Told::Done)
}

fn keyspaces_of(tables: &[Arc<Table>]) -> Vec<String> {
    tables.iter().map(|table| table.keyspace.clone()).collect::<BTreeSet<String>>().into_iter().collect()
}

fn is_meant(found: &Snapshot, tag: &str, keyspaces: &[String]) -> bool {
    found.tag == tag && (keyspaces.is_empty() || keyspaces.contains(&found.keyspace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_requests_and_answers_stay() {
        let point = Point { epoch: 300, members_epoch: 2, schema_version: Uuid::from_u128(1) };
        let (tag, tables) = ("t".to_owned(), vec![[7; 16]]);
        let take = Ask::Take { point, tag, tables, flush: true, ttl_seconds: Some(60) };
        let head = [&[0, 0xac, 2, 2, 16][..], &[0; 15], &[1, 1, b't', 1]].concat();
        let expected = [&head[..], &[7; 16], &[1, 1, 60]].concat();
        assert_eq!(encoded(&take), expected);
        assert_eq!(decoded(&expected), Some(take));
        assert!((0..expected.len()).all(|len| decoded::<Ask>(&expected[..len]).is_none()));
        let clear = Ask::Clear { tag: "t".into(), keyspaces: vec!["k".into()] };
        assert_eq!(encoded(&clear), [1, 1, b't', 1, 1, b'k']);
        assert_eq!(encoded(&Told::Failed("x".into())), [2, 1, b'x']);
        assert_eq!((encoded(&Told::Done), encoded(&Told::Elsewhere)), (vec![0], vec![1]));
    }
}
