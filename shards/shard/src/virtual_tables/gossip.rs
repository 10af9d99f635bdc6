//! `gossip_info`: what all nodes say about themselves, as gossip knows it on shard 0.

use super::contents::{host_name, int, text};
use super::{Named, VirtualRows};
use crate::schema::local::inet;
use crate::shard_state::Shard;
use cluster::gossip::ApplicationState;

/// The states that have columns: the column of the value and that of its version.
const COLUMNS: [(ApplicationState, &str, &str); 12] = [
    (ApplicationState::DC, "dc", "dc_version"),
    (ApplicationState::HOST_ID, "host_id", "host_id_version"),
    (ApplicationState::INTERNAL_ADDRESS_AND_PORT, "internal_address_and_port", "internal_address_and_port_version"),
    (ApplicationState::LOAD, "load", "load_version"),
    (ApplicationState::NATIVE_ADDRESS_AND_PORT, "native_address_and_port", "native_address_and_port_version"),
    (ApplicationState::NET_VERSION, "net_version", "net_version_version"),
    (ApplicationState::RACK, "rack", "rack_version"),
    (ApplicationState::RELEASE_VERSION, "release_version", "release_version_version"),
    (ApplicationState::RPC_READY, "rpc_ready", "rpc_ready_version"),
    (ApplicationState::SCHEMA, "schema", "schema_version"),
    (ApplicationState::SSTABLE_VERSIONS, "sstable_versions", "sstable_versions_version"),
    (ApplicationState::STATUS_WITH_PORT, "status_with_port", "status_with_port_version"),
];

/// Adds a row for each node.
pub(super) fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) {
    let version = |version: u32| int(i32::try_from(version).unwrap_or(i32::MAX));
    for (address, state) in shard.notifier().endpoints() {
        let mut row: Vec<Named<'_>> = vec![
            ("address", Some(inet(address.ip()))),
            ("port", int(i32::from(address.port()))),
            ("generation", version(state.generation)),
            ("heartbeat", version(state.heartbeat)),
            ("hostname", text(host_name(&address.ip().to_string()))),
        ];
        for (number, value_column, version_column) in COLUMNS {
            if let Some(value) = state.get(number) {
                row.push((value_column, text(&value.value)));
                row.push((version_column, version(value.version)));
            }
        }
        if let Some(tokens) = state.get(ApplicationState::TOKENS) {
            row.push(("tokens_version", version(tokens.version)));
        }
        rows.push(row);
    }
}
