//! What a snapshot of the whole cluster says of it: `cluster.json` beside the files of each table on each node.

use super::Metadata;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use uuid::Uuid;

/// The cluster at the point of its metadata log at which a snapshot was taken, as one node tells it of one table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterDescription {
    /// The name of the cluster.
    pub cluster_name: String,
    /// The simple name of its partitioner.
    pub partitioner: String,
    /// The point of the metadata log.
    pub epoch: u64,
    /// The version of the schema at that point.
    pub schema_version: Uuid,
    /// The host id of the node whose files lie beside.
    pub host_id: Uuid,
    /// The statement that makes the keyspace of the table, unless it is there.
    pub keyspace: String,
    /// All nodes of the cluster.
    pub nodes: Vec<DescribedNode>,
}

/// A node of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DescribedNode {
    /// Its host id.
    pub host_id: Uuid,
    /// Its address and port for other nodes.
    pub address: SocketAddr,
    /// Its data centre.
    pub data_center: String,
    /// Its rack.
    pub rack: String,
    /// Its tokens in their textual form.
    pub tokens: Vec<String>,
}

impl ClusterDescription {
    /// The cluster with these metadata, as the node `host_id` tells it of a table whose keyspace a statement makes.
    pub fn of(metadata: &Metadata, host_id: Uuid, keyspace: String) -> ClusterDescription {
        let nodes = metadata.members.iter().map(|(host_id, member)| DescribedNode {
            host_id: *host_id,
            address: member.address,
            data_center: member.data_center.clone(),
            rack: member.rack.clone(),
            tokens: member.tokens.clone(),
        });
        ClusterDescription {
            cluster_name: metadata.cluster_name.clone(),
            partitioner: metadata.partitioner.clone(),
            epoch: metadata.epoch,
            schema_version: metadata.schema_version,
            host_id,
            keyspace,
            nodes: nodes.collect(),
        }
    }

    /// Its JSON.
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no texts make this fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// What JSON describes; the error says what is wrong with it.
    pub fn from_json(json: &[u8]) -> Result<ClusterDescription, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{id, member};
    use super::*;

    #[test]
    fn a_description_is_read_again_and_damage_is_told() {
        let mut metadata =
            Metadata { cluster_name: "C".into(), partitioner: "P".into(), epoch: 7, ..Metadata::default() };
        let node = id(1);
        metadata.members.insert(node, member(1, &["-5", "9"]).into());
        let described = ClusterDescription::of(&metadata, node, "CREATE KEYSPACE k".into());
        assert_eq!((described.epoch, described.nodes.len()), (7, 1));
        assert_eq!(described.nodes[0].tokens, ["-5", "9"]);
        let json = described.to_json();
        assert_eq!(ClusterDescription::from_json(json.as_bytes()), Ok(described));
        for damaged in [&json.as_bytes()[..json.len() - 2], b"", b"{}", b"[1]"] {
            assert!(ClusterDescription::from_json(damaged).is_err());
        }
    }
}
