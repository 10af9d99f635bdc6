//! `gossip_info`: what this node would tell other nodes about itself; there are none.
//!
//! The versions of the states follow the order in which a starting Cassandra node announces them; the heartbeat goes up
//! every second.

use super::VirtualRows;
use super::contents::{host_name, int, text};
use crate::schema::local::{RELEASE_VERSION, inet};
use crate::shard_state::Shard;
use engine::{TableStatistics, Version};
use model::{Failure, RingToken};

/// The version of messages between nodes that Cassandra 5.0 speaks.
const NET_VERSION: &str = "13";

/// Adds the row of this node.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let config = shard.config();
    let schema = shard.schema();
    let mut load = TableStatistics::default();
    for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual()) {
        for table in keyspace.tables.values() {
            load.add(&shard.statistics(table.id).await?);
        }
    }
    let identity = shard.identity();
    let address = config.listen_address.to_string();
    let first = identity.tokens.first().map_or(String::new(), RingToken::to_string);
    let status = text(&format!("NORMAL,{first}"));
    let versions = match config.sstables.version {
        Version::Da => "bti-da",
        Version::Nb => "big-nb",
        _ => "big-oa",
    };
    let heartbeat = runtime::wall_micros().div_euclid(1_000_000) - i64::from(identity.generation);
    rows.push([
        ("address", Some(inet(config.listen_address))),
        ("port", int(i32::from(config.storage_port))),
        ("dc", text(&config.data_center)),
        ("dc_version", int(8)),
        ("generation", int(identity.generation)),
        ("heartbeat", int(i32::try_from(heartbeat.max(0)).unwrap_or(i32::MAX))),
        ("host_id", text(&identity.host_id.to_string())),
        ("host_id_version", int(2)),
        ("hostname", text(host_name(&address))),
        ("load", text(&format!("{:?}", load.disk_bytes as f64))),
        ("load_version", int(31)),
        ("native_address_and_port", text(&format!("{}:{}", config.rpc_address, config.native_port))),
        ("native_address_and_port_version", int(3)),
        ("net_version", text(NET_VERSION)),
        ("net_version_version", int(1)),
        ("rack", text(&config.rack)),
        ("rack_version", int(10)),
        ("release_version", text(RELEASE_VERSION)),
        ("release_version_version", int(5)),
        ("rpc_address", text(&config.rpc_address.to_string())),
        ("rpc_address_version", int(4)),
        ("rpc_ready", text("true")),
        ("rpc_ready_version", int(30)),
        ("schema", text(&schema.version.to_string())),
        ("schema_version", int(22)),
        ("sstable_versions", text(versions)),
        ("sstable_versions_version", int(6)),
        ("status", status.clone()),
        ("status_version", int(28)),
        ("status_with_port", status),
        ("status_with_port_version", int(27)),
        ("tokens_version", int(26)),
    ]);
    Ok(())
}
