//! Who this node is: the row of `system.local`.
//!
//! Host id (a random uuid) and tokens (random, distinct) are made once. Every start writes anew: versions, addresses,
//! ports, names, and the gossip generation (seconds since 1970, always above the one before). Changed while running:
//! `schema_version` by DDL, `truncated_at` by TRUNCATE and DROP, `bootstrapped` when the node has left its cluster.
//!
//! Invariants: host id and tokens never change; timestamps of schema changes never go back, not even across restarts:
//! every change takes one above the latest in this row and leaves its own there.

use super::Error;
use super::cells::{RowReader, RowWriter, StoredRow};
use super::rows::system_table;
use crate::config::Config;
use cluster::topology::{Node, features};
use engine::store::Truncation;
use model::{Mutation, MutationBuilder, Partitioner, RingToken, Schema, ShardMap, TableId};
use std::collections::BTreeSet;
use std::net::IpAddr;
use uuid::Uuid;

/// `release_version`: the version of Cassandra that this node imitates.
pub(crate) const RELEASE_VERSION: &str = "5.0.9";
/// `cql_version`.
pub(crate) const CQL_VERSION: &str = "3.4.7";
/// `native_protocol_version`.
pub(crate) const NATIVE_PROTOCOL_VERSION: &str = "5";
/// The only partition of `system.local`.
pub(crate) const LOCAL_KEY: &str = "local";
/// What `bootstrapped` says while the node may be a member of a cluster, and once it has left.
const COMPLETED: &str = "COMPLETED";
const DECOMMISSIONED: &str = "DECOMMISSIONED";
/// Length of a truncation record that Cassandra wrote: segment i64, position i32, milliseconds i64. It concerns
/// Cassandra's own commit log, which must be empty before a node starts here; no record of this program has this
/// length.
const CASSANDRA_TRUNCATION_BYTES: usize = 20;
/// Largest `num_tokens`.
pub(crate) const TOKENS_MAX: usize = 1536;

/// The host id, tokens and generation that other nodes and drivers know this node by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// Random, made at the first start.
    pub(crate) host_id: Uuid,
    /// In ascending order, at least one.
    pub(crate) tokens: Vec<RingToken>,
    /// The `gossip_generation` of this start, seconds since 1970.
    pub(crate) generation: i32,
}

/// What `system.local` held when the node started.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Stored {
    /// Host id, tokens and the last generation; `None` at the first start.
    pub(crate) identity: Option<Identity>,
    pub(crate) schema_version: Option<Uuid>,
    /// The latest timestamp in the row, microseconds; 0 at the first start.
    pub(crate) last_timestamp: i64,
    /// The recorded truncations of tables.
    pub(crate) truncations: Vec<(TableId, Truncation)>,
    /// Whether the node has left its cluster.
    pub(crate) has_left: bool,
}

impl Stored {
    /// Reads the row of this node; `rows` are all rows of the table.
    pub(crate) fn load(schema: &Schema, rows: &[StoredRow]) -> Result<Stored, Error> {
        let table = system_table(schema, "system", "local");
        let Some(row) = rows.iter().find(|row| row.key == LOCAL_KEY.as_bytes()) else {
            return Ok(Stored::default());
        };
        let last_timestamp = row.cells.iter().map(|cell| cell.timestamp).max().unwrap_or_default();
        let row = RowReader::new(table, row);
        let own = schema.partitioner.class_name();
        if let Some(stored) = row.optional_text("partitioner")?.filter(|stored| stored != own) {
            return Err(Error::OtherPartitioner { stored, own });
        }
        let schema_version = row.optional_uuid("schema_version")?;
        let has_left = row.optional_text("bootstrapped")?.is_some_and(|state| state == DECOMMISSIONED);
        let mut truncations = Vec::new();
        for (id, record) in row.elements("truncated_at") {
            let id = TableId(id.try_into().map_err(|_| row.malformed("truncated_at"))?);
            if record.len() == CASSANDRA_TRUNCATION_BYTES {
                continue;
            }
            let truncation = Truncation::decode(record).ok_or_else(|| row.malformed("truncated_at"))?;
            truncations.push((id, truncation));
        }
        let identity = match row.optional_uuid("host_id")? {
            Some(host_id) => {
                let token = |text: &[u8]| schema.partitioner.parse_token(std::str::from_utf8(text).ok()?).ok();
                let tokens: Option<BTreeSet<RingToken>> = row.elements("tokens").map(|(path, _)| token(path)).collect();
                let tokens = tokens.filter(|tokens| !tokens.is_empty()).ok_or_else(|| row.malformed("tokens"))?;
                let generation = row.int("gossip_generation")?;
                Some(Identity { host_id, tokens: tokens.into_iter().collect(), generation })
            }
            None => None,
        };
        Ok(Stored { identity, schema_version, last_timestamp, truncations, has_left })
    }
}

impl Identity {
    /// A new node's identity, with the tokens in `given`, or if that is empty those of the first node of a cluster: at
    /// equal distances if `is_spaced`, else random ones. `random` gives uniform words; `count` is `num_tokens`, 1 to
    /// [`TOKENS_MAX`].
    pub(crate) fn new(
        partitioner: Partitioner,
        count: usize,
        given: &[RingToken],
        is_spaced: bool,
        random: &mut dyn FnMut() -> u64,
    ) -> Identity {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random().to_le_bytes());
        bytes[8..].copy_from_slice(&random().to_le_bytes());
        let host_id = uuid::Builder::from_random_bytes(bytes).into_uuid();
        let count = count.clamp(1, TOKENS_MAX);
        let tokens = match given.is_empty() {
            true if is_spaced => cluster::allocation::first(partitioner, count, random),
            true => partitioner.random_tokens(count, random),
            false => given.iter().cloned().collect::<BTreeSet<RingToken>>(),
        };
        Identity { host_id, tokens: tokens.into_iter().collect(), generation: 0 }
    }

    /// This node as a member of the cluster, with `shards` cores.
    pub(crate) fn node(&self, config: &Config, shards: u16) -> Node {
        Node {
            host_id: self.host_id,
            address: config.storage_address(),
            data_center: config.data_center.clone(),
            rack: config.rack.clone(),
            shards: ShardMap::new(config.partitioner, shards),
            tokens: self.tokens.clone(),
            features: features::ALL,
        }
    }

    /// The identity after a restart: same id and tokens, a later generation.
    pub(crate) fn restarted(&self, now_in_seconds: i64) -> Identity {
        let now = i32::try_from(now_in_seconds).unwrap_or(i32::MAX);
        Identity { generation: now.max(self.generation.saturating_add(1)), ..self.clone() }
    }
}

/// The bytes of an address in the CQL type inet.
pub(crate) fn inet(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The mutation that every start writes: all of the row except `schema_version` and `truncated_at`. `timestamp` is in
/// microseconds.
pub(crate) fn written_at_start(schema: &Schema, config: &Config, identity: &Identity, timestamp: i64) -> Mutation {
    let table = system_table(schema, "system", "local");
    let port = |port: u16| i32::from(port).to_be_bytes();
    let mut row = RowWriter::new(table, &[], timestamp);
    row.set("bootstrapped", COMPLETED)
        .set("broadcast_address", inet(config.storage_address().ip()))
        .set("broadcast_port", port(config.storage_port))
        .set("cluster_name", config.cluster_name.as_str())
        .set("cql_version", CQL_VERSION)
        .set("data_center", config.data_center.as_str())
        .set("gossip_generation", identity.generation.to_be_bytes())
        .set("host_id", identity.host_id.into_bytes())
        .set("listen_address", inet(config.listen_address))
        .set("listen_port", port(config.storage_port))
        .set("native_protocol_version", NATIVE_PROTOCOL_VERSION)
        .set("partitioner", schema.partitioner.class_name())
        .set("rack", config.rack.as_str())
        .set("release_version", RELEASE_VERSION)
        .set("rpc_address", inet(config.native_address().ip()))
        .set("rpc_port", port(config.native_port));
    for token in &identity.tokens {
        row.element("tokens", token.to_string().as_bytes(), &[]);
    }
    local_mutation(schema.partitioner, table.id, |mutation| row.finish(mutation))
}

/// The mutation that replaces the tokens of the node.
pub(crate) fn tokens_changed(
    schema: &Schema,
    (before, after): (&[RingToken], &[RingToken]),
    timestamp: i64,
) -> Mutation {
    let table = system_table(schema, "system", "local");
    let mut row = RowWriter::new(table, &[], timestamp);
    for token in before.iter().filter(|token| !after.contains(token)) {
        row.remove_element("tokens", token.to_string().as_bytes(), timestamp.div_euclid(1_000_000));
    }
    for token in after {
        row.element("tokens", token.to_string().as_bytes(), &[]);
    }
    local_mutation(schema.partitioner, table.id, |mutation| row.finish(mutation))
}

/// The mutation that sets `schema_version`.
pub(crate) fn schema_version_changed(schema: &Schema, version: Uuid, timestamp: i64) -> Mutation {
    let table = system_table(schema, "system", "local");
    let mut row = RowWriter::new(table, &[], timestamp);
    row.set("schema_version", version.into_bytes());
    local_mutation(schema.partitioner, table.id, |mutation| row.finish(mutation))
}

/// The mutation that says that the node has left its cluster.
pub(crate) fn decommissioned(schema: &Schema, timestamp: i64) -> Mutation {
    let table = system_table(schema, "system", "local");
    let mut row = RowWriter::new(table, &[], timestamp);
    row.set("bootstrapped", DECOMMISSIONED);
    local_mutation(schema.partitioner, table.id, |mutation| row.finish(mutation))
}

/// The mutation that adds truncation records.
pub(crate) fn truncated(schema: &Schema, records: &[(TableId, Truncation)], timestamp: i64) -> Mutation {
    let table = system_table(schema, "system", "local");
    let mut row = RowWriter::new(table, &[], timestamp);
    for (id, truncation) in records {
        row.element("truncated_at", &id.0, &truncation.encode());
    }
    local_mutation(schema.partitioner, table.id, |mutation| row.finish(mutation))
}

/// The mutation that removes truncation records which nothing needs any more.
pub(crate) fn truncations_forgotten(
    schema: &Schema,
    tables: &[TableId],
    timestamp: i64,
    now_in_seconds: i64,
) -> Mutation {
    let table = system_table(schema, "system", "local");
    let mut row = RowWriter::new(table, &[], timestamp);
    for id in tables {
        row.remove_element("truncated_at", &id.0, now_in_seconds);
    }
    local_mutation(schema.partitioner, table.id, |mutation| row.finish(mutation))
}

fn local_mutation(partitioner: Partitioner, table: TableId, write: impl FnOnce(&mut MutationBuilder)) -> Mutation {
    let mut mutation = MutationBuilder::new(partitioner, LOCAL_KEY.as_bytes());
    write(mutation.table(table));
    mutation.finish()
}
