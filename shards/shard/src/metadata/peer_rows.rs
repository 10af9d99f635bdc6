//! `system.peers` and `system.peers_v2`: a row for every other node of the ring, kept equal to the metadata.
//!
//! A node that joins has no row before it owns ranges, and one that has left has none any more, as in Cassandra. The
//! version of the schema is the cluster's: what is answered is served by every node that is up.

use super::stored_metadata::is_same;
use crate::schema::cells::RowWriter;
use crate::schema::local::inet;
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use cluster::metadata::{Member, MemberState, Metadata};
use model::row::Deletion;
use model::{Failure, Mutation, MutationBuilder, Schema};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use uuid::Uuid;

/// The changes of both tables on the node `own` when the metadata become `after`. `timestamp` is in microseconds.
pub(super) fn changes(
    schema: &Schema,
    own: Uuid,
    (before, after): (&Metadata, &Metadata),
    timestamp: i64,
) -> Vec<Mutation> {
    let version_is_new = before.schema_version != after.schema_version;
    let mut mutations = Vec::new();
    for (id, member) in before.members.iter().filter(|(id, member)| **id != own && has_row(member)) {
        let address = member.address.ip();
        let stays = row_of(after, *id).is_some_and(|after| after.address == member.address);
        if !stays {
            mutations.push(gone(schema, address, timestamp - 1));
        }
    }
    for (id, member) in after.members.iter().filter(|(id, member)| **id != own && has_row(member)) {
        if row_of(before, *id).is_none_or(|before| !is_same(before, member)) {
            mutations.push(written(schema, *id, member, after.schema_version, timestamp));
        } else if version_is_new {
            mutations.push(version_written(schema, member, after.schema_version, timestamp));
        }
    }
    mutations
}

fn row_of(metadata: &Metadata, host_id: Uuid) -> Option<&Arc<Member>> {
    metadata.members.get(&host_id).filter(|member| has_row(member))
}

fn has_row(member: &Member) -> bool {
    member.state != MemberState::Joining
}

fn written(schema: &Schema, host_id: Uuid, member: &Member, schema_version: Uuid, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, &inet(member.address.ip()));
    let port = |port: u16| i32::from(port).to_be_bytes();
    let native = inet(member.native_address.ip());
    for name in ["peers", "peers_v2"] {
        let table = system_table(schema, "system", name);
        let (storage_port, clustering);
        let is_second = name == "peers_v2";
        if is_second {
            storage_port = port(member.address.port());
            clustering = vec![&storage_port[..]];
        } else {
            clustering = Vec::new();
        }
        let mut row = RowWriter::new(table, &clustering, timestamp);
        row.set("data_center", member.data_center.as_str())
            .set("host_id", host_id.into_bytes())
            .set("rack", member.rack.as_str())
            .set("release_version", member.release_version.as_str())
            .set("schema_version", schema_version.into_bytes());
        if is_second {
            row.set("native_address", native.clone()).set("native_port", port(member.native_address.port()));
        } else {
            row.set("rpc_address", native.clone());
        }
        for token in &member.tokens {
            row.element("tokens", token.as_bytes(), &[]);
        }
        row.finish(mutation.table(table.id));
    }
    mutation.finish()
}

/// The version of the schema alone, in rows that are there.
fn version_written(schema: &Schema, member: &Member, schema_version: Uuid, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, &inet(member.address.ip()));
    let port = i32::from(member.address.port()).to_be_bytes();
    for (name, clustering) in [("peers", &[][..]), ("peers_v2", &[&port[..]])] {
        let table = system_table(schema, "system", name);
        let mut row = RowWriter::new(table, clustering, timestamp);
        row.set("schema_version", schema_version.into_bytes()).finish(mutation.table(table.id));
    }
    mutation.finish()
}

impl Shard {
    /// Notes in both tables at which address the node that is known by `node` is reached. To be called on shard 0.
    ///
    /// # Errors
    /// The rows cannot be written.
    pub async fn note_preferred_address(&self, node: SocketAddr, preferred: SocketAddr) -> Result<(), Failure> {
        let written = preferred_written(&self.schema(), node, preferred, self.clock().timestamp());
        self.store().apply(written, true).await.map_err(|error| Failure::server(error.to_string()))
    }
}

fn preferred_written(schema: &Schema, node: SocketAddr, preferred: SocketAddr, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, &inet(node.ip()));
    let port = |port: u16| i32::from(port).to_be_bytes();
    let table = system_table(schema, "system", "peers");
    let mut row = RowWriter::new(table, &[], timestamp);
    row.set("preferred_ip", inet(preferred.ip())).finish(mutation.table(table.id));
    let table = system_table(schema, "system", "peers_v2");
    let mut row = RowWriter::new(table, &[&port(node.port())], timestamp);
    row.set("preferred_ip", inet(preferred.ip())).set("preferred_port", port(preferred.port()));
    row.finish(mutation.table(table.id));
    mutation.finish()
}

fn gone(schema: &Schema, address: IpAddr, timestamp: i64) -> Mutation {
    let mut mutation = MutationBuilder::new(schema.partitioner, &inet(address));
    let deletion = Deletion { timestamp, local_deletion_time: timestamp.div_euclid(1_000_000) };
    for name in ["peers", "peers_v2"] {
        mutation.table(system_table(schema, "system", name).id).delete_partition(deletion);
    }
    mutation.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::system_schema;
    use model::Partitioner;

    fn member(n: u8, state: MemberState) -> Member {
        Member {
            state,
            address: SocketAddr::from(([127, 0, 0, n], 7000)),
            native_address: SocketAddr::from(([127, 0, 0, n], 9042)),
            data_center: "dc".into(),
            rack: "r".into(),
            tokens: vec!["1".into()],
            shards: 1,
            ignore_msb: 12,
            release_version: "5.0.9".into(),
            messages: (1, 1),
            features: 0,
        }
    }

    fn metadata(members: &[(u8, MemberState)]) -> Metadata {
        let members = members.iter().map(|(n, state)| (Uuid::from_u128(u128::from(*n)), Arc::new(member(*n, *state))));
        Metadata { members: members.collect(), ..Metadata::default() }
    }

    /// The last bytes of the addresses whose rows change.
    fn changed(before: &Metadata, after: &Metadata) -> Vec<u8> {
        let schema = system_schema(Partitioner::Murmur3);
        let changes = changes(&schema, Uuid::from_u128(1), (before, after), 5_000_000);
        changes.iter().filter_map(|mutation| mutation.key().last().copied()).collect()
    }

    #[test]
    fn other_nodes_of_the_ring_have_rows() {
        use MemberState::{Joining, Leaving, Normal};
        let alone = metadata(&[(1, Normal)]);
        assert_eq!(changed(&Metadata::default(), &alone), [0; 0], "not this node");
        let joining = metadata(&[(1, Normal), (2, Joining)]);
        assert_eq!(changed(&alone, &joining), [0; 0], "not yet");
        let both = metadata(&[(1, Normal), (2, Normal)]);
        assert_eq!(changed(&joining, &both), [2]);
        assert_eq!(changed(&both, &both), [0; 0]);
        assert_eq!(changed(&both, &metadata(&[(1, Normal), (2, Leaving)])), [2]);
        assert_eq!(changed(&both, &alone), [2], "it has left");
        let mut altered = both.clone();
        altered.schema_version = Uuid::from_u128(9);
        assert_eq!(changed(&both, &altered), [2], "the version of the schema");
        let schema = system_schema(Partitioner::Murmur3);
        let lengths = [(&alone, &both), (&both, &altered)].map(|pair| {
            let changes = changes(&schema, Uuid::from_u128(1), pair, 5_000_000);
            changes.iter().map(|mutation| mutation.bytes().len()).sum::<usize>()
        });
        assert!(lengths[1] * 2 < lengths[0], "nothing but the version is written: {lengths:?}");
        let mut moved = both.clone();
        moved.members.insert(Uuid::from_u128(2), Arc::new(member(7, Normal)));
        assert_eq!(changed(&both, &moved), [2, 7], "the old row goes, a new one comes");
        let mut other_port = member(2, Normal);
        other_port.address.set_port(7001);
        moved.members.insert(Uuid::from_u128(2), Arc::new(other_port));
        assert_eq!(changed(&both, &moved), [2, 2], "the port is part of a row's key in peers_v2");
    }
}
